//! Which rows the nodes of a graph are.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;

/// Keys that lie in one piece of memory.
const CHUNK_BYTES: usize = 64 << 10;
/// Nodes that lie in one piece of memory.
const CHUNK_NODES: usize = 1_024;
/// Parts of the map from rows to nodes: each grows by itself, so that no insertion moves more than some thousand entries.
const PARTS: usize = 256;

/// By node its row, and by row the node that has its newest vector. Rows are never forgotten: a graph that is made anew leaves
/// out those that are gone.
#[derive(Debug)]
pub(super) struct NodeRows {
    keys: Vec<Vec<u8>>,
    nodes: Vec<Vec<NodeRow>>,
    by_row: Vec<HashTable<u32>>,
    key_bytes: usize,
}

/// Data of a node beside its vector.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeRow {
    /// Timestamp of the vector's cell.
    pub timestamp_us: i64,
    /// When that expires, in seconds since the Unix epoch.
    pub expires_at_s: u32,
    chunk: u32,
    offset: u32,
    key_length: u16,
    clustering_length: u32,
}

/// Partition key and clustering.
pub(super) type Row<'r> = (&'r [u8], &'r [u8]);

fn hash_of((key, clustering): Row<'_>) -> u64 {
    FixedState::default().hash_one((key, clustering))
}

fn part_of(hash: u64) -> usize {
    // The map takes the upper bits and the lower ones.
    (hash >> 32) as usize % PARTS
}

impl NodeRows {
    pub fn new() -> Self {
        NodeRows {
            keys: Vec::new(),
            nodes: Vec::new(),
            by_row: (0..PARTS).map(|_| HashTable::new()).collect(),
            key_bytes: 0,
        }
    }

    pub fn memory_bytes(&self) -> usize {
        const ENTRY_BYTES: usize = size_of::<u32>() + 1;
        let nodes = self.nodes.len() * CHUNK_NODES * size_of::<NodeRow>();
        let rows: usize = self.by_row.iter().map(|part| part.capacity() * ENTRY_BYTES).sum();
        self.key_bytes + nodes + rows
    }

    pub fn get(&self, node: u32) -> NodeRow {
        self.nodes[node as usize / CHUNK_NODES][node as usize % CHUNK_NODES]
    }

    pub fn row(&self, node: u32) -> Row<'_> {
        let NodeRow {
            chunk,
            offset,
            key_length,
            clustering_length,
            ..
        } = self.get(node);
        let bytes = &self.keys[chunk as usize][offset as usize..];
        let (key, rest) = bytes.split_at(usize::from(key_length));
        (key, &rest[..clustering_length as usize])
    }

    /// The node of a row's newest vector.
    pub fn find(&self, row: Row<'_>) -> Option<u32> {
        let hash = hash_of(row);
        let found = self.by_row[part_of(hash)].find(hash, |node| self.row(*node) == row);
        found.copied()
    }

    /// Takes in the node after the last, which is that of its row from now on.
    pub fn push(&mut self, row @ (key, clustering): Row<'_>, timestamp_us: i64, expires_at_s: u32) {
        let bytes = key.len() + clustering.len();
        let has_room = self
            .keys
            .last()
            .is_some_and(|chunk| chunk.len() + bytes <= chunk.capacity());
        if !has_room {
            let chunk = Vec::with_capacity(bytes.max(CHUNK_BYTES));
            self.key_bytes += chunk.capacity();
            self.keys.push(chunk);
        }
        let chunk_index = self.keys.len() - 1;
        let chunk = &mut self.keys[chunk_index];
        let node_row = NodeRow {
            timestamp_us,
            expires_at_s,
            chunk: chunk_index as u32,
            offset: chunk.len() as u32,
            // Keys are at most 64 KiB, clusterings at most that for each column.
            key_length: key.len() as u16,
            clustering_length: clustering.len() as u32,
        };
        chunk.extend_from_slice(key);
        chunk.extend_from_slice(clustering);
        match self.nodes.last_mut().filter(|chunk| chunk.len() < CHUNK_NODES) {
            Some(chunk) => chunk.push(node_row),
            None => {
                let mut chunk = Vec::with_capacity(CHUNK_NODES);
                chunk.push(node_row);
                self.nodes.push(chunk);
            }
        }
        let node = ((self.nodes.len() - 1) * CHUNK_NODES + self.nodes.last().map_or(0, Vec::len) - 1) as u32;
        self.map(row, node);
    }

    fn map(&mut self, row: Row<'_>, node: u32) {
        let hash = hash_of(row);
        let mut part = std::mem::take(&mut self.by_row[part_of(hash)]);
        match part.find_mut(hash, |other| self.row(*other) == row) {
            Some(other) => *other = node,
            None => {
                part.insert_unique(hash, node, |other| hash_of(self.row(*other)));
            }
        }
        self.by_row[part_of(hash)] = part;
    }

    /// The row has no vector any more.
    pub fn unmap(&mut self, row: Row<'_>) {
        let hash = hash_of(row);
        let mut part = std::mem::take(&mut self.by_row[part_of(hash)]);
        if let Ok(entry) = part.find_entry(hash, |other| self.row(*other) == row) {
            entry.remove();
        }
        self.by_row[part_of(hash)] = part;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_lead_to_their_newest_node_and_nodes_to_their_row() {
        let mut rows = NodeRows::new();
        let key = |number: u32| (number % 3_000).to_be_bytes();
        for number in 0..5_000_u32 {
            rows.push((&key(number), b"ck"), i64::from(number), 7);
        }
        for number in 0..3_000_u32 {
            let newest = if number < 2_000 { number + 3_000 } else { number };
            assert_eq!(rows.find((&key(number), b"ck")), Some(newest));
            assert_eq!(rows.row(newest), (&key(number)[..], &b"ck"[..]));
            assert_eq!(rows.get(newest).timestamp_us, i64::from(newest));
        }
        assert_eq!(rows.find((&key(1), b"c")), None);
        rows.unmap((&key(1), b"ck"));
        assert_eq!(rows.find((&key(1), b"ck")), None);
        let long = vec![1; CHUNK_BYTES];
        rows.push((&key(1), &long), 1, 1);
        assert_eq!(rows.find((&key(1), &long)), Some(5_000));
        assert_eq!(rows.row(5_000).1, long);
    }
}
