//! The node's data folder: one process at a time, one format, shared by all shards.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use helenus_events::{Event, Events};
use helenus_schema::TableMetadata;
use helenus_vfs::{Clock, DirectoryLock, Disk};

use super::job::JobProgress;
use helenus_sstable::{SidecarFault, SsTableId, table_folder};

const VERSION_FILE: &str = "helenus-data-version";
const VERSION: u32 = 1;
/// A guard against damage: the file is one short line.
const VERSION_FILE_BYTES_MAX: u64 = 64;
const DATA: &str = "data";
const COMMIT_LOG: &str = "commitlog";

/// An open data folder; locked against other processes until dropped.
///
/// | path | holds |
/// |---|---|
/// | `helenus-data-version` | the format's version, decimal |
/// | `data/<keyspace>/<table>-<id>/` | SSTables, as Cassandra lays them out |
/// | `commitlog/shard-<number>/` | the log of each shard |
#[derive(Debug)]
pub struct DataFolder {
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    events: Events,
    root: PathBuf,
    /// Above every number in any table's folder.
    next_sstable_number: AtomicU64,
    refused: Mutex<Vec<Arc<RefusedSsTable>>>,
    /// Components of SSTables that are done without since the folder was opened.
    sidecar_faults: AtomicU64,
    /// How many shards the data is cut into since it was opened.
    shard_count: AtomicU16,
    /// Flushes and compactions of all shards; those that have ended are dead.
    jobs: Mutex<Vec<Weak<JobProgress>>>,
    _lock: Box<dyn DirectoryLock>,
}

/// An SSTable of a table that does not open.
#[derive(Debug)]
pub struct RefusedSsTable {
    pub keyspace: Arc<str>,
    pub table: Arc<str>,
    /// Names the file that is at fault.
    pub reason: helenus_sstable::OpenError,
}

/// The data folder cannot be used; says what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FolderError {
    #[error("{} is in use by another process; stop it, or choose another data folder", root.display())]
    InUse { root: PathBuf },
    #[error("{} cannot be written ({source}); check its owner, its permissions and how it is mounted", root.display())]
    NotWritable { root: PathBuf, source: io::Error },
    #[error("{}: no space left on the disk; make room and start again", root.display())]
    NoSpace { root: PathBuf },
    #[error(
        "{} holds {found:?} but was not made by Helenus; choose an empty folder, and copy SSTables into the folders of \
         their tables after CREATE TABLE",
        root.display()
    )]
    Foreign { root: PathBuf, found: String },
    #[error(
        "{} has data version {found}, this program needs {VERSION}, says {VERSION_FILE}; start the version that wrote it",
        root.display()
    )]
    Version { root: PathBuf, found: String },
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl DataFolder {
    /// Checks that this program understands the folder, which another process may have open.
    pub fn check(disk: &dyn Disk, root: &Path) -> Result<(), FolderError> {
        let version_file = root.join(VERSION_FILE);
        match disk.exists(&version_file) {
            Ok(true) => check_version(disk, root, &version_file),
            Ok(false) => Ok(()),
            Err(source) => Err(folder_error(root, source)),
        }
    }

    /// As [`Self::open_telling`], with nobody who listens.
    pub fn open(disk: Arc<dyn Disk>, clock: Arc<dyn Clock>, root: &Path) -> Result<Arc<Self>, FolderError> {
        Self::open_telling(disk, clock, root, helenus_events::silent())
    }

    /// Locks the folder and checks that it is ours; makes it if it is not there. What it makes is durable after
    /// [`DataFolder::make_names_durable`].
    pub fn open_telling(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        root: &Path,
        events: Events,
    ) -> Result<Arc<Self>, FolderError> {
        let failed = |source| folder_error(root, source);
        create_durably(&*disk, root).map_err(failed)?;
        let lock = disk.lock_directory(root).map_err(|source| match source.kind() {
            io::ErrorKind::WouldBlock => FolderError::InUse {
                root: root.to_path_buf(),
            },
            _ => failed(source),
        })?;
        let version_file = root.join(VERSION_FILE);
        if disk.exists(&version_file).map_err(failed)? {
            check_version(&*disk, root, &version_file)?;
        } else {
            check_empty(&*disk, root)?;
            store_version(&*disk, root, &version_file).map_err(failed)?;
        }
        for folder in [DATA, COMMIT_LOG] {
            disk.create_dir_all(&root.join(folder)).map_err(failed)?;
        }
        let root = root.to_path_buf();
        Ok(Arc::new(DataFolder {
            disk,
            clock,
            events,
            root,
            next_sstable_number: AtomicU64::new(1),
            refused: Mutex::default(),
            sidecar_faults: AtomicU64::new(0),
            shard_count: AtomicU16::new(1),
            jobs: Mutex::default(),
            _lock: lock,
        }))
    }

    /// One sync for all that opening made in the folder: before anything is stored that has to last.
    pub fn make_names_durable(&self) -> Result<(), FolderError> {
        let synced = self.disk.sync_directory(&self.root);
        synced.map_err(|source| folder_error(&self.root, source))
    }

    /// Returns whether a node of this kind keeps its data here.
    pub fn is_at(disk: &dyn Disk, root: &Path) -> Result<bool, FolderError> {
        let file = root.join(VERSION_FILE);
        let exists = disk.exists(&file);
        exists.map_err(|source| FolderError::Io { path: file, source })
    }

    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn data_folder(&self) -> PathBuf {
        self.root.join(DATA)
    }

    pub fn log_folder(&self) -> PathBuf {
        self.root.join(COMMIT_LOG)
    }

    pub fn table_folder(&self, table: &TableMetadata) -> PathBuf {
        table_folder(&self.data_folder(), table)
    }

    /// Notes a flush or a compaction that begins.
    pub(super) fn note_job(&self, job: &Arc<JobProgress>) {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.retain(|job| job.strong_count() > 0);
        jobs.push(Arc::downgrade(job));
    }

    /// Flushes and compactions under way on all shards, the oldest first.
    pub fn jobs(&self) -> Vec<Arc<JobProgress>> {
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.iter().filter_map(Weak::upgrade).collect()
    }

    /// How many shards the data is cut into.
    pub fn shard_count(&self) -> u16 {
        self.shard_count.load(Ordering::Relaxed)
    }

    pub(super) fn set_shard_count(&self, shard_count: u16) {
        self.shard_count.store(shard_count, Ordering::Relaxed);
    }

    /// The SSTables that were found and could not be opened: they are left as they are, and reads do without them.
    pub fn refused_sstables(&self) -> Vec<Arc<RefusedSsTable>> {
        self.refused
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(super) fn events(&self) -> &Events {
        &self.events
    }

    pub(super) fn refuse(&self, refused: RefusedSsTable) {
        self.refused
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Arc::new(refused));
    }

    /// Says and counts what SSTables that were written or opened are used without.
    pub(super) fn note_sidecar_faults(&self, faults: &[SidecarFault]) {
        faults
            .iter()
            .for_each(|fault| self.events.event(&Event::SidecarFault { fault }));
        self.sidecar_faults
            .fetch_add(faults.len() as u64, Ordering::Relaxed);
    }

    pub(super) fn sidecar_faults(&self) -> u64 {
        self.sidecar_faults.load(Ordering::Relaxed)
    }

    /// A number that no SSTable of this node has.
    pub(crate) fn new_sstable_id(&self) -> SsTableId {
        SsTableId::Number(self.new_sstable_number())
    }

    pub(crate) fn new_sstable_number(&self) -> u64 {
        self.next_sstable_number.fetch_add(1, Ordering::Relaxed)
    }

    /// Notes an id that was found on the disk.
    pub(super) fn sstable_found(&self, id: SsTableId) {
        if let SsTableId::Number(number) = id {
            self.next_sstable_number
                .fetch_max(number.saturating_add(1), Ordering::Relaxed);
        }
    }
}

