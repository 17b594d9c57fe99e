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
const DIMENSION: u32 = 3;
const SIMILARITIES: [&str; 3] = ["cosine", "dot_product", "euclidean"];

/// With a column of vectors.
pub fn with_vectors(mut table: RandomTable) -> RandomTable {
    let metadata = &mut table.metadata;
    let mut columns = metadata.columns.clone();
    columns.push(ColumnMetadata {
        id: metadata.next_column_id,
        name: COLUMN.into(),
        kind: ColumnKind::Regular,
        position: 0,
        cql_type: CqlType::vector(CqlType::Float, DIMENSION),
        order: ClusteringOrder::Ascending,
    });
    metadata.next_column_id = ColumnId(metadata.next_column_id.0 + 1);
    metadata.set_columns(columns);
    table
}

pub fn has_vectors(table: &TableMetadata) -> bool {
    table.column(COLUMN).is_some()
}

/// Returns whether a column has an index that no node can do without.
pub fn is_of_vectors(column: &ColumnMetadata) -> bool {
    &*column.name == COLUMN
}

/// The statement that makes the index; none for a table without vectors.
pub fn create(chance: &Chance, table: &TableMetadata, name: &str) -> Option<String> {
    has_vectors(table).then(|| {
        let similarity = chance.pick(&SIMILARITIES);
        // Spelled so that it is not taken for an index of those that one node does without.
        format!(
            "CREATE CUSTOM INDEX IF NOT EXISTS {}_near ON {name} ({COLUMN}) USING 'sai' WITH OPTIONS = \
             {{'similarity_function': '{similarity}'}}",
            table.name
        )
    })
}

/// All rows, those of a partition or of a range of tokens, by how near they are to a vector.
pub fn nearest(chance: &Chance, subject: &Subject) -> Text {
    let mut text = Text::of(format!("SELECT * FROM {}", subject.name));
    match chance.below(3) {
        0 => {
            text.put(" WHERE ").equalities(subject.partition_key(chance));
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
        }
        _ => {}
    }
    let vector = values::plain(chance, &CqlType::vector(CqlType::Float, DIMENSION));
    text.put(&format!(" ORDER BY {COLUMN} ANN OF "))
        .bind(Some(vector));
    text.put(" LIMIT 1000");
    text
}
