//! The program as an operator runs it, on a data folder of the test's own.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use helenus_protocol::ProtocolVersion;
use helenus_test_service::{Client, Reply};

/// A folder that goes with the test.
pub struct Folder(pub PathBuf, #[expect(dead_code, reason = "held")] Turn);

/// Tests run beside each other, but for those that a busy machine could not pass.
enum Turn {
    Shared(#[expect(dead_code, reason = "held")] RwLockReadGuard<'static, ()>),
    Alone(#[expect(dead_code, reason = "held")] RwLockWriteGuard<'static, ()>),
}

static TURNS: RwLock<()> = RwLock::new(());

impl Folder {
    pub fn new(name: &str) -> Folder {
        let turn = TURNS.read().unwrap_or_else(PoisonError::into_inner);
        Folder::make(name, Turn::Shared(turn))
    }

    /// Makes the folder of a test beside which no other of this file runs.
    pub fn alone(name: &str) -> Folder {
        let turn = TURNS.write().unwrap_or_else(PoisonError::into_inner);
        Folder::make(name, Turn::Alone(turn))
    }

    fn make(name: &str, turn: Turn) -> Folder {
        let path = std::env::temp_dir().join(format!("helenus-{name}-{}", std::process::id()));
        let _left_by_another_process = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path, turn)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _left_to_the_system = std::fs::remove_dir_all(&self.0);
    }
}

/// A running node. Killed by its drop.
pub struct Program {
    process: Child,
    pub ready: String,
    pub cql: SocketAddr,
}

/// A node on free ports, or in the place of the one that has them.
pub fn command(data: &Path, addresses: [SocketAddr; 3], options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_helenus"));
    let [cql, metrics, doors] = addresses.map(|address| address.to_string());
    let or_else = |option: &'static str, value: &'static str| match options.contains(&option) {
        true => Vec::new(),
        false => vec![option, value],
    };
    command
        .arg("serve")
        .arg("--data")
        .arg(data)
        .args(["--listen", &cql, "--metrics", &metrics, "--grpc", &doors])
        .args(options)
        .args(or_else("--memory", "64MiB"))
        .args(or_else("--shards", "2"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

pub fn any_ports() -> [SocketAddr; 3] {
    [SocketAddr::from(([127, 0, 0, 1], 0)); 3]
}

impl Program {
    /// Returns when the node is ready.
    pub fn start(data: &Path, addresses: [SocketAddr; 3], options: &[&str]) -> Program {
        Program::start_by(&mut command(data, addresses, options))
    }

    /// The same of a command of [`command`] with more to it.
    pub fn start_by(command: &mut Command) -> Program {
        let mut process = command.spawn().unwrap();
        let mut ready = String::new();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        output.read_line(&mut ready).unwrap();
        if !ready.starts_with("helenus ready") {
            let mut complaint = String::new();
            process
                .stderr
                .take()
                .unwrap()
                .read_to_string(&mut complaint)
                .unwrap();
            panic!("{ready}{complaint}");
        }
        let cql = address_behind(&ready, "cql ");
        Program { process, ready, cql }
    }

    /// CQL, metrics, and HTTP with gRPC.
    pub fn addresses(&self) -> [SocketAddr; 3] {
        ["cql ", "metrics ", "http and grpc "].map(|name| address_behind(&self.ready, name))
    }

    pub fn id(&self) -> u32 {
        self.process.id()
    }

    pub fn is_running(&mut self) -> bool {
        self.process.try_wait().unwrap().is_none()
    }

    pub fn terminate(&self) {
        let told = Command::new("kill").arg(self.id().to_string()).status();
        assert!(told.unwrap().success());
    }

    /// Returns the log of a process that has ended as it should.
    pub fn end(mut self) -> String {
        let mut log = String::new();
        let mut errors = self.process.stderr.take().unwrap();
        errors.read_to_string(&mut log).unwrap();
        let ended = self.process.wait().unwrap();
        assert!(ended.success(), "{ended}: {log}");
        assert!(!log.contains("panicked"), "{log}");
        log
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ended_already = self.process.kill();
        let _reaped = self.process.wait();
    }
}

/// The address that the line names so.
pub fn address_behind(ready: &str, name: &str) -> SocketAddr {
    let (_, behind) = ready
        .split_once(name)
        .unwrap_or_else(|| panic!("no {name}in {ready}"));
    let end = behind.find([',', ' ', ')']).unwrap_or(behind.len());
    behind[..end].parse().unwrap()
}

/// A table `k.rows` of `id` and `value`.
pub fn create_table(address: SocketAddr) {
    let mut client = Client::open(address, ProtocolVersion::V4);
    for statement in [
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE k.rows (id int PRIMARY KEY, value int)",
    ] {
        let reply = client.ask(statement);
        assert!(matches!(reply, Reply::Message(_)), "{reply:?}");
    }
}
