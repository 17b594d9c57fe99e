//! A table and the keys that are used in it: few, so that statements meet.

use std::cmp::Ordering;

use helenus_schema::{ColumnMetadata, TableMetadata};
use helenus_storage_model::Chance;
use helenus_types::{CqlType, quoted_identifier};

use super::change_logs::ChangeLog;
use super::text::Text;
use super::values;
use super::{Audience, Flavour};
use crate::value::Value;

/// The most partitions of a table; mostly there are far fewer.
const PARTITIONS_MAX: usize = 120;
/// Values of one clustering column: their combinations share prefixes.
const CLUSTERING_VALUES_MAX: usize = 12;

/// Tables of which one is conditional.
const CONDITIONAL_ONE_IN: u64 = 6;

pub struct Subject {
    pub audience: Audience,
    pub table: TableMetadata,
    /// As it was made, and the statement that does so.
    pub original: TableMetadata,
    pub create: String,
    /// True if deletions from a table of counters are of counters, not of rows.
    pub deletes_counters: bool,
    /// The indexes that there may be: their names, and their columns'.
    pub indexes: Vec<(String, String)>,
    /// So that each has a name of its own.
    pub indexes_made: u32,
    /// The user types that were made for it, qualified.
    pub types: Vec<String>,
    /// So that each field that comes to one has a name of its own.
    pub fields_added: u32,
    /// Columns that can come back.
    pub dropped: Vec<ColumnMetadata>,
    /// Qualified and quoted.
    pub name: String,
    /// True if most of what is written to it has conditions. Their time is the node's clock, so that plain writes, whose times
    /// are before it, no longer change what they have written.
    pub is_conditional: bool,
    /// True if what is written to it may soon expire.
    pub expires: bool,
    /// The statements that make the indexes of its vectors and of what these are narrowed by, if it has some.
    pub vector_indexes: Vec<String>,
    /// Its materialized view, qualified, if it has one.
    pub view: Option<String>,
    /// The log of its changes, if it has one.
    pub change_log: Option<ChangeLog>,
    partition_keys: Vec<Vec<Value>>,
    /// By clustering column.
    clusterings: Vec<Vec<Value>>,
}

impl Subject {
    pub fn new(
        chance: &Chance,
        (flavour, audience): (Flavour, Audience),
        table: TableMetadata,
        create: String,
    ) -> Subject {
        let (partitions, has_long_keys) = match flavour {
            Flavour::Broad => (*chance.pick(&[2, 6, 6, 20, PARTITIONS_MAX]), chance.one_in(3)),
            Flavour::Deep => (*chance.pick(&[20, 60, PARTITIONS_MAX]), !chance.one_in(4)),
        };
        let key = |column: &ColumnMetadata| values::key(chance, &column.cql_type, has_long_keys);
        let partition_keys = (0..partitions)
            .map(|_| table.partition_key().iter().map(key).collect())
            .collect();
        let clusterings = table
            .clustering()
            .iter()
            .map(|column| {
                let keys = (0..2 + chance.count(CLUSTERING_VALUES_MAX - 1)).map(|_| key(column));
                without_other_forms(&column.cql_type, keys)
            })
            .collect();
        Subject {
            name: format!(
                "{}.{}",
                quoted_identifier(&table.keyspace),
                quoted_identifier(&table.name)
            ),
            audience,
            expires: true,
            // How many tombstones a decision may pass depends on what was compacted: partitions stay small.
            is_conditional: flavour == Flavour::Broad && chance.one_in(CONDITIONAL_ONE_IN),
            vector_indexes: Vec::new(),
            view: None,
            change_log: None,
            original: table.clone(),
            create,
            deletes_counters: chance.one_in(2),
            indexes: Vec::new(),
            indexes_made: 0,
            types: Vec::new(),
            fields_added: 0,
            dropped: Vec::new(),
            table,
            partition_keys,
            clusterings,
        }
    }

    /// Returns whether something of what is written to it has the time of the node's clock, which then shows.
    pub fn shows_clock(&self) -> bool {
        let has_lists = self
            .table
            .columns
            .iter()
            .any(|column| matches!(column.cql_type, CqlType::List { .. }));
        self.is_conditional || self.counts() || has_lists
    }

    /// Returns whether it is a table of counters, also once they are dropped.
    pub fn counts(&self) -> bool {
        self.original.is_counter()
    }

    pub fn partition_key(&self, chance: &Chance) -> Vec<(&ColumnMetadata, Value)> {
        let values = chance.pick(&self.partition_keys);
        let columns = self.table.partition_key().iter();
        columns
            .zip(values)
            .map(|(column, value)| (column, value.clone()))
            .collect()
    }

    /// The first `count` columns of a clustering key.
    pub fn clustering(&self, chance: &Chance, count: usize) -> Vec<(&ColumnMetadata, Value)> {
        let columns = self.table.clustering().iter().zip(&self.clusterings);
        columns
            .take(count)
            .map(|(column, values)| (column, chance.pick(values).clone()))
            .collect()
    }
}

/// Without values that are equal to one before them in other bytes, as 1.0 and 1.00 are: which of them a row shows depends on
/// which of its writes are merged first, also in Cassandra.
fn without_other_forms(cql_type: &CqlType, values: impl Iterator<Item = Value>) -> Vec<Value> {
    let mut kept: Vec<Value> = Vec::new();
    for value in values {
        let is_other_form = |other: &Value| {
            let (value, other) = (value.bytes(), other.bytes());
            value != other && cql_type.compare(&value, &other) == Ordering::Equal
        };
        if !kept.iter().any(is_other_form) {
            kept.push(value);
        }
    }
    kept
}

/// Slices of the clustering key, for reads and deletions.
impl Subject {
    /// ` AND ..` with one bound or two of the clustering column behind the first `prefix` ones.
    pub fn slice(&self, chance: &Chance, text: &mut Text, prefix: usize) {
        text.put(" AND ");
        self.slice_of(chance, text, prefix);
    }

    pub fn slice_of(&self, chance: &Chance, text: &mut Text, column: usize) {
        let mut bound = |operators: [&str; 2]| {
            if let Some((column, value)) = self.clustering(chance, column + 1).pop() {
                text.name(column)
                    .put(&format!(" {} ", chance.pick(&operators)))
                    .bind(Some(value));
            }
        };
        match chance.below(3) {
            0 => bound([">", ">="]),
            1 => bound(["<", "<="]),
            _ => {
                bound([">", ">="]);
                text.put(" AND ");
                self.slice_end(chance, text, column);
            }
        }
    }

    fn slice_end(&self, chance: &Chance, text: &mut Text, column: usize) {
        if let Some((column, value)) = self.clustering(chance, column + 1).pop() {
            let operator = chance.pick(&["<", "<="]);
            text.name(column).put(&format!(" {operator} ")).bind(Some(value));
        }
    }

    /// ` AND (c0, c1) > (?, ?)`.
    pub fn tuple_slice(&self, chance: &Chance, text: &mut Text) {
        let count = 1 + chance.count(self.clusterings.len());
        let bound = self.clustering(chance, count);
        text.put(" AND (");
        text.list(", ", &bound, |text, (column, _)| {
            text.name(column);
        });
        let operator = chance.pick(&[">", ">=", "<", "<="]);
        text.put(&format!(") {operator} ("));
        text.list(", ", bound, |text, (_, value)| {
            text.bind(Some(value));
        });
        text.put(")");
    }
}
