//! What one shard holds of one table.

use std::sync::Arc;

use crate::layout::TableLayout;
use crate::memtable::Memtable;

#[derive(Debug)]
pub(super) struct Table {
    pub layout: Arc<TableLayout>,
    /// Takes the writes.
    pub active: Memtable,
    /// Being flushed or waiting for it, oldest first.
    pub sealed: Vec<Arc<Memtable>>,
}

impl Table {
    pub fn new(layout: TableLayout) -> Self {
        let layout = Arc::new(layout);
        Table {
            active: Memtable::new(Arc::clone(&layout)),
            layout,
            sealed: Vec::new(),
        }
    }

    pub fn memory_bytes(&self) -> usize {
        self.active.bytes() + self.sealed.iter().map(|memtable| memtable.bytes()).sum::<usize>()
    }
}
