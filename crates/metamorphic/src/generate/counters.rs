//! Increments and deletions of counters. They have no timestamps of their own: the node's clock gives later ones to later
//! statements.

use helenus_schema::{ColumnKind, ColumnMetadata};
use helenus_storage_model::Chance;

use super::Audience;
use super::subject::Subject;
use super::text::Text;
use crate::value::Value;

/// Statements of one batch.
const BATCH_MAX: usize = 12;

pub fn write(chance: &Chance, subject: &Subject) -> Text {
    if !chance.one_in(4) {
        return statement(chance, subject);
    }
    let kind = chance.pick(&["COUNTER", "UNLOGGED"]);
    let mut text = Text::of(format!("BEGIN {kind} BATCH "));
    for _ in 0..1 + chance.count(BATCH_MAX) {
        text.include(statement(chance, subject)).put("; ");
    }
    text.put("APPLY BATCH");
    text
}

fn statement(chance: &Chance, subject: &Subject) -> Text {
    let statics = subject.table.statics();
    let (columns, clustering) = match !statics.is_empty() && chance.one_in(4) {
        true => (statics, 0),
        false => (subject.table.regulars(), subject.table.clustering().len()),
    };
    let mut chosen: Vec<&ColumnMetadata> = columns.iter().filter(|_| chance.one_in(2)).collect();
    chosen.extend(columns.first().filter(|_| chosen.is_empty()));
    // What a deleted counter comes back with is of Cassandra's counter cache.
    let is_for_cassandra = subject.audience == Audience::Cassandra;
    if is_for_cassandra && chosen.is_empty() {
        return refused(subject);
    }
    if chosen.is_empty() || !is_for_cassandra && chance.one_in(12) {
        return delete(chance, subject, &chosen);
    }
    let mut text = Text::of(format!("UPDATE {} SET ", subject.name));
    text.list(", ", chosen, |text, column| {
        let by = Value::literal(increment(chance).to_be_bytes().to_vec());
        let sign = chance.pick(&[" + ", " + ", " - "]);
        text.name(column).put(" = ").name(column).put(sign).bind(Some(by));
    });
    text.put(" WHERE ").equalities(key(chance, subject, clustering));
    text
}

/// A statement that every server refuses.
fn refused(subject: &Subject) -> Text {
    Text::of(format!("INSERT INTO {} (k) VALUES (1)", subject.name))
}

fn increment(chance: &Chance) -> i64 {
    match chance.below(12) {
        0 => i64::MAX,
        1 => 0,
        _ => chance.below(2_000) as i64 - 500,
    }
}

/// Makes a deletion of counters or of rows, and never both in one table: whether the deletion of a row takes the tombstone of
/// its counter with it before that hides a later increment depends on which files a compaction merges, also in Cassandra.
fn delete(chance: &Chance, subject: &Subject, columns: &[&ColumnMetadata]) -> Text {
    let clustering = subject.table.clustering().len();
    if !subject.deletes_counters {
        let prefix = chance.count(clustering + 1);
        let mut text = Text::of(format!("DELETE FROM {} WHERE ", subject.name));
        text.equalities(key(chance, subject, prefix));
        if prefix < clustering && chance.one_in(2) {
            subject.slice(chance, &mut text, prefix);
        }
        return text;
    }
    let Some(column) = columns.first() else {
        return refused(subject);
    };
    let clustering = match column.kind {
        ColumnKind::Static => 0,
        _ => clustering,
    };
    let mut text = Text::of("DELETE ");
    text.name(column);
    text.put(&format!(" FROM {} WHERE ", subject.name));
    text.equalities(key(chance, subject, clustering));
    text
}

fn key<'a>(chance: &Chance, subject: &'a Subject, clustering: usize) -> Vec<(&'a ColumnMetadata, Value)> {
    let mut key = subject.partition_key(chance);
    key.extend(subject.clustering(chance, clustering));
    key
}
