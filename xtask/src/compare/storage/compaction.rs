//! `cargo xtask compare storage compaction`: the same rows flushed as overlapping SSTables and merged into one, by Helenus and by
//! Cassandra in one run, compared by the processor time that it took them.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use helenus_perf::compaction_rows::{PARTITION_ROWS, each_row};
use serde_json::Value;

use crate::TaskError;
use crate::compare::figures::thread_times;
use crate::compare::{files, programs};
use crate::native::Connection;
use crate::peer::{self, Peer, PeerOptions};
use crate::process;
use crate::workspace;

#[derive(clap::Args)]
pub struct Arguments {
    /// Megabytes of values in each SSTable
    #[arg(long, default_value_t = 250)]
    megabytes: u64,
    /// Overlapping SSTables to merge
    #[arg(long, default_value_t = 4)]
    sstables: u32,
    /// How often Cassandra does it all; the last time counts, when its compiler has warmed up
    #[arg(long, default_value_t = 2)]
    rounds: u32,
    /// Measure target/release/helenus as it is there
    #[arg(long)]
    as_built: bool,
}

/// Bytes of each row's value.
const VALUE_BYTES: [u64; 2] = [1_000, 90];
const REPORT: &str = "docs/measurements/compaction.md";
const REQUEST_WAIT: Duration = Duration::from_secs(120);
const REMOVAL_WAIT: Duration = Duration::from_secs(10);
/// Names of threads as Linux keeps them, 15 bytes.
const FLUSH_THREADS: &[&str] = &["MemtableFlushWr", "PerDiskMemtable"];
const COMPACTION_THREADS: &[&str] = &["CompactionExecu"];

/// One kind of work of one program.
struct Measured {
    what: String,
    cpu_seconds: f64,
}

/// Measurements with rows of one size.
struct Table {
    value_bytes: u64,
    rows: u64,
    /// Uncompressed, all that went in.
    megabytes: f64,
    lines: Vec<Measured>,
    space: Vec<String>,
}

pub fn run(arguments: &Arguments) -> Result<(), TaskError> {
    if !arguments.as_built {
        programs::build()?;
    }
    let cassandra = Cassandra::start()?;
    let mut report = head(arguments);
    for value_bytes in VALUE_BYTES {
        let rows = arguments.megabytes * 1_000_000 / value_bytes / PARTITION_ROWS * PARTITION_ROWS;
        let mut text = String::new();
        // In turns, and the last round counts: a machine is not as fast in one minute as in the next.
        for round in 0..arguments.rounds.max(1) {
            let mut table = helenus(arguments, value_bytes, rows)?;
            let lines = cassandra.measure(arguments, &mut table, round)?;
            table.lines.extend(lines);
            text = table.render();
        }
        println!("{text}");
        report.push_str(&text);
    }
    files::write_page(REPORT, &report)
}

fn helenus(arguments: &Arguments, value_bytes: u64, rows: u64) -> Result<Table, TaskError> {
    let folder = workspace::scratch("bench-compaction");
    remove_folder(&folder)?;
    let mut command = Command::new(workspace::program("helenus-perf"));
    command.args(["compaction", "--json", "--data"]).arg(&folder);
    command.args([
        "--rows",
        &rows.to_string(),
        "--value-bytes",
        &value_bytes.to_string(),
    ]);
    command.args(["--sstables", &arguments.sstables.to_string()]);
    let text = process::run_quietly(&mut command)?;
    remove_folder(&folder)?;
    let unusable = || TaskError::Report { text: text.clone() };
    let report: Value = files::parse(&text)?;
    let number = |pointer: &str| {
        report
            .pointer(pointer)
            .and_then(Value::as_f64)
            .ok_or_else(unusable)
    };
    let (before, after) = (number("/disk_bytes_before")?, number("/disk_bytes_after")?);
    Ok(Table {
        value_bytes,
        rows: rows * u64::from(arguments.sstables),
        megabytes: number("/compaction/megabytes")?,
        lines: vec![
            Measured::new("Helenus, flush", number("/flush/cpu_seconds")?),
            Measured::new("Helenus, compaction", number("/compaction/cpu_seconds")?),
        ],
        space: vec![format!(
            "Helenus {:.0} MB before and {:.0} MB after, write amplification {:.2}",
            before / 1e6,
            after / 1e6,
            number("/write_amplification")?
        )],
    })
}

/// A node that compacts when it is told to.
struct Cassandra {
    peer: Peer,
    home: PathBuf,
    jmx_port: u16,
}

