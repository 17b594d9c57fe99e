//! Opening all shards of a node: their SSTables, and the logs of the last run.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use helenus_schema::{Schema, TableId, TableKind, TableMetadata};
use helenus_types::{ShardId, Token, shard_of, token_of};
use helenus_vfs::{self as vfs, EntryKind};

use super::adoption::{Adoption, AdoptionError};
use super::folder::{DataFolder, FolderError, RefusedSsTable};
use super::shard::{Disk, ShardStore, StoreOptions};
use super::unflushed::UnflushedTable;
use crate::commitlog::{
    CommitLog, FlushedPositions, LogError, LogWriter, ReplayError, ResolvedWriteSets, replay,
};
use crate::compaction::{PurgeRule, Removal, RemovalError, RewriteError, Rewritten, rewrite_partition};
use crate::error::WriteError;
use helenus_rows::clustering::Slice;
use helenus_rows::layout::TableLayout;
use helenus_rows::partition_range::PartitionRange;
use helenus_rows::update::Update;
use helenus_sstable::error::ReadError;
use helenus_sstable::source::PartitionScanner;
use helenus_sstable::terms::remove_term_files;
use helenus_sstable::{
    self, Component, EncodingStatsCollector, PageCache, SsTable, SsTableWriter, WriterOptions,
    finished_sstables, foreign_sstables, remove_sstable, remove_unfinished,
};

/// A file is split reading it once from start to end; nothing is worth keeping.
const SPLIT_CACHE_BYTES: usize = 1 << 20;

