//! Life of indexes: made on data, damaged, dropped, emptied, and what they cost.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use helenus_index::IndexPredicate;
use helenus_rows::clustering::Slice;
use helenus_rows::deletion::{DeletionTime, NEVER_S};
use helenus_rows::partition_range::PartitionRange;
use helenus_rows::row::{CellRef, Liveness};
use helenus_rows::update::{Update, UpdateBuilder};
use helenus_schema::{IndexTarget, Schema, TableMetadata, TableParams};
use helenus_storage::ShardStore;
use helenus_storage::commitlog::LogWriter;
use helenus_storage::error::TruncateError;
use helenus_storage::read::ReadCommand;
use helenus_storage::read_state::{ReadProgress, ReadState};
use helenus_storage::store::{
    CompactionKind, CompactionRequest, DataFolder, IndexStatus, JobKind, StoreOptions,
};
use helenus_vfs::{Clock, Disk, ManualClock, SeededRandom, SimulatedDisk};

use super::check::Collected;
use super::indexed::{Wanted, compare, read};
use super::naive::{Cell, RowWrite, Write};
use super::table::{self, NUMBER, TEXT, index, schema_of};
use super::writes::Writer;

struct Indexed {
    disk: Arc<SimulatedDisk>,
    clock: Arc<ManualClock>,
    schema: Schema,
    table: Arc<TableMetadata>,
    shards: Vec<(ShardStore, LogWriter)>,
}

fn schema(numbers: &[u128], is_compressed: bool) -> Schema {
    let mut params = TableParams::default();
    if !is_compressed {
        params.compression = BTreeMap::from([("enabled".to_owned(), "false".to_owned())]);
    }
    let mut table = table::table(params);
    for number in numbers {
        let column = if number % 2 == 0 { TEXT } else { NUMBER };
        table.add_index(index(
            *number,
            &format!("index{number}"),
            column,
            IndexTarget::Simple,
        ));
    }
    schema_of(table)
}

impl Indexed {
    fn start(numbers: &[u128]) -> Self {
        Self::start_with(schema(numbers, true))
    }

    fn start_with(schema: Schema) -> Self {
        let table = Arc::clone(schema.tables().next().unwrap());
        let mut node = Indexed {
            disk: Arc::new(SimulatedDisk::new(9)),
            clock: Arc::new(ManualClock::starting_at(1_000_000_000)),
            table,
            schema,
            shards: Vec::new(),
        };
        node.open(1);
        node
    }

    fn open(&mut self, shard_count: u16) {
        self.shards.clear();
        let clock: Arc<dyn Clock> = Arc::clone(&self.clock) as _;
        let disk: Arc<dyn Disk> = Arc::clone(&self.disk) as _;
        let folder = DataFolder::open(disk, clock, Path::new("/node")).unwrap();
        let options = StoreOptions {
            // Most reads take several steps.
            read_step_units_max: 40,
            ..StoreOptions::default()
        };
        let opened = folder.open_shards(&options, shard_count, &self.schema).unwrap();
        self.shards = opened.shards;
    }

    fn alter(&mut self, numbers: &[u128]) {
        self.schema = schema(numbers, true);
        self.table = Arc::clone(self.schema.tables().next().unwrap());
        for (store, _) in &mut self.shards {
            store.set_schema(&self.schema);
        }
    }

    fn write(&mut self, key: &[u8], row: i32, number: i32) {
        let cell = |column: helenus_schema::ColumnId, value: Vec<u8>| Cell {
            key: (column.0, None),
            timestamp_us: 1,
            ttl_s: 0,
            local_deletion_s: NEVER_S,
            value,
        };
        let write = RowWrite {
            liveness: Liveness {
                timestamp_us: 1,
                ttl_s: 0,
                expires_at_s: NEVER_S,
            },
            deletion: DeletionTime::LIVE,
            complex_deletion: None,
            cells: vec![
                cell(NUMBER, number.to_be_bytes().to_vec()),
                cell(TEXT, format!("text {number}").into_bytes()),
            ],
        };
        let bytes = Write::Row((row, 0), write).encode(self.table.id, key);
        self.apply(&bytes);
    }

