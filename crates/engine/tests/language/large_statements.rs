//! Statements whose planning costs as much as they are long, and no more.

use helenus_engine::Plan;
use helenus_engine::term::OwnedValues;
use helenus_protocol::request::Value;
use helenus_test_heap::{allocations_of, of_thread, peak_bytes_of};

use crate::node::{Shards, options};

fn shards() -> Shards {
    let mut shards = Shards::new(1);
    let table = "CREATE TABLE t (p int, c int, v text, m map<int, text>, PRIMARY KEY (p, c))";
    shards.execute(table, &options(None)).unwrap();
    shards
}

fn nested(open: &str, inner: &str, close: &str, levels: usize) -> String {
    format!("{}{inner}{}", open.repeat(levels), close.repeat(levels))
}

/// `SELECT c+c+c+c+c+c FROM t` took half a minute to plan, and each further operator 27 times as long: for every overload
/// of an operator its arguments were resolved anew.
#[test]
fn calls_in_calls_are_resolved_once() {
    let shards = shards();
    let levels = 40;
    let chain = vec!["c"; levels].join(" + ");
    let statements = [
        format!("SELECT {chain} FROM t"),
        format!("SELECT {} FROM t", nested("c + (", "c", ")", levels - 10)),
        format!("SELECT {} FROM t", nested("-(", "c", ")", levels - 10)),
        format!(
            "SELECT {} FROM t",
            nested("mask_default(abs(", "c", "))", levels / 2)
        ),
        format!("SELECT {} FROM t", nested("[", "c + c", "]", levels)),
        format!(
            "SELECT v FROM t WHERE p = {}",
            nested("1 + (", "1", ")", levels - 10)
        ),
        format!(
            "INSERT INTO t (p, c) VALUES (1, {})",
            nested("blob_as_int(int_as_blob(", "1", "))", levels / 2)
        ),
    ];
    for statement in statements {
        let allocations = allocations_of(|| {
            shards.prepare(&statement).unwrap();
        });
        assert!(allocations < 200_000, "{allocations}: {statement}");
    }
}

fn joined(count: usize, item: impl Fn(usize) -> String, separator: &str) -> String {
    (0..count).map(item).collect::<Vec<_>>().join(separator)
}

/// Names were looked for among all names before them: 60,000 of them took seconds to minutes.
#[test]
fn long_lists_of_names_are_taken() {
    let mut shards = shards();
    let column = |index| format!("a{index:05} int");
    let name = |index| format!("a{index:05}");
    let assignment = |index| format!("m[{index}] = 'x'");
    for statement in [
        format!(
            "CREATE TABLE wide (p int PRIMARY KEY, {})",
            joined(10_000, column, ", ")
        ),
        format!("ALTER TABLE t ADD ({})", joined(10_000, column, ", ")),
        format!("ALTER TABLE t DROP ({})", joined(10_000, name, ", ")),
        format!(
            "INSERT INTO wide (p, {}) VALUES (1, {})",
            joined(10_000, name, ", "),
            joined(10_000, |index| index.to_string(), ", ")
        ),
        format!("SELECT {} FROM wide", joined(10_000, name, ", ")),
        format!(
            "UPDATE t SET {} WHERE p = 1 AND c = 1",
            joined(10_000, assignment, ", ")
        ),
    ] {
        shards.execute(&statement, &options(None)).unwrap();
    }
    for (statement, error) in [
        (
            "ALTER TABLE t ADD (x int, y int, x int)",
            "Column with name 'x' already exists",
        ),
        (
            "ALTER TABLE wide DROP (a00001, a00002, a00001)",
            "Column a00001 was not found in table 'ks.wide'",
        ),
        (
            "INSERT INTO wide (p, a00001, p) VALUES (1, 1, 1)",
            "The column names contains duplicates",
        ),
        (
            "UPDATE t SET m[1] = 'x', v = 'x', v = 'y' WHERE p = 1 AND c = 1",
            "Multiple incompatible setting of column v",
        ),
        (
            &format!(
                "SELECT v FROM t WHERE p = 1 AND {} ALLOW FILTERING",
                vec!["m CONTAINS 'x'"; 1_000].join(" AND ")
            ),
            "A WHERE clause has at most 1000 relations, this one has 1001",
        ),
    ] {
        let refused = shards.execute(statement, &options(None)).unwrap_err();
        assert_eq!(refused.to_string(), error);
    }
}