/// The shards, ready to run; each store with the writer of its log.
#[derive(Debug)]
pub struct OpenedShards {
    pub shards: Vec<(ShardStore, LogWriter)>,
    pub updates_replayed: u64,
    /// Bytes of unacknowledged writes at the ends of the logs.
    pub torn_bytes: u64,
    /// Atomic batches that had not reached all their logs, none of which was acknowledged: nothing of them is left.
    pub write_sets_undone: u64,
    /// Tables whose part of the log could not be flushed: the log has it again.
    pub unflushed: Vec<UnflushedTable>,
    /// Shared by the logs of all shards; a shard numbers its write sets with it.
    pub resolved: Arc<ResolvedWriteSets>,
    /// Files that held partitions of several shards, because the number of shards has changed or they were copied in.
    pub sstables_split: u64,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error(transparent)]
    SsTable(#[from] helenus_sstable::OpenError),
    #[error(transparent)]
    Removal(#[from] RemovalError),
    #[error(transparent)]
    Adoption(#[from] AdoptionError),
    #[error("cannot split an SSTable among the shards: {0}")]
    Split(#[from] RewriteError),
    #[error(transparent)]
    Replay(#[from] ReplayError<WriteError>),
    #[error(transparent)]
    Log(#[from] LogError),
}

impl DataFolder {
    /// Makes the folder of a table, durably. The first SSTable does so too; DDL may, to fail early.
    pub fn create_table_folder(&self, table: &TableMetadata) -> io::Result<()> {
        let folder = self.table_folder(table);
        self.disk().create_dir_all(&folder)?;
        if let Some(keyspace_folder) = folder.parent() {
            self.disk().sync_directory(keyspace_folder)?;
        }
        self.disk().sync_directory(&self.data_folder())
    }

    /// The first SSTable in the folder of a table that is still to be made, if one that was dropped left none there. A start
    /// would take it for the table's.
    pub fn leftover_sstable(&self, table: &TableMetadata) -> Result<Option<PathBuf>, OpenError> {
        let folder = self.table_folder(table);
        let failed = |source| OpenError::Io {
            path: folder.clone(),
            source,
        };
        if !self.disk().exists(&folder).map_err(failed)? {
            return Ok(None);
        }
        Removal::recover(&**self.disk(), &folder)?;
        let found = finished_sstables(&**self.disk(), &folder).map_err(failed)?;
        Ok(found.first().map(|found| found.path(&folder, Component::Data)))
    }

    /// Removes what tables that were dropped in the last run have left. What cannot be removed does no harm until a table is
    /// made under the same id; that is refused then.
    fn finish_drops(&self, schema: &Schema) {
        let disk = &**self.disk();
        let kept: BTreeSet<PathBuf> = schema.tables().map(|table| self.table_folder(table)).collect();
        let folders = directories(disk, &self.data_folder());
        let folders = folders
            .iter()
            .flat_map(|keyspace_folder| directories(disk, keyspace_folder));
        for folder in folders.filter(|folder| !kept.contains(folder)) {
            if Removal::recover(disk, &folder).is_ok() {
                let _left = remove_term_files(disk, &folder, true, |_, _| true);
                // Snapshots keep it, and whatever else somebody put there.
                let _not_empty = disk.remove_directory(&folder);
            }
        }
    }

    /// Opens the SSTables of all tables, replays the logs and flushes what they held. Blocks until all is done.
    pub fn open_shards(
        self: &Arc<Self>,
        options: &StoreOptions,
        shard_count: u16,
        schema: &Schema,
    ) -> Result<OpenedShards, OpenError> {
        self.set_shard_count(shard_count);
        self.make_names_durable()?;
        self.finish_drops(schema);
        let mut stores = self.empty_stores(options, shard_count, schema);
        let sstables_split = self.open_tables(&mut stores, shard_count, schema)?;
        let mut replayed = replay(&**self.disk(), &self.log_folder(), schema, |update| {
            let token = token_of(update.partition_key);
            stores[usize::from(shard_of(token, shard_count).0)].replay(token, update)
        })?;
        for store in &mut stores {
            store.flush(None);
            store.flush_here();
        }
        let (updates_replayed, torn_bytes) = (replayed.updates_applied, replayed.torn_bytes);
        let write_sets_undone = replayed.write_sets_undone;
        // The clock makes numbers that grow even if a folder was emptied by hand.
        let now_us = u64::try_from(self.clock().wall_us()).unwrap_or(0);
        let resolved = ResolvedWriteSets::new(now_us.max(replayed.next_run), shard_count);
        let failed = |source| OpenError::Io {
            path: self.log_folder(),
            source,
        };
        let unflushed: Vec<UnflushedTable> = stores.iter().flat_map(ShardStore::unflushed_tables).collect();
        if !unflushed.is_empty() {
            replayed.cut_torn_ends(&**self.disk()).map_err(failed)?;
        }
        let mut shards = Vec::with_capacity(stores.len());
        for store in stores {
            let (mut store, mut writer) = self.begin_log(store, &resolved)?;
            store.rewrite_all(&mut writer)?;
            shards.push((store, writer));
        }
        replayed.discard(&**self.disk()).map_err(failed)?;
        Ok(OpenedShards {
            shards,
            updates_replayed,
            torn_bytes,
            write_sets_undone,
            unflushed,
            resolved,
            sstables_split,
        })
    }

    fn empty_stores(
        self: &Arc<Self>,
        options: &StoreOptions,
        shard_count: u16,
        schema: &Schema,
    ) -> Vec<ShardStore> {
        let stores = (0..shard_count).map(|shard| {
            let disk = Disk {
                folder: Arc::clone(self),
                log: None,
                flushed: FlushedPositions::default(),
            };
            let mut store = ShardStore::empty(options.clone(), ShardId(shard), Some(disk));
            store.set_schema(schema);
            store
        });
        stores.collect()
    }

    /// Hands the SSTables of all tables to their shards; how many of them had to be split for that.
    fn open_tables(
        &self,
        stores: &mut [ShardStore],
        shard_count: u16,
        schema: &Schema,
    ) -> Result<u64, OpenError> {
        let mut sstables_split = 0;
        for table in schema.tables().filter(|table| table.kind == TableKind::Regular) {
            let by_shard = self.open_table(table, shard_count, &mut sstables_split)?;
            for (store, found) in stores.iter_mut().zip(by_shard) {
                store.add_sstables(table.id, found);
            }
            if self.has_refused(table) {
                stores
                    .iter_mut()
                    .for_each(|store| store.hold_tombstones(table.id));
            }
        }
        stores.iter_mut().for_each(ShardStore::count_sstable_memory);
        Ok(sstables_split)
    }

    fn begin_log(
        &self,
        mut store: ShardStore,
        resolved: &Arc<ResolvedWriteSets>,
    ) -> Result<(ShardStore, LogWriter), OpenError> {
        // The clock makes numbers that grow even if a folder was emptied by hand.
        let floor = u64::try_from(self.clock().wall_us()).unwrap_or(0);
        let (writer, first_segment) = LogWriter::open(
            Arc::clone(self.disk()),
            self.log_folder(),
            store.shard(),
            store.options.log.segment_bytes,
            floor,
        )?;
        if let Some(disk) = &mut store.disk {
            disk.log = Some(CommitLog::new(
                store.options.log.clone(),
                store.shard,
                first_segment,
                Some(resolved.clone()),
            ));
        }
        Ok((store, writer))
    }

    /// The SSTables of one table, by shard.
    fn open_table(
        &self,
        table: &Arc<TableMetadata>,
        shard_count: u16,
        sstables_split: &mut u64,
    ) -> Result<Vec<Vec<Arc<SsTable>>>, OpenError> {
        let folder = self.table_folder(table);
        let descriptors = self.recover_table(table)?;
        self.refuse_foreign(table, &folder)?;
        let mut by_shard: Vec<Vec<Arc<SsTable>>> = vec![Vec::new(); usize::from(shard_count)];
        for descriptor in descriptors {
            let sstable = match SsTable::open(&**self.disk(), &folder, descriptor, table) {
                Ok(sstable) => {
                    self.note_sidecar_faults(sstable.sidecar_faults());
                    sstable
                }
                Err(error) => {
                    self.refuse_damaged(table, error)?;
                    continue;
                }
            };
            let first = shard_of(sstable.first_token(), shard_count);
            let last = shard_of(sstable.last_token(), shard_count);
            if first == last {
                by_shard[usize::from(first.0)].push(sstable);
                continue;
            }
            let parts = match self.split(table, &sstable, shard_count, &folder) {
                Err(OpenError::Split(RewriteError::Read(error))) => {
                    self.refuse_damaged(table, error.into())?;
                    continue;
                }
                parts => parts?,
            };
            *sstables_split += 1;
            for part in parts {
                by_shard[usize::from(shard_of(part.first_token(), shard_count).0)].push(part);
            }
            Removal::commit(&**self.disk(), &folder, &[descriptor])?.finish(&**self.disk())?;
        }
        Ok(by_shard)
    }

    /// Notes an SSTable that its files are to blame for. That the disk fails is another matter: it may hold more than
    /// can be seen now, and the node does not start.
    fn refuse_damaged(
        &self,
        table: &TableMetadata,
        reason: helenus_sstable::OpenError,
    ) -> Result<(), OpenError> {
        if let helenus_sstable::OpenError::Read(ReadError::Io { .. }) = reason {
            return Err(reason.into());
        }
        self.refuse(RefusedSsTable {
            keyspace: Arc::clone(&table.keyspace),
            table: Arc::clone(&table.name),
            reason,
        });
        Ok(())
    }

    fn has_refused(&self, table: &TableMetadata) -> bool {
        self.refused_sstables()
            .iter()
            .any(|refused| refused.keyspace == table.keyspace && refused.table == table.name)
    }

    fn refuse_foreign(&self, table: &TableMetadata, folder: &Path) -> Result<(), OpenError> {
        let foreign = match foreign_sstables(&**self.disk(), folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            foreign => foreign.map_err(|source| OpenError::Io {
                path: folder.to_path_buf(),
                source,
            })?,
        };
        for file in foreign {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            let version = name.split('-').next().unwrap_or_default().to_owned();
            self.refuse_damaged(
                table,
                helenus_sstable::OpenError::ForeignVersion { file, version },
            )?;
        }
        Ok(())
    }

    /// Finishes what a crash interrupted in a table's folder; those that are there, ascending. Whoever uses
    /// the folder of a node that does not run begins with this.
    pub fn recover_table(
        &self,
        table: &TableMetadata,
    ) -> Result<Vec<helenus_sstable::Descriptor>, OpenError> {
        let folder = self.table_folder(table);
        let failed = |source| OpenError::Io {
            path: folder.clone(),
            source,
        };
        if !self.disk().exists(&folder).map_err(failed)? {
            // Nothing was written to the table yet.
            return Ok(Vec::new());
        }
        Removal::recover(&**self.disk(), &folder)?;
        Adoption::recover(&**self.disk(), &folder)?;
        remove_unfinished(&**self.disk(), &folder).map_err(failed)?;
        let descriptors = finished_sstables(&**self.disk(), &folder).map_err(failed)?;
        remove_term_files(&**self.disk(), &folder, true, |index, sstable| {
            let is_known = table.indexes.iter().any(|known| known.id.0 == index);
            !is_known || descriptors.binary_search(&sstable).is_err()
        })
        .map_err(failed)?;
        descriptors
            .iter()
            .for_each(|descriptor| self.sstable_found(descriptor.id));
        Ok(descriptors)
    }

    /// Writes an SSTable anew as one per shard. The old one is still there when this returns: with a crash before its
    /// removal, both are merged and the next start splits again.
    pub(super) fn split(
        &self,
        table: &Arc<TableMetadata>,
        sstable: &SsTable,
        shard_count: u16,
        folder: &Path,
    ) -> Result<Vec<Arc<SsTable>>, OpenError> {
        let mut parts = Vec::new();
        let split = self.split_into(table, sstable, shard_count, folder, &mut parts);
        if split.is_err() {
            for part in &parts {
                // What cannot be removed now is merged with what is still there.
                let _ = remove_sstable(&**self.disk(), folder, part.descriptor());
            }
        }
        split.map(|()| parts)
    }

    fn split_into(
        &self,
        table: &Arc<TableMetadata>,
        sstable: &SsTable,
        shard_count: u16,
        folder: &Path,
        parts: &mut Vec<Arc<SsTable>>,
    ) -> Result<(), OpenError> {
        let layout = TableLayout::of(table);
        let held = layout
            .absent_columns()
            .filter(|dropped| sstable.holds_newer_than(dropped));
        let written = layout.with_columns(held);
        let cache = PageCache::new(SPLIT_CACHE_BYTES);
        let slices = [Slice::all()];
        let (start, end) = PartitionRange::everything().bounds();
        let mut scanner = sstable.scan(&cache, start, end, &slices, false);
        let mut scratch = Rewritten::default();
        let mut open: Option<(ShardId, SsTableWriter)> = None;
        let mut key = Vec::new();
        let mut has_next = scanner.advance().map_err(RewriteError::from)?;
        while has_next {
            let (token, position_key) = scanner.position();
            key.clear();
            key.extend_from_slice(position_key);
            let shard = shard_of(token, shard_count);
            if open.as_ref().is_none_or(|(other, ..)| *other != shard) {
                parts.extend(self.finish_part(table, open.take(), folder)?);
                let writer = self.part_writer(&written, sstable, folder)?;
                open = Some((shard, writer));
            }
            if let Some((_, writer)) = &mut open {
                let mut cursor = scanner.open().map_err(RewriteError::from)?;
                rewrite_partition(
                    &layout,
                    token,
                    &key,
                    &mut cursor,
                    PurgeRule::KeepAll,
                    writer.into(),
                    &mut scratch,
                )?;
            }
            has_next = scanner.advance().map_err(RewriteError::from)?;
        }
        parts.extend(self.finish_part(table, open, folder)?);
        self.disk()
            .sync_directory(folder)
            .map_err(|source| OpenError::Io {
                path: folder.to_path_buf(),
                source,
            })
    }

    fn part_writer(
        &self,
        table: &TableMetadata,
        whole: &SsTable,
        folder: &Path,
    ) -> Result<SsTableWriter, RewriteError> {
        let mut stats = EncodingStatsCollector::default();
        stats.merge(whole.encoding_stats());
        let options = WriterOptions {
            partition_count_estimate: whole.statistics().partition_count(),
            encoding_stats: stats.finish(),
            level: whole.statistics().level,
            ..WriterOptions::of(table)
        };
        Ok(SsTableWriter::new(
            Arc::clone(self.disk()),
            folder,
            self.new_sstable_id(),
            table,
            options,
        )?)
    }

    fn finish_part(
        &self,
        table: &Arc<TableMetadata>,
        part: Option<(ShardId, SsTableWriter)>,
        folder: &Path,
    ) -> Result<Option<Arc<SsTable>>, OpenError> {
        let Some((_, writer)) = part else {
            return Ok(None);
        };
        if writer.partition_count() == 0 {
            writer.abandon().map_err(RewriteError::from)?;
            return Ok(None);
        }
        let descriptor = writer.descriptor();
        writer.finish().map_err(RewriteError::from)?;
        Ok(Some(SsTable::open(&**self.disk(), folder, descriptor, table)?))
    }
}

impl ShardStore {
    /// Tombstones of a table stay: there are SSTables of it that nobody could look into.
    fn hold_tombstones(&mut self, id: TableId) {
        if let Some(table) = self.tables.get_mut(&id) {
            table.has_refused = true;
        }
    }

    /// Takes a write from the log of the last run; flushes at once when memory is full.
    fn replay(&mut self, token: Token, update: &Update<'_>) -> Result<(), WriteError> {
        self.flush_here();
        self.take_again(token, update)
    }

    /// Runs the flushes of sealed memtables on this thread. Those of tables that cannot be flushed stay in memory.
    fn flush_here(&mut self) {
        while self.awaits_flush(None) {
            // Nothing that has failed is due.
            let Some(job) = self.next_flush(0) else { return };
            let report = self.complete(job.run());
            if let Some(folder) = self.data_folder() {
                report.tell(self.shard.0, folder.events());
            }
        }
    }
}

/// None where they cannot be listed.
fn directories(disk: &dyn vfs::Disk, folder: &Path) -> Vec<PathBuf> {
    let entries = disk.list(folder).unwrap_or_default();
    let directories = entries.iter().filter(|entry| entry.kind == EntryKind::Directory);
    directories.map(|entry| folder.join(&entry.name)).collect()
}