    fn apply(&mut self, bytes: &[u8]) {
        let update = Update::decode(bytes).unwrap();
        let token = helenus_types::token_of(update.partition_key);
        let shard = helenus_types::shard_of(token, self.shards.len() as u16);
        self.shards[usize::from(shard.0)].0.apply(&update).unwrap();
    }

    fn run_jobs(&mut self) -> Vec<JobKind> {
        let mut kinds = Vec::new();
        self.clock.advance_s(1);
        for (store, writer) in &mut self.shards {
            if let Some(batch) = store.take_log_batch() {
                let result = writer.persist(&batch, true);
                if writer.wants_tending() {
                    writer.segment_files().tend().unwrap();
                }
                store.log_batch_done(batch, &result);
            }
            while let Some(job) = store.next_job() {
                kinds.push(job.progress().kind);
                store.complete(job.run()).result.unwrap();
            }
        }
        kinds
    }

    fn flush(&mut self) -> Vec<JobKind> {
        self.shards.iter_mut().for_each(|(store, _)| store.flush(None));
        self.run_jobs()
    }

    fn command<'a>(&'a self, slices: &'a [Slice]) -> ReadCommand<'a> {
        ReadCommand {
            table: &self.table,
            partitions: PartitionRange::everything(),
            slices,
            reversed: false,
            now_s: 1_000,
            index: &[],
        }
    }

    /// How many rows have a number, and how many an index gave for it.
    fn ask(&mut self, number: i32) -> (usize, usize) {
        let wanted = [Wanted::equal(&self.table.indexes[0], &number.to_be_bytes())];
        let mut shards = std::mem::take(&mut self.shards);
        let slices = [Slice::all()];
        let counts = shards
            .iter_mut()
            .map(|(store, _)| compare(store, &self.command(&slices), &wanted, true))
            .fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1));
        self.shards = shards;
        counts
    }

    fn statuses(&mut self) -> Vec<IndexStatus> {
        let (table, index) = (self.table.id, self.table.indexes[0].id);
        let shards = self.shards.iter_mut();
        shards
            .map(|(store, _)| store.index_status(table, index).unwrap())
            .collect()
    }

    fn term_files(&self) -> Vec<PathBuf> {
        let folder = Path::new("/node/data/ks").join("t-12345678000010008000000000000001");
        let entries = self.disk.list(&folder).unwrap_or_default().into_iter();
        let names = entries
            .map(|entry| entry.name)
            .filter(|name| name.starts_with("index-"));
        names.map(|name| folder.join(name)).collect()
    }

    fn fill(&mut self) {
        for file in 0..2 {
            for key in 0..20_u8 {
                for row in 0..10 {
                    self.write(&[key, 1], row + 10 * file, i32::from(key) * 10 + row);
                }
            }
            if file == 0 {
                self.flush();
            }
        }
    }
}

#[test]
fn an_index_made_on_data_is_built_in_the_background() {
    let mut node = Indexed::start(&[]);
    node.fill();
    node.alter(&[1]);
    assert_eq!(node.statuses(), [IndexStatus::Building]);
    // Writes that come before it is ready are in it, too.
    node.write(b"late", 1, 55);
    assert_eq!(node.ask(55), (3, 401), "a scan until it is ready");
    let kinds = node.run_jobs();
    assert!(
        kinds.contains(&JobKind::Flush) && kinds.contains(&JobKind::IndexBuild),
        "{kinds:?}"
    );
    assert_eq!(node.statuses(), [IndexStatus::Ready]);
    assert_eq!(node.ask(55), (3, 3));
    assert_eq!(node.ask(-1), (0, 0));
    node.flush();
    assert_eq!(node.ask(55), (3, 3));
    node.open(1);
    assert_eq!(
        (node.statuses(), node.ask(55)),
        (vec![IndexStatus::Ready], (3, 3))
    );
    assert!(
        !node.run_jobs().contains(&JobKind::IndexBuild),
        "files are found again"
    );
}

#[test]
fn other_numbers_of_shards_take_files_along_or_make_them_again() {
    let mut node = Indexed::start(&[1]);
    node.fill();
    node.flush();
    for shard_count in [3, 1, 4] {
        node.open(shard_count);
        assert_eq!(node.ask(55).0, 2);
        node.run_jobs();
        assert_eq!(node.ask(55), (2, 2), "{shard_count} shards");
    }
}

