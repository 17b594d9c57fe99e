//! The short way by an index against the general way: the same bytes, or none.

use helenus_engine::select::{DirectByIndex, SelectExecution};
use helenus_engine::term::BoundValues;
use helenus_engine::{CqlError, Plan, QueryOptions};
use helenus_protocol::request::Value;
use helenus_vfs::{Random, SeededRandom};

use crate::node::{Shards, options};

/// Bytes of a value, by its number.
type ValueOf = fn(u8) -> Vec<u8>;

/// Types of the indexed column, and the bytes of a value; several numbers have bytes that compare as equal.
const TYPES: [(&str, ValueOf); 4] = [
    ("int", |number| match number {
        0 => vec![],
        _ => i32::from(number / 2).to_be_bytes().to_vec(),
    }),
    ("text", |number| vec![b'a'; usize::from(number / 2)]),
    // 0, 0.0, 1, 1.0 and so on: a scale and the unscaled number.
    ("decimal", |number| match number % 2 {
        0 => vec![0, 0, 0, 0, number / 2],
        _ => vec![0, 0, 0, 1, number / 2 * 10],
    }),
    ("frozen<list<int>>", |number| {
        let element = [&4_i32.to_be_bytes()[..], &i32::from(number / 2).to_be_bytes()].concat();
        [&1_i32.to_be_bytes()[..], &element].concat()
    }),
];
const KEYS: &str = "abcdefgh";
const NUMBERS: u8 = 6;
/// Long enough for an index to have the token instead.
const LONG_KEY_BYTES: usize = 5_000;

fn below(random: &SeededRandom, bound: usize) -> usize {
    random.below(bound as u64) as usize
}

struct Table {
    shards: Shards,
    has_clustering: bool,
    value: ValueOf,
}

impl Table {
    fn new(random: &SeededRandom) -> Self {
        let mut shards = Shards::new(1);
        let has_clustering = random.below(2) == 0;
        let (name, value) = TYPES[below(random, TYPES.len())];
        let (columns, key) = match has_clustering {
            true => ("c text, s int static", "k, c"),
            false => ("c text", "k"),
        };
        let kind = match (name.starts_with("frozen"), random.below(2) == 0) {
            (true, _) => "INDEX ON t (full(v))".to_owned(),
            (false, is_legacy) => format!("INDEX ON t (v){}", if is_legacy { "" } else { " USING 'sai'" }),
        };
        let table = format!("CREATE TABLE t (k text, {columns}, v {name}, w blob, PRIMARY KEY ({key}))");
        for statement in [table, format!("CREATE {kind}")] {
            shards.execute(&statement, &options(None)).unwrap();
        }
        Table {
            shards,
            has_clustering,
            value,
        }
    }

    fn write(&mut self, random: &SeededRandom) {
        let letter = || KEYS[below(random, KEYS.len())..][..1].to_owned();
        let (mut key, clustering) = (letter(), letter());
        if random.below(64) == 0 {
            key = key.repeat(LONG_KEY_BYTES);
        }
        let row = match self.has_clustering {
            true => format!("k = '{key}' AND c = '{clustering}'"),
            false => format!("k = '{key}'"),
        };
        let value = (self.value)(random.below(NUMBERS.into()) as u8);
        let (statement, values) = match random.below(12) {
            0 => (format!("DELETE FROM t WHERE {row}"), vec![]),
            1 => (format!("DELETE FROM t WHERE k = '{key}'"), vec![]),
            2 => (format!("DELETE v FROM t WHERE {row}"), vec![]),
            3 if self.has_clustering => (format!("UPDATE t SET s = 1 WHERE k = '{key}'"), vec![]),
            4 => (format!("UPDATE t SET w = 0x01 WHERE {row}"), vec![]),
            _ => (format!("UPDATE t SET v = ? WHERE {row}"), vec![value]),
        };
        let prepared = self.shards.prepare(&statement).unwrap();
        let values = BoundValues::positional(values.iter().map(|value| Value::Bytes(value)));
        self.shards.run(&prepared, &values, &options(None)).unwrap();
    }

