//! The neighbours of the nodes of one graph.
//!
//! Half of the nodes have fewer than half of the neighbours that they may have. A list takes room for four more at most: lists of one extent
//! lie together, and one that outgrows its own moves among those of the next.

use std::collections::BTreeMap;

use crate::kernel::prefetch;

/// Nodes whose places lie in one piece of memory.
const CHUNK_NODES: usize = 1_024;
/// Lists of one extent that lie in one piece of memory.
const CHUNK_LISTS: usize = 256;
/// Neighbours by which the extents of lists differ.
const EXTENT_STEP: usize = 4;
/// Bytes of a neighbour whose number they have room for, and of any other.
const NARROW_BYTES: usize = 3;
const WIDE_BYTES: usize = 4;
/// Marks the slot of a list with a neighbour that needs four bytes.
const WIDE: u32 = 1 << 31;
/// Bytes of an entry in a tree's map, half of which is room.
const UPPER_ENTRY_BYTES: usize = 2 * (size_of::<(u8, u32)>() + size_of::<Place>());

/// Lists of neighbours by layer and node. Each node has one on the lowest layer; the few that are on upper layers are found in a map.
#[derive(Debug)]
pub struct Links {
    ground_max: usize,
    upper_max: usize,
    ground: Vec<Box<[Place]>>,
    upper: BTreeMap<(u8, u32), Place>,
    narrow: Lists<NARROW_BYTES>,
    wide: Lists<WIDE_BYTES>,
}

/// A list: its slot among those of its extent, which its length tells.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    slot: [u8; 4],
    length: u8,
}

impl Place {
    fn slot(self) -> u32 {
        u32::from_ne_bytes(self.slot)
    }
}

/// Lists with numbers of `W` bytes, by extent.
#[derive(Debug, Default)]
struct Lists<const W: usize> {
    extents: Vec<Extent>,
}

/// Lists of one extent. Slots that are free are a list themselves, of which each has the number of the next, plus one.
#[derive(Debug, Default)]
struct Extent {
    chunks: Vec<Box<[u8]>>,
    used: u32,
    first_free: u32,
}

fn extent_of(length: usize) -> usize {
    length.div_ceil(EXTENT_STEP)
}

impl<const W: usize> Lists<W> {
    fn memory_bytes(&self) -> usize {
        let chunks = self.extents.iter().flat_map(|extent| &extent.chunks);
        chunks.map(|chunk| chunk.len()).sum()
    }

    fn list_bytes(extent: usize) -> usize {
        extent * EXTENT_STEP * W
    }

    fn get(&self, slot: u32, length: usize) -> &[u8] {
        let bytes = Self::list_bytes(extent_of(length));
        match self.extents.get(extent_of(length)) {
            Some(extent) if length > 0 => extent.list(slot, bytes).get(..length * W).unwrap_or_default(),
            _ => &[],
        }
    }

    /// Takes in a list; returns its slot.
    fn add(&mut self, neighbours: &[u32]) -> u32 {
        let extent = extent_of(neighbours.len());
        if self.extents.len() <= extent {
            self.extents.resize_with(extent + 1, Extent::default);
        }
        let bytes = Self::list_bytes(extent);
        let slot = self.extents[extent].take_slot(bytes);
        self.write(slot, neighbours);
        slot
    }

    /// Puts a list in the place of one of the same extent.
    fn write(&mut self, slot: u32, neighbours: &[u32]) {
        let extent = extent_of(neighbours.len());
        let list = self.extents[extent].list_mut(slot, Self::list_bytes(extent));
        for (bytes, neighbour) in list.chunks_exact_mut(W).zip(neighbours) {
            bytes.copy_from_slice(&neighbour.to_le_bytes()[..W]);
        }
    }

    fn free(&mut self, slot: u32, length: usize) {
        let extent = extent_of(length);
        self.extents[extent].free(slot, Self::list_bytes(extent));
    }
}