/// Makes a folder and the missing ones above it, each one's name synced in the one above.
fn create_durably(disk: &dyn Disk, folder: &Path) -> io::Result<()> {
    let mut changed = Vec::new();
    for ancestor in folder.ancestors() {
        if disk.exists(ancestor)? {
            break;
        }
        changed.extend(ancestor.parent());
    }
    disk.create_dir_all(folder)?;
    changed
        .into_iter()
        .filter(|parent| !parent.as_os_str().is_empty())
        .try_for_each(|parent| disk.sync_directory(parent))
}

fn folder_error(root: &Path, source: io::Error) -> FolderError {
    let root = root.to_path_buf();
    match source.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            FolderError::NotWritable { root, source }
        }
        io::ErrorKind::StorageFull => FolderError::NoSpace { root },
        _ => FolderError::Io { path: root, source },
    }
}

fn check_version(disk: &dyn Disk, root: &Path, file: &Path) -> Result<(), FolderError> {
    let read = || {
        let file = disk.open(file)?;
        let mut bytes = vec![0; file.length()?.min(VERSION_FILE_BYTES_MAX) as usize];
        file.read_exact_at(0, &mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
    };
    let found = read().map_err(|source| folder_error(root, source))?;
    if found.parse() == Ok(VERSION) {
        Ok(())
    } else {
        Err(FolderError::Version {
            root: root.to_path_buf(),
            found,
        })
    }
}

/// A folder without a version may hold what the lock and an interrupted first start made, nothing else.
fn check_empty(disk: &dyn Disk, root: &Path) -> Result<(), FolderError> {
    let ours = |name: &str| name.starts_with(VERSION_FILE) || name.ends_with(".lock") || name == "lost+found";
    let entries = disk.list(root).map_err(|source| folder_error(root, source))?;
    match entries.into_iter().find(|entry| !ours(&entry.name)) {
        Some(entry) => Err(FolderError::Foreign {
            root: root.to_path_buf(),
            found: entry.name,
        }),
        None => Ok(()),
    }
}

fn store_version(disk: &dyn Disk, root: &Path, path: &Path) -> io::Result<()> {
    let new = root.join(format!("{VERSION_FILE}.new"));
    if disk.exists(&new)? {
        disk.remove(&new)?;
    }
    let file = disk.create(&new)?;
    file.append(format!("{VERSION}\n").as_bytes())?;
    file.sync_data()?;
    disk.rename(&new, path)
}