#[test]
fn dropped_indexes_and_emptied_tables_leave_no_files() {
    let mut node = Indexed::start(&[1, 2]);
    node.fill();
    node.flush();
    assert_eq!(node.term_files().len(), 4);
    node.alter(&[2]);
    node.run_jobs();
    assert_eq!(node.term_files().len(), 2);
    // Made again under its name it is another.
    node.alter(&[2, 3]);
    assert_eq!(node.run_jobs(), [JobKind::IndexBuild, JobKind::IndexBuild]);
    assert_eq!(node.term_files().len(), 4);
    let request = CompactionRequest {
        table: node.table.id,
        kind: CompactionKind::Major { split_output: false },
    };
    node.shards[0].0.compact(request).unwrap();
    node.run_jobs();
    assert_eq!(node.term_files().len(), 2, "those of one SSTable");
    let id = node.table.id;
    assert!(matches!(node.shards[0].0.truncate(id), Err(TruncateError::Busy)));
    node.run_jobs();
    node.shards[0].0.truncate(id).unwrap();
    assert_eq!(node.term_files(), Vec::<PathBuf>::new());
    node.fill();
    node.flush();
    node.shards[0].0.set_schema(&Schema::default());
    node.run_jobs();
    assert_eq!(node.term_files(), Vec::<PathBuf>::new());
}

/// A file that is missing, cut or flipped anywhere is found out, done without and made again.
#[test]
fn damaged_files_are_done_without_and_made_again() {
    let mut node = Indexed::start(&[1]);
    node.fill();
    node.flush();
    let [file, other] = &node.term_files()[..] else {
        panic!("one for each SSTable")
    };
    let (file, other) = (file.clone(), other.clone());
    let length = node.disk.open(&file).unwrap().length().unwrap();
    for at in (0..length).step_by(97) {
        node.disk.flip_bit(&file, at * 8 + at % 8).unwrap();
        // Open files: the damage is met by a query. Files to be opened: by the start.
        if at % 2 == 0 {
            node.open(1);
        } else {
            node.shards[0].0.clear_caches();
        }
        for number in [0, 55, 130, 199] {
            assert_eq!(node.ask(number).0, 2);
        }
        node.run_jobs();
        assert_eq!(node.ask(55), (2, 2), "byte {at}");
        if at % 2 == 1 {
            // Damage where nobody has looked.
            node.disk.remove(&file).unwrap();
            node.open(1);
            assert_eq!(node.ask(55).0, 2);
            node.run_jobs();
        }
    }
    let leftover = file.with_file_name("index-00000000000000000000000000000001-da-999-bti.db");
    node.disk.create(&leftover).unwrap();
    let other_index = other.with_file_name(other.file_name().unwrap().to_str().unwrap().replace("1-", "7-"));
    node.disk.rename(&other, &other_index).unwrap();
    node.open(1);
    for gone in [&leftover, &other_index, &other] {
        assert!(
            !node.disk.exists(gone).unwrap(),
            "what belongs to nothing is removed"
        );
    }
    assert_eq!(node.ask(55).0, 2);
}

#[test]
fn after_a_major_compaction_indexes_give_what_matches_and_nothing_else() {
    let mut node = Indexed::start(&[1]);
    node.fill();
    for key in 0..20_u8 {
        // Overwritten: both say so, until one of them is gone.
        let mut bytes = Vec::new();
        let liveness = Liveness::NONE;
        let table = node.table.id;
        UpdateBuilder::new(&mut bytes, table, &[key, 1], DeletionTime::LIVE).row(
            &table::packed(&[3, 0]),
            liveness,
            DeletionTime::LIVE,
            |row| {
                row.cell(CellRef {
                    column: NUMBER,
                    timestamp_us: 2,
                    ttl_s: 0,
                    local_deletion_s: NEVER_S,
                    path: None,
                    value: &1000_i32.to_be_bytes(),
                });
            },
        );
        node.apply(&bytes);
    }
    node.flush();
    assert_eq!(node.ask(13), (1, 2));
    assert_eq!(node.ask(1000), (20, 20));
    let request = CompactionRequest {
        table: node.table.id,
        kind: CompactionKind::Major { split_output: false },
    };
    node.shards[0].0.compact(request).unwrap();
    node.run_jobs();
    assert_eq!((node.ask(13), node.ask(1000)), ((1, 1), (20, 20)));
}

