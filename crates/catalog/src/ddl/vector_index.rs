//! Columns and options of vector indexes, and the warning to those who make them.

use std::collections::BTreeMap;

use helenus_engine::CqlError;
use helenus_schema::{IndexKind, IndexMetadata, TableMetadata};
use helenus_types::CqlType;
use helenus_vector::options::{
    CONSTRUCTION_BEAM_WIDTH, MAXIMUM_NODE_CONNECTIONS, OPTIMIZE_FOR, SEARCH_BEAM_WIDTH, SIMILARITY_FUNCTION,
};
use helenus_vector::{Similarity, VectorOptions};

use super::index_options::indexed_types;

/// ScyllaDB's class of indexes that find vectors.
const VECTOR_INDEX: &str = "vector_index";

const OF_STORAGE_ATTACHED: [&str; 4] = [
    MAXIMUM_NODE_CONNECTIONS,
    CONSTRUCTION_BEAM_WIDTH,
    SIMILARITY_FUNCTION,
    OPTIMIZE_FOR,
];

/// The last three are taken and say nothing: vectors are kept in eight bits a component, and those found are compared whole.
const OF_VECTOR_INDEX: [&str; 7] = [
    MAXIMUM_NODE_CONNECTIONS,
    CONSTRUCTION_BEAM_WIDTH,
    SEARCH_BEAM_WIDTH,
    SIMILARITY_FUNCTION,
    "quantization",
    "oversampling",
    "rescoring",
];

const EXPERIMENTAL: &str = "SAI ANN indexes on vector columns are experimental and are not recommended for production use.\n\
     They don't yet support SELECT queries with:\n \
     * Consistency level higher than ONE/LOCAL_ONE.\n \
     * Paging.\n \
     * No LIMIT clauses.\n \
     * PER PARTITION LIMIT clauses.\n \
     * GROUP BY clauses.\n \
     * Aggregation functions.\n \
     * Filters on columns without a SAI index.";

pub(super) fn is_class(class: &str) -> bool {
    class.eq_ignore_ascii_case(VECTOR_INDEX)
}

/// The options that indexes of a class have for vectors.
pub(super) fn options_of(class: Option<&str>) -> &'static [&'static str] {
    match class.is_some_and(is_class) {
        true => &OF_VECTOR_INDEX,
        false => &OF_STORAGE_ATTACHED,
    }
}

/// Checks the index of a column that is a vector, or is asked to be.
pub(super) fn check(
    cql_type: &CqlType,
    class: Option<&str>,
    options: &BTreeMap<String, String>,
) -> Result<(), CqlError> {
    if !class.is_some_and(is_class) {
        for (option, title) in [
            (MAXIMUM_NODE_CONNECTIONS, "Maximum node connections"),
            (CONSTRUCTION_BEAM_WIDTH, "Construction beam width"),
        ] {
            if options.contains_key(option) {
                return Err(invalid!(
                    "{title} cannot be set without enabling SAI_VECTOR_ALLOW_CUSTOM_PARAMETERS"
                ));
            }
        }
    }
    let VectorOptions { similarity, .. } = VectorOptions::of(options).map_err(|fault| invalid!("{fault}"))?;
    match cql_type {
        CqlType::Vector { element, dimension } if **element == CqlType::Float => {
            match similarity == Similarity::Cosine && *dimension == 1 {
                true => Err(invalid!(
                    "Cosine similarity is not supported for single-dimension vectors"
                )),
                false => Ok(()),
            }
        }
        _ => Err(invalid!(
            "SAI ANN indexes are only allowed on vector columns with float elements"
        )),
    }
}

/// One for each index of vectors that the table has, as Cassandra has it, whichever was made.
pub(super) fn warnings(table: &TableMetadata) -> Vec<String> {
    let is_of_vectors = |index: &IndexMetadata| {
        let column = table.column_by_id(index.column);
        index.kind == IndexKind::StorageAttached
            && column.is_some_and(|column| {
                let mut types = indexed_types(&column.cql_type, index.target).into_iter();
                types.any(CqlType::is_vector)
            })
    };
    let indexes = table.indexes.iter().filter(|index| is_of_vectors(index));
    indexes.map(|_| EXPERIMENTAL.to_owned()).collect()
}
