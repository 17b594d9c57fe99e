//! The node under test: Helenus by default, a real Cassandra, or whatever answers at an address.
//!
//! `HELENUS_TEST_TARGET` chooses: unset starts our own build, `cassandra` starts the
//! peer, `HOST:PORT` uses a server that somebody else runs and that cannot be restarted from here.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use crate::peer::{Peer, PeerError, PeerOptions};
use crate::ports::free_port;
use crate::process::{self, Process, ProcessError};
use crate::workspace;

pub const TARGET_VARIABLE: &str = "HELENUS_TEST_TARGET";
/// Helenus is ready within milliseconds; replaying a commit log after a crash may take some seconds.
const READY_WAIT: Duration = Duration::from_secs(60);
const METRICS_WAIT: Duration = Duration::from_secs(10);
const PANICS_METRIC: &str = "helenus_panics_total";

#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error(transparent)]
    Peer(#[from] PeerError),
    #[error("{path}: {source}")]
    File { path: PathBuf, source: io::Error },
    #[error("{TARGET_VARIABLE}={value:?} is neither `cassandra` nor HOST:PORT")]
    Target { value: String },
    #[error(
        "{path} is missing; build it with `cargo build --release`, or with --only build in the test command"
    )]
    NotBuilt { path: PathBuf },
    #[error("no ready line from helenus; its log ends with\n{log_tail}")]
    NotReady { log_tail: String },
    #[error("no free port: {0}")]
    NoPort(io::Error),
    #[error("a stop by SIGTERM ended with {0} instead of success")]
    UncleanStop(std::process::ExitStatus),
    #[error("metrics page at {address}: {reason}")]
    Metrics { address: SocketAddr, reason: String },
    #[error("{count} panics inside the server; see {log}")]
    Panics { count: u64, log: PathBuf },
}

/// Which server the tests talk to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    Helenus,
    Cassandra,
    External(SocketAddr),
}

impl Target {
    pub fn from_environment() -> Result<Self, NodeError> {
        match std::env::var(TARGET_VARIABLE) {
            Err(_) => Ok(Self::Helenus),
            Ok(value) => Self::parse(&value),
        }
    }

    pub fn parse(value: &str) -> Result<Self, NodeError> {
        match value {
            "" | "helenus" => Ok(Self::Helenus),
            "cassandra" => Ok(Self::Cassandra),
            _ => match value.to_socket_addrs().ok().and_then(|mut found| found.next()) {
                Some(address) => Ok(Self::External(address)),
                None => Err(NodeError::Target {
                    value: value.to_owned(),
                }),
            },
        }
    }
}

/// A started node; dropping it ends what was started.
pub enum Node {
    Helenus(Helenus),
    Cassandra(Peer),
    External(SocketAddr),
}

impl Node {
    /// Starts the target with an empty data folder below `target/blackbox/NAME`.
    pub fn start(target: &Target, name: &str, options: &[&str]) -> Result<Self, NodeError> {
        match target {
            Target::Helenus => Ok(Self::Helenus(Helenus::start(name, options, Launch::default())?)),
            Target::Cassandra => Self::start_cassandra("1g", options, &[]),
            Target::External(address) => Ok(Self::External(*address)),
        }
    }

    /// Starts Helenus as [`Node::start`] does, in a way of its own.
    pub fn launch(name: &str, options: &[&str], launch: Launch) -> Result<Self, NodeError> {
        Ok(Self::Helenus(Helenus::start(name, options, launch)?))
    }

