//! Partition keys as text: the columns' texts, joined by colons.

use helenus_schema::TableMetadata;
use helenus_types::MarshalError;
use helenus_types::partition_key::{partition_key_components, write_partition_key};
use helenus_types::value::blob::to_hex;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyTextError {
    #[error(
        "the key {text:?} has {found} parts, the table's has {wanted}; parts are joined by colons; a colon within one is \\:, and backslashes before a colon are doubled"
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
    join(&parts)
}

/// The reverse of [`key_text`].
pub(crate) fn key_of_text(table: &TableMetadata, text: &str) -> Result<Vec<u8>, KeyTextError> {
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

/// As Cassandra's tools escape, and beyond: where backslashes come before a colon, that of the text or the one that ends the
/// part, they are doubled.
fn join(parts: &[String]) -> String {
    let mut text = String::new();
    for (place, part) in parts.iter().enumerate() {
        if place > 0 {
            text.push(':');
        }
        let mut backslashes = 0;
        for character in part.chars() {
            if character == ':' {
                text.extend(std::iter::repeat_n('\\', backslashes + 1));
            }
            backslashes = if character == '\\' { backslashes + 1 } else { 0 };
            text.push(character);
        }
        if place + 1 < parts.len() {
            text.extend(std::iter::repeat_n('\\', backslashes));
        }
    }
    text
}

fn split(text: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut part = String::new();
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            ':' => parts.push(std::mem::take(&mut part)),
            '\\' => {
                let mut backslashes = 1;
                while characters.next_if_eq(&'\\').is_some() {
                    backslashes += 1;
                }
                if characters.peek() != Some(&':') {
                    part.extend(std::iter::repeat_n('\\', backslashes));
                    continue;
                }
                part.extend(std::iter::repeat_n('\\', backslashes / 2));
                if backslashes % 2 == 1 {
                    part.extend(characters.next());
                }
            }
            other => part.push(other),
        }
    }
    parts.push(part);
    parts
}

#[cfg(test)]
mod tests {
    use super::{join, split};

    #[test]
    fn colons_in_parts_are_escaped() {
        assert_eq!(split("a:b"), ["a", "b"]);
        assert_eq!(split(r"a\:b:\c:"), ["a:b", r"\c", ""]);
    }

    /// The key (`a\`, `b`) was printed as that of one part `a:b`, and nobody could ask for it.
    #[test]
    fn every_key_is_told_apart_by_its_text() {
        let pieces = [
            "", "a", ":", r"\", r"\\", r"\:", r":\", r"a\", r"\a", "::", r"\\:\",
        ];
        let mut seen = std::collections::BTreeMap::new();
        for first in pieces {
            for second in pieces {
                for third in [None, Some(r"\"), Some("")] {
                    let parts: Vec<String> = [Some(first), Some(second), third]
                        .into_iter()
                        .flatten()
                        .map(str::to_owned)
                        .collect();
                    let text = join(&parts);
                    assert_eq!(split(&text), parts, "{text}");
                    assert_eq!(seen.insert(text, parts), None);
                }
            }
        }
        assert_eq!(
            join(&["a:b".to_owned(), r"c\".to_owned()]),
            r"a\:b:c\",
            "as Cassandra prints it"
        );
    }
}
