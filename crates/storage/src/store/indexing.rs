//! Data of a table's indexes, and how it comes about.
//!
//! The memtable that takes the writes is fed from its first write on. An SSTable has a file of terms per index, which is
//! written with it by the flush or compaction that makes it; where there is none, or a damaged one, a job makes it. As long as
//! anything is missing, the index says nothing and reads are scans; an index that was made on a table with data is not
//! [ready](IndexStatus) before all of that is in it.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use foldhash::fast::FixedState;
use helenus_index::IndexedColumn;
use helenus_rows::layout::TableLayout;
use helenus_schema::{IndexId, IndexMetadata, TableId, TableMetadata};
use helenus_sstable::error::ReadError;
use helenus_sstable::terms::{TermFile, term_file_path};
use helenus_sstable::{Descriptor, SidecarFault, SsTable};
use helenus_vfs::Disk;

use super::folder::DataFolder;
use super::shard::ShardStore;
use super::table::Table;
use crate::index::{BuiltTerms, IndexBuild, IndexSources, MemtableTerms};

/// After a build that failed, how long until that SSTable is tried again: a disk that was full may have room again.
const RETRY_NS: u64 = 60_000_000_000;

/// Readiness of an index for queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexStatus {
    /// Data that the table had when the index was made is not all in it yet.
    Building,
    Ready,
}

/// The indexes of one table on one shard.
#[derive(Debug, Default)]
pub(super) struct TableIndexes {
    columns: Vec<Arc<IndexedColumn>>,
    files: Vec<IndexFiles>,
    /// SSTables whose build failed, and when to try again.
    failed: HashMap<Descriptor, u64, FixedState>,
}

/// The files of one index.
#[derive(Debug)]
struct IndexFiles {
    by_sstable: HashMap<Descriptor, Arc<TermFile>, FixedState>,
    is_ready: bool,
}

impl IndexFiles {
    fn has(&self, sstable: &SsTable) -> bool {
        let file = self.by_sstable.get(&sstable.descriptor());
        file.is_some_and(|file| !file.has_failed())
    }
}

impl TableIndexes {
    /// Makes the indexes of a table without data.
    pub fn of(table: &TableMetadata) -> Self {
        let columns = columns_of(table);
        TableIndexes {
            files: columns.iter().map(|_| IndexFiles::new(true)).collect(),
            columns,
            failed: HashMap::default(),
        }
    }

    pub fn columns(&self) -> &[Arc<IndexedColumn>] {
        &self.columns
    }

    fn files_mut(&mut self, index: IndexId) -> Option<&mut IndexFiles> {
        let place = self.columns.iter().position(|column| column.index == index)?;
        self.files.get_mut(place)
    }

    /// Takes in files that belong to an SSTable.
    pub fn add(&mut self, sstable: Descriptor, terms: BuiltTerms) {
        self.failed.remove(&sstable);
        for (index, file) in terms {
            if let Some(files) = self.files_mut(index) {
                files.by_sstable.insert(sstable, file);
            }
        }
    }

    pub fn note_failed(&mut self, sstable: Descriptor, now_ns: u64) {
        self.failed.insert(sstable, now_ns.saturating_add(RETRY_NS));
    }

    /// Forgets the files of SSTables that are no longer the table's.
    pub fn forget_replaced(&mut self, is_there: impl Fn(Descriptor) -> bool) {
        self.failed.retain(|sstable, _| is_there(*sstable));
        for files in &mut self.files {
            files.by_sstable.retain(|sstable, _| is_there(*sstable));
        }
    }

    /// Returns the columns of which a file is to be made for an SSTable.
    fn missing(&self, sstable: &SsTable) -> Vec<Arc<IndexedColumn>> {
        let missing = self.columns.iter().zip(&self.files);
        missing
            .filter(|(_, files)| !files.has(sstable))
            .map(|(column, _)| Arc::clone(column))
            .collect()
    }

