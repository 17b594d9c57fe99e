//! Targets and options of storage-attached indexes.

use std::collections::BTreeMap;
use std::fmt::Write;

use helenus_engine::CqlError;
use helenus_schema::{ColumnKind, IndexKind, IndexTarget, TableMetadata};
use helenus_types::CqlType;

use super::index::Target;
use super::vector_index;

/// How texts are made alike before they are compared.
const ANALYSIS: [&str; 3] = ["case_sensitive", "normalize", "ascii"];

/// The one target of a storage-attached index that is valid.
pub(super) fn check<'t>(
    table: &TableMetadata,
    targets: &[Target<'t>],
    class: Option<&str>,
    options: &BTreeMap<String, String>,
) -> Result<Target<'t>, CqlError> {
    let of_vectors = vector_index::options_of(class);
    let unknown: Vec<&str> = options
        .keys()
        .map(String::as_str)
        .filter(|name| !ANALYSIS.contains(name) && !of_vectors.contains(name))
        .collect();
    if !unknown.is_empty() {
        return Err(CqlError::config(format_args!(
            "Properties specified [{}] are not understood by StorageAttachedIndex",
            unknown.join(", ")
        )));
    }
    let (column, target) = match targets {
        [target] => *target,
        [] => return Err(invalid!("Failed to retrieve target column for: ")),
        several => {
            let texts = several.iter().map(|(column, target)| target.text(&column.name));
            return Err(invalid!(
                "A storage-attached index cannot be created over multiple columns: {}",
                texts.collect::<Vec<_>>().join(", ")
            ));
        }
    };
    let mut others = table.indexes_of(column.id);
    if others.any(|index| index.kind == IndexKind::StorageAttached && index.target == target) {
        return Err(invalid!(
            "Cannot create more than one storage-attached index on the same column: {}",
            column.name
        ));
    }
    let analysis = |(name, _): &(&String, &String)| ANALYSIS.contains(&name.as_str());
    let analysis: Vec<(&String, &String)> = options.iter().filter(analysis).collect();
    let is_key = matches!(column.kind, ColumnKind::PartitionKey | ColumnKind::Clustering);
    if is_key && !analysis.is_empty() {
        return Err(invalid!(
            "Analysis options are not supported on primary key columns, but found {}",
            map_text(&analysis)
        ));
    }
    check_analysis(&column.cql_type, target, &analysis)?;
    let has_vector_options = options.keys().any(|name| of_vectors.contains(&name.as_str()));
    if has_vector_options && !column.cql_type.is_vector() {
        return Err(invalid!(
            "CQL type {} cannot have vector options",
            type_text(&column.cql_type, target)
        ));
    }
    if column.cql_type.is_vector() || class.is_some_and(vector_index::is_class) {
        vector_index::check(&column.cql_type, class, options)?;
    }
    match indexed_types(&column.cql_type, target)
        .into_iter()
        .find(|cql_type| !is_supported(cql_type))
    {
        Some(unsupported) => Err(invalid!("Unsupported type: {unsupported}")),
        None => Ok((column, target)),
    }
}

fn check_analysis(
    cql_type: &CqlType,
    target: IndexTarget,
    analysis: &[(&String, &String)],
) -> Result<(), CqlError> {
    if analysis.is_empty() {
        return Ok(());
    }
    if !matches!(
        indexed_types(cql_type, target).as_slice(),
        [CqlType::Text | CqlType::Ascii]
    ) {
        return Err(invalid!(
            "CQL type {} cannot be analyzed.",
            type_text(cql_type, target)
        ));
    }
    for (name, value) in analysis {
        if value.is_empty() {
            return Err(invalid!("Empty value for boolean option '{name}'"));
        }
        if !value.eq_ignore_ascii_case("true") && !value.eq_ignore_ascii_case("false") {
            return Err(invalid!("Illegal value for boolean option '{name}': {value}"));
        }
    }
    Ok(())
}

/// The types of what becomes a term: a key and a value where it is an entry.
pub(super) fn indexed_types(cql_type: &CqlType, target: IndexTarget) -> Vec<&CqlType> {
    match (cql_type, target) {
        (CqlType::Map { key, .. }, IndexTarget::Keys) => vec![key],
        (CqlType::Map { value, .. }, IndexTarget::Values) => vec![value],
        (CqlType::Map { key, value, .. }, IndexTarget::Entries) => vec![key, value],
        (CqlType::List { element, .. } | CqlType::Set { element, .. }, IndexTarget::Values) => vec![element],
        _ => vec![cql_type],
    }
}

fn is_supported(cql_type: &CqlType) -> bool {
    let has_parts = cql_type.sub_types().next().is_some();
    let is_unsupported = matches!(
        cql_type,
        CqlType::Blob | CqlType::Duration | CqlType::Counter | CqlType::Empty | CqlType::Custom(_)
    );
    has_parts || !is_unsupported
}

/// Cassandra's composite of keys and values has a class for a name.
fn type_text(cql_type: &CqlType, target: IndexTarget) -> String {
    match indexed_types(cql_type, target).as_slice() {
        [single] => single.to_string(),
        parts => {
            let classes: Vec<String> = parts.iter().map(|part| part.to_marshal_class()).collect();
            format!(
                "'org.apache.cassandra.db.marshal.CompositeType({})'",
                classes.join(",")
            )
        }
    }
}

fn map_text(entries: &[(&String, &String)]) -> String {
    let mut text = "{".to_owned();
    for (index, (name, value)) in entries.iter().enumerate() {
        let separator = if index == 0 { "" } else { ", " };
        // Writing to a String cannot fail.
        let _ = write!(text, "{separator}'{name}': '{value}'");
    }
    text.push('}');
    text
}
