//! The sixteen types of trie nodes as they are stored.
//!
//! | shape | bytes |
//! |---|---|
//! | leaf | type and payload bits: 1, payload |
//! | single | type and payload bits: 1 (of 4- and 12-bit pointers: the pointer's upper bits), byte, pointer, payload |
//! | sparse | type and payload bits: 1, count: 1, bytes ascending, pointers, payload |
//! | dense | type and payload bits: 1, first byte: 1, span - 1: 1, a pointer for each byte of the span (0: none), payload |
//!
//! A pointer is the distance back to the child. Pointers of 12 bits are packed two in three bytes.

/// Nodes lie within pages of this size, children mostly in the page of their parent.
pub(super) const PAGE_BYTES: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Leaf,
    Single,
    Sparse,
    Dense,
}

#[derive(Debug)]
pub(super) struct NodeType {
    /// The upper four bits of a node's first byte.
    pub ordinal: u8,
    pub shape: Shape,
    pub pointer_bits: usize,
}

const fn node_type(ordinal: u8, shape: Shape, pointer_bits: usize) -> NodeType {
    NodeType {
        ordinal,
        shape,
        pointer_bits,
    }
}

/// By ordinal.
static TYPES: [NodeType; 16] = [
    node_type(0, Shape::Leaf, 0),
    node_type(1, Shape::Single, 4),
    node_type(2, Shape::Single, 8),
    node_type(3, Shape::Single, 12),
    node_type(4, Shape::Single, 16),
    node_type(5, Shape::Sparse, 8),
    node_type(6, Shape::Sparse, 12),
    node_type(7, Shape::Sparse, 16),
    node_type(8, Shape::Sparse, 24),
    node_type(9, Shape::Sparse, 40),
    node_type(10, Shape::Dense, 12),
    node_type(11, Shape::Dense, 16),
    node_type(12, Shape::Dense, 24),
    node_type(13, Shape::Dense, 32),
    node_type(14, Shape::Dense, 40),
    node_type(15, Shape::Dense, 64),
];

/// Which types hold pointers up to some number of bits: with one child, with few, with many. There is not a type of
/// every shape for every size.
const CHOICES: [(usize, [usize; 3]); 8] = [
    (4, [1, 5, 10]),
    (8, [2, 5, 10]),
    (12, [3, 6, 10]),
    (16, [4, 7, 11]),
    (24, [12, 8, 12]),
    (32, [13, 9, 13]),
    (40, [14, 9, 14]),
    (64, [15, 15, 15]),
];

impl NodeType {
    pub fn of_first_byte(byte: u8) -> &'static NodeType {
        &TYPES[usize::from(byte >> 4)]
    }

    /// The smallest for a node whose children lie at most `distance_max` bytes back. `span` is the number of bytes from
    /// the first child's to the last one's, both included.
    pub fn choose(
        child_count: usize,
        span: usize,
        distance_max: u64,
        has_payload: bool,
    ) -> &'static NodeType {
        if child_count == 0 {
            return &TYPES[0];
        }
        let bits = 64 - distance_max.leading_zeros() as usize;
        let mut choice = CHOICES.iter().position(|(fits, _)| bits <= *fits).unwrap_or(7);
        let single = &TYPES[CHOICES[choice].1[0]];
        if child_count == 1 {
            // The next one has room for the payload's bits.
            choice += usize::from(has_payload && !single.has_payload_bits());
            return &TYPES[CHOICES[choice].1[0]];
        }
        let (sparse, dense) = (&TYPES[CHOICES[choice].1[1]], &TYPES[CHOICES[choice].1[2]]);
        if sparse.length(child_count, span) < dense.length(child_count, span) {
            sparse
        } else {
            dense
        }
    }

    /// Returns whether the lower bits of the first byte tell the payload that is there; else they belong to the pointer.
    pub fn has_payload_bits(&self) -> bool {
        self.shape != Shape::Single || matches!(self.pointer_bits, 8 | 16)
    }

    /// Without the payload.
    pub fn length(&self, child_count: usize, span: usize) -> usize {
        match self.shape {
            Shape::Leaf => 1,
            Shape::Single => 1 + (4 + self.pointer_bits).div_ceil(8).max(1 + self.pointer_bits / 8),
            Shape::Sparse => 2 + child_count + (child_count * self.pointer_bits).div_ceil(8),
            Shape::Dense => 3 + (span * self.pointer_bits).div_ceil(8),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_have_the_lengths_of_the_format() {
        let length = |ordinal: usize, children, span| TYPES[ordinal].length(children, span);
        assert_eq!([1, 2, 3, 4].map(|single| length(single, 1, 1)), [2, 3, 3, 4]);
        assert_eq!(
            [5, 6, 7, 8, 9].map(|sparse| length(sparse, 3, 9)),
            [8, 10, 11, 14, 20]
        );
        assert_eq!(
            [10, 11, 12, 13, 14, 15].map(|dense| length(dense, 3, 5)),
            [11, 13, 18, 23, 28, 43]
        );
    }

    #[test]
    fn the_smallest_type_is_chosen() {
        let ordinal =
            |children, span, distance, payload| NodeType::choose(children, span, distance, payload).ordinal;
        assert_eq!(ordinal(0, 0, 0, true), 0);
        assert_eq!(
            [15, 16, 255, 256, 4095, 4096].map(|far| ordinal(1, 1, far, false)),
            [1, 2, 2, 3, 3, 4]
        );
        assert_eq!(
            [15, 255, 4095, 4096].map(|far| ordinal(1, 1, far, true)),
            [2, 2, 4, 4]
        );
        assert_eq!(ordinal(1, 1, 1 << 16, false), 12);
        assert_eq!(
            [15, 4095, 65_535, 1 << 20].map(|far| ordinal(2, 200, far, false)),
            [5, 6, 7, 8]
        );
        assert_eq!(
            [15, 4095, 65_535, 1 << 24].map(|far| ordinal(200, 200, far, false)),
            [10, 10, 11, 13]
        );
        assert_eq!(ordinal(2, 200, 1 << 40, false), 15);
    }
}
