//! Truncating, dropping and altering tables, and tables that are not logged.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use helenus_rows::clustering::Slice;
use helenus_rows::deletion::{DeletionTime, NEVER_S};
use helenus_rows::partition_range::PartitionRange;
use helenus_rows::row::Liveness;
use helenus_rows::update::Update;
use helenus_schema::{Schema, TableParams};
use helenus_sstable::{Component, OpenError, finished_sstables};
use helenus_storage::ShardStore;
use helenus_storage::commitlog::{LogOptions, LogPosition, LogWriter};
use helenus_storage::error::{TruncateError, WriteError};
use helenus_storage::read::ReadCommand;
use helenus_storage::store::{
    BackgroundJob, CompactionKind, CompactionRequest, DataFolder, JobKind, StoreOptions,
};
use helenus_vfs::{Clock, Disk, Fault, FaultKind, ManualClock, Operation, SimulatedDisk};

use super::check::Collected;
use super::naive::{RowWrite, Write};
use super::table;

const SEGMENT_BYTES: u32 = 65_536;

struct Tables {
    disk: Arc<SimulatedDisk>,
    clock: Arc<ManualClock>,
    schema: Schema,
    store: ShardStore,
    writer: LogWriter,
}

impl Tables {
    fn start(schema: Schema) -> Self {
        let disk = Arc::new(SimulatedDisk::new(5));
        let clock = Arc::new(ManualClock::starting_at(1_000_000_000));
        let (store, writer) = open(&disk, &clock, &schema);
        Tables {
            disk,
            clock,
            schema,
            store,
            writer,
        }
    }

    fn write(&mut self, number: i32) -> Result<(), WriteError> {
        let row = RowWrite {
            liveness: Liveness {
                timestamp_us: 1,
                ttl_s: 0,
                expires_at_s: NEVER_S,
            },
            deletion: DeletionTime::LIVE,
            complex_deletion: None,
            cells: Vec::new(),
        };
        let bytes = Write::Row((number, 0), row).encode(self.id(), b"key");
        self.store.apply(&Update::decode(&bytes).unwrap()).map(drop)
    }

    fn id(&self) -> helenus_schema::TableId {
        table::schema(TableParams::default()).tables().next().unwrap().id
    }

    fn rows(&mut self) -> usize {
        let schema = table::schema(TableParams::default());
        let table = schema.tables().next().unwrap();
        let slices = [Slice::all()];
        let partitions = PartitionRange::everything();
        let command = ReadCommand {
            table,
            partitions,
            slices: &slices,
            reversed: false,
            now_s: 1,
            index: &[],
        };
        let mut collected = Collected::default();
        self.store.read(&command, &mut collected).unwrap();
        collected
            .partitions
            .iter()
            .map(|(_, answer)| answer.rows.len())
            .sum()
    }

    fn persist(&mut self) {
        while let Some(batch) = self.store.take_log_batch() {
            let result = self.writer.persist(&batch, true);
            if self.writer.wants_tending() {
                self.writer.segment_files().tend().unwrap();
            }
            self.store.log_batch_done(batch, &result);
            result.unwrap();
        }
    }

    fn run_jobs(&mut self) -> Vec<JobKind> {
        let mut kinds = Vec::new();
        while let Some(job) = self.store.next_job() {
            kinds.push(job.progress().kind);
            self.store.complete(job.run()).result.unwrap();
        }
        kinds
    }

    /// As a node does: looks again whenever a job has ended. No look may touch the disk.
    fn truncate(&mut self) -> Result<LogPosition, TruncateError> {
        let id = self.id();
        loop {
            let truncated = without_the_disk(&self.disk, || self.store.truncate(id));
            match truncated {
                Err(TruncateError::Busy) => {
                    let job = self.store.next_short_job().expect("what it waits for");
                    let result = job.run();
                    without_the_disk(&self.disk, || drop(self.store.complete(result)));
                }
                truncated => return truncated,
            }
        }
    }

    fn crash(mut self) -> Self {
        self.disk.crash();
        drop((self.store, self.writer));
        (self.store, self.writer) = open(&self.disk, &self.clock, &self.schema);
        self
    }

    fn files(&self) -> usize {
        self.disk.list(&folder()).map_or(0, |entries| entries.len())
    }
}

