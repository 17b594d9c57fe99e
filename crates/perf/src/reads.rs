//! `helenus-perf reads`: one kind of read over the data of `perf fast-forward`, again and again, so that instructions,
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

use helenus_rows::clustering::{ClusteringBound, Side, Slice};
use helenus_rows::partition_range::PartitionRange;
use helenus_rows::row::RowRef;
use helenus_schema::TableMetadata;
use helenus_sstable::ReadCost;
use helenus_storage::ShardStore;
use helenus_storage::read::{ReadCommand, RowSink};
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ReadKind {
    /// Everything, in a scan of the table.
    Scan,
    /// A row at random; pages stay in memory.
    Row,
    /// A row at random with no page in memory.
    ColdRow,
    /// As [`ReadKind::ColdRow`], of a row that is not there; of the large partition only.
    MissingRow,
    /// The row behind one that was read with no page in memory before it; of the large partition only.
    NextRow,
    /// Sixteen rows, evenly spread, with no page in memory; of the large partition only.
    SpreadRows,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub struct ReadsReport {
    pub operations: u64,
    pub rows: u64,
    /// From an empty process to SSTables that can be read.
    pub open_s: f64,
    pub open_cpu_s: f64,
    /// Processor time of this thread, the kernel's part included.
    pub cpu_s: f64,
    pub rows_per_cpu_s: f64,
    pub allocations_per_row: f64,
    pub reads_per_operation: f64,
    pub read_kib_per_operation: f64,
    pub data_reads_per_operation: f64,
    /// Reads of the operation that took most.
    pub reads_max: u64,
    pub read_kib_max: f64,
    /// Bytes that open SSTables keep in memory.
    pub sstable_memory_bytes: u64,
    /// On disk, all components.
    pub sstable_bytes: u64,
}

const SPREAD_ROWS: u64 = 16;

/// Bytes that a node of a few gigabytes gives to pages of SSTables.
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
    let (mut cost, mut reads_max, mut read_bytes_max) = (ReadCost::default(), 0, 0);
    let cpu_before_s = thread_cpu_seconds()?;
    allocations.start();
    for _ in 0..options.operations {
        let place = (random.next_u64() % u64::from(population.rows - 1)) as u32;
        let took = reader.operate(options.kind, place)?;
        cost.add(took);
        reads_max = reads_max.max(took.reads);
        read_bytes_max = read_bytes_max.max(took.read_bytes);
    }
    let allocated = allocations.stop();
    let cpu_s = thread_cpu_seconds()? - cpu_before_s;

    let rows = reader.sink.rows;
    let wanted = options.operations
        * match options.kind {
            ReadKind::Scan => u64::from(population.rows),
            ReadKind::Row | ReadKind::ColdRow => 1,
            ReadKind::MissingRow => 0,
            ReadKind::NextRow => 2,
            ReadKind::SpreadRows => SPREAD_ROWS,
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
        reads_max,
        read_kib_max: read_bytes_max as f64 / 1024.0,
        sstable_memory_bytes: sstables.iter().map(|sstable| sstable.memory_bytes()).sum(),
        sstable_bytes: sstables.iter().map(|sstable| sstable.disk_bytes()).sum(),
    })
}

struct Reader {
    store: ShardStore,
    data_set: DataSet,
    row_count: u32,
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
            row_count: population.rows,
            table: Arc::new(options.data_set.table(population)),
            sink: CountingSink { rows: 0 },
        })
    }

    /// Runs one operation and returns its cost in reads of the disk.
    fn operate(&mut self, kind: ReadKind, place: u32) -> io::Result<ReadCost> {
        if !matches!(kind, ReadKind::Row | ReadKind::Scan) {
            self.store.clear_caches();
        }
        if kind == ReadKind::NextRow {
            self.read_rows(&[clustering_of(i64::from(place))])?;
        }
        let before = self.store.read_cost();
        match (kind, self.data_set) {
            (ReadKind::Scan, _) => self.read_slices(PartitionRange::everything(), &[Slice::all()])?,
            (_, DataSet::SmallPartitions) => {
                let key = place.to_be_bytes();
                let token = token_of(&key);
                self.read_slices(PartitionRange::One { token, key: &key }, &[Slice::all()])?;
            }
            (ReadKind::NextRow, _) => self.read_rows(&[clustering_of(i64::from(place) + 1)])?,
            (ReadKind::MissingRow, _) => self.read_rows(&[missing_clustering_of(i64::from(place))])?,
            (ReadKind::SpreadRows, _) => {
                let stride = self.row_count / SPREAD_ROWS as u32;
                let row = |index: u64| clustering_of(index as i64 * i64::from(stride));
                let rows: Vec<Vec<u8>> = (0..SPREAD_ROWS).map(row).collect();
                self.read_rows(&rows)?;
            }
            (ReadKind::Row | ReadKind::ColdRow, _) => self.read_rows(&[clustering_of(i64::from(place))])?,
        }
        Ok(self.store.read_cost().since(before))
    }

    /// Rows of the large partition, in order.
    fn read_rows(&mut self, clusterings: &[Vec<u8>]) -> io::Result<()> {
        let key = &LARGE_PARTITION_KEY;
        let token = token_of(key);
        let slices: Vec<Slice> = clusterings
            .iter()
            .map(|clustering| row_slice(clustering))
            .collect();
        self.read_slices(PartitionRange::One { token, key }, &slices)
    }

    fn read_slices(&mut self, partitions: PartitionRange<'_>, slices: &[Slice]) -> io::Result<()> {
        let command = ReadCommand {
            table: &self.table,
            partitions,
            slices,
            reversed: false,
            now_s: 0,
            index: &[],
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
             ({:.2} of data, at most {}), {:.1} KiB (at most {:.1}); opened in {:.3} s ({:.3} s CPU), {} bytes in memory of {} on disk",
            self.operations,
            self.rows,
            self.rows_per_cpu_s,
            self.allocations_per_row,
            self.reads_per_operation,
            self.data_reads_per_operation,
            self.reads_max,
            self.read_kib_per_operation,
            self.read_kib_max,
            self.open_s,
            self.open_cpu_s,
            self.sstable_memory_bytes,
            self.sstable_bytes
        )
    }
}
