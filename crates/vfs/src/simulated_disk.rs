//! A disk that loses what was not synced, fails on request, and does both the same way for the same seed.
//!
//! Every file keeps its synced bytes apart from the writes since, and every directory its synced names apart from
//! the changes since. [`SimulatedDisk::crash`] then decides for each unsynced write whether it is kept, lost or torn,
//! and for each directory how many of its unsynced changes reached the disk (in their order, as journaling file
//! systems do). It is stricter than most real ones: syncing a file does not sync its name.

mod file;
mod names;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::disk::{DirectoryEntry, DirectoryLock, Disk, DiskCounters, DiskUsage, EntryKind, File};
use crate::memory_disk::{FolderLock, overwrite};
use crate::random::{Random, SeededRandom};
use crate::read_queue::{DiskIo, Notify, ReadQueue, ShuffledReads};
use file::SimulatedFile;
use names::{InodeId, NameChange, Names, Node, PathKey, bytes_of, children, key_of, parent_of};

#[derive(Debug)]
pub struct SimulatedDisk {
    shared: Arc<Shared>,
    locks: Arc<Mutex<Vec<PathBuf>>>,
}

/// The `after`-th next operation of this kind fails (0: the very next one), once.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    pub operation: Operation,
    pub after: u64,
    pub kind: FaultKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Open,
    Create,
    Read,
    Write,
    Sync,
    SyncDirectory,
    Rename,
    Remove,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// `EIO`. A failed sync also marks the unsynced writes clean: they stay readable and never reach the disk.
    Error,
    /// `ENOSPC`.
    NoSpace,
    /// A write that stores only its first half before it fails; a read that returns half of what was asked.
    Short,
    /// A panic in the caller, in place of a bug that the test does not have.
    Panic,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    counters: Arc<DiskCounters>,
    random: SeededRandom,
}

#[derive(Debug, Default)]
struct State {
    inodes: BTreeMap<InodeId, Inode>,
    next_inode: InodeId,
    names: Names,
    names_synced: Names,
    /// In the order they were made; removed when their directory is synced.
    changes: Vec<NameChange>,
    faults: Vec<Fault>,
    read_only: bool,
    /// Half of what is asked for counts as what an operating system has in memory.
    is_half_resident: bool,
    /// Bytes that can still be appended; `None` is unlimited.
    free_bytes: Option<u64>,
    /// Counts crashes: a handle of an earlier run is dead.
    run: u64,
    power: Power,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Power {
    #[default]
    On,
    /// Fails after so many more changes of the disk.
    FailsAfter(u64),
    Off,
}

#[derive(Debug, Default)]
struct Inode {
    /// Content that a reader sees.
    bytes: Vec<u8>,
    /// Content that survives a crash for certain.
    synced: Vec<u8>,
    unsynced: Vec<UnsyncedChange>,
}

#[derive(Debug)]
enum UnsyncedChange {
    Write { offset: u64, bytes: Vec<u8> },
    SetLength(u64),
}

impl SimulatedDisk {
    pub fn new(seed: u64) -> Self {
        let shared = Shared {
            state: Mutex::default(),
            counters: Arc::default(),
            random: SeededRandom::new(seed),
        };
        SimulatedDisk {
            shared: Arc::new(shared),
            locks: Arc::default(),
        }
    }

    pub fn inject(&self, fault: Fault) {
        self.state().faults.push(fault);
    }

    pub fn clear_faults(&self) {
        self.state().faults.clear();
    }

    /// From now on half of the reads of what the operating system has in memory find all of it, and some a part; none before.
    pub fn set_half_resident(&self, is_half_resident: bool) {
        self.state().is_half_resident = is_half_resident;
    }

    pub fn set_read_only(&self, read_only: bool) {
        self.state().read_only = read_only;
    }

    pub fn set_free_bytes(&self, free_bytes: Option<u64>) {
        self.state().free_bytes = free_bytes;
    }

    /// From the `after`-th change of the disk (0: the next one) every operation fails and nothing more is stored, until
    /// [`SimulatedDisk::crash`] decides what was lost: for a crash in the middle of what other threads do.
    pub fn fail_power(&self, after: u64) {
        self.state().power = Power::FailsAfter(after);
    }

