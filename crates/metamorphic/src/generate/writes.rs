//! INSERT, UPDATE, DELETE and batches of them.

mod conditional;

use helenus_schema::{ColumnKind, ColumnMetadata};
use helenus_storage_model::Chance;
use helenus_types::CqlType;
use helenus_types::json::quoted_json_name;

use super::Flavour;
use super::subject::Subject;
use super::text::Text;
use super::timestamps::Timestamps;
use super::values::{self, Size};
use crate::value::Value;

/// Batches among the writes, in percent.
const BATCHES_PERCENT: u64 = 16;
const BATCHES_PERCENT_DEEP: u64 = 70;
/// Inserts of which one is of JSON: the model does not know what it writes, and has nothing to say of its table from then on.
const JSON_ONE_IN: u64 = 200;
/// Rows of one batch.
const BATCH_MAX: usize = 24;

/// Writer of one statement, or of the statements of one batch.
struct Author<'a> {
    chance: &'a Chance,
    subject: &'a Subject,
    size: Size,
    /// ` USING TIMESTAMP ..` with a TTL or without, or nothing in a batch.
    using: String,
    using_for_deletions: String,
}

pub fn write(chance: &Chance, flavour: Flavour, subject: &Subject, timestamps: &Timestamps) -> Text {
    if subject.is_conditional && !chance.one_in(4) {
        return conditional::write(chance, subject);
    }
    let timestamp = timestamps.any(chance);
    let batches_percent = match flavour {
        Flavour::Broad => BATCHES_PERCENT,
        Flavour::Deep => BATCHES_PERCENT_DEEP,
    };
    if chance.below(100) < batches_percent {
        return batch(chance, subject, timestamp);
    }
    // Which of two expiring cells of one timestamp stays depends on when a compaction sees them, also in Cassandra: what
    // expires has its timestamp for itself.
    let using = match chance.below(8) {
        0 => {
            let alone = timestamps.alone(chance);
            let ttl = match subject.expires {
                true => *chance.pick(&[1, 60, 3_600, 315_360_000]),
                false => 315_360_000,
            };
            format!(" USING TIMESTAMP {alone} AND TTL {ttl}")
        }
        _ => format!(" USING TIMESTAMP {timestamp}"),
    };
    let author = Author {
        chance,
        subject,
        size: Size::Any,
        using,
        using_for_deletions: format!(" USING TIMESTAMP {timestamp}"),
    };
    author.statement()
}

fn batch(chance: &Chance, subject: &Subject, timestamp: i64) -> Text {
    let author = Author {
        chance,
        subject,
        size: Size::Short,
        using: String::new(),
        using_for_deletions: String::new(),
    };
    let kind = chance.pick(&["BATCH", "UNLOGGED BATCH"]);
    let mut text = Text::of(format!("BEGIN {kind} USING TIMESTAMP {timestamp} "));
    // Many rows of one partition, so that it gets an index, or statements of all kinds.
    let fills = (!chance.one_in(3)).then(|| subject.partition_key(chance));
    for _ in 0..1 + chance.count(BATCH_MAX) {
        let part = match &fills {
            Some(partition) => author.insert_into(partition.clone()),
            None => author.statement(),
        };
        text.include(part).put("; ");
    }
    text.put("APPLY BATCH");
    text
}

impl<'a> Author<'a> {
    fn statement(&self) -> Text {
        let has_statics = !self.subject.table.statics().is_empty();
        match self.chance.below(24) {
            0 => self.delete_rows(0),
            1 | 2 => self.delete_slice(),
            3 | 4 => self.delete_rows(self.clustering_count()),
            5 | 6 => self.delete_columns(),
            7..12 => self.update(ColumnKind::Regular),
            12 if has_statics => self.update(ColumnKind::Static),
            _ => self.insert(),
        }
    }

    fn insert(&self) -> Text {
        self.insert_into(self.subject.partition_key(self.chance))
    }

