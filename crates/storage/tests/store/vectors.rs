//! Indexes of vectors: what searches hand out is all that there is, whatever has happened to the rows, and the nearest come
//! first.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use helenus_index::IndexPredicate;
use helenus_rows::clustering::Slice;
use helenus_rows::deletion::{DeletionTime, NEVER_S};
use helenus_rows::partition_range::PartitionRange;
use helenus_rows::row::Liveness;
use helenus_rows::update::Update;
use helenus_schema::{IndexTarget, Schema, TableMetadata, TableParams};
use helenus_storage::ShardStore;
use helenus_storage::commitlog::LogWriter;
use helenus_storage::error::TruncateError;
use helenus_storage::read::ReadCommand;
use helenus_storage::read_state::ReadProgress;
use helenus_storage::store::{
    CompactionKind, CompactionRequest, DataFolder, StoreOptions, Tended, VectorFill,
};
use helenus_storage::vectors::{NearestRequest, NextNearest};
use helenus_types::CqlType;
use helenus_vector::Similarity;
use helenus_vector::random::Random;
use helenus_vector::sample::Sample;
use helenus_vfs::{Clock, Disk, ManualClock, SimulatedDisk};

use super::check::Collected;
use super::naive::{Cell, RowWrite, Write};
use super::table::{self, C1, NUMBER, TEXT, index, packed, schema_of};

pub const DIMENSION: usize = 16;
pub const SIMILARITY: Similarity = Similarity::Euclidean;
/// Start of the store's clock, in seconds.
const START_S: u64 = 1_000;

/// Key and clustering.
pub type Row = (Vec<u8>, Vec<u8>);

pub struct Indexed {
    disk: Arc<SimulatedDisk>,
    clock: Arc<ManualClock>,
    schema: Schema,
    pub table: Arc<TableMetadata>,
    store: Option<(ShardStore, LogWriter)>,
    options: StoreOptions,
    pub now_s: u32,
}

/// `options` are those of the index of vectors.
fn schema(has_index: bool, options: &[(&str, &str)]) -> Schema {
    let mut table = table::table(TableParams::default());
    for column in &mut table.columns {
        if column.id == TEXT {
            column.cql_type = CqlType::vector(CqlType::Float, DIMENSION as u32);
        }
    }
    if has_index {
        let mut index = index(1, "v_idx", TEXT, IndexTarget::Simple);
        let euclidean = [("similarity_function", "euclidean")];
        let options = euclidean.iter().chain(options);
        index.options = options
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        table.add_index(index);
        // What searches may be narrowed by.
        table.add_index(table::index(2, "number_idx", NUMBER, IndexTarget::Simple));
        table.add_index(table::index(3, "c1_idx", C1, IndexTarget::Simple));
    }
    schema_of(table)
}

impl Indexed {
    pub fn start(has_index: bool, options: StoreOptions) -> Self {
        let options = StoreOptions {
            walks_small_graphs: true,
            ..options
        };
        Indexed::start_as_is(schema(has_index, &[]), options)
    }

    /// With these options of the index of vectors, and those of users of the store.
    pub fn start_usual(options: &[(&str, &str)]) -> Self {
        Indexed::start_as_is(schema(true, options), StoreOptions::default())
    }

    fn start_as_is(schema: Schema, options: StoreOptions) -> Self {
        let table = Arc::clone(schema.tables().next().unwrap());
        let mut node = Indexed {
            disk: Arc::new(SimulatedDisk::new(9)),
            clock: Arc::new(ManualClock::starting_at(i64::from(START_S as u32) * 1_000_000)),
            table,
            schema,
            store: None,
            options,
            now_s: START_S as u32,
        };
        node.open();
        node
    }

    pub fn open(&mut self) {
        self.store = None;
        let clock: Arc<dyn Clock> = Arc::clone(&self.clock) as _;
        let disk: Arc<dyn Disk> = Arc::clone(&self.disk) as _;
        let folder = DataFolder::open(disk, clock, Path::new("/node")).unwrap();
        let opened = folder.open_shards(&self.options, 1, &self.schema).unwrap();
        self.store = opened.shards.into_iter().next();
    }

