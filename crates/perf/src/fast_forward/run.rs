//! Populating a folder, and going through groups and cases.

use std::path::Path;
use std::sync::Arc;

use helenus_rows::update::Update;
use helenus_storage::ShardStore;
use helenus_storage::store::{DataFolder, StoreOptions};
use helenus_vfs::{Random, RealDisk, SeededRandom, SystemClock};

use super::DataSet;
use super::bench::{Bench, store_options};
use super::data_set;
use super::measurement::Columns;
use super::options::{FastForwardError, FastForwardOptions, Population};
use super::report::{CaseReport, FastForwardReport, GroupReport};
use crate::simple_query::AllocationCounter;

/// Bytes that a memtable holds beside a row's value, generously: keys, timestamps, allocations.
const MEMTABLE_BYTES_PER_ROW: usize = 512;

/// Rows between two calls of `progress`.
const ROWS_PER_REPORT: u32 = 4_096;

/// Writes both data sets, one SSTable each. `progress` is told of rows that are written, of both together.
pub fn populate(
    folder: &Path,
    population: &Population,
    progress: &mut dyn FnMut(u64),
) -> Result<(), FastForwardError> {
    if !matches!(
        Population::load(folder),
        Err(FastForwardError::NotPopulated { .. })
    ) {
        return Err(FastForwardError::AlreadyPopulated {
            folder: folder.to_owned(),
        });
    }
    if population.format().is_none() {
        return Err(FastForwardError::Format {
            name: population.sstable_format.clone(),
        });
    }
    let mut store = open_empty(folder, population)?;
    let mut rows_before = 0;
    for data_set in DataSet::ALL {
        let table = data_set.table(population);
        let mut bytes = Vec::new();
        let mut value = vec![0; population.value_bytes];
        let random = SeededRandom::new(1);
        for number in 0..population.rows {
            random.fill(&mut value);
            data_set.encode(&table, number, &value, &mut bytes);
            if let Ok(update) = Update::decode(&bytes) {
                store.apply(&update)?;
            }
            if number % ROWS_PER_REPORT == 0 {
                progress(rows_before + u64::from(number));
            }
        }
        store.flush(Some(table.id));
        while let Some(job) = store.next_job() {
            store.complete(job.run()).result?;
        }
        rows_before += u64::from(population.rows);
        progress(rows_before);
    }
    population.store(folder)
}

fn open_empty(folder: &Path, population: &Population) -> Result<ShardStore, FastForwardError> {
    let row_bytes = population.value_bytes + MEMTABLE_BYTES_PER_ROW;
    let options = StoreOptions {
        // Each data set becomes one SSTable: a memtable is sealed when it holds a third of this.
        memtable_bytes_max: (population.rows as usize)
            .saturating_mul(row_bytes)
            .saturating_mul(4),
        ..store_options(population)
    };
    let folder = DataFolder::open(Arc::new(RealDisk::new()), Arc::new(SystemClock::new()), folder)?;
    let opened = folder.open_shards(&options, 1, &data_set::schema(population))?;
    match opened.shards.into_iter().next() {
        Some((store, _log)) => Ok(store),
        None => unreachable!("one shard was asked for"),
    }
}

/// Runs what the options ask for, calling `on_group` as each group is done.
pub fn run(
    options: &FastForwardOptions,
    allocations: &'static dyn AllocationCounter,
    on_group: &mut dyn FnMut(&GroupReport),
) -> Result<FastForwardReport, FastForwardError> {
    let population = Population::load(&options.data_folder)?;
    let mut bench = Bench::open(options, &population, allocations)?;
    let mut groups = Vec::new();
    let asked = options
        .groups
        .iter()
        .filter(|group| options.data_sets.contains(&group.data_set()));
    for &group in asked {
        bench.make_cold()?;
        let mut cases = Vec::new();
        for case in group.cases(population.rows) {
            let samples = bench.run(
                &case,
                options.keep_cache_across_test_cases,
                options.test_case_duration,
            )?;
            cases.extend(Columns::of(&samples).map(|columns| CaseReport {
                parameters: case.labels,
                columns,
            }));
        }
        let report = GroupReport::new(group, cases);
        on_group(&report);
        groups.push(report);
    }
    Ok(FastForwardReport {
        population,
        enable_cache: options.enable_cache,
        keep_cache_across_test_cases: options.keep_cache_across_test_cases,
        groups,
    })
}
