//! `ORDER BY v ANN OF ?` of a whole node: what is written is found at once, through everything that happens to the table, and
//! in the order of a model.

use std::collections::BTreeMap;
use std::sync::Arc;

use helenus_protocol::{Consistency, ErrorCode};
use helenus_storage::store::{CompactionKind, CompactionRequest};
use helenus_test_node::{Answer, Execution, TestNode, options};
use helenus_tools::host::Host;
use helenus_vector::Similarity;
use helenus_vector::sample::Sample;
use helenus_vfs::{Disk, MemoryDisk, SystemClock};

const KEYSPACE: &str =
    "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
const DIMENSION: usize = 4;
const PARTITIONS: u64 = 12;
const SIMILARITIES: [(&str, Similarity); 3] = [
    ("cosine", Similarity::Cosine),
    ("dot_product", Similarity::DotProduct),
    ("euclidean", Similarity::Euclidean),
];

/// Expected rows by key: the vectors of the columns a, b and c, which are indexed each by another similarity, and x.
type Model = BTreeMap<(i32, i32), ([Option<Vec<f32>>; 3], i32)>;

/// A small generator of numbers: the same from the same seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB) >> 16
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn vector(&mut self) -> Vec<f32> {
        (0..DIMENSION)
            .map(|_| self.below(2_001) as f32 / 1_000.0 - 1.0)
            .collect()
    }
}

fn start(disk: Arc<dyn Disk>, shard_count: u16) -> TestNode {
    TestNode::start(options(shard_count, disk, Arc::new(SystemClock::new()))).unwrap()
}

fn make_table(node: &TestNode) {
    node.run(KEYSPACE);
    let vector = format!("vector<float, {DIMENSION}>");
    node.run(&format!(
        "CREATE TABLE k.t (p int, c int, a {vector}, b {vector}, d {vector}, x int, PRIMARY KEY (p, c))"
    ));
    for (column, (similarity, _)) in ["a", "b", "d"].iter().zip(SIMILARITIES) {
        node.run(&format!(
            "CREATE INDEX ON k.t ({column}) USING 'sai' WITH OPTIONS = {{'similarity_function': '{similarity}'}}"
        ));
    }
    node.run("CREATE INDEX ON k.t (x) USING 'sai'");
}

fn literal(vector: &[f32]) -> String {
    let components: Vec<String> = vector.iter().map(f32::to_string).collect();
    format!("[{}]", components.join(", "))
}

fn change(node: &TestNode, model: &mut Model, random: &mut Random) {
    let key @ (p, c) = (random.below(PARTITIONS) as i32, random.below(5) as i32);
    match random.below(10) {
        0 => {
            node.run(&format!("DELETE FROM k.t WHERE p = {p} AND c = {c}"));
            model.remove(&key);
        }
        1 => {
            node.run(&format!("DELETE FROM k.t WHERE p = {p} AND c > {c}"));
            model.retain(|(other, clustering), _| *other != p || *clustering <= c);
        }
        2 => {
            node.run(&format!("DELETE a, b FROM k.t WHERE p = {p} AND c = {c}"));
            if let Some((vectors, _)) = model.get_mut(&key) {
                vectors[0] = None;
                vectors[1] = None;
            }
        }
        _ => {
            let vectors = [(); 3].map(|()| random.vector());
            let x = random.below(3) as i32;
            let [a, b, d] = [0, 1, 2].map(|index| literal(&vectors[index]));
            node.run(&format!(
                "INSERT INTO k.t (p, c, a, b, d, x) VALUES ({p}, {c}, {a}, {b}, {d}, {x})"
            ));
            model.insert(key, (vectors.map(Some), x));
        }
    }
}

fn keys_of(answer: &[Vec<Option<Vec<u8>>>]) -> Vec<(i32, i32)> {
    let number = |value: &Option<Vec<u8>>| i32::from_be_bytes(value.as_deref().unwrap().try_into().unwrap());
    answer
        .iter()
        .map(|row| (number(&row[0]), number(&row[1])))
        .collect()
}

