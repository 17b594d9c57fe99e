//! SELECT, and the relations that UPDATE and DELETE have too.

use helenus_schema::{ColumnMetadata, TableMetadata};
use helenus_types::{CqlType, quoted_identifier};

use super::terms::FUNCTIONS;
use super::{DEPTH, Grammar};

const AGGREGATES: [&str; 6] = ["count", "min", "max", "sum", "avg", "token"];

const COMPARISONS: [&str; 6] = ["=", "<", "<=", ">", ">=", "!="];

/// Vectors that rows are to be near to.
const VECTORS: [&str; 7] = [
    "[1.0, 2.0]",
    "[1.0, 2.0, -3.0]",
    "[0, 0, 0]",
    "[NaN, 0, Infinity]",
    "[1e30, 0, 0]",
    "?",
    "null",
];

impl<'a> Grammar<'a> {
    pub(super) fn select(&self) -> String {
        let Some(table) = self.table() else {
            return format!("SELECT * FROM {}", self.new_name());
        };
        let mut text = "SELECT ".to_owned();
        text += &self.sometimes(40, "JSON ");
        text += &match self.chance.below(8) {
            0 | 1 => "*".to_owned(),
            2 => format!("DISTINCT {}", self.names(table.partition_key())),
            _ => self.selection(table),
        };
        text += &format!(" FROM {}", self.name_of(table));
        text += &self.where_clause(table, 2);
        if self.chance.one_in(8) {
            text += &format!(" GROUP BY {}", self.names(self.key_prefix(table)));
        }
        if self.chance.one_in(6) {
            text += &format!(" ORDER BY {}", self.ordering(table));
        }
        if self.chance.one_in(6) {
            text += &format!(" PER PARTITION LIMIT {}", self.limit());
        }
        if self.chance.one_in(4) {
            text += &format!(" LIMIT {}", self.limit());
        }
        if !self.chance.one_in(3) {
            text += " ALLOW FILTERING";
        }
        if self.chance.one_in(16) {
            text += &format!(" WITH {}", self.index_hints());
        }
        text += &self.sometimes(12, " BYPASS CACHE");
        if self.chance.one_in(12) {
            text += &format!(
                " USING TIMEOUT {}",
                self.one_of(&["1ms", "10ms", "1s", "?", "0s", "1mo", "5d"])
            );
        }
        text
    }

    fn index_hints(&self) -> String {
        let sets = [
            "{}",
            "{*}",
            "{a_v_idx}",
            "{b_s_idx, b_l_idx}",
            "{fuzz.n_v_idx, *}",
            "{other.i}",
            "{'i': 'j'}",
            "i",
        ];
        let hint = |name: &str| format!("{name}_indexes = {}", self.one_of(&sets));
        match self.chance.below(4) {
            0 => hint("included"),
            1 => hint("excluded"),
            2 => format!("{} AND {}", hint("included"), hint("excluded")),
            _ => format!("{} AND {}", hint("excluded"), hint("forgotten")),
        }
    }

    pub(super) fn prune(&self) -> String {
        let Some(table) = self.table() else {
            return format!("PRUNE MATERIALIZED VIEW {}", self.new_name());
        };
        let mut text = format!("PRUNE MATERIALIZED VIEW {}", self.name_of(table));
        text += &self.where_clause(table, 2);
        if self.chance.one_in(3) {
            text += self.one_of(&[
                " USING CONCURRENCY 3",
                " USING CONCURRENCY ?",
                " USING CONCURRENCY -1 AND TIMEOUT 5ms",
                " USING TIMEOUT 1s",
            ]);
        }
        text
    }

    pub(super) fn selection(&self, table: &'a TableMetadata) -> String {
        let bound = if self.chance.one_in(300) { 2_000 } else { 4 };
        self.several(bound, ", ", || {
            let alias = self.sometimes(8, &format!(" AS {}", self.word()));
            format!("{}{alias}", self.selector(table, self.depth()))
        })
    }

    fn selector(&self, table: &'a TableMetadata, depth: usize) -> String {
        let column = self.column_name(table);
        if depth == 0 {
            return column;
        }
        let inner = || self.selector(table, depth - 1);
        let one = || {
            if depth > DEPTH {
                inner()
            } else {
                self.several(3, ", ", inner)
            }
        };
        match self.chance.below(30) {
            0 => "count(*)".to_owned(),
            1 => "count(1)".to_owned(),
            2 | 3 => format!("{}({})", self.one_of(&AGGREGATES), inner()),
            4 | 5 => format!("{}({})", self.one_of(&FUNCTIONS), one()),
            6 => format!("{}({column})", self.one_of(&["writetime", "ttl", "maxwritetime"])),
            7 => format!("CAST({} AS {})", inner(), self.native_type()),
            8 => self.arithmetic(inner(), column),
            9 => format!("{column}[{}]", self.any_term(1)),
            10 => format!("{column}[{}..{}]", self.any_literal(), self.any_literal()),
            11 => format!("{column}.{}", self.word()),
            12 => format!("({}) {}", self.type_name(1), self.any_term(1)),
            13 => format!("[{}]", one()),
            14 => format!("{{{}}}", one()),
            15 => format!("{{{}: {}}}", self.any_literal(), inner()),
            16 => format!("({})", one()),
            17 => format!("-{}", inner()),
            18 => format!("token({})", self.names(table.partition_key())),
            19 => self.any_literal(),
            _ if depth > DEPTH => format!("({})", inner()),
            _ => column,
        }
    }

