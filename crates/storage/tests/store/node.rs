//! All shards of a node on a simulated disk, beside the model of what they must know.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use helenus_rows::clustering::{Side, Slice};
use helenus_rows::partition_range::PartitionRange;
use helenus_rows::update::Update;
use helenus_schema::{Schema, TableMetadata};
use helenus_sstable::{Component, Descriptor};
use helenus_storage::ShardStore;
use helenus_storage::commitlog::{LogOptions, LogPosition, LogWriter};
use helenus_storage::compaction::CompactionLimits;
use helenus_storage::error::WriteError;
use helenus_storage::read::ReadCommand;
use helenus_storage::store::{
    CompactError, CompactionKind, CompactionRequest, DataFolder, JobError, JobReport, OpenedShards,
    ShardCompactions, StoreOptions,
};
use helenus_types::{shard_of, token_of};
use helenus_vfs::{Clock, Disk, Fault, ManualClock, SimulatedDisk};

use super::check::{Collected, check, expected, slice_of};
use super::indexed::check_indexed;
use super::naive::{NaivePartition, Place, Write};
use super::writes::{NOW_S, Writer};

pub struct Node {
    disk: Arc<SimulatedDisk>,
    clock: Arc<ManualClock>,
    schema: Schema,
    table: Arc<TableMetadata>,
    shards: Vec<(ShardStore, LogWriter)>,
    /// Every write of each partition that the node took, acknowledged or not. After a crash there may be several
    /// histories that would answer alike; reads tell them apart as they can.
    model: BTreeMap<Vec<u8>, Vec<NaivePartition>>,
    /// Log positions of each partition's writes, from the first that is not acknowledged on.
    pending: BTreeMap<Vec<u8>, Vec<LogPosition>>,
    seed: u64,
}

impl Node {
    pub fn start(seed: u64, schema: Schema) -> Self {
        let table = Arc::clone(schema.tables().next().unwrap());
        let disk = Arc::new(SimulatedDisk::new(seed));
        disk.set_half_resident(seed % 2 == 1);
        let clock = Arc::new(ManualClock::starting_at(i64::from(NOW_S) * 1_000_000));
        let mut node = Node {
            disk,
            clock,
            schema,
            table,
            shards: Vec::new(),
            model: BTreeMap::new(),
            pending: BTreeMap::new(),
            seed,
        };
        node.open(2);
        node
    }

    fn open(&mut self, shard_count: u16) {
        let options = StoreOptions {
            memtable_bytes_max: 90_000,
            chunk_cache_bytes_max: 1 << 16,
            // None at all, one that always evicts, one that keeps everything.
            vector_bytes_max: 0,
            walks_small_graphs: false,
            row_cache_bytes_max: [0, 3_000, 1 << 20][self.seed as usize % 3],
            lent_bytes_max: [0, 1 << 14, 4 << 20][self.seed as usize / 3 % 3],
            log: LogOptions {
                segment_bytes: 4_096,
                buffer_bytes_max: 8_192,
            },
            log_bytes_max: 16_384,
            // So small that nearly every read takes several steps.
            read_step_units_max: 3,
            column_index_bytes: 256,
            sstable_format: helenus_schema::SsTableFormat::DEFAULT,
            partition_guardrails: Default::default(),
            compaction: CompactionLimits::new(0, 2, 16 << 10),
        };
        let disk: Arc<dyn Disk> = Arc::clone(&self.disk) as _;
        let clock: Arc<dyn Clock> = Arc::clone(&self.clock) as _;
        let open = || -> Result<OpenedShards, String> {
            let folder = DataFolder::open(Arc::clone(&disk), Arc::clone(&clock), Path::new("/node"))
                .map_err(|error| error.to_string())?;
            folder
                .open_shards(&options, shard_count, &self.schema)
                .map_err(|error| error.to_string())
        };
        let opened = open().or_else(|_| {
            // Only an injected fault can be the reason, and the second try must not need to care.
            self.disk.clear_faults();
            open()
        });
        self.shards = opened.unwrap().shards;
    }

    pub fn inject(&self, fault: Fault) {
        self.disk.inject(fault);
    }

