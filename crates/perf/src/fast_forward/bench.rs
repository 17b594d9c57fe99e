//! The opened data, and the reading of cases.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use helenus_rows::clustering::{Side, Slice};
use helenus_rows::partition_range::{PartitionBound, PartitionRange, PartitionSpan};
use helenus_rows::row::RowRef;
use helenus_schema::TableMetadata;
use helenus_storage::ShardStore;
use helenus_storage::read::{ReadCommand, RowSink};
use helenus_storage::store::{DataFolder, StoreOptions};
use helenus_types::{Token, token_of};
use helenus_vfs::{RealDisk, SystemClock, thread_time};

use super::DataSet;
use super::case::{Access, Case, Plan, Run};
use super::data_set::{self, LARGE_PARTITION_KEY};
use super::machine::{self, InstructionCounter};
use super::measurement::Sample;
use super::options::{FastForwardError, FastForwardOptions, Population};
use crate::simple_query::AllocationCounter;

/// One shard over the populated folder.
pub struct Bench {
    store: ShardStore,
    large: Arc<TableMetadata>,
    small: Arc<TableMetadata>,
    /// Every file that holds rows or leads to them.
    files: Vec<PathBuf>,
    /// Keys of the small partitions in token order.
    small_keys: Vec<(Token, [u8; 4])>,
    instructions: Option<InstructionCounter>,
    allocations: &'static dyn AllocationCounter,
}

/// Enough for every page and row of the default population.
const CACHE_BYTES_MAX: usize = 2 << 30;

pub fn store_options(population: &Population) -> StoreOptions {
    StoreOptions {
        column_index_bytes: population.column_index_bytes,
        chunk_cache_bytes_max: CACHE_BYTES_MAX,
        // Nothing else waits for its turn here.
        read_step_units_max: u32::MAX,
        ..StoreOptions::default()
    }
}

impl Bench {
    pub fn open(
        options: &FastForwardOptions,
        population: &Population,
        allocations: &'static dyn AllocationCounter,
    ) -> Result<Self, FastForwardError> {
        let schema = data_set::schema(population);
        let folder = DataFolder::open(
            Arc::new(RealDisk::new()),
            Arc::new(SystemClock::new()),
            &options.data_folder,
        )?;
        let store_options = StoreOptions {
            row_cache_bytes_max: if options.enable_cache { CACHE_BYTES_MAX } else { 0 },
            ..store_options(population)
        };
        let opened = folder.open_shards(&store_options, 1, &schema)?;
        let Some((store, _log)) = opened.shards.into_iter().next() else {
            unreachable!("one shard was asked for")
        };
        let [large, small] = DataSet::ALL.map(|data_set| Arc::new(data_set.table(population)));
        let mut files = Vec::new();
        for sstable in [&large, &small].iter().flat_map(|table| store.sstables(table.id)) {
            let folder = sstable.directory();
            let entries = std::fs::read_dir(folder).map_err(|source| FastForwardError::File {
                path: folder.to_owned(),
                source,
            })?;
            files.extend(entries.filter_map(|entry| Some(entry.ok()?.path())));
        }
        files.retain(|path| path.is_file());
        let mut small_keys: Vec<_> = (0..population.rows)
            .map(|number| (token_of(&number.to_be_bytes()), number.to_be_bytes()))
            .collect();
        small_keys.sort_unstable();
        Ok(Bench {
            store,
            large,
            small,
            files,
            small_keys,
            instructions: InstructionCounter::start(),
            allocations,
        })
    }

    /// Forgets all that was read, the operating system too.
    pub fn make_cold(&mut self) -> Result<(), FastForwardError> {
        self.store.clear_caches();
        for path in &self.files {
            machine::forget_cached(path).map_err(|source| FastForwardError::File {
                path: path.clone(),
                source,
            })?;
        }
        Ok(())
    }

