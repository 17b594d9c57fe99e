//! Why a statement was refused or could not be executed: the one error type of everything in this crate.
//!
//! The kinds are those of the protocol's ERROR message. Refusals that an overloaded node makes by the hundred
//! thousand carry numbers only; nothing is formatted before the response is written.

use std::fmt;

use helenus_cql::SyntaxError;

/// An error as the client sees it. Small, because every `Result` of the request path carries it; what is rare or
/// large is boxed.
#[derive(Debug)]
#[non_exhaustive]
pub enum CqlError {
    Syntax(Box<SyntaxError>),
    /// The statement is CQL, but not for this schema or not with these values.
    Invalid(Message),
    Unauthorized(Message),
    /// A keyspace or table cannot have such options.
    Config(Message),
    AlreadyExists(Box<AlreadyExists>),
    /// The statement with this id is not in the cache of prepared statements.
    Unprepared(PreparedId),
    FunctionFailure(Box<FunctionFailure>),
    Truncate(Message),
    Overloaded(Message),
    /// The client broke the protocol's rules in a way only the statement shows.
    Protocol(Message),
    /// Our own fault: storage failed, or a bug was caught.
    Server(Message),
}

/// The name of a prepared statement on the wire: an MD5 digest, as in Cassandra.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PreparedId(pub [u8; 16]);

/// What `CREATE` without `IF NOT EXISTS` found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlreadyExists {
    Keyspace { keyspace: String },
    Table { keyspace: String, table: String },
}

/// A function or aggregate that failed while it ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionFailure {
    pub keyspace: String,
    pub function: String,
    /// In CQL syntax.
    pub argument_types: Vec<String>,
    pub detail: String,
}

/// The text of an error. Fixed texts cost nothing; others are formatted where the names they mention are at hand.
#[derive(Clone, PartialEq, Eq)]
pub struct Message(MessageText);

#[derive(Clone, PartialEq, Eq)]
enum MessageText {
    Fixed(&'static str),
    /// In two steps, so that a `Message` has the size of a `&str`.
    Formatted(Box<String>),
}

// A `Result<(), CqlError>` travels in three registers' worth of memory.
const _: () = assert!(size_of::<CqlError>() <= 24);

impl CqlError {
    /// `CqlError::invalid(format_args!("Unknown property '{name}'"))`; likewise for the other kinds.
    pub fn invalid(text: fmt::Arguments<'_>) -> Self {
        CqlError::Invalid(Message::from(text))
    }

    pub fn unauthorized(text: fmt::Arguments<'_>) -> Self {
        CqlError::Unauthorized(Message::from(text))
    }

    pub fn config(text: fmt::Arguments<'_>) -> Self {
        CqlError::Config(Message::from(text))
    }

    pub fn overloaded(text: fmt::Arguments<'_>) -> Self {
        CqlError::Overloaded(Message::from(text))
    }

    pub fn protocol(text: fmt::Arguments<'_>) -> Self {
        CqlError::Protocol(Message::from(text))
    }

    pub fn server(text: fmt::Arguments<'_>) -> Self {
        CqlError::Server(Message::from(text))
    }

    pub fn truncate(text: fmt::Arguments<'_>) -> Self {
        CqlError::Truncate(Message::from(text))
    }
}

impl fmt::Display for CqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CqlError::Syntax(error) => error.fmt(f),
            CqlError::Invalid(message)
            | CqlError::Unauthorized(message)
            | CqlError::Config(message)
            | CqlError::Overloaded(message)
            | CqlError::Protocol(message)
            | CqlError::Server(message) => message.fmt(f),
            CqlError::Truncate(message) => write!(f, "Error during truncate: {message}"),
            CqlError::AlreadyExists(existing) => existing.fmt(f),
            CqlError::Unprepared(id) => write!(
                f,
                "Prepared query with ID {id} not found (either the query was not prepared on this host (maybe the \
                 host has been restarted?) or you have prepared too many queries and it has been evicted from the \
                 internal cache)"
            ),
            CqlError::FunctionFailure(failure) => failure.fmt(f),
        }
    }
}

impl std::error::Error for CqlError {}

impl From<SyntaxError> for CqlError {
    fn from(error: SyntaxError) -> Self {
        CqlError::Syntax(Box::new(error))
    }
}

impl fmt::Display for PreparedId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl AlreadyExists {
    pub fn keyspace(&self) -> &str {
        match self {
            AlreadyExists::Keyspace { keyspace } | AlreadyExists::Table { keyspace, .. } => keyspace,
        }
    }

    /// Empty for a keyspace, as the protocol wants it.
    pub fn table(&self) -> &str {
        match self {
            AlreadyExists::Keyspace { .. } => "",
            AlreadyExists::Table { table, .. } => table,
        }
    }
}

impl fmt::Display for AlreadyExists {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AlreadyExists::Keyspace { keyspace } => write!(f, "Cannot add existing keyspace \"{keyspace}\""),
            AlreadyExists::Table { keyspace, table } => {
                write!(
                    f,
                    "Cannot add already existing table \"{table}\" to keyspace \"{keyspace}\""
                )
            }
        }
    }
}

impl fmt::Display for FunctionFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FunctionFailure {
            keyspace,
            function,
            argument_types,
            detail,
        } = self;
        write!(
            f,
            "execution of '{keyspace}.{function}[{}]' failed: {detail}",
            argument_types.join(", ")
        )
    }
}

impl From<fmt::Arguments<'_>> for Message {
    fn from(text: fmt::Arguments<'_>) -> Self {
        Message(match text.as_str() {
            Some(fixed) => MessageText::Fixed(fixed),
            None => MessageText::Formatted(Box::new(text.to_string())),
        })
    }
}

impl From<&'static str> for Message {
    fn from(text: &'static str) -> Self {
        Message(MessageText::Fixed(text))
    }
}

impl Message {
    pub fn as_str(&self) -> &str {
        match &self.0 {
            MessageText::Fixed(text) => text,
            MessageText::Formatted(text) => text,
        }
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_cassandras() {
        let table = AlreadyExists::Table {
            keyspace: "ks".to_owned(),
            table: "t".to_owned(),
        };
        let keyspace = AlreadyExists::Keyspace {
            keyspace: "ks".to_owned(),
        };
        let failure = FunctionFailure {
            keyspace: "ks".to_owned(),
            function: "f".to_owned(),
            argument_types: vec!["int".to_owned(), "text".to_owned()],
            detail: "boom".to_owned(),
        };
        let cases = [
            (CqlError::invalid(format_args!("fixed")), "fixed"),
            (CqlError::config(format_args!("{} formatted", 1)), "1 formatted"),
            (
                CqlError::AlreadyExists(Box::new(table)),
                "Cannot add already existing table \"t\" to keyspace \"ks\"",
            ),
            (
                CqlError::AlreadyExists(Box::new(keyspace)),
                "Cannot add existing keyspace \"ks\"",
            ),
            (
                CqlError::FunctionFailure(Box::new(failure)),
                "execution of 'ks.f[int, text]' failed: boom",
            ),
        ];
        for (error, message) in cases {
            assert_eq!(error.to_string(), message);
        }
        let id = PreparedId(std::array::from_fn(|index| 0xf0 + index as u8));
        assert!(
            CqlError::Unprepared(id)
                .to_string()
                .starts_with("Prepared query with ID f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff not found (either")
        );
    }
}
