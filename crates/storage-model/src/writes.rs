//! Random statements that write to a random table.

use helenus_schema::{ColumnMetadata, TableMetadata};
use helenus_types::quoted_identifier;

use crate::chance::Chance;
use crate::content::Era;
use crate::value::random_value;

/// A statement with a value for each `?`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundStatement {
    pub text: String,
    pub values: Vec<Vec<u8>>,
}

/// Writes to a few partitions and rows of one table, so that they meet each other.
#[derive(Debug)]
pub struct RandomWrites<'a> {
    chance: &'a Chance,
    table: &'a TableMetadata,
    era: Era,
    partition_keys: Vec<Vec<Vec<u8>>>,
    clusterings: Vec<Vec<Vec<u8>>>,
}

/// Column names and values, joined as a statement needs them.
type Assignments<'a> = Vec<(&'a ColumnMetadata, Vec<u8>)>;

impl<'a> RandomWrites<'a> {
    /// `partition_keys` are added to those that chance gives: one value per column of the key.
    pub fn new(
        chance: &'a Chance,
        table: &'a TableMetadata,
        era: Era,
        mut partition_keys: Vec<Vec<Vec<u8>>>,
    ) -> Self {
        let values = |columns: &[ColumnMetadata]| -> Vec<Vec<u8>> {
            columns
                .iter()
                .map(|column| random_value(chance, &column.cql_type))
                .collect()
        };
        while partition_keys.len() < 4 {
            let key = values(table.partition_key());
            if key.iter().any(|component| !component.is_empty()) {
                partition_keys.push(key);
            }
        }
        let clusterings = (0..40).map(|_| values(table.clustering())).collect();
        RandomWrites {
            chance,
            table,
            era,
            partition_keys,
            clusterings,
        }
    }

    /// The keys that are written to.
    pub fn partition_keys(&self) -> &[Vec<Vec<u8>>] {
        &self.partition_keys
    }

    pub fn statement(&self) -> BoundStatement {
        if self.table.is_counter() {
            return self.count();
        }
        match self.chance.below(20) {
            0 => self.delete(0),
            1 | 2 => self.delete_range(),
            3 | 4 => self.delete(self.table.clustering().len()),
            5 | 6 => self.delete_columns(),
            7..10 => self.update(),
            10 if !self.table.statics().is_empty() => self.update_statics(),
            _ => self.insert(),
        }
    }

    fn insert(&self) -> BoundStatement {
        let mut columns = self.key(self.table.clustering().len());
        columns.extend(self.some(self.table.regulars(), 3));
        let names: Vec<_> = columns
            .iter()
            .map(|(column, _)| quoted_identifier(&column.name))
            .collect();
        let marks = vec!["?"; columns.len()].join(", ");
        let text = format!(
            "INSERT INTO {} ({}) VALUES ({marks}) {}",
            self.name(),
            names.join(", "),
            self.using(true)
        );
        bound(text, columns)
    }

    /// Sets columns, or adds to collections.
    fn update(&self) -> BoundStatement {
        let assigned = self.some(self.table.regulars(), 2);
        if assigned.is_empty() {
            return self.insert();
        }
        let assignments: Vec<_> = assigned
            .iter()
            .map(|(column, _)| {
                let name = quoted_identifier(&column.name);
                let is_collection = column.cql_type.is_collection() && column.cql_type.is_multi_cell();
                if is_collection && self.chance.one_in(2) {
                    format!("{name} = {name} + ?")
                } else {
                    format!("{name} = ?")
                }
            })
            .collect();
        self.update_with(assigned, &assignments, self.table.clustering().len())
    }

    fn update_statics(&self) -> BoundStatement {
        let mut assigned = self.some(self.table.statics(), 2);
        if assigned.is_empty() {
            let column = &self.table.statics()[0];
            assigned.push((column, random_value(self.chance, &column.cql_type)));
        }
        let assignments: Vec<_> = assigned
            .iter()
            .map(|(column, _)| format!("{} = ?", quoted_identifier(&column.name)))
            .collect();
        self.update_with(assigned, &assignments, 0)
    }

    fn update_with(
        &self,
        mut assigned: Assignments<'a>,
        assignments: &[String],
        clustering: usize,
    ) -> BoundStatement {
        let key = self.key(clustering);
        let text = format!(
            "UPDATE {} {} SET {} WHERE {}",
            self.name(),
            self.using(true),
            assignments.join(", "),
            equalities(&key)
        );
        assigned.extend(key);
        bound(text, assigned)
    }

