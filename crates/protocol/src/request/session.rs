//! STARTUP and REGISTER: what a connection asks for before it asks questions.

use crate::extensions::SCYLLA_RATE_LIMIT_ERROR;
use crate::frame::Compression;
use crate::version::ProtocolVersion;
use crate::wire::{DecodeError, WireReader};

/// The options of STARTUP: a view of validated bytes. Their names are compared without regard to case.
#[derive(Clone, Copy, Debug)]
pub struct Startup<'a> {
    count: usize,
    bytes: &'a [u8],
}

/// Why a STARTUP message is refused, as a protocol error in Cassandra's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartupError {
    #[error("Missing value CQL_VERSION in STARTUP message")]
    MissingCqlVersion,
    #[error("CQL version {0} is not supported by the binary protocol (supported version are >= 3.0.0)")]
    OldCqlVersion(Box<str>),
    #[error("Invalid version value: {0}")]
    InvalidCqlVersion(Box<str>),
    #[error("Snappy compression is not supported in protocol V5")]
    SnappyInV5,
    #[error("Unknown compression algorithm: {0}")]
    UnknownCompression(Box<str>),
}

impl<'a> Startup<'a> {
    pub(super) fn decode(reader: &mut WireReader<'a>) -> Result<Self, DecodeError> {
        // An option is at least two empty strings of 2 bytes each.
        let count = reader.count("startup options", 4)?;
        let start = reader.rest();
        for _ in 0..count {
            reader.string()?;
            reader.string()?;
        }
        let used = start.len() - reader.rest().len();
        Ok(Startup {
            count,
            bytes: &start[..used],
        })
    }

    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let mut reader = WireReader::new(self.bytes);
        // `decode` has checked the same bytes, so none of these can fail.
        (0..self.count).map_while(move |_| Some((reader.string().ok()?, reader.string().ok()?)))
    }

    /// An option's value; of several with the same name, the last.
    pub fn option(&self, name: &str) -> Option<&'a str> {
        self.iter()
            .filter(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
            .last()
    }

    /// Checks the options Cassandra checks, in its order, and returns the compression to use from here on.
    pub fn negotiate(&self, version: ProtocolVersion) -> Result<Option<Compression>, StartupError> {
        let cql_version = self
            .option("CQL_VERSION")
            .ok_or(StartupError::MissingCqlVersion)?;
        match major_version(cql_version) {
            Some(3..) => {}
            // 2.99 is the last thing Cassandra refuses.
            Some(2) if cql_version.starts_with("2.99.") => {}
            Some(_) => return Err(StartupError::OldCqlVersion(cql_version.into())),
            None => return Err(StartupError::InvalidCqlVersion(cql_version.into())),
        }
        let Some(name) = self.option("COMPRESSION") else {
            return Ok(None);
        };
        if name.eq_ignore_ascii_case(Compression::Lz4.name()) {
            return Ok(Some(Compression::Lz4));
        }
        if !name.eq_ignore_ascii_case(Compression::Snappy.name()) {
            return Err(StartupError::UnknownCompression(name.to_lowercase().into()));
        }
        if version >= ProtocolVersion::V5 {
            return Err(StartupError::SnappyInV5);
        }
        Ok(Some(Compression::Snappy))
    }

    /// Returns whether the client wants an error, rather than a slower connection, when the server has too much to do.
    pub fn throws_on_overload(&self) -> bool {
        self.option("THROW_ON_OVERLOAD") == Some("1")
    }

    /// Returns whether the client knows the error of partitions that are asked for too often, whatever it says of its number.
    pub fn knows_rate_limit_error(&self) -> bool {
        self.option(SCYLLA_RATE_LIMIT_ERROR).is_some()
    }
}

/// The major number of `major.minor[.patch][-pre-release]`; `None` if it has another form.
fn major_version(text: &str) -> Option<u32> {
    let (major, rest) = text.split_once('.')?;
    let minor = rest.split(['.', '-', '+', '~']).next()?;
    minor.parse::<u32>().ok()?;
    major.parse().ok()
}

/// Kinds of events that a connection can register for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    TopologyChange,
    StatusChange,
    SchemaChange,
    /// Known to Cassandra's REGISTER since v4, but never sent.
    TraceComplete,
    /// The server is about to close this connection (CEP-59); only where SUPPORTED offers it.
    GracefulDisconnect,
}

impl EventKind {
    pub const ALL: [EventKind; 5] = [
        Self::TopologyChange,
        Self::StatusChange,
        Self::SchemaChange,
        Self::TraceComplete,
        Self::GracefulDisconnect,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::TopologyChange => "TOPOLOGY_CHANGE",
            Self::StatusChange => "STATUS_CHANGE",
            Self::SchemaChange => "SCHEMA_CHANGE",
            Self::TraceComplete => "TRACE_COMPLETE",
            Self::GracefulDisconnect => "GRACEFUL_DISCONNECT",
        }
    }

    /// Its bit in a [`Register`].
    fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// The set of events a connection registers for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Register {
    kinds: u8,
}

impl Register {
    pub(super) fn decode(reader: &mut WireReader<'_>, version: ProtocolVersion) -> Result<Self, DecodeError> {
        let count = reader.count("event types", 2)?;
        let mut register = Register::default();
        for _ in 0..count {
            let name = reader.string()?;
            let kind = EventKind::ALL
                .into_iter()
                .find(|kind| kind.name().eq_ignore_ascii_case(name))
                .ok_or_else(|| DecodeError::UnknownName {
                    value: name.into(),
                    kind: "Type",
                })?;
            if kind == EventKind::TraceComplete && version < ProtocolVersion::V4 {
                return Err(DecodeError::EventNotInVersion {
                    event: kind.name(),
                    version,
                });
            }
            register.kinds |= kind.bit();
        }
        Ok(register)
    }

    #[must_use]
    pub fn with(self, kind: EventKind) -> Register {
        Register {
            kinds: self.kinds | kind.bit(),
        }
    }

    #[inline]
    pub fn contains(self, kind: EventKind) -> bool {
        self.kinds & kind.bit() != 0
    }

    /// A connection may register more than once; the sets add up.
    pub fn add(&mut self, other: Register) {
        self.kinds |= other.kinds;
    }

    pub fn is_empty(self) -> bool {
        self.kinds == 0
    }

    /// A byte that [`Register::of_byte`] understands.
    pub fn to_byte(self) -> u8 {
        self.kinds
    }

    /// Kinds that are not known are left out.
    pub fn of_byte(byte: u8) -> Register {
        let known = EventKind::ALL.iter().fold(0, |kinds, kind| kinds | kind.bit());
        Register { kinds: byte & known }
    }
}