impl Cassandra {
    fn start() -> Result<Self, TaskError> {
        let home = workspace::scratch("bench-compaction-peer");
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
        let jmx_port = free.map_err(crate::node::NodeError::NoPort)?.port();
        let settings = [
            "compaction_throughput: 0MiB/s",
            "concurrent_compactors: 1",
            "memtable_flush_writers: 1",
            "auto_snapshot: false",
            // No flush but those that are asked for.
            "memtable_heap_space: 1400MiB",
            "memtable_cleanup_threshold: 0.99",
            "commitlog_total_space: 8192MiB",
        ];
        let peer = Peer::start(PeerOptions {
            home: home.clone(),
            address: IpAddr::V4(Ipv4Addr::new(127, 0, 77, 1)),
            port: 9042,
            jmx_port,
            heap: "3g".to_owned(),
            fresh: true,
            settings: settings.map(str::to_owned).to_vec(),
        })?;
        Ok(Cassandra { peer, home, jmx_port })
    }

    fn measure(
        &self,
        arguments: &Arguments,
        table: &mut Table,
        round: u32,
    ) -> Result<Vec<Measured>, TaskError> {
        let keyspace = format!("bench{}_{round}", table.value_bytes);
        let mut connection = self.connection()?;
        connection.query(&format!(
            "CREATE KEYSPACE {keyspace} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
        ))?;
        connection.query(&format!(
            "CREATE TABLE {keyspace}.t (pk bigint, ck bigint, value blob, PRIMARY KEY (pk, ck)) \
             WITH compaction = {{'class': 'SizeTieredCompactionStrategy', 'enabled': 'false'}}"
        ))?;
        let mut flush = CpuSeconds::default();
        for sstable in 0..arguments.sstables {
            let rows = table.rows / u64::from(arguments.sstables);
            self.write(&mut connection, &keyspace, sstable, rows, table.value_bytes)?;
            flush.add(&self.timed(FLUSH_THREADS, || self.nodetool(&["flush", &keyspace]))?);
        }
        let folder = self.table_folder(&keyspace)?;
        let before = disk_bytes(&folder)?;
        let compaction = self.timed(COMPACTION_THREADS, || self.nodetool(&["compact", &keyspace]))?;
        // It removes what it has replaced a moment later.
        std::thread::sleep(REMOVAL_WAIT);
        let after = disk_bytes(&folder)?;
        let lines = [
            ("flush threads alone", flush.threads),
            ("process while it flushes", flush.process),
            ("compaction threads alone", compaction.threads),
            ("process while it compacts", compaction.process),
        ];
        table.space.truncate(1);
        table.space.push(format!(
            "Cassandra {:.0} MB before and {:.0} MB after, write amplification {:.2}",
            before as f64 / 1e6,
            after as f64 / 1e6,
            (before + after) as f64 / before.max(1) as f64
        ));
        connection.query(&format!("DROP KEYSPACE {keyspace}"))?;
        let named = |(what, seconds)| Measured::new(format!("Cassandra, {what}"), seconds);
        Ok(lines.map(named).into())
    }

    /// One batch for each partition, as its rows are generated together.
    fn write(
        &self,
        connection: &mut Connection,
        keyspace: &str,
        sstable: u32,
        rows: u64,
        value_bytes: u64,
    ) -> Result<(), TaskError> {
        let insert = format!("INSERT INTO {keyspace}.t (pk, ck, value) VALUES (?, ?, ?) USING TIMESTAMP ?; ");
        let inserts = insert.repeat(PARTITION_ROWS as usize);
        let statement = format!("BEGIN UNLOGGED BATCH {inserts} APPLY BATCH");
        let mut values: Vec<Vec<u8>> = Vec::new();
        each_row(sstable, rows, value_bytes as usize, |row| {
            values.push(row.key.to_be_bytes().to_vec());
            values.push(row.clustering.to_be_bytes().to_vec());
            values.push(row.value.to_vec());
            values.push(row.timestamp_us.to_be_bytes().to_vec());
            if values.len() == 4 * PARTITION_ROWS as usize {
                connection.query_with(&statement, &values)?;
                values.clear();
            }
            Ok(())
        })
    }

    /// The processor time that the node and some of its threads use for a piece of work.
    fn timed(
        &self,
        threads: &[&str],
        work: impl FnOnce() -> Result<(), TaskError>,
    ) -> Result<CpuSeconds, TaskError> {
        let before = CpuSeconds::of(self.peer.process_id(), threads)?;
        work()?;
        let after = CpuSeconds::of(self.peer.process_id(), threads)?;
        Ok(CpuSeconds {
            process: after.process - before.process,
            threads: after.threads - before.threads,
        })
    }

