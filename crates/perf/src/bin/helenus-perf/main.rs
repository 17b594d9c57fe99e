//! `helenus-perf`: what Helenus costs, in process and at its lowest layers, for those who work on it; `cargo xtask compare` runs
//! it side by side with others.

mod allocator;
mod fast_forward;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use helenus_perf::canned;
use helenus_perf::compaction::{self, CompactionOptions};
use helenus_perf::fast_forward::DataSet;
use helenus_perf::reads::{self, ReadKind, ReadsOptions};
use helenus_perf::refusing;
use helenus_perf::requests::Asked;
use helenus_perf::simple_query::{self, Condition, RowsIn, SimpleQueryOptions};
use helenus_perf::vectors::{self, VectorsOptions};
use helenus_perf::wire::{self, WireOptions};
use serde::Serialize;

use crate::fast_forward::FastForwardArguments;

#[global_allocator]
static ALLOCATOR: allocator::CountingAllocator = allocator::CountingAllocator;

/// What Helenus costs, in process and at its lowest layers.
#[derive(Parser)]
#[command(name = "helenus-perf", version)]
struct CommandLine {
    #[command(subcommand)]
    command: PerfCommand,
}

#[derive(Subcommand)]
enum PerfCommand {
    /// How little is read where a reader leaves much of the data out: ScyllaDB's perf-fast-forward.
    FastForward(FastForwardArguments),
    /// Prepared point reads (or inserts) in process, from frame bytes to frame bytes.
    SimpleQuery {
        #[arg(long)]
        write: bool,
        /// Increments of five counters of a row.
        #[arg(long, conflicts_with = "write")]
        counters: bool,
        /// Updates of a row under a condition on it.
        #[arg(long, value_enum, conflicts_with_all = ["write", "counters"])]
        lwt: Option<Condition>,
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
    },
    /// One kind of read over the data of fast-forward, again and again.
    Reads {
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
    },
    /// Flushes of overlapping SSTables and a major compaction of them, on this thread.
    Compaction {
        /// A new folder for the SSTables, which stay.
        #[arg(long)]
        data: PathBuf,
        #[arg(long, default_value_t = 4)]
        sstables: u32,
        /// In each SSTable.
        #[arg(long, default_value_t = 100_000)]
        rows: u64,
        #[arg(long, default_value_t = 1_000)]
        value_bytes: usize,
        #[arg(long)]
        json: bool,
    },
    /// How fast vectors are taken in, linked and searched by a shard, and how much searches find.
    Vectors {
        #[arg(long, default_value_t = 200_000)]
        count: u32,
        #[arg(long, default_value_t = 128)]
        dimension: u32,
        #[arg(long, default_value_t = 1_000)]
        queries: u32,
        #[arg(long, default_value_t = 1)]
        seed: u64,
        #[arg(long)]
        json: bool,
    },
    /// A server that answers everything with the same bytes: the floor to compare with.
    Canned {
        #[arg(long, default_value = "127.0.0.1:0")]
        listen: SocketAddr,
    },
    /// A server that answers every connection with an error and closes it: the floor of a connection storm.
    Refusing {
        #[arg(long, default_value = "127.0.0.1:0")]
        listen: SocketAddr,
    },
    /// A closed loop of prepared point reads (or inserts) on any CQL server.
    Wire {
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
    },
}

fn main() -> ExitCode {
    match CommandLine::parse().command {
        PerfCommand::Compaction {
            ref data,
            sstables,
            rows,
            value_bytes,
            json,
        } => {
            let options = CompactionOptions {
                folder: data.clone(),
                sstables,
                rows,
                value_bytes,
            };
            report(compaction::run(&options), json)
        }
        PerfCommand::Reads {
            ref data_directory,
            data_set,
            kind,
            operations,
            json,
        } => {
            let options = ReadsOptions {
                data_folder: data_directory.clone(),
                data_set,
                kind,
                operations,
            };
            report(reads::run(&options, &crate::allocator::COUNTER), json)
        }
        PerfCommand::FastForward(ref arguments) => fast_forward::run(arguments),
        PerfCommand::Canned { listen } => match canned::run(listen) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("helenus-perf canned: {error}");
                ExitCode::FAILURE
            }
        },
        PerfCommand::Refusing { listen } => match refusing::run(listen) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("helenus-perf refusing: {error}");
                ExitCode::FAILURE
            }
        },
        PerfCommand::SimpleQuery {
            write,
            counters,
            lwt,
            asked,
            flush,
            cached,
            cold,
            operations,
            partitions,
            concurrency,
            json,
        } => {
            let options = SimpleQueryOptions {
                write,
                counters,
                condition: lwt,
                asked,
                rows_in: match (flush, cached, cold) {
                    (_, _, true) => RowsIn::ColdSsTables,
                    (_, true, false) => RowsIn::RowCache,
                    (true, false, false) => RowsIn::SsTables,
                    (false, false, false) => RowsIn::Memtable,
                },
                operations,
                partitions,
                concurrency,
            };
            report(simple_query::run(&options, &crate::allocator::COUNTER), json)
        }
        PerfCommand::Vectors {
            count,
            dimension,
            queries,
            seed,
            json,
        } => {
            let options = VectorsOptions {
                count,
                dimension,
                queries,
                seed,
            };
            report(vectors::run(&options), json)
        }
        PerfCommand::Wire {
            address,
            server_pid,
            connections,
            in_flight,
            write,
            keys,
            warm_up_s,
            duration_s,
            batches,
            json,
        } => {
            let options = WireOptions {
                address,
                server_pid,
                connections,
                in_flight,
                write,
                keys,
                warm_up: Duration::from_secs(warm_up_s),
                duration: Duration::from_secs(duration_s),
                batches,
            };
            report(wire::run(&options), json)
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