    /// An increment, sometimes a deletion, none of which can be told a timestamp. Not of partitions or ranges: whether these
    /// take a counter's tombstone with them depends in Cassandra on when it was flushed.
    fn count(&self) -> BoundStatement {
        let clustering = self.table.clustering().len();
        if clustering > 0 && self.chance.one_in(16) {
            let key = self.key(clustering);
            let text = format!("DELETE FROM {} WHERE {}", self.name(), equalities(&key));
            return bound(text, key);
        }
        let is_static = self.chance.one_in(4) && !self.table.statics().is_empty();
        let columns = if is_static {
            self.table.statics()
        } else {
            self.table.regulars()
        };
        let column = self.chance.pick(columns);
        let delta = self.chance.below(100) as i64 - 30;
        let key = self.key(if is_static { 0 } else { clustering });
        let name = quoted_identifier(&column.name);
        if self.chance.one_in(24) {
            let text = format!("DELETE {name} FROM {} WHERE {}", self.name(), equalities(&key));
            return bound(text, key);
        }
        let text = format!(
            "UPDATE {} SET {name} = {name} + ? WHERE {}",
            self.name(),
            equalities(&key)
        );
        let mut assigned = vec![(column, delta.to_be_bytes().to_vec())];
        assigned.extend(key);
        bound(text, assigned)
    }

    fn delete(&self, clustering: usize) -> BoundStatement {
        let key = self.key(clustering);
        let text = format!(
            "DELETE FROM {} {} WHERE {}",
            self.name(),
            self.using(false),
            equalities(&key)
        );
        bound(text, key)
    }

    /// A prefix of the clustering key, or a slice below one.
    fn delete_range(&self) -> BoundStatement {
        let count = self.table.clustering().len();
        if count == 0 {
            return self.delete(0);
        }
        let prefix = self.chance.count(count);
        let (column, value) = match self.key(prefix + 1).pop() {
            Some(last) if self.chance.one_in(2) => last,
            _ => return self.delete(prefix),
        };
        let mut key = self.key(prefix);
        let operator = self.chance.pick(&["<", "<=", ">", ">="]);
        let text = format!(
            "DELETE FROM {} {} WHERE {} AND {} {operator} ?",
            self.name(),
            self.using(false),
            equalities(&key),
            quoted_identifier(&column.name)
        );
        key.push((column, value));
        bound(text, key)
    }

    fn delete_columns(&self) -> BoundStatement {
        let columns = self.some(self.table.regulars(), 2);
        if columns.is_empty() {
            return self.delete(self.table.clustering().len());
        }
        let names: Vec<_> = columns
            .iter()
            .map(|(column, _)| quoted_identifier(&column.name))
            .collect();
        let key = self.key(self.table.clustering().len());
        let text = format!(
            "DELETE {} FROM {} {} WHERE {}",
            names.join(", "),
            self.name(),
            self.using(false),
            equalities(&key)
        );
        bound(text, key)
    }

    fn name(&self) -> String {
        format!(
            "{}.{}",
            quoted_identifier(&self.table.keyspace),
            quoted_identifier(&self.table.name)
        )
    }

    /// Timestamps of a small range, so that they tie now and then.
    fn using(&self, may_expire: bool) -> String {
        let timestamp = self.era.base_us + self.chance.below(1000) as i64;
        let ttl = match self.chance.below(14) {
            0 if may_expire => " AND TTL 1",
            1 if may_expire => " AND TTL 630720000",
            2 if may_expire => " AND TTL 864000",
            _ => "",
        };
        format!("USING TIMESTAMP {timestamp}{ttl}")
    }

    /// The whole partition key and the first columns of the clustering key.
    fn key(&self, clustering: usize) -> Assignments<'a> {
        let partition_key = self.chance.pick(&self.partition_keys);
        let clusterings = self.chance.pick(&self.clusterings);
        let columns = self.table.partition_key().iter().zip(partition_key);
        let columns = columns.chain(self.table.clustering().iter().zip(clusterings).take(clustering));
        columns.map(|(column, value)| (column, value.clone())).collect()
    }

    /// One in `count` of the columns is left out.
    fn some(&self, columns: &'a [ColumnMetadata], count: u64) -> Assignments<'a> {
        columns
            .iter()
            .filter(|_| !self.chance.one_in(count))
            .map(|column| (column, random_value(self.chance, &column.cql_type)))
            .collect()
    }
}

fn equalities(columns: &Assignments<'_>) -> String {
    let parts: Vec<_> = columns
        .iter()
        .map(|(column, _)| format!("{} = ?", quoted_identifier(&column.name)))
        .collect();
    parts.join(" AND ")
}

fn bound(text: String, columns: Assignments<'_>) -> BoundStatement {
    BoundStatement {
        text,
        values: columns.into_iter().map(|(_, value)| value).collect(),
    }
}