impl Extent {
    fn list(&self, slot: u32, bytes: usize) -> &[u8] {
        let slot = slot as usize;
        &self.chunks[slot / CHUNK_LISTS][slot % CHUNK_LISTS * bytes..][..bytes]
    }

    fn list_mut(&mut self, slot: u32, bytes: usize) -> &mut [u8] {
        let slot = slot as usize;
        &mut self.chunks[slot / CHUNK_LISTS][slot % CHUNK_LISTS * bytes..][..bytes]
    }

    fn take_slot(&mut self, bytes: usize) -> u32 {
        if let Some(slot) = self.first_free.checked_sub(1) {
            let next = self.list(slot, bytes).first_chunk::<4>();
            self.first_free = next.map_or(0, |next| u32::from_le_bytes(*next));
            return slot;
        }
        let slot = self.used;
        if slot as usize / CHUNK_LISTS == self.chunks.len() {
            self.chunks.push(vec![0; CHUNK_LISTS * bytes].into());
        }
        self.used += 1;
        slot
    }

    fn free(&mut self, slot: u32, bytes: usize) {
        let next = self.first_free.to_le_bytes();
        self.list_mut(slot, bytes)[..next.len()].copy_from_slice(&next);
        self.first_free = slot + 1;
    }
}

/// The neighbours of one node on one layer.
#[derive(Clone, Debug)]
pub struct Neighbours<'l> {
    bytes: &'l [u8],
    is_wide: bool,
}

impl Iterator for Neighbours<'_> {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        if self.is_wide {
            let (number, rest) = self.bytes.split_first_chunk::<WIDE_BYTES>()?;
            self.bytes = rest;
            return Some(u32::from_le_bytes(*number));
        }
        let ([low, middle, high], rest) = self.bytes.split_first_chunk::<NARROW_BYTES>()?;
        self.bytes = rest;
        Some(u32::from_le_bytes([*low, *middle, *high, 0]))
    }

    #[inline]
    fn fold<B, F: FnMut(B, u32) -> B>(self, initial: B, mut with: F) -> B {
        if self.is_wide {
            let (numbers, _) = self.bytes.as_chunks::<WIDE_BYTES>();
            return numbers
                .iter()
                .fold(initial, |value, number| with(value, u32::from_le_bytes(*number)));
        }
        let (numbers, _) = self.bytes.as_chunks::<NARROW_BYTES>();
        numbers.iter().fold(initial, |value, [low, middle, high]| {
            with(value, u32::from_le_bytes([*low, *middle, *high, 0]))
        })
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let length = match self.is_wide {
            true => self.bytes.len() / WIDE_BYTES,
            false => self.bytes.len() / NARROW_BYTES,
        };
        (length, Some(length))
    }
}

impl ExactSizeIterator for Neighbours<'_> {}

impl Links {
    pub fn new(connections: u32) -> Self {
        Links {
            ground_max: 2 * connections as usize,
            upper_max: connections as usize,
            ground: Vec::new(),
            upper: BTreeMap::new(),
            narrow: Lists::default(),
            wide: Lists::default(),
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
        self.ground.len() * CHUNK_NODES * size_of::<Place>()
            + self.upper.len() * UPPER_ENTRY_BYTES
            + self.narrow.memory_bytes()
            + self.wide.memory_bytes()
    }

    /// Makes room for the node after the last.
    pub fn grow(&mut self, node: u32) {
        if node as usize / CHUNK_NODES == self.ground.len() {
            self.ground.push(vec![Place::default(); CHUNK_NODES].into());
        }
    }

    fn place(&self, layer: u8, node: u32) -> Place {
        match layer {
            0 => self.ground[node as usize / CHUNK_NODES][node as usize % CHUNK_NODES],
            _ => self.upper.get(&(layer, node)).copied().unwrap_or_default(),
        }
    }

    #[inline]
    pub fn of(&self, layer: u8, node: u32) -> Neighbours<'_> {
        let place = self.place(layer, node);
        let (slot, length) = (place.slot(), usize::from(place.length));
        let is_wide = slot & WIDE != 0;
        let bytes = match is_wide {
            true => self.wide.get(slot & !WIDE, length),
            false => self.narrow.get(slot, length),
        };
        Neighbours { bytes, is_wide }
    }