/// Queries of every kind give what the model has.
fn check(node: &TestNode, model: &Model, random: &mut Random, when: &str) {
    for (place, column) in ["a", "b", "d"].into_iter().enumerate() {
        let similarity = SIMILARITIES[place].1;
        let (query, p, c, x) = (
            random.vector(),
            random.below(PARTITIONS) as i32,
            random.below(5) as i32,
            random.below(3) as i32,
        );
        let limit = 1 + random.below(20) as usize;
        type Matches = Box<dyn Fn((i32, i32), i32) -> bool>;
        let conditions: [(String, Matches); 5] = [
            (String::new(), Box::new(|_, _| true)),
            (format!("WHERE x = {x}"), Box::new(move |_, other| other == x)),
            (format!("WHERE p = {p}"), Box::new(move |key, _| key.0 == p)),
            (
                format!("WHERE p = {p} AND c >= {c}"),
                Box::new(move |key, _| key.0 == p && key.1 >= c),
            ),
            (
                format!("WHERE p = {p} AND x = {x}"),
                Box::new(move |key, other| key.0 == p && other == x),
            ),
        ];
        for (condition, matches) in conditions {
            let mut expected: Vec<(f32, (i32, i32))> = model
                .iter()
                .filter(|(key, (_, x))| matches(**key, *x))
                .filter_map(|(key, (vectors, _))| {
                    let vector = vectors[place].as_ref()?;
                    let is_there = similarity.fault(vector).is_none();
                    is_there.then(|| (similarity.closeness(&query, vector), *key))
                })
                .collect();
            expected.sort_by(|left, right| right.0.total_cmp(&left.0));
            expected.truncate(limit);
            let statement = format!(
                "SELECT p, c FROM k.t {condition} ORDER BY {column} ANN OF {} LIMIT {limit}",
                literal(&query)
            );
            let expected: Vec<(i32, i32)> = expected.into_iter().map(|(_, key)| key).collect();
            assert_eq!(keys_of(&node.rows(&statement)), expected, "{when}: {statement}");
        }
    }
}

#[test]
fn what_is_written_is_found_at_once_through_flushes_compactions_and_crashes() {
    for shard_count in [1, 3] {
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        let mut node = start(disk, shard_count);
        make_table(&node);
        let (mut model, mut random) = (Model::new(), Random(u64::from(shard_count)));
        check(&node, &model, &mut random, "an empty table");
        for round in 0..16 {
            for _ in 0..15 {
                change(&node, &mut model, &mut random);
            }
            check(&node, &model, &mut random, &format!("round {round}"));
            match round % 4 {
                0 => {
                    node.operator().flush(None).unwrap();
                }
                1 => {
                    let operator = node.operator();
                    let table = operator.schema().unwrap().table("k", "t").unwrap().id;
                    let kind = CompactionKind::Major { split_output: false };
                    operator.compact(CompactionRequest { table, kind }).unwrap();
                }
                2 => {
                    node.crash();
                    node.start_again().unwrap();
                }
                _ => node.restart().unwrap(),
            }
            check(&node, &model, &mut random, &format!("after round {round}"));
        }
        node.run("TRUNCATE k.t");
        model.clear();
        check(&node, &model, &mut random, "a truncated table");
        change(&node, &mut model, &mut random);
        check(&node, &model, &mut random, "the first rows after it");
    }
}

/// Rows that no path of the graph leads to were missing from an answer with fewer rows than its LIMIT, where as many others were
/// found gone.
#[test]
fn rows_without_a_path_are_found_where_others_are_gone() {
    let node = start(Arc::new(MemoryDisk::new()), 1);
    make_table(&node);
    let mut random = Random(1);
    let mut write = |p: i32, count: i32| {
        for c in 0..count {
            let vector = literal(&random.vector());
            node.run(&format!("INSERT INTO k.t (p, c, b) VALUES ({p}, {c}, {vector})"));
        }
        while node.on_shard(0, |shard| shard.unlinked_vectors()) > 0 {
            std::thread::yield_now();
        }
    };
    // The only way into the graph leads over a row that is gone.
    write(0, 1);
    node.run("DELETE FROM k.t WHERE p = 0 AND c = 0");
    write(1, 24);
    write(2, 24);
    node.run("DELETE FROM k.t WHERE p = 2");
    let found = node.rows("SELECT p, c FROM k.t ORDER BY b ANN OF [1, 1, 1, 1] LIMIT 1000");
    assert_eq!(found.len(), 24);
}

fn error(answer: Answer) -> (ErrorCode, String) {
    match answer {
        Answer::Error { code, message } => (code, message),
        other => panic!("{other:?}"),
    }
}