    pub fn write(&mut self, key: Vec<u8>, write: Write) {
        let bytes = write.encode(self.table.id, &key);
        let update = Update::decode(&bytes).unwrap();
        let shard = self.shard_of(&key);
        let position = loop {
            match self.shards[shard].0.apply(&update) {
                Ok(position) => break position,
                Err(WriteError::MemtablesFull { .. }) => {
                    self.clock.advance_s(61);
                    self.persist(shard, true);
                    if self.shards[shard].0.log_failure().is_some() {
                        return self.crash(2);
                    }
                    self.run_jobs(8);
                }
                Err(_) if self.shards[shard].0.log_failure().is_some() => return self.crash(2),
                Err(_) => self.persist(shard, true),
            }
        };
        let histories = self
            .model
            .entry(key.clone())
            .or_insert_with(|| vec![NaivePartition::default()]);
        histories
            .iter_mut()
            .for_each(|history| history.writes.push(write.clone()));
        self.pending.entry(key).or_default().push(position);
    }

    fn shard_of(&self, key: &[u8]) -> usize {
        usize::from(shard_of(token_of(key), self.shards.len() as u16).0)
    }

    /// Writes what a shard has logged, and acknowledges what is durable then.
    pub fn persist(&mut self, shard: usize, sync: bool) {
        let shard = shard % self.shards.len();
        let (store, writer) = &mut self.shards[shard];
        if let Some(batch) = store.take_log_batch() {
            let result = writer.persist(&batch, sync);
            if writer.wants_tending() {
                // What it could not remove is removed later.
                let _is_tried_again = writer.segment_files().tend();
            }
            store.log_batch_done(batch, &result);
        } else if sync {
            let result = writer.sync();
            store.log_synced(&result);
        }
        let durable = store.durable();
        let shard_count = self.shards.len() as u16;
        for (key, positions) in &mut self.pending {
            if usize::from(shard_of(token_of(key), shard_count).0) == shard {
                positions.retain(|position| *position > durable);
            }
        }
    }

    pub fn flush(&mut self) {
        self.shards.iter_mut().for_each(|(store, _)| store.flush(None));
        self.run_jobs(2);
    }

    pub fn run_jobs(&mut self, count: usize) {
        self.clock.advance_ns(100_000_000);
        for (store, _) in &mut self.shards {
            for _ in 0..count {
                let Some(job) = store.next_job() else { break };
                // Failures are retried; what was injected has struck by then.
                let _ = store.complete(job.run()).result;
            }
        }
    }

    /// Flushes, and leaves compactions to others.
    pub fn flush_only(&mut self) {
        self.clock.advance_ns(100_000_000);
        for (store, _) in &mut self.shards {
            store.flush(None);
            while let Some(job) = store.next_short_job() {
                store.complete(job.run()).result.unwrap();
            }
        }
    }

    /// Asks every shard for a compaction.
    pub fn request(&mut self, kind: CompactionKind) -> Result<(), CompactError> {
        let table = self.table.id;
        self.request_of(CompactionRequest { table, kind })
    }

    pub fn request_of(&mut self, request: CompactionRequest) -> Result<(), CompactError> {
        self.shards
            .iter_mut()
            .try_for_each(|(store, _)| store.compact(request).map(drop))
    }

    /// Compactions that were asked for and have not begun.
    pub fn requests_waiting(&self) -> usize {
        let pending = self
            .shards
            .iter()
            .flat_map(|(store, _)| store.compactions().pending);
        pending.map(|pending| pending.requested).sum()
    }

    /// Begins the compactions that were asked for, stops them, and lets them end; returns how many there were.
    pub fn stop_at_first_compaction(&mut self) -> usize {
        let mut stopped = 0;
        for (store, _) in &mut self.shards {
            let Some(job) = store.next_job() else { continue };
            assert!(job.is_compaction());
            stopped += store.stop_compactions(None);
            let report = store.complete(job.run());
            assert!(matches!(report.result, Err(JobError::Stopped)));
        }
        stopped
    }

    /// Flips a bit in the middle of the rows of the oldest SSTable of the first shard.
    pub fn damage_oldest(&self) -> Descriptor {
        let sstables = self.shards[0].0.sstables(self.table.id);
        let oldest = sstables
            .iter()
            .min_by_key(|sstable| sstable.descriptor())
            .unwrap();
        let data = oldest.descriptor().path(oldest.directory(), Component::Data);
        let length = self.disk.open(&data).unwrap().length().unwrap();
        self.disk.flip_bit(&data, length / 2 * 8).unwrap();
        oldest.descriptor()
    }

    /// Runs what is due for some seconds; the reports of what failed on the first shard.
    pub fn run_first_shard(&mut self, seconds: u32) -> Vec<JobReport> {
        let mut failed = Vec::new();
        for _ in 0..seconds {
            self.clock.advance_s(1);
            let (store, _) = &mut self.shards[0];
            while let Some(job) = store.next_job() {
                let report = store.complete(job.run());
                failed.extend(report.result.is_err().then_some(report));
            }
        }
        failed
    }

