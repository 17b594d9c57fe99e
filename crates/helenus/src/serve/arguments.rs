//! Command line of `helenus serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use helenus_node::Authenticator;
use helenus_server::config::{DataSize, DoorAddress};
use helenus_vfs::DiskIo;

use crate::log::LogFormat;

#[derive(Args, Default)]
pub struct ServeArguments {
    /// Settings by cassandra.yaml's names; an unknown key is an error.
    #[arg(long, value_name = "FILE.yaml")]
    pub(super) config: Option<PathBuf>,
    /// Where everything is kept [default: ./helenus-data].
    #[arg(long, value_name = "DIR")]
    pub(super) data: Option<PathBuf>,
    /// Keep nothing: no commit log, no SSTables.
    #[arg(long)]
    pub(super) in_memory: bool,
    /// Address and port for CQL; port 0 picks a free one [default: 127.0.0.1:9042].
    #[arg(long, value_name = "IP:PORT")]
    pub(super) listen: Option<SocketAddr>,
    /// Threads that own data [default: one per core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(super) shards: Option<u16>,
    /// Budget of memtables and caches, for example 512MiB or 4GiB [default: a quarter of the machine's memory].
    #[arg(long, value_name = "SIZE")]
    pub(super) memory: Option<DataSize>,
    /// Keep in memory the rows that were read from files [default: on].
    #[arg(long, value_name = "on|off")]
    pub(super) row_cache: Option<RowCacheArgument>,
    /// Refuse requests early that have waited too long, so that others are in time [default: on].
    #[arg(long, value_name = "SWITCH")]
    pub(super) admission: Option<AdmissionArgument>,
    /// When a write is acknowledged [default: group].
    #[arg(long, value_name = "MODE")]
    pub(super) commitlog_sync: Option<CommitlogSyncArgument>,
    /// How clients prove who they are; a new node knows the user `cassandra` with the password `cassandra`
    /// [default: allow-all].
    #[arg(long, value_name = "WAY")]
    pub(super) authenticator: Option<AuthenticatorArgument>,
    /// How SSTables are read [default: auto].
    #[arg(long, value_name = "WAY")]
    pub(super) disk_io: Option<DiskIoArgument>,
    /// How lines of the log look [default: text].
    #[arg(long, value_name = "FORMAT")]
    pub(super) log_format: Option<LogFormatArgument>,
    /// Address and port for /metrics; port 0 picks a free one [default: 127.0.0.1:9180].
    #[arg(long, value_name = "IP:PORT")]
    pub(super) metrics: Option<SocketAddr>,
    /// Address and port for HTTP, gRPC and the console, or `off`; port 0 picks a free one [default: 127.0.0.1:8090].
    #[arg(long, value_name = "IP:PORT|off")]
    pub(super) grpc: Option<DoorAddress>,
    /// Take the place of the node that runs on this data folder, with its sockets and connections: no client is refused or
    /// disconnected. Where none runs, start as ever.
    #[arg(long)]
    pub(super) replace: bool,
    /// Return once the node is ready, and leave it running in a process of its own, whose log stays on this standard error.
    #[arg(long)]
    pub(super) detach: bool,
    /// Takes only statements that read through HTTP and gRPC.
    #[arg(long)]
    pub(super) grpc_read_only: bool,
    /// Serves gRPC's `TestService`, too, which interop clients call: for tests, since it lets whoever connects keep this node busy.
    #[arg(long, hide = true)]
    pub(super) grpc_test_service: bool,
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum CommitlogSyncArgument {
    /// On disk before it is acknowledged; waiting writes share one sync.
    Group,
    /// As Cassandra's batch mode.
    Batch,
    /// At once; the log is synced every commitlog_sync_period.
    Periodic,
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum RowCacheArgument {
    On,
    Off,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum AdmissionArgument {
    On,
    Off,
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum AuthenticatorArgument {
    /// Nobody is asked.
    AllowAll,
    /// User and password, as Cassandra's PasswordAuthenticator.
    Password,
}

impl From<AuthenticatorArgument> for Authenticator {
    fn from(argument: AuthenticatorArgument) -> Self {
        match argument {
            AuthenticatorArgument::AllowAll => Authenticator::AllowAll,
            AuthenticatorArgument::Password => Authenticator::Password,
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum LogFormatArgument {
    /// For people.
    Text,
    /// One object a line, for programs.
    Json,
}

impl From<LogFormatArgument> for LogFormat {
    fn from(argument: LogFormatArgument) -> Self {
        match argument {
            LogFormatArgument::Text => LogFormat::Text,
            LogFormatArgument::Json => LogFormat::Json,
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum DiskIoArgument {
    /// io_uring where the kernel allows it, else threads.
    Auto,
    #[value(name = "io_uring")]
    IoUring,
    Threads,
}

impl From<DiskIoArgument> for DiskIo {
    fn from(argument: DiskIoArgument) -> Self {
        match argument {
            DiskIoArgument::Auto => DiskIo::Auto,
            DiskIoArgument::IoUring => DiskIo::IoUring,
            DiskIoArgument::Threads => DiskIo::Threads,
        }
    }
}
