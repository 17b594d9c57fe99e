//! DESCRIBE.

use super::Grammar;

impl Grammar<'_> {
    pub(super) fn describe(&self) -> String {
        let target = match self.chance.below(16) {
            0 => "CLUSTER".to_owned(),
            1 => "SCHEMA".to_owned(),
            2 => "FULL SCHEMA".to_owned(),
            3 => "KEYSPACES".to_owned(),
            4 => format!("{}KEYSPACE {}", self.sometimes(2, "ONLY "), self.keyspace_name()),
            5 => "TABLES".to_owned(),
            6..8 => format!("TABLE {}", self.table_name()),
            8 => format!("INDEX {}", self.index_name()),
            9 => format!("MATERIALIZED VIEW {}", self.new_name()),
            10 => "TYPES".to_owned(),
            11 => format!("TYPE {}", self.user_type_name()),
            12 => self.one_of(&["FUNCTIONS", "AGGREGATES"]).to_owned(),
            13 => format!("{} {}", self.one_of(&["FUNCTION", "AGGREGATE"]), self.new_name()),
            _ => self.table_name(),
        };
        let word = self.one_of(&["DESCRIBE", "DESC"]);
        format!("{word} {target}{}", self.sometimes(4, " WITH INTERNALS"))
    }
}