    /// Opens the files that an SSTable has, at a start; what is wrong with others.
    pub fn open(&mut self, disk: &dyn Disk, layout: &TableLayout, sstable: &SsTable) -> Vec<SidecarFault> {
        let mut faults = Vec::new();
        for (column, files) in self.columns.iter().zip(&mut self.files) {
            let path = term_file_path(sstable.directory(), column.index.0, sstable.descriptor());
            match TermFile::open(disk, &path, sstable.identity(), &layout.comparator) {
                Ok(file) => {
                    files.by_sstable.insert(sstable.descriptor(), Arc::new(file));
                }
                Err(ReadError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => faults.push(SidecarFault::of_terms(error)),
            }
        }
        faults
    }

    /// Returns the bytes that the files keep in memory.
    pub fn memory_bytes(&self) -> usize {
        let files = self.files.iter().flat_map(|files| files.by_sstable.values());
        files.map(|file| file.memory_bytes()).sum()
    }
}

impl IndexFiles {
    fn new(is_ready: bool) -> Self {
        IndexFiles {
            by_sstable: HashMap::default(),
            is_ready,
        }
    }
}

/// Those that find rows by terms.
pub(super) fn columns_of(table: &TableMetadata) -> Vec<Arc<IndexedColumn>> {
    let of_terms = |index: &&Arc<IndexMetadata>| !table.is_vector_index(index);
    let columns = table.indexes.iter().filter(of_terms);
    columns
        .filter_map(|index| IndexedColumn::of(table, index))
        .map(Arc::new)
        .collect()
}

impl Table {
    /// All there is under an index; `None` if that is not all that the table has.
    pub fn index_sources(&self, index: IndexId) -> Option<IndexSources<'_>> {
        let place = self
            .indexes
            .columns
            .iter()
            .position(|column| column.index == index)?;
        let files = self.indexes.files.get(place)?;
        let memtables = self.memtables().map(|memtable| memtable.indexes().get(index));
        let file_of = |sstable: &Arc<SsTable>| {
            let file = files.by_sstable.get(&sstable.descriptor())?;
            (!file.has_failed()).then_some(&**file)
        };
        Some(IndexSources {
            memtables: memtables.collect::<Option<_>>()?,
            files: self.sstables.iter().map(file_of).collect::<Option<_>>()?,
        })
    }

    /// Terms under an index of the memtable that takes the writes; `None` if they are not of all that it has.
    pub fn active_terms(&self, index: IndexId) -> Option<&MemtableTerms> {
        let is_current = self.indexes.columns.iter().any(|column| column.index == index);
        is_current.then(|| self.active.indexes().get(index))?
    }

    /// Marks the file of terms that an error is of as failed, so that it is done without from now on; false if there is none.
    pub fn note_index_failure(&self, error: &ReadError) -> bool {
        let (ReadError::Corrupt { file: path, .. } | ReadError::Io { file: path, .. }) = error else {
            return false;
        };
        let mut files = self
            .indexes
            .files
            .iter()
            .flat_map(|files| files.by_sstable.values());
        let file = files.find(|file| file.path() == path);
        file.is_some_and(|file| {
            file.note_failure();
            true
        })
    }

    /// Takes over the indexes of the table's schema. Returns the files of those that are gone.
    pub fn set_indexes(&mut self) -> Vec<PathBuf> {
        let columns = columns_of(&self.layout.metadata);
        let before = std::mem::take(&mut self.indexes);
        let has_data = !self.sstables.is_empty() || self.memtables().any(|memtable| !memtable.is_empty());
        let mut kept: HashMap<IndexId, IndexFiles, FixedState> = HashMap::default();
        let mut gone = Vec::new();
        for (column, files) in before.columns.iter().zip(before.files) {
            match columns.iter().any(|new| new.index == column.index) {
                true => {
                    kept.insert(column.index, files);
                }
                false => gone.extend(files.by_sstable.values().map(|file| file.path().to_path_buf())),
            }
        }
        let files = columns.iter().map(|column| {
            let files = kept.remove(&column.index);
            files.unwrap_or_else(|| IndexFiles::new(!has_data))
        });
        self.indexes = TableIndexes {
            files: files.collect(),
            columns,
            failed: HashMap::default(),
        };
        gone
    }

