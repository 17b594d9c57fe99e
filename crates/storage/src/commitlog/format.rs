//! The bytes of a segment, and the names of the log's files.

use std::path::{Path, PathBuf};

use helenus_types::ShardId;

use super::WriteSetPart;

/// As Cassandra's `commitlog_segment_size`.
pub const SEGMENT_BYTES_DEFAULT: u32 = 32 << 20;

/// Version of the segments that are written. Version 2 had no ends, and no zeros behind its records; version 1 had neither write sets nor
/// what marks say of them.
pub(super) const VERSION: u32 = 3;
const VERSION_MIN: u32 = 1;

const MAGIC: [u8; 8] = *b"HELENLOG";
const VERSION_AT: usize = 8;
const SHARD_AT: usize = 12;
const SEGMENT_AT: usize = 16;
const CRC_AT: usize = 24;
pub(super) const HEADER_BYTES: usize = 28;

/// Payload length u32, kind u8, checksum of the head u32, checksum of the payload u32.
pub(super) const RECORD_HEAD_BYTES: usize = 13;
const KIND_AT: usize = 4;
const HEAD_CRC_AT: usize = 5;
const PAYLOAD_CRC_AT: usize = 9;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum RecordKind {
    /// A packed update.
    Update = 1,
    /// The segment's bytes before the offset in the payload (u32) had been synced when this was written. Then, where it
    /// was news, up to which number the write sets of a run (u64) were resolved: coordinator (u16), number (u64) each.
    SyncMark = 2,
    /// Packed updates of several partitions, each after its length (u32).
    Updates = 3,
    /// As `Updates`, after what says which part of a write set they are.
    WriteSetPart = 4,
    /// Empty. The log goes on in the next segment; what is left of this file, if anything, was never written.
    End = 5,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderError {
    TooShort,
    Magic,
    Version(u32),
    Checksum,
    /// Belongs to another file.
    Identity,
}

pub(super) struct Record<'a> {
    pub kind: RecordKind,
    pub payload: &'a [u8],
}

pub fn shard_folder(log_folder: &Path, shard: ShardId) -> PathBuf {
    log_folder.join(format!("shard-{:05}", shard.0))
}

pub(super) fn segment_name(segment: u64) -> String {
    format!("segment-{segment:016x}.log")
}

pub(super) fn segment_of_name(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("segment-")?.strip_suffix(".log")?;
    (digits.len() == 16).then(|| u64::from_str_radix(digits, 16).ok())?
}

pub(super) fn push_header(out: &mut Vec<u8>, shard: ShardId, segment: u64) {
    let start = out.len();
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&u32::from(shard.0).to_le_bytes());
    out.extend_from_slice(&segment.to_le_bytes());
    let crc = crc32fast::hash(&out[start..]);
    out.extend_from_slice(&crc.to_le_bytes());
}

pub(super) fn check_header(bytes: &[u8], shard: ShardId, segment: u64) -> Result<(), HeaderError> {
    let header: &[u8; HEADER_BYTES] = bytes.first_chunk().ok_or(HeaderError::TooShort)?;
    if header[..VERSION_AT] != MAGIC {
        return Err(HeaderError::Magic);
    }
    // Before anything else: a header that a crash has torn says nothing. All versions have it at the same place.
    if crc32fast::hash(&header[..CRC_AT]) != u32_at(header, CRC_AT) {
        return Err(HeaderError::Checksum);
    }
    let version = u32_at(header, VERSION_AT);
    if !(VERSION_MIN..=VERSION).contains(&version) {
        return Err(HeaderError::Version(version));
    }
    let found_segment =
        u64::from(u32_at(header, SEGMENT_AT)) | u64::from(u32_at(header, SEGMENT_AT + 4)) << 32;
    if u32_at(header, SHARD_AT) != u32::from(shard.0) || found_segment != segment {
        return Err(HeaderError::Identity);
    }
    Ok(())
}

/// `offset` is where in the segment the record starts; payloads are below half a segment, so lengths fit.
pub(super) fn push_record(out: &mut Vec<u8>, segment: u64, offset: u32, kind: RecordKind, payload: &[u8]) {
    let length = payload.len() as u32;
    out.extend_from_slice(&length.to_le_bytes());
    out.push(kind as u8);
    out.extend_from_slice(&head_crc(segment, offset, length, kind as u8).to_le_bytes());
    out.extend_from_slice(&crc32fast::hash(payload).to_le_bytes());
    out.extend_from_slice(payload);
}

