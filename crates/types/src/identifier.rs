//! Names as CQL prints them.

use std::borrow::Cow;

/// The words that cannot be used as a name without quotes, sorted.
const RESERVED_WORDS: [&str; 57] = [
    "ADD",
    "ALLOW",
    "ALTER",
    "AND",
    "APPLY",
    "ASC",
    "AUTHORIZE",
    "BATCH",
    "BEGIN",
    "BY",
    "COLUMNFAMILY",
    "CREATE",
    "DELETE",
    "DESC",
    "DESCRIBE",
    "DROP",
    "ENTRIES",
    "EXECUTE",
    "FROM",
    "FULL",
    "GRANT",
    "IF",
    "IN",
    "INDEX",
    "INFINITY",
    "INSERT",
    "INTO",
    "IS",
    "KEYSPACE",
    "LIMIT",
    "MATERIALIZED",
    "MODIFY",
    "NAN",
    "NORECURSIVE",
    "NOT",
    "NULL",
    "OF",
    "ON",
    "OR",
    "ORDER",
    "PRIMARY",
    "RENAME",
    "REVOKE",
    "SCHEMA",
    "SELECT",
    "SET",
    "TABLE",
    "TO",
    "TOKEN",
    "TRUNCATE",
    "UNLOGGED",
    "UPDATE",
    "USE",
    "USING",
    "VIEW",
    "WHERE",
    "WITH",
];

/// The name as CQL text needs it: as it is if it would read back as itself, else in double quotes.
pub fn quoted_identifier(name: &str) -> Cow<'_, str> {
    if is_plain(name) && !is_reserved_word(name) {
        Cow::Borrowed(name)
    } else {
        Cow::Owned(format!("\"{}\"", name.replace('"', "\"\"")))
    }
}

/// Returns whether `word`, in any case, is a reserved keyword of Cassandra 5.0.
pub fn is_reserved_word(word: &str) -> bool {
    let upper = word.bytes().map(|byte| byte.to_ascii_uppercase());
    RESERVED_WORDS
        .binary_search_by(|reserved| reserved.bytes().cmp(upper.clone()))
        .is_ok()
}

fn is_plain(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_lowercase())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_words_are_sorted_for_the_search() {
        assert!(RESERVED_WORDS.is_sorted());
    }

    #[test]
    fn only_names_that_read_back_as_themselves_stay_bare() {
        for (name, printed) in [
            ("abc_1", "abc_1"),
            ("Abc", "\"Abc\""),
            ("1a", "\"1a\""),
            ("", "\"\""),
            ("select", "\"select\""),
            ("say\"hi", "\"say\"\"hi\""),
            ("key", "key"),
        ] {
            assert_eq!(quoted_identifier(name), printed);
        }
    }
}