/// Where the table's SSTables are.
fn folder() -> PathBuf {
    Path::new("/node/data/ks").join("t-12345678000010008000000000000001")
}

/// Does work of a shard between two requests, which must not wait for the disk.
fn without_the_disk<T>(disk: &SimulatedDisk, work: impl FnOnce() -> T) -> T {
    let before = disk.usage();
    let done = work();
    assert_eq!(disk.usage(), before);
    done
}

fn open(disk: &Arc<SimulatedDisk>, clock: &Arc<ManualClock>, schema: &Schema) -> (ShardStore, LogWriter) {
    let clock = Arc::clone(clock) as Arc<dyn Clock>;
    let folder = DataFolder::open(Arc::clone(disk) as Arc<dyn Disk>, clock, Path::new("/node")).unwrap();
    let log = LogOptions {
        segment_bytes: SEGMENT_BYTES,
        ..LogOptions::default()
    };
    let options = StoreOptions {
        log,
        ..StoreOptions::default()
    };
    folder
        .open_shards(&options, 1, schema)
        .unwrap()
        .shards
        .pop()
        .unwrap()
}

/// One damaged file kept the node from starting, and with it all that was whole.
#[test]
fn sstables_that_do_not_open_are_refused_by_name_and_the_rest_is_served() {
    let mut tables = Tables::start(table::schema(TableParams::default()));
    for key in 1..=3 {
        tables.write(key).unwrap();
        tables.persist();
        tables.store.flush(None);
        tables.run_jobs();
    }
    assert_eq!(tables.rows(), 3);
    let id = tables.id();
    let folder = tables.store.sstables(id)[0].directory().to_path_buf();
    let Tables {
        disk,
        schema,
        store,
        writer,
        ..
    } = tables;
    drop((store, writer));
    let mut found = finished_sstables(&*disk, &folder).unwrap();
    assert_eq!(found.len(), 3);
    let lacking = found.remove(0).path(&folder, Component::Statistics);
    disk.remove(&lacking).unwrap();
    let foreign = folder.join("zz-9-big-Data.db");
    disk.create(&foreign).unwrap();

    let clock: Arc<dyn Clock> = Arc::new(ManualClock::starting_at(1_000_000_000));
    let data = DataFolder::open(Arc::clone(&disk) as Arc<dyn Disk>, clock, Path::new("/node")).unwrap();
    let opened = data.open_shards(&StoreOptions::default(), 1, &schema).unwrap();
    let (store, _writer) = &opened.shards[0];
    let served: Vec<_> = store
        .sstables(id)
        .iter()
        .map(|sstable| sstable.descriptor())
        .collect();
    assert!(found.iter().all(|descriptor| served.contains(descriptor)));
    let refused = data.refused_sstables();
    let reasons: Vec<_> = refused.iter().map(|refused| &refused.reason).collect();
    assert!(
        matches!(&reasons[..], [OpenError::ForeignVersion { file, version }, OpenError::MissingComponent { file: lacked }]
            if *file == foreign && version == "zz" && *lacked == lacking),
        "{reasons:?}"
    );
    assert!(disk.exists(&foreign).unwrap(), "what is refused stays");
}

#[test]
fn a_truncated_table_stays_empty() {
    let mut tables = Tables::start(table::schema(TableParams::default()));
    tables.write(1).unwrap();
    tables.persist();
    tables.store.flush(None);
    assert_eq!(tables.run_jobs(), [JobKind::Flush, JobKind::Release]);
    tables.write(2).unwrap();
    tables.persist();
    assert_eq!(tables.rows(), 2);
    let position = tables.truncate().unwrap();
    assert_eq!(tables.rows(), 0);
    assert!(tables.store.durable() < position);
    tables.persist();
    assert!(tables.store.durable() >= position);
    tables.write(3).unwrap();
    tables.persist();
    let mut tables = tables.crash();
    assert_eq!(tables.rows(), 1, "what was written after it");
}

