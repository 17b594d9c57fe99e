//! Replacing several SSTables by others as one: all of it happens, or nothing.
//!
//! A compaction has dropped tombstones together with what they hid. Were some of its inputs gone and others not after
//! a crash, hidden data could come back; so the list of what comes and what goes is made durable first, and what a
//! crash interrupts is finished at the next start. Before the list is there, the outputs have no TOC and are garbage;
//! from then on the inputs are. TRUNCATE and DROP remove with such a list too.

use std::io;
use std::path::{Path, PathBuf};

use helenus_vfs::{Disk, EntryKind};

use helenus_sstable::terms::remove_term_files;
use helenus_sstable::{Descriptor, SsTableId, Version, publish_sstable, remove_if_there, remove_sstable};

const NAME_PREFIX: &str = "removal-";
const NAME_SUFFIX: &str = ".txt";
const NEW_SUFFIX: &str = ".new";
/// In the names of lists that have successors.
const REPLACED: &str = "-replaced";
/// A guard against damage; a line is at most 20 digits, and no folder holds a million SSTables.
const FILE_BYTES_MAX: u64 = 16 << 20;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemovalError {
    #[error("{}: {source}", file.display())]
    Io { file: PathBuf, source: io::Error },
    #[error("{} is damaged: wanted sstables and their checksum; remove the SSTables that it names by hand, then it", file.display())]
    Damaged { file: PathBuf },
    /// Neither the old set nor the new one, the successors, may be touched in this run: a restart finds out.
    #[error("{} may or may not be durable ({source}); the table is not compacted until a restart", file.display())]
    Undecided {
        file: PathBuf,
        source: io::Error,
        successors: Vec<Descriptor>,
    },
}

/// A durable list of SSTables in one folder that are to be removed, and of those that come for them.
#[derive(Debug)]
pub struct Removal {
    directory: PathBuf,
    list: PathBuf,
    sstables: Vec<Descriptor>,
    /// Written, and published once the list is there.
    successors: Vec<Descriptor>,
}

impl Removal {
    /// From here on the SSTables are as good as gone. The first descriptor makes the list's name: no other list can
    /// have it, since no other removal can have that SSTable, but for a compaction that has begun to replace it when its
    /// table is dropped; the names of those lists are others.
    pub fn commit(disk: &dyn Disk, directory: &Path, sstables: &[Descriptor]) -> Result<Self, RemovalError> {
        Self::decide(disk, directory, sstables, &[], "")
    }

    /// From here on the successors are there and the others are as good as gone. The successors are sealed and not
    /// published; [`RemovalError::Undecided`] aside, after an error they are garbage.
    pub fn replace(
        disk: &dyn Disk,
        directory: &Path,
        sstables: &[Descriptor],
        successors: &[Descriptor],
    ) -> Result<Self, RemovalError> {
        Self::decide(disk, directory, sstables, successors, REPLACED)
    }

    fn decide(
        disk: &dyn Disk,
        directory: &Path,
        sstables: &[Descriptor],
        successors: &[Descriptor],
        kind: &str,
    ) -> Result<Self, RemovalError> {
        let first = sstables.first().map(Descriptor::to_string).unwrap_or_default();
        let list = directory.join(format!("{NAME_PREFIX}{first}{kind}{NAME_SUFFIX}"));
        let new = directory.join(format!("{NAME_PREFIX}{first}{kind}{NEW_SUFFIX}"));
        let failed = |source| RemovalError::Io {
            file: list.clone(),
            source,
        };
        let write = || {
            if disk.exists(&new)? {
                disk.remove(&new)?;
            }
            let file = disk.create(&new)?;
            file.append(encode(sstables, successors).as_bytes())?;
            file.sync_data()
        };
        write().map_err(failed)?;
        let decide = || {
            disk.rename(&new, &list)?;
            disk.sync_directory(directory)
        };
        if let Err(source) = decide() {
            // The list must not outlive what it names.
            let withdraw = || {
                if disk.exists(&list)? {
                    disk.remove(&list)?;
                }
                disk.sync_directory(directory)
            };
            return Err(match withdraw() {
                Ok(()) => failed(source),
                Err(_) => RemovalError::Undecided {
                    file: list,
                    source,
                    successors: successors.to_vec(),
                },
            });
        }
        let removal = Removal {
            directory: directory.to_path_buf(),
            list,
            sstables: sstables.to_vec(),
            successors: successors.to_vec(),
        };
        match removal.publish(disk) {
            Ok(()) => Ok(removal),
            Err(source) => Err(RemovalError::Undecided {
                file: removal.list,
                source,
                successors: removal.successors,
            }),
        }
    }

