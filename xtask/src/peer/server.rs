//! One running Cassandra node: configuration, start, stop, kill.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::{PeerError, jars};
use crate::native::Connection;
use crate::process::{self, POLL_INTERVAL, Process};

/// A cold start takes 6 to 20 s on two busy cores; ten times that is a hang.
const START_SECONDS_MAX: u64 = 200;
/// How many lines of the log tell why a start failed.
const LOG_TAIL_LINES: usize = 20;

pub struct PeerOptions {
    pub home: PathBuf,
    pub address: IpAddr,
    pub port: u16,
    pub jmx_port: u16,
    pub heap: String,
    pub fresh: bool,
    pub settings: Vec<String>,
}

/// A Cassandra node that is killed when this value is dropped.
pub struct Peer {
    options: PeerOptions,
    process: Process,
}

impl Peer {
    /// Starts a node and waits until it answers CQL.
    pub fn start(options: PeerOptions) -> Result<Self, PeerError> {
        let folder = folder(&options);
        if options.fresh && folder.exists() {
            fs::remove_dir_all(&folder).map_err(|source| PeerError::File {
                path: folder.clone(),
                source,
            })?;
        }
        jars::write(
            &folder.join("conf/cassandra.yaml"),
            &configuration(&options, &folder),
        )?;
        jars::write(&folder.join("conf/logback.xml"), LOGGING)?;
        let process = launch(&options)?;
        Ok(Self { options, process })
    }

    pub fn address(&self) -> SocketAddr {
        SocketAddr::new(self.options.address, self.options.port)
    }

    pub fn process_id(&self) -> u32 {
        self.process.id()
    }

    pub fn folder(&self) -> PathBuf {
        folder(&self.options)
    }

    /// Stops the node cleanly and starts it again on the same data.
    pub fn restart(&mut self) -> Result<(), PeerError> {
        self.process.stop()?;
        self.start_again()
    }

    /// SIGKILL, as a crash of the process.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts the node again after `kill`.
    pub fn start_again(&mut self) -> Result<(), PeerError> {
        self.process = launch(&self.options)?;
        Ok(())
    }

    /// Lets the node outlive this value; `stop_all` finds it by the pid it returns.
    pub fn leave_running(self) -> u32 {
        self.process.detach()
    }
}

/// Stops every node that was left running below `home`.
pub fn stop_all(home: &Path) -> Result<(), PeerError> {
    let entries = match fs::read_dir(home) {
        Ok(entries) => entries,
        Err(_) => return Ok(()),
    };
    for entry in entries.flatten() {
        let pid_file = entry.path().join("pid");
        let Ok(pid) = fs::read_to_string(&pid_file) else {
            continue;
        };
        stop_by_pid(pid.trim(), &entry.path());
        fs::remove_file(&pid_file).map_err(|source| PeerError::File {
            path: pid_file,
            source,
        })?;
    }
    Ok(())
}

/// Sends SIGTERM, later SIGKILL; a pid that meanwhile belongs to another program is left alone.
fn stop_by_pid(pid: &str, folder: &Path) {
    let command_line = PathBuf::from(format!("/proc/{pid}/cmdline"));
    let ours = || {
        let arguments = fs::read(&command_line).unwrap_or_default();
        String::from_utf8_lossy(&arguments).contains(&*folder.to_string_lossy())
    };
    for (signal, patience) in [
        ("TERM", Duration::from_secs(30)),
        ("KILL", Duration::from_secs(5)),
    ] {
        if !ours() {
            return;
        }
        process::send_signal(signal, pid);
        let deadline = Instant::now() + patience;
        while ours() && Instant::now() < deadline {
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

fn launch(options: &PeerOptions) -> Result<Process, PeerError> {
    let folder = folder(options);
    let address = SocketAddr::new(options.address, options.port);
    if Connection::open(address, Duration::from_secs(1)).is_ok() {
        return Err(PeerError::AddressInUse(address));
    }
    let log_path = folder.join("log");
    let log = process::log_file(&log_path)?;
    let log_too = log.try_clone().map_err(|source| PeerError::File {
        path: log_path.clone(),
        source,
    })?;
    let mut java = jars::java()?;
    java.arg(format!("-Xms{}", options.heap))
        .arg(format!("-Xmx{}", options.heap))
        .arg(format!("-Dcassandra.storagedir={}", folder.display()))
        .arg(format!(
            "-Dcassandra.config=file://{}",
            folder.join("conf/cassandra.yaml").display()
        ))
        .arg(format!(
            "-Dlogback.configurationFile={}",
            folder.join("conf/logback.xml").display()
        ))
        .arg(format!("-Dcassandra.jmx.local.port={}", options.jmx_port))
        .arg("-Dcassandra.skip_wait_for_gossip_to_settle=0")
        .arg("-Dcassandra.ring_delay_ms=1000")
        // It would close its log once it has started.
        .arg("-Dcassandra-foreground=yes")
        .arg("org.apache.cassandra.service.CassandraDaemon")
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(log_too);
    let mut process = Process::start(&mut java)?;
    jars::write(&folder.join("pid"), &process.id().to_string())?;
    wait_for_cql(&mut process, address, &log_path)?;
    Ok(process)
}

fn wait_for_cql(process: &mut Process, address: SocketAddr, log: &Path) -> Result<(), PeerError> {
    let deadline = Instant::now() + Duration::from_secs(START_SECONDS_MAX);
    while Instant::now() < deadline {
        if process.finished()?.is_some() {
            return Err(PeerError::Died {
                log_tail: process::log_tail(log, LOG_TAIL_LINES),
            });
        }
        let answered = Connection::open(address, Duration::from_secs(5))
            .and_then(|mut connection| connection.query("SELECT release_version FROM system.local"));
        if answered.is_ok() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    Err(PeerError::Silent {
        seconds: START_SECONDS_MAX,
        log_tail: process::log_tail(log, LOG_TAIL_LINES),
    })
}

fn folder(options: &PeerOptions) -> PathBuf {
    options.home.join(options.address.to_string())
}

/// Everything that can be compared is switched on; the rest are Cassandra's defaults.
fn configuration(options: &PeerOptions, folder: &Path) -> String {
    let PeerOptions { address, port, .. } = options;
    let folder = folder.display();
    let mut yaml = format!(
        "cluster_name: helenus
num_tokens: 16
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
endpoint_snitch: SimpleSnitch
listen_address: {address}
rpc_address: {address}
native_transport_port: {port}
data_file_directories: [{folder}/data]
commitlog_directory: {folder}/commitlog
saved_caches_directory: {folder}/saved_caches
hints_directory: {folder}/hints
cdc_raw_directory: {folder}/cdc_raw
commitlog_disk_access_mode: legacy
materialized_views_enabled: true
sasi_indexes_enabled: true
drop_compact_storage_enabled: true
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters: [{{seeds: \"{address}:7000\"}}]
"
    );
    if !options
        .settings
        .iter()
        .any(|line| line.starts_with("commitlog_sync:"))
    {
        yaml.push_str("commitlog_sync: periodic\ncommitlog_sync_period: 10000ms\n");
    }
    for line in &options.settings {
        yaml.push_str(line);
        yaml.push('\n');
    }
    yaml
}

const LOGGING: &str = r#"<configuration>
  <appender name="log" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%-5level %date{HH:mm:ss,SSS} %msg%n%ex{12}</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="log"/></root>
</configuration>
"#;