    /// Reads a case until its time is over.
    pub fn run(
        &mut self,
        case: &Case,
        keep_cache: bool,
        duration: Duration,
    ) -> Result<Vec<Sample>, FastForwardError> {
        let started = Instant::now();
        let mut samples = Vec::new();
        while samples.is_empty() || started.elapsed() < duration {
            if !keep_cache {
                self.make_cold()?;
            }
            if case.is_warm {
                self.read(&case.plan)?;
            }
            samples.push(self.measure(&case.plan)?);
        }
        Ok(samples)
    }

    fn measure(&mut self, plan: &Plan) -> Result<Sample, FastForwardError> {
        let cost = self.store.read_cost();
        let cached = self.store.row_cache_counts();
        let (around, cpu_seconds) = (Instant::now(), thread_time().as_secs_f64());
        let instructions = self.instructions.as_mut().and_then(InstructionCounter::count);
        self.allocations.start();
        let started = Instant::now();
        let frags = self.read(plan)?;
        let seconds = started.elapsed().as_secs_f64();
        let allocations = self.allocations.stop();
        let counted = self.instructions.as_mut().and_then(InstructionCounter::count);
        let cpu_seconds = thread_time().as_secs_f64() - cpu_seconds;
        let around_seconds = around.elapsed().as_secs_f64();
        let cached_after = self.store.row_cache_counts();
        Ok(Sample {
            seconds,
            frags,
            cost: self.store.read_cost().since(cost),
            row_cache_hits: cached_after.hits - cached.hits,
            row_cache_misses: cached_after.misses - cached.misses,
            row_cache_fills: cached_after.fills - cached.fills,
            allocations,
            instructions: counted
                .zip(instructions)
                .map(|(after, before)| after.saturating_sub(before)),
            cpu_share: cpu_seconds / around_seconds.max(f64::MIN_POSITIVE),
        })
    }

    /// How many rows there were.
    fn read(&mut self, plan: &Plan) -> Result<u64, FastForwardError> {
        let mut sink = CountingSink { rows: 0 };
        match plan {
            Plan::Rows { slices, by } => {
                let key = &LARGE_PARTITION_KEY;
                let token = token_of(key);
                let bound = |side| PartitionBound {
                    token,
                    key: Some(key.as_slice()),
                    side,
                };
                let partitions = match by {
                    Access::Key => PartitionRange::One { token, key },
                    Access::Range => PartitionRange::Many {
                        start: bound(Side::Before),
                        end: bound(Side::After),
                    },
                    Access::Scan => PartitionRange::everything(),
                };
                let table = Arc::clone(&self.large);
                read(&mut self.store, &table, partitions, slices, &mut sink)?;
            }
            Plan::Partitions { runs } => {
                let table = Arc::clone(&self.small);
                let slices = [Slice::all()];
                let parts: Vec<_> = runs
                    .iter()
                    .filter_map(|run| partitions_of(&self.small_keys, *run))
                    .collect();
                let partitions = PartitionRange::Parts(&parts);
                read(&mut self.store, &table, partitions, &slices, &mut sink)?;
            }
        }
        Ok(sink.rows)
    }
}

/// The range of some partitions in token order; `None` for none.
fn partitions_of(keys: &[(Token, [u8; 4])], run: Run) -> Option<PartitionSpan<'_>> {
    let keys = keys.get(run.start as usize..run.end as usize)?;
    let (first, last) = (keys.first()?, keys.last()?);
    Some(PartitionSpan {
        start: PartitionBound {
            token: first.0,
            key: Some(&first.1),
            side: Side::Before,
        },
        end: PartitionBound {
            token: last.0,
            key: Some(&last.1),
            side: Side::After,
        },
    })
}

fn read(
    store: &mut ShardStore,
    table: &Arc<TableMetadata>,
    partitions: PartitionRange<'_>,
    slices: &[Slice],
    sink: &mut CountingSink,
) -> Result<(), FastForwardError> {
    let command = ReadCommand {
        table,
        partitions,
        slices,
        reversed: false,
        now_s: 0,
        index: &[],
    };
    store.read(&command, sink)?;
    Ok(())
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
