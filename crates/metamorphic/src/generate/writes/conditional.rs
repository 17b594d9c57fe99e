//! Statements and batches with conditions. The model does not know what they come to; nodes must agree on it.

use helenus_schema::{ColumnKind, ColumnMetadata};
use helenus_storage_model::Chance;
use helenus_types::CqlType;

use super::Author;
use crate::generate::Audience;
use crate::generate::subject::Subject;
use crate::generate::text::Text;
use crate::generate::values::{self, Size};

/// Statements of one batch.
const BATCH_MAX: usize = 6;

pub fn write(chance: &Chance, subject: &Subject) -> Text {
    let author = Author {
        chance,
        subject,
        size: Size::Short,
        using: String::new(),
        using_for_deletions: String::new(),
    };
    if !chance.one_in(5) {
        return author.conditional();
    }
    let kind = chance.pick(&["BATCH", "UNLOGGED BATCH"]);
    let mut text = Text::of(format!("BEGIN {kind} "));
    // Mostly of one partition, as it must be.
    let partition = subject.partition_key(chance);
    for _ in 0..1 + chance.count(BATCH_MAX) {
        let part = match chance.below(6) {
            0 => author.conditional(),
            1 => author.insert_into(partition.clone()),
            _ => {
                let mut insert = author.insert_into(partition.clone());
                insert.put(" IF NOT EXISTS");
                insert
            }
        };
        text.include(part).put("; ");
    }
    text.put("APPLY BATCH");
    text
}

impl Author<'_> {
    fn conditional(&self) -> Text {
        let has_statics = !self.subject.table.statics().is_empty();
        let mut text = match self.chance.below(10) {
            0 | 1 => {
                let mut insert = self.insert();
                insert.put(" IF NOT EXISTS");
                return insert;
            }
            2 => self.delete_rows(self.clustering_count()),
            3 => self.delete_columns(),
            4 if has_statics => self.update(ColumnKind::Static),
            _ => self.update(ColumnKind::Regular),
        };
        if text.begins_with("INSERT") {
            text.put(" IF NOT EXISTS");
            return text;
        }
        let table = &self.subject.table;
        let columns: Vec<&ColumnMetadata> = table.regulars().iter().chain(table.statics()).collect();
        match self.chance.below(4) {
            _ if columns.is_empty() => text.put(" IF EXISTS"),
            0 => text.put(" IF EXISTS"),
            _ => {
                text.put(" IF ");
                let count = 1 + self.chance.count(3);
                let chosen: Vec<&ColumnMetadata> = (0..count)
                    .filter_map(|_| columns.get(self.chance.count(columns.len())).copied())
                    .collect();
                text.list(" AND ", chosen, |text, column| self.condition(text, column))
            }
        };
        text
    }

    fn condition(&self, text: &mut Text, column: &ColumnMetadata) {
        let chance = self.chance;
        let kind = chance.below(5);
        let whole = || Some(values::value(chance, &column.cql_type, self.size));
        let part = |cql_type: &CqlType| Some(values::plain(chance, cql_type));
        let operator = chance.pick(&["=", "!=", "!=", "<", "<=", ">", ">="]);
        // Whether Cassandra comes to a comparison with null or nothing, and refuses it, depends on what it looks at before.
        let operator = match self.subject.audience {
            Audience::Cassandra if column.cql_type.is_multi_cell() || kind == 3 => "!=",
            _ => operator,
        };
        let operator = format!(" {operator} ");
        text.name(column);
        match (&column.cql_type, kind) {
            (CqlType::List { element, .. } | CqlType::Set { element, .. }, 0) => {
                text.put(" CONTAINS ").bind(part(element));
            }
            (CqlType::List { element, .. }, 1) => {
                let index = chance.below(3).to_string();
                text.put("[")
                    .put(&index)
                    .put("]")
                    .put(&operator)
                    .bind(part(element));
            }
            // Cassandra compares values of a map as it compares keys.
            (CqlType::Map { key, value, .. }, 0)
                if self.subject.audience == Audience::Nodes || key == value =>
            {
                text.put("[")
                    .bind(part(key))
                    .put("]")
                    .put(&operator)
                    .bind(part(value));
            }
            (CqlType::Map { key, .. }, 1) => {
                text.put(" CONTAINS KEY ").bind(part(key));
            }
            (CqlType::UserDefined { definition, .. }, 0) => {
                let (field, cql_type) = chance.pick(&definition.fields);
                text.put(".").put(field).put(&operator).bind(part(cql_type));
            }
            (_, 2) => {
                text.put(" IN (").bind(whole()).put(", ").bind(whole()).put(")");
            }
            (_, 3) => {
                text.put(&operator).bind(None);
            }
            _ => {
                text.put(&operator).bind(whole());
            }
        }
    }
}