/// After TRUNCATE was acknowledged and the node had crashed, rows were back: in the SSTable of a flush that was under way.
#[test]
fn a_truncation_waits_for_the_flush_under_way() {
    let mut tables = Tables::start(table::schema(TableParams::default()));
    tables.write(1).unwrap();
    tables.persist();
    tables.store.flush(None);
    let job = tables.store.next_job().unwrap();
    assert!(matches!(
        tables.store.truncate(tables.id()),
        Err(TruncateError::Busy)
    ));
    assert_eq!(tables.rows(), 1);
    // The truncation has told the flush to stop, and holds the next one back.
    tables.store.complete(job.run());
    assert!(!tables.run_jobs().contains(&JobKind::Flush));
    tables.truncate().unwrap();
    tables.persist();
    assert_eq!(tables.rows(), 0);
    let mut tables = tables.crash();
    assert_eq!(tables.rows(), 0);
}

#[test]
fn a_truncation_that_is_given_up_lets_flushes_go_on() {
    let mut tables = Tables::start(table::schema(TableParams::default()));
    tables.write(1).unwrap();
    tables.persist();
    tables.store.flush(None);
    let job = tables.store.next_job().unwrap();
    assert!(matches!(
        tables.store.truncate(tables.id()),
        Err(TruncateError::Busy)
    ));
    tables.store.truncation_given_up(tables.id());
    tables.store.complete(job.run());
    assert!(!tables.store.is_flushing() || tables.run_jobs().contains(&JobKind::Flush));
    assert_eq!(tables.rows(), 1);
}

#[test]
fn a_dropped_table_leaves_nothing() {
    let mut tables = Tables::start(table::schema(TableParams::default()));
    tables.write(1).unwrap();
    tables.persist();
    tables.store.flush(None);
    tables.run_jobs();
    assert!(tables.files() > 5);
    tables.write(2).unwrap();
    tables.schema = Schema::default();
    without_the_disk(&tables.disk, || tables.store.set_schema(&tables.schema));
    assert!(!tables.store.are_drops_listed());
    assert!(matches!(tables.write(3), Err(WriteError::UnknownTable { .. })));
    // Their list comes first, whose durability a DROP waits for.
    let list = tables.store.next_job().unwrap();
    assert_eq!(list.progress().kind, JobKind::Removal);
    let listed = list.run();
    assert!(!tables.store.are_drops_listed());
    tables.store.complete(listed).result.unwrap();
    assert!(tables.store.are_drops_listed() && tables.files() > 5);
    let id = table::schema(TableParams::default()).tables().next().unwrap().id;
    assert!(matches!(tables.store.is_forgotten(id), Ok(false)));
    // What was in memory counts until it is freed, which comes next.
    assert!(tables.store.memtable_bytes() > 0);
    let release = tables.store.next_job().unwrap();
    assert_eq!(release.progress().kind, JobKind::Release);
    tables.store.complete(release.run()).result.unwrap();
    assert_eq!(tables.store.memtable_bytes(), 0);
    let mut crashed = tables.crash();
    assert_eq!(crashed.files(), 0, "a start removes what is listed");
    assert_eq!(crashed.run_jobs(), []);
}

#[test]
fn a_dropped_table_goes_without_a_crash() {
    let mut tables = Tables::start(table::schema(TableParams::default()));
    tables.write(1).unwrap();
    tables.persist();
    tables.store.flush(None);
    tables.run_jobs();
    tables.write(2).unwrap();
    tables.schema = Schema::default();
    tables.store.set_schema(&tables.schema);
    assert_eq!(
        tables.run_jobs(),
        [JobKind::Removal, JobKind::Release, JobKind::Removal]
    );
    assert_eq!(tables.files(), 0);
}

/// Symptom: after a crash just behind a DROP the table's folder held an SSTable, for which a table that was made again under its
/// id (by a restored snapshot) was refused: a flush had ended after the list of the drop was made.
#[test]
fn a_dropped_table_leaves_nothing_of_a_flush_under_way() {
    let mut tables = Tables::start(table::schema(TableParams::default()));
    tables.write(1).unwrap();
    tables.persist();
    tables.store.flush(None);
    let flush = tables.store.next_job().unwrap();
    assert_eq!(flush.progress().kind, JobKind::Flush);
    tables.schema = Schema::default();
    tables.store.set_schema(&tables.schema);
    let flushed = flush.run();
    if !tables.store.are_drops_listed() {
        tables.store.complete(flushed).result.unwrap();
    }
    while !tables.store.are_drops_listed() {
        let job = tables.store.next_job().unwrap();
        tables.store.complete(job.run()).result.unwrap();
    }
    assert_eq!(tables.crash().files(), 0);
}

