//! Arguments of each command, and its execution.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use helenus_perf::canned;
use helenus_perf::compaction::{self, CompactionOptions, Shape};
use helenus_perf::fast_forward::DataSet;
use helenus_perf::indexed::{self, IndexedOptions, Operation};
use helenus_perf::indexes::{self, IndexesOptions};
use helenus_perf::reads::{self, ReadKind, ReadsOptions};
use helenus_perf::recall::{self, RecallOptions};
use helenus_perf::refusing;
use helenus_perf::requests::Asked;
use helenus_perf::simple_query::{self, Condition, RowsIn, SimpleQueryOptions};
use helenus_perf::vectors::{self, VectorsOptions};
use helenus_perf::wire::{self, WireOptions};
use helenus_perf::{Logged, View};
use serde::Serialize;

use crate::allocator::COUNTER;
use crate::fast_forward;

#[derive(Args)]
pub struct SimpleQueryArguments {
    #[arg(long)]
    write: bool,
    /// Increments of five counters of a row.
    #[arg(long, conflicts_with = "write")]
    counters: bool,
    /// Updates of a row under a condition on it.
    #[arg(long, value_enum, conflicts_with_all = ["write", "counters"])]
    lwt: Option<Condition>,
    /// Writes to a table with a materialized view.
    #[arg(long, value_enum, conflicts_with_all = ["write", "counters", "lwt"])]
    view: Option<View>,
    /// Writes to a table with a log of its changes.
    #[arg(long, value_enum, requires = "write")]
    cdc: Option<Logged>,
    /// Transactions over two shards.
    #[arg(long, conflicts_with_all = ["write", "counters", "lwt", "view"])]
    transfer: bool,
    /// Requests that are not prepared, or that end in an error of a kind.
    #[arg(long, value_enum, default_value = "execute")]
    asked: Asked,
    /// Reads find their rows in SSTables whose pages are in memory, not in the memtable.
    #[arg(long)]
    flush: bool,
    /// Reads find their rows in the row cache, in front of SSTables.
    #[arg(long)]
    cached: bool,
    /// Reads find their rows in SSTables of which nothing is in memory as each batch of requests begins.
    #[arg(long, conflicts_with = "cached")]
    cold: bool,
    #[arg(long, default_value_t = 2_000_000)]
    operations: u64,
    #[arg(long, default_value_t = 10_000)]
    partitions: u32,
    /// Requests handed over at once.
    #[arg(long, default_value_t = 100)]
    concurrency: u16,
    #[arg(long)]
    json: bool,
}

impl SimpleQueryArguments {
    pub fn run(self) -> ExitCode {
        let options = SimpleQueryOptions {
            write: self.write,
            counters: self.counters,
            condition: self.lwt,
            view: self.view,
            logged: self.cdc,
            transfer: self.transfer,
            asked: self.asked,
            rows_in: match (self.flush, self.cached, self.cold) {
                (_, _, true) => RowsIn::ColdSsTables,
                (_, true, false) => RowsIn::RowCache,
                (true, false, false) => RowsIn::SsTables,
                (false, false, false) => RowsIn::Memtable,
            },
            operations: self.operations,
            partitions: self.partitions,
            concurrency: self.concurrency,
        };
        report(simple_query::run(&options, &COUNTER), self.json)
    }
}

#[derive(Args)]
pub struct IndexedArguments {
    #[arg(long, value_enum)]
    operation: Operation,
    #[arg(long, default_value_t = 20_000)]
    operations: u64,
    #[arg(long, default_value_t = 10_000)]
    rows: u32,
    /// Rows and terms lie in an SSTable whose pages are in memory.
    #[arg(long)]
    flush: bool,
    #[arg(long)]
    json: bool,
}

impl IndexedArguments {
    pub fn run(self) -> ExitCode {
        let options = IndexedOptions {
            operation: self.operation,
            operations: self.operations,
            rows: self.rows,
            flush: self.flush,
        };
        report(indexed::run(&options, &COUNTER), self.json)
    }
}

#[derive(Args)]
pub struct RecallArguments {
    #[arg(long, default_value_t = 100_000)]
    count: u32,
    #[arg(long, default_value_t = 128)]
    dimension: u32,
    #[arg(long, default_value_t = 500)]
    queries: u32,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// `maximum_node_connections` of the index
    #[arg(long, default_value_t = 16)]
    connections: u32,
    /// `construction_beam_width` of the index
    #[arg(long, default_value_t = 100)]
    construction_beam: u32,
    #[arg(long)]
    json: bool,
}

impl RecallArguments {
    pub fn run(self) -> ExitCode {
        let options = RecallOptions {
            count: self.count,
            dimension: self.dimension,
            queries: self.queries,
            seed: self.seed,
            connections: self.connections,
            construction_beam: self.construction_beam,
        };
        report(Ok(recall::run(&options)), self.json)
    }
}

#[derive(Args)]
pub struct ReadsArguments {
    /// Where `fast-forward --populate` has put it.
    #[arg(long, value_name = "DIR")]
    data_directory: PathBuf,
    #[arg(long, value_name = "DATASET", value_parser = fast_forward::data_set, default_value = "large-part-ds1")]
    data_set: DataSet,
    #[arg(long, value_enum)]
    kind: ReadKind,
    #[arg(long, default_value_t = 1)]
    operations: u64,
    #[arg(long)]
    json: bool,
}

impl ReadsArguments {
    pub fn run(self) -> ExitCode {
        let options = ReadsOptions {
            data_folder: self.data_directory,
            data_set: self.data_set,
            kind: self.kind,
            operations: self.operations,
        };
        report(reads::run(&options, &COUNTER), self.json)
    }
}

