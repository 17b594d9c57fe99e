//! Cost of filtering on a shard, in steps.

use helenus_engine::Plan;
use helenus_engine::select::SelectExecution;
use helenus_engine::term::BoundValues;
use helenus_storage::read_state::ReadProgress;

use crate::node::{Shards, options};

const ROWS: usize = 2_000;

fn shards() -> Shards {
    let mut shards = Shards::new(1);
    let table = "CREATE TABLE t (p int, c int, d decimal, m map<int, int>, PRIMARY KEY (p, c))";
    shards.execute(table, &options(None)).unwrap();
    for row in 0..ROWS {
        let insert = format!("INSERT INTO t (p, c, d, m) VALUES (1, {row}, {row}.50, {{{row}: 1}})");
        shards.execute(&insert, &options(None)).unwrap();
    }
    shards
}

/// The steps of a SELECT's first read, and how many rows it finds.
fn steps(shards: &mut Shards, filter: &str) -> (usize, i32) {
    let statement = format!("SELECT c FROM t WHERE p = 1 AND {filter} ALLOW FILTERING");
    let prepared = shards.prepare(&statement).unwrap();
    let Plan::Select(plan) = &prepared.plan else {
        panic!("not a SELECT")
    };
    let (options, values) = (options(None), BoundValues::EMPTY);
    let mut execution = SelectExecution::new(plan, &values, &options, 1).unwrap();
    let read = execution.next_read().unwrap().unwrap();
    let mut reading = plan.read_on_shard(&options, read);
    let mut steps = 1;
    while !matches!(reading.step(&mut shards.stores[0]).unwrap(), ReadProgress::Done) {
        steps += 1;
    }
    execution.absorb(reading.finish()).unwrap();
    let body = execution.finish().unwrap();
    let value_bytes = 4 + 4;
    (steps, (body.len() / value_bytes) as i32)
}

/// 300 rows beside an IN list of 5 million values held a shard for 45 s: the list was walked for each row, and no step's
/// budget knew of it.
#[test]
fn an_in_list_is_searched_and_paid_for() {
    let mut shards = shards();
    let values: Vec<String> = (0..40_000).rev().map(|value| format!("{value}.5")).collect();
    let (plain, all) = steps(&mut shards, "d > -1");
    let (searched, found) = steps(&mut shards, &format!("d IN ({})", values.join(", ")));
    assert_eq!(found, all);
    assert!(searched > plain, "{searched} steps, {plain} without the list");
    assert!(
        searched <= 3 * plain,
        "{searched} steps, {plain} without the list"
    );
}

#[test]
fn many_tests_of_a_row_are_paid_for() {
    let mut shards = shards();
    let (plain, _) = steps(&mut shards, "d > -1");
    let tests = vec!["m CONTAINS 1"; 160].join(" AND ");
    let (many, _) = steps(&mut shards, &tests);
    assert!(many >= 8 * plain, "{many} steps, {plain} with one test");
}

#[test]
fn values_of_equal_order_are_one() {
    let mut shards = shards();
    let mut count = |filter: &str| steps(&mut shards, filter).1;
    let none = count("d IN ()");
    assert_eq!(count("d IN (7.5, 7.50, 7.500, 3, 1999.5)") - none, 2);
    let too_many = vec!["1"; 100_001].join(",");
    let statement = format!("SELECT c FROM t WHERE p = 1 AND d IN ({too_many}) ALLOW FILTERING");
    let error = shards.execute(&statement, &options(None)).unwrap_err();
    assert!(error.to_string().contains("more than 100000"), "{error}");
}

/// Slices that turned out to be long were taken for reads of one row, of which no cost is learned: an estimate of 100 us stood for
/// milliseconds, however often they had run.
#[test]
fn a_slice_or_an_in_does_not_name_one_row() {
    let mut shards = Shards::new(1);
    let table = "CREATE TABLE named (p int, c int, d int, v int, PRIMARY KEY (p, c, d))";
    shards.execute(table, &options(None)).unwrap();
    for (clause, names_one_row) in [
        ("c = 1 AND d = 2", true),
        ("c = ? AND d = ?", true),
        ("c = 1", false),
        ("c = 1 AND d > 2", false),
        ("c = 1 AND d IN (2, 3)", false),
        ("c IN (1, 2) AND d = 3", false),
    ] {
        let prepared = shards
            .prepare(&format!("SELECT v FROM named WHERE p = 1 AND {clause}"))
            .unwrap();
        let Plan::Select(plan) = &prepared.plan else {
            panic!("{clause}");
        };
        assert_eq!(plan.names_one_row(), names_one_row, "{clause}");
    }
}
