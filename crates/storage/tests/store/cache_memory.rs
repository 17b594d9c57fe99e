//! Memory goes where it saves most, and back to memtables before they need it.

use std::path::Path;
use std::sync::Arc;

use helenus_rows::clustering::Slice;
use helenus_rows::deletion::{DeletionTime, NEVER_S};
use helenus_rows::partition_range::PartitionRange;
use helenus_rows::row::Liveness;
use helenus_rows::update::Update;
use helenus_schema::{Schema, TableParams};
use helenus_sstable::PageLevel;
use helenus_storage::ShardStore;
use helenus_storage::commitlog::LogWriter;
use helenus_storage::compaction::CompactionLimits;
use helenus_storage::read::ReadCommand;
use helenus_storage::store::{DataFolder, JobKind, StoreOptions};
use helenus_types::token_of;
use helenus_vfs::{Clock, Disk, ManualClock, MemoryDisk};

use super::check::Collected;
use super::naive::{Cell, RowWrite, Write};
use super::table::{self, TEXT};

const MEMTABLES_BYTES: usize = 12 << 20;
const PAGES_BYTES: usize = 3 << 20;
const ROWS_BYTES: usize = 1 << 20;
/// A memtable's arena, and a step in which memory is lent.
const SLACK_BYTES: usize = 2 << 20;
const PARTITIONS: u32 = 24_000;

fn options(lent_bytes_max: usize) -> StoreOptions {
    StoreOptions {
        memtable_bytes_max: MEMTABLES_BYTES,
        chunk_cache_bytes_max: PAGES_BYTES,
        row_cache_bytes_max: ROWS_BYTES,
        lent_bytes_max,
        // A clock that stands still lets no time pass between compactions' steps.
        compaction: CompactionLimits::new(0, 2, CompactionLimits::READ_BYTES_MAX),
        ..StoreOptions::default()
    }
}

struct Files {
    schema: Schema,
    store: ShardStore,
    writer: LogWriter,
    random: u32,
}

impl Files {
    fn open(lent_bytes_max: usize) -> Self {
        Files::of_options(options(lent_bytes_max))
    }

    fn of_options(options: StoreOptions) -> Self {
        let mut files = Files::on(Arc::new(MemoryDisk::new()), &options);
        for partition in 0..PARTITIONS {
            files.write(partition);
            if partition % 1_000 == 999 {
                files.log_and_flush(partition % 8_000 == 7_999);
            }
        }
        files
    }

    fn on(disk: Arc<dyn Disk>, options: &StoreOptions) -> Self {
        let schema = table::plain_schema(TableParams::default());
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::starting_at(1_000_000_000));
        let folder = DataFolder::open(disk, clock, Path::new("/node")).unwrap();
        let opened = folder.open_shards(options, 1, &schema);
        let (store, writer) = opened.unwrap().shards.pop().unwrap();
        Files {
            schema,
            store,
            writer,
            random: 1,
        }
    }

    /// 300 bytes, of which a compressor makes a third.
    fn write(&mut self, partition: u32) {
        let noise = (0..100).map(|_| self.next_random() as u8 % 64 + b' ');
        let mut value: Vec<u8> = noise.collect();
        value.resize(300, b'x');
        let cell = Cell {
            key: (TEXT.0, None),
            timestamp_us: 1,
            ttl_s: 0,
            local_deletion_s: NEVER_S,
            value,
        };
        let row = RowWrite {
            liveness: Liveness::NONE,
            deletion: DeletionTime::LIVE,
            complex_deletion: None,
            cells: vec![cell],
        };
        let id = self.schema.tables().next().unwrap().id;
        let bytes = Write::Row((1, 1), row).encode(id, &partition.to_be_bytes());
        self.store.apply(&Update::decode(&bytes).unwrap()).unwrap();
    }

    /// Bytes that caches may have, and what open SSTables take.
    fn allowed_bytes(&self) -> [usize; 2] {
        let caches = self.store.page_cache_bytes_max() + self.store.row_cache_bytes_max();
        [caches, self.store.sstable_memory_bytes() as usize]
    }

    fn run_jobs(&mut self) {
        while let Some(job) = self.store.next_job() {
            self.store.complete(job.run()).result.unwrap();
        }
    }

    fn log_and_flush(&mut self, flushes: bool) {
        let batch = self.store.take_log_batch().unwrap();
        let result = self.writer.persist(&batch, true);
        if self.writer.wants_tending() {
            self.writer.segment_files().tend().unwrap();
        }
        self.store.log_batch_done(batch, &result);
        if flushes {
            self.store.flush(None);
            while let Some(job) = self.store.next_short_job() {
                self.store.complete(job.run()).result.unwrap();
            }
        }
    }

    fn next_random(&mut self) -> u32 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        self.random
    }

    /// Reads random partitions; how often the disk was asked.
    fn read(&mut self, count: u32) -> u64 {
        self.read_of(PARTITIONS, count)
    }

    /// The same, of the first partitions.
    fn read_of(&mut self, partitions: u32, count: u32) -> u64 {
        let before = self.store.read_cost();
        for _ in 0..count {
            let key = (self.next_random() % partitions).to_be_bytes();
            let command = ReadCommand {
                table: self.schema.tables().next().unwrap(),
                partitions: PartitionRange::One {
                    token: token_of(&key),
                    key: &key,
                },
                slices: &[Slice::all()],
                reversed: false,
                now_s: 1_000,
                index: &[],
            };
            let mut collected = Collected::default();
            self.store.read(&command, &mut collected).unwrap();
            assert_eq!(collected.partitions.len(), 1);
        }
        self.store.read_cost().since(before).reads
    }

    /// Rows, decompressed pages, packed pages.
    fn cached_bytes(&self) -> [usize; 3] {
        let pages = |level| self.store.page_cache_bytes(level);
        [
            self.store.row_cache_bytes(),
            pages(PageLevel::Decompressed),
            pages(PageLevel::Packed),
        ]
    }

    fn held_bytes(&self) -> usize {
        let pages =
            [PageLevel::Decompressed, PageLevel::Packed].map(|level| self.store.page_cache_bytes(level));
        self.store.memtable_bytes() + self.store.row_cache_bytes() + pages.iter().sum::<usize>()
    }
}

