//! A log that goes on in segments which were made ahead.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use helenus_vfs::{Disk, Fault, FaultKind, Operation};

use super::log_faults::{Log, SEGMENT_BYTES, open};

impl Log {
    /// Writes so many rows, each with a sync of its own, and makes segments as a node does.
    fn write_ahead(&mut self, count: usize) {
        for _ in 0..count {
            self.write().unwrap();
            self.persist().unwrap();
            if self.writer.wants_tending() {
                self.writer.segment_files().tend().unwrap();
            }
        }
    }

    /// A log of so many rows whose second segment is made, and not written to.
    fn before_segment_ahead() -> (Log, usize, PathBuf) {
        let mut log = Log::start();
        let mut written = 0;
        while log.segments().len() < 2 {
            log.write_ahead(1);
            written += 1;
        }
        let ahead = log.segments().pop().unwrap();
        (log, written, ahead)
    }

    /// A log of so many rows in the second segment, which was made ahead; the third is not made yet.
    fn in_segment_ahead() -> (Log, usize, PathBuf) {
        let (mut log, mut written, ahead) = Log::before_segment_ahead();
        while !log.is_written(&ahead) {
            log.write_ahead(1);
            written += 1;
        }
        (log, written, ahead)
    }

    fn is_written(&self, segment: &Path) -> bool {
        let mut magic = [0];
        self.disk
            .open(segment)
            .unwrap()
            .read_exact_at(0, &mut magic)
            .unwrap();
        magic != [0]
    }

    fn bytes(&self, segment: &Path) -> Vec<u8> {
        let mut bytes = vec![0; self.length(segment) as usize];
        self.disk
            .open(segment)
            .unwrap()
            .read_exact_at(0, &mut bytes)
            .unwrap();
        bytes
    }

    /// Rows that a start would read, on a copy of the disk.
    fn replayed_on_copy(&mut self) -> Result<usize, String> {
        let copy = Arc::new(self.disk.copy(1));
        let disk = std::mem::replace(&mut self.disk, copy);
        let replayed = self.replayed();
        self.disk = disk;
        replayed
    }

    fn inject(&self, operation: Operation, kind: FaultKind) {
        self.disk.inject(Fault {
            operation,
            after: 0,
            kind,
        });
    }
}

fn written_bytes(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1
}

#[test]
fn the_next_segment_is_begun_without_a_change_to_its_folder_or_its_length() {
    let (mut log, mut written, ahead) = Log::before_segment_ahead();
    let begun_bytes = log.length(&log.segments()[0]);
    let (quarter, half) = (u64::from(SEGMENT_BYTES / 4), u64::from(SEGMENT_BYTES / 2));
    assert!((quarter..half).contains(&begun_bytes), "{begun_bytes}");
    let length = log.length(&ahead);
    // A length alone would be as slow to sync as a file that grows.
    let written_bytes = log.disk.usage().written_bytes;
    assert!(written_bytes > length, "{written_bytes} bytes written");
    assert!(length >= u64::from(SEGMENT_BYTES), "{length}");
    // Any of them would be met, and end the log.
    for operation in [Operation::Create, Operation::Rename, Operation::SyncDirectory] {
        log.inject(operation, FaultKind::Error);
    }
    while !log.is_written(&ahead) {
        log.write().unwrap();
        log.persist().unwrap();
        written += 1;
    }
    assert_eq!(log.length(&ahead), length);
    log.disk.clear_faults();
    log.write_ahead(200);
    written += 200;
    assert!(log.segments().len() > 4);
    assert_eq!(log.replayed_on_copy(), Ok(written));
    drop((log.store, log.writer));
    log.disk.crash();
    let opened = open(&log.disk, &log.schema).unwrap();
    assert_eq!((opened.updates_replayed, opened.torn_bytes), (written as u64, 0));
}

#[test]
fn a_log_that_is_seldom_synced_has_no_segment_made_ahead() {
    let mut log = Log::start();
    for _ in 0..3 {
        (0..10).for_each(|_| log.write().unwrap());
        log.persist().unwrap();
        assert!(!log.writer.wants_tending());
    }
}

