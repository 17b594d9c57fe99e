//! Names of the options in SUPPORTED and STARTUP: the specification's, and ScyllaDB's extensions that
//! shard-aware drivers look for.

use crate::frame::Compression;
use crate::response;
use crate::version::ProtocolVersion;

pub const CQL_VERSION: &str = "CQL_VERSION";
pub const COMPRESSION: &str = "COMPRESSION";
pub const PROTOCOL_VERSIONS: &str = "PROTOCOL_VERSIONS";
pub const DRIVER_NAME: &str = "DRIVER_NAME";
pub const DRIVER_VERSION: &str = "DRIVER_VERSION";
pub const THROW_ON_OVERLOAD: &str = "THROW_ON_OVERLOAD";

/// Offered as "true": a connection may register for the event of the same name (CEP-59).
pub const GRACEFUL_DISCONNECT: &str = "GRACEFUL_DISCONNECT";

/// Offered as "true": OVERLOADED always means that nothing of the request was done, so that a client may send it again.
/// Cassandra and ScyllaDB also answer so in the middle of batches and of writes to several replicas.
pub const OVERLOADED_IS_NOT_RUN: &str = "HELENUS_OVERLOADED_IS_NOT_RUN";

/// The version of CQL that Cassandra 5.0 speaks.
pub const CQL_VERSION_SPOKEN: &str = "3.4.7";

/// The shard this connection belongs to.
pub const SCYLLA_SHARD: &str = "SCYLLA_SHARD";
pub const SCYLLA_NR_SHARDS: &str = "SCYLLA_NR_SHARDS";
pub(crate) const SCYLLA_PARTITIONER: &str = "SCYLLA_PARTITIONER";
pub(crate) const SCYLLA_SHARDING_ALGORITHM: &str = "SCYLLA_SHARDING_ALGORITHM";
pub(crate) const SCYLLA_SHARDING_IGNORE_MSB: &str = "SCYLLA_SHARDING_IGNORE_MSB";
/// The port where a client chooses its shard by its own port: `client port % shards`.
pub const SCYLLA_SHARD_AWARE_PORT: &str = "SCYLLA_SHARD_AWARE_PORT";
/// Offered with `ERROR_CODE=<number>`: a client that names it in STARTUP understands that error code.
pub const SCYLLA_RATE_LIMIT_ERROR: &str = "SCYLLA_RATE_LIMIT_ERROR";

/// The body of the rate-limit error, behind its message: one byte for the kind of operation, one for whether the
/// coordinator (rather than a replica) refused it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RateLimitedOperation {
    Read = 0,
    Write = 1,
}

/// The number of the rate-limit error. The client learns it from SUPPORTED, so any free one would do; this is the
/// one ScyllaDB offers.
pub(crate) const RATE_LIMIT_ERROR_NUMBER: u32 = 0x4321;

/// How a shard-aware driver finds a partition's shard: token ranges of equal size, in token order, with no bits of
/// the token ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharding {
    pub shard: u32,
    pub shards: u32,
    pub shard_aware_port: Option<u16>,
}

/// Writes the body of SUPPORTED: Cassandra 5.0's options; with `sharding`, also the extensions.
pub fn write_supported(out: &mut Vec<u8>, sharding: Option<Sharding>) {
    let versions = ProtocolVersion::ALL.map(ProtocolVersion::description);
    let options = response::SupportedWriter::begin(out);
    options.option(out, PROTOCOL_VERSIONS, &versions);
    options.option(
        out,
        COMPRESSION,
        &[Compression::Snappy.name(), Compression::Lz4.name()],
    );
    options.option(out, CQL_VERSION, &[CQL_VERSION_SPOKEN]);
    let Some(sharding) = sharding else { return };
    options.option(out, GRACEFUL_DISCONNECT, &["true"]);
    options.option(out, OVERLOADED_IS_NOT_RUN, &["true"]);
    options.option(
        out,
        SCYLLA_RATE_LIMIT_ERROR,
        &[format!("ERROR_CODE={RATE_LIMIT_ERROR_NUMBER}")],
    );
    options.option(out, SCYLLA_SHARD, &[sharding.shard.to_string()]);
    options.option(out, SCYLLA_NR_SHARDS, &[sharding.shards.to_string()]);
    options.option(
        out,
        SCYLLA_PARTITIONER,
        &["org.apache.cassandra.dht.Murmur3Partitioner"],
    );
    options.option(out, SCYLLA_SHARDING_ALGORITHM, &["biased-token-round-robin"]);
    options.option(out, SCYLLA_SHARDING_IGNORE_MSB, &["0"]);
    if let Some(port) = sharding.shard_aware_port {
        options.option(out, SCYLLA_SHARD_AWARE_PORT, &[port.to_string()]);
    }
}
