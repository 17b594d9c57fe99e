use std::sync::Arc;

use helenus_schema::Schema;
use helenus_test_node::TestNode;
use helenus_tools::host::Host as _;

use super::*;

/// A model of `k.t` after some statements, whose integers are written as markers and bound in their order.
fn model_after(statements: &[(&str, &[i32])]) -> Model {
    let node = TestNode::with_shards(1);
    node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    let create = "CREATE TABLE k.t (p int, c int, v int, s set<int>, PRIMARY KEY (p, c)) WITH CLUSTERING ORDER BY (c DESC)";
    node.run(create);
    let schema: Arc<Schema> = node.operator().schema().unwrap();
    let mut model = Model::default();
    model.apply(create, &[], 0, &|| schema.clone());
    for (text, integers) in statements {
        model.apply(text, &bound(integers), 0, &|| schema.clone());
    }
    model
}

fn bound(integers: &[i32]) -> Vec<Option<Vec<u8>>> {
    let bytes = integers
        .iter()
        .map(|integer| Some(integer.to_be_bytes().to_vec()));
    bytes.collect()
}

/// `p`, `c` and `v` of the rows at a second.
fn rows(model: &Model, now_s: i64) -> Vec<Vec<Option<Vec<u8>>>> {
    let expected = model.expect("SELECT p, c, v FROM k.t", &[], now_s).unwrap();
    assert!(expected.is_ordered);
    expected.rows
}

const INSERT: &str = "INSERT INTO k.t (p, c, v) VALUES (?, ?, ?) USING TIMESTAMP 10";

#[test]
fn rows_come_in_clustering_order_and_the_greater_of_equal_times_counts() {
    let model = model_after(&[
        (INSERT, &[1, 1, 7]),
        (INSERT, &[1, 2, 5]),
        (INSERT, &[1, 2, 6]),
        (INSERT, &[1, 2, 4]),
    ]);
    assert_eq!(rows(&model, 0), [bound(&[1, 2, 6]), bound(&[1, 1, 7])]);
}

#[test]
fn a_deletion_hides_what_is_not_later() {
    let delete = "DELETE FROM k.t USING TIMESTAMP 10 WHERE p = ? AND c > ?";
    let update = "UPDATE k.t USING TIMESTAMP 11 SET v = ? WHERE p = ? AND c = ?";
    let model = model_after(&[
        (INSERT, &[1, 1, 7]),
        (INSERT, &[1, 2, 5]),
        (INSERT, &[1, 3, 5]),
        (delete, &[1, 1]),
        (update, &[9, 1, 3]),
    ]);
    assert_eq!(rows(&model, 0), [bound(&[1, 3, 9]), bound(&[1, 1, 7])]);
}

#[test]
fn a_row_without_marker_lives_as_long_as_its_cells() {
    let update = "UPDATE k.t USING TIMESTAMP 11 AND TTL 60 SET v = ? WHERE p = ? AND c = ?";
    let model = model_after(&[(update, &[9, 1, 3])]);
    assert_eq!(rows(&model, 59), [bound(&[1, 3, 9])]);
    assert!(rows(&model, 60).is_empty());
}

#[test]
fn what_it_does_not_know_makes_it_silent() {
    let model = model_after(&[
        (INSERT, &[1, 1, 7]),
        ("INSERT INTO k.t JSON '{\"p\": 1, \"c\": 1}'", &[]),
    ]);
    assert_eq!(model.expect("SELECT * FROM k.t", &[], 0), None);
    let model = model_after(&[(INSERT, &[1, 1, 7])]);
    assert_eq!(model.expect("SELECT JSON * FROM k.t", &[], 0), None);
}