#[test]
fn files_that_are_smaller_than_the_memory_are_read_from_the_disk_once() {
    let mut lending = Files::open(MEMTABLES_BYTES);
    let mut fixed = Files::open(0);
    for files in [&mut lending, &mut fixed] {
        files.read(2 * PARTITIONS);
    }
    let (lending, fixed) = (lending.read(PARTITIONS), fixed.read(PARTITIONS));
    println!("{lending} and {fixed} reads of the disk");
    assert!(lending < u64::from(PARTITIONS) / 100, "{lending} of {PARTITIONS}");
    assert!(fixed > u64::from(PARTITIONS) / 4, "{fixed} of {PARTITIONS}");
}

#[test]
fn what_memtables_lent_is_back_before_they_need_it() {
    let mut files = Files::open(MEMTABLES_BYTES);
    files.read(2 * PARTITIONS);
    let lent = files.held_bytes();
    assert!(lent > PAGES_BYTES + ROWS_BYTES + SLACK_BYTES, "{lent} bytes");
    let mut written = 0;
    while files.store.memtable_bytes() < MEMTABLES_BYTES - SLACK_BYTES {
        files.write(written);
        written += 1;
        if written % 1_000 == 0 {
            files.log_and_flush(false);
        }
        let allowed = files.store.memtable_bytes()
            + files.store.page_cache_bytes_max()
            + files.store.row_cache_bytes_max();
        let bytes = files.held_bytes().max(allowed);
        assert!(
            bytes < MEMTABLES_BYTES + PAGES_BYTES + ROWS_BYTES + SLACK_BYTES,
            "{bytes} bytes"
        );
    }
    // What is flushed is lent again.
    let full = files.held_bytes() - files.store.memtable_bytes();
    files.log_and_flush(true);
    files.read(2 * PARTITIONS);
    assert!(files.held_bytes() > full + SLACK_BYTES);
}

/// Filters and indexes of a node's files, 2 MiB for each GiB of data, came on top of the memory that it was given.
#[test]
fn what_open_sstables_keep_in_memory_caches_do_not_have() {
    // Of 64 parts that caches have, and of memtables that hold a write.
    const ROUNDING_BYTES: usize = 4 << 10;
    let mut files = Files::open(MEMTABLES_BYTES);
    files.run_jobs();
    let [caches, sstables] = files.allowed_bytes();
    let all = caches + sstables + ROUNDING_BYTES / 2;
    let sstables_with_the_rest = |files: &Files| {
        let [caches, sstables] = files.allowed_bytes();
        let rest = all - sstables;
        assert!(
            caches <= rest && caches + ROUNDING_BYTES > rest,
            "{caches} of {rest} bytes"
        );
        sstables
    };
    assert!(sstables > 20_000, "{sstables} bytes");

    (0..PARTITIONS).for_each(|partition| files.write(PARTITIONS + partition));
    files.log_and_flush(true);
    let twice = sstables_with_the_rest(&files);
    assert!(twice > sstables * 3 / 2, "{twice} bytes");
    files.write(0);
    files.log_and_flush(true);
    files.run_jobs();
    let compacted = sstables_with_the_rest(&files);

    let disk = Arc::clone(files.store.data_folder().unwrap().disk());
    drop(files);
    // The second start has no log to replay, whose flush would tell of it.
    drop(Files::on(Arc::clone(&disk), &options(MEMTABLES_BYTES)));
    let mut files = Files::on(disk, &options(MEMTABLES_BYTES));
    let opened = sstables_with_the_rest(&files);
    assert!(
        opened.abs_diff(compacted) < 1_000,
        "{opened} and {compacted} bytes"
    );
    let id = files.schema.tables().next().unwrap().id;
    while files.store.truncate(id).is_err() {
        files.run_jobs();
    }
    assert_eq!(sstables_with_the_rest(&files), 0);

    let fill = |files: &mut Files| {
        (0..PARTITIONS).for_each(|partition| files.write(partition));
        files.log_and_flush(true);
        files.run_jobs();
        assert!(sstables_with_the_rest(files) > 20_000);
    };
    fill(&mut files);
    let held = files.store.hold_sstables(id).unwrap();
    let replaced: Vec<_> = held.iter().map(|sstable| sstable.descriptor()).collect();
    files.store.exchange_sstables(id, &replaced, Vec::new());
    assert_eq!(sstables_with_the_rest(&files), 0);
    fill(&mut files);
    files.store.set_schema(&Schema::default());
    assert_eq!(sstables_with_the_rest(&files), 0);
}

