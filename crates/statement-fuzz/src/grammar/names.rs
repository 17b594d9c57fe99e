//! Names: mostly of what there is.

use helenus_types::quoted_identifier;

use super::Grammar;

/// The keyspaces whose contents statements may change.
pub const KEYSPACES: [&str; 3] = ["fuzz", "fuzz_b", "Fuzz C"];

/// Names of columns, fields, types, tables and functions; some are keywords or have to be quoted.
const WORDS: [&str; 20] = [
    "a",
    "b",
    "c",
    "d",
    "e",
    "f",
    "g",
    "h",
    "v",
    "k",
    "Upper",
    "with space",
    "select",
    "token",
    "key",
    "type",
    "ttl",
    "qu\"ote",
    "\u{e9}t\u{e9}",
    "_under",
];

impl Grammar<'_> {
    pub(super) fn word(&self) -> String {
        if self.chance.one_in(400) {
            return quoted_identifier(&"long".repeat(1 + self.chance.count(400))).into_owned();
        }
        quoted_identifier(self.one_of(&WORDS)).into_owned()
    }

    pub(super) fn keyspace_name(&self) -> String {
        match self.chance.below(12) {
            0 => self
                .one_of(&["system", "system_schema", "system_auth", "system_views"])
                .to_owned(),
            1 => self.word(),
            _ => quoted_identifier(self.one_of(&KEYSPACES)).into_owned(),
        }
    }

    /// Where something is made: with a keyspace most of the time.
    pub(super) fn new_name(&self) -> String {
        match self.chance.below(8) {
            0 => self.word(),
            _ => format!("{}.{}", self.keyspace_name(), self.word()),
        }
    }

    pub(super) fn table_name(&self) -> String {
        match self.table() {
            Some(table) if !self.chance.one_in(40) => {
                format!(
                    "{}.{}",
                    quoted_identifier(&table.keyspace),
                    quoted_identifier(&table.name)
                )
            }
            _ => self.new_name(),
        }
    }

    /// A user type that there is, mostly.
    pub(super) fn user_type_name(&self) -> String {
        let keyspaces = self.own_keyspaces();
        let types: Vec<String> = keyspaces
            .iter()
            .flat_map(|keyspace| keyspace.types.values())
            .map(|found| {
                format!(
                    "{}.{}",
                    quoted_identifier(&found.keyspace),
                    quoted_identifier(&found.name)
                )
            })
            .collect();
        if types.is_empty() || self.chance.one_in(30) {
            return self.new_name();
        }
        self.chance.pick(&types).clone()
    }

    pub(super) fn if_exists(&self) -> String {
        self.sometimes(3, "IF EXISTS ")
    }

    pub(super) fn if_not_exists(&self) -> String {
        self.sometimes(3, "IF NOT EXISTS ")
    }
}
