//! `helenus perf reads`: one kind of read over the data of `perf fast-forward`, again and again, so that instructions,
//! processor time, allocations and disk reads can be divided by what was read.
//!
//! A program that counts instructions (callgrind) runs it twice with different numbers of operations; the difference
//! leaves out how the files were opened.

use std::fmt;
use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use helenus_schema::TableMetadata;
use helenus_storage::ShardStore;
use helenus_storage::clustering::{ClusteringBound, Side, Slice};
use helenus_storage::read::{PartitionRange, ReadCommand, RowSink};
use helenus_storage::row::RowRef;
use helenus_storage::store::{DataFolder, StoreOptions};
use helenus_types::{Token, token_of};
use helenus_vfs::{Random, RealDisk, SeededRandom, SystemClock};
use serde::Serialize;

use crate::cpu_time::thread_cpu_seconds;
use crate::fast_forward::{
    DataSet, LARGE_PARTITION_KEY, Population, clustering_of, missing_clustering_of, schema,
};
use crate::simple_query::AllocationCounter;

#[derive(Clone, Debug)]
pub struct ReadsOptions {
    /// As `perf fast-forward --populate` left it.
    pub data_folder: PathBuf,
    pub data_set: DataSet,
    pub kind: ReadKind,
    pub operations: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadKind {
    /// Everything, in a scan of the table.
    Scan,
    /// A row at random; pages stay in memory.
    Row,
    /// A row at random with no page in memory.
    ColdRow,
    /// As [`ReadKind::ColdRow`], of a row that is not there; of the large partition only.
    MissingRow,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub struct ReadsReport {
    pub operations: u64,
    pub rows: u64,
    /// From an empty process to SSTables that can be read.
    pub open_s: f64,
    pub open_cpu_s: f64,
    /// Of this thread, the kernel's part included.
    pub cpu_s: f64,
    pub rows_per_cpu_s: f64,
    pub allocations_per_row: f64,
    pub reads_per_operation: f64,
    pub read_kib_per_operation: f64,
    pub data_reads_per_operation: f64,
    /// What open SSTables keep in memory.
    pub sstable_memory_bytes: u64,
    /// On disk, all components.
    pub sstable_bytes: u64,
}

/// What a node of a few gigabytes gives to pages of SSTables.
const PAGE_CACHE_BYTES: usize = 256 << 20;

pub fn run(options: &ReadsOptions, allocations: &'static dyn AllocationCounter) -> io::Result<ReadsReport> {
    let population = Population::load(&options.data_folder).map_err(io::Error::other)?;
    let (cpu_before_s, started) = (thread_cpu_seconds()?, Instant::now());
    let mut reader = Reader::open(options, &population)?;
    let (open_s, open_cpu_s) = (
        started.elapsed().as_secs_f64(),
        thread_cpu_seconds()? - cpu_before_s,
    );
    let random = SeededRandom::new(1);
    let mut places = Vec::new();
    for _ in 0..options.operations {
        places.push((random.next_u64() % u64::from(population.rows)) as u32);
    }

    let cost_before = reader.store.read_cost();
    let cpu_before_s = thread_cpu_seconds()?;
    allocations.start();
    for place in places {
        reader.read(options.kind, place)?;
    }
    let allocated = allocations.stop();
    let cpu_s = thread_cpu_seconds()? - cpu_before_s;
    let cost = reader.store.read_cost().since(cost_before);

    let rows = reader.sink.rows;
    let wanted = match options.kind {
        ReadKind::Scan => options.operations * u64::from(population.rows),
        ReadKind::Row | ReadKind::ColdRow => options.operations,
        ReadKind::MissingRow => 0,
    };
    if rows != wanted {
        return Err(io::Error::other(format!(
            "{rows} rows were read instead of {wanted}"
        )));
    }
    let per_operation = |count: u64| count as f64 / options.operations.max(1) as f64;
    let sstables = reader.store.sstables(reader.table.id);
    Ok(ReadsReport {
        operations: options.operations,
        rows,
        open_s,
        open_cpu_s,
        cpu_s,
        rows_per_cpu_s: rows as f64 / cpu_s.max(f64::MIN_POSITIVE),
        allocations_per_row: allocated as f64 / rows.max(1) as f64,
        reads_per_operation: per_operation(cost.reads),
        read_kib_per_operation: per_operation(cost.read_bytes) / 1024.0,
        data_reads_per_operation: per_operation(cost.cache_blocks),
        sstable_memory_bytes: sstables.iter().map(|sstable| sstable.memory_bytes()).sum(),
        sstable_bytes: sstables.iter().map(|sstable| sstable.disk_bytes()).sum(),
    })
}

struct Reader {
    store: ShardStore,
    data_set: DataSet,
    table: Arc<TableMetadata>,
    sink: CountingSink,
}

impl Reader {
    fn open(options: &ReadsOptions, population: &Population) -> io::Result<Self> {
        let folder = DataFolder::open(
            Arc::new(RealDisk::new()),
            Arc::new(SystemClock::new()),
            &options.data_folder,
        )
        .map_err(io::Error::other)?;
        let store_options = StoreOptions {
            chunk_cache_bytes_max: PAGE_CACHE_BYTES,
            row_cache_bytes_max: 0,
            read_step_units_max: u32::MAX,
            ..StoreOptions::default()
        };
        let opened = folder
            .open_shards(&store_options, 1, &schema(population))
            .map_err(io::Error::other)?;
        let (store, _log) = opened.shards.into_iter().next().ok_or(io::ErrorKind::NotFound)?;
        Ok(Reader {
            store,
            data_set: options.data_set,
            table: Arc::new(options.data_set.table(population)),
            sink: CountingSink { rows: 0 },
        })
    }

    fn read(&mut self, kind: ReadKind, place: u32) -> io::Result<()> {
        if matches!(kind, ReadKind::ColdRow | ReadKind::MissingRow) {
            self.store.clear_caches();
        }
        if kind == ReadKind::Scan {
            return self.read_slices(PartitionRange::everything(), &[Slice::all()]);
        }
        match self.data_set {
            DataSet::SmallPartitions => {
                let key = place.to_be_bytes();
                let token = token_of(&key);
                self.read_slices(PartitionRange::One { token, key: &key }, &[Slice::all()])
            }
            DataSet::LargePartition => {
                let key = &LARGE_PARTITION_KEY;
                let token = token_of(key);
                let slice = match kind {
                    ReadKind::MissingRow => row_slice(&missing_clustering_of(i64::from(place))),
                    _ => row_slice(&clustering_of(i64::from(place))),
                };
                self.read_slices(PartitionRange::One { token, key }, &[slice])
            }
        }
    }

    fn read_slices(&mut self, partitions: PartitionRange<'_>, slices: &[Slice]) -> io::Result<()> {
        let command = ReadCommand {
            table: &self.table,
            partitions,
            slices,
            reversed: false,
            now_s: 0,
        };
        let read = self.store.read(&command, &mut self.sink);
        read.map(|_| ()).map_err(io::Error::other)
    }
}

fn row_slice(clustering: &[u8]) -> Slice {
    let bound = |side| ClusteringBound {
        prefix: clustering.into(),
        side,
    };
    Slice {
        start: bound(Side::Before),
        end: bound(Side::After),
    }
}

struct CountingSink {
    rows: u64,
}

impl RowSink for CountingSink {
    fn partition(&mut self, _token: Token, _key: &[u8], _static_row: RowRef<'_>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn row(&mut self, _clustering: &[u8], row: RowRef<'_>) -> ControlFlow<()> {
        std::hint::black_box(row);
        self.rows += 1;
        ControlFlow::Continue(())
    }

    fn partition_end(&mut self) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

impl fmt::Display for ReadsReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} operations, {} rows: {:.0} rows per CPU second, {:.4} allocations a row; each operation {:.2} reads \
             ({:.2} of data), {:.1} KiB; opened in {:.3} s ({:.3} s CPU), {} bytes in memory of {} on disk",
            self.operations,
            self.rows,
            self.rows_per_cpu_s,
            self.allocations_per_row,
            self.reads_per_operation,
            self.data_reads_per_operation,
            self.read_kib_per_operation,
            self.open_s,
            self.open_cpu_s,
            self.sstable_memory_bytes,
            self.sstable_bytes
        )
    }
}