#[test]
fn caches_keep_a_quarter_of_their_memory_however_much_open_sstables_take() {
    let files = Files::of_options(StoreOptions {
        chunk_cache_bytes_max: 32 << 10,
        row_cache_bytes_max: 0,
        ..options(1)
    });
    let [caches, sstables] = files.allowed_bytes();
    assert!(sstables > 32 << 10, "{sstables} bytes");
    assert_eq!(caches, 8 << 10);
}

/// Flushed memtables waited behind other jobs to be freed and counted for nothing meanwhile: a node with 128 MiB held 400 MiB of them.
#[test]
fn a_flushed_memtable_counts_until_it_is_freed_and_that_comes_before_the_next_flush() {
    let mut files = Files::open(MEMTABLES_BYTES);
    let run = |files: &mut Files, wanted: JobKind| {
        let job = files.store.next_job().unwrap();
        assert_eq!(job.progress().kind, wanted);
        files.store.complete(job.run()).result.unwrap();
    };
    for number in 0..2 {
        files.write(number);
        files.log_and_flush(false);
        files.store.flush(None);
    }
    let both = files.store.memtable_bytes();
    run(&mut files, JobKind::Flush);
    assert_eq!(files.store.memtable_bytes(), both);
    run(&mut files, JobKind::Release);
    let one = files.store.memtable_bytes();
    assert!(one > 0 && one < both, "{one} of {both}");
    run(&mut files, JobKind::Flush);
    run(&mut files, JobKind::Release);
    assert_eq!(files.store.memtable_bytes(), 0);
}

/// Rows begin with 0.7 MB of the 5 that caches share. 3,000 rows take 1.3 MB, and the chunks that they lie in, all of the files, 3 MB.
#[test]
fn memory_goes_to_rows_as_long_as_chunks_have_enough() {
    let mut files = Files::of_options(StoreOptions {
        memtable_bytes_max: MEMTABLES_BYTES,
        chunk_cache_bytes_max: 1 << 20,
        row_cache_bytes_max: 1 << 20,
        lent_bytes_max: 5 << 20,
        ..StoreOptions::default()
    });
    files.read_of(3_000, 4 * PARTITIONS);
    let [rows, ..] = files.cached_bytes();
    assert!(rows > 1_200_000, "{rows} bytes of rows");
    files.read(10 * PARTITIONS);
    let reads = files.read(PARTITIONS);
    // Not none: the last chunks are worth less than the rows that would make room for them.
    assert!(reads < u64::from(PARTITIONS) / 10, "{reads} reads of the disk");
}

/// Reads at random out of more than the cache holds each packed a row that was let go before anybody came back to it.
#[test]
fn a_full_row_cache_takes_in_what_is_asked_for_again() {
    let mut files = Files::of_options(StoreOptions {
        row_cache_bytes_max: 400_000,
        ..options(0)
    });
    let fills_and_hits = |files: &mut Files, partitions: u32, count: u32| {
        let before = files.store.row_cache_counts();
        files.read_of(partitions, count);
        let now = files.store.row_cache_counts();
        [now.fills - before.fills, now.hits - before.hits]
    };
    let [fills, _] = fills_and_hits(&mut files, PARTITIONS, 500);
    assert!(fills > 480, "{fills} of 500 while there is room");
    fills_and_hits(&mut files, PARTITIONS, 2 * PARTITIONS);
    let [fills, hits] = fills_and_hits(&mut files, PARTITIONS, PARTITIONS);
    assert!(
        fills > 100 && fills < u64::from(PARTITIONS) / 5,
        "{fills} of {PARTITIONS}"
    );
    // 700 of the 24,000 are there.
    assert!(hits > 400, "{hits} of {PARTITIONS}");
    fills_and_hits(&mut files, 300, 1_500);
    let [_, hits] = fills_and_hits(&mut files, 300, 1_000);
    assert!(hits > 950, "{hits} of 1,000");
}
