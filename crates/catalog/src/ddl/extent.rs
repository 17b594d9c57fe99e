//! How large the types of a schema may be: looked at once a change is made and before anyone sees it.

use std::sync::Arc;

use helenus_engine::CqlError;
use helenus_schema::{ColumnMetadata, KeyspaceMetadata, Schema, TableMetadata};
use helenus_types::{CqlType, ExtentBounds};

use super::change::SchemaTransition;

/// Refuses a change after which a type or table is larger than can be stored and described. Only what has changed is
/// looked at, so that what was too large before can still be dropped.
pub(super) fn check_extents(before: &Schema, transition: &SchemaTransition) -> Result<(), CqlError> {
    let name = &*transition.change.keyspace;
    let Some(after) = transition.schema.keyspace(name) else {
        return Ok(());
    };
    let before = before.keyspace(name);
    check_types(before.map(|keyspace| &**keyspace), after)?;
    for (name, table) in &after.tables {
        let earlier = before.and_then(|before| before.tables.get(name));
        if !earlier.is_some_and(|earlier| Arc::ptr_eq(earlier, table)) {
            check_table(earlier.map(|earlier| &**earlier), table)?;
        }
    }
    Ok(())
}

fn check_types(before: Option<&KeyspaceMetadata>, after: &KeyspaceMetadata) -> Result<(), CqlError> {
    for (name, user_type) in &after.types {
        let earlier = before.and_then(|before| before.types.get(name));
        if earlier.is_some_and(|earlier| Arc::ptr_eq(earlier, user_type)) {
            continue;
        }
        let whole = CqlType::user_defined(Arc::clone(user_type), true);
        if let Err(error) = ExtentBounds::DECLARED.check([&whole]) {
            return Err(invalid!("User type {}.{name} {error}", after.name));
        }
    }
    Ok(())
}

