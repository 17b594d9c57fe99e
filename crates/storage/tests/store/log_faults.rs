//! A log whose disk fails, and logs that were damaged.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use helenus_rows::update::Update;
use helenus_schema::{Schema, TableParams};
use helenus_storage::commitlog::{LogAppendError, LogError, LogOptions, replay};
use helenus_storage::error::WriteError;
use helenus_storage::store::{DataFolder, OpenedShards, StoreOptions};
use helenus_storage::{ShardStore, commitlog::LogWriter};
use helenus_vfs::{Clock, Disk, Fault, FaultKind, ManualClock, Operation, SimulatedDisk};

use super::naive::{RowWrite, Write};
use super::table;

/// So many fill more than two sectors and less than a segment.
const SECTORS_OF_WRITES: usize = 24;

pub const SEGMENT_BYTES: u32 = 2_048;

const LOG_FOLDER: &str = "/node/commitlog";

pub struct Log {
    pub disk: Arc<SimulatedDisk>,
    pub schema: Schema,
    pub store: ShardStore,
    pub writer: LogWriter,
}

pub fn open(disk: &Arc<SimulatedDisk>, schema: &Schema) -> Result<OpenedShards, String> {
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::starting_at(1_000_000_000));
    let folder = DataFolder::open(Arc::clone(disk) as Arc<dyn Disk>, clock, Path::new("/node"))
        .map_err(|error| error.to_string())?;
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
        .map_err(|error| error.to_string())
}

impl Log {
    pub fn start() -> Self {
        let disk = Arc::new(SimulatedDisk::new(3));
        let schema = table::schema(TableParams::default());
        let (store, writer) = open(&disk, &schema).unwrap().shards.pop().unwrap();
        Log {
            disk,
            schema,
            store,
            writer,
        }
    }

    pub fn write(&mut self) -> Result<(), WriteError> {
        let row = RowWrite {
            liveness: helenus_rows::row::Liveness {
                timestamp_us: 1,
                ttl_s: 0,
                expires_at_s: u32::MAX,
            },
            deletion: helenus_rows::deletion::DeletionTime::LIVE,
            complex_deletion: None,
            cells: Vec::new(),
        };
        let id = self.schema.tables().next().unwrap().id;
        let bytes = Write::Row((1, 1), row).encode(id, b"key");
        self.store.apply(&Update::decode(&bytes).unwrap()).map(drop)
    }

    pub fn persist(&mut self) -> Result<(), LogError> {
        let Some(batch) = self.store.take_log_batch() else {
            return Ok(());
        };
        let result = self.writer.persist(&batch, true);
        self.store.log_batch_done(batch, &result);
        result.map(drop)
    }

    pub fn segments(&self) -> Vec<PathBuf> {
        let folder = Path::new(LOG_FOLDER).join("shard-00000");
        let entries = self.disk.list(&folder).unwrap();
        let names = entries
            .into_iter()
            .filter(|entry| entry.name.starts_with("segment-"));
        names.map(|entry| folder.join(entry.name)).collect()
    }

    pub fn replayed(&self) -> Result<usize, String> {
        let mut count = 0;
        let result =
            replay::<std::convert::Infallible>(&*self.disk, Path::new(LOG_FOLDER), &self.schema, |_| {
                count += 1;
                Ok(())
            });
        result.map(|_| count).map_err(|error| error.to_string())
    }

    pub fn overwrite(&self, segment: &Path, offset: u64, bytes: &[u8]) {
        let file = self.disk.open_writable(segment).unwrap();
        file.write_at(offset, bytes).unwrap();
    }

    /// A replay puts another file in the place of the last segment.
    pub fn set_length(&self, segment: &Path, length: u64) {
        let file = self.disk.open_writable(segment).unwrap();
        file.set_length(length).unwrap();
    }

    pub fn length(&self, segment: &Path) -> u64 {
        self.disk.open(segment).unwrap().length().unwrap()
    }
}

#[test]
fn a_failed_sync_is_final() {
    let mut log = Log::start();
    log.write().unwrap();
    log.persist().unwrap();
    let durable = log.store.durable();
    log.write().unwrap();
    log.disk.inject(Fault {
        operation: Operation::Sync,
        after: 0,
        kind: FaultKind::Error,
    });
    assert!(matches!(log.persist(), Err(LogError::Io { .. })));
    assert_eq!(log.store.durable(), durable);
    let refused = log.write().unwrap_err().to_string();
    assert!(
        refused.starts_with("writes are refused until the node is restarted: "),
        "{refused}"
    );
    assert!(log.store.take_log_batch().is_none());
    assert!(
        matches!(log.writer.sync(), Err(LogError::Abandoned { .. })),
        "the disk works again, the log does not"
    );
}

