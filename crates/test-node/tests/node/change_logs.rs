//! Change logs (ScyllaDB's CDC): what they tell of writes, and that it is what was written, also after crashes. The examples are those of
//! ScyllaDB's documentation.

use std::sync::Arc;
use std::time::Instant;

use helenus_protocol::ErrorCode;
use helenus_test_node::{Answer, Execution, TestNode, options};
use helenus_tools::host::Host;
use helenus_types::token_of;
use helenus_vfs::{Disk, ManualClock, MemoryDisk, Random, SeededRandom, SimulatedDisk, SystemClock};

const KEYSPACE: &str =
    "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";

fn node_with(table: &str) -> TestNode {
    let node = TestNode::with_shards(2);
    node.run(KEYSPACE);
    node.run(table);
    node
}

/// Rows of the log of `k.t`, as JSON, in its order, which within one stream is that of their times.
fn log(node: &TestNode, columns: &str) -> Vec<String> {
    let rows = node.rows(&format!("SELECT JSON {columns} FROM k.t_scylla_cdc_log"));
    rows.into_iter()
        .map(|row| String::from_utf8(row[0].clone().unwrap()).unwrap())
        .map(|json| json.replace("\"cdc$", "\""))
        .collect()
}

fn check_log(node: &TestNode, columns: &str, expected: &[&str]) {
    assert_eq!(log(node, columns), expected, "{columns}");
}

fn refusal(node: &TestNode, statement: &str) -> String {
    match node.execute(statement) {
        Answer::Error { message, .. } => message,
        answer => panic!("{statement}: {answer:?}"),
    }
}

#[test]
fn updates_tell_what_they_set() {
    let node = node_with(
        "CREATE TABLE k.t (pk int, ck int, v1 int, v2 int, PRIMARY KEY (pk, ck)) WITH cdc = {'enabled': 'true'}",
    );
    node.run("UPDATE k.t SET v1 = 0 WHERE pk = 0 AND ck = 0");
    node.run("UPDATE k.t SET v2 = null WHERE pk = 0 AND ck = 0");
    node.run("DELETE v1 FROM k.t WHERE pk = 0 AND ck = 0");
    let columns = r#""cdc$batch_seq_no", pk, ck, v1, "cdc$deleted_v1", v2, "cdc$deleted_v2", "cdc$operation", "cdc$end_of_batch""#;
    check_log(
        &node,
        columns,
        &[
            r#"{"batch_seq_no": 0, "pk": 0, "ck": 0, "v1": 0, "deleted_v1": null, "v2": null, "deleted_v2": null, "operation": 1, "end_of_batch": true}"#,
            r#"{"batch_seq_no": 0, "pk": 0, "ck": 0, "v1": null, "deleted_v1": null, "v2": null, "deleted_v2": true, "operation": 1, "end_of_batch": true}"#,
            r#"{"batch_seq_no": 0, "pk": 0, "ck": 0, "v1": null, "deleted_v1": true, "v2": null, "deleted_v2": null, "operation": 1, "end_of_batch": true}"#,
        ],
    );
}

#[test]
fn inserts_static_rows_and_deletions_are_told_apart() {
    let node = node_with(
        "CREATE TABLE k.t (pk int, ck int, s int static, c int, PRIMARY KEY (pk, ck)) WITH cdc = {'enabled': true}",
    );
    node.run("INSERT INTO k.t (pk, ck, c) VALUES (0, 1, 2)");
    node.run("UPDATE k.t SET s = 0, c = 0 WHERE pk = 0 AND ck = 0");
    node.run("DELETE FROM k.t WHERE pk = 0 AND ck = 0");
    node.run("DELETE FROM k.t WHERE pk = 0 AND ck <= 2 AND ck > 0");
    node.run("DELETE FROM k.t WHERE pk = 0 AND ck < 3");
    node.run("DELETE FROM k.t WHERE pk = 0");
    let columns = r#""cdc$batch_seq_no", pk, ck, s, c, "cdc$operation""#;
    check_log(
        &node,
        columns,
        &[
            r#"{"batch_seq_no": 0, "pk": 0, "ck": 1, "s": null, "c": 2, "operation": 2}"#,
            r#"{"batch_seq_no": 0, "pk": 0, "ck": 0, "s": null, "c": 0, "operation": 1}"#,
            r#"{"batch_seq_no": 1, "pk": 0, "ck": null, "s": 0, "c": null, "operation": 1}"#,
            r#"{"batch_seq_no": 0, "pk": 0, "ck": 0, "s": null, "c": null, "operation": 3}"#,
            r#"{"batch_seq_no": 0, "pk": 0, "ck": 0, "s": null, "c": null, "operation": 6}"#,
            r#"{"batch_seq_no": 1, "pk": 0, "ck": 2, "s": null, "c": null, "operation": 7}"#,
            r#"{"batch_seq_no": 0, "pk": 0, "ck": null, "s": null, "c": null, "operation": 5}"#,
            r#"{"batch_seq_no": 1, "pk": 0, "ck": 3, "s": null, "c": null, "operation": 8}"#,
            r#"{"batch_seq_no": 0, "pk": 0, "ck": null, "s": null, "c": null, "operation": 4}"#,
        ],
    );
}

#[test]
fn ranges_of_several_columns_name_the_columns_that_they_have() {
    let node = node_with(
        "CREATE TABLE k.t (pk int, ck1 int, ck2 int, ck3 int, v int, PRIMARY KEY (pk, ck1, ck2, ck3)) WITH cdc = \
         {'enabled': true}",
    );
    node.run("DELETE FROM k.t WHERE pk = 0 AND ck1 = 0 AND ck2 > 0 AND ck2 < 3");
    check_log(
        &node,
        r#"ck1, ck2, ck3, "cdc$operation""#,
        &[
            r#"{"ck1": 0, "ck2": 0, "ck3": null, "operation": 6}"#,
            r#"{"ck1": 0, "ck2": 3, "ck3": null, "operation": 8}"#,
        ],
    );
}

