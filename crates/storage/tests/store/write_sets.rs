//! Atomic batches over partitions of several shards and two tables, through crashes, flushes, truncations and removed
//! segments: each is there whole or not at all, and is there if it was acknowledged.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use helenus_rows::clustering::{Side, Slice};
use helenus_rows::deletion::DeletionTime;
use helenus_rows::partition_range::PartitionRange;
use helenus_rows::row::Liveness;
use helenus_rows::update::Update;
use helenus_schema::{KeyspaceMetadata, Schema, TableId, TableMetadata, TableParams};
use helenus_storage::ShardStore;
use helenus_storage::commitlog::{LogOptions, LogPosition, LogWriter, WriteSetNumbers, WriteSetPart};
use helenus_storage::error::{TruncateError, WriteError};
use helenus_storage::read::ReadCommand;
use helenus_storage::store::{DataFolder, OpenedShards, StoreOptions};
use helenus_types::{ShardId, Token, shard_of, token_of};
use helenus_vfs::{Clock, Disk, ManualClock, Random, SeededRandom, SimulatedDisk};
use uuid::Uuid;

use super::check::{Collected, slice_of};
use super::naive::{RowWrite, Write};
use super::table::plain_schema;
use super::writes::NOW_S;

const KEYS: u64 = 12;

/// A batch that was taken by all shards.
struct Pending {
    number: i32,
    coordinator: usize,
    id: u64,
    /// Shards whose logs have not said yet that their part is durable, with its position.
    parts: Vec<(usize, LogPosition)>,
}

struct Node {
    disk: Arc<SimulatedDisk>,
    clock: Arc<ManualClock>,
    schema: Schema,
    /// Keys of even numbers are of the first, others of the second.
    tables: [Arc<TableMetadata>; 2],
    shards: Vec<(ShardStore, LogWriter)>,
    numbers: Vec<WriteSetNumbers>,
    pending: Vec<Pending>,
    /// The keys of every batch that was taken, by number, and whether it must be there.
    batches: BTreeMap<i32, (Vec<Vec<u8>>, Presence)>,
    undone: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    Acknowledged,
    Unknown,
    /// It was not there after a crash, and must not come back.
    Undone,
}

impl Node {
    fn start(seed: u64) -> Node {
        let schema = plain_schema(TableParams::default());
        let (schema, tables) = with_second_table(schema);
        let mut node = Node {
            disk: Arc::new(SimulatedDisk::new(seed)),
            clock: Arc::new(ManualClock::starting_at(i64::from(NOW_S) * 1_000_000)),
            schema,
            tables,
            shards: Vec::new(),
            numbers: Vec::new(),
            pending: Vec::new(),
            batches: BTreeMap::new(),
            undone: 0,
        };
        node.open(3);
        node
    }

    fn open(&mut self, shard_count: u16) {
        let options = StoreOptions {
            memtable_bytes_max: 9_000,
            log: LogOptions {
                segment_bytes: 2_048,
                buffer_bytes_max: 4_096,
            },
            log_bytes_max: 16_384,
            ..StoreOptions::default()
        };
        let disk: Arc<dyn Disk> = Arc::clone(&self.disk) as _;
        let clock: Arc<dyn Clock> = Arc::clone(&self.clock) as _;
        let folder = DataFolder::open(disk, clock, Path::new("/node")).unwrap();
        let opened: OpenedShards = folder.open_shards(&options, shard_count, &self.schema).unwrap();
        self.undone += opened.write_sets_undone;
        let shards = (0..shard_count).map(ShardId);
        self.numbers = shards
            .map(|shard| WriteSetNumbers::new(shard, opened.resolved.clone()))
            .collect();
        self.shards = opened.shards;
    }

    fn shard_of(&self, key: &[u8]) -> usize {
        usize::from(shard_of(token_of(key), self.shards.len() as u16).0)
    }

    fn table_of(&self, key: &[u8]) -> Arc<TableMetadata> {
        Arc::clone(&self.tables[usize::from(key[0] % 2)])
    }

    /// All rows of a table go; of batches that are under way, too.
    fn truncate(&mut self, table: usize) {
        (0..self.shards.len()).for_each(|shard| self.truncate_on(shard, table));
        for (keys, _) in self.batches.values_mut() {
            keys.retain(|key| usize::from(key[0] % 2) != table);
        }
        self.batches.retain(|_, (keys, _)| !keys.is_empty());
    }