/// Keys of more than a kilobyte lead to their partition or token; a partition of thousands of matches is read in steps.
#[test]
fn long_keys_and_wide_partitions_are_found() {
    let mut node = Indexed::start(&[1]);
    let long = vec![7_u8; 5000];
    for flushed in [false, true] {
        for row in 0..3 {
            node.write(&long, row, 5);
            node.write(&[8; 1000], row, 6);
        }
        for row in 0..3000 {
            node.write(b"wide", row, row % 2);
        }
        if flushed {
            node.flush();
        }
        assert_eq!(node.ask(5), (3, 3));
        assert_eq!(node.ask(6), (3, 3));
        assert_eq!(node.ask(1), (1500, 1500));
        assert_eq!(node.ask(0), (1500, 1500));
    }
}

/// Rows of `rows` in one SSTable, each with a number of its own.
fn compacted(rows: i32) -> Indexed {
    let mut node = Indexed::start(&[1]);
    for number in 0..rows {
        node.write(&number.to_be_bytes(), 0, number * 3);
    }
    node.flush();
    let request = CompactionRequest {
        table: node.table.id,
        kind: CompactionKind::Major { split_output: false },
    };
    node.shards[0].0.compact(request).unwrap();
    node.run_jobs();
    node.open(1);
    node
}

/// Cost of a read that found nothing in memory.
#[derive(Debug, Default)]
struct ColdCost {
    reads: u32,
    term_reads: u32,
    bytes: usize,
    rows: usize,
}

impl Indexed {
    fn ask_cold(&mut self, predicates: &[IndexPredicate], mut state: ReadState) -> ColdCost {
        let slices = [Slice::all()];
        let mut shards = std::mem::take(&mut self.shards);
        let command = ReadCommand {
            index: predicates,
            ..self.command(&slices)
        };
        let store = &mut shards[0].0;
        store.clear_caches();
        let mut collected = Collected::default();
        let mut cost = ColdCost::default();
        loop {
            match store.read_step(&command, &mut state, &mut collected).unwrap() {
                ReadProgress::Done => break,
                ReadProgress::Yield => {}
                ReadProgress::Absent(absent) => {
                    let stored = absent.read().unwrap();
                    (cost.reads, cost.bytes) = (cost.reads + 1, cost.bytes + stored.len());
                    let name = absent.path().file_name().unwrap().to_str().unwrap();
                    cost.term_reads += u32::from(name.starts_with("index-"));
                    store.deliver(&state, &absent, &stored).unwrap();
                }
            }
        }
        cost.rows = collected.end().len();
        self.shards = shards;
        cost
    }
}

/// Goal of the brief: at most 4 reads and 24 KiB for a row that nobody has asked for.
#[test]
fn a_cold_row_is_four_reads_away() {
    let mut node = compacted(20_000);
    let mut costs = Vec::new();
    for number in (0..60_000).step_by(3 * 401) {
        let wanted = Wanted::equal(&node.table.indexes[0], &i32::to_be_bytes(number));
        let predicates = [wanted.predicate(&node.table)];
        let cost = node.ask_cold(&predicates, ReadState::suspending());
        assert_eq!(cost.rows, 1);
        assert!(cost.term_reads <= 2, "{cost:?}");
        costs.push((cost.reads, cost.bytes));
    }
    // A row in two chunks of Data.db, or one whose key is in two pages of Index.db, takes a fifth.
    let over = costs
        .iter()
        .filter(|(reads, bytes)| *reads > 4 || *bytes > 24 << 10);
    assert!(over.count() * 10 <= costs.len(), "{costs:?}");
}

