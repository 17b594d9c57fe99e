//! Names and texts written so that the parser reads them back, for `DESCRIBE` and for messages.

use std::borrow::Cow;

use crate::lexer::{Keyword, KeywordClass};

/// A name with quotes around it if it needs them, as Cassandra decides it.
pub fn maybe_quote_identifier(name: &str) -> Cow<'_, str> {
    if is_unquoted_identifier(name) {
        Cow::Borrowed(name)
    } else {
        Cow::Owned(quote_identifier(name))
    }
}

/// A name in double quotes.
pub(crate) fn quote_identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text in single quotes.
pub fn quote_string(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Returns whether the word, in any case, is one Cassandra quotes names for.
pub fn is_reserved_word(word: &str) -> bool {
    word.eq_ignore_ascii_case("nan")
        || word.eq_ignore_ascii_case("infinity")
        || Keyword::from_word(word).is_some_and(|keyword| keyword.class() == KeywordClass::Reserved)
}

fn is_unquoted_identifier(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_lowercase())
        && bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        && !is_reserved_word(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_only_what_needs_quotes() {
        assert_eq!(maybe_quote_identifier("user_id2"), "user_id2");
        assert_eq!(maybe_quote_identifier("key"), "key");
        assert_eq!(maybe_quote_identifier("true"), "true");
        assert_eq!(maybe_quote_identifier("Name"), "\"Name\"");
        assert_eq!(maybe_quote_identifier("table"), "\"table\"");
        assert_eq!(maybe_quote_identifier("nan"), "\"nan\"");
        assert_eq!(maybe_quote_identifier("_a"), "\"_a\"");
        assert_eq!(maybe_quote_identifier(""), "\"\"");
        assert_eq!(maybe_quote_identifier("a\"b"), "\"a\"\"b\"");
        assert_eq!(quote_string("it's"), "'it''s'");
    }
}