#[test]
fn what_lives_for_a_time_is_told_apart_from_what_is_deleted() {
    let node = node_with(
        "CREATE TABLE k.t (pk int, ck int, a int, b int, PRIMARY KEY (pk, ck)) WITH cdc = {'enabled': true}",
    );
    node.run("UPDATE k.t USING TTL 5 SET a = 0, b = null WHERE pk = 0 AND ck = 0");
    node.run("INSERT INTO k.t (pk, ck, a) VALUES (0, 0, 1) USING TTL 7");
    check_log(
        &node,
        r#""cdc$batch_seq_no", a, "cdc$deleted_a", b, "cdc$deleted_b", "cdc$ttl", "cdc$operation", "cdc$end_of_batch""#,
        &[
            r#"{"batch_seq_no": 0, "a": null, "deleted_a": null, "b": null, "deleted_b": true, "ttl": null, "operation": 1, "end_of_batch": null}"#,
            r#"{"batch_seq_no": 1, "a": 0, "deleted_a": null, "b": null, "deleted_b": null, "ttl": 5, "operation": 1, "end_of_batch": true}"#,
            r#"{"batch_seq_no": 0, "a": 1, "deleted_a": null, "b": null, "deleted_b": null, "ttl": 7, "operation": 2, "end_of_batch": true}"#,
        ],
    );
}

/// Microseconds since 1970 of a time uuid.
fn micros(uuid: &[u8]) -> i64 {
    let bytes: [u8; 16] = uuid.try_into().unwrap();
    let word = u128::from_be_bytes(bytes) >> 64;
    let ticks = (word & 0xfff) << 48 | (word >> 16 & 0xffff) << 32 | word >> 32;
    (ticks as i64 - 0x01b2_1dd2_1381_4000).div_euclid(10)
}

