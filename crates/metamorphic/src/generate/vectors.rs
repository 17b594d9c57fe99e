//! Vectors with an index, and what is nearest to one.
//!
//! Their indexes are on all nodes: without one, ANN OF is refused. As many rows are asked for as a table never has, so that
//! what is found is all that there is, in an order that does not depend on where it was looked for.

use helenus_schema::{ClusteringOrder, ColumnId, ColumnKind, ColumnMetadata, TableMetadata};
use helenus_storage_model::{Chance, RandomTable};
use helenus_types::{CqlType, quoted_identifier};

use super::subject::Subject;
use super::text::Text;
use super::values;

const COLUMN: &str = "near";
const CONDITION: &str = "near_if";
const DIMENSION: u32 = 3;
const SIMILARITIES: [&str; 3] = ["cosine", "dot_product", "euclidean"];

/// With a column of vectors, and one that what is nearest may be narrowed by.
pub fn with_vectors(mut table: RandomTable) -> RandomTable {
    let metadata = &mut table.metadata;
    let mut columns = metadata.columns.clone();
    let added = [
        (COLUMN, CqlType::vector(CqlType::Float, DIMENSION)),
        (CONDITION, CqlType::Boolean),
    ];
    for (name, cql_type) in added {
        columns.push(ColumnMetadata {
            id: metadata.next_column_id,
            name: name.into(),
            kind: ColumnKind::Regular,
            position: 0,
            cql_type,
            order: ClusteringOrder::Ascending,
        });
        metadata.next_column_id = ColumnId(metadata.next_column_id.0 + 1);
    }
    metadata.set_columns(columns);
    table
}

pub fn has_vectors(table: &TableMetadata) -> bool {
    table.column(COLUMN).is_some()
}

/// Returns whether a column has an index that no node can do without.
pub fn is_of_vectors(column: &ColumnMetadata) -> bool {
    [COLUMN, CONDITION].contains(&&*column.name)
}

/// The statements that make the indexes; none for a table without vectors.
pub fn create(chance: &Chance, table: &TableMetadata, name: &str) -> Vec<String> {
    if !has_vectors(table) {
        return Vec::new();
    }
    let similarity = chance.pick(&SIMILARITIES);
    // Spelled so that they are not taken for indexes of those that one node does without.
    let begin = |column: &str| {
        format!(
            "CREATE CUSTOM INDEX IF NOT EXISTS {}_{column} ON {name} ({column}) USING 'sai'",
            table.name
        )
    };
    let options = format!(" WITH OPTIONS = {{'similarity_function': '{similarity}'}}");
    vec![begin(COLUMN) + &options, begin(CONDITION)]
}

/// All rows, those of a partition or of a range of tokens, by how near they are to a vector.
pub fn nearest(chance: &Chance, subject: &Subject) -> Text {
    let mut text = Text::of(format!("SELECT * FROM {}", subject.name));
    let mut is_first = true;
    match chance.below(3) {
        0 => {
            text.put(" WHERE ").equalities(subject.partition_key(chance));
            is_first = false;
        }
        1 => {
            let key = subject.table.partition_key().iter();
            let names: Vec<String> = key
                .map(|column| quoted_identifier(&column.name).into_owned())
                .collect();
            text.put(&format!(" WHERE token({}) > token(", names.join(", ")));
            text.list(", ", subject.partition_key(chance), |text, (_, value)| {
                text.bind(Some(value));
            });
            text.put(")");
            is_first = false;
        }
        _ => {}
    }
    if chance.one_in(2) {
        text.put(if is_first { " WHERE " } else { " AND " });
        text.put(CONDITION).put(" = ");
        text.bind(Some(values::plain(chance, &CqlType::Boolean)));
    }
    let vector = values::plain(chance, &CqlType::vector(CqlType::Float, DIMENSION));
    text.put(&format!(" ORDER BY {COLUMN} ANN OF "))
        .bind(Some(vector));
    text.put(" LIMIT 1000");
    text
}