/// A sync of the log had failed, the process was killed, and the next start synced the same file: with success, and without the bytes, which the
/// kernel took for clean. It flushed half of a base row and its views before the power failed, and the log did not have the other half.
#[test]
fn what_a_start_has_read_of_a_log_stays_though_a_sync_before_had_failed() {
    let mut log = Log::start();
    log.write().unwrap();
    log.persist().unwrap();
    log.write().unwrap();
    log.disk.inject(Fault {
        operation: Operation::Sync,
        after: 0,
        kind: FaultKind::Error,
    });
    assert!(log.persist().is_err());
    assert_eq!(log.replayed(), Ok(2));
    log.disk.crash();
    assert_eq!(log.replayed(), Ok(2));
}

#[test]
fn a_full_disk_says_what_to_do() {
    let mut log = Log::start();
    log.write().unwrap();
    log.disk.set_free_bytes(Some(0));
    let error = log.persist().unwrap_err().to_string();
    assert!(
        error.ends_with("no space left on the disk; make room and restart the node"),
        "{error}"
    );
    log.disk.set_free_bytes(None);
    drop((log.store, log.writer));
    log.disk.crash();
    open(&log.disk, &log.schema).unwrap();
}

#[test]
fn a_torn_end_is_cut_off_at_any_byte() {
    let mut log = Log::start();
    (0..3).for_each(|_| log.write().unwrap());
    log.persist().unwrap();
    let segment = log.segments().pop().unwrap();
    let length = log.length(&segment);
    assert_eq!(log.replayed(), Ok(3));
    let mut counts = vec![3];
    for cut in (0..length).rev() {
        log.set_length(&segment, cut);
        counts.push(log.replayed().unwrap());
    }
    counts.dedup();
    assert_eq!(counts, [3, 2, 1, 0]);
}

#[test]
fn damage_in_what_was_synced_stops_the_start() {
    let mut log = Log::start();
    for _ in 0..3 {
        log.write().unwrap();
        log.persist().unwrap();
    }
    let segment = log.segments().pop().unwrap();
    log.overwrite(&segment, 60, &[0xff]);
    let error = log.replayed().unwrap_err();
    let (start, end) = (
        "is corrupt at byte 28: wanted a record",
        "to start without the writes in it",
    );
    assert!(error.contains(start) && error.ends_with(end), "{error}");
}

#[test]
fn only_the_last_segment_may_end_early() {
    let mut log = Log::start();
    while log.segments().len() < 3 {
        log.write().unwrap();
        log.persist().unwrap();
    }
    let segments = log.segments();
    let all = log.replayed().unwrap();
    let file = log.disk.open_writable(&segments[1]).unwrap();
    let length = log.length(&segments[1]);
    file.set_length(length - 1).unwrap();
    let error = log.replayed().unwrap_err();
    assert!(
        error.contains("damaged bytes before the log's last segment"),
        "{error}"
    );
    log.disk.remove(&segments[2]).unwrap();
    assert!(log.replayed().unwrap() < all);
}

#[test]
fn a_newer_log_is_refused() {
    let mut log = Log::start();
    log.write().unwrap();
    log.persist().unwrap();
    let segment = log.segments()[0].clone();
    let mut header = [0; 24];
    let file = log.disk.open(&segment).unwrap();
    file.read_exact_at(0, &mut header).unwrap();
    header[8..12].copy_from_slice(&4_u32.to_le_bytes());
    log.overwrite(&segment, 0, &header);
    log.overwrite(&segment, 24, &crc32fast::hash(&header).to_le_bytes());
    let error = log.replayed().unwrap_err();
    assert!(
        error.contains("has format version 4, this program reads 3"),
        "{error}"
    );
}

/// After a crash the header of a new segment held its magic number and then zeros: "has format version 0". The simulated disk had
/// torn it in the middle of a sector, which no disk does: a header is there or it is zeros.
#[test]
fn a_torn_header_is_passed_over_and_a_damaged_one_is_no_other_version() {
    let mut log = Log::start();
    (0..SECTORS_OF_WRITES).for_each(|_| log.write().unwrap());
    log.persist().unwrap();
    let segment = log.segments()[0].clone();
    log.overwrite(&segment, 8, &[0; 20]);
    let error = log.replayed().unwrap_err();
    assert!(
        error.contains("is corrupt at byte 0: wanted a segment header"),
        "{error}"
    );
    log.overwrite(&segment, 0, &[0; 512]);
    assert_eq!(log.replayed(), Ok(0));
}

#[test]
fn logs_of_dropped_tables_are_skipped() {
    let mut log = Log::start();
    log.write().unwrap();
    log.persist().unwrap();
    log.schema = Schema::default();
    assert_eq!(log.replayed(), Ok(0));
}

#[test]
fn a_slow_disk_pushes_back() {
    let mut log = Log::start();
    let refused = std::iter::from_fn(|| log.write().err()).next();
    assert!(refused.is_none(), "a single write fits");
    let limit = LogOptions::default().buffer_bytes_max / 50;
    let error = (0..limit).find_map(|_| log.write().err()).unwrap();
    assert!(
        error.to_string().starts_with("the commit log waits for the disk"),
        "{error}"
    );
    log.persist().unwrap();
    log.write().unwrap();
}