    fn insert_into(&self, partition: Vec<(&ColumnMetadata, Value)>) -> Text {
        let subject = self.subject;
        let mut columns: Vec<(&ColumnMetadata, Option<Value>)> = Vec::new();
        let keys = partition
            .into_iter()
            .chain(subject.clustering(self.chance, self.clustering_count()));
        columns.extend(keys.map(|(column, value)| (column, Some(value))));
        let others = subject.table.regulars().iter().chain(subject.table.statics());
        columns.extend(
            others
                .filter(|_| !self.chance.one_in(3))
                .map(|column| (column, self.value_or_null(&column.cql_type))),
        );
        if self.chance.one_in(JSON_ONE_IN)
            && let Some(text) = self.insert_json(&columns)
        {
            return text;
        }
        let mut text = Text::of(format!("INSERT INTO {} (", subject.name));
        text.list(", ", &columns, |text, (column, _)| {
            text.name(column);
        });
        text.put(") VALUES (");
        text.list(", ", columns, |text, (_, value)| {
            text.bind(value);
        });
        text.put(")").put(&self.using);
        text
    }

    /// The same as one JSON text; `None` where that has no form for a value, or another one than the bytes for a key: numbers of JSON
    /// lose the zeros at their end, and of two equal keys either may be shown.
    fn insert_json(&self, columns: &[(&ColumnMetadata, Option<Value>)]) -> Option<Text> {
        let is_key = |column: &ColumnMetadata| {
            column.cql_type.is_multi_cell()
                || matches!(column.kind, ColumnKind::PartitionKey | ColumnKind::Clustering)
        };
        if columns
            .iter()
            .any(|(column, _)| is_key(column) && has_decimals(&column.cql_type))
        {
            return None;
        }
        let mut json = String::from("{");
        for (index, (column, value)) in columns.iter().enumerate() {
            json.push_str(if index == 0 { "" } else { ", " });
            json.push_str(&quoted_json_name(&column.name));
            json.push_str(": ");
            match value {
                Some(value) => column.cql_type.write_json(&mut json, &value.bytes()).ok()?,
                None => json.push_str("null"),
            }
        }
        json.push('}');
        let default = self.chance.pick(&["", " DEFAULT UNSET"]);
        let mut text = Text::of(format!("INSERT INTO {} JSON ", self.subject.name));
        text.bind(Some(Value::literal(json.into_bytes())));
        text.put(default).put(&self.using);
        Some(text)
    }

    fn update(&self, kind: ColumnKind) -> Text {
        let (columns, clustering) = match kind {
            ColumnKind::Static => (self.subject.table.statics(), 0),
            _ => (self.subject.table.regulars(), self.clustering_count()),
        };
        let chosen = self.some(columns);
        if chosen.is_empty() {
            return self.insert();
        }
        let mut text = Text::of(format!("UPDATE {}{} SET ", self.subject.name, self.using));
        text.list(", ", chosen, |text, column| self.assignment(text, column));
        text.put(" WHERE ").equalities(self.key(clustering));
        text
    }

    /// One of the ways in which a column of that type is changed.
    fn assignment(&self, text: &mut Text, column: &ColumnMetadata) {
        let chance = self.chance;
        let whole = || self.value_or_null(&column.cql_type);
        let part = |cql_type: &CqlType| Some(values::plain(chance, cql_type));
        if !column.cql_type.is_multi_cell() || chance.one_in(3) {
            text.name(column).put(" = ").bind(whole());
            return;
        }
        match &column.cql_type {
            CqlType::List { element, .. } if chance.one_in(3) => {
                let index = chance.below(3).to_string();
                text.name(column).put("[").put(&index).put("] = ");
                text.bind(part(element));
            }
            CqlType::List { .. } if chance.one_in(3) => {
                text.name(column).put(" = ").bind(whole()).put(" + ").name(column);
            }
            CqlType::Map { key, value, .. } if chance.one_in(3) => {
                text.name(column)
                    .put("[")
                    .bind(part(key))
                    .put("] = ")
                    .bind(part(value));
            }
            CqlType::Map { key, .. } if chance.one_in(3) => {
                let keys = values::plain(chance, &CqlType::set((**key).clone(), true));
                text.name(column)
                    .put(" = ")
                    .name(column)
                    .put(" - ")
                    .bind(Some(keys));
            }
            CqlType::UserDefined { definition, .. } => {
                let (field, cql_type) = chance.pick(&definition.fields);
                text.name(column).put(".").put(field).put(" = ");
                text.bind(part(cql_type));
            }
            CqlType::Map { .. } => {
                text.name(column).put(" = ").name(column).put(" + ").bind(whole());
            }
            _ => {
                let sign = chance.pick(&[" + ", " + ", " - "]);
                text.name(column).put(" = ").name(column).put(sign).bind(whole());
            }
        }
    }

