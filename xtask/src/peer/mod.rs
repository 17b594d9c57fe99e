//! A real Apache Cassandra 5.0, fetched with Maven and run as it is: the reference that answers are
//! compared with.

mod jars;
mod proof;
mod server;
mod tool;

use std::io;
use std::path::PathBuf;

use clap::{Args, Subcommand};

pub use proof::ProofProgram;
pub use server::{Peer, PeerOptions};
pub use tool::run as run_tool;

use crate::ports::free_port;
use crate::{process, runtime, workspace};

#[derive(Subcommand)]
pub enum Command {
    /// Start a node and wait until it answers CQL
    Up(UpArguments),
    /// Stop the nodes that `up` started below the same home
    Down(HomeArgument),
    /// Run one of Cassandra's own tools: nodetool, sstabledump, sstableverify, sstablemetadata, ...
    Tool(ToolArguments),
}

#[derive(Args)]
pub struct UpArguments {
    #[command(flatten)]
    home: HomeArgument,
    /// Address to listen on; any of 127.0.0.0/8 works without set-up on Linux
    #[arg(long, default_value = "127.0.71.1")]
    address: std::net::IpAddr,
    /// CQL port
    #[arg(long, default_value_t = 9042)]
    port: u16,
    /// JMX port, for nodetool [default: a free one, printed]
    #[arg(long)]
    jmx_port: Option<u16>,
    /// Java heap
    #[arg(long, default_value = "1g")]
    heap: String,
    /// Forget the data of earlier runs
    #[arg(long)]
    fresh: bool,
    /// A further line for cassandra.yaml; may be given several times
    #[arg(long = "set", value_name = "YAML")]
    settings: Vec<String>,
}

#[derive(Args)]
pub struct HomeArgument {
    /// Folder of the nodes' data, configuration and logs [default: target/peer]
    #[arg(long)]
    home: Option<PathBuf>,
}

impl HomeArgument {
    fn folder(&self) -> PathBuf {
        self.home
            .clone()
            .unwrap_or_else(|| workspace::target().join("peer"))
    }
}

#[derive(Args)]
pub struct ToolArguments {
    #[command(flatten)]
    home: HomeArgument,
    /// The tool's name
    name: String,
    /// Arguments handed on to the tool
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    #[error(transparent)]
    Process(#[from] process::ProcessError),
    #[error(transparent)]
    Runtime(#[from] runtime::RuntimeError),
    #[error("{path}: {source}")]
    File { path: PathBuf, source: io::Error },
    #[error("Cassandra left before it answered CQL; its log ends with\n{log_tail}")]
    Died { log_tail: String },
    #[error("Cassandra did not answer CQL within {seconds} s; its log ends with\n{log_tail}")]
    Silent { seconds: u64, log_tail: String },
    #[error("the proof program ended; its log ends with\n{log_tail}")]
    ProofEnded { log_tail: String },
    #[error("no free port: {0}")]
    NoPort(io::Error),
    #[error("something already answers on {0}")]
    AddressInUse(std::net::SocketAddr),
    #[error("unknown tool {name:?}; known: {known}")]
    UnknownTool { name: String, known: String },
}

pub fn run(command: &Command) -> Result<(), PeerError> {
    match command {
        Command::Up(arguments) => up(arguments),
        Command::Down(home) => server::stop_all(&home.folder()),
        Command::Tool(arguments) => {
            tool::run(&arguments.home.folder(), &arguments.name, &arguments.arguments)
        }
    }
}

fn up(arguments: &UpArguments) -> Result<(), PeerError> {
    let jmx_port = match arguments.jmx_port {
        Some(port) => port,
        // JMX cannot report the port it chose itself.
        None => free_port().map_err(PeerError::NoPort)?,
    };
    let peer = Peer::start(PeerOptions {
        home: arguments.home.folder(),
        address: arguments.address,
        port: arguments.port,
        jmx_port,
        heap: arguments.heap.clone(),
        fresh: arguments.fresh,
        settings: arguments.settings.clone(),
    })?;
    let (address, folder) = (peer.address(), peer.folder().to_path_buf());
    println!(
        "{address} jmx {jmx_port} pid {} dir {}",
        peer.leave_running(),
        folder.display()
    );
    Ok(())
}
