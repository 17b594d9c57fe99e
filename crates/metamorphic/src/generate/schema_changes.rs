//! TRUNCATE, ALTER TABLE and TYPE, CREATE and DROP INDEX, and DROP TABLE with CREATE TABLE behind it.

use helenus_schema::{ColumnKind, ColumnMetadata};
use helenus_storage_model::Chance;
use helenus_types::{CqlType, quoted_identifier};

use super::Audience;
use super::change_logs;
use super::indexes;
use super::subject::Subject;
use super::timestamps::Timestamps;
use super::vectors;

/// Columns that are added under a name of their own; more statements find the name taken.
const NEW_COLUMNS: u64 = 8;

/// The statements of one change, after which the subject is what they make of it.
pub fn change(chance: &Chance, subject: &mut Subject, timestamps: &mut Timestamps) -> Vec<String> {
    match chance.below(13) {
        // Neither the table nor a column of it can be dropped.
        1..5 if subject.view.is_some() => Vec::new(),
        0 => vec![format!("TRUNCATE {}", subject.name)],
        1 => {
            subject.table = subject.original.clone();
            subject.dropped.clear();
            subject.indexes.clear();
            let mut texts = vec![format!("DROP TABLE {}", subject.name), subject.create.clone()];
            texts.extend(subject.vector_indexes.clone());
            texts.extend(subject.change_log.as_ref().map(|log| log.alter.clone()));
            texts
        }
        2..5 => drop_column(chance, subject, timestamps),
        5..7 => indexes::create(chance, subject),
        7 => indexes::drop(chance, subject),
        8 => add_field(chance, subject),
        // A counter does not come back, and nothing else comes to it.
        _ if subject.counts() => Vec::new(),
        _ => add_column(chance, subject),
    }
}

/// Adds a field to a user type. What is written has as many fields as before; with JSON it has all of them. Both are equal,
/// and as a key they would be one row, of which any of the two may be shown: so it is a type that no key has.
fn add_field(chance: &Chance, subject: &mut Subject) -> Vec<String> {
    let keys = subject.table.columns.iter();
    let keys: Vec<&ColumnMetadata> = keys
        .filter(|column| matches!(column.kind, ColumnKind::PartitionKey | ColumnKind::Clustering))
        .collect();
    let is_in_keys = |of: &str| {
        let name = of.rsplit('.').next().unwrap_or(of);
        keys.iter()
            .any(|column| column.cql_type.references_user_type(name))
    };
    // Cassandra leaves types as they were that are in vectors.
    let is_left = |of: &str| {
        let name = of.rsplit('.').next().unwrap_or(of);
        let mut types = subject.table.columns.iter().map(|column| &column.cql_type);
        subject.audience == Audience::Cassandra && types.any(|cql_type| is_in_vectors(cql_type, name))
    };
    let others = subject.types.iter().filter(|of| !is_in_keys(of) && !is_left(of));
    let others: Vec<&String> = others.collect();
    if others.is_empty() {
        return Vec::new();
    }
    subject.fields_added += 1;
    let of = chance.pick(&others);
    let cql_type = chance.pick(&["int", "text", "frozen<list<int>>"]);
    vec![format!(
        "ALTER TYPE {of} ADD added_{} {cql_type}",
        subject.fields_added
    )]
}

fn is_in_vectors(cql_type: &CqlType, user_type: &str) -> bool {
    match cql_type {
        CqlType::Vector { element, .. } => element.references_user_type(user_type),
        _ => cql_type.sub_types().any(|part| is_in_vectors(part, user_type)),
    }
}

fn drop_column(chance: &Chance, subject: &mut Subject, timestamps: &mut Timestamps) -> Vec<String> {
    let is_droppable = |column: &&ColumnMetadata| {
        let is_value = matches!(column.kind, ColumnKind::Regular | ColumnKind::Static);
        // Cassandra drops no column of a user type that has a cell per field.
        is_value
            && !vectors::is_of_vectors(column)
            && !(column.cql_type.is_user_defined() && column.cql_type.is_multi_cell())
    };
    let droppable: Vec<&ColumnMetadata> = subject.table.columns.iter().filter(is_droppable).collect();
    // Cassandra fails where its memtable has something of a dropped column that is newer.
    let is_for_cassandra = subject.audience == Audience::Cassandra;
    if droppable.is_empty() || is_for_cassandra && subject.shows_clock() {
        return Vec::new();
    }
    let gone = (*chance.pick(&droppable)).clone();
    let mut texts = indexes::drop_of_column(subject, &gone.name);
    let left = subject
        .table
        .columns
        .iter()
        .filter(|column| column.name != gone.name);
    subject.table.set_columns(left.cloned().collect());
    // What is newer than that is seen again when the column comes back.
    let dropped_at = match !is_for_cassandra && chance.one_in(2) {
        true => timestamps.any(chance),
        false => timestamps.boundary(),
    };
    let text = format!(
        "ALTER TABLE {} DROP {} USING TIMESTAMP {}",
        subject.name,
        quoted_identifier(&gone.name),
        dropped_at
    );
    subject.dropped.push(gone);
    texts.push(text);
    texts
}

/// One that was dropped before, or a new one.
fn add_column(chance: &Chance, subject: &mut Subject) -> Vec<String> {
    let column = match subject.dropped.pop() {
        Some(column) if chance.one_in(2) => column,
        dropped => {
            subject.dropped.extend(dropped);
            let types = subject.table.columns.iter().map(|column| column.cql_type.clone());
            let types: Vec<CqlType> = types.chain([CqlType::Int, CqlType::Blob]).collect();
            let Some(pattern) = subject.table.columns.last() else {
                return Vec::new();
            };
            ColumnMetadata {
                name: format!("x{}", chance.below(NEW_COLUMNS)).into(),
                kind: ColumnKind::Regular,
                position: 0,
                cql_type: chance.pick(&types).clone(),
                order: helenus_schema::ClusteringOrder::Ascending,
                ..pattern.clone()
            }
        }
    };
    if subject.change_log.is_some() && change_logs::shows_clock(&column.cql_type) {
        return Vec::new();
    }
    let is_taken = |other: &ColumnMetadata| other.name == column.name;
    if subject.table.columns.iter().chain(&subject.dropped).any(is_taken) {
        return Vec::new();
    }
    let text = format!(
        "ALTER TABLE {} ADD {} {}{}",
        subject.name,
        quoted_identifier(&column.name),
        column.cql_type,
        if column.kind == ColumnKind::Static {
            " static"
        } else {
            ""
        }
    );
    let mut columns = subject.table.columns.clone();
    columns.push(column);
    subject.table.set_columns(columns);
    vec![text]
}