/// A flushed table with one more row in memory, of which a job makes the list that a truncation begins with.
fn begin_truncation() -> (Tables, BackgroundJob) {
    let mut tables = Tables::start(table::schema(TableParams::default()));
    tables.write(1).unwrap();
    tables.persist();
    tables.store.flush(None);
    tables.run_jobs();
    tables.write(2).unwrap();
    tables.persist();
    let id = tables.id();
    assert!(matches!(tables.store.truncate(id), Err(TruncateError::Busy)));
    assert!(matches!(tables.store.hold_sstables(id), Err(TruncateError::Busy)));
    let job = tables.store.next_short_job().unwrap();
    tables.store.flush(None);
    assert!(tables.store.next_job().is_none(), "nothing else is begun");
    (tables, job)
}

#[test]
fn a_truncation_that_was_begun_ends_though_nobody_waits_for_it() {
    let (mut tables, job) = begin_truncation();
    let id = tables.id();
    tables.store.truncation_given_up(id);
    assert!(tables.store.next_job().is_none(), "a flush would be lost with it");
    tables.store.complete(job.run()).result.unwrap();
    assert_eq!(tables.rows(), 0);
    // The next one is not answered with the result of that.
    tables.write(3).unwrap();
    tables.truncate().unwrap();
    assert_eq!(tables.rows(), 0);
    tables.write(4).unwrap();
    tables.persist();
    tables.store.flush(None);
    assert!(tables.run_jobs().contains(&JobKind::Flush));
    assert_eq!(tables.crash().rows(), 1);
}

#[test]
fn a_truncation_whose_list_cannot_be_written_leaves_the_table_as_it_is() {
    let (mut tables, job) = begin_truncation();
    tables.disk.inject(Fault {
        operation: Operation::Sync,
        after: 0,
        kind: FaultKind::Error,
    });
    assert!(tables.store.complete(job.run()).result.is_err());
    let id = tables.id();
    let truncated = tables.store.truncate(id);
    assert!(
        matches!(truncated, Err(TruncateError::NotListed { .. })),
        "{truncated:?}"
    );
    tables.store.truncation_given_up(id);
    assert_eq!(tables.rows(), 2);
    assert!(tables.run_jobs().contains(&JobKind::Flush));
    assert_eq!(tables.crash().rows(), 2);
}

#[test]
fn a_table_may_be_dropped_while_it_is_truncated() {
    for fails in [false, true] {
        let (mut tables, job) = begin_truncation();
        tables.schema = Schema::default();
        tables.store.set_schema(&tables.schema);
        assert!(
            !tables.store.are_drops_listed(),
            "the truncation's list is not there yet"
        );
        if fails {
            tables.disk.inject(Fault {
                operation: Operation::Sync,
                after: 0,
                kind: FaultKind::Error,
            });
        }
        assert_eq!(tables.store.complete(job.run()).result.is_err(), fails);
        assert_eq!(tables.store.are_drops_listed(), !fails);
        tables.run_jobs();
        assert!(tables.store.are_drops_listed());
        assert_eq!(tables.files(), 0, "fails: {fails}");
        let id = table::schema(TableParams::default()).tables().next().unwrap().id;
        tables.persist();
        assert!(tables.store.is_forgotten(id).unwrap());
    }
}

/// Symptom: making a dropped table again waited, instead of saying that the dropped one's files cannot be removed, when its
/// memory was given back just after removing them had failed.
#[test]
fn a_removal_that_failed_is_told_whatever_succeeds_after_it() {
    let mut tables = Tables::start(table::schema(TableParams::default()));
    tables.write(1).unwrap();
    tables.persist();
    tables.store.flush(None);
    tables.run_jobs();
    tables.write(2).unwrap();
    let id = tables.id();
    for after in 0..40 {
        tables.disk.inject(Fault {
            operation: Operation::Remove,
            after,
            kind: FaultKind::Error,
        });
    }
    tables.schema = Schema::default();
    tables.store.set_schema(&tables.schema);
    let list = tables.store.next_job().unwrap();
    tables.store.complete(list.run()).result.unwrap();
    let release = tables.store.next_job().unwrap();
    let removal = tables.store.next_job().unwrap();
    assert_eq!(removal.progress().kind, JobKind::Removal);
    assert!(matches!(tables.store.is_forgotten(id), Ok(false)));
    assert!(tables.store.complete(removal.run()).result.is_err());
    assert!(tables.store.complete(release.run()).result.is_ok());
    let forgotten = tables.store.is_forgotten(id);
    assert!(
        matches!(forgotten, Err(TruncateError::CannotRemove)),
        "{forgotten:?}"
    );
}