    /// Returns whether the memtable that takes the writes lacks any of the table's indexes, or has others.
    pub fn has_other_indexes(&self) -> bool {
        let columns = &self.indexes.columns;
        let indexes = self.active.indexes();
        indexes.len() != columns.len() || columns.iter().any(|column| indexes.get(column.index).is_none())
    }

    /// An SSTable that lacks terms, and that nobody works on.
    pub fn choose_index_build(&self, now_ns: u64) -> Option<IndexBuild> {
        if self.indexes.columns.is_empty() || self.is_held || self.is_undecided {
            return None;
        }
        self.sstables.iter().find_map(|sstable| {
            let descriptor = sstable.descriptor();
            let failed = self.indexes.failed.get(&descriptor);
            if self.compacting.contains(&descriptor) || failed.is_some_and(|retry_at| now_ns < *retry_at) {
                return None;
            }
            let columns = self.indexes.missing(sstable);
            (!columns.is_empty()).then(|| IndexBuild {
                sstable: Arc::clone(sstable),
                columns,
            })
        })
    }

    /// Notes which indexes have all that the table had when they were made.
    pub fn tend_indexes(&mut self) {
        if self.indexes.files.iter().all(|files| files.is_ready) {
            return;
        }
        let indexes: Vec<IndexId> = self.indexes.columns.iter().map(|column| column.index).collect();
        for index in indexes {
            let is_whole = self.index_sources(index).is_some();
            if let Some(files) = self.indexes.files_mut(index) {
                files.is_ready |= is_whole;
            }
        }
    }
}

impl ShardStore {
    /// `None` for an index that the table does not have here.
    pub fn index_status(&mut self, table: TableId, index: IndexId) -> Option<IndexStatus> {
        let table = self.tables.get_mut(&table)?;
        if let Some(is_filling) = table.is_filling_vectors(index) {
            return Some(match is_filling {
                true => IndexStatus::Building,
                false => IndexStatus::Ready,
            });
        }
        table.tend_indexes();
        let files = table.indexes.files_mut(index)?;
        Some(match files.is_ready {
            true => IndexStatus::Ready,
            false => IndexStatus::Building,
        })
    }

    /// A table's schema is a newer one: its indexes may be others.
    pub(super) fn set_indexes(&mut self, id: TableId) {
        let has_disk = self.disk.is_some();
        let Some(table) = self.tables.get_mut(&id) else {
            return;
        };
        let gone = table.set_indexes();
        if table.has_other_indexes() {
            if has_disk && !table.active.is_empty() {
                // What it has reaches the index with the SSTable that it becomes.
                self.active_bytes = self.active_bytes.saturating_sub(table.active.bytes());
                table.seal();
            } else {
                let columns = table.indexes.columns.clone();
                let grown = table.active.set_indexes(&columns);
                self.memtable_bytes = self.memtable_bytes.saturating_add_signed(grown);
                self.active_bytes = self.active_bytes.saturating_add_signed(grown);
            }
        }
        let (layout, folder) = (Arc::clone(&table.layout), table.folder.clone());
        if !gone.is_empty() {
            self.remove_terms(id, &layout, folder, gone);
        }
        self.schedule.note_news();
    }
}

/// At a start: opens the files of terms of a table's SSTables.
pub(super) fn open_terms(folder: &DataFolder, table: &mut Table) {
    let sstables = table.sstables.clone();
    let layout = Arc::clone(&table.layout);
    for sstable in &sstables {
        let faults = table.indexes.open(&**folder.disk(), &layout, sstable);
        folder.note_sidecar_faults(&faults);
    }
}