/// A flush takes over the terms of its memtable, but not where most of them are of values that were overwritten there.
#[test]
fn what_was_overwritten_in_a_memtable_is_not_in_the_terms_of_its_file() {
    let mut node = Indexed::start(&[1]);
    for number in 0..500 {
        node.write(&[1], 0, number);
    }
    // The greatest value of one timestamp stays.
    assert_eq!(node.ask(499), (1, 1));
    assert_eq!(node.ask(7).0, 0);
    node.flush();
    assert_eq!(node.ask(499), (1, 1));
    let terms = &node.term_files()[0];
    let bytes = node.disk.open(terms).unwrap().length().unwrap();
    assert!(bytes < 12 << 10, "{bytes} bytes of terms for one row");
}

/// A memtable counts what its indexes take against its bound.
#[test]
fn terms_in_memory_are_counted() {
    let bytes_of = |numbers: &[u128]| {
        let mut node = Indexed::start(numbers);
        node.fill();
        node.shards[0].0.memtable_bytes()
    };
    let (plain, indexed) = (bytes_of(&[]), bytes_of(&[1]));
    assert!(indexed > plain + 200 * 40, "{plain} and {indexed}");
}

/// Where cursors stopped differed from step to step, and so did the pages that each step used: those that one step had no use for
/// went, and were what the next one lacked, for ever.
#[test]
fn a_read_of_large_rows_in_many_files_ends_whatever_stays_in_memory() {
    // Four of them did not end.
    for seed in 0..10 {
        let writer = Writer {
            random: SeededRandom::new(seed),
            key_bound: 10,
            timestamp_from_us: 1,
            timestamp_spread_us: 60,
            is_plain: false,
        };
        let mut node = Indexed::start_with(schema(&[1], false));
        for _ in 0..3 {
            for _ in 0..120 {
                let mut write = writer.write();
                if matches!(write, Write::Partition(_)) {
                    continue;
                }
                if let Write::Row(_, row) = &mut write {
                    let texts = row.cells.iter_mut().filter(|cell| cell.key.0 == TEXT.0);
                    for cell in texts.filter(|cell| !cell.value.is_empty()) {
                        let length = [40, 400, 1_500, 5_000][writer.below(4) as usize];
                        cell.value = (0..length).map(|_| b'a' + writer.below(26) as u8).collect();
                    }
                }
                let bytes = write.encode(node.table.id, b"k");
                node.apply(&bytes);
            }
            node.flush();
        }
        let wanted = Wanted::equal(&node.table.indexes[0], &1_i32.to_be_bytes());
        let predicates = [wanted.predicate(&node.table)];
        let mut shards = std::mem::take(&mut node.shards);
        let slices = [Slice::all()];
        let command = ReadCommand {
            index: &predicates,
            ..node.command(&slices)
        };
        let store = &mut shards[0].0;
        let (mut state, mut collected) = (ReadState::suspending(), Collected::default());
        state.bypass_cache();
        let mut steps = 0;
        loop {
            steps += 1;
            assert!(steps < 100, "seed {seed}");
            match store.read_step(&command, &mut state, &mut collected).unwrap() {
                ReadProgress::Done => break,
                ReadProgress::Yield => {}
                ReadProgress::Absent(absent) => {
                    let stored = absent.read().unwrap();
                    store.deliver(&state, &absent, &stored).unwrap();
                }
            }
        }
        assert_eq!(collected.end(), read(store, &command, false), "seed {seed}");
    }
}

/// `WHERE id = ? AND time > ?` gathered up to 16,384 places of the range, for the one row that the equality leads to.
#[test]
fn a_range_beside_a_value_of_few_rows_is_not_gathered() {
    let mut node = compacted(20_000);
    let index = Arc::clone(&node.table.indexes[0]);
    let all = Wanted::range(&index, 0, 40_000);
    for number in (0..40_000).step_by(3 * 401) {
        let one = Wanted::equal(&index, &i32::to_be_bytes(number)).predicate(&node.table);
        let both = [all.predicate(&node.table), one.clone()];
        let alone = node.ask_cold(&[one], ReadState::suspending());
        let cost = node.ask_cold(&both, ReadState::suspending());
        assert_eq!((cost.rows, cost.reads), (1, alone.reads), "{number}: {cost:?}");
        let mut asking = ReadState::suspending();
        asking.ask_all_indexes();
        let asked = node.ask_cold(&both, asking);
        assert_eq!(asked.rows, 1, "{number}");
        assert!(asked.bytes > 8 * cost.bytes, "{number}: {asked:?}");
    }
}