    /// With a WHERE in front; nothing sometimes. Of a key more often than not.
    pub(super) fn where_clause(&self, table: &'a TableMetadata, none_in: u64) -> String {
        if self.chance.one_in(none_in) {
            return String::new();
        }
        let mut relations: Vec<String> = Vec::new();
        if !self.chance.one_in(4) {
            relations.extend(
                table
                    .partition_key()
                    .iter()
                    .map(|column| self.key_relation(column)),
            );
            let clustering = self.chance.count(table.clustering().len() + 1);
            for column in &table.clustering()[..clustering] {
                relations.push(self.key_relation(column));
            }
        }
        let others = if self.chance.one_in(400) { 1_100 } else { 3 };
        let others = if relations.is_empty() {
            1 + self.chance.count(others)
        } else {
            self.chance.count(others)
        };
        relations.extend((0..others).map(|_| self.relation(table)));
        if relations.is_empty() {
            return String::new();
        }
        format!(" WHERE {}", relations.join(" AND "))
    }

    fn key_relation(&self, column: &ColumnMetadata) -> String {
        let (name, cql_type) = (quoted_identifier(&column.name), &column.cql_type);
        match self.chance.below(10) {
            0..7 => format!("{name} = {}", self.term(cql_type)),
            7 => format!("{name} IN ({})", self.terms(cql_type)),
            8 => format!("{name} IN ?"),
            _ => format!("{name} {} {}", self.one_of(&COMPARISONS), self.term(cql_type)),
        }
    }

    fn terms(&self, cql_type: &CqlType) -> String {
        let bound = if self.chance.one_in(200) { 1_000 } else { 4 };
        self.several(bound, ", ", || self.term(cql_type))
    }

    pub(super) fn relation(&self, table: &'a TableMetadata) -> String {
        let Some(column) = self.column(table) else {
            return "a = 1".to_owned();
        };
        let (name, cql_type) = (quoted_identifier(&column.name), &column.cql_type);
        let value = || self.term(cql_type);
        let names = |columns| self.names(columns);
        match self.chance.below(16) {
            0..4 => format!("{name} {} {}", self.one_of(&COMPARISONS), value()),
            4 => format!("{name} IN ({})", self.terms(cql_type)),
            5 => format!("{name} CONTAINS {}", self.any_term(1)),
            6 => format!("{name} CONTAINS KEY {}", self.any_term(1)),
            7 => format!("{name} LIKE '{}'", self.one_of(&["%", "a%", "%a", "%a%", "a"])),
            8 => format!("{name}[{}] = {}", self.any_term(1), self.any_term(1)),
            9 => format!(
                "token({}) {} {}",
                names(table.partition_key()),
                self.one_of(&COMPARISONS),
                self.one_of(&[
                    "0",
                    "?",
                    "-9223372036854775808",
                    "token(1)",
                    "token(?)",
                    "9223372036854775807"
                ])
            ),
            10 | 11 => self.tuple_relation(table),
            12 => format!("{name} IS NOT NULL"),
            13 if self.chance.one_in(4) => format!("expr({}, {})", self.word(), value()),
            14 => format!("{name} NOT IN ({})", value()),
            _ => format!("{name} = {}", value()),
        }
    }

    fn tuple_relation(&self, table: &'a TableMetadata) -> String {
        let columns = self.key_prefix(table);
        let tuple = || {
            let values: Vec<String> = columns.iter().map(|column| self.term(&column.cql_type)).collect();
            format!("({})", values.join(", "))
        };
        let names = self.names(columns);
        match self.chance.below(4) {
            0 => format!("({names}) IN ({})", self.several(4, ", ", tuple)),
            1 => format!("({names}) {} ?", self.one_of(&["IN", "=", ">"])),
            _ => format!("({names}) {} {}", self.one_of(&COMPARISONS), tuple()),
        }
    }

    /// Some of the first columns of the clustering key, or of the primary key.
    fn key_prefix(&self, table: &'a TableMetadata) -> &'a [ColumnMetadata] {
        let columns = match self.chance.below(3) {
            0 => &table.columns[..table.partition_key().len() + table.clustering().len()],
            _ => table.clustering(),
        };
        if columns.is_empty() {
            return table.partition_key();
        }
        &columns[..1 + self.chance.count(columns.len())]
    }

    fn ordering(&self, table: &'a TableMetadata) -> String {
        let directions = ["", " ASC", " DESC"];
        if self.chance.one_in(20) {
            let vector = self.one_of(&VECTORS);
            return format!("{} ANN OF {vector}", self.column_name(table));
        }
        self.several(2, ", ", || {
            format!("{}{}", self.column_name(table), self.one_of(&directions))
        })
    }

    fn limit(&self) -> &'static str {
        self.one_of(&[
            "1",
            "2",
            "10",
            "1000",
            "0",
            "-1",
            "?",
            "2147483647",
            "2147483648",
            "'1'",
        ])
    }

    pub(super) fn names(&self, columns: &[ColumnMetadata]) -> String {
        let names: Vec<_> = columns
            .iter()
            .map(|column| quoted_identifier(&column.name))
            .collect();
        names.join(", ")
    }

    pub(super) fn name_of(&self, table: &TableMetadata) -> String {
        format!(
            "{}.{}",
            quoted_identifier(&table.keyspace),
            quoted_identifier(&table.name)
        )
    }

    pub(super) fn column_name(&self, table: &'a TableMetadata) -> String {
        match self.column(table) {
            Some(column) if !self.chance.one_in(40) => quoted_identifier(&column.name).into_owned(),
            _ => self.word(),
        }
    }
}
