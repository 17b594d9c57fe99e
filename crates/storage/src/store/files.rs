//! A table's SSTables as operators see them: listed, held still, exchanged.

use std::sync::Arc;

use helenus_schema::TableId;

use super::folder::DataFolder;
use super::indexing::open_terms;
use super::shard::ShardStore;
use crate::error::TruncateError;
use helenus_sstable::{Descriptor, SsTable};

impl ShardStore {
    /// At a start: what was found on the disk.
    pub(super) fn add_sstables(&mut self, id: TableId, sstables: Vec<Arc<SsTable>>) {
        if let Some(table) = self.tables.get_mut(&id) {
            self.row_cache.drop_table(id);
            if !sstables.is_empty() {
                table.forget_vectors();
            }
            table.add_sstables(sstables);
            if let Some(disk) = &self.disk {
                open_terms(&disk.folder, table);
            }
        }
    }

    /// `None` for a store in memory.
    pub fn data_folder(&self) -> Option<&Arc<DataFolder>> {
        self.disk.as_ref().map(|disk| &disk.folder)
    }

    pub fn has_table(&self, id: TableId) -> bool {
        self.tables.contains_key(&id)
    }

    /// Returns whether a disk that failed has left open which of the table's files the next start finds.
    pub fn is_undecided(&self, id: TableId) -> bool {
        self.tables.get(&id).is_some_and(|table| table.is_undecided)
    }

    /// A table's SSTables at this moment. Their files stay until a compaction has replaced them.
    pub fn sstables(&self, id: TableId) -> Vec<Arc<SsTable>> {
        self.tables
            .get(&id)
            .map_or_else(Vec::new, |table| table.sstables.clone())
    }

    /// Returns whether sealed memtables of a table, or of any with `None`, are not SSTables yet.
    pub fn has_sealed_memtables(&self, id: Option<TableId>) -> bool {
        match id {
            None => self.is_flushing(),
            Some(id) => self.tables.get(&id).is_some_and(|table| !table.sealed.is_empty()),
        }
    }

    /// Lets no job of a table begin, and returns its SSTables once none is under way; [`TruncateError::Busy`] before.
    /// Until [`ShardStore::exchange_sstables`] or [`ShardStore::truncation_given_up`], writes gather in memory.
    pub fn hold_sstables(&mut self, id: TableId) -> Result<Vec<Arc<SsTable>>, TruncateError> {
        let table = self
            .tables
            .get_mut(&id)
            .ok_or(TruncateError::UnknownTable { id })?;
        table.is_held = true;
        if table.has_files_to_come_or_go() {
            table.jobs.iter().for_each(|job| job.stop());
            self.schedule.note_news();
            return Err(TruncateError::Busy);
        }
        Ok(table.sstables.clone())
    }

    /// Takes in SSTables that have been made a part of the table, in the place of those that are gone already.
    pub fn exchange_sstables(&mut self, id: TableId, replaced: &[Descriptor], added: Vec<Arc<SsTable>>) {
        if let Some(table) = self.tables.get_mut(&id) {
            table
                .sstables
                .retain(|sstable| !replaced.contains(&sstable.descriptor()));
            table.add_sstables(added);
            table.forget_vectors();
            table.is_held = false;
            self.schedule.note_news();
            self.row_cache.drop_table(id);
            // What was flushed may be in a file that is gone; with nothing cached there is nothing to wait for.
            self.absorb_all(id);
            self.count_sstable_memory();
        }
    }
}