    pub fn is_power_off(&self) -> bool {
        self.state().power == Power::Off
    }

    /// The power fails: unsynced data is kept, lost or torn, all handles and locks die, and faults are over.
    pub fn crash(&self) {
        let mut state = self.state();
        state.run += 1;
        state.power = Power::On;
        state.faults.clear();
        state.crash_names(&self.shared.random);
        let State { inodes, names, .. } = &mut *state;
        inodes.retain(|id, _| names.values().any(|node| *node == Node::File(*id)));
        for inode in inodes.values_mut() {
            inode.crash(&self.shared.random);
        }
        self.locks.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Another disk that holds what readers of this one see, all of it synced; nobody has anything locked there.
    pub fn copy(&self, seed: u64) -> SimulatedDisk {
        let copy = SimulatedDisk::new(seed);
        let state = self.state();
        *copy.state() = State {
            inodes: state
                .inodes
                .iter()
                .map(|(id, inode)| (*id, inode.copy()))
                .collect(),
            next_inode: state.next_inode,
            names: state.names.clone(),
            names_synced: state.names.clone(),
            ..State::default()
        };
        drop(state);
        copy
    }

    /// The process ends and the power stays on: nothing is lost, all handles and locks die, and faults are over.
    pub fn end_process(&self) {
        let mut state = self.state();
        state.run += 1;
        state.power = Power::On;
        state.faults.clear();
        self.locks.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// All files, by their paths.
    pub fn files(&self) -> Vec<PathBuf> {
        let state = self.state();
        let files = state
            .names
            .iter()
            .filter(|(_, node)| matches!(node, Node::File(_)));
        files
            .map(|(path, _)| PathBuf::from(OsStr::from_bytes(path)))
            .collect()
    }

    /// Flips one bit of a file, on the disk and for readers.
    pub fn flip_bit(&self, path: &Path, bit: u64) -> io::Result<()> {
        let mut state = self.state();
        let id = state.file(path)?;
        let inode = state.inode(id)?;
        let at = usize::try_from(bit / 8).map_err(io::Error::other)?;
        for bytes in [&mut inode.bytes, &mut inode.synced] {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << (bit % 8);
            }
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state()
    }

    fn handle(&self, state: &State, inode: InodeId) -> Arc<dyn File> {
        Arc::new(SimulatedFile::new(Arc::clone(&self.shared), inode, state.run))
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The fault that hits this operation, if any.
    fn fault(&mut self, operation: Operation) -> Option<FaultKind> {
        let mut hit = None;
        self.faults.retain_mut(|fault| {
            if fault.operation != operation {
                return true;
            }
            if fault.after > 0 || hit.is_some() {
                fault.after = fault.after.saturating_sub(1);
                return true;
            }
            hit = Some(fault.kind);
            false
        });
        hit
    }

    fn check_power(&self) -> io::Result<()> {
        match self.power {
            Power::Off => Err(io::Error::other("the power is off")),
            Power::On | Power::FailsAfter(_) => Ok(()),
        }
    }

    /// Before a change of the disk: it happens entirely or, with the power gone, not at all.
    fn use_power(&mut self) -> io::Result<()> {
        self.power = match self.power {
            Power::FailsAfter(0) | Power::Off => Power::Off,
            Power::FailsAfter(after) => Power::FailsAfter(after - 1),
            Power::On => Power::On,
        };
        self.check_power()
    }

    /// Fails where a fault was injected; `Short` is an error for what cannot be short.
    fn check(&mut self, operation: Operation) -> io::Result<()> {
        self.fault(operation).map_or(Ok(()), |kind| Err(kind.error()))
    }

    fn check_writable(&mut self) -> io::Result<()> {
        self.use_power()?;
        if self.read_only {
            Err(io::ErrorKind::ReadOnlyFilesystem.into())
        } else {
            Ok(())
        }
    }

    fn is_directory(&self, path: &Path) -> bool {
        self.is_directory_key(bytes_of(path))
    }

    fn is_directory_key(&self, key: &[u8]) -> bool {
        key.is_empty() || matches!(self.names.get(key), Some(Node::Directory))
    }

    fn file(&self, path: &Path) -> io::Result<InodeId> {
        match self.names.get(bytes_of(path)) {
            Some(Node::File(id)) => Ok(*id),
            Some(Node::Directory) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn inode(&mut self, id: InodeId) -> io::Result<&mut Inode> {
        self.inodes
            .get_mut(&id)
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn check_vacant(&self, path: &Path) -> io::Result<()> {
        if self.names.contains_key(bytes_of(path)) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if !self.is_directory_key(parent_of(bytes_of(path))) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(())
    }

    /// Both names are in the directory of the first that is given.
    fn change(&mut self, set: Option<(&Path, Node)>, removed: Option<&Path>) {
        let path = set.map(|(path, _)| path).or(removed);
        let change = NameChange {
            directory: path
                .map(|path| parent_of(bytes_of(path)).into())
                .unwrap_or_default(),
            set: set.map(|(path, node)| (key_of(path), node)),
            removed: removed.map(key_of),
        };
        change.apply(&mut self.names);
        self.changes.push(change);
    }

    fn crash_names(&mut self, random: &SeededRandom) {
        let mut left: BTreeMap<PathKey, u64> = BTreeMap::new();
        for change in &self.changes {
            *left.entry(change.directory.clone()).or_default() += 1;
        }
        for count in left.values_mut() {
            *count = random.below(*count + 1);
        }
        for change in std::mem::take(&mut self.changes) {
            if let Some(count) = left.get_mut(&change.directory)
                && *count > 0
            {
                *count -= 1;
                change.apply(&mut self.names_synced);
            }
        }
        // A name whose directory did not survive is unreachable.
        let synced = std::mem::take(&mut self.names_synced);
        for (path, node) in synced {
            let parent = parent_of(&path);
            if parent.is_empty() || self.names_synced.get(parent) == Some(&Node::Directory) {
                self.names_synced.insert(path, node);
            }
        }
        self.names = self.names_synced.clone();
    }
}

/// Bytes that a disk writes as one: none has smaller sectors.
const SECTOR_BYTES: u64 = 512;

impl Inode {
    /// As readers see it, synced.
    fn copy(&self) -> Inode {
        Inode {
            bytes: self.bytes.clone(),
            synced: self.bytes.clone(),
            unsynced: Vec::new(),
        }
    }

    fn crash(&mut self, random: &SeededRandom) {
        let changes = std::mem::take(&mut self.unsynced);
        let last = changes.len().saturating_sub(1);
        for (number, change) in changes.into_iter().enumerate() {
            let result = match change {
                UnsyncedChange::SetLength(length) if random.below(2) == 0 => {
                    self.synced.resize(length as usize, 0);
                    Ok(())
                }
                UnsyncedChange::SetLength(_) => Ok(()),
                UnsyncedChange::Write { offset, bytes } => match random.below(4) {
                    0 => Ok(()),
                    1 => overwrite(&mut self.synced, offset, &bytes),
                    2 => self.tear(random, offset, &bytes, number == last),
                    // The length reached the disk and the bytes did not.
                    _ => {
                        self.grow(offset + bytes.len() as u64);
                        Ok(())
                    }
                },
            };
            debug_assert!(result.is_ok(), "the same write succeeded before the crash");
        }
        self.bytes = self.synced.clone();
    }

    /// Zeros up to this length, where the file was shorter.
    fn grow(&mut self, length: u64) {
        if (self.synced.len() as u64) < length {
            self.synced.resize(length as usize, 0);
        }
    }

    /// Each sector is as it should be or as it was: zeros, where the file has grown. Or else the file ends within what was written
    /// last.
    fn tear(&mut self, random: &SeededRandom, offset: u64, bytes: &[u8], is_last: bool) -> io::Result<()> {
        let is_behind_end = offset >= self.synced.len() as u64;
        if is_last && is_behind_end && random.below(2) == 0 {
            let kept = random.below(bytes.len() as u64 + 1) as usize;
            return overwrite(&mut self.synced, offset, &bytes[..kept]);
        }
        self.grow(offset + bytes.len() as u64);
        let (mut at, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let in_sector = (SECTOR_BYTES - at % SECTOR_BYTES).min(rest.len() as u64);
            let (sector, after) = rest.split_at(in_sector as usize);
            if random.below(2) == 0 {
                overwrite(&mut self.synced, at, sector)?;
            }
            at += in_sector;
            rest = after;
        }
        Ok(())
    }
}

impl FaultKind {
    fn error(self) -> io::Error {
        match self {
            FaultKind::Error | FaultKind::Short => io::Error::from_raw_os_error(libc::EIO),
            FaultKind::NoSpace => io::Error::from_raw_os_error(libc::ENOSPC),
            FaultKind::Panic => panic!("injected by a test"),
        }
    }
}

impl Disk for SimulatedDisk {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let mut state = self.state();
        state.check_power()?;
        state.check(Operation::Open)?;
        let id = state.file(path)?;
        Ok(self.handle(&state, id))
    }

    fn open_writable(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.state().check_writable()?;
        self.open(path)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let mut state = self.state();
        state.check(Operation::Create)?;
        state.check_writable()?;
        state.check_vacant(path)?;
        let id = state.next_inode;
        state.next_inode += 1;
        state.inodes.insert(id, Inode::default());
        state.change(Some((path, Node::File(id))), None);
        Ok(self.handle(&state, id))
    }

    /// Files only: the storage engine never renames a directory.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.check(Operation::Rename)?;
        state.check_writable()?;
        let id = state.file(from)?;
        if !state.is_directory_key(parent_of(bytes_of(to))) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.change(Some((to, Node::File(id))), (from != to).then_some(from));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.check(Operation::Remove)?;
        state.check_writable()?;
        state.file(path)?;
        state.change(None, Some(path));
        Ok(())
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.check_writable()?;
        if !matches!(state.names.get(bytes_of(path)), Some(Node::Directory)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        if children(&state.names, path).next().is_some() {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        state.change(None, Some(path));
        Ok(())
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<DirectoryEntry>> {
        let state = self.state();
        state.check_power()?;
        if !state.is_directory(directory) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let mut entries: Vec<DirectoryEntry> = children(&state.names, directory)
            .map(|(name, node)| DirectoryEntry {
                name: String::from_utf8_lossy(name).into_owned(),
                kind: if *node == Node::Directory {
                    EntryKind::Directory
                } else {
                    EntryKind::File
                },
            })
            .collect();
        entries.sort();
        Ok(entries)
    }

    fn create_dir_all(&self, directory: &Path) -> io::Result<()> {
        let mut state = self.state();
        let missing: Vec<PathBuf> = directory
            .ancestors()
            .filter(|ancestor| !ancestor.as_os_str().is_empty() && !state.is_directory(ancestor))
            .map(Path::to_path_buf)
            .collect();
        for ancestor in missing.into_iter().rev() {
            state.check_writable()?;
            if state.names.contains_key(bytes_of(&ancestor)) {
                return Err(io::ErrorKind::NotADirectory.into());
            }
            state.change(Some((&ancestor, Node::Directory)), None);
        }
        Ok(())
    }

    fn hard_link(&self, existing: &Path, link: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.check_writable()?;
        let id = state.file(existing)?;
        state.check_vacant(link)?;
        state.change(Some((link, Node::File(id))), None);
        Ok(())
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.shared.counters.count_sync();
        let mut state = self.state();
        state.use_power()?;
        state.check(Operation::SyncDirectory)?;
        if !state.is_directory(directory) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let changes = std::mem::take(&mut state.changes);
        for change in changes {
            if *change.directory == *bytes_of(directory) {
                change.apply(&mut state.names_synced);
            } else {
                state.changes.push(change);
            }
        }
        Ok(())
    }

    fn lock_directory(&self, directory: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        {
            let mut state = self.state();
            if !state.is_directory(directory) {
                return Err(io::ErrorKind::NotFound.into());
            }
            // The real one is a file.
            state.check_writable()?;
        }
        FolderLock::take(&self.locks, directory)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        let state = self.state();
        Ok(state.is_directory(path) || state.names.contains_key(bytes_of(path)))
    }

    fn free_bytes(&self, _path: &Path) -> io::Result<u64> {
        Ok(self.state().free_bytes.unwrap_or(u64::MAX))
    }

    fn usage(&self) -> DiskUsage {
        self.shared.counters.snapshot()
    }

    fn read_queue(&self, _disk_io: DiskIo, notify: Notify) -> io::Result<Box<dyn ReadQueue>> {
        // A seed of its own: the disk's numbers decide crashes, and must not depend on how many shards there are.
        Ok(Box::new(ShuffledReads::new(1, notify)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(disk: &SimulatedDisk) -> PathBuf {
        let folder = PathBuf::from("/data");
        disk.create_dir_all(&folder).unwrap();
        disk.sync_directory(Path::new("/")).unwrap();
        folder
    }

    #[test]
    fn a_process_that_ends_loses_nothing_until_the_power_fails_and_a_copy_never_does() {
        let is_lost = |seed| {
            let disk = SimulatedDisk::new(seed);
            ends_and_crashes(&disk).unwrap_or_default() != [7; 4_096]
        };
        assert!((0..8).any(is_lost));
    }

    fn ends_and_crashes(disk: &SimulatedDisk) -> io::Result<Vec<u8>> {
        let path = folder(disk).join("a");
        let file = disk.create(&path).unwrap();
        file.append(&[7; 4_096]).unwrap();
        let lock = disk.lock_directory(Path::new("/data")).unwrap();
        disk.end_process();
        assert!(file.append(b"from a process that has ended").is_err());
        drop(lock);
        disk.lock_directory(Path::new("/data")).unwrap();
        assert_eq!(contents(disk, &path).unwrap(), [7; 4_096]);
        let copy = disk.copy(2);
        assert_eq!(copy.files(), std::slice::from_ref(&path));
        copy.crash();
        assert_eq!(contents(&copy, &path).unwrap(), [7; 4_096]);
        disk.crash();
        contents(disk, &path)
    }

    fn contents(disk: &SimulatedDisk, path: &Path) -> io::Result<Vec<u8>> {
        let file = disk.open(path)?;
        let mut bytes = vec![0; file.length()? as usize];
        file.read_exact_at(0, &mut bytes)?;
        Ok(bytes)
    }

    #[test]
    fn a_crash_keeps_what_was_synced_and_only_a_prefix_like_form_of_the_rest() {
        let mut outcomes = std::collections::BTreeSet::new();
        for seed in 0..64 {
            let disk = SimulatedDisk::new(seed);
            let path = folder(&disk).join("a");
            let file = disk.create(&path).unwrap();
            file.append(b"synced").unwrap();
            file.sync_data().unwrap();
            disk.sync_directory(Path::new("/data")).unwrap();
            file.append(b"later").unwrap();
            disk.crash();
            let bytes = contents(&disk, &path).unwrap();
            assert!(bytes.starts_with(b"synced"), "seed {seed}");
            outcomes.insert(bytes);
            assert!(file.append(b"x").is_err(), "a handle of before the crash is dead");
        }
        assert!(outcomes.contains(b"synced".as_slice()) && outcomes.contains(b"syncedlater".as_slice()));
        assert!(outcomes.len() > 3, "torn and zeroed writes occur too");
    }

    #[test]
    fn names_need_their_directory_synced() {
        let survived = (0..32).filter(|&seed| {
            let disk = SimulatedDisk::new(seed);
            let path = folder(&disk).join("a");
            let file = disk.create(&path).unwrap();
            file.append(b"x").unwrap();
            file.sync_data().unwrap();
            disk.crash();
            disk.exists(&path).unwrap()
        });
        let survived = survived.count();
        assert!(survived > 0 && survived < 32, "{survived} of 32");
    }

    #[test]
    fn a_write_is_torn_between_sectors_or_where_the_file_ends() {
        let mut outcomes = [0; 3];
        for seed in 0..200 {
            let disk = SimulatedDisk::new(seed);
            let path = folder(&disk).join("a");
            let file = disk.create(&path).unwrap();
            file.append(&[1; 100]).unwrap();
            file.sync_data().unwrap();
            disk.sync_directory(Path::new("/data")).unwrap();
            file.append(&[2; 1_500]).unwrap();
            disk.crash();
            let found = contents(&disk, &path).unwrap();
            assert_eq!(&found[..100], [1; 100], "seed {seed}");
            let has_hole = found[100..].contains(&0);
            outcomes[usize::from(has_hole) + usize::from(has_hole && found.contains(&2))] += 1;
            for range in [100..512, 512..1_024, 1_024..1_536, 1_536..1_600] {
                let sector = &found[range.start.min(found.len())..range.end.min(found.len())];
                let is_one = sector.windows(2).all(|pair| pair[0] == pair[1]);
                assert!(is_one, "seed {seed}: {range:?}");
            }
        }
        assert!(outcomes.iter().all(|count| *count > 10), "{outcomes:?}");
    }

    #[test]
    fn a_rename_is_seen_whole_or_not_at_all() {
        for seed in 0..32 {
            let disk = SimulatedDisk::new(seed);
            let (old, new) = (folder(&disk).join("old"), Path::new("/data/new"));
            disk.create(&old).unwrap();
            disk.sync_directory(Path::new("/data")).unwrap();
            disk.rename(&old, new).unwrap();
            disk.crash();
            assert_ne!(
                disk.exists(&old).unwrap(),
                disk.exists(new).unwrap(),
                "seed {seed}"
            );
        }
    }

    #[test]
    fn a_failed_sync_loses_the_writes_and_never_succeeds_later() {
        let disk = SimulatedDisk::new(1);
        let path = folder(&disk).join("a");
        let file = disk.create(&path).unwrap();
        disk.sync_directory(Path::new("/data")).unwrap();
        file.append(b"lost").unwrap();
        disk.inject(Fault {
            operation: Operation::Sync,
            after: 0,
            kind: FaultKind::Error,
        });
        assert!(file.sync_data().is_err());
        assert!(file.sync_data().is_err());
        assert_eq!(
            contents(&disk, &path).unwrap(),
            b"lost",
            "still in the page cache"
        );
        disk.open_writable(&path).unwrap().sync_data().unwrap();
        disk.crash();
        assert_eq!(contents(&disk, &path).unwrap(), b"");
    }

    #[test]
    fn faults_hit_the_nth_operation_once() {
        let disk = SimulatedDisk::new(1);
        let path = folder(&disk).join("a");
        let file = disk.create(&path).unwrap();
        file.append(b"0123456789").unwrap();
        disk.inject(Fault {
            operation: Operation::Read,
            after: 1,
            kind: FaultKind::Error,
        });
        assert!(contents(&disk, &path).is_ok());
        assert_eq!(
            contents(&disk, &path).unwrap_err().raw_os_error(),
            Some(libc::EIO)
        );
        assert!(contents(&disk, &path).is_ok());
        disk.inject(Fault {
            operation: Operation::Read,
            after: 0,
            kind: FaultKind::Short,
        });
        assert_eq!(
            contents(&disk, &path).unwrap(),
            b"0123456789",
            "a short read is not an error"
        );
    }

    #[test]
    fn a_full_disk_stores_what_fits() {
        let disk = SimulatedDisk::new(1);
        let path = folder(&disk).join("a");
        let file = disk.create(&path).unwrap();
        disk.set_free_bytes(Some(3));
        assert_eq!(
            file.append(b"12345").unwrap_err().raw_os_error(),
            Some(libc::ENOSPC)
        );
        assert_eq!(contents(&disk, &path).unwrap(), b"123");
        assert_eq!(disk.free_bytes(&path).unwrap(), 0);
    }

    #[test]
    fn nothing_is_stored_once_the_power_is_gone() {
        let disk = SimulatedDisk::new(1);
        let path = folder(&disk).join("a");
        let file = disk.create(&path).unwrap();
        disk.sync_directory(Path::new("/data")).unwrap();
        disk.fail_power(2);
        file.append(b"1").unwrap();
        file.sync_data().unwrap();
        assert!(!disk.is_power_off());
        assert!(file.append(b"2").is_err() && disk.is_power_off());
        assert!(disk.open(&path).is_err() && disk.create(Path::new("/data/b")).is_err());
        disk.crash();
        assert_eq!(contents(&disk, &path).unwrap(), b"1");
    }

    #[test]
    fn read_only_refuses_changes() {
        let disk = SimulatedDisk::new(1);
        let path = folder(&disk).join("a");
        let file = disk.create(&path).unwrap();
        disk.set_read_only(true);
        assert_eq!(
            file.append(b"1").unwrap_err().kind(),
            io::ErrorKind::ReadOnlyFilesystem
        );
        assert!(disk.remove(&path).is_err() && disk.create(Path::new("/data/b")).is_err());
        assert!(disk.open(&path).is_ok());
    }
}