    /// Bytes of an answer without rows.
    fn empty_bytes(&mut self, statement: &str) -> usize {
        let other = (self.value)(NUMBERS);
        let values = BoundValues::positional([Value::Bytes(&other)]);
        self.general(statement, &values, &options(None)).unwrap().len()
    }

    fn general(
        &mut self,
        statement: &str,
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
    ) -> Result<Vec<u8>, CqlError> {
        let prepared = self.shards.prepare(statement).unwrap();
        let Plan::Select(plan) = &prepared.plan else {
            panic!("not a SELECT")
        };
        let mut execution = SelectExecution::new(plan, values, options, 1)?;
        while let Some(read) = execution.next_read()? {
            execution.absorb(plan.read_at_once(&mut self.shards.stores[0], options, read)?)?;
        }
        execution.finish()
    }

    fn short(
        &mut self,
        statement: &str,
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
        out: &mut Vec<u8>,
    ) -> DirectByIndex {
        let prepared = self.shards.prepare(statement).unwrap();
        let Plan::Select(plan) = &prepared.plan else {
            panic!("not a SELECT")
        };
        let Shards { stores, scratch, .. } = &mut self.shards;
        let answered = plan.execute_by_index(values, options, scratch, &mut stores[0], out);
        answered.unwrap()
    }
}

#[test]
fn the_short_way_by_an_index_answers_as_the_general_way() {
    let (mut answered, mut rows, mut left) = (0, 0, 0);
    for seed in 0..60 {
        let random = &SeededRandom::new(seed);
        let mut table = Table::new(random);
        for _ in 0..1 + random.below(120) {
            table.write(random);
        }
        for _ in 0..60 {
            let selected = ["*", "*", "k, v", "w, k", "v, v", "count(*)", "k, writetime(v)"];
            let selected = selected[below(random, selected.len())];
            let rest = match random.below(12) {
                0 => " LIMIT 1",
                1 => " LIMIT 3",
                2 => " PER PARTITION LIMIT 1",
                3 => " AND c > 'b' ALLOW FILTERING",
                _ => "",
            };
            let statement = format!("SELECT {selected} FROM t WHERE v = ?{rest}");
            let value = (table.value)(random.below(NUMBERS.into()) as u8);
            let value = match random.below(30) {
                0 => Value::Null,
                1 => Value::Unset,
                2 => Value::Bytes(&[]),
                _ => Value::Bytes(&value),
            };
            let values = BoundValues::positional([value]);
            let page_sizes = [None, Some(5_000), Some(5_000), Some(1), Some(3), Some(0)];
            let options = options(page_sizes[below(random, page_sizes.len())]);
            if table.shards.prepare(&statement).is_err() {
                continue;
            }
            let what = || format!("seed {seed}: {statement} with {value:?}, {:?}", options.page_size);
            let before = b"what others were answered".to_vec();
            let mut out = before.clone();
            let outcome = table.short(&statement, &values, &options, &mut out);
            let general = table.general(&statement, &values, &options);
            match outcome {
                DirectByIndex::Done => {
                    let body = &out[before.len()..];
                    assert_eq!(Some(body), general.as_deref().ok(), "{}", what());
                    let filtering = ["", " ALLOW FILTERING"][usize::from(!statement.ends_with("FILTERING"))];
                    let scan = format!("{statement}{filtering} WITH excluded_indexes = {{*}}");
                    let scanned = table.general(&scan, &values, &options).unwrap();
                    assert_eq!(body, scanned, "{}", what());
                    answered += 1;
                    rows += u32::from(body.len() > table.empty_bytes(&statement));
                }
                DirectByIndex::Long | DirectByIndex::Unsuitable => {
                    assert_eq!(out, before, "{}", what());
                    left += 1;
                }
            }
        }
    }
    assert!(
        answered > 700 && rows > 250 && left > 500,
        "{answered} {rows} {left}"
    );
}
