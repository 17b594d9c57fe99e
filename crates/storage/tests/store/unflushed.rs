//! The log beside a table that cannot be flushed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use helenus_rows::clustering::Slice;
use helenus_rows::deletion::{DeletionTime, NEVER_S};
use helenus_rows::partition_range::PartitionRange;
use helenus_rows::row::{CellRef, Liveness};
use helenus_rows::update::{Update, UpdateBuilder};
use helenus_schema::{Schema, TableMetadata, TableParams};
use helenus_storage::ShardStore;
use helenus_storage::commitlog::{LogOptions, LogWriter, shard_folder};
use helenus_storage::error::TruncateError;
use helenus_storage::read::ReadCommand;
use helenus_storage::store::{DataFolder, StoreOptions};
use helenus_types::ShardId;
use helenus_vfs::{Clock, Disk, ManualClock, SimulatedDisk};

use super::check::Collected;
use super::table::{NUMBER, TEXT, packed, plain_schema};
use super::write_sets::with_second_table;

const SEGMENT_BYTES: u32 = 4096;
const LOG_BYTES_MAX: u64 = 10 * SEGMENT_BYTES as u64;

struct Node {
    disk: Arc<SimulatedDisk>,
    clock: Arc<ManualClock>,
    schema: Schema,
    tables: [Arc<TableMetadata>; 2],
    store: ShardStore,
    writer: LogWriter,
}

fn open(disk: &Arc<SimulatedDisk>, clock: &Arc<ManualClock>, schema: &Schema) -> (ShardStore, LogWriter) {
    let options = StoreOptions {
        log: LogOptions {
            segment_bytes: SEGMENT_BYTES,
            buffer_bytes_max: 16 * SEGMENT_BYTES as usize,
        },
        log_bytes_max: LOG_BYTES_MAX,
        ..StoreOptions::default()
    };
    let (disk, clock) = (
        Arc::clone(disk) as Arc<dyn Disk>,
        Arc::clone(clock) as Arc<dyn Clock>,
    );
    let folder = DataFolder::open(disk, clock, Path::new("/node")).unwrap();
    folder
        .open_shards(&options, 1, schema)
        .unwrap()
        .shards
        .pop()
        .unwrap()
}

impl Node {
    fn start() -> Node {
        let (schema, tables) = with_second_table(plain_schema(TableParams::default()));
        let disk = Arc::new(SimulatedDisk::new(3));
        let clock = Arc::new(ManualClock::starting_at(1_000_000_000));
        let (store, writer) = open(&disk, &clock, &schema);
        Node {
            disk,
            clock,
            schema,
            tables,
            store,
            writer,
        }
    }

    /// A row with some text.
    fn write(&mut self, table: usize, number: i32, timestamp_us: i64, length: usize) {
        let mut bytes = Vec::new();
        let id = self.tables[table].id;
        let mut builder = UpdateBuilder::new(&mut bytes, id, b"partition", DeletionTime::LIVE);
        let liveness = Liveness {
            timestamp_us,
            ttl_s: 0,
            expires_at_s: NEVER_S,
        };
        let (text, value) = ("t".repeat(length), number.to_be_bytes());
        let cell = |column, value| CellRef {
            column,
            timestamp_us,
            ttl_s: 0,
            local_deletion_s: NEVER_S,
            path: None,
            value,
        };
        builder.row(&packed(&[number, 0]), liveness, DeletionTime::LIVE, |row| {
            row.cell(cell(NUMBER, &value));
            row.cell(cell(TEXT, text.as_bytes()));
        });
        self.store.apply(&Update::decode(&bytes).unwrap()).unwrap();
    }

    fn work(&mut self) {
        self.clock.advance_s(1);
        loop {
            if let Some(batch) = self.store.take_log_batch_to_sync() {
                let result = self.writer.persist(&batch, true);
                if self.writer.wants_tending() {
                    self.writer.segment_files().tend().unwrap();
                }
                self.store.log_batch_done(batch, &result);
                result.unwrap();
            }
            let Some(job) = self.store.next_job() else { return };
            let _failed = self.store.complete(job.run());
        }
    }

