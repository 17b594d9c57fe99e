//! CQL as a generator: every kind of statement that the parser knows.

mod access;
mod ddl;
mod describe;
mod names;
mod reads;
mod terms;
mod transactions;
mod types;
mod writes;

use std::sync::Arc;

use helenus_schema::{ColumnMetadata, KeyspaceMetadata, Schema, TableMetadata};
use helenus_storage_model::Chance;

pub(crate) use ddl::first_statements;
pub use names::KEYSPACES;
pub(crate) use terms::bound_value;

/// Writes statements over the tables that there are.
pub(crate) struct Grammar<'a> {
    pub(crate) chance: &'a Chance,
    pub(crate) schema: &'a Schema,
}

/// How deep expressions, types and values nest, most of the time; now and then it is deeper than the parser takes.
const DEPTH: usize = 3;

/// As deep as the parser takes, and deeper.
const DEPTH_STRANGE: usize = 120;

/// Tables beyond which more are dropped than made.
const TABLES_MAX: usize = 24;

impl<'a> Grammar<'a> {
    pub fn new(chance: &'a Chance, schema: &'a Schema) -> Self {
        Grammar { chance, schema }
    }

    /// A statement of any kind.
    pub fn statement(&self) -> String {
        match self.chance.below(100) {
            0..34 => self.select(),
            34..70 => self.modification(),
            70..74 => self.batch(),
            74..76 => self.transaction(),
            76..92 => self.schema_change(),
            92..94 => self.access(),
            94..97 => self.describe(),
            97 if self.chance.one_in(2) => self.prune(),
            97 => format!("TRUNCATE {}{}", self.one_of(&["", "TABLE "]), self.table_name()),
            98 => format!("USE {}", self.keyspace_name()),
            _ => self.strange(),
        }
    }

    /// Makes a statement that a BATCH message may hold.
    pub fn modification(&self) -> String {
        match self.chance.below(10) {
            0..5 => self.insert(),
            5..8 => self.update(),
            _ => self.delete(),
        }
    }

    /// Not CQL, or hardly.
    fn strange(&self) -> String {
        let pieces = [
            "SELECT",
            "(",
            ")",
            "{",
            "}",
            "[",
            "]",
            "'",
            "\"",
            "$$",
            "--",
            "/*",
            "*/",
            "\u{0}",
            "\u{1F600}",
            ";",
            "?",
            ":",
            "0x",
            "NaN",
            "-",
            "1e999",
            "..",
            "BEGIN BATCH",
            "APPLY BATCH",
            "BEGIN TRANSACTION",
            "LET a = (",
            "COMMIT TRANSACTION",
            "TOKEN",
            "\u{202E}",
            "12h30m",
            "IF",
        ];
        let count = 1 + self.chance.count(30);
        let pieces: Vec<&str> = (0..count).map(|_| self.one_of(&pieces)).collect();
        pieces.join(self.one_of(&[" ", "", "\n"]))
    }

    pub(crate) fn one_of<T: Copy>(&self, choices: &[T]) -> T {
        *self.chance.pick(choices)
    }

    pub(crate) fn sometimes(&self, one_in: u64, text: &str) -> String {
        if self.chance.one_in(one_in) {
            text.to_owned()
        } else {
            String::new()
        }
    }

    /// From one to `bound` parts with `separator` between them.
    pub(crate) fn several(&self, bound: usize, separator: &str, mut part: impl FnMut() -> String) -> String {
        let count = 1 + self.chance.count(bound);
        let parts: Vec<String> = (0..count).map(|_| part()).collect();
        parts.join(separator)
    }

    pub(crate) fn depth(&self) -> usize {
        if self.chance.one_in(500) {
            DEPTH_STRANGE
        } else {
            DEPTH
        }
    }

    /// Keyspaces that statements may change.
    fn own_keyspaces(&self) -> Vec<&'a Arc<KeyspaceMetadata>> {
        let own = |name: &str| names::KEYSPACES.contains(&name);
        let keyspaces = self.schema.keyspaces.values();
        keyspaces.filter(|keyspace| own(&keyspace.name)).collect()
    }

    pub(crate) fn own_tables(&self) -> Vec<&'a Arc<TableMetadata>> {
        let keyspaces = self.own_keyspaces();
        keyspaces
            .into_iter()
            .flat_map(|keyspace| keyspace.tables.values())
            .collect()
    }

    pub(crate) fn has_many_tables(&self) -> bool {
        self.own_tables().len() > TABLES_MAX
    }

    /// A table that there is, if there is any: mostly one of those that statements may change.
    pub(crate) fn table(&self) -> Option<&'a Arc<TableMetadata>> {
        let own = self.own_tables();
        if own.is_empty() || self.chance.one_in(16) {
            let all: Vec<_> = self.schema.tables().collect();
            return (!all.is_empty()).then(|| *self.chance.pick(&all));
        }
        Some(*self.chance.pick(&own))
    }

    pub(crate) fn column(&self, table: &'a TableMetadata) -> Option<&'a ColumnMetadata> {
        (!table.columns.is_empty()).then(|| self.chance.pick(&table.columns))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// A generator that no longer reaches a kind of statement finds nothing in it.
    #[test]
    fn every_kind_of_statement_is_written_and_mostly_parsed() {
        let (chance, schema) = (Chance::new(7), Schema::default());
        let grammar = Grammar::new(&chance, &schema);
        let mut kinds: BTreeMap<&'static str, u32> = BTreeMap::new();
        let mut refused = 0;
        for _ in 0..20_000 {
            match helenus_cql::parse_statement(&grammar.statement()) {
                Ok(statement) => *kinds.entry(statement.name()).or_default() += 1,
                Err(_) => refused += 1,
            }
        }
        assert!(refused < 5_000, "{refused}");
        let wanted = [
            "ADD IDENTITY",
            "ALTER KEYSPACE",
            "ALTER MATERIALIZED VIEW",
            "ALTER ROLE",
            "ALTER TABLE",
            "ALTER TYPE",
            "ALTER USER",
            "BATCH",
            "CREATE AGGREGATE",
            "CREATE FUNCTION",
            "CREATE INDEX",
            "CREATE KEYSPACE",
            "CREATE MATERIALIZED VIEW",
            "CREATE ROLE",
            "CREATE TABLE",
            "CREATE TRIGGER",
            "CREATE TYPE",
            "CREATE USER",
            "DELETE",
            "DESCRIBE",
            "DROP AGGREGATE",
            "DROP FUNCTION",
            "DROP IDENTITY",
            "DROP INDEX",
            "DROP KEYSPACE",
            "DROP MATERIALIZED VIEW",
            "DROP ROLE",
            "DROP TABLE",
            "DROP TRIGGER",
            "DROP TYPE",
            "DROP USER",
            "GRANT",
            "GRANT ROLE",
            "INSERT",
            "LIST PERMISSIONS",
            "LIST ROLES",
            "LIST USERS",
            "PRUNE MATERIALIZED VIEW",
            "REVOKE",
            "REVOKE ROLE",
            "SELECT",
            "TRUNCATE",
            "UPDATE",
            "USE",
        ];
        let missing: Vec<_> = wanted.iter().filter(|kind| !kinds.contains_key(*kind)).collect();
        assert!(missing.is_empty(), "{missing:?} of {kinds:?}");
    }
}
