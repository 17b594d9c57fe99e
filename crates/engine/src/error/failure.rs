//! Details that some kinds of errors carry.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;

use helenus_protocol::{Consistency, FailureReason};

/// The name of a prepared statement on the wire: an MD5 digest, as in Cassandra.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreparedId(pub [u8; 16]);

/// As one number: hashed as bytes it takes three times as long, on every EXECUTE.
impl Hash for PreparedId {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write_u128(u128::from_le_bytes(self.0));
    }
}

/// Keyspace or table that `CREATE` without `IF NOT EXISTS` found.
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
    /// True if the detail is the whole message.
    pub is_detail_alone: bool,
}

/// A read or write that replicas answered with a failure; `detail` is whether data was present, or the kind of write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaFailure<Detail> {
    pub consistency: Consistency,
    pub received: i32,
    pub block_for: i32,
    pub failures: Vec<(IpAddr, FailureReason)>,
    pub detail: Detail,
}

impl fmt::Display for PreparedId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; 32];
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.0) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        f.write_str(str::from_utf8(&text).unwrap_or_default())
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
            is_detail_alone,
        } = self;
        if *is_detail_alone {
            return f.write_str(detail);
        }
        write!(
            f,
            "execution of '{keyspace}.{function}[{}]' failed: {detail}",
            argument_types.join(", ")
        )
    }
}

impl<Detail> fmt::Display for ReplicaFailure<Detail> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ReplicaFailure {
            received, failures, ..
        } = self;
        write!(
            f,
            "Operation failed - received {received} responses and {} failures",
            failures.len()
        )?;
        for (index, (address, reason)) in failures.iter().enumerate() {
            let separator = if index == 0 { ": " } else { ", " };
            write!(f, "{separator}{} from {address}", reason_name(*reason))?;
        }
        Ok(())
    }
}

fn reason_name(reason: FailureReason) -> &'static str {
    match reason {
        FailureReason::Unknown => "UNKNOWN",
        FailureReason::ReadTooManyTombstones => "READ_TOO_MANY_TOMBSTONES",
        FailureReason::Timeout => "TIMEOUT",
        FailureReason::IncompatibleSchema => "INCOMPATIBLE_SCHEMA",
        FailureReason::ReadSize => "READ_SIZE",
        FailureReason::NodeDown => "NODE_DOWN",
        FailureReason::IndexNotAvailable => "INDEX_NOT_AVAILABLE",
        FailureReason::ReadTooManyIndexes => "READ_TOO_MANY_INDEXES",
    }
}
