//! Why a text is not a CQL statement.

/// A text that is not CQL. Prints as the message Cassandra sends with error code 0x2000.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SyntaxError {
    /// Counted from 1.
    pub line: usize,
    /// Counted from 0, in UTF-16 code units.
    pub column: usize,
    pub kind: SyntaxErrorKind,
    message: String,
}

/// What went wrong, in the terms of Cassandra's parser.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SyntaxErrorKind {
    /// A character no token begins with.
    UnexpectedCharacter,
    /// A token other than the only one possible.
    Mismatched,
    /// A token that begins none of the possible continuations.
    NoViableAlternative,
    /// A single token too many.
    Extraneous,
    /// Something after the end of the statement.
    MissingEnd,
    /// The grammar is satisfied but a rule beside it is not; such errors have no position.
    Rule,
}