/// A table with two SSTables, and the job that makes one of them.
fn begin_compaction() -> (Tables, BackgroundJob) {
    let mut tables = Tables::start(table::schema(TableParams::default()));
    for number in [1, 2] {
        tables.write(number).unwrap();
        tables.persist();
        tables.store.flush(None);
        tables.run_jobs();
    }
    let (table, kind) = (tables.id(), CompactionKind::Major { split_output: false });
    tables.store.compact(CompactionRequest { table, kind }).unwrap();
    let compaction = tables.store.next_job().unwrap();
    assert_eq!(compaction.progress().kind, JobKind::MajorCompaction);
    (tables, compaction)
}

/// Symptom: "Removal of .../removal-da-33-bti.txt: No such file or directory", and DROP and CREATE under the same id refused until a
/// restart: a compaction ended while its table was dropped and its folder went with the last of its files, before the thread that
/// was to list what the DROP took had begun.
#[test]
fn a_table_may_be_dropped_while_it_is_compacted() {
    let (mut tables, compaction) = begin_compaction();
    let id = tables.id();
    let compacted = compaction.run();
    tables.schema = Schema::default();
    tables.store.set_schema(&tables.schema);
    tables.persist();
    let list = tables.store.next_job().unwrap();
    assert_eq!(list.progress().kind, JobKind::Removal);
    tables.store.complete(compacted).result.unwrap();
    tables.run_jobs();
    assert!(!tables.disk.exists(&folder()).unwrap());
    assert!(!tables.store.is_forgotten(id).unwrap());
    tables.store.complete(list.run()).result.unwrap();
    tables.run_jobs();
    assert!(tables.store.are_drops_listed());
    assert!(tables.store.is_forgotten(id).unwrap());
}

/// Symptom: DROP and CREATE under the same id after a compaction answered "files that the table no longer needs cannot be
/// removed", until a restart: CREATE had found the folder with a list of what the compaction replaced, and finished it, so that the
/// job that was to do that failed from then on.
#[test]
fn a_dropped_table_is_not_forgotten_before_what_a_compaction_replaced_has_gone() {
    let folder = folder();
    for (is_begun, fails) in [(false, false), (true, false), (true, true)] {
        let (mut tables, compaction) = begin_compaction();
        let id = tables.id();
        tables.store.complete(compaction.run()).result.unwrap();
        let removal = is_begun.then(|| tables.store.next_job().unwrap());
        tables.schema = Schema::default();
        tables.store.set_schema(&tables.schema);
        tables.persist();
        while let Some(job) = tables.store.next_job() {
            assert!(!tables.store.is_forgotten(id).unwrap(), "begun: {is_begun}");
            tables.store.complete(job.run()).result.unwrap();
        }
        if let Some(removal) = removal {
            assert!(!tables.store.is_forgotten(id).unwrap());
            if fails {
                tables.disk.inject(Fault {
                    operation: Operation::Remove,
                    after: 0,
                    kind: FaultKind::Error,
                });
            }
            let removed = tables.store.complete(removal.run()).result;
            assert_eq!(removed.is_err(), fails);
            assert!(matches!(tables.store.is_forgotten(id), Ok(false)) != fails);
            tables.clock.advance_s(60);
            tables.run_jobs();
        }
        assert!(tables.store.is_forgotten(id).unwrap(), "begun: {is_begun}");
        assert!(
            !tables.disk.exists(&folder).unwrap(),
            "begun: {is_begun}, fails: {fails}"
        );
    }
}

