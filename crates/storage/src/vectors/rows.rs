//! Which rows the nodes of a graph are.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use helenus_rows::deletion::NEVER_S;
use helenus_types::value::vint::{read_unsigned_vint, read_vint, write_unsigned_vint, write_vint};

/// Rows that lie in one piece of memory. A longer one has a piece of its own.
const PIECE_BYTES: usize = 64 << 10;
/// Nodes whose places lie in one piece of memory.
const CHUNK_NODES: usize = 1_024;
/// Parts of the map from rows to nodes: each grows by itself, so that no insertion moves more than some thousand entries.
const PARTS: usize = 256;

/// By node its row, and by row the node that has its newest vector. Rows are never forgotten: a graph that is made anew leaves
/// out those that are gone.
#[derive(Debug)]
pub(super) struct NodeRows {
    /// Each row: twice the length of its key, plus one if it expires, and that of its clustering, both as vints; its timestamp, as a vint behind
    /// the first; in four bytes when it expires, if it does; key and clustering.
    pieces: Vec<Vec<u8>>,
    chunks: Vec<Chunk>,
    by_row: Vec<HashTable<u32>>,
    piece_bytes: usize,
    first_timestamp_us: i64,
    /// Room for one.
    row: Vec<u8>,
}

#[derive(Debug)]
struct Chunk {
    /// The piece that rows were put into when it was begun.
    first_piece: usize,
    places: Vec<Place>,
}

/// Place of a row. Those of a chunk are in no more pieces than it has nodes.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Behind the first of its chunk.
    piece: u16,
    offset: u16,
}

const _: () = assert!(PIECE_BYTES <= 1 << 16 && CHUNK_NODES < 1 << 16);