    fn alter(&mut self, has_index: bool) {
        self.schema = schema(has_index, &[]);
        self.table = Arc::clone(self.schema.tables().next().unwrap());
        let schema = self.schema.clone();
        self.store().set_schema(&schema);
    }

    pub fn store(&mut self) -> &mut ShardStore {
        &mut self.store.as_mut().unwrap().0
    }

    pub fn apply(&mut self, key: &[u8], write: &Write) {
        let bytes = write.encode(self.table.id, key);
        let update = Update::decode(&bytes).unwrap();
        self.store().apply(&update).unwrap();
    }

    /// `None` deletes the vector, not the row. So many seconds are left to it; 0 for ever.
    pub fn write(&mut self, key: &[u8], row: i32, vector: Option<&[f32]>, timestamp_us: i64, ttl_s: u32) {
        let vector = self.vector_cell(vector, timestamp_us, ttl_s);
        self.write_cells(
            key,
            row,
            vec![number_cell(row, timestamp_us), vector],
            timestamp_us,
        );
    }

    pub fn vector_cell(&self, vector: Option<&[f32]>, timestamp_us: i64, ttl_s: u32) -> Cell {
        let value: Vec<u8> = vector
            .unwrap_or(&[])
            .iter()
            .flat_map(|value| value.to_be_bytes())
            .collect();
        let local_deletion_s = match (vector, ttl_s) {
            (None, _) => self.now_s,
            (Some(_), 0) => NEVER_S,
            (Some(_), ttl_s) => self.now_s + ttl_s,
        };
        let ttl_s = if vector.is_some() { ttl_s } else { 0 };
        cell(TEXT.0, value, timestamp_us, (ttl_s, local_deletion_s))
    }

    pub fn write_cells(&mut self, key: &[u8], row: i32, cells: Vec<Cell>, timestamp_us: i64) {
        let write = RowWrite {
            liveness: Liveness {
                timestamp_us,
                ttl_s: 0,
                expires_at_s: NEVER_S,
            },
            deletion: DeletionTime::LIVE,
            complex_deletion: None,
            cells,
        };
        self.apply(key, &Write::Row((row, 0), write));
    }

    pub fn delete(&mut self, key: &[u8], row: i32, timestamp_us: i64) {
        let write = RowWrite {
            liveness: Liveness::NONE,
            deletion: DeletionTime {
                timestamp_us,
                local_s: self.now_s,
            },
            complex_deletion: None,
            cells: Vec::new(),
        };
        self.apply(key, &Write::Row((row, 0), write));
    }

    pub fn run_jobs(&mut self) {
        self.clock.advance_s(1);
        let (store, writer) = self.store.as_mut().unwrap();
        if let Some(batch) = store.take_log_batch() {
            let result = writer.persist(&batch, true);
            if writer.wants_tending() {
                writer.segment_files().tend().unwrap();
            }
            store.log_batch_done(batch, &result);
        }
        while let Some(job) = store.next_job() {
            store.complete(job.run()).result.unwrap();
        }
    }

    pub fn flush(&mut self) {
        self.store().flush(None);
        self.run_jobs();
    }

    pub fn compact(&mut self) {
        let (table, kind) = (self.table.id, CompactionKind::Major { split_output: false });
        let _ = self.store().compact(CompactionRequest { table, kind });
        self.run_jobs();
    }

    fn fill(&mut self, mut fill: VectorFill) {
        let store = self.store();
        loop {
            match store.step_vector_fill(&mut fill).unwrap() {
                ReadProgress::Done => return,
                ReadProgress::Yield => {}
                ReadProgress::Absent(absent) => {
                    let stored = absent.read().unwrap();
                    store.deliver(fill.state(), &absent, &stored).unwrap();
                }
            }
        }
    }

