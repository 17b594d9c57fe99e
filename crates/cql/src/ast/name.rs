//! Names that may carry a keyspace.

use std::fmt;

/// A table, view or index name, with the keyspace when the statement gives one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct QualifiedName {
    pub keyspace: Option<String>,
    pub name: String,
}

impl fmt::Display for QualifiedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_qualified(f, self.keyspace.as_deref(), &self.name)
    }
}

/// A function or aggregate name, with the keyspace when the statement gives one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FunctionName {
    pub keyspace: Option<String>,
    pub name: String,
}

impl fmt::Display for FunctionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_qualified(f, self.keyspace.as_deref(), &self.name)
    }
}

fn write_qualified(f: &mut fmt::Formatter<'_>, keyspace: Option<&str>, name: &str) -> fmt::Result {
    match keyspace {
        Some(keyspace) => write!(f, "{keyspace}.{name}"),
        None => f.write_str(name),
    }
}