/// Data of a node beside its vector.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeRow<'r> {
    /// Timestamp of the vector's cell.
    pub timestamp_us: i64,
    /// When that expires, in seconds since the Unix epoch.
    pub expires_at_s: u32,
    pub row: Row<'r>,
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
            pieces: Vec::new(),
            chunks: Vec::new(),
            by_row: (0..PARTS).map(|_| HashTable::new()).collect(),
            piece_bytes: 0,
            first_timestamp_us: 0,
            row: Vec::new(),
        }
    }

    pub fn memory_bytes(&self) -> usize {
        const ENTRY_BYTES: usize = size_of::<u32>() + 1;
        let places = self.chunks.len() * CHUNK_NODES * size_of::<Place>();
        let rows: usize = self.by_row.iter().map(|part| part.capacity() * ENTRY_BYTES).sum();
        self.piece_bytes + places + rows
    }

    pub fn get(&self, node: u32) -> NodeRow<'_> {
        let chunk = &self.chunks[node as usize / CHUNK_NODES];
        let Place { piece, offset } = chunk.places[node as usize % CHUNK_NODES];
        let mut bytes = &self.pieces[chunk.first_piece + usize::from(piece)][usize::from(offset)..];
        let mut length = || read_unsigned_vint(&mut bytes).unwrap_or_default() as usize;
        let (key_length, clustering_length) = (length(), length());
        let behind_us = read_vint(&mut bytes).unwrap_or_default();
        let mut expires_at_s = NEVER_S;
        if key_length % 2 == 1
            && let Some((at_s, rest)) = bytes.split_first_chunk()
        {
            expires_at_s = u32::from_le_bytes(*at_s);
            bytes = rest;
        }
        let (key, rest) = bytes.split_at(key_length / 2);
        NodeRow {
            timestamp_us: self.first_timestamp_us.wrapping_add(behind_us),
            expires_at_s,
            row: (key, &rest[..clustering_length]),
        }
    }

    pub fn row(&self, node: u32) -> Row<'_> {
        self.get(node).row
    }

    /// The node of a row's newest vector.
    pub fn find(&self, row: Row<'_>) -> Option<u32> {
        let hash = hash_of(row);
        let found = self.by_row[part_of(hash)].find(hash, |node| self.row(*node) == row);
        found.copied()
    }

    /// Takes in the node after the last, which is that of its row from now on.
    pub fn push(&mut self, row @ (key, clustering): Row<'_>, timestamp_us: i64, expires_at_s: u32) {
        if self.chunks.is_empty() {
            self.first_timestamp_us = timestamp_us;
        }
        let mut bytes = std::mem::take(&mut self.row);
        bytes.clear();
        let expires = expires_at_s != NEVER_S;
        write_unsigned_vint(&mut bytes, 2 * key.len() as u64 + u64::from(expires));
        write_unsigned_vint(&mut bytes, clustering.len() as u64);
        write_vint(&mut bytes, timestamp_us.wrapping_sub(self.first_timestamp_us));
        if expires {
            bytes.extend_from_slice(&expires_at_s.to_le_bytes());
        }
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(clustering);
        let (piece, offset) = self.put(&bytes);
        self.row = bytes;
        if self
            .chunks
            .last()
            .is_none_or(|chunk| chunk.places.len() == CHUNK_NODES)
        {
            self.chunks.push(Chunk {
                first_piece: piece,
                places: Vec::with_capacity(CHUNK_NODES),
            });
        }
        let chunks_before = self.chunks.len() - 1;
        let chunk = &mut self.chunks[chunks_before];
        let node = (chunks_before * CHUNK_NODES + chunk.places.len()) as u32;
        chunk.places.push(Place {
            piece: (piece - chunk.first_piece) as u16,
            offset,
        });
        self.map(row, node);
    }

    /// Puts the bytes of a row behind the last; returns its piece, and where it is in that.
    fn put(&mut self, bytes: &[u8]) -> (usize, u16) {
        let has_room = self
            .pieces
            .last()
            .is_some_and(|piece| piece.len() + bytes.len() <= PIECE_BYTES);
        if !has_room {
            let piece = Vec::with_capacity(bytes.len().max(PIECE_BYTES));
            self.piece_bytes += piece.capacity();
            self.pieces.push(piece);
        }
        let last = self.pieces.len() - 1;
        let piece = &mut self.pieces[last];
        let offset = piece.len() as u16;
        piece.extend_from_slice(bytes);
        (last, offset)
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
        let timestamp_us = |node: u32| 1_700_000_000_000_000 - i64::from(node) * 1_000_000;
        let expires_at_s = |node: u32| if node.is_multiple_of(3) { node } else { NEVER_S };
        for node in 0..5_000_u32 {
            rows.push((&key(node), b"ck"), timestamp_us(node), expires_at_s(node));
        }
        for number in 0..3_000_u32 {
            let newest = if number < 2_000 { number + 3_000 } else { number };
            assert_eq!(rows.find((&key(number), b"ck")), Some(newest));
            let found = rows.get(newest);
            assert_eq!(found.row, (&key(number)[..], &b"ck"[..]));
            assert_eq!(found.timestamp_us, timestamp_us(newest));
            assert_eq!(found.expires_at_s, expires_at_s(newest));
        }
        assert_eq!(rows.find((&key(1), b"c")), None);
        rows.unmap((&key(1), b"ck"));
        assert_eq!(rows.find((&key(1), b"ck")), None);
    }

    #[test]
    fn rows_are_found_however_long_they_are_and_whatever_their_time() {
        let mut rows = NodeRows::new();
        let lengths = [
            0,
            1,
            63,
            64,
            PIECE_BYTES - 12,
            PIECE_BYTES - 11,
            PIECE_BYTES,
            3 * PIECE_BYTES,
        ];
        let row_of = |node: usize| {
            let length = lengths[node * 7 % lengths.len()];
            ((node as u32).to_be_bytes(), vec![node as u8; length])
        };
        let times = [0, 1, -1, i64::MAX, i64::MIN];
        for node in 0..2_500 {
            let (key, clustering) = row_of(node);
            // Long ones take memory.
            let clustering = if node < 200 { clustering } else { vec![1] };
            rows.push((&key, &clustering), times[node % times.len()], NEVER_S);
        }
        for node in 0..2_500 {
            let (key, clustering) = row_of(node);
            let clustering = if node < 200 { clustering } else { vec![1] };
            assert_eq!(rows.find((&key, &clustering)), Some(node as u32));
            assert_eq!(rows.get(node as u32).timestamp_us, times[node % times.len()]);
        }
    }
}