    /// Fills, and so many steps of the rest.
    pub fn tend(&mut self, steps_max: usize) {
        for _ in 0..steps_max {
            let store = self.store();
            match store.begin_vector_fill() {
                Some(fill) => self.fill(fill),
                None => {
                    if matches!(store.tend_vectors(), Tended::Nothing) {
                        return;
                    }
                }
            }
        }
    }

    /// The rows that have a vector, and it.
    fn scan(&mut self) -> BTreeMap<Row, Vec<f32>> {
        let (table, now_s) = (Arc::clone(&self.table), self.now_s);
        let command = ReadCommand {
            table: &table,
            partitions: PartitionRange::everything(),
            slices: &[Slice::all()],
            reversed: false,
            now_s,
            index: &[],
        };
        let mut rows = Collected::default();
        self.store().read(&command, &mut rows).unwrap();
        let mut vectors = BTreeMap::new();
        for (key, answer) in rows.end() {
            for ((c1, c2), _, cells) in answer.rows {
                if let Some((value, _, _)) = cells.get(&(TEXT.0, None)) {
                    let (components, _) = value.as_chunks::<4>();
                    let vector = components
                        .iter()
                        .map(|bytes| f32::from_be_bytes(*bytes))
                        .collect();
                    vectors.insert((key.clone(), packed(&[c1, c2])), vector);
                }
            }
        }
        vectors
    }

    /// Returns what a search hands out in order, at most so many; `None` where the index says nothing.
    fn search(&mut self, query: &[f32], count_max: usize) -> Option<Vec<Row>> {
        let (table, now_s) = (Arc::clone(&self.table), self.now_s);
        let request = request(&table, query, &[])?;
        let store = self.store();
        let mut search = store.begin_nearest(&request)?;
        let mut rows = Vec::new();
        while rows.len() < count_max {
            match store.next_nearest(&mut search, now_s, &mut { 500 }) {
                NextNearest::Row { key, clustering, .. } => rows.push((key, clustering)),
                NextNearest::Paused => {}
                NextNearest::End { .. } => break,
                NextNearest::Lost => return None,
            }
        }
        Some(rows)
    }

    /// Searches to their end hand out each row that there is. Those that are not are told to the index.
    fn check_all_found(&mut self, query: &[f32], when: &str) {
        let there: BTreeSet<Row> = self.scan().into_keys().collect();
        let found = self.search(query, usize::MAX).unwrap_or_else(|| panic!("{when}"));
        let found: BTreeSet<Row> = found.into_iter().collect();
        let missing: Vec<_> = there.difference(&found).collect();
        assert!(missing.is_empty(), "{when}: {} of {}", missing.len(), there.len());
    }

    fn recall(&mut self, sample: &mut Sample) -> f64 {
        let there = self.scan();
        let (mut found, mut wanted) = (0, 0);
        for _ in 0..30 {
            let query = sample.vector();
            let closeness = |row: &Row| there.get(row).map(|vector| SIMILARITY.closeness(&query, vector));
            let mut exact: Vec<&Row> = there.keys().collect();
            exact.sort_by(|left, right| closeness(right).unwrap().total_cmp(&closeness(left).unwrap()));
            // As many as are compared for ten.
            let mut handed = self.search(&query, 31).unwrap();
            handed.retain(|row| there.contains_key(row));
            handed.sort_by(|left, right| closeness(right).unwrap().total_cmp(&closeness(left).unwrap()));
            handed.truncate(10);
            wanted += exact.iter().take(10).count();
            found += exact.iter().take(10).filter(|row| handed.contains(row)).count();
        }
        f64::from(found as u32) / f64::from(wanted as u32)
    }
}

pub fn number_cell(number: i32, timestamp_us: i64) -> Cell {
    cell(
        NUMBER.0,
        number.to_be_bytes().to_vec(),
        timestamp_us,
        (0, NEVER_S),
    )
}

fn cell(column: u16, value: Vec<u8>, timestamp_us: i64, (ttl_s, local_deletion_s): (u32, u32)) -> Cell {
    Cell {
        key: (column, None),
        timestamp_us,
        ttl_s,
        local_deletion_s,
        value,
    }
}

