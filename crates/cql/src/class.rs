//! What a statement does, by its first word: known before it is parsed.

use crate::lexer::{Keyword, Scanner, TokenKind};

/// How much of a text is looked through for its first word, in bytes: longer comments in front of a statement are rare.
const LOOKED_THROUGH_BYTES_MAX: usize = 4 << 10;

/// For those who must decide how long it may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatementClass {
    Read,
    /// Batches too.
    Write,
    Truncate,
    /// Of schemas, roles and the like.
    Other,
    /// No statement begins so, or not near enough to the beginning of the text.
    Unknown,
}

impl StatementClass {
    pub fn of(statement: &str) -> Self {
        let beginning = statement.floor_char_boundary(LOOKED_THROUGH_BYTES_MAX);
        let mut scanner = Scanner::new(&statement[..beginning]);
        loop {
            return match scanner.next_kind() {
                Ok(TokenKind::Hidden) => continue,
                Ok(TokenKind::Keyword(keyword)) => Self::begun_by(keyword),
                Ok(_) | Err(_) => StatementClass::Unknown,
            };
        }
    }

    fn begun_by(keyword: Keyword) -> Self {
        match keyword {
            Keyword::Select => StatementClass::Read,
            Keyword::Insert | Keyword::Update | Keyword::Delete | Keyword::Begin => StatementClass::Write,
            Keyword::Truncate => StatementClass::Truncate,
            Keyword::Create | Keyword::Alter | Keyword::Drop | Keyword::Describe | Keyword::Desc => {
                StatementClass::Other
            }
            _ => StatementClass::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_known_by_its_first_word_behind_comments() {
        let long = format!("/* {} */ SELECT", "x".repeat(LOOKED_THROUGH_BYTES_MAX));
        for (text, class) in [
            ("select * from t", StatementClass::Read),
            ("  -- a\n // b\r\n /* c */ UPDATE t", StatementClass::Write),
            ("BEGIN BATCH", StatementClass::Write),
            ("TRUNCATE t", StatementClass::Truncate),
            ("DROP TABLE t", StatementClass::Other),
            ("FROM t", StatementClass::Unknown),
            ("'SELECT'", StatementClass::Unknown),
            ("", StatementClass::Unknown),
            (&long, StatementClass::Unknown),
        ] {
            assert_eq!(StatementClass::of(text), class, "{text}");
        }
    }
}