#[test]
fn no_flipped_bit_goes_unseen_or_makes_writes_up() {
    let mut log = Log::start();
    for _ in 0..4 {
        (0..2).for_each(|_| log.write().unwrap());
        log.persist().unwrap();
    }
    let segment = log.segments().pop().unwrap();
    for bit in (0..log.length(&segment) * 8).step_by(5) {
        log.disk.flip_bit(&segment, bit).unwrap();
        assert!(log.replayed().is_err(), "bit {bit}");
        log.disk.flip_bit(&segment, bit).unwrap();
    }
    assert_eq!(log.replayed(), Ok(8));
}

/// As many connections as descriptors, or a full disk, at the moment of a change of segments: writes were refused until a
/// restart, although nothing was lost.
#[test]
fn a_segment_that_cannot_be_made_is_made_later() {
    let mut log = Log::start();
    let mut written = 0;
    while log.segments().len() < 2 {
        log.write().unwrap();
        written += 1;
        log.persist().unwrap();
    }
    let fail = |operation| Fault {
        operation,
        after: 0,
        kind: FaultKind::NoSpace,
    };
    for (tries, operation) in [
        (1, Operation::Create),
        (3, Operation::Create),
        (2, Operation::SyncDirectory),
    ] {
        let segments = log.segments().len();
        // A whole segment at once, so that the batch goes over its end.
        (0..40).for_each(|_| log.write().unwrap());
        written += 40;
        for _ in 0..tries {
            log.disk.inject(fail(operation));
            let error = log.persist().unwrap_err();
            assert!(!error.is_final(), "{error}");
            let refused = log.write();
            let is_refused = matches!(&refused, Err(WriteError::Log(LogAppendError::CannotBegin { .. })));
            assert!(is_refused, "{refused:?}");
            assert_eq!(log.store.log_failure(), None);
        }
        log.persist().unwrap();
        assert!(log.segments().len() > segments);
        log.write().unwrap();
        written += 1;
        log.persist().unwrap();
    }
    drop((log.store, log.writer));
    log.disk.crash();
    let opened = open(&log.disk, &log.schema).unwrap();
    assert_eq!(opened.updates_replayed, written);
}

/// Nothing is written behind the last sync: a flipped bit in what it made durable was taken for an interrupted write, and the
/// acknowledged rows were gone without a word.
#[test]
fn damage_in_what_was_synced_last_is_found_and_what_an_interrupted_write_leaves_is_passed_over() {
    let mut log = Log::start();
    log.write().unwrap();
    log.persist().unwrap();
    let segment = log.segments().pop().unwrap();
    let synced_before = log.length(&segment);
    for _ in 0..2 {
        log.write().unwrap();
    }
    log.persist().unwrap();
    let end = log.length(&segment);
    for bit in synced_before * 8..end * 8 {
        log.disk.flip_bit(&segment, bit).unwrap();
        let error = log.replayed().unwrap_err();
        assert!(
            error.contains("segment-") && error.contains("is corrupt at byte"),
            "{error}"
        );
        log.disk.flip_bit(&segment, bit).unwrap();
    }
    assert_eq!(log.replayed(), Ok(3));
    for length in (synced_before..end).rev() {
        log.set_length(&segment, length);
        assert!(log.replayed().is_ok(), "cut at {length}");
    }
    assert_eq!(log.replayed(), Ok(1));
    // The length reached the disk and the bytes did not.
    log.set_length(&segment, end);
    assert_eq!(log.replayed(), Ok(1));
}

/// Sectors reach the disk in any order, and the power fails between them.
#[test]
fn a_last_write_of_which_sectors_are_missing_is_passed_over_from_there() {
    let mut log = Log::start();
    log.write().unwrap();
    log.persist().unwrap();
    let segment = log.segments().pop().unwrap();
    let synced = log.length(&segment);
    (0..SECTORS_OF_WRITES).for_each(|_| log.write().unwrap());
    log.persist().unwrap();
    let end = log.length(&segment);
    assert!((1_024..2_048).contains(&end), "{end}");
    let mut whole = vec![0; end as usize];
    log.disk
        .open(&segment)
        .unwrap()
        .read_exact_at(0, &mut whole)
        .unwrap();
    let mut counts = Vec::new();
    for lost in [synced..512, 512..1_024, 1_024..end.min(1_536), synced..1_024] {
        log.overwrite(&segment, lost.start, &vec![0; (lost.end - lost.start) as usize]);
        counts.push(log.replayed().unwrap());
        log.overwrite(&segment, 0, &whole);
    }
    let ends_where_it_was_lost = counts[0] == 1 && 1 < counts[1] && counts[1] < counts[2] && counts[3] == 1;
    assert!(ends_where_it_was_lost, "{counts:?}");
    assert_eq!(log.replayed(), Ok(1 + SECTORS_OF_WRITES));
}
