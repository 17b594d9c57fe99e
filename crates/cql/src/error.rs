//! Why a text is not a CQL statement, in the words of Cassandra.

use crate::lexer::{LexicalFault, Token, TokenKind};
use crate::snippet::snippet;

/// A text that is not CQL. Prints as the message Cassandra sends with error code 0x2000.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SyntaxError {
    /// Where the offending token is; None when it is the end of the text, or when a rule beside the grammar is
    /// broken.
    pub position: Option<Position>,
    pub kind: SyntaxErrorKind,
    message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Counted from 1.
    pub line: usize,
    /// Counted from 0, in UTF-16 code units.
    pub column: usize,
}

/// Kind of a syntax error, in the terms of Cassandra's parser.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SyntaxErrorKind {
    /// No token could be cut.
    Lexical,
    /// A token other than the only one possible.
    Mismatched,
    /// A token that begins none of the possible continuations.
    NoViableAlternative,
    /// The grammar is satisfied but a rule beside it is not.
    Rule,
}

impl SyntaxError {
    pub(crate) fn lexical(text: &str, fault: &LexicalFault) -> SyntaxError {
        let position = Position::of(text, fault.at);
        let message = format!(
            "line {}:{} {}",
            position.line,
            position.column,
            fault.message(text)
        );
        SyntaxError {
            position: Some(position),
            kind: SyntaxErrorKind::Lexical,
            message,
        }
    }

    pub(crate) fn rule(message: String) -> SyntaxError {
        SyntaxError {
            position: None,
            kind: SyntaxErrorKind::Rule,
            message,
        }
    }

    /// `tokens` are those the parser has looked at, hidden ones included.
    pub(crate) fn mismatched(
        text: &str,
        tokens: &[Token],
        offending: usize,
        position: usize,
        wanted: TokenKind,
    ) -> SyntaxError {
        let complaint = |found: &str| format!("mismatched input {found} expecting {}", wanted.name());
        SyntaxError::grammatical(
            text,
            tokens,
            offending,
            position,
            SyntaxErrorKind::Mismatched,
            complaint,
        )
    }

    pub(crate) fn mismatched_set(
        text: &str,
        tokens: &[Token],
        offending: usize,
        position: usize,
    ) -> SyntaxError {
        let complaint = |found: &str| format!("mismatched input {found} expecting set null");
        SyntaxError::grammatical(
            text,
            tokens,
            offending,
            position,
            SyntaxErrorKind::Mismatched,
            complaint,
        )
    }

    pub(crate) fn no_viable_alternative(
        text: &str,
        tokens: &[Token],
        offending: usize,
        position: usize,
    ) -> SyntaxError {
        let complaint = |found: &str| format!("no viable alternative at input {found}");
        SyntaxError::grammatical(
            text,
            tokens,
            offending,
            position,
            SyntaxErrorKind::NoViableAlternative,
            complaint,
        )
    }

    fn grammatical(
        text: &str,
        tokens: &[Token],
        offending: usize,
        position: usize,
        kind: SyntaxErrorKind,
        complaint: impl FnOnce(&str) -> String,
    ) -> SyntaxError {
        let snippet = snippet(text, tokens, position).unwrap_or_default();
        match tokens.get(offending).filter(|token| token.kind != TokenKind::End) {
            Some(token) => {
                let place = Position::of(text, token.start);
                let complaint = complaint(&display_token(&token.text(text)));
                let message = format!("line {}:{} {complaint}{snippet}", place.line, place.column);
                SyntaxError {
                    position: Some(place),
                    kind,
                    message,
                }
            }
            // The end of the text has no place of its own in Cassandra.
            None => {
                let message = format!("line 0:-1 {}{snippet}", complaint("'<EOF>'"));
                SyntaxError {
                    position: None,
                    kind,
                    message,
                }
            }
        }
    }
}

impl Position {
    /// The place of a byte of the text.
    pub(crate) fn of(text: &str, byte: usize) -> Position {
        let before = text.get(..byte).unwrap_or(text);
        let line = 1 + before.bytes().filter(|byte| *byte == b'\n').count();
        let last_line = before.rsplit('\n').next().unwrap_or_default();
        Position {
            line,
            column: last_line.encode_utf16().count(),
        }
    }
}

fn display_token(text: &str) -> String {
    let escaped = text
        .replace('\n', "\\n")
        .replace('\r', "\\r")
        .replace('\t', "\\t");
    format!("'{escaped}'")
}