/// A result's metadata spells its types out for each column: 553 MB of them took a shard half a minute.
#[test]
fn the_metadata_of_a_statement_is_bounded() {
    let mut shards = shards();
    let fields = joined(9_000, |index| format!("f{index} int"), ", ");
    for statement in [
        format!("CREATE TYPE wide ({fields})"),
        "CREATE TABLE w (p int PRIMARY KEY, v frozen<wide>)".to_owned(),
    ] {
        shards.execute(&statement, &options(None)).unwrap();
    }
    for (count, is_taken) in [(10, true), (20, false)] {
        for statement in [
            format!("SELECT {} FROM w", vec!["v"; count].join(", ")),
            format!(
                "SELECT p FROM w WHERE v IN ({}) ALLOW FILTERING",
                vec!["?"; count].join(", ")
            ),
        ] {
            let prepared = shards.prepare(&statement);
            assert_eq!(prepared.is_ok(), is_taken, "{statement}");
            if let Err(error) = prepared {
                assert!(
                    error.to_string().contains("has more than 100000 parts"),
                    "{error}"
                );
            }
        }
    }
}

/// Clustering keys were bounded column by column: Cassandra reads no row whose columns are longer together.
#[test]
fn the_columns_of_a_clustering_key_are_bounded_together() {
    let mut shards = shards();
    let table = "CREATE TABLE two (p int, c text, d text, v int, PRIMARY KEY (p, c, d))";
    shards.execute(table, &options(None)).unwrap();
    for (c, d, length) in [
        (30_000, 35_535, 65_535),
        (30_000, 35_536, 65_536),
        (65_535, 65_535, 131_070),
    ] {
        let (c, d) = ("c".repeat(c), "d".repeat(d));
        for statement in [
            format!("INSERT INTO two (p, c, d, v) VALUES (1, '{c}', '{d}', 1)"),
            format!("DELETE v FROM two WHERE p = 1 AND c = '{c}' AND d IN ('{d}', 'x')"),
            format!("DELETE FROM two WHERE p = 1 AND c = '{c}' AND d = '{d}'"),
        ] {
            let refused = shards
                .execute(&statement, &options(None))
                .err()
                .map(|error| error.to_string());
            let expected = format!("Key length of {length} is longer than maximum of 65535");
            assert_eq!(refused, (length > 65_535).then_some(expected));
        }
    }
}

/// A request has room for 65,535 values: a statement with more markers was prepared and could never be executed.
#[test]
fn markers_are_as_many_as_values_can_be() {
    let shards = shards();
    for (count, is_taken) in [(65_535, true), (65_536, false)] {
        let markers = vec!["?"; count].join(",");
        let prepared = shards.prepare(&format!("SELECT v FROM t WHERE p IN ({markers})"));
        let refused = prepared.err().map(|error| error.to_string());
        let expected = "Too many markers(?). 65536 markers exceed the allowed maximum of 65535";
        assert_eq!(refused.as_deref(), (!is_taken).then_some(expected));
    }
}

/// `UPDATE t SET v = <1 MB> WHERE p IN (<80,000 keys>)` is a text of 1.5 MB: all of its 80 GB were built at once.
#[test]
fn what_a_statement_writes_is_bounded() {
    let mut shards = shards();
    let value = "x".repeat(100_000);
    let keys = joined(1_000, |key| key.to_string(), ", ");
    let one = |key: usize| {
        format!(
            "UPDATE t SET v = '{value}' WHERE p = 1 AND c IN ({key}, {});",
            key + 1
        )
    };
    for (statement, is_taken) in [
        (
            format!("UPDATE t SET v = '{value}' WHERE p IN (1, 2, 3) AND c = 1"),
            true,
        ),
        (
            format!("UPDATE t SET v = '{value}' WHERE p IN ({keys}) AND c = 1"),
            false,
        ),
        (
            format!("UPDATE t SET v = '{value}' WHERE p = 1 AND c IN ({keys})"),
            false,
        ),
        (
            format!("BEGIN BATCH {} APPLY BATCH", joined(400, one, " ")),
            false,
        ),
    ] {
        let mut result = None;
        let peak = peak_bytes_of(|| result = Some(shards.execute(&statement, &options(None))));
        let refused = result.unwrap().err().map(|error| error.to_string());
        let expected = "The statement would write more than 67108864 bytes; divide it, or name fewer keys";
        assert_eq!(refused.as_deref(), (!is_taken).then_some(expected));
        assert!(peak < 4 * (64 << 20) + 3 * statement.len() as i64, "{peak}");
    }
}