/// A search by the index of vectors.
pub fn request<'q>(
    table: &TableMetadata,
    query: &'q [f32],
    predicates: &'q [IndexPredicate],
) -> Option<NearestRequest<'q>> {
    Some(NearestRequest {
        table: table.id,
        index: table.vector_index(TEXT)?.id,
        vector: query,
        count: 10,
        predicates,
    })
}

pub fn key_of(number: u64) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

#[test]
fn every_row_with_a_vector_is_found_through_everything_that_happens() {
    for seed in 0..6 {
        let mut random = Random::new(seed);
        let mut sample = Sample::descriptors(DIMENSION, 5, seed);
        let mut node = Indexed::start(true, StoreOptions::default());
        for round in 0..120 {
            let (key, row) = (key_of(random.below(12)), random.below(20) as i32);
            // Not always the newest.
            let timestamp_us = round * 10 + random.below(40) as i64;
            match random.below(20) {
                0 => node.delete(&key, row, timestamp_us),
                1 => node.write(&key, row, None, timestamp_us, 0),
                2 => node.apply(
                    &key,
                    &Write::Partition(DeletionTime {
                        timestamp_us,
                        local_s: node.now_s,
                    }),
                ),
                3 => node.flush(),
                4 => node.compact(),
                5 => {
                    node.run_jobs();
                    node.open();
                    assert!(
                        node.search(&sample.vector(), 1)
                            .is_none_or(|rows| rows.len() <= 1)
                    );
                }
                6 => {
                    // Clocks go back, too.
                    node.now_s = (node.now_s + 30).saturating_sub(random.below(50) as u32);
                }
                7 => node.tend(random.below(4) as usize),
                ttl => {
                    let ttl_s = if ttl < 12 { random.below(60) as u32 } else { 0 };
                    let vector = sample.vector();
                    node.write(&key, row, Some(&vector), timestamp_us, ttl_s);
                }
            }
            if round % 5 == 4 {
                let query = sample.vector();
                if node.search(&query, 1).is_none() {
                    node.tend(10_000);
                }
                node.check_all_found(&query, &format!("seed {seed}, round {round}"));
            }
        }
    }
}

/// An index that is made on data, one that lost its memory, and one that is fed while it is filled.
#[test]
fn an_index_says_nothing_before_it_has_all_rows() {
    let mut sample = Sample::descriptors(DIMENSION, 5, 1);
    let mut node = Indexed::start(false, StoreOptions::default());
    for number in 0..300 {
        let vector = sample.vector();
        node.write(&key_of(number), 0, Some(&vector), 1, 0);
    }
    node.flush();
    node.alter(true);
    let query = sample.vector();
    assert!(node.search(&query, 1).is_none());
    let fill = node.store().begin_vector_fill().unwrap();
    node.fill(fill);
    assert!(node.search(&query, 1).is_none(), "256 of 300 rows");
    for number in 250..350 {
        let vector = sample.vector();
        node.write(&key_of(number), 0, Some(&vector), 2, 0);
    }
    node.tend(usize::MAX);
    node.check_all_found(&query, "filled");
    node.run_jobs();
    node.open();
    assert!(node.search(&query, 1).is_none(), "after a start");
    node.tend(usize::MAX);
    node.check_all_found(&query, "filled after a start");
    let id = node.table.id;
    assert!(matches!(node.store().truncate(id), Err(TruncateError::Busy)));
    node.run_jobs();
    node.store().truncate(id).unwrap();
    assert_eq!(node.search(&query, usize::MAX), Some(Vec::new()));
    node.alter(false);
    assert!(node.search(&query, 1).is_none());
    assert!(!node.store().has_vectors());
}

