//! The neighbours of the nodes of one graph.

use std::collections::BTreeMap;

/// Nodes whose neighbours lie in one piece of memory.
const CHUNK_NODES: usize = 1_024;

/// Bytes of an entry in a tree's map, half of which is room.
const UPPER_ENTRY_BYTES: usize = 64;

/// On the lowest layer each node has a list of a fixed extent: its length, then the neighbours. The few nodes that are on
/// upper layers have lists there by themselves.
#[derive(Debug)]
pub struct Links {
    ground_max: usize,
    upper_max: usize,
    chunks: Vec<Box<[u32]>>,
    upper: BTreeMap<(u8, u32), Vec<u32>>,
}

impl Links {
    pub fn new(connections: u32) -> Self {
        Links {
            ground_max: 2 * connections as usize,
            upper_max: connections as usize,
            chunks: Vec::new(),
            upper: BTreeMap::new(),
        }
    }

    /// The most neighbours a node has on a layer.
    pub fn max(&self, layer: u8) -> usize {
        match layer {
            0 => self.ground_max,
            _ => self.upper_max,
        }
    }

    pub fn memory_bytes(&self) -> usize {
        let ground: usize = self.chunks.iter().map(|chunk| size_of_val::<[u32]>(chunk)).sum();
        ground + self.upper.len() * (UPPER_ENTRY_BYTES + self.upper_max * size_of::<u32>())
    }

    /// Makes room for the node after the last.
    pub fn grow(&mut self, node: u32) {
        if node as usize / CHUNK_NODES == self.chunks.len() {
            let extent = CHUNK_NODES * (1 + self.ground_max);
            self.chunks.push(vec![0; extent].into());
        }
    }

    #[inline]
    pub fn of(&self, layer: u8, node: u32) -> &[u32] {
        if layer > 0 {
            return self.upper.get(&(layer, node)).map_or(&[], Vec::as_slice);
        }
        let list = self.ground(node);
        &list[1..][..list[0] as usize]
    }

    /// Loads lists that are gone through next, all at once, as [`Codes::load`](crate::codes::Codes::load).
    #[inline]
    pub fn load(&self, layer: u8, nodes: &[u32]) {
        const LINE_NODES: usize = 64 / size_of::<u32>();
        let mut loaded = 0;
        for node in nodes {
            for neighbour in self.of(layer, *node).iter().step_by(LINE_NODES) {
                loaded ^= neighbour;
            }
        }
        std::hint::black_box(loaded);
    }

    fn ground(&self, node: u32) -> &[u32] {
        let extent = 1 + self.ground_max;
        &self.chunks[node as usize / CHUNK_NODES][node as usize % CHUNK_NODES * extent..][..extent]
    }

    /// At most [`Self::max`] neighbours.
    pub fn set(&mut self, layer: u8, node: u32, neighbours: &[u32]) {
        if layer > 0 {
            self.upper.insert((layer, node), neighbours.to_vec());
            return;
        }
        let extent = 1 + self.ground_max;
        let list =
            &mut self.chunks[node as usize / CHUNK_NODES][node as usize % CHUNK_NODES * extent..][..extent];
        list[0] = neighbours.len() as u32;
        list[1..][..neighbours.len()].copy_from_slice(neighbours);
    }
}