#[derive(Args)]
pub struct CompactionArguments {
    /// A new folder for the SSTables, which stay.
    #[arg(long)]
    data: PathBuf,
    #[arg(long, default_value_t = 4)]
    sstables: u32,
    /// In each SSTable.
    #[arg(long, default_value_t = 100_000)]
    rows: u64,
    /// Bytes of each value; a row of a table without clustering columns has five.
    #[arg(long, default_value_t = 1_000)]
    value_bytes: usize,
    #[arg(long, value_enum, default_value = "clustered")]
    shape: Shape,
    /// Indexes on an int and a text column of the shape "indexable".
    #[arg(long)]
    indexed: bool,
    #[arg(long)]
    json: bool,
}

impl CompactionArguments {
    pub fn run(self) -> ExitCode {
        let options = CompactionOptions {
            folder: self.data,
            sstables: self.sstables,
            rows: self.rows,
            value_bytes: self.value_bytes,
            shape: self.shape,
            indexed: self.indexed,
        };
        report(compaction::run(&options), self.json)
    }
}

#[derive(Args)]
pub struct VectorsArguments {
    #[arg(long, default_value_t = 200_000)]
    count: u32,
    #[arg(long, default_value_t = 128)]
    dimension: u32,
    #[arg(long, default_value_t = 1_000)]
    queries: u32,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Ask for tenths of the rows for so long, and measure again.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    asked_s: u32,
    #[arg(long)]
    json: bool,
}

impl VectorsArguments {
    pub fn run(self) -> ExitCode {
        let options = VectorsOptions {
            count: self.count,
            dimension: self.dimension,
            queries: self.queries,
            seed: self.seed,
            asked_s: self.asked_s,
        };
        report(vectors::run(&options), self.json)
    }
}

#[derive(Args)]
pub struct IndexesArguments {
    #[arg(long, default_value = "127.0.0.1:9042")]
    address: SocketAddr,
    /// Process whose CPU time is the server's.
    #[arg(long)]
    server_pid: Option<u32>,
    #[arg(long, default_value_t = 100_000)]
    rows: u32,
    #[arg(long, default_value_t = 100_000)]
    vectors: u32,
    #[arg(long, default_value_t = 128)]
    dimension: u32,
    /// Different questions of each kind.
    #[arg(long, default_value_t = 500)]
    questions: u32,
    #[arg(long, default_value_t = 4)]
    connections: u16,
    /// Questions under way on each connection.
    #[arg(long, default_value_t = 4)]
    in_flight: u16,
    #[arg(long, default_value_t = 10)]
    duration_s: u64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Beam of searches of vectors, on a server that has indexes of `vector_index`
    #[arg(long)]
    search_beam: Option<u32>,
    #[arg(long)]
    json: bool,
}

impl IndexesArguments {
    pub fn run(self) -> ExitCode {
        let options = IndexesOptions {
            address: self.address,
            server_pid: self.server_pid,
            rows: self.rows,
            vectors: self.vectors,
            dimension: self.dimension,
            questions: self.questions,
            connections: self.connections,
            in_flight: self.in_flight,
            duration: Duration::from_secs(self.duration_s),
            seed: self.seed,
            search_beam: self.search_beam,
        };
        report(indexes::run(&options), self.json)
    }
}

#[derive(Args)]
pub struct CannedArguments {
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
}

impl CannedArguments {
    pub fn run(self) -> ExitCode {
        ended("canned", canned::run(self.listen))
    }
}

#[derive(Args)]
pub struct RefusingArguments {
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
}

impl RefusingArguments {
    pub fn run(self) -> ExitCode {
        ended("refusing", refusing::run(self.listen))
    }
}

#[derive(Args)]
pub struct WireArguments {
    #[arg(long, default_value = "127.0.0.1:9042")]
    address: SocketAddr,
    /// The server's process id: its processor time is reported too.
    #[arg(long)]
    server_pid: Option<u32>,
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..))]
    connections: u16,
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..32_768))]
    in_flight: u16,
    #[arg(long)]
    write: bool,
    #[arg(long, default_value_t = 10_000)]
    keys: u32,
    #[arg(long, default_value_t = 2)]
    warm_up_s: u64,
    #[arg(long, default_value_t = 10)]
    duration_s: u64,
    /// Instead of a duration: so many times all requests of a connection at once, the next ones when all are answered.
    #[arg(long)]
    batches: Option<u64>,
    #[arg(long)]
    json: bool,
}

impl WireArguments {
    pub fn run(self) -> ExitCode {
        let options = WireOptions {
            address: self.address,
            server_pid: self.server_pid,
            connections: self.connections,
            in_flight: self.in_flight,
            write: self.write,
            keys: self.keys,
            warm_up: Duration::from_secs(self.warm_up_s),
            duration: Duration::from_secs(self.duration_s),
            batches: self.batches,
        };
        report(wire::run(&options), self.json)
    }
}

/// Returns the exit code of a server, which runs until it fails or is ended.
fn ended(name: &str, result: std::io::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("helenus-perf {name}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn report<T: Serialize + std::fmt::Display>(result: std::io::Result<T>, json: bool) -> ExitCode {
    let printed = result.and_then(|report| {
        if json {
            serde_json::to_string(&report).map_err(std::io::Error::other)
        } else {
            Ok(report.to_string())
        }
    });
    match printed {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("helenus-perf: {error}");
            ExitCode::FAILURE
        }
    }
}