/// As [`push_record`], of a payload that is written in place.
pub(super) fn push_record_with(
    out: &mut Vec<u8>,
    segment: u64,
    offset: u32,
    kind: RecordKind,
    payload: impl FnOnce(&mut Vec<u8>),
) {
    let start = out.len();
    out.extend_from_slice(&[0; RECORD_HEAD_BYTES]);
    payload(out);
    let (head, payload) = out[start..].split_at_mut(RECORD_HEAD_BYTES);
    let length = payload.len() as u32;
    head[..KIND_AT].copy_from_slice(&length.to_le_bytes());
    head[KIND_AT] = kind as u8;
    head[HEAD_CRC_AT..PAYLOAD_CRC_AT]
        .copy_from_slice(&head_crc(segment, offset, length, kind as u8).to_le_bytes());
    head[PAYLOAD_CRC_AT..].copy_from_slice(&crc32fast::hash(payload).to_le_bytes());
}

/// Appends several updates, as records of more than one have them.
pub(super) fn push_updates<'u>(out: &mut Vec<u8>, updates: impl Iterator<Item = &'u [u8]>) {
    for update in updates {
        // Below half a segment, as their sum is.
        out.extend_from_slice(&(update.len() as u32).to_le_bytes());
        out.extend_from_slice(update);
    }
}

/// Bytes that [`push_updates`] appends.
pub(super) fn updates_bytes<'u>(updates: impl Iterator<Item = &'u [u8]>) -> usize {
    updates.map(|update| 4 + update.len()).sum()
}

impl<'a> Record<'a> {
    /// Where it ends if it starts at `offset`.
    pub fn end(&self, offset: usize) -> usize {
        offset + RECORD_HEAD_BYTES + self.payload.len()
    }

    /// Which part of a write set it is, if any; `Err` if it should say and does not.
    pub fn part(&self) -> Result<Option<WriteSetPart>, MalformedRecord> {
        match self.kind {
            RecordKind::WriteSetPart => {
                let (part, _) = WriteSetPart::decode(self.payload).ok_or(MalformedRecord)?;
                Ok(Some(part))
            }
            _ => Ok(None),
        }
    }

    /// Hands over each packed update in it.
    pub fn each_update<E: From<MalformedRecord>>(
        &self,
        mut take: impl FnMut(&'a [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut rest = match self.kind {
            RecordKind::SyncMark | RecordKind::End => return Ok(()),
            RecordKind::Update => return take(self.payload),
            RecordKind::Updates => self.payload,
            RecordKind::WriteSetPart => WriteSetPart::decode(self.payload).ok_or(MalformedRecord)?.1,
        };
        while !rest.is_empty() {
            let (length, bytes) = rest.split_first_chunk().ok_or(MalformedRecord)?;
            let length = u32::from_le_bytes(*length) as usize;
            let (update, after) = bytes.split_at_checked(length).ok_or(MalformedRecord)?;
            take(update)?;
            rest = after;
        }
        Ok(())
    }

    /// Decodes a mark: up to which offset the segment was synced, and which write sets were resolved.
    pub fn mark(&self) -> Option<Mark<'a>> {
        let (synced, rest) = self.payload.split_first_chunk()?;
        let (run, resolved) = rest.split_first_chunk().unwrap_or((&[0; 8], &[]));
        (self.kind == RecordKind::SyncMark).then_some(Mark {
            synced: u32::from_le_bytes(*synced),
            run: u64::from_le_bytes(*run),
            resolved,
        })
    }
}

/// A record with a right checksum whose payload does not add up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("lengths that do not add up")]
pub(super) struct MalformedRecord;

pub(super) struct Mark<'a> {
    pub synced: u32,
    pub run: u64,
    resolved: &'a [u8],
}

/// Coordinator u16, number u64.
const RESOLVED_BYTES: usize = 10;