#[test]
fn vectors_that_have_no_place_are_refused_where_cassandra_fails() {
    let node = start(Arc::new(MemoryDisk::new()), 1);
    make_table(&node);
    let zero = "Zero vectors cannot be indexed or queried with cosine similarity";
    for (statement, text) in [
        ("INSERT INTO k.t (p, c, a) VALUES (1, 1, [0, 0, 0, 0])", zero),
        ("UPDATE k.t SET a = [0, 0, 0, 0] WHERE p = 1 AND c = 1", zero),
        (
            "INSERT INTO k.t (p, c, a) VALUES (1, 1, [0, 0, 0, 0]) IF NOT EXISTS",
            zero,
        ),
        (
            "INSERT INTO k.t (p, c, d) VALUES (1, 1, [0, NaN, 0, 0])",
            "non-finite value at vector[1]=NaN",
        ),
        (
            "INSERT INTO k.t (p, c, b) VALUES (1, 1, [0, 0, 0, -Infinity])",
            "non-finite value at vector[3]=-Infinity",
        ),
        (
            "INSERT INTO k.t (p, c, b) VALUES (1, 1, [1e30, 0, 0, 0])",
            "Out-of-bounds value at vector[0]=1E30",
        ),
        ("SELECT p FROM k.t ORDER BY a ANN OF [0, 0, 0, 0] LIMIT 1", zero),
        (
            "SELECT p FROM k.t ORDER BY d ANN OF [0, NaN, 0, 0] LIMIT 1",
            "non-finite value at vector[1]=NaN",
        ),
    ] {
        let told = error(node.execute(statement));
        assert_eq!(told, (ErrorCode::Invalid, text.to_owned()), "{statement}");
    }
    node.run("INSERT INTO k.t (p, c, d) VALUES (1, 1, [0, 0, 0, 0])");
    assert_eq!(node.rows("SELECT p, c FROM k.t").len(), 1);
}

#[test]
fn vectors_from_before_an_index_that_has_no_place_for_them_are_not_found() {
    let node = start(Arc::new(MemoryDisk::new()), 2);
    node.run(KEYSPACE);
    node.run("CREATE TABLE k.t (p int PRIMARY KEY, v vector<float, 2>)");
    node.run("INSERT INTO k.t (p, v) VALUES (1, [0, 0])");
    node.run("INSERT INTO k.t (p, v) VALUES (2, [NaN, 0])");
    node.run("INSERT INTO k.t (p, v) VALUES (3, [0, 1])");
    node.run("CREATE INDEX ON k.t (v) USING 'sai'");
    assert_eq!(
        node.rows("SELECT p FROM k.t ORDER BY v ANN OF [1, 1] LIMIT 9")
            .len(),
        1
    );
    assert_eq!(node.rows("SELECT p FROM k.t").len(), 3);
}

#[test]
fn clients_are_told_what_is_not_as_they_asked() {
    let node = start(Arc::new(MemoryDisk::new()), 1);
    make_table(&node);
    for p in 0..3 {
        node.run(&format!(
            "INSERT INTO k.t (p, c, d) VALUES ({p}, 0, [{p}, 0, 0, 0])"
        ));
    }
    let query = "SELECT p FROM k.t ORDER BY d ANN OF [0, 0, 0, 0] LIMIT 3";
    let asked = |execution: Execution| match node.execute_with(query, &execution) {
        Answer::Rows(rows) => rows,
        other => panic!("{other:?}"),
    };
    let paged = asked(Execution {
        page_size: Some(2),
        ..Execution::default()
    });
    assert_eq!((paged.rows.len(), &paged.paging_state), (3, &None));
    let text = "Top-K queries do not support paging and the page size is set to 2, which is less than LIMIT 3. The \
                page size has been set to 3 to match the LIMIT.";
    assert_eq!(paged.warnings, [text]);
    let lowered = asked(Execution {
        consistency: Some(Consistency::LocalQuorum),
        ..Execution::default()
    });
    let text = "Top-K queries can only be run with consistency level ONE / LOCAL_ONE / NODE_LOCAL. Consistency level \
                LOCAL_QUORUM was requested. Downgrading the consistency level to LOCAL_ONE.";
    assert_eq!(lowered.warnings, [text]);
    let serial = Execution {
        consistency: Some(Consistency::Serial),
        ..Execution::default()
    };
    let (_, message) = error(node.execute_with(query, &serial));
    let text = "Top-K queries can only be run with consistency level ONE/LOCAL_ONE. Consistency level SERIAL was used.";
    assert_eq!(message, text);
}