#[test]
fn a_flipped_bit_in_what_was_synced_is_found_before_zeros_too() {
    let (mut log, mut written, ahead) = Log::in_segment_ahead();
    log.write_ahead(3);
    written += 3;
    let end = written_bytes(&log.bytes(&ahead));
    for bit in (0..end as u64 * 8).step_by(3) {
        log.disk.flip_bit(&ahead, bit).unwrap();
        assert!(log.replayed_on_copy().is_err(), "bit {bit}");
        log.disk.flip_bit(&ahead, bit).unwrap();
    }
    assert_eq!(log.replayed_on_copy(), Ok(written));
}

#[test]
fn a_last_write_over_zeros_of_which_sectors_are_missing_is_passed_over_from_there() {
    let (mut log, written, ahead) = Log::in_segment_ahead();
    let synced = written_bytes(&log.bytes(&ahead));
    (0..20).for_each(|_| log.write().unwrap());
    log.persist().unwrap();
    let whole = log.bytes(&ahead);
    let end = written_bytes(&whole);
    assert!((1_024..2_048).contains(&end), "{end}");
    let mut counts = Vec::new();
    for lost in [synced..512, 512..1_024, 1_024..1_536, synced..1_024] {
        log.overwrite(&ahead, lost.start as u64, &vec![0; lost.len()]);
        counts.push(log.replayed_on_copy().unwrap() - written);
        log.overwrite(&ahead, 0, &whole);
    }
    let ends_where_it_was_lost = counts[0] == 0 && 0 < counts[1] && counts[1] < counts[2] && counts[3] == 0;
    assert!(ends_where_it_was_lost, "{counts:?}");
    assert_eq!(log.replayed_on_copy(), Ok(written + 20));
}

#[test]
fn a_segment_that_others_follow_has_its_end() {
    let (mut log, _, ahead) = Log::in_segment_ahead();
    while log.segments().pop().unwrap() == ahead {
        log.write_ahead(1);
    }
    let after = log.segments().pop().unwrap();
    while !log.is_written(&after) {
        log.write_ahead(1);
    }
    assert!(log.replayed_on_copy().is_ok());
    let whole = log.bytes(&ahead);
    let end = written_bytes(&whole);
    // The head of an end, which has no payload: lost with its sector, all that tells that the log went on is the next segment.
    for lost in [end - 1..end, end / 512 * 512..end] {
        log.overwrite(&ahead, lost.start as u64, &vec![0; lost.len()]);
        let error = log.replayed_on_copy().unwrap_err();
        assert!(
            error.contains("damaged bytes before the log's last segment"),
            "{error}"
        );
        log.overwrite(&ahead, 0, &whole);
    }
}

/// A file that was made ahead comes behind the segment that is written to: the power may fail in the latter.
#[test]
fn a_torn_end_before_a_segment_that_was_made_ahead_is_passed_over() {
    let (mut log, written, _) = Log::before_segment_ahead();
    let segments = log.segments();
    let synced = log.length(&segments[0]);
    log.write().unwrap();
    log.persist().unwrap();
    log.set_length(&segments[0], synced + 20);
    assert_eq!(log.replayed_on_copy(), Ok(written));
    log.disk.flip_bit(&segments[1], 700 * 8).unwrap();
    assert_eq!(
        log.replayed_on_copy(),
        Ok(written),
        "nothing is lost with a bit of an empty file"
    );
    drop((log.store, log.writer));
    log.disk.crash();
    let opened = open(&log.disk, &log.schema).unwrap();
    assert_eq!(opened.updates_replayed, written as u64);
    assert!(!log.disk.files().contains(&segments[1]));
}

/// A segment is begun once the one before it is durable.
#[test]
fn a_torn_end_before_a_segment_that_was_begun_is_damage_though_its_header_is_lost() {
    let (mut log, ..) = Log::before_segment_ahead();
    let segments = log.segments();
    (0..40).for_each(|_| log.write().unwrap());
    log.persist().unwrap();
    assert!(log.is_written(&segments[1]) && log.segments().len() == 2);
    log.overwrite(&segments[1], 0, &[0; 512]);
    assert!(
        log.replayed_on_copy().is_ok(),
        "the header and what follows it were not acknowledged"
    );
    log.set_length(&segments[0], log.length(&segments[0]) - 1);
    let error = log.replayed_on_copy().unwrap_err();
    assert!(
        error.contains("damaged bytes before the log's last segment"),
        "{error}"
    );
}

