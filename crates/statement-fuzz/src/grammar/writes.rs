//! INSERT, UPDATE, DELETE and batches of them.

use helenus_schema::{ColumnMetadata, TableMetadata};
use helenus_types::{CqlType, quoted_identifier};

use super::Grammar;

impl<'a> Grammar<'a> {
    pub(super) fn insert(&self) -> String {
        let Some(table) = self.own_table() else {
            return format!("INSERT INTO {} (a) VALUES (1)", self.new_name());
        };
        let mut text = format!("INSERT INTO {} ", self.name_of(table));
        if self.chance.one_in(30) {
            text += &format!("JSON {}", self.json(table));
            text += self.one_of(&["", " DEFAULT NULL", " DEFAULT UNSET"]);
        } else {
            let columns = self.some_columns(table);
            let mut values: Vec<String> = columns.iter().map(|column| self.term(&column.cql_type)).collect();
            if self.chance.one_in(60) {
                values.pop();
            }
            let names: Vec<_> = columns
                .iter()
                .map(|column| quoted_identifier(&column.name))
                .collect();
            text += &format!("({}) VALUES ({})", names.join(", "), values.join(", "));
        }
        text += &self.sometimes(8, " IF NOT EXISTS");
        text += &self.using(true);
        text
    }

    fn own_table(&self) -> Option<&'a TableMetadata> {
        let own = self.own_tables();
        match own.is_empty() || self.chance.one_in(50) {
            true => self.table().map(|table| &**table),
            false => Some(*self.chance.pick(&own)).map(|table| &**table),
        }
    }

    /// The primary key, mostly, and some of the others.
    fn some_columns(&self, table: &'a TableMetadata) -> Vec<&'a ColumnMetadata> {
        let key = table.partition_key().len() + table.clustering().len();
        let takes = |index: usize| {
            if index < key {
                !self.chance.one_in(60)
            } else {
                self.chance.one_in(2)
            }
        };
        let columns = table.columns.iter().enumerate();
        columns
            .filter(|(index, _)| takes(*index))
            .map(|(_, column)| column)
            .collect()
    }

    fn json(&self, table: &'a TableMetadata) -> String {
        if self.chance.one_in(10) {
            return self
                .one_of(&[
                    "?",
                    ":json",
                    "'{}'",
                    "'[1, 2'",
                    "'null'",
                    "''",
                    "'{\"a\": {\"a\": {}}}'",
                ])
                .to_owned();
        }
        let columns = self.some_columns(table);
        let members = columns.iter().map(|column| {
            // A string is a JSON text of any simple type.
            let value = match &column.cql_type {
                CqlType::Int | CqlType::Bigint | CqlType::Double => self.literal(&column.cql_type),
                _ if self.chance.one_in(3) => "[1, \"a\", {\"b\": null}]".to_owned(),
                _ => format!(
                    "\"{}\"",
                    self.literal(&column.cql_type).replace(['\'', '"', '\\'], "")
                ),
            };
            format!("\"{}\": {value}", column.name.replace('"', "\\\""))
        });
        let members: Vec<String> = members.collect();
        format!("'{{{}}}'", members.join(", ").replace('\'', "''"))
    }

    pub(super) fn update(&self) -> String {
        let Some(table) = self.own_table() else {
            return format!("UPDATE {} SET a = 1 WHERE b = 2", self.new_name());
        };
        self.update_of(table)
    }

    fn update_of(&self, table: &'a TableMetadata) -> String {
        // Counters take neither, which is said often enough.
        let is_refused = table.is_counter() && !self.chance.one_in(20);
        let unless_refused = |text: String| if is_refused { String::new() } else { text };
        format!(
            "UPDATE {}{} SET {}{}{}",
            self.name_of(table),
            unless_refused(self.using(true)),
            self.assignments(table),
            self.where_clause(table, 60),
            unless_refused(self.conditions(table))
        )
    }

    /// Makes assignments, to each column once; now and then hundreds to one column, which only its elements may have.
    fn assignments(&self, table: &'a TableMetadata) -> String {
        let key = table.partition_key().len() + table.clustering().len();
        let others = &table.columns[key.min(table.columns.len())..];
        if others.is_empty() || self.chance.one_in(50) {
            return self
                .column(table)
                .map_or("a = 1".to_owned(), |column| self.assignment(column));
        }
        if self.chance.one_in(300) {
            let column = self.chance.pick(others);
            return self.several(500, ", ", || self.assignment(column));
        }
        let first = self.chance.count(others.len());
        let count = 1 + self.chance.count((others.len() - first).min(3));
        let columns = others[first..first + count].iter();
        let assignments: Vec<String> = columns.map(|column| self.assignment(column)).collect();
        assignments.join(", ")
    }

    fn assignment(&self, column: &ColumnMetadata) -> String {
        let (name, value) = (quoted_identifier(&column.name), || self.term(&column.cql_type));
        let kinds = match column.cql_type.is_counter() && !self.chance.one_in(8) {
            true => 4,
            false => 14,
        };
        match self.chance.below(kinds) {
            0 => format!("{name} = {name} + {}", value()),
            1 => format!("{name} += {}", value()),
            2 => format!("{name} = {name} - {}", value()),
            3 => format!("{name} -= {}", value()),
            4 => format!("{name} = {} + {name}", value()),
            5 => format!("{name}[{}] = {}", self.any_term(1), self.any_term(1)),
            6 => format!("{name}.{} = {}", self.word(), self.any_term(1)),
            _ => format!("{name} = {}", value()),
        }
    }

    pub(super) fn delete(&self) -> String {
        let Some(table) = self.own_table() else {
            return format!("DELETE FROM {} WHERE b = 2", self.new_name());
        };
        let targets = match self.chance.below(3) {
            0 => self.several(3, ", ", || {
                let name = self.column_name(table);
                match self.chance.below(6) {
                    0 => format!("{name}[{}]", self.any_term(1)),
                    1 => format!("{name}.{}", self.word()),
                    _ => name,
                }
            }),
            _ => String::new(),
        };
        format!(
            "DELETE {targets} FROM {}{}{}{}",
            self.name_of(table),
            self.using(false),
            self.where_clause(table, 60),
            self.conditions(table)
        )
    }

    fn conditions(&self, table: &'a TableMetadata) -> String {
        if !self.chance.one_in(6) {
            return String::new();
        }
        match self.chance.below(3) {
            0 => " IF EXISTS".to_owned(),
            _ => {
                let condition = || {
                    let (name, value) = (self.column_name(table), self.any_term(1));
                    let operator = self.one_of(&["=", "!=", "<", "<=", ">", ">="]);
                    match self.chance.below(12) {
                        0 => format!("{name} IN ({value}, {})", self.any_term(1)),
                        1 => format!("{name} IN ?"),
                        2 => format!("{name}[{value}] {operator} {}", self.any_term(1)),
                        3 => format!("{name}.{} {operator} {value}", self.word()),
                        4 => format!("{name} CONTAINS {value}"),
                        5 => format!("{name} CONTAINS KEY {value}"),
                        6 => format!("{name} {operator} null"),
                        _ => format!("{name} {operator} {}", self.term_of_column(table, &name)),
                    }
                };
                let bound = if self.chance.one_in(100) { 1_100 } else { 3 };
                format!(" IF {}", self.several(bound, " AND ", condition))
            }
        }
    }

    /// A term of the column's type, so that the condition is looked at.
    fn term_of_column(&self, table: &TableMetadata, name: &str) -> String {
        let of_name = |column: &&ColumnMetadata| *quoted_identifier(&column.name) == *name;
        match table.columns.iter().find(of_name) {
            Some(column) => self.term(&column.cql_type),
            None => self.any_term(1),
        }
    }

    fn using(&self, has_ttl: bool) -> String {
        if !self.chance.one_in(5) {
            return String::new();
        }
        let attribute = || match self.chance.below(if has_ttl { 3 } else { 2 }) {
            0 => format!(
                "TIMESTAMP {}",
                self.one_of(&[
                    "1",
                    "0",
                    "-1",
                    "?",
                    "9223372036854775807",
                    "-9223372036854775808",
                    "1700000000000000"
                ])
            ),
            1 => format!("TIMEOUT {}", self.one_of(&["1ms", "1s", "?", "1mo", "0s"])),
            _ => format!(
                "TTL {}",
                self.one_of(&["1", "0", "-1", "?", "630720000", "630720001", "null"])
            ),
        };
        format!(" USING {}", self.several(2, " AND ", attribute))
    }

    pub(super) fn batch(&self) -> String {
        let bound = if self.chance.one_in(100) { 300 } else { 6 };
        let mut counters = self.own_tables();
        counters.retain(|table| table.is_counter());
        if !counters.is_empty() && self.chance.one_in(4) {
            let count = || self.update_of(counters[self.chance.count(counters.len())]);
            let statements = self.several(bound, "; ", count);
            let kind = self.one_of(&["COUNTER", "COUNTER", "UNLOGGED"]);
            return format!("BEGIN {kind} BATCH {statements}; APPLY BATCH");
        }
        let statements = self.several(bound, "; ", || self.modification());
        format!(
            "BEGIN {}BATCH{} {statements}; APPLY BATCH",
            self.one_of(&["", "UNLOGGED ", "LOGGED ", "COUNTER "]),
            self.using(false)
        )
    }
}
