//! The node that is attacked, and what its attackers share.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use helenus_protocol::ProtocolVersion;

use crate::node::{Launch, Node, NodeError, free_address};
use crate::process::run_quietly;
use crate::wire::Client;
use crate::workspace;

/// Memory of the node in bytes, by its own options.
const MEMORY_BYTES: u64 = 192 << 20;

/// And a fifth: what the process rests in, what an allocator keeps, and what the shards are at.
pub const RESIDENT_BYTES_MAX: u64 = MEMORY_BYTES + MEMORY_BYTES / 5;

/// Open files that the node may have: few enough that attackers reach it.
const DESCRIPTORS_MAX: u32 = 512;

/// Timeouts of the test command's node: what it takes for too late depends on nothing but the node.
const LONG_TIMEOUTS: &str = "read_request_timeout: 60s
range_request_timeout: 60s
write_request_timeout: 60s
";

/// Sockets that the kernel has not forgotten, and a log segment that was begun.
const DESCRIPTORS_SLACK: u64 = 16;

/// Statements that the polite client sends in turns.
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
    /// HTTP and gRPC.
    pub doors: SocketAddr,
    pub control_socket: PathBuf,
    node: Node,
    process_id: u32,
    has_accounts: bool,
}

/// State of the node that an attack may not change for good.
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
    /// Requests have Cassandra's times where `has_usual_timeouts`, else more than any machine needs. `binary` is the release
    /// build where none is given.
    pub fn start(
        name: &str,
        options: &[&str],
        has_usual_timeouts: bool,
        binary: Option<&Path>,
    ) -> Result<Arena, NodeError> {
        let memory = MEMORY_BYTES.to_string();
        let doors = free_address()?;
        let doors_address = doors.to_string();
        let mut all = vec!["--memory", &memory, "--shards", "2", "--grpc", &doors_address];
        all.extend(options);
        // Not in the node's folder, which is emptied.
        let config = workspace::target().join(format!("{name}.yaml"));
        let config_path = config.display().to_string();
        if !has_usual_timeouts {
            fs::write(&config, LONG_TIMEOUTS).map_err(|source| NodeError::File { path: config, source })?;
            all.extend(["--config", &config_path]);
        }
        let launch = Launch {
            binary: binary.map(Path::to_path_buf),
            descriptors_max: Some(DESCRIPTORS_MAX),
        };
        let node = Node::launch(name, &all, launch)?;
        let process_id = node.process_id().unwrap_or(0);
        node.keep_to_core(CORES[0])?;
        let arena = Arena {
            address: node.address(),
            doors,
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

/// The cores that this process had before.
pub struct CoresBefore(String);

impl Drop for CoresBefore {
    fn drop(&mut self) {
        if let Err(error) = keep_this_process_to(&self.0) {
            eprintln!("this process stays on core {}: {error}", CORES[1]);
        }
    }
}

/// Keeps this process to the core of the clients until what is given is dropped.
pub fn share_cores() -> Result<CoresBefore, NodeError> {
    let status = PathBuf::from("/proc/self/status");
    let text = fs::read_to_string(&status).map_err(|source| NodeError::File { path: status, source })?;
    let cores = text
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let before = CoresBefore(cores.unwrap_or(CORES[0]).trim().to_owned());
    keep_this_process_to(CORES[1])?;
    Ok(before)
}

fn keep_this_process_to(cores: &str) -> Result<(), NodeError> {
    let id = std::process::id().to_string();
    Ok(run_quietly(Command::new("taskset").args(["-a", "-c", "-p", cores, &id])).map(drop)?)
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