/// Each operation read the list again, and went through all operations before it: 10,000 of them on a list of 10,000
/// elements copied gigabytes.
#[test]
fn operations_on_a_list_read_it_once() {
    let count = 2_000;
    let mut shards = shards();
    let execute = |shards: &mut Shards, statement: &str| {
        let before = of_thread().allocated_bytes;
        shards.execute(statement, &options(None)).unwrap();
        of_thread().allocated_bytes - before
    };
    execute(&mut shards, "CREATE TABLE lists (p int PRIMARY KEY, l list<int>)");
    let elements = joined(count, |index| index.to_string(), ", ");
    let appended = execute(
        &mut shards,
        &format!("UPDATE lists SET l = l + [{elements}] WHERE p = 1"),
    );
    let set = joined(count, |index| format!("l[{index}] = {}", index + 7), ", ");
    let gone = joined(count / 2, |index| format!("l = l - [{}]", index + 7), ", ");
    let positions = joined(count / 4, |_| "l[0]".to_owned(), ", ");
    let of_batch = |index: usize| format!("UPDATE lists SET l[{}] = 7 WHERE p = 1;", index % 10);
    let statements = [
        format!("UPDATE lists SET {set} WHERE p = 1"),
        format!("UPDATE lists SET {gone} WHERE p = 1"),
        format!("DELETE {positions} FROM lists WHERE p = 1"),
        format!("BEGIN BATCH {} APPLY BATCH", joined(count, of_batch, " ")),
    ];
    for statement in statements {
        let bytes = execute(&mut shards, &statement);
        assert!(
            bytes < 20 * appended,
            "{bytes} against {appended}: {}",
            &statement[..40]
        );
    }
}

/// A statement that gives a value to each of a hundred columns was built beside its shard each time, for the size of its plan: two
/// threads changed places for every write, and under load all of them were late.
#[test]
fn a_wide_row_is_built_at_once_and_a_long_list_is_not() {
    let mut shards = shards();
    let columns = |item: fn(usize) -> String| joined(120, item, ", ");
    let table = format!(
        "CREATE TABLE wide (p int PRIMARY KEY, l list<int>, {})",
        columns(|column| format!("v{column} blob"))
    );
    shards.execute(&table, &options(None)).unwrap();
    let is_long = |values: &str| {
        let text = format!(
            "INSERT INTO wide (p, {}) VALUES (1, {values})",
            columns(|column| format!("v{column}"))
        );
        is_long_to_build(&shards, &text)
    };
    assert!(!is_long(&columns(|_| "?".to_owned())));
    assert!(!is_long(&columns(|_| format!("0x{}", "a5".repeat(34)))));
    let list = |length| {
        let text = format!(
            "INSERT INTO wide (p, l) VALUES (1, [{}])",
            joined(length, |item| item.to_string(), ", ")
        );
        is_long_to_build(&shards, &text)
    };
    assert!(!list(100));
    assert!(list(9_000));
}

fn is_long_to_build(shards: &Shards, text: &str) -> bool {
    is_long_to_build_with(shards, text, &[])
}

fn is_long_to_build_with(shards: &Shards, text: &str, values: &[&[u8]]) -> bool {
    let values: OwnedValues = values.iter().map(|value| Value::Bytes(value)).collect();
    match &shards.prepare(text).unwrap().plan {
        Plan::Modify(plan) => plan.is_long_to_build(&values.bound()),
        Plan::Batch(plan) => plan.is_long_to_build(&values.bound()),
        _ => panic!("{text} is no modification"),
    }
}

/// The elements of a bound set of 2 MB were checked on the shard that it came to, for 2.9 ms.
#[test]
fn large_bound_collections_are_built_beside_the_shard_and_large_blobs_are_not() {
    let mut shards = shards();
    let table = "CREATE TABLE b (p int PRIMARY KEY, b blob, s set<text>, u tuple<int, text>)";
    shards.execute(table, &options(None)).unwrap();
    let (key, short, long) = ([0; 4], [0; 400], [0; 20_000]);
    let is_long = |column: &str, value: &[u8]| {
        let insert = format!("INSERT INTO b (p, {column}) VALUES (?, ?)");
        let alone = is_long_to_build_with(&shards, &insert, &[&key, value]);
        let batch = format!("BEGIN BATCH {} APPLY BATCH", format!("{insert}; ").repeat(20));
        let values = [&key[..], value].repeat(20);
        assert_eq!(is_long_to_build_with(&shards, &batch, &values), alone, "{column}");
        alone
    };
    assert!(!is_long("b", &long));
    for column in ["s", "u"] {
        assert!(!is_long(column, &short), "{column}");
        assert!(is_long(column, &long), "{column}");
    }
}
