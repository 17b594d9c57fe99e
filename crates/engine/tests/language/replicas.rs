//! Which consistency levels one copy of the rows stands for.

use std::sync::Arc;

use helenus_catalog::ddl::{DdlContext, apply, schema_statement};
use helenus_cql::parse_statement;
use helenus_engine::functions::Clock;
use helenus_engine::replicas::CopyRule;
use helenus_engine::{CqlError, prepare};
use helenus_protocol::Consistency;
use helenus_schema::{Schema, TableId};
use uuid::Uuid;

fn schema(replication: &str) -> Arc<Schema> {
    let statements = [
        format!("CREATE KEYSPACE k WITH replication = {replication}"),
        "CREATE TABLE k.t (p int PRIMARY KEY)".to_owned(),
    ];
    let schema = statements.iter().fold(Schema::default(), |schema, statement| {
        let context = DdlContext {
            session_keyspace: None,
            now_us: 1,
            new_table_id: TableId(Uuid::from_u128(1)),
            data_center: "datacenter1",
            materialized_views: false,
            default_index: helenus_schema::IndexKind::Legacy,
        };
        let statement = schema_statement(parse_statement(statement).unwrap()).unwrap();
        let outcome = apply(&schema, &statement, &context).unwrap();
        Schema::clone(&outcome.transition.unwrap().schema)
    });
    Arc::new(schema)
}

/// The copies required and alive where the level is refused.
fn refused(rule: CopyRule, schema: &Arc<Schema>, consistency: Consistency) -> Option<(i32, i32)> {
    let prepared = prepare(schema, None, Clock::default(), "SELECT * FROM k.t").unwrap();
    match rule.check(schema, &prepared.plan, consistency) {
        Err(CqlError::Unavailable { required, alive, .. }) => Some((required, alive)),
        other => {
            other.unwrap();
            None
        }
    }
}

/// QUORUM and ALL were always met by the one copy while TWO and THREE never were, also with three replicas.
#[test]
fn one_copy_stands_for_all_replicas_or_for_one() {
    use Consistency::{All, EachQuorum, LocalQuorum, One, Quorum, Three, Two};
    let three = schema("{'class': 'NetworkTopologyStrategy', 'datacenter1': 3}");
    for level in [One, Two, Three, Quorum, LocalQuorum, EachQuorum, All] {
        assert_eq!(refused(CopyRule::AllReplicas, &three, level), None, "{level}");
    }
    let strict = |level| refused(CopyRule::OneReplica, &three, level);
    assert_eq!(strict(One), None);
    assert_eq!(strict(Quorum), Some((2, 1)));
    assert_eq!(strict(LocalQuorum), Some((2, 1)));
    assert_eq!(strict(All), Some((3, 1)));
    let one = schema("{'class': 'SimpleStrategy', 'replication_factor': 1}");
    for rule in [CopyRule::AllReplicas, CopyRule::OneReplica] {
        assert_eq!(refused(rule, &one, Two), Some((2, 1)));
        assert_eq!(refused(rule, &one, Three), Some((3, 1)));
        assert_eq!(refused(rule, &one, Quorum), None);
        assert_eq!(refused(rule, &one, All), None);
    }
    let two = schema("{'class': 'SimpleStrategy', 'replication_factor': '2'}");
    assert_eq!(refused(CopyRule::AllReplicas, &two, Three), Some((3, 2)));
}