/// Row beside a static vector: all rows of the partition are as near as that is.
#[test]
fn a_static_vector_is_that_of_all_rows_of_its_partition() {
    let node = start(Arc::new(MemoryDisk::new()), 2);
    node.run(KEYSPACE);
    node.run("CREATE TABLE k.t (p int, c int, v vector<float, 2> STATIC, x int, PRIMARY KEY (p, c))");
    node.run(
        "CREATE INDEX ON k.t (v) USING 'vector_index' WITH OPTIONS = {'similarity_function': 'DOT_PRODUCT'}",
    );
    for (p, c) in [(1, 1), (1, 2), (2, 1)] {
        node.run(&format!("INSERT INTO k.t (p, c, x) VALUES ({p}, {c}, 1)"));
    }
    for p in 1..4 {
        node.run(&format!("UPDATE k.t SET v = [{p}, 1] WHERE p = {p}"));
    }
    let rows = node.rows("SELECT p, c FROM k.t ORDER BY v ANN OF [1, 0] LIMIT 9");
    assert_eq!(keys_of(&rows), [(2, 1), (1, 1), (1, 2)]);
}

/// Rows that are near are found among many, whether they were just written, changed, or read again after a start; beside filters
/// that one, ten or fifty of a hundred rows match.
#[test]
fn nineteen_of_twenty_nearest_rows_are_found_among_many() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let mut node = start(disk, 2);
    node.run(KEYSPACE);
    node.run("CREATE TABLE k.t (p int PRIMARY KEY, v vector<float, 16>, one int, ten int, half int)");
    node.run("CREATE INDEX ON k.t (v) USING 'sai' WITH OPTIONS = {'similarity_function': 'euclidean'}");
    for column in ["one", "ten", "half"] {
        node.run(&format!("CREATE INDEX ON k.t ({column}) USING 'sai'"));
    }
    let mut sample = Sample::descriptors(16, 20, 1);
    let mut vectors = BTreeMap::new();
    let write = |node: &TestNode, vectors: &mut BTreeMap<i32, Vec<f32>>, p: i32, vector: Vec<f32>| {
        let (one, ten, half) = (p % 100 == 7, p % 10 == 3, p % 2 == 0);
        node.run(&format!(
            "INSERT INTO k.t (p, v, one, ten, half) VALUES ({p}, {}, {}, {}, {})",
            literal(&vector),
            i32::from(one),
            i32::from(ten),
            i32::from(half)
        ));
        vectors.insert(p, vector);
    };
    for p in 0..3_000 {
        write(&node, &mut vectors, p, sample.vector());
    }
    let mut check = |node: &TestNode, vectors: &BTreeMap<i32, Vec<f32>>, when: &str, wanted: f64| {
        for (condition, nth) in [
            ("", 0),
            ("WHERE one = 1", 1),
            ("WHERE ten = 1", 2),
            ("WHERE half = 1", 3),
        ] {
            let matches = |p: i32| [true, p % 100 == 7, p % 10 == 3, p % 2 == 0][nth];
            let (mut found, mut expected) = (0, 0);
            for _ in 0..12 {
                let query = sample.vector();
                let mut exact: Vec<(f32, i32)> = vectors
                    .iter()
                    .filter(|(p, _)| matches(**p))
                    .map(|(p, vector)| (Similarity::Euclidean.closeness(&query, vector), *p))
                    .collect();
                exact.sort_by(|left, right| right.0.total_cmp(&left.0));
                exact.truncate(10);
                let rows = node.rows(&format!(
                    "SELECT p, p FROM k.t {condition} ORDER BY v ANN OF {} LIMIT 10",
                    literal(&query)
                ));
                assert_eq!(rows.len(), exact.len(), "{when}, {condition}: LIMIT is filled");
                let rows = keys_of(&rows);
                expected += exact.len();
                found += exact.iter().filter(|(_, p)| rows.contains(&(*p, *p))).count();
            }
            let recall = f64::from(found as u32) / f64::from(expected as u32);
            assert!(recall >= wanted, "{when}, {condition}: {recall}");
        }
    };
    check(&node, &vectors, "just written", 0.95);
    for p in 0..3_000 {
        match p % 10 {
            0..3 => {
                node.run(&format!("DELETE FROM k.t WHERE p = {p}"));
                vectors.remove(&p);
            }
            3..6 => {
                let vector = vectors[&p].clone();
                let vector = vector.iter().map(|component| component + 1.5).collect();
                write(&node, &mut vectors, p, vector);
            }
            _ => {}
        }
    }
    check(&node, &vectors, "changed", 0.94);
    node.operator().flush(None).unwrap();
    check(&node, &vectors, "flushed", 0.94);
    node.restart().unwrap();
    check(&node, &vectors, "right after a start", 0.94);
}
