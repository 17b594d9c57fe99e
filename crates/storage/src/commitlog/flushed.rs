//! Which part of the log each table no longer needs.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use helenus_schema::TableId;
use helenus_types::ShardId;
use helenus_vfs::Disk;
use uuid::Uuid;

use super::write_set::ResolvedThrough;
use super::{LogPosition, ResolvedWriteSets};

const NAME: &str = "flushed";
const NEW_NAME: &str = "flushed.new";
/// Magic of the first version, which ends with its entries.
const MAGIC_1: [u8; 8] = *b"HELENFLU";
const MAGIC: [u8; 8] = *b"HELENFL2";
/// Table id 16, segment u64, offset u32.
const ENTRY_BYTES: usize = 28;
/// Run u64, coordinator u16, number u64.
const RESOLVED_BYTES: usize = 18;
/// A guard against damage: ten million tables.
const FILE_BYTES_MAX: u64 = 10_000_000 * ENTRY_BYTES as u64;

/// For each table the position up to which its writes are in SSTables, or were truncated, or went with the table before it was
/// made again under its id. Replay skips those.
///
/// And up to which number the write sets of each coordinator are resolved: their parts in other logs count, also where
/// this one has theirs no more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlushedPositions {
    positions: BTreeMap<TableId, LogPosition>,
    resolved: ResolvedThrough,
}

/// Makes the error of a damaged file; the caller names the folder.
fn damaged() -> io::Error {
    let text = format!(
        "the file {NAME:?} is damaged; restore it from a copy, or remove it: all of the log is replayed then, rows come back that were \
         truncated since its segments were begun, and LOGGED batches of which other logs have only parts are left out"
    );
    io::Error::new(io::ErrorKind::InvalidData, text)
}

impl FlushedPositions {
    pub fn set(&mut self, table: TableId, position: LogPosition) {
        let current = self.positions.entry(table).or_default();
        *current = position.max(*current);
    }

    pub fn contains(&self, table: TableId, position: LogPosition) -> bool {
        self.positions
            .get(&table)
            .is_some_and(|flushed| position <= *flushed)
    }

    pub fn retain(&mut self, mut is_kept: impl FnMut(TableId, LogPosition) -> bool) {
        self.positions
            .retain(|table, position| is_kept(*table, *position));
    }

    pub(super) fn note_resolved(&mut self, resolved: &ResolvedWriteSets) {
        for (run, coordinator, through) in resolved.all() {
            self.resolved.insert((run, coordinator), through);
        }
    }

    pub(super) fn resolved(&self) -> &ResolvedThrough {
        &self.resolved
    }

    /// The latest segment named.
    pub(super) fn last_segment(&self) -> u64 {
        self.positions
            .values()
            .map(|position| position.segment)
            .max()
            .unwrap_or(0)
    }

    /// Replaces the folder's file; durable when it returns.
    pub(super) fn store(&self, disk: &dyn Disk, folder: &Path) -> io::Result<()> {
        let new = folder.join(NEW_NAME);
        if disk.exists(&new)? {
            disk.remove(&new)?;
        }
        let file = disk.create(&new)?;
        file.append(&self.encode())?;
        file.sync_data()?;
        disk.rename(&new, &folder.join(NAME))?;
        disk.sync_directory(folder)
    }

    /// Empty where there is no file; `InvalidData` where it is damaged.
    pub(super) fn load(disk: &dyn Disk, folder: &Path) -> io::Result<Self> {
        let path = folder.join(NAME);
        if !disk.exists(&path)? {
            return Ok(Self::default());
        }
        let file = disk.open(&path)?;
        let length = file.length()?;
        if length > FILE_BYTES_MAX {
            return Err(damaged());
        }
        let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        file.read_exact_at(0, &mut bytes)?;
        Self::decode(&bytes).ok_or_else(damaged)
    }

