//! SELECT.

use helenus_schema::ColumnMetadata;
use helenus_storage_model::Chance;
use helenus_types::{CqlType, quoted_identifier};

use super::Audience;
use super::expressions::expression;
use super::indexes;
use super::subject::Subject;
use super::text::Text;
use super::vectors;

pub fn read(chance: &Chance, subject: &Subject) -> Text {
    let mut text = loop {
        let text = statement(chance, subject);
        if subject.audience == Audience::Nodes || is_for_cassandra(&text, subject) {
            break text;
        }
    };
    if subject.audience == Audience::Nodes && chance.one_in(8) {
        text.put(" BYPASS CACHE");
    }
    text
}

/// Returns whether an answer depends on neither a clock nor on how a graph is built.
fn is_for_cassandra(text: &Text, subject: &Subject) -> bool {
    !(text.has("ttl(") || text.has(" ANN OF ") || subject.shows_clock() && text.has("writetime("))
}

fn statement(chance: &Chance, subject: &Subject) -> Text {
    match chance.below(20) {
        0..8 if vectors::has_vectors(&subject.table) && chance.one_in(2) => vectors::nearest(chance, subject),
        0..3 => Text::of(format!("SELECT * FROM {}", subject.name)),
        3 => distinct(chance, subject),
        4 => aggregate(chance, subject),
        5 => filtered(chance, subject),
        6..9 if !subject.indexes.is_empty() => filtered(chance, subject),
        6..9 => scan(chance, subject),
        _ => partition(chance, subject),
    }
}

/// A single partition, or a few, whole or in part, in either direction.
fn partition(chance: &Chance, subject: &Subject) -> Text {
    let mut text = Text::of(format!(
        "SELECT {} FROM {} WHERE ",
        selectors(chance, subject),
        subject.name
    ));
    let is_one = !chance.one_in(4);
    let key = subject.partition_key(chance);
    if is_one {
        text.equalities(key);
    } else {
        let other = subject.partition_key(chance);
        let last = key.len() - 1;
        let columns = key.into_iter().zip(other).enumerate();
        text.list(
            " AND ",
            columns,
            |text, (index, ((column, value), (_, other)))| {
                text.name(column);
                if index == last {
                    text.put(" IN (")
                        .bind(Some(value))
                        .put(", ")
                        .bind(Some(other))
                        .put(")");
                } else {
                    text.put(" = ").bind(Some(value));
                }
            },
        );
    }
    restrict_clustering(chance, subject, &mut text);
    if is_one && chance.one_in(3) {
        order(chance, subject, &mut text);
    }
    limits(chance, &mut text);
    text
}

/// Nothing, a prefix, a slice below one, or a choice of values.
fn restrict_clustering(chance: &Chance, subject: &Subject, text: &mut Text) {
    let count = subject.table.clustering().len();
    if count == 0 || chance.one_in(4) {
        return;
    }
    let prefix = chance.count(count);
    for (column, value) in subject.clustering(chance, prefix) {
        text.put(" AND ").name(column).put(" = ").bind(Some(value));
    }
    match chance.below(4) {
        0 => {
            let values = [(); 3].map(|()| subject.clustering(chance, prefix + 1).pop());
            let Some((column, _)) = values[0] else { return };
            text.put(" AND ").name(column).put(" IN (");
            text.list(", ", values.into_iter().flatten(), |text, (_, value)| {
                text.bind(Some(value));
            });
            text.put(")");
        }
        1 if prefix == 0 => subject.tuple_slice(chance, text),
        _ => subject.slice(chance, text, prefix),
    }
}

fn order(chance: &Chance, subject: &Subject, text: &mut Text) {
    let clustering = subject.table.clustering();
    if clustering.is_empty() {
        return;
    }
    let is_reversed = chance.one_in(2);
    text.put(" ORDER BY ");
    text.list(", ", clustering, |text, column| {
        let is_descending = (column.order == helenus_schema::ClusteringOrder::Descending) != is_reversed;
        text.name(column)
            .put(if is_descending { " DESC" } else { " ASC" });
    });
}

fn limits(chance: &Chance, text: &mut Text) {
    if chance.one_in(5) {
        text.put(&format!(" PER PARTITION LIMIT {}", 1 + chance.below(4)));
    }
    if chance.one_in(5) {
        text.put(&format!(" LIMIT {}", 1 + chance.below(12)));
    }
}

