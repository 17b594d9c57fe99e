//! A point read stops at the SSTables that cannot add to what newer ones hold.

use std::path::Path;
use std::sync::Arc;

use helenus_rows::clustering::{ClusteringBound, Side, Slice};
use helenus_rows::deletion::{DeletionTime, NEVER_S};
use helenus_rows::partition_range::PartitionRange;
use helenus_rows::row::Liveness;
use helenus_rows::update::Update;
use helenus_schema::{ColumnId, Schema, TableParams};
use helenus_storage::ShardStore;
use helenus_storage::commitlog::LogWriter;
use helenus_storage::read::ReadCommand;
use helenus_storage::store::{DataFolder, StoreOptions};
use helenus_types::token_of;
use helenus_vfs::{Clock, Disk, ManualClock, MemoryDisk};

use super::check::Collected;
use super::naive::{Cell, RowWrite, Write};
use super::table::{self, NUMBER, TEXT, packed};

const KEY: &[u8] = b"key";

struct Files {
    schema: Schema,
    store: ShardStore,
    writer: LogWriter,
}

impl Files {
    fn start() -> Self {
        let schema = table::plain_schema(TableParams::default());
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::starting_at(1_000_000_000));
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        let folder = DataFolder::open(disk, clock, Path::new("/node")).unwrap();
        let options = StoreOptions {
            row_cache_bytes_max: 0,
            ..StoreOptions::default()
        };
        let opened = folder.open_shards(&options, 1, &schema);
        let (store, writer) = opened.unwrap().shards.pop().unwrap();
        Files {
            schema,
            store,
            writer,
        }
    }

    /// Writes a row with a marker and cells of the given timestamps into an SSTable of its own.
    fn add(&mut self, marker_us: Option<i64>, deleted_us: Option<i64>, cells: &[(ColumnId, i64)]) {
        let liveness = marker_us.map_or(Liveness::NONE, |timestamp_us| Liveness {
            timestamp_us,
            ttl_s: 0,
            expires_at_s: NEVER_S,
        });
        let deletion = deleted_us.map_or(DeletionTime::LIVE, |timestamp_us| DeletionTime {
            timestamp_us,
            local_s: 1,
        });
        let cells = cells.iter().map(|&(column, timestamp_us)| Cell {
            key: (column.0, None),
            timestamp_us,
            ttl_s: 0,
            local_deletion_s: NEVER_S,
            value: vec![0, 0, 0, timestamp_us as u8],
        });
        let row = RowWrite {
            liveness,
            deletion,
            complex_deletion: None,
            cells: cells.collect(),
        };
        let id = self.schema.tables().next().unwrap().id;
        let bytes = Write::Row((1, 1), row).encode(id, KEY);
        self.store.apply(&Update::decode(&bytes).unwrap()).unwrap();
        let batch = self.store.take_log_batch().unwrap();
        let result = self.writer.persist(&batch, true);
        if self.writer.wants_tending() {
            self.writer.segment_files().tend().unwrap();
        }
        self.store.log_batch_done(batch, &result);
        self.store.flush(None);
        while let Some(job) = self.store.next_short_job() {
            self.store.complete(job.run()).result.unwrap();
        }
    }

    /// The number of SSTables looked into, and the timestamps of the cells found.
    fn read(&mut self) -> (u32, Vec<i64>) {
        let table = self.schema.tables().next().unwrap();
        let bound = |side| ClusteringBound {
            prefix: packed(&[1, 1]).into(),
            side,
        };
        let slices = [Slice {
            start: bound(Side::Before),
            end: bound(Side::After),
        }];
        let partitions = PartitionRange::One {
            token: token_of(KEY),
            key: KEY,
        };
        let command = ReadCommand {
            table,
            partitions,
            slices: &slices,
            reversed: false,
            now_s: 1_000,
            index: &[],
        };
        let mut collected = Collected::default();
        let statistics = self.store.read(&command, &mut collected).unwrap();
        let rows = collected.partitions.iter().flat_map(|(_, answer)| &answer.rows);
        let cells = rows.flat_map(|(_, _, cells)| cells.values().map(|(_, timestamp_us, _)| *timestamp_us));
        (statistics.sstables_touched, cells.collect())
    }
}

#[test]
fn a_complete_row_needs_nothing_older() {
    let mut files = Files::start();
    files.add(Some(5), None, &[(NUMBER, 5), (TEXT, 5)]);
    files.add(Some(9), None, &[(NUMBER, 9), (TEXT, 9)]);
    assert_eq!(files.read(), (1, vec![9, 9]));
}

#[test]
fn the_oldest_cell_decides_what_may_still_show() {
    let mut files = Files::start();
    files.add(None, None, &[(NUMBER, 5)]);
    files.add(Some(9), None, &[(NUMBER, 4), (TEXT, 10)]);
    assert_eq!(files.read(), (2, vec![5, 10]));
}

#[test]
fn a_row_without_a_column_or_its_marker_is_not_complete() {
    let mut files = Files::start();
    files.add(Some(5), None, &[(NUMBER, 5), (TEXT, 5)]);
    files.add(Some(9), None, &[(TEXT, 9)]);
    assert_eq!(files.read(), (2, vec![5, 9]));
    files.add(None, None, &[(NUMBER, 11), (TEXT, 11)]);
    assert_eq!(files.read(), (3, vec![11, 11]));
}

#[test]
fn a_deleted_row_hides_what_is_as_old_and_nothing_newer() {
    let mut files = Files::start();
    files.add(Some(5), None, &[(NUMBER, 5), (TEXT, 5)]);
    files.add(None, Some(5), &[]);
    assert_eq!(files.read().1, []);
    files.add(None, Some(7), &[]);
    assert_eq!(files.read(), (1, vec![]));
    files.add(None, None, &[(NUMBER, 8)]);
    assert_eq!(files.read(), (2, vec![8]), "its own file and the deletion's");
}
