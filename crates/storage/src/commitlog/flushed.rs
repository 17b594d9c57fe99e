//! Which part of the log each table no longer needs.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use helenus_schema::TableId;
use helenus_vfs::Disk;
use uuid::Uuid;

use super::LogPosition;

const NAME: &str = "flushed";
const NEW_NAME: &str = "flushed.new";
const MAGIC: [u8; 8] = *b"HELENFLU";
/// Table id 16, segment u64, offset u32.
const ENTRY_BYTES: usize = 28;
/// A guard against damage: ten million tables.
const FILE_BYTES_MAX: u64 = 10_000_000 * ENTRY_BYTES as u64;

/// For each table the position up to which its writes are in SSTables, or were truncated, or went with the table before it was
/// made again under its id. Replay skips those.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlushedPositions {
    positions: BTreeMap<TableId, LogPosition>,
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
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        file.read_exact_at(0, &mut bytes)?;
        Self::decode(&bytes).ok_or(io::ErrorKind::InvalidData.into())
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(MAGIC.len() + self.positions.len() * ENTRY_BYTES + 4);
        bytes.extend_from_slice(&MAGIC);
        for (table, position) in &self.positions {
            bytes.extend_from_slice(table.0.as_bytes());
            bytes.extend_from_slice(&position.segment.to_le_bytes());
            bytes.extend_from_slice(&position.offset.to_le_bytes());
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
        let (entries, rest) = body.strip_prefix(&MAGIC)?.as_chunks::<ENTRY_BYTES>();
        if !rest.is_empty() {
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
