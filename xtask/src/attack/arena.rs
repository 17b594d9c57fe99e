//! The node that is attacked, and what its attackers share.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use helenus_protocol::ProtocolVersion;

use crate::node::{Launch, Node, NodeError};
use crate::process::run_quietly;
use crate::wire::Client;
use crate::workspace;

/// What the node may take, by its own options.
const MEMORY_BYTES: u64 = 192 << 20;

/// And a fifth, and what it rests in.
pub const RESIDENT_BYTES_MAX: u64 = MEMORY_BYTES + MEMORY_BYTES / 5 + (64 << 20);

/// Open files that the node may have: few enough that attackers reach it.
const DESCRIPTORS_MAX: u32 = 512;

/// Sockets that the kernel has not forgotten, and a log segment that was begun.
const DESCRIPTORS_SLACK: u64 = 16;

/// What the polite client asks in turns.
pub const POLITE: &[&str] = &[
    "SELECT v FROM polite.t WHERE p = 1",
    "INSERT INTO polite.t (p, v) VALUES (1, 'unharmed')",
];

/// The superuser of a new node.
const ACCOUNT: (&str, &str) = ("cassandra", "cassandra");

/// The server's core, and that of all clients.
const CORES: [&str; 2] = ["0", "1"];

pub struct Arena {
    pub address: SocketAddr,
    pub metrics: SocketAddr,
    pub control_socket: PathBuf,
    node: Node,
    process_id: u32,
    has_accounts: bool,
}

/// What an attack may not change for good.
#[derive(Clone, Debug)]
pub struct NodeState {
    pub threads: u64,
    pub descriptors: u64,
    pub resident_bytes: u64,
}

impl NodeState {
    /// In what it is more than it was.
    pub fn beyond(&self, before: &NodeState) -> Vec<String> {
        let mut beyond = Vec::new();
        if self.threads > before.threads {
            beyond.push(format!("{} threads, {} before", self.threads, before.threads));
        }
        if self.descriptors > before.descriptors + DESCRIPTORS_SLACK {
            beyond.push(format!(
                "{} open files, {} before",
                self.descriptors, before.descriptors
            ));
        }
        if self.resident_bytes > RESIDENT_BYTES_MAX {
            beyond.push(format!("{} MiB resident", self.resident_bytes >> 20));
        }
        beyond
    }
}

impl Arena {
    /// `binary` is the release build where none is given.
    pub fn start(name: &str, options: &[&str], binary: Option<&Path>) -> Result<Arena, NodeError> {
        let memory = MEMORY_BYTES.to_string();
        let mut all = vec!["--memory", &memory, "--shards", "2"];
        all.extend(options);
        let launch = Launch {
            binary: binary.map(Path::to_path_buf),
            descriptors_max: Some(DESCRIPTORS_MAX),
        };
        let node = Node::launch(name, &all, launch)?;
        let process_id = node.process_id().unwrap_or(0);
        node.keep_to_core(CORES[0])?;
        keep_this_process_to(CORES[1])?;
        let arena = Arena {
            address: node.address(),
            metrics: node.metrics_address().unwrap_or(node.address()),
            control_socket: workspace::scratch(name).join("data").join("control.sock"),
            node,
            process_id,
            has_accounts: options.contains(&"password"),
        };
        arena.make_tables().map_err(|error| NodeError::Metrics {
            address: arena.address,
            reason: format!("the tables of the attacks: {error}"),
        })?;
        Ok(arena)
    }

    /// A name and a password, where the node asks for them.
    pub fn account(&self) -> Option<(&'static str, &'static str)> {
        self.has_accounts.then_some(ACCOUNT)
    }

    /// A connection like any other's.
    pub fn connect(&self) -> io::Result<Client> {
        Client::connect_as(self.address, ProtocolVersion::V4, self.account())
    }

    /// A connection that says nothing by itself.
    pub fn connect_raw(&self) -> io::Result<TcpStream> {
        let stream = TcpStream::connect_timeout(&self.address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(stream)
    }

    pub fn is_alive(&self) -> bool {
        fs::metadata(format!("/proc/{}", self.process_id)).is_ok() && self.connect().is_ok()
    }

    pub fn state(&self) -> Result<NodeState, String> {
        let folder = PathBuf::from(format!("/proc/{}", self.process_id));
        let gone = |error: io::Error| format!("the node is gone: {error}");
        let status = fs::read_to_string(folder.join("status")).map_err(gone)?;
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
            number.unwrap_or(0_u64)
        };
        Ok(NodeState {
            threads: number("Threads:"),
            descriptors: fs::read_dir(folder.join("fd")).map_err(gone)?.count() as u64,
            resident_bytes: number("VmRSS:") << 10,
        })
    }

    pub fn check_panics(&self) -> Result<(), String> {
        self.node.check_panics().map_err(|error| error.to_string())
    }

    /// Flushed and started again, it has what was written.
    pub fn restart_and_stop(mut self) -> Result<(), String> {
        let failed = |error: NodeError| error.to_string();
        self.node.restart().map_err(failed)?;
        self.address = self.node.address();
        let answer = self.connect().and_then(|mut client| client.query(POLITE[0]));
        let answer = answer.map_err(|error| error.to_string())?;
        if !answer.ends_with(b"unharmed") {
            return Err(format!("the polite client's row is gone: {answer:?}"));
        }
        self.node.check_panics().map_err(failed)?;
        self.node.stop().map_err(failed)
    }

    fn make_tables(&self) -> io::Result<()> {
        let mut client = self.connect()?;
        for keyspace in ["polite", "attack"] {
            client.query(&format!(
                "CREATE KEYSPACE {keyspace} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
            ))?;
        }
        for table in [
            "polite.t (p int PRIMARY KEY, v text)",
            "attack.large (p int, c int, v blob, PRIMARY KEY (p, c))",
            "attack.small (p int, c int, v int, PRIMARY KEY (p, c))",
            "attack.numbers (p int PRIMARY KEY, v varint, d decimal, m map<int, int>)",
        ] {
            client.query(&format!("CREATE TABLE {table}"))?;
        }
        client.query(POLITE[1])?;
        // 8 MB in one partition, and 20,000 rows in a hundred.
        let value = "ab".repeat(4_096);
        for c in 0..2_000 {
            client.query(&format!(
                "INSERT INTO attack.large (p, c, v) VALUES (1, {c}, 0x{value})"
            ))?;
        }
        for p in 0..100 {
            let inserts: String = (0..200)
                .map(|c| format!("INSERT INTO attack.small (p, c, v) VALUES ({p}, {c}, {c});"))
                .collect();
            client.query(&format!("BEGIN UNLOGGED BATCH {inserts} APPLY BATCH"))?;
        }
        Ok(())
    }
}

/// For attackers that look at nothing but whether it is over.
const PATIENCE: Duration = Duration::from_secs(2);

fn keep_this_process_to(core: &str) -> Result<(), NodeError> {
    let id = std::process::id().to_string();
    Ok(run_quietly(Command::new("taskset").args(["-a", "-c", "-p", core, &id])).map(drop)?)
}

/// The calling thread runs when nobody else on its core wants to.
pub fn give_way() {
    let id = fs::read_link("/proc/thread-self").ok();
    let id = id.and_then(|path| Some(path.file_name()?.to_str()?.to_owned()));
    if let Some(id) = id {
        // Best effort: without it the polite client is slower on both sides of the comparison.
        let _ordinary = run_quietly(Command::new("chrt").args(["--idle", "--pid", "0", &id]));
    }
}
