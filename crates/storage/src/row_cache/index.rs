//! Where the partitions of the cache are, and finding them by table, token and key.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use helenus_schema::TableId;
use helenus_types::Token;

use super::partition::CachedPartition;

/// No slot.
pub(super) const NONE: u32 = u32::MAX;

/// Slots are allocated so many at a time: a vector that doubles would hold up to twice of what the cache accounts for.
const SEGMENT_SLOTS: usize = 256;

/// A bucket of the hash table, which is between 7/16 and 7/8 full.
pub(super) const INDEX_BYTES_PER_PARTITION: usize = 28;

#[derive(Debug, Default)]
pub(super) struct PartitionIndex {
    segments: Vec<Vec<Option<CachedPartition>>>,
    free: Vec<u32>,
    /// By the number in [`CachedPartition::table`]; `None` for a table that was dropped, whose partitions go by and by.
    tables: Vec<Option<TableSlots>>,
    numbers: HashMap<TableId, u32, RandomState>,
    /// Numbers of tables that were dropped and have no partition left.
    free_numbers: Vec<u32>,
}

#[derive(Debug)]
struct TableSlots {
    /// The first slot of each token; the others hang on it.
    by_token: HashMap<i64, u32, RandomState>,
}

impl PartitionIndex {
    #[inline]
    pub fn find(&self, table: TableId, token: Token, key: &[u8]) -> Option<u32> {
        let number = *self.numbers.get(&table)?;
        let slots = self.tables.get(number as usize)?.as_ref()?;
        let mut slot = *slots.by_token.get(&token.0)?;
        while let Some(partition) = self.get(slot) {
            if partition.key() == key {
                return Some(slot);
            }
            slot = partition.next;
        }
        None
    }

    /// A table's number in the cache, if anything of it was ever cached.
    pub fn number(&self, table: TableId) -> Option<u32> {
        self.numbers.get(&table).copied()
    }

    /// Partitions that are there.
    pub fn len(&self) -> usize {
        self.slot_count() as usize - self.free.len()
    }

    pub fn has_table(&self, table: TableId) -> bool {
        self.numbers.contains_key(&table)
    }

    #[inline]
    pub fn get(&self, slot: u32) -> Option<&CachedPartition> {
        let slot = slot as usize;
        self.segments
            .get(slot / SEGMENT_SLOTS)?
            .get(slot % SEGMENT_SLOTS)?
            .as_ref()
    }

    pub fn get_mut(&mut self, slot: u32) -> Option<&mut CachedPartition> {
        self.place_mut(slot)?.as_mut()
    }

    fn place_mut(&mut self, slot: u32) -> Option<&mut Option<CachedPartition>> {
        let slot = slot as usize;
        self.segments
            .get_mut(slot / SEGMENT_SLOTS)?
            .get_mut(slot % SEGMENT_SLOTS)
    }

    /// Slots in use and free, for going round all of them.
    pub fn slot_count(&self) -> u32 {
        self.segments.last().map_or(0, |last| {
            ((self.segments.len() - 1) * SEGMENT_SLOTS + last.len()) as u32
        })
    }

    /// Puts in a partition that `make` gives, which is told its table's number. It is not there yet.
    pub fn insert(&mut self, table: TableId, token: Token, make: impl FnOnce(u32) -> CachedPartition) -> u32 {
        let number = self.number_of(table);
        let mut partition = make(number);
        let slot = self.free_slot();
        if let Some(Some(slots)) = self.tables.get_mut(number as usize) {
            partition.next = slots.by_token.insert(token.0, slot).unwrap_or(NONE);
        }
        if let Some(place) = self.place_mut(slot) {
            *place = Some(partition);
        }
        slot
    }

    fn number_of(&mut self, table: TableId) -> u32 {
        if let Some(&number) = self.numbers.get(&table) {
            return number;
        }
        let slots = Some(TableSlots {
            by_token: HashMap::default(),
        });
        let number = match self.free_numbers.pop() {
            Some(number) => {
                if let Some(place) = self.tables.get_mut(number as usize) {
                    *place = slots;
                }
                number
            }
            None => {
                self.tables.push(slots);
                (self.tables.len() - 1) as u32
            }
        };
        self.numbers.insert(table, number);
        number
    }

    fn free_slot(&mut self) -> u32 {
        if let Some(slot) = self.free.pop() {
            return slot;
        }
        let slot = self.slot_count();
        match self.segments.last_mut() {
            Some(last) if last.len() < SEGMENT_SLOTS => last.push(None),
            _ => {
                let mut segment = Vec::with_capacity(SEGMENT_SLOTS);
                segment.push(None);
                self.segments.push(segment);
            }
        }
        slot
    }

    pub fn remove(&mut self, slot: u32) {
        let Some(partition) = self.place_mut(slot).and_then(Option::take) else {
            return;
        };
        self.free.push(slot);
        let (token, next) = (partition.token(), partition.next);
        let Some(Some(slots)) = self.tables.get_mut(partition.table as usize) else {
            return;
        };
        let Some(first) = slots.by_token.get(&token.0).copied() else {
            return;
        };
        if first != slot {
            return self.unchain(first, slot, next);
        }
        if next == NONE {
            slots.by_token.remove(&token.0);
        } else {
            slots.by_token.insert(token.0, next);
        }
    }

    /// Takes a slot out of those of one token, of which it is not the first.
    fn unchain(&mut self, first: u32, slot: u32, next: u32) {
        let mut before = first;
        while let Some(partition) = self.get_mut(before) {
            if partition.next == slot {
                partition.next = next;
                return;
            }
            before = partition.next;
        }
    }

    /// Nothing of the table is found any more. Its partitions are still there, with no table.
    pub fn drop_table(&mut self, table: TableId) {
        if let Some(number) = self.numbers.remove(&table)
            && let Some(slots) = self.tables.get_mut(number as usize)
        {
            *slots = None;
        }
    }

    /// No partition of a dropped table is left.
    pub fn dropped_are_cleared(&mut self) {
        let dropped = self
            .tables
            .iter()
            .enumerate()
            .filter(|(_, slots)| slots.is_none());
        self.free_numbers = dropped.map(|(number, _)| number as u32).collect();
    }

    /// Returns whether a partition's table was dropped.
    pub fn is_orphan(&self, partition: &CachedPartition) -> bool {
        !matches!(self.tables.get(partition.table as usize), Some(Some(_)))
    }
}
