//! Class of a statement by its first word: known before it is parsed.

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
    /// Statements on schemas, roles and the like.
    Other,
    /// No statement begins so, or not near enough to the beginning of the text.
    Unknown,
}

impl StatementClass {
    pub fn of(statement: &str) -> Self {
        let beginning = statement.floor_char_boundary(LOOKED_THROUGH_BYTES_MAX);
        first_keyword(&statement[..beginning]).map_or(StatementClass::Unknown, Self::begun_by)
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

/// Returns whether the statement changes nothing, whatever it says. Looks through all of the text, as does [`chooses_keyspace`].
pub fn only_reads(statement: &str) -> bool {
    matches!(
        first_keyword(statement),
        Some(Keyword::Select | Keyword::Describe | Keyword::Desc | Keyword::List)
    )
}

/// Returns whether the statement chooses a keyspace for those after it.
pub fn chooses_keyspace(statement: &str) -> bool {
    first_keyword(statement) == Some(Keyword::Use)
}

fn first_keyword(statement: &str) -> Option<Keyword> {
    let mut scanner = Scanner::new(statement);
    loop {
        return match scanner.next_kind() {
            Ok(TokenKind::Hidden) => continue,
            Ok(TokenKind::Keyword(keyword)) => Some(keyword),
            Ok(_) | Err(_) => None,
        };
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

    #[test]
    fn what_changes_nothing_and_what_chooses_a_keyspace_is_known_behind_any_comment() {
        let long = "x".repeat(LOOKED_THROUGH_BYTES_MAX);
        for text in [
            "select 1",
            " /* x */ -- y\nSELECT * FROM t",
            "//z\rDESC t",
            "List ROLES",
        ] {
            assert!(only_reads(text), "{text}");
        }
        assert!(only_reads(&format!("/* {long} */ SELECT")));
        for text in [
            "",
            "/* SELECT",
            "selects",
            "INSERT",
            "USE k",
            "/**/BEGIN BATCH",
            "\u{e9}SELECT",
        ] {
            assert!(!only_reads(text), "{text}");
        }
        assert!(chooses_keyspace("  use k") && chooses_keyspace("USE\"k\"") && !chooses_keyspace("user"));
        assert!(chooses_keyspace(&format!("/* {long} */ USE k")));
    }
}
