//! From a statement to the change it stands for.

use helenus_cql::Statement;
use helenus_cql::ast::SchemaStatement;
use helenus_engine::CqlError;
use helenus_schema::Schema;

use super::change::{DdlContext, DdlOutcome};
use super::extent::check_extents;
use super::{absent, alter_table, index, keyspace, table, user_type, view};

/// The change of the schema that a statement is, if it is one.
pub fn schema_statement(statement: Statement) -> Result<SchemaStatement, CqlError> {
    match statement {
        Statement::Schema(statement) => Ok(statement),
        other => Err(CqlError::invalid(format_args!(
            "{} is not supported",
            other.name()
        ))),
    }
}

/// Applies a schema change to `schema`, which stays as it is.
pub fn apply(
    schema: &Schema,
    statement: &SchemaStatement,
    context: &DdlContext<'_>,
) -> Result<DdlOutcome, CqlError> {
    let outcome = change(schema, statement, context)?;
    if let Some(transition) = &outcome.transition {
        check_extents(schema, transition)?;
    }
    Ok(outcome)
}

fn change(
    schema: &Schema,
    statement: &SchemaStatement,
    context: &DdlContext<'_>,
) -> Result<DdlOutcome, CqlError> {
    match statement {
        SchemaStatement::CreateKeyspace(create) => keyspace::create(schema, create, context),
        SchemaStatement::AlterKeyspace(alter) => keyspace::alter(schema, alter, context),
        SchemaStatement::DropKeyspace(drop) => keyspace::drop(schema, drop),
        SchemaStatement::CreateTable(create) => table::create(schema, create, context),
        SchemaStatement::AlterTable(alter) => alter_table::alter(schema, alter, context),
        SchemaStatement::DropTable(drop) => table::drop(schema, drop, context),
        SchemaStatement::CreateType(create) => user_type::create(schema, create, context),
        SchemaStatement::AlterType(alter) => user_type::alter(schema, alter, context),
        SchemaStatement::DropType(drop) => user_type::drop(schema, drop, context),
        SchemaStatement::CreateIndex(create) => index::create(schema, create, context),
        SchemaStatement::DropIndex(drop) => index::drop(schema, drop, context),
        SchemaStatement::CreateView(create) => view::create(schema, create, context),
        SchemaStatement::AlterView(alter) => view::alter(schema, alter, context),
        SchemaStatement::DropView(drop) => view::drop(schema, drop, context),
        SchemaStatement::DropFunction(drop) => absent::drop_function(schema, "Function", drop, context),
        SchemaStatement::DropAggregate(drop) => absent::drop_function(schema, "Aggregate", drop, context),
        SchemaStatement::CreateTrigger(create) => absent::create_trigger(schema, create, context),
        SchemaStatement::DropTrigger(drop) => absent::drop_trigger(drop, context),
        SchemaStatement::CreateFunction(create) => absent::create_function(create, context),
        SchemaStatement::CreateAggregate(create) => absent::create_aggregate(schema, create, context),
    }
}

#[cfg(test)]
mod tests {
    use helenus_cql::parse_statement;
    use helenus_protocol::response::SchemaChangeKind::{Created, Dropped, Updated};
    use helenus_schema::{ColumnId, TableId};
    use uuid::Uuid;