    fn segments(&self) -> usize {
        self.disk
            .list(&shard_folder(Path::new("/node/commitlog"), ShardId(0)))
            .unwrap()
            .iter()
            .filter(|entry| entry.name.starts_with("segment-"))
            .count()
    }

    fn folder(&self, table: usize) -> PathBuf {
        let folder = self.store.data_folder().unwrap();
        folder.table_folder(&self.tables[table])
    }

    fn rows(&mut self, table: usize) -> usize {
        let slices = [Slice::all()];
        let command = ReadCommand {
            table: &self.tables[table],
            partitions: PartitionRange::everything(),
            slices: &slices,
            reversed: false,
            now_s: 1,
            index: &[],
        };
        let mut collected = Collected::default();
        self.store.read(&command, &mut collected).unwrap();
        let partitions = collected.partitions.iter();
        partitions.map(|(_, answer)| answer.rows.len()).sum()
    }

    fn crash(mut self) -> Self {
        self.disk.crash();
        drop((self.store, self.writer));
        (self.store, self.writer) = open(&self.disk, &self.clock, &self.schema);
        self
    }
}

/// A table that could not be flushed kept every segment from its oldest write on, until the disk was full.
#[test]
fn the_log_stays_bounded_and_has_it_all() {
    const ROWS: i32 = 40;
    let mut node = Node::start();
    for number in 0..ROWS / 2 {
        node.write(0, number, 1, 100);
    }
    // A file in the place of the table's folder.
    let folder = node.folder(0);
    node.disk.create_dir_all(folder.parent().unwrap()).unwrap();
    drop(node.disk.create(&folder).unwrap());
    node.store.flush(Some(node.tables[0].id));
    let mut most = 0;
    for round in 0..200 {
        for number in 0..10 {
            node.write(1, number, round, 300);
        }
        if round % 10 == 0 {
            // Between what is written to the log again.
            node.write(0, ROWS / 2 + i32::try_from(round).unwrap() / 10, 1, 100);
        }
        node.work();
        most = most.max(node.segments());
    }
    let bytes = most as u64 * u64::from(SEGMENT_BYTES);
    assert!(bytes < 4 * LOG_BYTES_MAX, "{most} segments");
    assert_eq!(node.store.unflushed_tables().len(), 1);
    assert_eq!(node.rows(0), ROWS as usize);

    node.disk.remove(&folder).unwrap();
    node.disk.sync_directory(folder.parent().unwrap()).unwrap();
    let mut node = node.crash();
    assert_eq!((node.rows(0), node.rows(1)), (ROWS as usize, 10));
    assert!(node.store.unflushed_tables().is_empty());
}

/// As above, and flushed in the end: nothing comes back that was deleted later.
#[test]
fn what_was_written_to_the_log_again_goes_with_it() {
    let mut node = Node::start();
    for number in 0..20 {
        node.write(0, number, 1, 100);
    }
    let folder = node.folder(0);
    node.disk.create_dir_all(folder.parent().unwrap()).unwrap();
    drop(node.disk.create(&folder).unwrap());
    node.store.flush(Some(node.tables[0].id));
    for round in 0..60 {
        (0..10).for_each(|number| node.write(1, number, round, 300));
        node.work();
    }
    node.disk.remove(&folder).unwrap();
    node.store.flush(None);
    for _ in 0..70 {
        node.work();
    }
    assert!(node.store.unflushed_tables().is_empty());
    assert!(node.store.sstable_count() > 1);
    let id = node.tables[0].id;
    assert!(matches!(node.store.truncate(id), Err(TruncateError::Busy)));
    node.work();
    node.store.truncate(id).unwrap();
    node.work();
    assert!(node.segments() <= 3, "{} segments", node.segments());
    let mut node = node.crash();
    assert_eq!((node.rows(0), node.rows(1)), (0, 10));
}