#[test]
fn a_batch_is_one_time_and_each_timestamp_another() {
    let node = node_with(
        "CREATE TABLE k.t (pk int, ck int, a int, PRIMARY KEY (pk, ck)) WITH cdc = {'enabled': true}",
    );
    node.run(
        "BEGIN UNLOGGED BATCH UPDATE k.t SET a = 0 WHERE pk = 0 AND ck = 0; UPDATE k.t SET a = 0 WHERE pk = 0 AND \
         ck = 1; APPLY BATCH",
    );
    let times = |node: &TestNode| -> Vec<(Vec<u8>, i32)> {
        let rows = node.rows(r#"SELECT "cdc$time", "cdc$batch_seq_no" FROM k.t_scylla_cdc_log"#);
        let value = |value: &Option<Vec<u8>>| value.clone().unwrap();
        rows.iter()
            .map(|row| {
                (
                    value(&row[0]),
                    i32::from_be_bytes(value(&row[1]).try_into().unwrap()),
                )
            })
            .collect()
    };
    let batch = times(&node);
    assert_eq!(batch.len(), 2);
    assert_eq!(batch[0].0, batch[1].0);
    assert_eq!((batch[0].1, batch[1].1), (0, 1));
    let written = node.rows("SELECT writetime(a) FROM k.t WHERE pk = 0 AND ck = 0");
    let written = i64::from_be_bytes(written[0][0].clone().unwrap().try_into().unwrap());
    assert_eq!(micros(&batch[0].0), written);

    node.run("TRUNCATE k.t_scylla_cdc_log");
    node.run(
        "BEGIN UNLOGGED BATCH UPDATE k.t USING TIMESTAMP 1584971217889332 SET a = 0 WHERE pk = 0 AND ck = 0; UPDATE \
         k.t USING TIMESTAMP 1584971217889333 SET a = 0 WHERE pk = 0 AND ck = 1; APPLY BATCH",
    );
    let two: Vec<(i64, i32)> = times(&node)
        .iter()
        .map(|(time, number)| (micros(time), *number))
        .collect();
    assert_eq!(two, [(1584971217889332, 0), (1584971217889333, 0)]);

    node.run("TRUNCATE k.t_scylla_cdc_log");
    // Two writes of one time, and times that no time uuid has.
    node.run("UPDATE k.t USING TIMESTAMP 5 SET a = 1 WHERE pk = 0 AND ck = 0");
    node.run("UPDATE k.t USING TIMESTAMP 5 SET a = 2 WHERE pk = 0 AND ck = 0");
    node.run("UPDATE k.t USING TIMESTAMP 9223372036854775807 SET a = 3 WHERE pk = 0 AND ck = 0");
    node.run(
        "BEGIN UNLOGGED BATCH UPDATE k.t USING TIMESTAMP 9223372036854775806 SET a = 4 WHERE pk = 0 AND ck = 0; UPDATE \
         k.t USING TIMESTAMP 9223372036854775805 SET a = 5 WHERE pk = 0 AND ck = 0; APPLY BATCH",
    );
    let mut values: Vec<String> = log(&node, "a");
    values.sort();
    let expected: Vec<String> = (1..=5).map(|a| format!("{{\"a\": {a}}}")).collect();
    assert_eq!(values, expected);
}

#[test]
fn collections_tell_of_their_elements() {
    let node = TestNode::with_shards(1);
    node.run(KEYSPACE);
    node.run("CREATE TYPE k.ut (a int, b int, c int)");
    node.run(
        "CREATE TABLE k.t (pk int, m map<int, text>, s set<int>, l list<int>, u ut, f frozen<list<int>>, PRIMARY KEY \
         (pk)) WITH cdc = {'enabled': true}",
    );
    for set in [
        "m = m + {1: 'v1', 2: 'v2'}",
        "m = m - {1, 2, 3}",
        "m = {}",
        "m = {1: 'v1'}",
        "s = s + {1, 2}",
        "s = s - {2}",
        "s = {3}",
        "u = {a: 1, c: 3}",
        "u.b = 5",
        "u.b = null",
        "f = [1, 2]",
    ] {
        node.run(&format!("UPDATE k.t SET {set} WHERE pk = 0"));
    }
    let columns = |name: &str| format!(r#"{name}, "cdc$deleted_{name}", "cdc$deleted_elements_{name}""#);
    let told = |name: &str| -> Vec<String> {
        let none = format!(r#"{{"{name}": null, "deleted_{name}": null, "deleted_elements_{name}": null}}"#);
        let mut told = log(&node, &columns(name));
        told.retain(|row| *row != none);
        told
    };
    assert_eq!(
        told("m"),
        [
            r#"{"m": {"1": "v1", "2": "v2"}, "deleted_m": null, "deleted_elements_m": null}"#,
            r#"{"m": null, "deleted_m": null, "deleted_elements_m": [1, 2, 3]}"#,
            r#"{"m": null, "deleted_m": true, "deleted_elements_m": null}"#,
            r#"{"m": {"1": "v1"}, "deleted_m": true, "deleted_elements_m": null}"#,
        ]
    );
    assert_eq!(
        told("s"),
        [
            r#"{"s": [1, 2], "deleted_s": null, "deleted_elements_s": null}"#,
            r#"{"s": null, "deleted_s": null, "deleted_elements_s": [2]}"#,
            r#"{"s": [3], "deleted_s": true, "deleted_elements_s": null}"#,
        ]
    );
    assert_eq!(
        told("u"),
        [
            r#"{"u": {"a": 1, "b": null, "c": 3}, "deleted_u": true, "deleted_elements_u": null}"#,
            r#"{"u": {"a": null, "b": 5, "c": null}, "deleted_u": null, "deleted_elements_u": null}"#,
            r#"{"u": null, "deleted_u": null, "deleted_elements_u": [1]}"#,
        ]
    );
    let frozen = log(&node, "f");
    assert_eq!(frozen.last().unwrap(), r#"{"f": [1, 2]}"#);
}

#[test]
fn lists_tell_of_the_places_of_their_elements() {
    let node = node_with("CREATE TABLE k.t (pk int PRIMARY KEY, l list<int>) WITH cdc = {'enabled': true}");
    node.run("UPDATE k.t SET l = l + [1, 2, 1, 3] WHERE pk = 0");
    node.run("UPDATE k.t SET l = l - [1] WHERE pk = 0");
    let rows = node.rows(r#"SELECT l, "cdc$deleted_elements_l" FROM k.t_scylla_cdc_log"#);
    let [added, deleted] = &rows[..] else {
        panic!("{rows:?}");
    };
    // A map: a count, then each of four time uuids and integers behind its length.
    let added = added[0].as_ref().unwrap();
    assert_eq!(
        (added.len(), &added[..4]),
        (4 + 4 * (4 + 16 + 4 + 4), &[0, 0, 0, 4][..])
    );
    let places: Vec<&[u8]> = (0..4)
        .map(|place| &added[8 + place * 28..24 + place * 28])
        .collect();
    let deleted = deleted[1].as_ref().unwrap();
    assert_eq!(
        (deleted.len(), &deleted[..4]),
        (4 + 2 * (4 + 16), &[0, 0, 0, 2][..])
    );
    assert_eq!([&deleted[8..24], &deleted[28..44]], [places[0], places[2]]);
}

#[test]
fn images_show_rows_before_and_after() {
    let node = node_with(
        "CREATE TABLE k.t (pk int, ck int, v1 int, v2 int, PRIMARY KEY (pk, ck)) WITH cdc = {'enabled': true, \
         'preimage': 'full', 'postimage': true}",
    );
    node.run("UPDATE k.t SET v1 = 0 WHERE pk = 0 AND ck = 0");
    node.run("INSERT INTO k.t (pk, ck, v2) VALUES (0, 0, 0)");
    node.run("DELETE FROM k.t WHERE pk = 0 AND ck = 0");
    node.run("DELETE FROM k.t WHERE pk = 0 AND ck >= 1 AND ck < 2");
    node.run("DELETE FROM k.t WHERE pk = 0");
    check_log(
        &node,
        r#""cdc$batch_seq_no", "cdc$operation", ck, v1, v2, "cdc$deleted_v2""#,
        &[
            r#"{"batch_seq_no": 0, "operation": 1, "ck": 0, "v1": 0, "v2": null, "deleted_v2": null}"#,
            r#"{"batch_seq_no": 1, "operation": 9, "ck": 0, "v1": 0, "v2": null, "deleted_v2": null}"#,
            r#"{"batch_seq_no": 0, "operation": 0, "ck": 0, "v1": 0, "v2": null, "deleted_v2": true}"#,
            r#"{"batch_seq_no": 1, "operation": 2, "ck": 0, "v1": null, "v2": 0, "deleted_v2": null}"#,
            r#"{"batch_seq_no": 2, "operation": 9, "ck": 0, "v1": 0, "v2": 0, "deleted_v2": null}"#,
            r#"{"batch_seq_no": 0, "operation": 0, "ck": 0, "v1": 0, "v2": 0, "deleted_v2": null}"#,
            r#"{"batch_seq_no": 1, "operation": 3, "ck": 0, "v1": null, "v2": null, "deleted_v2": null}"#,
            r#"{"batch_seq_no": 0, "operation": 5, "ck": 1, "v1": null, "v2": null, "deleted_v2": null}"#,
            r#"{"batch_seq_no": 1, "operation": 8, "ck": 2, "v1": null, "v2": null, "deleted_v2": null}"#,
            r#"{"batch_seq_no": 0, "operation": 4, "ck": null, "v1": null, "v2": null, "deleted_v2": null}"#,
        ],
    );
}

/// A batch of thousands of rows of a partition, each with its images, held its shard for seconds: each row was looked for among all.
#[test]
fn images_of_many_rows_take_as_long_as_there_are_rows() {
    let node = node_with(
        "CREATE TABLE k.t (pk int, ck int, v int, PRIMARY KEY (pk, ck)) WITH cdc = {'enabled': true, 'preimage': true, \
         'postimage': true}",
    );
    let took = |rows: u32| {
        let members =
            (0..rows).map(|ck| format!("UPDATE k.t SET v = {rows} WHERE pk = {rows} AND ck = {ck};"));
        let text = format!("BEGIN UNLOGGED BATCH {} APPLY BATCH", members.collect::<String>());
        // The first has no rows to show as they were.
        node.run(&text);
        let runs = (0..3).map(|_| {
            let began = Instant::now();
            node.run(&text);
            began.elapsed()
        });
        runs.min().unwrap()
    };
    let (few, many) = (took(500), took(8_000));
    // Sixteen times as many; each among all would be 256 times as long.
    assert!(many < 48 * few, "{few:?} and {many:?}");
    assert_eq!(log(&node, "v").len(), 4 * 3 * 8_500 - 8_500);
}

/// Rows that memory does not have whole are read on the way of several steps.
#[test]
fn images_of_collections_and_statics_are_of_what_the_write_changes() {
    let node = node_with(
        "CREATE TABLE k.t (pk int, ck int, s int static, v1 int, v map<int, int>, PRIMARY KEY (pk, ck)) WITH cdc = \
         {'enabled': true, 'preimage': true, 'postimage': true}",
    );
    for statement in [
        "UPDATE k.t SET v = {1: 1, 2: 2} WHERE pk = 0 AND ck = 0",
        "UPDATE k.t SET v = v + {3: 3}, v = v - {2} WHERE pk = 0 AND ck = 0",
        "UPDATE k.t SET v = {4: 4} WHERE pk = 0 AND ck = 0",
        "UPDATE k.t SET s = 1 WHERE pk = 0",
        "UPDATE k.t SET s = 2, v1 = 1 WHERE pk = 0 AND ck = 0",
    ] {
        node.run(statement);
        node.operator().flush(None).unwrap();
    }
    check_log(
        &node,
        r#""cdc$operation", ck, s, v1, "cdc$deleted_v1", v, "cdc$deleted_elements_v", "cdc$deleted_v""#,
        &[
            r#"{"operation": 1, "ck": 0, "s": null, "v1": null, "deleted_v1": null, "v": {"1": 1, "2": 2}, "deleted_elements_v": null, "deleted_v": true}"#,
            r#"{"operation": 9, "ck": 0, "s": null, "v1": null, "deleted_v1": null, "v": {"1": 1, "2": 2}, "deleted_elements_v": null, "deleted_v": null}"#,
            r#"{"operation": 0, "ck": 0, "s": null, "v1": null, "deleted_v1": null, "v": {"1": 1, "2": 2}, "deleted_elements_v": null, "deleted_v": null}"#,
            r#"{"operation": 1, "ck": 0, "s": null, "v1": null, "deleted_v1": null, "v": {"3": 3}, "deleted_elements_v": [2], "deleted_v": null}"#,
            r#"{"operation": 9, "ck": 0, "s": null, "v1": null, "deleted_v1": null, "v": {"1": 1, "3": 3}, "deleted_elements_v": null, "deleted_v": null}"#,
            r#"{"operation": 0, "ck": 0, "s": null, "v1": null, "deleted_v1": null, "v": {"1": 1, "3": 3}, "deleted_elements_v": null, "deleted_v": null}"#,
            r#"{"operation": 1, "ck": 0, "s": null, "v1": null, "deleted_v1": null, "v": {"4": 4}, "deleted_elements_v": null, "deleted_v": true}"#,
            r#"{"operation": 9, "ck": 0, "s": null, "v1": null, "deleted_v1": null, "v": {"4": 4}, "deleted_elements_v": null, "deleted_v": null}"#,
            r#"{"operation": 1, "ck": null, "s": 1, "v1": null, "deleted_v1": null, "v": null, "deleted_elements_v": null, "deleted_v": null}"#,
            r#"{"operation": 9, "ck": null, "s": 1, "v1": null, "deleted_v1": null, "v": null, "deleted_elements_v": null, "deleted_v": null}"#,
            r#"{"operation": 0, "ck": 0, "s": null, "v1": null, "deleted_v1": true, "v": null, "deleted_elements_v": null, "deleted_v": null}"#,
            r#"{"operation": 0, "ck": null, "s": 1, "v1": null, "deleted_v1": null, "v": null, "deleted_elements_v": null, "deleted_v": null}"#,
            r#"{"operation": 1, "ck": 0, "s": null, "v1": 1, "deleted_v1": null, "v": null, "deleted_elements_v": null, "deleted_v": null}"#,
            r#"{"operation": 1, "ck": null, "s": 2, "v1": null, "deleted_v1": null, "v": null, "deleted_elements_v": null, "deleted_v": null}"#,
            r#"{"operation": 9, "ck": 0, "s": null, "v1": 1, "deleted_v1": null, "v": {"4": 4}, "deleted_elements_v": null, "deleted_v": null}"#,
            r#"{"operation": 9, "ck": null, "s": 2, "v1": null, "deleted_v1": null, "v": null, "deleted_elements_v": null, "deleted_v": null}"#,
        ],
    );
}

#[test]
fn a_log_of_keys_has_nothing_else_and_its_rows_expire() {
    let clock = Arc::new(ManualClock::starting_at(1_000_000_000));
    clock.advance_s(1_000);
    let node = TestNode::start(options(1, Arc::new(MemoryDisk::new()), clock.clone())).unwrap();
    node.run(KEYSPACE);
    node.run(
        "CREATE TABLE k.t (pk int PRIMARY KEY, v int) WITH cdc = {'enabled': true, 'delta': 'keys', 'ttl': 100}",
    );
    node.run("INSERT INTO k.t (pk, v) VALUES (1, 2) USING TTL 1000");
    check_log(
        &node,
        r#"pk, v, "cdc$operation", "cdc$ttl""#,
        &[r#"{"pk": 1, "v": null, "operation": 2, "ttl": 1000}"#],
    );
    clock.advance_s(99);
    assert_eq!(log(&node, "pk").len(), 1);
    clock.advance_s(1);
    assert!(log(&node, "pk").is_empty());
    assert_eq!(node.rows("SELECT v FROM k.t").len(), 1);
}

/// A statement whose condition is not met writes nothing, and tells of nothing.
#[test]
fn conditional_statements_batches_and_transactions_are_logged() {
    let node = node_with(
        "CREATE TABLE k.t (pk int, ck int, v int, PRIMARY KEY (pk, ck)) WITH cdc = {'enabled': true}",
    );
    node.run("INSERT INTO k.t (pk, ck, v) VALUES (0, 0, 1) IF NOT EXISTS");
    node.run("INSERT INTO k.t (pk, ck, v) VALUES (0, 0, 2) IF NOT EXISTS");
    node.run("UPDATE k.t SET v = 3 WHERE pk = 0 AND ck = 0 IF v = 1");
    let several: Vec<String> = (0..40)
        .map(|pk| format!("INSERT INTO k.t (pk, ck, v) VALUES ({pk}, 1, 4);"))
        .collect();
    node.run(&format!("BEGIN BATCH {} APPLY BATCH", several.concat()));
    node.run(
        "BEGIN TRANSACTION LET a = (SELECT v FROM k.t WHERE pk = 0 AND ck = 0); IF a.v = 3 THEN UPDATE k.t SET v = 5 \
         WHERE pk = 0 AND ck = 0; UPDATE k.t SET v = 6 WHERE pk = 77 AND ck = 0; END IF COMMIT TRANSACTION",
    );
    let mut values = log(&node, "pk, v");
    values.sort();
    let mut expected: Vec<String> = (0..40).map(|pk| format!(r#"{{"pk": {pk}, "v": 4}}"#)).collect();
    expected.extend([(0, 1), (0, 3), (0, 5), (77, 6)].map(|(pk, v)| format!(r#"{{"pk": {pk}, "v": {v}}}"#)));
    expected.sort();
    assert_eq!(values, expected);
}

#[test]
fn streams_are_described_where_clients_look_for_them() {
    let mut node = TestNode::start(options(
        3,
        Arc::new(MemoryDisk::new()),
        Arc::new(SystemClock::new()),
    ))
    .unwrap();
    node.run(KEYSPACE);
    let times = "SELECT time FROM system_distributed.cdc_generation_timestamps WHERE key = 'timestamps'";
    assert!(node.rows(times).is_empty());
    node.run("CREATE TABLE k.t (pk int PRIMARY KEY, v int) WITH cdc = {'enabled': true}");
    node.run("CREATE TABLE k.t2 (pk int PRIMARY KEY, v int) WITH cdc = {'enabled': true}");
    node.restart().unwrap();
    node.run("CREATE TABLE k.t3 (pk int PRIMARY KEY, v int) WITH cdc = {'enabled': true}");
    let generations = node.rows(times);
    assert_eq!(generations.len(), 1);
    let streams = node.execute_with(
        "SELECT range_end, streams FROM system_distributed.cdc_streams_descriptions_v2 WHERE time = ?",
        &Execution {
            values: vec![generations[0][0].clone()],
            ..Execution::default()
        },
    );
    let Answer::Rows(streams) = streams else {
        panic!("{streams:?}");
    };
    assert_eq!(streams.rows.len(), 256);
    for pk in 0..50_i32 {
        node.run(&format!("INSERT INTO k.t (pk, v) VALUES ({pk}, 1)"));
        let token = token_of(&pk.to_be_bytes()).0;
        let range_end =
            |row: &Vec<Option<Vec<u8>>>| i64::from_be_bytes(row[0].clone().unwrap().try_into().unwrap());
        let stream = streams.rows.iter().find(|row| token <= range_end(row)).unwrap();
        // A set of one: its count and the length of the stream's id.
        let stream = stream[1].as_ref().unwrap()[8..].to_vec();
        let told = node.execute_with(
            r#"SELECT pk FROM k.t_scylla_cdc_log WHERE "cdc$stream_id" = ?"#,
            &Execution {
                values: vec![Some(stream)],
                ..Execution::default()
            },
        );
        let Answer::Rows(told) = told else {
            panic!("{told:?}");
        };
        assert!(told.rows.contains(&vec![Some(pk.to_be_bytes().to_vec())]), "{pk}");
    }
}

fn columns_of(node: &TestNode, table: &str) -> Vec<String> {
    let schema = node.schema();
    let table = schema.table("k", table).unwrap();
    let columns = table.columns.iter();
    columns
        .map(|column| format!("{} {}", column.name, column.cql_type))
        .collect()
}

#[test]
fn a_log_follows_its_table() {
    let mut node = node_with("CREATE TABLE k.t (pk int, ck int, v int, PRIMARY KEY (pk, ck))");
    node.run("INSERT INTO k.t (pk, ck, v) VALUES (0, 0, 0)");
    node.run("ALTER TABLE k.t WITH cdc = {'enabled': true}");
    let key = ["cdc$stream_id blob", "cdc$time timeuuid", "cdc$batch_seq_no int"];
    let first = [
        "cdc$deleted_v boolean",
        "cdc$end_of_batch boolean",
        "cdc$operation tinyint",
        "cdc$ttl bigint",
        "ck int",
        "pk int",
        "v int",
    ];
    assert_eq!(
        columns_of(&node, "t_scylla_cdc_log"),
        [&key[..], &first[..]].concat()
    );
    node.run("INSERT INTO k.t (pk, ck, v) VALUES (0, 1, 1)");
    node.run("ALTER TABLE k.t ADD l list<int>");
    node.run("ALTER TABLE k.t RENAME ck TO c");
    node.run("ALTER TABLE k.t DROP v");
    node.restart().unwrap();
    node.run("INSERT INTO k.t (pk, c, l) VALUES (0, 2, [7])");
    let second = [
        "c int",
        "cdc$deleted_elements_l frozen<set<timeuuid>>",
        "cdc$deleted_l boolean",
        "cdc$end_of_batch boolean",
        "cdc$operation tinyint",
        "cdc$ttl bigint",
        "l frozen<map<timeuuid, int>>",
        "pk int",
    ];
    assert_eq!(
        columns_of(&node, "t_scylla_cdc_log"),
        [&key[..], &second[..]].concat()
    );
    check_log(&node, "c", &[r#"{"c": 1}"#, r#"{"c": 2}"#]);
    node.run("ALTER TABLE k.t ADD v int");
    check_log(&node, "v", &[r#"{"v": null}"#, r#"{"v": null}"#]);

    // The rows stay where the log ends, and are there when it goes on.
    node.run("ALTER TABLE k.t WITH cdc = {'enabled': false}");
    node.run("INSERT INTO k.t (pk, c) VALUES (0, 3)");
    node.run("ALTER TABLE k.t ADD w int");
    assert_eq!(log(&node, "c").len(), 2);
    node.run("ALTER TABLE k.t WITH cdc = {'enabled': true, 'preimage': true}");
    node.run("INSERT INTO k.t (pk, c, w) VALUES (0, 4, 4)");
    check_log(
        &node,
        "c, w",
        &[
            r#"{"c": 1, "w": null}"#,
            r#"{"c": 2, "w": null}"#,
            r#"{"c": 4, "w": 4}"#,
        ],
    );
    node.run("TRUNCATE k.t");
    assert_eq!(log(&node, "c").len(), 3);
    node.run("DROP TABLE k.t");
    assert!(node.schema().table("k", "t_scylla_cdc_log").is_none());
}

#[test]
fn what_cannot_have_a_log_is_refused_by_name() {
    let node = node_with("CREATE TABLE k.t (pk int PRIMARY KEY, v int) WITH cdc = {'enabled': true}");
    let in_use = "it is the CDC log of k.t. Disable it first";
    for statement in [
        "DROP TABLE k.t_scylla_cdc_log",
        "ALTER TABLE k.t_scylla_cdc_log ADD x int",
        "ALTER TABLE k.t_scylla_cdc_log DROP v",
    ] {
        let message = refusal(&node, statement);
        assert!(message.contains(in_use), "{message}");
    }
    node.run("ALTER TABLE k.t_scylla_cdc_log WITH gc_grace_seconds = 5");
    for (statement, wanted) in [
        (
            "ALTER TABLE k.t_scylla_cdc_log WITH cdc = {'enabled': true}",
            "a CDC log of a CDC log",
        ),
        (
            "CREATE TABLE k.n (p int PRIMARY KEY, n counter) WITH cdc = {'enabled': true}",
            "not supported on counter tables",
        ),
        (
            "CREATE TABLE k.r (p int PRIMARY KEY, \"cdc$v\" int) WITH cdc = {'enabled': true}",
            "begins with cdc$",
        ),
        (
            "CREATE MATERIALIZED VIEW k.v AS SELECT * FROM k.t_scylla_cdc_log WHERE pk IS NOT NULL AND \"cdc$stream_id\" \
             IS NOT NULL AND \"cdc$time\" IS NOT NULL AND \"cdc$batch_seq_no\" IS NOT NULL PRIMARY KEY (pk, \
             \"cdc$stream_id\", \"cdc$time\", \"cdc$batch_seq_no\")",
            "not supported on CDC logs",
        ),
        (
            "CREATE TABLE k.x (p int PRIMARY KEY) WITH cdc = {'enabled': 'perhaps'}",
            "must be true or false",
        ),
    ] {
        let message = refusal(&node, statement);
        assert!(message.contains(wanted), "{statement}: {message}");
    }
    node.run("CREATE TABLE k.taken_scylla_cdc_log (p int PRIMARY KEY)");
    let message = refusal(
        &node,
        "CREATE TABLE k.taken (p int PRIMARY KEY) WITH cdc = {'enabled': true}",
    );
    assert!(
        message.contains("there is a table taken_scylla_cdc_log"),
        "{message}"
    );
    assert!(node.schema().table("k", "taken").is_none());
}

/// DESCRIBE's statements make the tables again, and the log comes with its table.
#[test]
fn a_description_makes_table_and_log_again() {
    let mut node = node_with(
        "CREATE TABLE k.t (pk int PRIMARY KEY, v int) WITH cdc = {'enabled': true, 'postimage': 'true', 'ttl': 7}",
    );
    let described = |node: &TestNode| -> Vec<String> {
        let rows = node.rows("DESCRIBE KEYSPACE k");
        rows.iter()
            .map(|row| String::from_utf8(row[3].clone().unwrap()).unwrap())
            .collect()
    };
    let before = described(&node);
    assert_eq!(before.len(), 2, "{before:#?}");
    let option =
        "cdc = {'delta': 'full', 'enabled': 'true', 'postimage': 'true', 'preimage': 'false', 'ttl': '7'}";
    assert!(before[1].contains(option), "{}", before[1]);
    node.restart().unwrap();
    assert_eq!(described(&node), before);
    let of_log = node.rows("DESCRIBE TABLE k.t_scylla_cdc_log");
    let of_log = String::from_utf8(of_log[0][3].clone().unwrap()).unwrap();
    node.run("DROP KEYSPACE k");
    before.iter().for_each(|statement| node.run(statement));
    assert_eq!(described(&node), before);
    let again = node.rows("DESCRIBE TABLE k.t_scylla_cdc_log");
    assert_eq!(String::from_utf8(again[0][3].clone().unwrap()).unwrap(), of_log);
    // It is a table as another would be made.
    node.run("DROP TABLE k.t");
    node.run(&of_log);
    let extensions = node.rows("SELECT extensions FROM system_schema.tables WHERE keyspace_name = 'k'");
    assert!(extensions[0][0].is_none() || extensions[0][0].as_deref() == Some(&[0, 0, 0, 0]));
}

/// Statements on `k.t (p, c, s static, v, w, m, PRIMARY KEY (p, c))`, with timestamps in any order.
struct Statements {
    random: SeededRandom,
    /// True if each has one of few timestamps, so that many have the same; else half of them have the node's.
    has_own_times: bool,
}

impl Statements {
    fn below(&self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    fn timestamp(&self) -> String {
        match self.below(2) {
            0 if !self.has_own_times => String::new(),
            _ => format!("USING TIMESTAMP {} ", 1 + self.below(50)),
        }
    }

    fn one(&self) -> String {
        let (p, c, n) = (self.below(3), self.below(4), self.below(5));
        let timestamp = self.timestamp();
        let place = format!("p = {p} AND c = {c}");
        match self.below(11) {
            0 => format!("INSERT INTO k.t (p, c, v, w) VALUES ({p}, {c}, {n}, null) {timestamp}"),
            1 => format!("INSERT INTO k.t (p, c, m) VALUES ({p}, {c}, {{{n}: 1, 7: {n}}}) {timestamp}"),
            2 => format!("UPDATE k.t {timestamp}SET v = {n}, w = '{n}' WHERE {place}"),
            3 => format!("UPDATE k.t {timestamp}SET v = null, s = {n} WHERE {place}"),
            4 => format!("UPDATE k.t {timestamp}SET m = m + {{{n}: {c}}}, s = null WHERE {place}"),
            5 => format!("UPDATE k.t {timestamp}SET m = m - {{{n}, 7}} WHERE {place}"),
            6 => format!("DELETE m, v FROM k.t {timestamp}WHERE {place}"),
            7 => format!("DELETE FROM k.t {timestamp}WHERE {place}"),
            8 => format!(
                "DELETE FROM k.t {timestamp}WHERE p = {p} AND c >= {c} AND c < {}",
                c + n
            ),
            9 => format!("DELETE FROM k.t {timestamp}WHERE p = {p}"),
            _ => format!("UPDATE k.t {timestamp}SET s = {n} WHERE p = {p}"),
        }
    }

    fn next(&self) -> String {
        match self.below(4) {
            0 => {
                let members: Vec<String> = (0..2 + self.below(3))
                    .map(|_| format!("{};", self.one()))
                    .collect();
                let kind = if self.below(2) == 0 { "UNLOGGED " } else { "" };
                format!("BEGIN {kind}BATCH {} APPLY BATCH", members.concat())
            }
            _ => self.one(),
        }
    }
}

const LOGGED_TABLE: &str = "(p int, c int, s int static, v int, w text, m map<int, int>, PRIMARY KEY (p, c))";

/// One row of a log, as statements that do to `k.copy` what it tells of.
#[derive(Default)]
struct Replay {
    /// The lower bound of a range whose upper one has not come yet.
    start: Option<String>,
}

impl Replay {
    fn statements(&mut self, row: &[Option<Vec<u8>>]) -> Vec<String> {
        let int = |place: usize| {
            let value = row[place].as_ref()?;
            Some(i32::from_be_bytes(value.as_slice().try_into().unwrap()))
        };
        let is_true = |place: usize| row[place].as_deref() == Some(&[1]);
        let at = format!("USING TIMESTAMP {}", micros(row[0].as_ref().unwrap()));
        let operation = row[1].as_ref().unwrap()[0];
        let (p, c) = (int(2).unwrap(), int(3));
        let bound = |sign: &str| c.map_or_else(String::new, |c| format!(" AND c {sign} {c}"));
        let place = format!("p = {p}{}", bound("="));
        match operation {
            1 | 2 => {}
            3 | 4 => return vec![format!("DELETE FROM k.copy {at} WHERE {place}")],
            5 | 6 => {
                self.start = Some(bound(if operation == 5 { ">=" } else { ">" }));
                return Vec::new();
            }
            7 | 8 => {
                let start = self.start.take().expect("a range has a lower bound");
                let end = bound(if operation == 7 { "<=" } else { "<" });
                return vec![format!("DELETE FROM k.copy {at} WHERE p = {p}{start}{end}")];
            }
            other => panic!("no operation of a write: {other}"),
        }
        let mut statements = Vec::new();
        if operation == 2 {
            let c = c.expect("an insertion is of a row");
            statements.push(format!("INSERT INTO k.copy (p, c) VALUES ({p}, {c}) {at}"));
        }
        let mut set = |column: &str, value: &str| {
            statements.push(format!("UPDATE k.copy {at} SET {column} = {value} WHERE {place}"));
        };
        for (column, value, deleted) in [("s", int(4), 5), ("v", int(6), 7)] {
            match value {
                Some(value) => set(column, &value.to_string()),
                None if is_true(deleted) => set(column, "null"),
                None => {}
            }
        }
        match row[8].as_ref() {
            Some(text) => set("w", &format!("'{}'", String::from_utf8(text.clone()).unwrap())),
            None if is_true(9) => set("w", "null"),
            None => {}
        }
        let numbers = |place: usize| -> Option<Vec<i32>> {
            let value = row[place].as_ref()?;
            let numbers = value[4..]
                .chunks(8)
                .map(|chunk| i32::from_be_bytes(chunk[4..].try_into().unwrap()));
            Some(numbers.collect())
        };
        let added = numbers(10).map(|numbers| {
            let pairs: Vec<String> = numbers
                .chunks(2)
                .map(|pair| format!("{}: {}", pair[0], pair[1]))
                .collect();
            format!("{{{}}}", pairs.join(", "))
        });
        match (added, is_true(11)) {
            (added, true) => set("m", &added.unwrap_or_else(|| "{}".to_owned())),
            (Some(added), false) => set("m", &format!("m + {added}")),
            (None, false) => {}
        }
        if let Some(keys) = numbers(12) {
            let keys: Vec<String> = keys.iter().map(i32::to_string).collect();
            set("m", &format!("m - {{{}}}", keys.join(", ")));
        }
        statements
    }
}

/// The table is what its log, done again, makes of an empty one.
fn check_replay(node: &TestNode, context: &str) {
    node.run(&format!("CREATE TABLE k.copy {LOGGED_TABLE}"));
    let rows = node.rows(
        r#"SELECT "cdc$time", "cdc$operation", p, c, s, "cdc$deleted_s", v, "cdc$deleted_v", w, "cdc$deleted_w", m, "cdc$deleted_m",
           "cdc$deleted_elements_m" FROM k.t_scylla_cdc_log"#,
    );
    let mut replay = Replay::default();
    for row in rows {
        for statement in replay.statements(&row) {
            node.run(&statement);
        }
    }
    let columns = "p, c, s, v, w, m, writetime(s), writetime(v), writetime(w), writetime(m)";
    let [table, copy] = ["t", "copy"].map(|table| node.rows(&format!("SELECT {columns} FROM k.{table}")));
    assert_eq!(table, copy, "{context}");
    node.run("DROP TABLE k.copy");
}

fn make_logged_table(node: &TestNode) {
    node.run(KEYSPACE);
    node.run(&format!(
        "CREATE TABLE k.t {LOGGED_TABLE} WITH cdc = {{'enabled': true, 'ttl': 0}}"
    ));
}

#[test]
fn a_log_done_again_makes_the_same_table() {
    for seed in 0..8 {
        let shards = 1 + (seed % 3) as u16;
        let mut node = TestNode::with_shards(shards);
        make_logged_table(&node);
        let statements = Statements {
            random: SeededRandom::new(seed),
            has_own_times: seed % 2 == 0,
        };
        let mut history = Vec::new();
        for step in 0..160 {
            let statement = statements.next();
            history.push(statement.clone());
            let execution = Execution {
                shard: statements.below(u64::from(shards)) as u16,
                ..Execution::default()
            };
            let answer = node.execute_with(&statement, &execution);
            assert!(!matches!(answer, Answer::Error { .. }), "{statement}: {answer:?}");
            match statements.below(60) {
                0 => node.operator().flush(None).unwrap(),
                1 => node.restart().unwrap(),
                _ => {}
            }
            if step % 40 == 39 {
                check_replay(&node, &format!("seed {seed}: {history:#?}"));
            }
        }
    }
}

/// A write and what the log tells of it are one record: a crash leaves both or none.
#[test]
fn a_crash_leaves_a_log_of_what_is_there() {
    for seed in 500..506 {
        let disk = Arc::new(SimulatedDisk::new(seed));
        let shards = 2 + (seed % 2) as u16;
        let mut node = TestNode::start(options(
            shards,
            disk.clone() as Arc<dyn Disk>,
            Arc::new(SystemClock::new()),
        ))
        .unwrap();
        make_logged_table(&node);
        let statements = Statements {
            random: SeededRandom::new(seed),
            has_own_times: seed % 2 == 0,
        };
        for round in 0..8 {
            for _ in 0..20 {
                node.run(&statements.next());
            }
            let pending: Vec<_> = (0..60)
                .map(|_| node.submit(&statements.next(), &Execution::default()))
                .collect();
            node.crash();
            drop(pending);
            disk.crash();
            node.start_again().unwrap();
            check_replay(&node, &format!("seed {seed}, round {round}"));
        }
    }
}

#[test]
fn a_write_that_is_too_large_with_its_log_is_refused_whole() {
    let node = node_with("CREATE TABLE k.t (pk int PRIMARY KEY, v blob) WITH cdc = {'enabled': true}");
    let write = |bytes: usize| {
        node.execute_with(
            "INSERT INTO k.t (pk, v) VALUES (1, ?)",
            &Execution {
                values: vec![Some(vec![7; bytes])],
                ..Execution::default()
            },
        )
    };
    let answer = write(12 << 20);
    let Answer::Error { code, message } = answer else {
        panic!("{} rows are there", node.rows("SELECT pk FROM k.t").len());
    };
    assert_ne!(code, ErrorCode::WriteTimeout, "{message}");
    assert!(node.rows("SELECT pk FROM k.t").is_empty());
    assert!(log(&node, "pk").is_empty());
    assert!(!matches!(write(6 << 20), Answer::Error { .. }));
    assert_eq!(log(&node, "pk").len(), 1);
}
