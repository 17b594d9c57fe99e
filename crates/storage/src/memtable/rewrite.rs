//! A partition of a memtable as updates that make it again: for a log that is to have it once more.

use helenus_schema::TableId;

use super::Partition;
use helenus_rows::deletion::DeletionTime;
use helenus_rows::row::{Entry, RowRef};
use helenus_rows::update::{BoundRef, UpdateBuilder};

/// Bytes of an entry in a packed row beside its path and its value, at most: column, flags, timestamp, ttl, local
/// deletion time, two lengths.
const ENTRY_BYTES_MAX: usize = 2 + 1 + 8 + 4 + 4 + 4 + 4;

impl Partition {
    /// Gives out updates of at most `bytes_max` each that say together what was written to the partition. Only one entry
    /// alone that is as large as a whole record could exceed that, and came in one.
    pub fn write_updates<E>(
        &self,
        table: TableId,
        bytes_max: usize,
        mut emit: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut updates = Updates {
            table,
            partition: self,
            bytes_max,
            head_bytes: 0,
            out: Vec::new(),
            emit: &mut emit,
        };
        updates.begin();
        let mut joined = Vec::new();
        if self.static_row.is_some() {
            updates.row(None, self.joined_static_row(&mut joined))?;
        }
        for row in self.rows.iter() {
            updates.row(Some(row.clustering()), self.joined_row(row, &mut joined))?;
        }
        for range in self.range_tombstones().iter() {
            let bounds = [&range.start, &range.end].map(|bound| BoundRef {
                prefix: &bound.prefix,
                side: bound.side,
            });
            updates
                .make_room(bounds.iter().map(|bound| bound.prefix.len()).sum::<usize>() + ENTRY_BYTES_MAX)?;
            let [start, end] = bounds;
            UpdateBuilder::again(&mut updates.out).range_tombstone(start, end, range.deletion);
        }
        updates.end()
    }
}

struct Updates<'p, 'e, E> {
    table: TableId,
    partition: &'p Partition,
    bytes_max: usize,
    /// Bytes of an update without items.
    head_bytes: usize,
    out: Vec<u8>,
    emit: &'e mut dyn FnMut(&[u8]) -> Result<(), E>,
}

impl<E> Updates<'_, '_, E> {
    fn begin(&mut self) {
        self.out.clear();
        let (key, deletion) = (self.partition.key(), self.partition.deletion);
        UpdateBuilder::new(&mut self.out, self.table, key, deletion);
        self.head_bytes = self.out.len();
    }

    /// Begins the next update where an item of so many bytes does not fit any more.
    fn make_room(&mut self, bytes: usize) -> Result<(), E> {
        if self.out.len() > self.head_bytes && self.out.len() + bytes > self.bytes_max {
            (self.emit)(&self.out)?;
            self.begin();
        }
        Ok(())
    }

    fn end(self) -> Result<(), E> {
        if self.out.len() > self.head_bytes || self.partition.deletion != DeletionTime::LIVE {
            (self.emit)(&self.out)?;
        }
        Ok(())
    }

    fn row(&mut self, clustering: Option<&[u8]>, row: RowRef<'_>) -> Result<(), E> {
        // A kind, two lengths.
        let head_bytes = 9 + clustering.map_or(0, <[u8]>::len);
        let bytes = head_bytes + row.as_bytes().len();
        if self.head_bytes + bytes <= self.bytes_max {
            self.make_room(bytes)?;
            UpdateBuilder::again(&mut self.out).packed(clustering, row);
            return Ok(());
        }
        // A row that was written in pieces goes in pieces.
        let mut entries = row.entries().peekable();
        while entries.peek().is_some() {
            self.make_room(self.bytes_max)?;
            let room = self.bytes_max.saturating_sub(self.head_bytes + head_bytes);
            let (liveness, deletion) = (row.liveness(), row.deletion());
            UpdateBuilder::again(&mut self.out).any_row(clustering, liveness, deletion, |builder| {
                if row.has_shadowable_deletion() {
                    builder.shadowable();
                }
                let mut taken = 0;
                let fits = |entry: &Entry<'_>, taken| taken == 0 || taken + entry_bytes(entry) <= room;
                while let Some(entry) = entries.next_if(|entry| fits(entry, taken)) {
                    taken += entry_bytes(&entry);
                    builder.push(entry);
                }
            });
        }
        Ok(())
    }
}

fn entry_bytes(entry: &Entry<'_>) -> usize {
    let held = match entry {
        Entry::ComplexDeletion { .. } => 0,
        Entry::Cell(cell) => cell.path.map_or(0, <[u8]>::len) + cell.value.len(),
    };
    ENTRY_BYTES_MAX + held
}
