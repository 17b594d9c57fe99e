//! Why the parser turned a statement down, before it is put into words.

use crate::lexer::TokenKind;

/// A rejection, by indexes into the token list; only a final one is worth turning into a message.
#[derive(Clone, Debug)]
pub(super) struct Rejection {
    pub(super) reason: Reason,
    /// The token named in the message.
    pub(super) offending: usize,
    /// The token the parser stood at, which differs from the offending one when it looked ahead.
    pub(super) position: usize,
}

#[derive(Clone, Debug)]
pub(super) enum Reason {
    Expected(TokenKind),
    ExpectedOneOfSeveral,
    NoViableAlternative,
    /// A rule beside the grammar, with its whole message.
    Rule(String),
}

pub(super) type Parsed<T> = Result<T, Rejection>;
