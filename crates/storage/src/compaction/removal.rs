//! Removing several SSTables as one: all of them go, or none.
//!
//! A compaction has dropped tombstones together with what they hid. Were some of its inputs gone and others not after
//! a crash, hidden data could come back; so the list of what goes is made durable first, and what a crash interrupts
//! is finished at the next start. Until the list is there, inputs and output exist side by side, which merges to the
//! same answers. A TRUNCATE removes with such a list too.

use std::io;
use std::path::{Path, PathBuf};

use helenus_vfs::{Disk, EntryKind};

use crate::sstable::{Descriptor, SsTableId, Version, remove_sstable};

const NAME_PREFIX: &str = "removal-";
const NAME_SUFFIX: &str = ".txt";
const NEW_SUFFIX: &str = ".new";
/// A guard against damage; a line is at most 35 characters, and no folder holds a million SSTables.
const FILE_BYTES_MAX: u64 = 16 << 20;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemovalError {
    #[error("{}: {source}", file.display())]
    Io { file: PathBuf, source: io::Error },
    #[error("{} is damaged: wanted SSTables and their checksum; remove the SSTables that it names by hand, then it", file.display())]
    Damaged { file: PathBuf },
}

/// A durable list of SSTables in one folder that are to be removed.
#[derive(Debug)]
pub struct Removal {
    directory: PathBuf,
    list: PathBuf,
    sstables: Vec<Descriptor>,
}

impl Removal {
    /// From here on the SSTables are as good as gone. The first descriptor makes the list's name: no other list can
    /// have it, since no other removal can have that SSTable.
    pub fn commit(disk: &dyn Disk, directory: &Path, sstables: &[Descriptor]) -> Result<Self, RemovalError> {
        let first = sstables.first().map(Descriptor::to_string).unwrap_or_default();
        let list = directory.join(format!("{NAME_PREFIX}{first}{NAME_SUFFIX}"));
        let new = directory.join(format!("{NAME_PREFIX}{first}{NEW_SUFFIX}"));
        let write = || {
            if disk.exists(&new)? {
                disk.remove(&new)?;
            }
            let file = disk.create(&new)?;
            file.append(encode_sstables(sstables).as_bytes())?;
            file.sync_data()?;
            disk.rename(&new, &list)?;
            disk.sync_directory(directory)
        };
        write().map_err(|source| RemovalError::Io {
            file: list.clone(),
            source,
        })?;
        Ok(Removal {
            directory: directory.to_path_buf(),
            list,
            sstables: sstables.to_vec(),
        })
    }

    /// Removes the files. May be repeated.
    pub fn finish(self, disk: &dyn Disk) -> Result<(), RemovalError> {
        let failed = |source| RemovalError::Io {
            file: self.list.clone(),
            source,
        };
        for &descriptor in &self.sstables {
            remove_sstable(disk, &self.directory, descriptor).map_err(failed)?;
        }
        disk.sync_directory(&self.directory).map_err(failed)?;
        disk.remove(&self.list).map_err(failed)?;
        // A list that came back after a crash could name SSTables that are in use again by then.
        disk.sync_directory(&self.directory).map_err(failed)
    }

    /// Finishes what was interrupted in a folder. Before its SSTables are looked for.
    pub fn recover(disk: &dyn Disk, directory: &Path) -> Result<(), RemovalError> {
        let failed = |source| RemovalError::Io {
            file: directory.to_path_buf(),
            source,
        };
        for entry in disk.list(directory).map_err(failed)? {
            if entry.kind != EntryKind::File || !entry.name.starts_with(NAME_PREFIX) {
                continue;
            }
            let path = directory.join(&entry.name);
            if entry.name.ends_with(NEW_SUFFIX) {
                // Never became a list.
                disk.remove(&path).map_err(failed)?;
            } else if entry.name.ends_with(NAME_SUFFIX) {
                let sstables = load(disk, &path)?;
                Removal {
                    directory: directory.to_path_buf(),
                    list: path,
                    sstables,
                }
                .finish(disk)?;
            }
        }
        Ok(())
    }
}

fn load(disk: &dyn Disk, path: &Path) -> Result<Vec<Descriptor>, RemovalError> {
    let read = || {
        let file = disk.open(path)?;
        let length = file.length()?;
        if length > FILE_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        file.read_exact_at(0, &mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().map_err(|source| RemovalError::Io {
        file: path.to_path_buf(),
        source,
    })?;
    let text = str::from_utf8(&bytes).ok();
    text.and_then(decode_sstables)
        .ok_or_else(|| RemovalError::Damaged {
            file: path.to_path_buf(),
        })
}

/// A descriptor per line, then `crc32` and the decimal checksum of the lines before.
pub(crate) fn encode_sstables(sstables: &[Descriptor]) -> String {
    let mut text: String = sstables
        .iter()
        .map(|descriptor| format!("{descriptor}\n"))
        .collect();
    let crc = crc32fast::hash(text.as_bytes());
    text.push_str(&format!("crc32 {crc}\n"));
    text
}

pub(crate) fn decode_sstables(text: &str) -> Option<Vec<Descriptor>> {
    let (lines, crc) = text.rsplit_once("crc32 ")?;
    if crc.strip_suffix('\n')?.parse() != Ok(crc32fast::hash(lines.as_bytes())) {
        return None;
    }
    lines.lines().map(descriptor_of_line).collect()
}

/// Lists of before there were several versions have bare numbers.
fn descriptor_of_line(line: &str) -> Option<Descriptor> {
    let numbered = |number| Descriptor {
        id: SsTableId::Number(number),
        version: Version::Nb,
    };
    line.parse()
        .ok()
        .map(numbered)
        .or_else(|| Descriptor::parse(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_checked() {
        let descriptor = |name| Descriptor::parse(name).unwrap();
        let text = encode_sstables(&[descriptor("nb-3-big"), descriptor("da-12-bti")]);
        assert!(text.starts_with("nb-3-big\nda-12-bti\ncrc32 "));
        assert_eq!(
            decode_sstables(&text),
            Some(vec![descriptor("nb-3-big"), descriptor("da-12-bti")])
        );
        assert_eq!(decode_sstables(&text.replace('3', "4")), None);
        assert_eq!(decode_sstables(&text[..text.len() - 1]), None);
        assert_eq!(decode_sstables(""), None);
    }

    #[test]
    fn lists_of_bare_numbers_are_understood() {
        let lines = "3\n";
        let text = format!("{lines}crc32 {}\n", crc32fast::hash(lines.as_bytes()));
        assert_eq!(
            decode_sstables(&text),
            Some(vec![Descriptor::parse("nb-3-big").unwrap()])
        );
    }
}