    fn publish(&self, disk: &dyn Disk) -> io::Result<()> {
        for &descriptor in &self.successors {
            publish_sstable(disk, &self.directory, descriptor)?;
        }
        if self.successors.is_empty() {
            Ok(())
        } else {
            disk.sync_directory(&self.directory)
        }
    }

    /// Removes the files. May be repeated.
    pub fn finish(&self, disk: &dyn Disk) -> Result<(), RemovalError> {
        match self.remove_files(disk) {
            Ok(()) => Ok(()),
            // Of a dropped table another shard may have removed the folder, once the list was not in it any more: then no list
            // can come back.
            Err(_) if disk.exists(&self.directory).is_ok_and(|exists| !exists) => Ok(()),
            Err(source) => Err(RemovalError::Io {
                file: self.list.clone(),
                source,
            }),
        }
    }

    fn remove_files(&self, disk: &dyn Disk) -> io::Result<()> {
        for &descriptor in &self.sstables {
            remove_sstable(disk, &self.directory, descriptor)?;
        }
        let is_gone = |_, sstable| self.sstables.contains(&sstable);
        remove_term_files(disk, &self.directory, false, is_gone)?;
        disk.sync_directory(&self.directory)?;
        // Gone if this was tried before, but perhaps not for good.
        remove_if_there(disk, &self.list)?;
        // A list that came back after a crash could name sstables that are in use again by then.
        disk.sync_directory(&self.directory)
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
                let (sstables, successors) = load(disk, &path)?;
                let removal = Removal {
                    directory: directory.to_path_buf(),
                    list: path,
                    sstables,
                    successors,
                };
                removal.publish(disk).map_err(failed)?;
                removal.finish(disk)?;
            }
        }
        Ok(())
    }
}

/// SSTables that go, and their successors.
type Lists = (Vec<Descriptor>, Vec<Descriptor>);

fn load(disk: &dyn Disk, path: &Path) -> Result<Lists, RemovalError> {
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
    text.and_then(decode).ok_or_else(|| RemovalError::Damaged {
        file: path.to_path_buf(),
    })
}

/// A descriptor per line, successors after a `+`, then `crc32` and the decimal checksum of the lines before.
fn encode(sstables: &[Descriptor], successors: &[Descriptor]) -> String {
    let gone = sstables.iter().map(|descriptor| format!("{descriptor}\n"));
    let come = successors.iter().map(|descriptor| format!("+{descriptor}\n"));
    let mut text: String = gone.chain(come).collect();
    let crc = crc32fast::hash(text.as_bytes());
    text.push_str(&format!("crc32 {crc}\n"));
    text
}

/// A list without successors.
pub(crate) fn encode_sstables(sstables: &[Descriptor]) -> String {
    encode(sstables, &[])
}

pub(crate) fn decode_sstables(text: &str) -> Option<Vec<Descriptor>> {
    let (sstables, successors) = decode(text)?;
    successors.is_empty().then_some(sstables)
}