#[test]
fn a_disk_that_cannot_make_a_segment_ahead_keeps_nobody_from_writing() {
    let mut log = Log::start();
    let faults = [
        (Operation::Create, FaultKind::NoSpace),
        (Operation::Write, FaultKind::NoSpace),
        (Operation::Write, FaultKind::Error),
        (Operation::Sync, FaultKind::Error),
        (Operation::Rename, FaultKind::Error),
    ];
    let mut written = 0;
    for (operation, kind) in faults {
        loop {
            log.write().unwrap();
            log.persist().unwrap();
            written += 1;
            if log.writer.wants_tending() {
                break;
            }
        }
        log.inject(operation, kind);
        log.writer.segment_files().tend().unwrap();
        let files = log.disk.files();
        let has_zeros = files.iter().any(|path| path.ends_with("segment.zeros"));
        assert!(!has_zeros, "{operation:?}");
        log.write_ahead(30);
        written += 30;
    }
    drop((log.store, log.writer));
    log.disk.crash();
    let opened = open(&log.disk, &log.schema).unwrap();
    assert_eq!(opened.updates_replayed, written);
}

#[test]
fn a_segment_whose_name_may_not_be_durable_is_not_gone_on_in() {
    for (kind, is_final) in [(FaultKind::Error, true), (FaultKind::NoSpace, false)] {
        let mut log = Log::start();
        while !log.writer.wants_tending() {
            log.write().unwrap();
            log.persist().unwrap();
        }
        log.inject(Operation::SyncDirectory, kind);
        log.writer.segment_files().tend().unwrap();
        (0..40).for_each(|_| log.write().unwrap());
        let error = log.persist().unwrap_err();
        assert_eq!(error.is_final(), is_final, "{error}");
        let _tried_again = log.persist();
        assert_eq!(log.write().is_ok(), !is_final);
    }
}

#[test]
fn a_log_that_is_closed_leaves_no_zeros_to_the_next_start() {
    let (mut log, written, _) = Log::in_segment_ahead();
    while !log.writer.wants_tending() {
        log.write().unwrap();
        log.persist().unwrap();
    }
    let segments = log.segments().len();
    let ahead = log.writer.segment_files();
    ahead.tend().unwrap();
    assert_eq!(log.segments().len(), segments + 1);
    ahead.close();
    ahead.remove_unused();
    assert_eq!(log.segments().len(), segments);
    while !log.writer.wants_tending() {
        log.write().unwrap();
        log.persist().unwrap();
    }
    ahead.tend().unwrap();
    ahead.remove_unused();
    assert!(
        log.is_written(&log.segments().pop().unwrap()),
        "none is made any more"
    );
    let files = log.disk.files();
    assert!(!files.iter().any(|path| path.ends_with("segment.zeros")));
    assert!(log.replayed().unwrap() >= written);
}

/// To remove a segment of 32 MiB takes ten milliseconds, and a flush made several useless: group commits waited for that.
#[test]
fn segments_of_no_more_use_are_removed_by_whoever_tends_the_files_oldest_first_and_again_after_an_error() {
    let mut log = Log::start();
    while log.segments().len() < 4 {
        log.write_ahead(1);
    }
    log.store.flush(None);
    while let Some(job) = log.store.next_job() {
        assert!(log.store.complete(job.run()).result.is_ok());
    }
    let segments = log.segments();
    log.persist().unwrap();
    assert!(log.writer.wants_tending());
    assert_eq!(log.segments(), segments);
    // The second of them.
    log.disk.inject(Fault {
        operation: Operation::Remove,
        after: 1,
        kind: FaultKind::Error,
    });
    let error = log.writer.segment_files().tend().unwrap_err();
    assert!(error.to_string().contains("segment-"), "{error}");
    assert_eq!(log.segments(), segments[1..]);
    // Somebody has made room by hand.
    log.disk.remove(&segments[1]).unwrap();
    log.writer.segment_files().tend().unwrap();
    // Those that are written to and made ahead are left.
    let left = log.segments();
    assert!(left.len() <= 2 && segments.ends_with(&left), "{left:?}");
    log.write_ahead(1);
    assert_eq!(log.replayed_on_copy(), Ok(1));
}