fn check_table(before: Option<&TableMetadata>, after: &TableMetadata) -> Result<(), CqlError> {
    let TableMetadata { keyspace, name, .. } = after;
    let is_new = |column: &&ColumnMetadata| {
        let earlier = before.and_then(|before| before.column_by_id(column.id));
        earlier.is_none_or(|earlier| earlier.cql_type != column.cql_type)
    };
    let mut has_new = false;
    for column in after.columns.iter().filter(is_new) {
        has_new = true;
        if let Err(error) = ExtentBounds::DECLARED.check([&column.cql_type]) {
            return Err(invalid!(
                "The type of column {} of table {keyspace}.{name} {error}",
                column.name
            ));
        }
    }
    if !has_new {
        return Ok(());
    }
    let key = after.partition_key().iter().map(|column| &column.cql_type);
    if let Err(error) = ExtentBounds::DECLARED.check(key) {
        return Err(invalid!("The partition key of table {keyspace}.{name} {error}"));
    }
    let columns = after.columns.iter().map(|column| &column.cql_type);
    let dropped = after.dropped_columns.iter().map(|column| &column.cql_type);
    match ExtentBounds::COLUMNS.check(columns.chain(dropped)) {
        Ok(_) => Ok(()),
        Err(error) => Err(invalid!(
            "Table {keyspace}.{name}, dropped columns included, {error}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use helenus_cql::parse_statement;
    use helenus_schema::TableId;
    use uuid::Uuid;

    use super::super::{DdlContext, apply, schema_statement};
    use super::*;

    struct Session {
        schema: Schema,
        tables_made: u128,
    }

    impl Session {
        fn new() -> Self {
            let mut session = Session {
                schema: Schema::default(),
                tables_made: 0,
            };
            session
                .run("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}")
                .unwrap();
            session.run("CREATE TYPE t0 (a int)").unwrap();
            session
        }

        fn run(&mut self, statement: &str) -> Result<(), String> {
            self.tables_made += 1;
            let context = DdlContext {
                session_keyspace: Some("ks"),
                now_us: 77,
                new_table_id: TableId(Uuid::from_u128(self.tables_made)),
                data_center: "datacenter1",
                materialized_views: false,
                default_index: helenus_schema::IndexKind::Legacy,
            };
            let statement = parse_statement(statement).map_err(|error| error.to_string())?;
            let statement = schema_statement(statement).map_err(|error| error.to_string())?;
            let outcome = apply(&self.schema, &statement, &context).map_err(|error| error.to_string())?;
            if let Some(transition) = outcome.transition {
                self.schema = Schema::clone(&transition.schema);
            }
            Ok(())
        }

        /// Makes types `t1`, `t2`, ... of these fields until one is refused.
        fn refused(&mut self, fields: impl Fn(usize) -> String) -> (usize, String) {
            for level in 1..1_000 {
                let statement = format!("CREATE TYPE t{level} ({})", fields(level - 1));
                if let Err(error) = self.run(&statement) {
                    return (level, error);
                }
            }
            panic!("1,000 types were let pass");
        }
    }

    /// 70 types of a type, a table and an INSERT: the flush wrote a file that its own reader refuses, and the node did
    /// not start again.
    #[test]
    fn user_types_nest_to_a_bound() {
        let mut session = Session::new();
        let (level, error) = session.refused(|below| format!("a frozen<t{below}>"));
        assert_eq!(level, 31);
        assert_eq!(
            error,
            "User type ks.t31 nests deeper than 32 levels, user types included; flatten it, or keep the inner part as \
             a blob"
        );
        session
            .run("CREATE TABLE t (p int PRIMARY KEY, v frozen<t30>)")
            .unwrap();
        let error = session
            .run("CREATE TABLE u (p int PRIMARY KEY, v list<frozen<t30>>)")
            .unwrap_err();
        assert!(error.starts_with("The type of column v of table ks.u nests deeper than 32 levels"));
        let error = session.run("ALTER TABLE t ADD w list<frozen<t30>>").unwrap_err();
        assert!(error.starts_with("The type of column w of table ks.t nests deeper"));
    }

    /// 42 statements: SELECT held a shard for half a minute, the flush ran out of memory, and so did each start.
    #[test]
    fn user_types_that_double_are_refused() {
        let mut session = Session::new();
        let (level, error) = session.refused(|below| format!("a frozen<t{below}>, b frozen<t{below}>"));
        assert_eq!(level, 12);
        assert!(
            error.starts_with("User type ks.t12 has more than 10000 parts once user types are spelled out")
        );
    }

    /// Nesting within a statement and by user types adds up: a SELECT overflowed the stack of its shard.
    #[test]
    fn nesting_within_a_statement_counts() {
        let mut session = Session::new();
        let nested = |below: usize| format!("a {}t{below}{}", "frozen<list<".repeat(10), ">>".repeat(10));
        let (level, error) = session.refused(nested);
        assert_eq!(level, 3);
        assert!(
            error.starts_with("The type of field a of user type ks.t3 nests deeper than 32 levels"),
            "{error}"
        );
    }

    #[test]
    fn what_uses_an_altered_type_counts_too() {
        let mut session = Session::new();
        for level in 1..=30 {
            let statement = format!("CREATE TYPE t{level} (a frozen<t{}>)", level - 1);
            session.run(&statement).unwrap();
        }
        session
            .run("CREATE TABLE t (p int PRIMARY KEY, v frozen<t30>)")
            .unwrap();
        let error = session.run("ALTER TYPE t0 ADD b frozen<list<int>>").unwrap_err();
        assert!(error.starts_with("User type ks.t30 nests deeper"), "{error}");
    }

    #[test]
    fn the_columns_of_a_table_have_a_bound_together() {
        let mut session = Session::new();
        let fields: Vec<String> = (0..9_000).map(|index| format!("f{index} int")).collect();
        session
            .run(&format!("CREATE TYPE wide ({})", fields.join(", ")))
            .unwrap();
        session.run("CREATE TABLE t (p int PRIMARY KEY, v int)").unwrap();
        let mut refusal = None;
        for column in 0..20 {
            refusal = session
                .run(&format!("ALTER TABLE t ADD w{column} frozen<wide>"))
                .err();
            if refusal.is_some() {
                break;
            }
            // A dropped column keeps its type.
            session.run(&format!("ALTER TABLE t DROP w{column}")).unwrap();
        }
        let error = refusal.unwrap();
        assert!(
            error.starts_with("Table ks.t, dropped columns included, has more than 100000 parts"),
            "{error}"
        );
        session.run("ALTER TABLE t DROP v").unwrap();
        let error = session
            .run("CREATE TABLE u (p frozen<wide>, q frozen<wide>, PRIMARY KEY ((p, q)))")
            .unwrap_err();
        assert!(
            error.starts_with("The partition key of table ks.u has more than 10000 parts"),
            "{error}"
        );
    }
}
