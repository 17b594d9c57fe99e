//! Heap allocations of the hot path: none for a prepared point read and a prepared insert, and for a conditional update the
//! answer and the row's clustering.

mod node;

use helenus_engine::Plan;
use helenus_engine::modify::{ConditionalMember, ConditionalOutcome, ConditionalRequest};
use helenus_engine::select::{Direct, DirectByIndex};
use helenus_engine::term::BoundValues;
use helenus_protocol::request::Value;
use helenus_storage::read_state::ReadState;
use helenus_test_heap::allocations_of;
use node::{Shards, options};

fn shards() -> Shards {
    let mut shards = Shards::new(1);
    let table = "CREATE TABLE t (k int, c bigint, a text, b text, d blob, e double, PRIMARY KEY (k, c))";
    shards.execute(table, &options(None)).unwrap();
    let row = "INSERT INTO t (k, c, a, b, d, e) VALUES (1, 2, 'a', 'b', 0x01, 1.5)";
    shards.execute(row, &options(None)).unwrap();
    shards
}

#[test]
fn a_prepared_insert_builds_its_update_without_allocating() {
    let mut shards = shards();
    let prepared = shards
        .prepare("INSERT INTO t (k, c, a, b, d, e) VALUES (?, ?, ?, ?, ?, ?)")
        .unwrap();
    let Plan::Modify(plan) = &prepared.plan else {
        panic!("not a modification")
    };
    let (key, clustering, double) = (1_i32.to_be_bytes(), 2_i64.to_be_bytes(), 1.5_f64.to_be_bytes());
    let sent: [&[u8]; 6] = [&key, &clustering, b"a", b"b", b"\x01", &double];
    let mut emitted = 0;
    let mut run = || {
        let values = BoundValues::positional(sent.iter().map(|bytes| Value::Bytes(bytes)));
        let result = plan.updates(&values, &options(None), &mut shards.scratch, &mut |_, update| {
            emitted += update.len();
            Ok(())
        });
        result.unwrap();
    };
    run();
    assert_eq!(allocations_of(&mut run), 0);
    assert!(emitted > 0);
}

#[test]
fn a_prepared_point_read_answers_without_allocating() {
    let mut shards = shards();
    let prepared = shards.prepare("SELECT * FROM t WHERE k = ? AND c = ?").unwrap();
    let Plan::Select(plan) = &prepared.plan else {
        panic!("not a SELECT")
    };
    let (key, clustering) = (1_i32.to_be_bytes(), 2_i64.to_be_bytes());
    let mut out = Vec::with_capacity(1 << 12);
    let mut lengths = Vec::with_capacity(2);
    let mut run = || {
        out.clear();
        let values = BoundValues::positional([Value::Bytes(&key), Value::Bytes(&clustering)]);
        let (store, scratch) = (&mut shards.stores[0], &mut shards.scratch);
        let options = options(Some(5_000));
        let read = plan.direct(&values, &options, scratch).unwrap().unwrap();
        let done = read.execute(store, &mut ReadState::suspending(), &mut out);
        assert!(matches!(done.unwrap(), Direct::Done));
        lengths.push(out.len());
    };
    run();
    assert_eq!(allocations_of(&mut run), 0);
    assert!(lengths[0] == lengths[1] && lengths[0] > 60);
}

/// There were thirty.
#[test]
fn a_prepared_read_by_an_index_answers_without_allocating() {
    let mut shards = shards();
    shards
        .execute("CREATE INDEX ON t (a) USING 'sai'", &options(None))
        .unwrap();
    let row = "INSERT INTO t (k, c, a, b) VALUES (2, 3, 'c', 'b')";
    shards.execute(row, &options(None)).unwrap();
    let prepared = shards.prepare("SELECT * FROM t WHERE a = ?").unwrap();
    let Plan::Select(plan) = &prepared.plan else {
        panic!("not a SELECT")
    };
    let mut out = Vec::with_capacity(1 << 12);
    let mut lengths = Vec::with_capacity(2);
    let mut run = || {
        out.clear();
        let values = BoundValues::positional([Value::Bytes(b"c")]);
        let (store, scratch) = (&mut shards.stores[0], &mut shards.scratch);
        let options = options(Some(5_000));
        let done = plan.execute_by_index(&values, &options, scratch, store, &mut out);
        assert_eq!(done.unwrap(), DirectByIndex::Done);
        lengths.push(out.len());
    };
    run();
    assert_eq!(allocations_of(&mut run), 0);
    assert!(lengths[0] == lengths[1] && lengths[0] > 60);
}

/// There were nine.
#[test]
fn a_prepared_conditional_update_allocates_its_clustering() {
    let mut shards = shards();
    let prepared = shards
        .prepare("UPDATE t SET a = ?, d = ? WHERE k = ? AND c = ? IF b = ?")
        .unwrap();
    let Plan::Modify(plan) = &prepared.plan else {
        panic!("not a modification")
    };
    let (key, clustering) = (1_i32.to_be_bytes(), 2_i64.to_be_bytes());
    for (expected, is_met) in [(&b"b"[..], true), (b"another", false)] {
        let sent: [&[u8]; 5] = [b"a", b"\x01", &key, &clustering, expected];
        let mut run = || {
            let values = BoundValues::positional(sent.iter().map(|bytes| Value::Bytes(bytes)));
            let member = [ConditionalMember {
                plan,
                values: &values,
            }];
            let options = options(None);
            let (store, scratch) = (&mut shards.stores[0], &mut shards.scratch);
            let ballot_us = &mut |newest_us: i64| Ok(newest_us + 1);
            let outcome = ConditionalRequest::with_bound(&member, false, &options, |request| {
                request.run(store, &mut ReadState::suspending(), scratch, ballot_us)
            });
            let ConditionalOutcome::Decided { update, body } = outcome.unwrap() else {
                panic!("a store in memory has all of its pages")
            };
            assert_eq!(update.is_some(), is_met);
            assert!(body.len() > 20);
            if let Some(update) = update {
                scratch.give_back(update);
            }
            scratch.give_back_answer(body);
        };
        run();
        assert_eq!(allocations_of(&mut run), 1);
    }
}