/// Symptom: CREATE under the id of a dropped table was refused, with the advice to move files of nobody: the disk had failed while a
/// compaction was published, and DROP took the compaction's inputs and left what they had become.
#[test]
fn drop_takes_what_a_compaction_may_or_may_not_have_made() {
    let mut undecided = 0;
    for (is_dropped_first, after) in (0..6).flat_map(|after| [(false, after), (true, after)]) {
        let (mut tables, compaction) = begin_compaction();
        let id = tables.id();
        tables.disk.inject(Fault {
            operation: Operation::Rename,
            after,
            kind: FaultKind::NoSpace,
        });
        let compacted = compaction.run();
        tables.disk.clear_faults();
        let drop_table = |tables: &mut Tables| {
            tables.schema = Schema::default();
            tables.store.set_schema(&tables.schema);
            tables.persist();
        };
        let table = tables.schema.tables().next().unwrap().clone();
        if is_dropped_first {
            drop_table(&mut tables);
        }
        let ended = tables.store.complete(compacted).result;
        undecided += usize::from(ended.is_err_and(|error| error.to_string().contains("until a restart")));
        if !is_dropped_first {
            drop_table(&mut tables);
        }
        for _ in 0..5 {
            tables.run_jobs();
            tables.clock.advance_s(60);
        }
        assert!(tables.store.is_forgotten(id).unwrap());
        let leftover = tables
            .store
            .data_folder()
            .unwrap()
            .leftover_sstable(&table)
            .unwrap();
        assert_eq!(leftover, None, "first: {is_dropped_first}, rename {after}");
    }
    assert!(undecided >= 2, "{undecided}");
}

#[test]
fn a_log_is_cut_when_its_writes_are_flushed() {
    let mut tables = Tables::start(table::schema(TableParams::default()));
    let log_bytes = |tables: &Tables| {
        let folder = Path::new("/node/commitlog/shard-00000");
        let files = tables.disk.list(folder).unwrap();
        let length = |name: &str| tables.disk.open(&folder.join(name)).unwrap().length().unwrap();
        files.iter().map(|entry| length(&entry.name)).sum::<u64>()
    };
    for number in 0..4_000 {
        tables.write(number).unwrap();
        if number % 100 == 0 {
            tables.persist();
        }
    }
    tables.persist();
    assert!(log_bytes(&tables) > 4 * u64::from(SEGMENT_BYTES));
    tables.store.flush(None);
    tables.run_jobs();
    tables.persist();
    // It may have been made ahead, or the next one.
    let ahead_bytes = u64::from(SEGMENT_BYTES) + 4_096;
    assert!(
        log_bytes(&tables) < 2 * ahead_bytes + 1_000,
        "no more than the open segment and the next"
    );
}

#[test]
fn without_durable_writes_only_what_was_flushed_survives() {
    let mut schema = table::schema(TableParams::default());
    let keyspace = schema.keyspaces.values().next().unwrap();
    let unlogged = helenus_schema::KeyspaceMetadata {
        durable_writes: false,
        ..(**keyspace).clone()
    };
    schema.keyspaces = BTreeMap::from([(Arc::clone(&unlogged.name), Arc::new(unlogged))]);
    let mut tables = Tables::start(schema);
    tables.write(1).unwrap();
    tables.store.flush(None);
    tables.run_jobs();
    tables.write(2).unwrap();
    assert!(tables.store.take_log_batch().is_none());
    let mut tables = tables.crash();
    assert_eq!(tables.rows(), 1);
}

#[test]
fn a_flush_waits_for_a_sync_and_says_so() {
    let mut tables = Tables::start(table::schema(TableParams::default()));
    tables.write(1).unwrap();
    let batch = tables.store.take_log_batch().unwrap();
    let result = tables.writer.persist(&batch, false);
    if tables.writer.wants_tending() {
        tables.writer.segment_files().tend().unwrap();
    }
    tables.store.log_batch_done(batch, &result);
    tables.store.flush(None);
    assert!(tables.store.next_job().is_none());
    assert!(tables.store.wants_log_sync());
    assert!(tables.store.take_log_batch().is_none(), "all of it is written");
    let batch = tables.store.take_log_batch_to_sync().unwrap();
    let result = tables.writer.persist(&batch, true);
    if tables.writer.wants_tending() {
        tables.writer.segment_files().tend().unwrap();
    }
    tables.store.log_batch_done(batch, &result);
    assert!(tables.store.take_log_batch_to_sync().is_none());
    assert_eq!(tables.run_jobs(), [JobKind::Flush, JobKind::Release]);
    assert!(!tables.store.wants_log_sync());
}