    fn encode(&self) -> Vec<u8> {
        let entries = self.positions.len() * ENTRY_BYTES + self.resolved.len() * RESOLVED_BYTES;
        let mut bytes = Vec::with_capacity(MAGIC.len() + 4 + entries + 4);
        bytes.extend_from_slice(&MAGIC);
        // The file's bound keeps it far below 2^32.
        bytes.extend_from_slice(&(self.positions.len() as u32).to_le_bytes());
        for (table, position) in &self.positions {
            bytes.extend_from_slice(table.0.as_bytes());
            bytes.extend_from_slice(&position.segment.to_le_bytes());
            bytes.extend_from_slice(&position.offset.to_le_bytes());
        }
        for ((run, coordinator), through) in &self.resolved {
            bytes.extend_from_slice(&run.to_le_bytes());
            bytes.extend_from_slice(&coordinator.0.to_le_bytes());
            bytes.extend_from_slice(&through.to_le_bytes());
        }
        let crc = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (body, crc) = bytes.split_last_chunk::<4>()?;
        if crc32fast::hash(body) != u32::from_le_bytes(*crc) {
            return None;
        }
        let (entries, resolved) = match body.strip_prefix(&MAGIC_1) {
            Some(entries) => (entries, [].as_slice()),
            None => {
                let (count, rest) = body.strip_prefix(&MAGIC)?.split_first_chunk()?;
                let bytes = ENTRY_BYTES.checked_mul(u32::from_le_bytes(*count) as usize)?;
                rest.split_at_checked(bytes)?
            }
        };
        let (entries, rest) = entries.as_chunks::<ENTRY_BYTES>();
        let (resolved, resolved_rest) = resolved.as_chunks::<RESOLVED_BYTES>();
        if !rest.is_empty() || !resolved_rest.is_empty() {
            return None;
        }
        let mut flushed = Self::default();
        for entry in entries {
            let (id, rest) = entry.split_first_chunk::<16>()?;
            let (segment, rest) = rest.split_first_chunk::<8>()?;
            let position = LogPosition {
                segment: u64::from_le_bytes(*segment),
                offset: u32::from_le_bytes(*rest.first_chunk()?),
            };
            flushed.set(TableId(Uuid::from_bytes(*id)), position);
        }
        for entry in resolved {
            let (run, rest) = entry.split_first_chunk::<8>()?;
            let (coordinator, rest) = rest.split_first_chunk::<2>()?;
            let coordinator = ShardId(u16::from_le_bytes(*coordinator));
            let through = u64::from_le_bytes(*rest.first_chunk()?);
            flushed
                .resolved
                .insert((u64::from_le_bytes(*run), coordinator), through);
        }
        Some(flushed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_damage() {
        let mut flushed = FlushedPositions::default();
        flushed.set(
            TableId(Uuid::from_u128(7)),
            LogPosition {
                segment: 3,
                offset: 40,
            },
        );
        flushed.set(
            TableId(Uuid::from_u128(7)),
            LogPosition {
                segment: 2,
                offset: 90,
            },
        );
        flushed.set(
            TableId(Uuid::from_u128(8)),
            LogPosition {
                segment: 5,
                offset: 1,
            },
        );
        // As the first version of the format had it.
        let mut first = MAGIC_1.to_vec();
        first.extend_from_slice(&flushed.encode()[MAGIC.len() + 4..flushed.encode().len() - 4]);
        first.extend_from_slice(&crc32fast::hash(&first).to_le_bytes());
        assert_eq!(FlushedPositions::decode(&first), Some(flushed.clone()));
        flushed.resolved.insert((9, ShardId(1)), 5);
        let bytes = flushed.encode();
        assert_eq!(FlushedPositions::decode(&bytes), Some(flushed.clone()));
        assert!(flushed.contains(
            TableId(Uuid::from_u128(7)),
            LogPosition {
                segment: 3,
                offset: 40
            }
        ));
        assert!(!flushed.contains(
            TableId(Uuid::from_u128(7)),
            LogPosition {
                segment: 3,
                offset: 41
            }
        ));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert_eq!(FlushedPositions::decode(&damaged), None, "byte {at}");
            assert_eq!(FlushedPositions::decode(&bytes[..at]), None, "cut at {at}");
        }
    }
}