#[test]
fn an_index_that_takes_too_much_memory_is_not_kept() {
    let options = StoreOptions {
        vector_bytes_max: 1 << 20,
        ..StoreOptions::default()
    };
    let mut sample = Sample::descriptors(DIMENSION, 5, 1);
    let mut node = Indexed::start(true, options);
    let query = sample.vector();
    for number in 0..12_000 {
        let vector = sample.vector();
        node.write(&key_of(number), 0, Some(&vector), 1, 0);
        node.tend(1);
        assert!(node.store().vector_bytes() < 3 << 19);
    }
    assert!(node.search(&query, 1).is_none());
    assert_eq!(node.store().vector_bytes(), 0);
}

/// A hundred thousand vectors, written at once and asked for without a pause, were linked in a tenth of the shard's time: each search
/// went through them one by one for minutes.
#[test]
fn linking_is_owed_what_searches_spend_on_what_is_not_linked() {
    const COUNT: u64 = 3_000;
    let mut sample = Sample::descriptors(DIMENSION, 5, 1);
    let mut node = Indexed::start(true, StoreOptions::default());
    for number in 0..COUNT {
        let vector = sample.vector();
        node.write(&key_of(number), 0, Some(&vector), 1, 0);
    }
    assert!(
        matches!(node.store().tend_vectors(), Tended::Some),
        "nobody has searched"
    );
    let unlinked = node.store().unlinked_vectors();
    for _ in 0..10 {
        let query = sample.vector();
        assert!(node.search(&query, 1).is_some());
    }
    let mut units = 0;
    while matches!(node.store().tend_vectors(), Tended::Owing) {
        units += 2_048;
    }
    let passed = 10 * unlinked;
    assert!(
        units <= passed && units + 2 * 2_048 >= passed,
        "{units} of {passed}"
    );
    assert!(node.store().unlinked_vectors() > 0);
}

/// With lists of neighbours of one extent, and 32 bytes for the place of a row, it took 190 bytes more.
#[test]
fn links_and_row_of_a_vector_take_a_hundred_bytes_beside_its_code() {
    const COUNT: usize = 12_000;
    const CODE_BYTES: usize = 16 + DIMENSION;
    let mut sample = Sample::descriptors(DIMENSION, 50, 7);
    let mut node = Indexed::start(true, StoreOptions::default());
    for number in 0..COUNT as u32 {
        let vector = sample.vector();
        node.write(&number.to_be_bytes(), 0, Some(&vector), i64::from(number), 0);
    }
    node.tend(usize::MAX);
    let bytes = node.store().vector_bytes() / COUNT - CODE_BYTES;
    assert!(bytes <= 110, "{bytes}");
}

#[test]
fn recall_stays_through_deletions_and_overwrites_and_a_graph_is_renewed() {
    let mut sample = Sample::descriptors(DIMENSION, 20, 3);
    let mut node = Indexed::start(true, StoreOptions::default());
    for number in 0..3_000 {
        let vector = sample.vector();
        node.write(&key_of(number), 0, Some(&vector), 1, 0);
    }
    let at_once = node.recall(&mut sample);
    assert!(at_once >= 0.95, "before anything is linked: {at_once}");
    node.tend(usize::MAX);
    let linked = node.recall(&mut sample);
    assert!(linked >= 0.95, "linked: {linked}");
    for number in 0..3_000 {
        match number % 10 {
            0..3 => node.delete(&key_of(number), 0, 2),
            3..6 => {
                let vector = sample.vector();
                node.write(&key_of(number), 0, Some(&vector), 2, 0);
            }
            _ => {}
        }
        if number % 100 == 0 {
            node.tend(1);
        }
    }
    let changed = node.recall(&mut sample);
    assert!(changed >= 0.94, "deleted and overwritten: {changed}");
    let before = node.store().vector_bytes();
    node.tend(usize::MAX);
    assert!(
        node.store().vector_bytes() < before,
        "what was removed is still kept"
    );
    let renewed = node.recall(&mut sample);
    assert!(renewed >= 0.94, "renewed: {renewed}");
    node.flush();
    node.compact();
    let query = sample.vector();
    node.check_all_found(&query, "compacted");
}
