//! Partition keys as text: the columns' texts, joined by colons.

use helenus_schema::TableMetadata;
use helenus_types::MarshalError;
use helenus_types::partition_key::{partition_key_components, write_partition_key};
use helenus_types::value::blob::to_hex;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyTextError {
    #[error(
        "the key {text:?} has {found} parts, the table's has {wanted}; parts are joined by colons, a colon is \\:"
    )]
    Parts {
        text: String,
        wanted: usize,
        found: usize,
    },
    #[error("the key {text:?} has a part of more than 65535 bytes")]
    TooLong { text: String },
    #[error("the key {text:?}: {source}")]
    Value { text: String, source: MarshalError },
}

/// The key's columns, each as text.
pub fn key_parts(table: &TableMetadata, key: &[u8]) -> Vec<String> {
    let columns = table.partition_key();
    partition_key_components(key, columns.len())
        .zip(columns)
        .map(|(part, column)| column.cql_type.to_text(part).unwrap_or_else(|_| to_hex(part)))
        .collect()
}

pub fn key_text(table: &TableMetadata, key: &[u8]) -> String {
    let mut parts = key_parts(table, key);
    if let [only] = parts.as_mut_slice() {
        return std::mem::take(only);
    }
    let escaped: Vec<String> = parts.iter().map(|part| part.replace(':', "\\:")).collect();
    escaped.join(":")
}

/// The reverse of [`key_text`].
pub fn key_of_text(table: &TableMetadata, text: &str) -> Result<Vec<u8>, KeyTextError> {
    let columns = table.partition_key();
    let parts = if columns.len() == 1 {
        vec![text.to_owned()]
    } else {
        split(text)
    };
    if parts.len() != columns.len() {
        return Err(KeyTextError::Parts {
            text: text.to_owned(),
            wanted: columns.len(),
            found: parts.len(),
        });
    }
    let values = parts
        .iter()
        .zip(columns)
        .map(|(part, column)| column.cql_type.from_text(part, 0))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|source| KeyTextError::Value {
            text: text.to_owned(),
            source,
        })?;
    let mut key = Vec::new();
    if write_partition_key(&mut key, values.iter().map(Vec::as_slice)) {
        Ok(key)
    } else {
        Err(KeyTextError::TooLong {
            text: text.to_owned(),
        })
    }
}

fn split(text: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut part = String::new();
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            ':' => parts.push(std::mem::take(&mut part)),
            '\\' if characters.next_if_eq(&':').is_some() => part.push(':'),
            other => part.push(other),
        }
    }
    parts.push(part);
    parts
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn colons_in_parts_are_escaped() {
        assert_eq!(split("a:b"), ["a", "b"]);
        assert_eq!(split(r"a\:b:\c:"), ["a:b", r"\c", ""]);
    }
}