    /// Loads lists that are gone through next, all at once, as [`Codes::load`](crate::codes::Codes::load).
    #[inline]
    pub fn load(&self, layer: u8, nodes: &[u32]) {
        for node in nodes {
            prefetch(self.of(layer, *node).bytes);
        }
    }

    /// Loads where the list of a node lies, of which [`Self::load`] has to know.
    #[inline]
    pub fn load_place(&self, layer: u8, node: u32) {
        if layer == 0 {
            let place = &self.ground[node as usize / CHUNK_NODES][node as usize % CHUNK_NODES];
            prefetch(&place.slot);
        }
    }

    /// At most [`Self::max`] neighbours.
    pub fn set(&mut self, layer: u8, node: u32, neighbours: &[u32]) {
        let before = self.place(layer, node);
        let is_wide = neighbours
            .iter()
            .any(|neighbour| *neighbour >> (8 * NARROW_BYTES) != 0);
        let slot = match is_wide {
            true => {
                WIDE | self
                    .wide
                    .moved(before, before.slot() & WIDE != 0, neighbours, &mut self.narrow)
            }
            false => self
                .narrow
                .moved(before, before.slot() & WIDE == 0, neighbours, &mut self.wide),
        };
        let place = Place {
            slot: slot.to_ne_bytes(),
            length: neighbours.len() as u8,
        };
        match layer {
            0 => self.ground[node as usize / CHUNK_NODES][node as usize % CHUNK_NODES] = place,
            _ => {
                self.upper.insert((layer, node), place);
            }
        }
    }
}

impl<const W: usize> Lists<W> {
    /// Puts a list in the place of another, which `is_here` or among those of the other width; returns its slot.
    fn moved<const V: usize>(
        &mut self,
        before: Place,
        is_here: bool,
        neighbours: &[u32],
        others: &mut Lists<V>,
    ) -> u32 {
        let (slot, length) = (before.slot() & !WIDE, usize::from(before.length));
        match (length, is_here) {
            (0, _) => {}
            (_, true) if extent_of(length) == extent_of(neighbours.len()) => {
                self.write(slot, neighbours);
                return slot;
            }
            (_, true) => self.free(slot, length),
            (_, false) => others.free(slot, length),
        }
        match neighbours {
            [] => 0,
            _ => self.add(neighbours),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::random::Random;

    const NODES: u64 = 3_000;

    #[test]
    fn lists_are_what_was_set_last_however_long_and_wide() {
        let mut random = Random::new(5);
        let mut links = Links::new(64);
        (0..NODES as u32).for_each(|node| links.grow(node));
        let mut model: HashMap<(u8, u32), Vec<u32>> = HashMap::new();
        for _ in 0..40_000 {
            let layer = u8::from(random.below(16) == 0);
            let node = random.below(NODES) as u32;
            let most = links.max(layer) as u64;
            let greatest = match random.below(8) {
                0 => 1 << 32,
                _ => 1 << 24,
            };
            let neighbours: Vec<u32> = (0..random.below(most + 1))
                .map(|_| random.below(greatest) as u32)
                .collect();
            links.set(layer, node, &neighbours);
            model.insert((layer, node), neighbours);
        }
        for ((layer, node), neighbours) in &model {
            let list = links.of(*layer, *node);
            assert_eq!(list.len(), neighbours.len());
            assert!(list.eq(neighbours.iter().copied()), "{layer} {node}");
        }
        let bytes = links.memory_bytes();
        for _ in 0..3 {
            for ((layer, node), neighbours) in &model {
                links.set(*layer, *node, &[]);
                links.set(*layer, *node, neighbours);
            }
        }
        assert!(links.memory_bytes() <= bytes, "what is free is used again");
    }
}