    /// The address of the metrics page, where it is ours.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        match self {
            Self::Helenus(helenus) => Some(helenus.metrics),
            Self::Cassandra(_) | Self::External(_) => None,
        }
    }

    /// Starts Cassandra with so much of a Java heap, as `-Xmx` takes it, and further lines of its configuration.
    pub fn start_cassandra(heap: &str, options: &[&str], lines: &[&str]) -> Result<Self, NodeError> {
        let mut settings = vec![commit_log_setting(options)];
        settings.extend(lines.iter().map(|line| (*line).to_owned()));
        Ok(Self::Cassandra(Peer::start(PeerOptions {
            home: workspace::scratch("cassandra"),
            address: IpAddr::V4(own_loopback_address()),
            port: 9042,
            jmx_port: free_address()?.port(),
            heap: heap.to_owned(),
            fresh: true,
            settings,
        })?))
    }

    pub fn address(&self) -> SocketAddr {
        match self {
            Self::Helenus(helenus) => helenus.address,
            Self::Cassandra(peer) => peer.address(),
            Self::External(address) => *address,
        }
    }

    /// `None` when the node is not ours.
    pub fn process_id(&self) -> Option<u32> {
        match self {
            Self::Helenus(helenus) => Some(helenus.process.id()),
            Self::Cassandra(peer) => Some(peer.process_id()),
            Self::External(_) => None,
        }
    }

    /// Where its files are; `None` when the node is not ours.
    pub fn data_folder(&self) -> Option<PathBuf> {
        match self {
            Self::Helenus(helenus) => Some(helenus.folder.join("data")),
            Self::Cassandra(peer) => Some(peer.folder()),
            Self::External(_) => None,
        }
    }

    /// All its threads run on this core from now on; a node that is not ours is left alone.
    pub fn keep_to_core(&self, core: &str) -> Result<(), NodeError> {
        if let Some(id) = self.process_id() {
            process::run_quietly(Command::new("taskset").args(["-a", "-c", "-p", core, &id.to_string()]))?;
        }
        Ok(())
    }

    /// Stops cleanly and starts again on the same address with the same options; `false` when the node is not ours.
    pub fn restart(&mut self) -> Result<bool, NodeError> {
        self.restart_noting(|| {})
    }

    /// The same; `stopped` is called between the two. Of a Cassandra it is not known when that is.
    pub fn restart_noting(&mut self, stopped: impl FnOnce()) -> Result<bool, NodeError> {
        match self {
            Self::Helenus(helenus) => {
                helenus.stop()?;
                stopped();
                let options = helenus.options.clone();
                helenus.start_again(&options.iter().map(String::as_str).collect::<Vec<_>>())?;
            }
            Self::Cassandra(peer) => peer.restart()?,
            Self::External(_) => return Ok(false),
        }
        Ok(true)
    }

    /// Another process takes the place of this one, with the same options; nothing where the node is not ours.
    pub fn replace(&mut self) -> Result<(), NodeError> {
        match self {
            Self::Helenus(helenus) => helenus.replace(),
            Self::Cassandra(_) | Self::External(_) => Ok(()),
        }
    }

    /// For how long nobody was answered, each time that the node was replaced.
    pub fn times_away_ms(&self) -> Vec<u64> {
        match self {
            Self::Helenus(helenus) => helenus.times_away_ms(),
            Self::Cassandra(_) | Self::External(_) => Vec::new(),
        }
    }

    /// SIGKILL, then a start on the same address and data with `options` replacing the earlier ones;
    /// `false` when the node is not ours.
    pub fn kill(&mut self) -> bool {
        match self {
            Self::Helenus(helenus) => helenus.process.kill(),
            Self::Cassandra(peer) => peer.kill(),
            Self::External(_) => return false,
        }
        true
    }

    pub fn start_again(&mut self, options: &[&str]) -> Result<(), NodeError> {
        match self {
            Self::Helenus(helenus) => helenus.start_again(options),
            Self::Cassandra(peer) => Ok(peer.start_again()?),
            Self::External(_) => Ok(()),
        }
    }

    /// Asserts that nothing panicked inside the server so far; only Helenus counts its panics.
    pub fn check_panics(&self) -> Result<(), NodeError> {
        match self {
            Self::Helenus(helenus) => helenus.check_panics(),
            Self::Cassandra(_) | Self::External(_) => Ok(()),
        }
    }

    /// The metrics page; empty when the node has none.
    pub fn metrics(&self) -> Result<String, NodeError> {
        match self {
            Self::Helenus(helenus) => helenus.metrics_page(),
            Self::Cassandra(_) | Self::External(_) => Ok(String::new()),
        }
    }

    /// Stops what was started and asserts that it stopped cleanly.
    pub fn stop(self) -> Result<(), NodeError> {
        match self {
            Self::Helenus(mut helenus) => helenus.stop(),
            Self::Cassandra(peer) => {
                drop(peer);
                Ok(())
            }
            Self::External(_) => Ok(()),
        }
    }
}