    pub fn compactions_of_first_shard(&self) -> ShardCompactions {
        self.shards[0].0.compactions()
    }

    pub fn urgency_of_first_shard(&self) -> f64 {
        self.shards[0].0.compaction_urgency()
    }

    /// Returns the levels of the SSTables of the first shard, ascending.
    pub fn levels_of_first_shard(&self) -> Vec<u32> {
        let sstables = self.shards[0].0.sstables(self.table.id);
        let mut levels: Vec<u32> = sstables
            .iter()
            .map(|sstable| sstable.statistics().level)
            .collect();
        levels.sort_unstable();
        levels
    }

    /// Returns the number of SSTables of each shard.
    pub fn sstable_counts(&self) -> Vec<usize> {
        self.shards
            .iter()
            .map(|(store, _)| store.sstable_count())
            .collect()
    }

    pub fn fail_power(&self, after: u64) {
        self.disk.fail_power(after);
    }

    pub fn is_power_off(&self) -> bool {
        self.disk.is_power_off()
    }

    /// Stops in good order, though without a flush.
    pub fn restart(&mut self, shard_count: u16) {
        (0..self.shards.len()).for_each(|shard| self.persist(shard, true));
        if self.shards.iter().any(|(store, _)| store.log_failure().is_some()) {
            return self.crash(shard_count);
        }
        assert!(self.pending.values().all(Vec::is_empty));
        self.shards.clear();
        self.open(shard_count);
    }

    /// The power fails. Of each partition's pending writes those up to some point are there afterwards.
    pub fn crash(&mut self, shard_count: u16) {
        self.disk.crash();
        self.shards.clear();
        self.open(shard_count);
        for (key, histories) in &mut self.model {
            let pending = self.pending.get(key).map_or(0, Vec::len);
            let whole = std::mem::take(histories);
            histories.extend((0..=pending).flat_map(|lost| {
                whole.iter().map(move |history| {
                    let kept = history.writes.len() - lost;
                    NaivePartition {
                        writes: history.writes[..kept].to_vec(),
                    }
                })
            }));
        }
        self.pending.clear();
        let everything = ((Vec::new(), Side::Before), (Vec::new(), Side::After));
        self.tell_apart(&[everything], false, self.clock.wall_s());
    }

    /// Drops the histories that do not explain what the node answers; one must stay.
    fn tell_apart(&mut self, slices: &[(Place, Place)], reversed: bool, now_s: u32) {
        let keys: Vec<Vec<u8>> = self.model.keys().cloned().collect();
        for key in keys {
            let found = self.read(&key, slices, reversed, now_s).partitions;
            let Some(histories) = self.model.get_mut(&key) else {
                continue;
            };
            let count = histories.len();
            histories.retain(|history| {
                let model = BTreeMap::from([(key.clone(), history.clone())]);
                expected(&model, slices, reversed, now_s) == found
            });
            assert!(
                !histories.is_empty(),
                "none of {count} histories of {key:?} explains {found:?}"
            );
        }
    }

    fn read(&mut self, key: &[u8], slices: &[(Place, Place)], reversed: bool, now_s: u32) -> Collected {
        let shard = self.shard_of(key);
        let slices: Vec<Slice> = slices.iter().map(slice_of).collect();
        let partitions = PartitionRange::One {
            token: token_of(key),
            key,
        };
        let command = ReadCommand {
            table: &self.table,
            partitions,
            slices: &slices,
            reversed,
            now_s,
            index: &[],
        };
        let mut collected = Collected::default();
        while let Err(error) = self.shards[shard].0.read(&command, &mut collected) {
            // An injected read error strikes once.
            assert!(!error.to_string().contains("corrupt"), "{error}");
            collected = Collected::default();
        }
        collected
    }

    /// Every shard answers for its part of the model.
    pub fn check(&mut self, writer: &Writer) {
        self.disk.clear_faults();
        let shard_count = self.shards.len() as u16;
        // Not before the clock: a compaction may have dropped what had expired by then.
        let now_s = self.clock.wall_s() + writer.below(6) as u32;
        let (slices, reversed) = (writer.slices(), writer.below(2) == 0);
        self.tell_apart(&slices, reversed, now_s);
        for (shard, (store, _)) in self.shards.iter_mut().enumerate() {
            let own = self
                .model
                .iter()
                .filter(|(key, _)| usize::from(shard_of(token_of(key), shard_count).0) == shard);
            let own = own.map(|(key, histories)| (key.clone(), histories[0].clone()));
            check(store, &self.table, &own.collect(), &slices, reversed, now_s);
            check_indexed(store, &self.table, writer, &slices, reversed, now_s);
        }
    }
}