/// All partitions, or those of a range of tokens.
fn scan(chance: &Chance, subject: &Subject) -> Text {
    let mut text = Text::of(format!(
        "SELECT {} FROM {}",
        selectors(chance, subject),
        subject.name
    ));
    if chance.one_in(2) {
        let names: Vec<String> = subject
            .table
            .partition_key()
            .iter()
            .map(|column| quoted_identifier(&column.name).into_owned())
            .collect();
        let operator = chance.pick(&[">", ">=", "<", "<="]);
        text.put(&format!(" WHERE token({}) {operator} token(", names.join(", ")));
        let key = subject.partition_key(chance);
        text.list(", ", key, |text, (_, value)| {
            text.bind(Some(value));
        });
        text.put(")");
    }
    limits(chance, &mut text);
    text
}

fn distinct(chance: &Chance, subject: &Subject) -> Text {
    let mut text = Text::of("SELECT DISTINCT ");
    let statics = subject.table.statics().iter().filter(|_| chance.one_in(2));
    let columns: Vec<&ColumnMetadata> = subject.table.partition_key().iter().chain(statics).collect();
    text.list(", ", columns, |text, column| {
        text.name(column);
    });
    text.put(" FROM ").put(&subject.name);
    if chance.one_in(3) {
        text.put(&format!(" LIMIT {}", 1 + chance.below(5)));
    }
    text
}

/// Makes an aggregate of everything, or by a prefix of the primary key.
fn aggregate(chance: &Chance, subject: &Subject) -> Text {
    let table = &subject.table;
    let column = quoted_identifier(&chance.pick(&table.columns).name);
    let function = chance.pick(&["count", "min", "max"]);
    let mut text = Text::of(format!(
        "SELECT count(*), {function}({column}) FROM {}",
        subject.name
    ));
    let key = table.partition_key().len() + table.clustering().len();
    if chance.one_in(2) {
        let count = table.partition_key().len() + chance.count(key + 1 - table.partition_key().len());
        text.put(" GROUP BY ");
        text.list(", ", &table.columns[..count], |text, column| {
            text.name(column);
        });
    }
    text
}

/// By any columns, on all partitions: by their indexes where they have some.
fn filtered(chance: &Chance, subject: &Subject) -> Text {
    let mut text = Text::of(format!(
        "SELECT {} FROM {} WHERE ",
        selectors(chance, subject),
        subject.name
    ));
    let mut is_of_vector = false;
    if !subject.table.clustering().is_empty() && chance.one_in(2) {
        subject.slice_of(chance, &mut text, chance.count(subject.table.clustering().len()));
    } else {
        let column = indexes::column(chance, subject);
        indexes::condition(chance, &mut text, column);
        is_of_vector |= is_vector(column);
        let other = indexes::column(chance, subject);
        if other.id != column.id && chance.one_in(3) {
            text.put(" AND ");
            indexes::condition(chance, &mut text, other);
            is_of_vector |= is_vector(other);
        }
    }
    // A range of vectors, beside a column that has an index: Cassandra then answers fewer rows than match.
    if !(is_of_vector && subject.audience == Audience::Cassandra) {
        limits(chance, &mut text);
    }
    text.put(" ALLOW FILTERING");
    text
}

fn is_vector(column: &ColumnMetadata) -> bool {
    matches!(column.cql_type, CqlType::Vector { .. })
}

fn selectors(chance: &Chance, subject: &Subject) -> String {
    match chance.below(6) {
        0 => "JSON *".to_owned(),
        1 | 2 => {
            let columns = subject.table.columns.iter().filter(|_| chance.one_in(2));
            // Of several that are refused Cassandra names another one first.
            let mut has_expression = false;
            let mut names: Vec<String> = columns
                .map(|column| {
                    let name = quoted_identifier(&column.name);
                    let is_cell = column.kind == helenus_schema::ColumnKind::Regular;
                    match chance.below(12) {
                        0 | 1 if is_cell => format!("writetime({name})"),
                        2 | 3 if is_cell => format!("ttl({name})"),
                        4 if !has_expression => {
                            has_expression = true;
                            expression(chance, column, subject.audience)
                        }
                        _ => name.into_owned(),
                    }
                })
                .collect();
            if names.is_empty() {
                names.push("*".to_owned());
            }
            names.join(", ")
        }
        _ => "*".to_owned(),
    }
}