/// How a process of Helenus is started.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    /// [`workspace::program`] where none is given.
    pub binary: Option<PathBuf>,
    pub descriptors_max: Option<u32>,
}

/// A process of Helenus.
pub struct Helenus {
    process: Process,
    address: SocketAddr,
    metrics: SocketAddr,
    folder: PathBuf,
    /// Options of its last start.
    options: Vec<String>,
    launch: Launch,
}

impl Helenus {
    fn start(name: &str, options: &[&str], launch: Launch) -> Result<Self, NodeError> {
        let folder = workspace::scratch(name);
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(|source| NodeError::File {
                path: folder.clone(),
                source,
            })?;
        }
        // Both of them are its own after a restart, too.
        let (listen, metrics) = (free_address()?, free_address()?);
        let (process, address) = launch.start(&folder, listen, metrics, options)?;
        Ok(Self {
            process,
            address,
            metrics,
            folder,
            options: options.iter().map(|&option| option.to_owned()).collect(),
            launch,
        })
    }

    fn start_again(&mut self, options: &[&str]) -> Result<(), NodeError> {
        let (process, address) = self
            .launch
            .start(&self.folder, self.address, self.metrics, options)?;
        self.process = process;
        self.address = address;
        self.options = options.iter().map(|&option| option.to_owned()).collect();
        Ok(())
    }

    fn stop(&mut self) -> Result<(), NodeError> {
        let status = self.process.stop()?;
        if status.success() {
            Ok(())
        } else {
            Err(NodeError::UncleanStop(status))
        }
    }

    fn replace(&mut self) -> Result<(), NodeError> {
        let options: Vec<&str> = self.options.iter().map(String::as_str).collect();
        let options = [&options[..], &["--replace"]].concat();
        let (successor, address) = self
            .launch
            .start(&self.folder, self.address, self.metrics, &options)?;
        let mut replaced = std::mem::replace(&mut self.process, successor);
        self.address = address;
        match replaced.wait_until(std::time::Instant::now() + READY_WAIT)? {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(NodeError::UncleanStop(status)),
            None => Err(NodeError::NotReady {
                log_tail: process::log_tail(&self.folder.join("log"), 20),
            }),
        }
    }

    fn times_away_ms(&self) -> Vec<u64> {
        let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        log.lines()
            .filter_map(|line| {
                let (_, behind) = line.split_once("connections; for ")?;
                behind.split(' ').next()?.parse().ok()
            })
            .collect()
    }

    fn metrics_page(&self) -> Result<String, NodeError> {
        metrics_page(self.metrics).map_err(|error| NodeError::Metrics {
            address: self.metrics,
            reason: error.to_string(),
        })
    }

    fn check_panics(&self) -> Result<(), NodeError> {
        let page = self.metrics_page()?;
        let value = page
            .lines()
            .filter(|line| line.starts_with(PANICS_METRIC))
            .filter_map(|line| line.split_whitespace().next_back()?.parse::<f64>().ok())
            .fold(None, |sum: Option<f64>, value| Some(sum.unwrap_or(0.0) + value));
        match value {
            None => Err(NodeError::Metrics {
                address: self.metrics,
                reason: format!("{PANICS_METRIC} is missing"),
            }),
            Some(0.0) => Ok(()),
            Some(count) => Err(NodeError::Panics {
                count: count as u64,
                log: self.folder.join("log"),
            }),
        }
    }
}