impl Mark<'_> {
    pub fn encode(synced: u32, resolved: Option<(u64, &[(ShardId, u64)])>) -> Vec<u8> {
        let mut payload = synced.to_le_bytes().to_vec();
        if let Some((run, resolved)) = resolved {
            payload.extend_from_slice(&run.to_le_bytes());
            for (coordinator, through) in resolved {
                payload.extend_from_slice(&coordinator.0.to_le_bytes());
                payload.extend_from_slice(&through.to_le_bytes());
            }
        }
        payload
    }

    /// Coordinators, and the numbers up to which their sets were resolved.
    pub fn resolved(&self) -> impl Iterator<Item = (ShardId, u64)> {
        let entries = self.resolved.as_chunks::<RESOLVED_BYTES>().0.iter();
        entries.filter_map(|entry| {
            let (coordinator, through) = entry.split_first_chunk()?;
            let coordinator = ShardId(u16::from_le_bytes(*coordinator));
            Some((coordinator, u64::from_le_bytes(*through.first_chunk()?)))
        })
    }
}

/// The record at `offset`; `None` where there is no complete and undamaged one.
pub(super) fn record_at(bytes: &[u8], segment: u64, offset: usize) -> Option<Record<'_>> {
    let (head, kind) = head_at(bytes, segment, offset)?;
    let payload = bytes.get(offset + RECORD_HEAD_BYTES..)?;
    let payload = payload.get(..u32_at(head, 0) as usize)?;
    (crc32fast::hash(payload) == u32_at(head, PAYLOAD_CRC_AT)).then_some(Record { kind, payload })
}

/// Where a record ends whose head is undamaged, whatever became of its payload.
pub(super) fn end_by_head(bytes: &[u8], segment: u64, offset: usize) -> Option<usize> {
    let (head, _) = head_at(bytes, segment, offset)?;
    Some(offset + RECORD_HEAD_BYTES + u32_at(head, 0) as usize)
}

fn head_at(bytes: &[u8], segment: u64, offset: usize) -> Option<(&[u8; RECORD_HEAD_BYTES], RecordKind)> {
    let head = bytes.get(offset..)?.first_chunk::<RECORD_HEAD_BYTES>()?;
    let kind = match head[KIND_AT] {
        1 => RecordKind::Update,
        2 => RecordKind::SyncMark,
        3 => RecordKind::Updates,
        4 => RecordKind::WriteSetPart,
        5 => RecordKind::End,
        _ => return None,
    };
    let crc = head_crc(segment, offset as u32, u32_at(head, 0), kind as u8);
    (crc == u32_at(head, HEAD_CRC_AT)).then_some((head, kind))
}

/// Segment and offset go into the checksum, so that what an older file left in the same blocks is never taken for
/// a record.
fn head_crc(segment: u64, offset: u32, length: u32, kind: u8) -> u32 {
    let mut head = [0; 17];
    head[..8].copy_from_slice(&segment.to_le_bytes());
    head[8..12].copy_from_slice(&offset.to_le_bytes());
    head[12..16].copy_from_slice(&length.to_le_bytes());
    head[16] = kind;
    crc32fast::hash(&head)
}

/// The caller's array is longer than `at + 4`.
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..)
        .and_then(|rest| rest.first_chunk())
        .map_or(0, |array| u32::from_le_bytes(*array))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_segment() {
        let mut bytes = Vec::new();
        push_header(&mut bytes, ShardId(2), 0x0102_0304_0506_0708);
        push_record(
            &mut bytes,
            0x0102_0304_0506_0708,
            HEADER_BYTES as u32,
            RecordKind::Update,
            b"abc",
        );
        let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            hex.join(""),
            concat!(
                "48454c454e4c4f47", // magic
                "03000000",         // version
                "02000000",         // shard
                "0807060504030201", // segment
                "e7c0612a",         // checksum of the above
                "03000000",         // payload length
                "01",               // kind: update
                "736d850e",         // checksum of the head
                "c2412435",         // checksum of the payload
                "616263",           // payload
            )
        );
    }

    #[test]
    fn no_flipped_bit_goes_unseen() {
        let mut bytes = Vec::new();
        push_header(&mut bytes, ShardId(0), 9);
        push_record(&mut bytes, 9, HEADER_BYTES as u32, RecordKind::Update, b"payload");
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let is_header = bit / 8 < HEADER_BYTES;
            assert_eq!(
                check_header(&damaged, ShardId(0), 9).is_err(),
                is_header,
                "bit {bit}"
            );
            assert_eq!(
                record_at(&damaged, 9, HEADER_BYTES).is_none(),
                !is_header,
                "bit {bit}"
            );
        }
        assert!(
            record_at(&bytes, 10, HEADER_BYTES).is_none(),
            "of another segment"
        );
    }
}
