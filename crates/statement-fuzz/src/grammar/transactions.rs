//! Transactions: rows that are read, conditions on them, and statements that refer to them.

use helenus_types::quoted_identifier;

use super::Grammar;

/// Names of rows; one of them is never read.
const ROWS: [&str; 3] = ["a", "b", "unread"];

impl Grammar<'_> {
    pub(super) fn transaction(&self) -> String {
        let bound = if self.chance.one_in(100) { 600 } else { 4 };
        let read = || {
            let name = self.one_of(&ROWS[..2]);
            format!("LET {name} = ({}); ", self.row_select())
        };
        let reads = match self.chance.one_in(4) {
            true => String::new(),
            false => self.several(2, "", read),
        };
        let answer = match self.chance.below(4) {
            0 => format!("SELECT {}; ", self.several(3, ", ", || self.reference())),
            1 => format!("{}; ", self.row_select()),
            _ => String::new(),
        };
        let statements = self.several(bound, "", || format!("{}; ", self.referring()));
        let (condition, end) = match self.chance.one_in(2) {
            true => (
                format!("IF {} THEN ", self.several(3, " AND ", || self.row_condition())),
                "END IF ",
            ),
            false => (String::new(), ""),
        };
        format!("BEGIN TRANSACTION {reads}{answer}{condition}{statements}{end}COMMIT TRANSACTION")
    }

    fn row_select(&self) -> String {
        let select = self.select();
        let limit = self.sometimes(2, " LIMIT 1");
        match self.own_tables().first() {
            Some(table) if !self.chance.one_in(5) => {
                let keys = table.partition_key().iter().chain(table.clustering());
                let equal = keys.map(|column| {
                    format!(
                        "{} = {}",
                        quoted_identifier(&column.name),
                        self.term(&column.cql_type)
                    )
                });
                let equal: Vec<String> = equal.collect();
                format!(
                    "SELECT * FROM {} WHERE {}{limit}",
                    self.name_of(table),
                    equal.join(" AND ")
                )
            }
            _ => select,
        }
    }

    fn reference(&self) -> String {
        let column = match self.own_tables().first() {
            Some(table) => self.column_name(table),
            None => "a".to_owned(),
        };
        let part = self.one_of(&["", "", "", "[0]", "['a']", ".a", "[?]"]);
        format!("{}.{column}{part}", self.one_of(&ROWS))
    }

    fn row_condition(&self) -> String {
        let row = self.one_of(&ROWS);
        let operator = self.one_of(&["=", "<", "<=", ">", ">=", "!="]);
        match self.chance.below(6) {
            0 => format!("{row} IS {}NULL", self.sometimes(2, "NOT ")),
            1 => format!("{} IS {}NULL", self.reference(), self.sometimes(2, "NOT ")),
            2 => format!("{} {operator} {}", self.any_term(1), self.reference()),
            3 => format!("{} {operator} {}", self.reference(), self.reference()),
            _ => format!("{} {operator} {}", self.reference(), self.any_term(1)),
        }
    }

    /// A statement, of which some change what they find, or write what was read.
    fn referring(&self) -> String {
        let Some(table) = self
            .own_tables()
            .first()
            .copied()
            .filter(|_| self.chance.one_in(2))
        else {
            return self.modification();
        };
        let keys = table.partition_key().iter().chain(table.clustering());
        let equal: Vec<String> = keys
            .map(|column| {
                format!(
                    "{} = {}",
                    quoted_identifier(&column.name),
                    self.term(&column.cql_type)
                )
            })
            .collect();
        let column = self.column_name(table);
        let operator = self.one_of(&["=", "+=", "-="]);
        let value = match self.chance.below(3) {
            0 => format!("{} + {}", self.reference(), self.any_term(1)),
            1 => self.any_term(1),
            _ => self.reference(),
        };
        format!(
            "UPDATE {} SET {column} {operator} {value} WHERE {}",
            self.name_of(table),
            equal.join(" AND ")
        )
    }
}