    fn truncate_on(&mut self, shard: usize, table: usize) {
        let id = self.tables[table].id;
        loop {
            match self.shards[shard].0.truncate(id) {
                Ok(_) => break,
                Err(TruncateError::Busy) => self.run_jobs(),
                Err(error) => panic!("{error}"),
            }
        }
        self.persist(shard, true);
        assert!(self.shards[shard].0.are_flushes_recorded());
    }

    /// Nothing of the batch is taken unless every shard takes its part.
    fn write(&mut self, number: i32, coordinator: usize, keys: Vec<Vec<u8>>) {
        let mut by_shard: BTreeMap<usize, Vec<Vec<u8>>> = BTreeMap::new();
        for key in &keys {
            let row = RowWrite {
                liveness: Liveness {
                    timestamp_us: i64::from(number),
                    ttl_s: 0,
                    expires_at_s: u32::MAX,
                },
                deletion: DeletionTime::LIVE,
                complex_deletion: None,
                cells: Vec::new(),
            };
            let update = Write::Row((number, 0), row).encode(self.table_of(key).id, key);
            by_shard.entry(self.shard_of(key)).or_default().push(update);
        }
        let taken = if by_shard.len() == 1 {
            let (&shard, updates) = by_shard.first_key_value().unwrap();
            let position = self.shards[shard].0.apply_all(&decode(updates));
            position.map(|position| {
                self.pending.push(Pending {
                    number,
                    coordinator: usize::MAX,
                    id: 0,
                    parts: vec![(shard, position)],
                });
            })
        } else {
            self.write_parts(number, coordinator, &by_shard)
        };
        match taken {
            Ok(()) => {
                self.batches.insert(number, (keys, Presence::Unknown));
            }
            Err(WriteError::MemtablesFull { .. } | WriteError::Log(_)) => {
                (0..self.shards.len()).for_each(|shard| self.persist(shard, true));
                self.run_jobs();
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn write_parts(
        &mut self,
        number: i32,
        coordinator: usize,
        by_shard: &BTreeMap<usize, Vec<Vec<u8>>>,
    ) -> Result<(), WriteError> {
        for (&shard, updates) in by_shard {
            assert!(self.shards[shard].0.check_part(&decode(updates))?);
        }
        let id = self.numbers[coordinator].begin();
        let mut parts = Vec::new();
        for (part, (&shard, updates)) in (0..).zip(by_shard) {
            let part = WriteSetPart {
                id,
                part,
                parts: by_shard.len() as u16,
            };
            let position = self.shards[shard].0.apply_part(Some(part), &decode(updates));
            parts.push((shard, position.unwrap()));
        }
        self.pending.push(Pending {
            number,
            coordinator,
            id: id.number,
            parts,
        });
        Ok(())
    }

    fn persist(&mut self, shard: usize, sync: bool) {
        let (store, writer) = &mut self.shards[shard];
        let batch = if sync {
            store.take_log_batch_to_sync()
        } else {
            store.take_log_batch()
        };
        if let Some(batch) = batch {
            let result = writer.persist(&batch, sync);
            if writer.wants_tending() {
                writer.segment_files().tend().unwrap();
            }
            store.log_batch_done(batch, &result);
            result.unwrap();
        }
        let durable = store.durable();
        let (batches, numbers) = (&mut self.batches, &mut self.numbers);
        self.pending.retain_mut(|pending| {
            pending
                .parts
                .retain(|(at, position)| *at != shard || *position > durable);
            if !pending.parts.is_empty() {
                return true;
            }
            if let Some(numbers) = numbers.get_mut(pending.coordinator) {
                numbers.resolve(pending.id);
            }
            if let Some((_, presence)) = batches.get_mut(&pending.number) {
                *presence = Presence::Acknowledged;
            }
            false
        });
    }

    fn run_jobs(&mut self) {
        self.clock.advance_ns(100_000_000);
        for (store, _) in &mut self.shards {
            while let Some(job) = store.next_short_job() {
                store.complete(job.run()).result.unwrap();
            }
        }
    }

    fn crash(&mut self, shard_count: u16) {
        self.disk.crash();
        self.shards.clear();
        self.pending.clear();
        self.open(shard_count);
        self.check(true);
    }

    /// The power fails after so many changes of the disk.
    fn interrupted_start(&mut self, shard_count: u16, after: u64) {
        self.disk.fail_power(after);
        let disk: Arc<dyn Disk> = Arc::clone(&self.disk) as _;
        let folder = DataFolder::open(disk, Arc::clone(&self.clock) as _, Path::new("/node"));
        let options = StoreOptions::default();
        let _interrupted =
            folder.map(|folder| folder.open_shards(&options, shard_count, &self.schema).map(drop));
    }

    /// Each batch is there with all of its rows, or with none where that is allowed.
    fn check(&mut self, is_after_crash: bool) {
        let rows: BTreeMap<Vec<u8>, Vec<i32>> = (0..KEYS)
            .map(key)
            .map(|key| (key.clone(), self.rows(&key)))
            .collect();
        for (number, (keys, presence)) in &mut self.batches {
            let there = keys.iter().filter(|key| rows[*key].contains(number)).count();
            assert!(
                there == 0 || there == keys.len(),
                "batch {number} has {there} of {} rows",
                keys.len()
            );
            match presence {
                Presence::Acknowledged => assert_ne!(there, 0, "batch {number} was acknowledged"),
                Presence::Undone => assert_eq!(there, 0, "batch {number} was undone"),
                // Until the next crash it is in memory.
                Presence::Unknown if !is_after_crash => assert_ne!(there, 0),
                Presence::Unknown if there == 0 => *presence = Presence::Undone,
                Presence::Unknown => *presence = Presence::Acknowledged,
            }
        }
    }

    /// The batches that the partition has rows of.
    fn rows(&mut self, key: &[u8]) -> Vec<i32> {
        let shard = self.shard_of(key);
        let everything = ((Vec::new(), Side::Before), (Vec::new(), Side::After));
        let slices: [Slice; 1] = [slice_of(&everything)];
        let command = ReadCommand {
            table: &self.table_of(key),
            partitions: PartitionRange::One {
                token: token_of(key),
                key,
            },
            slices: &slices,
            reversed: false,
            now_s: NOW_S,
            index: &[],
        };
        let mut collected = Collected::default();
        self.shards[shard].0.read(&command, &mut collected).unwrap();
        let answers = collected.partitions.iter();
        let rows = answers.flat_map(|(_, answer)| &answer.rows);
        rows.map(|(key, ..)| key.0).collect()
    }
}

pub fn with_second_table(mut schema: Schema) -> (Schema, [Arc<TableMetadata>; 2]) {
    let first = Arc::clone(schema.tables().next().unwrap());
    let second = Arc::new(TableMetadata {
        name: "second".into(),
        id: TableId(Uuid::from_u128(2)),
        ..TableMetadata::clone(&first)
    });
    let keyspace = schema.keyspaces.get_mut(&first.keyspace).unwrap();
    let mut changed = KeyspaceMetadata::clone(keyspace);
    changed
        .tables
        .insert(Arc::clone(&second.name), Arc::clone(&second));
    *keyspace = Arc::new(changed);
    (schema, [first, second])
}

fn decode(updates: &[Vec<u8>]) -> Vec<(Token, Update<'_>)> {
    let updates = updates.iter().map(|update| Update::decode(update).unwrap());
    updates
        .map(|update| (token_of(update.partition_key), update))
        .collect()
}

fn key(number: u64) -> Vec<u8> {
    vec![number as u8; 3]
}

/// Counts of the events that a run is for.
#[derive(Debug, Default)]
struct Met {
    batches: usize,
    undone: u64,
    crashes: u64,
}

fn run(seed: u64, met: &mut Met) {
    let random = SeededRandom::new(seed);
    let below = |bound: u64| random.below(bound);
    let mut node = Node::start(seed);
    // For a while only one shard is busy: what the others have logged grows old.
    let mut busy = None;
    for number in 1..400 {
        if number % 40 == 0 {
            busy = (below(2) == 0).then(|| below(node.shards.len() as u64) as usize);
        }
        busy = busy.filter(|busy| *busy < node.shards.len());
        match below(100) {
            0..60 => {
                let mut keys: Vec<Vec<u8>> = (0..1 + below(4)).map(|_| key(below(KEYS))).collect();
                keys.sort();
                keys.dedup();
                keys.retain(|key| busy.is_none_or(|busy| node.shard_of(key) == busy));
                if keys.is_empty() {
                    continue;
                }
                let coordinator = below(node.shards.len() as u64) as usize;
                node.write(number, coordinator, keys);
            }
            60..85 => {
                let shard = busy.unwrap_or_else(|| below(node.shards.len() as u64) as usize);
                node.persist(shard, below(3) != 0);
            }
            85..88 => {
                node.shards.iter_mut().for_each(|(store, _)| store.flush(None));
                node.run_jobs();
            }
            88..94 => node.run_jobs(),
            94 => node.check(false),
            95 => {
                met.crashes += 1;
                node.crash(1 + below(4) as u16);
            }
            96 => node.truncate(below(2) as usize),
            97 => {
                // Between any two operations of a start, a flush or a log.
                node.disk.fail_power(below(60));
                node.disk.crash();
                node.shards.clear();
                node.pending.clear();
                node.interrupted_start(1 + below(4) as u16, below(60));
                node.crash(1 + below(4) as u16);
            }
            _ => {}
        }
    }
    node.crash(2);
    met.batches += node.batches.len();
    met.undone += node.undone;
}

/// After a crash a LOGGED batch over partitions of two shards had one half in a quarter of the cases, for ever.
#[test]
fn a_crash_leaves_batches_whole_or_not_at_all() {
    let mut met = Met::default();
    (0..30).for_each(|seed| run(seed, &mut met));
    assert!(
        met.batches > 1_000 && met.undone > 20 && met.crashes > 50,
        "{met:?}"
    );
}

/// A process was killed, and the power failed while the next one started: a LOGGED batch had one half, for ever. The start had read its
/// parts from logs that were not synced, and had made the rows of one durable.
#[test]
fn a_batch_stays_whole_if_the_power_fails_in_the_start_after_a_killed_process() {
    for seed in 0..10 {
        for after in 0..50 {
            let mut node = Node::start(seed);
            node.write(1, 0, (0..KEYS).map(key).collect());
            (0..node.shards.len()).for_each(|shard| node.persist(shard, false));
            node.disk.end_process();
            node.shards.clear();
            node.pending.clear();
            node.interrupted_start(2, after);
            node.crash(2);
        }
    }
}

/// One shard empties a table and removes the log that it had its part in, before the other shard's part was durable.
#[test]
fn a_truncated_part_does_not_take_its_batch_along() {
    let mut node = Node::start(1);
    let keys: Vec<Vec<u8>> = (0..KEYS).map(key).collect();
    let key_of = |node: &Node, shard: usize, table: u8| {
        let found = keys
            .iter()
            .find(|key| node.shard_of(key) == shard && key[0] % 2 == table);
        found.unwrap().clone()
    };
    let (truncated, kept) = (key_of(&node, 0, 0), key_of(&node, 1, 1));
    node.write(1, 0, vec![truncated, kept]);
    node.persist(0, true);
    node.truncate_on(0, 0);
    // Until nothing else needs the segment.
    let other = key_of(&node, 0, 1);
    for number in 2..100 {
        node.write(number, 0, vec![other.clone()]);
        node.persist(0, true);
    }
    node.truncate_on(0, 1);
    node.persist(1, true);
    node.batches.retain(|number, _| *number == 1);
    let (keys, presence) = node.batches.get_mut(&1).unwrap();
    assert_eq!(*presence, Presence::Acknowledged);
    keys.remove(0);
    node.crash(2);
}

/// A shard that nothing more was written to had its part of a batch, and no mark of what became of the other part, which
/// went with its segment once it was in an SSTable.
#[test]
fn a_part_counts_after_the_others_were_flushed() {
    let mut node = Node::start(1);
    let keys: Vec<Vec<u8>> = (0..KEYS).map(key).collect();
    let key_of = |node: &Node, shard| {
        keys.iter()
            .find(|key| node.shard_of(key) == shard)
            .unwrap()
            .clone()
    };
    let busy = key_of(&node, 0);
    node.write(1, 0, vec![busy.clone(), key_of(&node, 1)]);
    node.persist(0, true);
    node.persist(1, true);
    for number in 2..100 {
        node.write(number, 0, vec![busy.clone()]);
        node.persist(0, true);
    }
    node.shards[0].0.flush(None);
    node.run_jobs();
    node.persist(0, true);
    let logs = |shard| {
        node.disk
            .list(Path::new(&format!("/node/commitlog/shard-0000{shard}")))
            .unwrap()
            .len()
    };
    assert_eq!(
        (logs(0), logs(1)),
        (3, 1),
        "the open segment, the next one, and the positions; one segment"
    );
    node.crash(3);
}