    fn nodetool(&self, arguments: &[&str]) -> Result<(), TaskError> {
        let port = self.jmx_port.to_string();
        let all: Vec<String> = ["-p", &port]
            .iter()
            .chain(arguments)
            .map(|&argument| argument.to_owned())
            .collect();
        Ok(peer::run_tool(&self.home, "nodetool", &all)?)
    }

    fn connection(&self) -> Result<Connection, TaskError> {
        Ok(Connection::open(self.peer.address(), REQUEST_WAIT)?)
    }

    fn table_folder(&self, keyspace: &str) -> Result<PathBuf, TaskError> {
        let path = self.peer.folder().join("data").join(keyspace);
        let folder = fs::read_dir(&path)
            .ok()
            .and_then(|mut entries| entries.next())
            .and_then(Result::ok);
        folder.map(|entry| entry.path()).ok_or_else(|| TaskError::Report {
            text: format!("no table in {}", path.display()),
        })
    }
}

/// Since a process began.
#[derive(Default)]
struct CpuSeconds {
    process: f64,
    threads: f64,
}

impl CpuSeconds {
    /// From the scheduler's own accounts, in nanoseconds. Threads that have ended count for nothing, so that no pool may
    /// let its threads go between two looks.
    fn of(pid: u32, names: &[&str]) -> Result<Self, TaskError> {
        let mut found = CpuSeconds::default();
        for thread in thread_times(pid)? {
            let seconds = thread.nanoseconds as f64 / 1e9;
            found.process += seconds;
            if names.iter().any(|wanted| thread.name.starts_with(wanted)) {
                found.threads += seconds;
            }
        }
        Ok(found)
    }

    fn add(&mut self, other: &CpuSeconds) {
        self.process += other.process;
        self.threads += other.threads;
    }
}

impl Measured {
    fn new(what: impl Into<String>, cpu_seconds: f64) -> Self {
        Measured {
            what: what.into(),
            cpu_seconds,
        }
    }
}

impl Table {
    fn render(&self) -> String {
        let mut text = format!(
            "| {:.0} MB, {} rows of {} bytes | CPU seconds | MB per CPU second |\n|---|---|---|\n",
            self.megabytes, self.rows, self.value_bytes
        );
        for Measured { what, cpu_seconds } in &self.lines {
            let rate = self.megabytes / cpu_seconds.max(1e-9);
            text.push_str(&format!("| {what} | {cpu_seconds:.2} | {rate:.0} |\n"));
        }
        text.push_str(&format!("\n{}.\n\n", self.space.join("; ")));
        text
    }
}

fn head(arguments: &Arguments) -> String {
    format!(
        "# Flush and compaction, by processor time\n\n\
         `cargo xtask compare storage compaction --megabytes {} --sstables {} --rounds {}`: overlapping SSTables of a table `(pk bigint,\n\
         ck bigint, value blob, PRIMARY KEY (pk, ck))`, LZ4 in chunks of 16 KiB, partitions of {PARTITION_ROWS} rows of which half are in the\n\
         next SSTable too; values compress by about a fifth. Helenus: `helenus-perf compaction`, flush and major compaction on\n\
         one thread, whose processor time is read. Cassandra 5.0: the same rows over CQL, `nodetool flush` for each SSTable,\n\
         then `nodetool compact`; the time of its flush or compaction threads alone, and of\n\
         the whole process meanwhile, compiler and garbage collector included. In turns; this is the last round. Hold as\n\
         ratios only.\n\n",
        arguments.megabytes, arguments.sstables, arguments.rounds
    )
}

/// Sums the bytes of a folder's files, not of its folders.
fn disk_bytes(folder: &Path) -> Result<u64, TaskError> {
    let sum = || {
        let mut bytes = 0;
        for entry in fs::read_dir(folder)? {
            let metadata = entry?.metadata()?;
            bytes += if metadata.is_file() { metadata.len() } else { 0 };
        }
        Ok(bytes)
    };
    sum().map_err(|source| TaskError::File {
        path: folder.to_path_buf(),
        source,
    })
}

fn remove_folder(folder: &Path) -> Result<(), TaskError> {
    match fs::remove_dir_all(folder) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => Err(TaskError::File {
            path: folder.to_path_buf(),
            source,
        }),
        _ => Ok(()),
    }
}