    /// Makes a deletion of the rows that have the first `clustering` columns of the clustering key in common.
    fn delete_rows(&self, clustering: usize) -> Text {
        let mut text = self.delete_from();
        text.equalities(self.key(clustering));
        text
    }

    /// Between bounds of one clustering column, with or without a prefix of the columns before it.
    fn delete_slice(&self) -> Text {
        if self.clustering_count() == 0 {
            return self.delete_rows(0);
        }
        let prefix = self.chance.count(self.clustering_count());
        let mut text = self.delete_from();
        text.equalities(self.key(prefix));
        self.subject.slice(self.chance, &mut text, prefix);
        text
    }

    fn delete_from(&self) -> Text {
        Text::of(format!(
            "DELETE FROM {}{} WHERE ",
            self.subject.name, self.using_for_deletions
        ))
    }

    /// Whole columns, elements of collections, fields.
    fn delete_columns(&self) -> Text {
        let chance = self.chance;
        let is_static = chance.one_in(4) && !self.subject.table.statics().is_empty();
        let (columns, clustering) = if is_static {
            (self.subject.table.statics(), 0)
        } else {
            (self.subject.table.regulars(), self.clustering_count())
        };
        let chosen = self.some(columns);
        if chosen.is_empty() {
            return self.delete_rows(self.clustering_count());
        }
        let mut text = Text::of("DELETE ");
        text.list(", ", chosen, |text, column| {
            text.name(column);
            if !column.cql_type.is_multi_cell() || chance.one_in(2) {
                return;
            }
            match &column.cql_type {
                CqlType::List { .. } if chance.one_in(3) => {
                    text.put(&format!("[{}]", chance.below(3)));
                }
                CqlType::Set { element: key, .. } | CqlType::Map { key, .. } => {
                    text.put("[").bind(Some(values::plain(chance, key))).put("]");
                }
                CqlType::UserDefined { definition, .. } => {
                    let (field, _) = chance.pick(&definition.fields);
                    text.put(".").put(field);
                }
                _ => {}
            }
        });
        text.put(&format!(
            " FROM {}{} WHERE ",
            self.subject.name, self.using_for_deletions
        ));
        text.equalities(self.key(clustering));
        text
    }

    fn clustering_count(&self) -> usize {
        self.subject.table.clustering().len()
    }

    fn key(&self, clustering: usize) -> Vec<(&'a ColumnMetadata, Value)> {
        let mut key = self.subject.partition_key(self.chance);
        key.extend(self.subject.clustering(self.chance, clustering));
        key
    }

    fn some(&self, columns: &'a [ColumnMetadata]) -> Vec<&'a ColumnMetadata> {
        columns.iter().filter(|_| self.chance.one_in(2)).collect()
    }

    fn value_or_null(&self, cql_type: &CqlType) -> Option<Value> {
        (!self.chance.one_in(16)).then(|| values::value(self.chance, cql_type, self.size))
    }
}

/// Returns whether a type has a decimal anywhere: it keeps the zeros at its end, which numbers of JSON lose.
fn has_decimals(cql_type: &CqlType) -> bool {
    matches!(cql_type, CqlType::Decimal) || cql_type.sub_types().any(has_decimals)
}