impl Launch {
    /// Starts the binary and waits for its ready line, which names the address.
    fn start(
        &self,
        folder: &Path,
        listen: SocketAddr,
        metrics: SocketAddr,
        options: &[&str],
    ) -> Result<(Process, SocketAddr), NodeError> {
        fs::create_dir_all(folder).map_err(|source| NodeError::File {
            path: folder.to_path_buf(),
            source,
        })?;
        let log_path = folder.join("log");
        let log = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&log_path)
            .map_err(|source| NodeError::File {
                path: log_path.clone(),
                source,
            })?;
        let mut command = self.command()?;
        command
            .args([
                "serve",
                "--listen",
                &listen.to_string(),
                "--metrics",
                &metrics.to_string(),
            ])
            .arg("--data")
            .arg(folder.join("data"))
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log);
        let process = Process::start(&mut command)?;
        await_ready(process, &log_path)
    }

    fn command(&self) -> Result<Command, NodeError> {
        let usual = || workspace::program("helenus");
        let binary = self.binary.clone().unwrap_or_else(usual);
        if !binary.exists() {
            return Err(NodeError::NotBuilt { path: binary });
        }
        let Some(descriptors_max) = self.descriptors_max else {
            return Ok(Command::new(binary));
        };
        let mut command = Command::new("prlimit");
        command
            .arg(format!("--nofile={descriptors_max}:{descriptors_max}"))
            .arg(binary);
        Ok(command)
    }
}

fn await_ready(mut process: Process, log_path: &Path) -> Result<(Process, SocketAddr), NodeError> {
    let Some(output) = process.child().stdout.take() else {
        return Err(NodeError::NotReady {
            log_tail: String::new(),
        });
    };
    let (sender, lines) = mpsc::channel();
    // Reads on until the server closes its output, so that the server never blocks on a full pipe.
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            // Nobody listens after the ready line; the rest is only drained.
            let _ = sender.send(line);
        }
    });
    match lines
        .recv_timeout(READY_WAIT)
        .ok()
        .as_deref()
        .and_then(ready_address)
    {
        Some(address) => Ok((process, address)),
        None => Err(NodeError::NotReady {
            log_tail: process::log_tail(log_path, 20),
        }),
    }
}

/// The CQL address in a ready line such as `helenus ready: cql 127.0.0.1:9042 (shard-aware ...), ...`.
pub fn ready_address(line: &str) -> Option<SocketAddr> {
    let after = line.split_once("cql ")?.1;
    let end = after.find([' ', ',']).unwrap_or(after.len());
    after.get(..end)?.parse().ok()
}

/// Cassandra's commit log mode for Helenus' options. Without the option, what was acknowledged is on disk,
/// as Helenus has it by default.
fn commit_log_setting(options: &[&str]) -> String {
    let periodic = options
        .windows(2)
        .any(|pair| pair == ["--commitlog-sync", "periodic"]);
    if periodic {
        "commitlog_sync: periodic\ncommitlog_sync_period: 10000ms".to_owned()
    } else {
        "commitlog_sync: batch".to_owned()
    }
}

/// A loopback address that other runs on this machine do not use: Cassandra needs fixed ports.
pub fn own_loopback_address() -> Ipv4Addr {
    let [.., high, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, 72, high, low.clamp(1, 254))
}

/// Resident memory of a node that is ours; 0 of others.
pub fn resident_bytes(node: &Node) -> u64 {
    let status = node.process_id().map(|id| format!("/proc/{id}/status"));
    let status = status
        .and_then(|path| fs::read_to_string(path).ok())
        .unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.unwrap_or_default() << 10
}

/// A loopback address with a port of [`free_port`].
pub fn free_address() -> Result<SocketAddr, NodeError> {
    let port = free_port().map_err(NodeError::NoPort)?;
    Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
}

pub fn metrics_page(address: SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, METRICS_WAIT)?;
    stream.set_read_timeout(Some(METRICS_WAIT))?;
    write!(
        stream,
        "GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )?;
    let mut page = Vec::new();
    stream.read_to_end(&mut page)?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_line_names_the_address() {
        let line = "helenus ready: cql 127.0.0.1:9042 (shard-aware 127.0.0.1:19042), 2 shards, 12 ms";
        assert_eq!(ready_address(line), "127.0.0.1:9042".parse().ok());
        assert_eq!(
            ready_address("helenus ready: cql 127.0.0.1:1, 2 shards"),
            "127.0.0.1:1".parse().ok()
        );
        assert_eq!(ready_address("starting"), None);
    }

    #[test]
    fn target_is_parsed() {
        assert_eq!(Target::parse("cassandra").ok(), Some(Target::Cassandra));
        assert_eq!(
            Target::parse("127.0.0.1:9042").ok(),
            Some(Target::External(SocketAddr::from(([127, 0, 0, 1], 9042))))
        );
        assert!(Target::parse("nonsense").is_err());
    }
}