fn decode(text: &str) -> Option<Lists> {
    let (lines, crc) = text.rsplit_once("crc32 ")?;
    if crc.strip_suffix('\n')?.parse() != Ok(crc32fast::hash(lines.as_bytes())) {
        return None;
    }
    let mut lists = Lists::default();
    for line in lines.lines() {
        match line.strip_prefix('+') {
            Some(successor) => lists.1.push(Descriptor::parse(successor)?),
            None => lists.0.push(descriptor_of_line(line)?),
        }
    }
    Some(lists)
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
    use std::sync::Arc;

    use helenus_sstable::Component;
    use helenus_sstable::terms::term_file_path;
    use helenus_vfs::read_queue::Notify;
    use helenus_vfs::{
        DirectoryEntry, DirectoryLock, DiskIo, DiskUsage, Fault, FaultKind, File, MemoryDisk, Operation,
        ReadQueue, SimulatedDisk,
    };

    use super::*;

    /// Others are at work on it, too.
    #[derive(Debug, Default)]
    struct Shared {
        disk: MemoryDisk,
        /// Another shard removes the folder of a dropped table at the moment it is empty.
        is_dropped: bool,
        /// A file that a job of the same shard removes as soon as somebody has listed it.
        obsolete: Option<PathBuf>,
    }

    impl Disk for Shared {
        fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
            self.disk.open(path)
        }

        fn open_writable(&self, path: &Path) -> io::Result<Arc<dyn File>> {
            self.disk.open_writable(path)
        }

        fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
            self.disk.create(path)
        }

        fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
            self.disk.rename(from, to)
        }

        fn remove(&self, path: &Path) -> io::Result<()> {
            self.disk.remove(path)?;
            if let Some(folder) = path.parent().filter(|_| self.is_dropped) {
                // Fails while there is something in it.
                let _ = self.disk.remove_directory(folder);
            }
            Ok(())
        }

        fn remove_directory(&self, path: &Path) -> io::Result<()> {
            self.disk.remove_directory(path)
        }

        fn list(&self, directory: &Path) -> io::Result<Vec<DirectoryEntry>> {
            let entries = self.disk.list(directory);
            if let Some(obsolete) = &self.obsolete {
                // Once only.
                let _ = self.disk.remove(obsolete);
            }
            entries
        }

        fn create_dir_all(&self, directory: &Path) -> io::Result<()> {
            self.disk.create_dir_all(directory)
        }

        fn hard_link(&self, existing: &Path, link: &Path) -> io::Result<()> {
            self.disk.hard_link(existing, link)
        }

        fn sync_directory(&self, directory: &Path) -> io::Result<()> {
            self.disk.sync_directory(directory)
        }

        fn lock_directory(&self, directory: &Path) -> io::Result<Box<dyn DirectoryLock>> {
            self.disk.lock_directory(directory)
        }

        fn exists(&self, path: &Path) -> io::Result<bool> {
            self.disk.exists(path)
        }

        fn free_bytes(&self, path: &Path) -> io::Result<u64> {
            self.disk.free_bytes(path)
        }

        fn usage(&self) -> DiskUsage {
            self.disk.usage()
        }

        fn read_queue(&self, disk_io: DiskIo, notify: Notify) -> io::Result<Box<dyn ReadQueue>> {
            self.disk.read_queue(disk_io, notify)
        }
    }

    /// Symptom: "Removal of .../removal-nb-2-big.txt: No such file or directory" after a DROP TABLE.
    #[test]
    fn a_folder_that_goes_with_its_last_list_is_no_failure() {
        let disk = Shared {
            is_dropped: true,
            ..Shared::default()
        };
        let folder = Path::new("/data/ks/t");
        disk.create_dir_all(folder).unwrap();
        let descriptor = Descriptor::parse("nb-2-big").unwrap();
        let removal = Removal::commit(&disk, folder, &[descriptor]).unwrap();
        removal.finish(&disk).unwrap();
        assert!(!disk.exists(folder).unwrap());
    }

    /// Symptom: "Removal of .../removal-oa-9-big-replaced.txt: entity not found" where an index of the table was dropped meanwhile.
    #[test]
    fn a_file_of_terms_that_another_removes_first_is_no_failure() {
        let folder = Path::new("/data/ks/t");
        let descriptor = Descriptor::parse("nb-2-big").unwrap();
        let terms = term_file_path(folder, uuid::Uuid::from_u128(1), descriptor);
        let disk = Shared {
            obsolete: Some(terms.clone()),
            ..Shared::default()
        };
        disk.create_dir_all(folder).unwrap();
        disk.create(&terms).unwrap();
        let removal = Removal::commit(&disk, folder, &[descriptor]).unwrap();
        removal.finish(&disk).unwrap();
        assert!(disk.disk.list(folder).unwrap().is_empty());
    }

    /// Symptom: the disk failed once as the list's end was made durable, and from then on the table's files "cannot be removed",
    /// as there was no list any more.
    #[test]
    fn a_removal_is_repeated_whatever_of_it_has_happened() {
        let folder = Path::new("/data/ks/t");
        let descriptor = Descriptor::parse("nb-2-big").unwrap();
        for operation in [Operation::Remove, Operation::SyncDirectory] {
            for after in 0..4 {
                let disk = SimulatedDisk::new(1);
                disk.create_dir_all(folder).unwrap();
                for component in [Component::Data, Component::Toc] {
                    disk.create(&descriptor.path(folder, component)).unwrap();
                }
                let removal = Removal::commit(&disk, folder, &[descriptor]).unwrap();
                disk.inject(Fault {
                    operation,
                    after,
                    kind: FaultKind::Error,
                });
                // The fault may come in the second try, if the first was over before.
                let tries: Vec<_> = (0..3).map(|_| removal.finish(&disk)).collect();
                assert!(tries[2].is_ok(), "{operation:?} {after}: {tries:?}");
                let left = disk.list(folder).unwrap();
                assert!(left.is_empty(), "{operation:?} {after}: {left:?}");
                disk.remove_directory(folder).unwrap();
                removal.finish(&disk).unwrap();
            }
        }
    }

    /// Symptom: an SSTable of a dropped table was there again after a crash, if a compaction of the table came to its end
    /// while it was dropped: one list took the other's name.
    #[test]
    fn a_compaction_that_ends_while_its_table_is_dropped_leaves_the_list_of_the_drop() {
        let descriptor = |name| Descriptor::parse(name).unwrap();
        let (inputs, output) = (
            [descriptor("nb-1-big"), descriptor("nb-2-big")],
            [descriptor("nb-4-big")],
        );
        let dropped = [inputs[0], inputs[1], descriptor("nb-3-big")];
        let folder = Path::new("/data/ks/t");
        for (drop_is_first, compaction_is_done) in
            [(true, true), (true, false), (false, true), (false, false)]
        {
            let disk = MemoryDisk::new();
            disk.create_dir_all(folder).unwrap();
            let make = |descriptor: &Descriptor, component| {
                disk.create(&descriptor.path(folder, component)).unwrap();
            };
            for descriptor in &dropped {
                make(descriptor, Component::Data);
                make(descriptor, Component::Toc);
            }
            let drop_table = || Removal::commit(&disk, folder, &dropped).unwrap();
            if !drop_is_first {
                drop_table();
            }
            let compaction = Removal::replace(&disk, folder, &inputs, &output).unwrap();
            if drop_is_first {
                drop_table();
            }
            if compaction_is_done {
                compaction.finish(&disk).unwrap();
            }
            Removal::recover(&disk, folder).unwrap();
            for descriptor in &dropped {
                assert!(
                    !disk.exists(&descriptor.path(folder, Component::Toc)).unwrap(),
                    "{descriptor} is back; the drop came first: {drop_is_first}, the compaction ended: {compaction_is_done}"
                );
            }
        }
    }

    #[test]
    fn lists_are_checked() {
        let descriptor = |name| Descriptor::parse(name).unwrap();
        let gone = [descriptor("nb-3-big"), descriptor("da-12-bti")];
        let come = [descriptor("oa-20-big")];
        let text = encode(&gone, &come);
        assert!(text.starts_with("nb-3-big\nda-12-bti\n+oa-20-big\ncrc32 "));
        assert_eq!(decode(&text), Some((gone.to_vec(), come.to_vec())));
        assert_eq!(decode(&text.replace('3', "4")), None);
        assert_eq!(decode(&text[..text.len() - 1]), None);
        assert_eq!(decode(""), None);
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