    use super::super::change::{SchemaChange, SchemaChangeTarget};
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
            session.run("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}");
            session
        }

        fn outcome(&mut self, statement: &str) -> Result<DdlOutcome, CqlError> {
            self.tables_made += 1;
            let context = DdlContext {
                session_keyspace: Some("ks"),
                now_us: 77,
                new_table_id: TableId(Uuid::from_u128(self.tables_made)),
                data_center: "datacenter1",
                materialized_views: false,
                default_index: helenus_schema::IndexKind::Legacy,
            };
            let statement = schema_statement(parse_statement(statement).unwrap())?;
            apply(&self.schema, &statement, &context)
        }

        /// Applies a statement that changes something, and returns the events.
        fn run(&mut self, statement: &str) -> Vec<SchemaChange> {
            let transition = self.outcome(statement).unwrap().transition.unwrap();
            assert_eq!(transition.schema.version, self.schema.version + 1);
            self.schema = Schema::clone(&transition.schema);
            transition.events
        }
    }

    #[test]
    fn events_tell_all_that_changed() {
        let mut session = Session::new();
        session.run("CREATE TYPE u (a int)");
        let table = |kind, name: &str| SchemaChange {
            kind,
            keyspace: "ks".into(),
            target: SchemaChangeTarget::Table(name.into()),
        };
        let user_type = |kind| SchemaChange {
            target: SchemaChangeTarget::Type("u".into()),
            ..table(kind, "")
        };
        let keyspace = |kind| SchemaChange {
            target: SchemaChangeTarget::Keyspace,
            ..table(kind, "")
        };
        assert_eq!(
            session.run("CREATE TABLE t1 (p int PRIMARY KEY, v u)"),
            [table(Created, "t1")]
        );
        session.run("CREATE TABLE t2 (p int PRIMARY KEY, v int)");
        let events = session.run("ALTER TYPE u ADD b text");
        assert_eq!(events, [user_type(Updated), table(Updated, "t1")]);
        assert_eq!(session.run("ALTER TABLE t2 ADD w int"), [table(Updated, "t2")]);
        let events = session.run("DROP KEYSPACE ks");
        assert_eq!(
            events,
            [
                table(Dropped, "t1"),
                table(Dropped, "t2"),
                user_type(Dropped),
                keyspace(Dropped)
            ]
        );
        assert!(session.schema.keyspaces.is_empty());
    }

    #[test]
    fn an_index_has_an_id_of_its_own_life() {
        let mut session = Session::new();
        session.run("CREATE TABLE t (p int PRIMARY KEY, v int, w text)");
        let updated = SchemaChange {
            kind: Updated,
            keyspace: "ks".into(),
            target: SchemaChangeTarget::Table("t".into()),
        };
        assert_eq!(
            session.run("CREATE INDEX ON t (v)"),
            std::slice::from_ref(&updated)
        );
        let id = |session: &Session| {
            let table = session.schema.table("ks", "t").unwrap();
            table.index("t_v_idx").unwrap().id
        };
        let first = id(&session);
        assert!(session.outcome("ALTER TABLE t DROP v").is_err());
        assert_eq!(session.run("DROP INDEX t_v_idx"), [updated]);
        session.run("CREATE INDEX ON t (v)");
        assert_ne!(id(&session), first);
        let unchanged = session.outcome("CREATE INDEX IF NOT EXISTS ON t (v)").unwrap();
        assert!(unchanged.transition.is_none());
        session.run("CREATE TABLE other (p int PRIMARY KEY, v int)");
        let taken = session.outcome("CREATE INDEX t_v_idx ON other (v)").unwrap_err();
        assert_eq!(taken.to_string(), "Index 't_v_idx' already exists");
        session.run("DROP TABLE t");
        session.run("CREATE INDEX t_v_idx ON other (v)");
    }

    /// Nobody is told of an index that would find nothing.
    #[test]
    fn indexes_that_are_not_made_are_refused_by_name() {
        let mut session = Session::new();
        session.run("CREATE TABLE t (p int PRIMARY KEY, w text)");
        let mut refusal = |statement: &str| session.outcome(statement).unwrap_err().to_string();
        assert_eq!(
            refusal("CREATE CUSTOM INDEX ON t (w) USING 'org.apache.cassandra.index.sasi.SASIIndex'"),
            "SASI indexes are disabled: this server does not have them"
        );
    }

    #[test]
    fn column_ids_are_of_one_name_each() {
        let mut session = Session::new();
        session.run("CREATE TABLE t (p int, c int, b int, a int, s int static, PRIMARY KEY (p, c))");
        let ids = |session: &Session| -> Vec<(String, u16)> {
            let table = session.schema.table("ks", "t").unwrap();
            table
                .columns
                .iter()
                .map(|column| (column.name.to_string(), column.id.0))
                .collect()
        };
        let named = |pairs: &[(&str, u16)]| -> Vec<(String, u16)> {
            pairs.iter().map(|&(name, id)| (name.to_owned(), id)).collect()
        };
        assert_eq!(
            ids(&session),
            named(&[("p", 0), ("c", 1), ("s", 2), ("a", 3), ("b", 4)])
        );
        session.run("ALTER TABLE t DROP b");
        session.run("ALTER TABLE t ADD b int");
        session.run("ALTER TABLE t RENAME c TO d");
        assert_eq!(
            ids(&session),
            named(&[("p", 0), ("d", 1), ("s", 2), ("a", 3), ("b", 4)])
        );
        session.run("ALTER TABLE t DROP a");
        session.run("ALTER TABLE t ADD z int");
        // What the first deletion hides stays hidden.
        session.run("ALTER TABLE t DROP b USING TIMESTAMP 50");
        let table = session.schema.table("ks", "t").unwrap();
        assert_eq!(table.column("z").unwrap().id, ColumnId(5));
        assert_eq!(table.next_column_id, ColumnId(6));
        let dropped = table.dropped_columns.iter();
        let dropped: Vec<_> = dropped
            .map(|dropped| (dropped.id, dropped.dropped_at_us))
            .collect();
        assert_eq!(dropped, [(ColumnId(3), 77), (ColumnId(4), 77)]);
    }

    /// As a Cassandra 5.0.5 answered.
    #[test]
    fn a_column_comes_back_if_its_values_can_be_read() {
        let mut session = Session::new();
        let columns = "p int, c int, v text, m map<int, text>, s text static, i int";
        session.run(&format!("CREATE TABLE t ({columns}, PRIMARY KEY (p, c))"));
        for column in ["v", "m", "s", "i"] {
            session.run(&format!("ALTER TABLE t DROP {column}"));
        }
        let mut refused = |column: &str, kind_or_type: &str| {
            let outcome = session.outcome(&format!("ALTER TABLE t ADD {column} {kind_or_type}"));
            outcome.err().map(|error| error.to_string())
        };
        let of_type = |column: &str, new: &str, old: &str| {
            Some(format!(
                "Cannot re-add previously dropped column '{column}' of type {new}, incompatible with previous type {old}"
            ))
        };
        for new in [
            "text",
            "map<text, text>",
            "frozen<map<int, text>>",
            "set<int>",
            "map<int, int>",
        ] {
            assert_eq!(refused("m", new), of_type("m", new, "map<int, text>"));
        }
        for new in ["varint", "bigint", "blob"] {
            assert_eq!(refused("i", new), of_type("i", new, "int"));
        }
        assert_eq!(refused("v", "int"), of_type("v", "int", "text"));
        let of_kind = |column: &str, new: &str, old: &str| {
            Some(format!(
                "Cannot re-add previously dropped column '{column}' of kind {new}, incompatible with previous kind {old}"
            ))
        };
        assert_eq!(refused("s", "text"), of_kind("s", "REGULAR", "STATIC"));
        assert_eq!(refused("v", "text static"), of_kind("v", "STATIC", "REGULAR"));
        for (column, new) in [
            ("m", "map<int, blob>"),
            ("v", "blob"),
            ("s", "text static"),
            ("i", "int"),
        ] {
            assert_eq!(refused(column, new), None);
        }
        session.run("CREATE TABLE counters (p int PRIMARY KEY, a counter, b counter)");
        session.run("ALTER TABLE counters DROP a");
        let error = session.outcome("ALTER TABLE counters ADD a counter").unwrap_err();
        assert_eq!(
            error.to_string(),
            "Cannot re-add previously dropped counter column a"
        );
    }

    #[test]
    fn a_table_id_belongs_to_one_table() {
        let mut session = Session::new();
        let id = "5a1c395e-b41f-11e5-9f22-ba0be0483c18";
        session.run(&format!("CREATE TABLE t (p int PRIMARY KEY) WITH id = {id}"));
        let error = session
            .outcome(&format!("CREATE TABLE t2 (p int PRIMARY KEY) WITH id = {id}"))
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("Table id {id} is already used by ks.t")
        );
    }

    #[test]
    fn a_counter_table_stays_one_without_counters() {
        let mut session = Session::new();
        session.run("CREATE TABLE t (p int PRIMARY KEY, n counter)");
        session.run("ALTER TABLE t DROP n");
        assert!(session.outcome("ALTER TABLE t ADD v int").is_err());
        session.run("ALTER TABLE t ADD m counter");
        session.run("CREATE TABLE plain (p int PRIMARY KEY)");
        assert!(session.outcome("ALTER TABLE plain ADD n counter").is_err());
    }
}
