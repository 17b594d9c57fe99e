//! Building a trie from sorted keys, in memory that is bounded by the longest key and a page per byte of it.
//!
//! Only the path to the last key is open. A node off the path is complete; complete branches stay in memory while they
//! fit a page together with their parent, else they are laid out: the largest that still fits the current page first,
//! padding only when none does. This is the packing of Cassandra's writer, so that equal keys make equal files.

use super::node::{NodeType, PAGE_BYTES, Shape};

/// Payload of a key: bits up to 15 in the node's first byte, and bytes behind the node. 0 bits are no payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Payload {
    bits: u8,
    length: u8,
    bytes: [u8; PAYLOAD_BYTES_MAX],
}

/// An offset of 7 bytes and a deletion of 12 in a row index; the partition index has less.
const PAYLOAD_BYTES_MAX: usize = 20;

/// Bytes of a file that is being written, from where its owner last took them.
#[derive(Debug, Default)]
pub(super) struct PageSink {
    /// Position of the first pending byte.
    start: u64,
    pending: Vec<u8>,
}

#[derive(Debug)]
pub(super) struct TrieWriter {
    /// From the root to the last key's node.
    open: Vec<Node>,
    last_key: Vec<u8>,
    count: u64,
}

#[derive(Debug, Default)]
struct Node {
    /// The byte that leads here from the parent.
    byte: u8,
    payload: Payload,
    children: Vec<Node>,
    /// Where the node was written, if it was. It then takes no room in its parent's page.
    position: Option<u64>,
    /// Bytes below the node that are not written yet; an estimate where pointers lead out of the branch.
    branch_bytes: usize,
    /// Bytes of the node with its payload; an estimate where children are placed.
    node_bytes: usize,
    has_placed_children: bool,
    has_placed_below_children: bool,
}

impl Payload {
    /// `bits` are 1 to 15, `parts` at most 20 bytes together.
    pub fn new(bits: u8, parts: &[&[u8]]) -> Self {
        let mut payload = Payload {
            bits,
            ..Payload::default()
        };
        for byte in parts.iter().copied().flatten() {
            payload.bytes[usize::from(payload.length)] = *byte;
            payload.length += 1;
        }
        debug_assert!((1..16).contains(&bits), "the bits say that there is a payload");
        payload
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl PageSink {
    pub fn position(&self) -> u64 {
        self.start + self.pending.len() as u64
    }

    pub fn append(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// Hands out the bytes that were appended since the last call.
    pub fn take(&mut self, mut use_bytes: impl FnMut(&[u8])) {
        use_bytes(&self.pending);
        self.start += self.pending.len() as u64;
        self.pending.clear();
    }

    pub fn pending_bytes(&self) -> usize {
        self.pending.len()
    }

    /// A whole page at a page's first byte.
    fn bytes_left_in_page(&self) -> usize {
        PAGE_BYTES - (self.position() % PAGE_BYTES as u64) as usize
    }

    fn pad_to_page(&mut self) {
        let left = self.bytes_left_in_page();
        if left < PAGE_BYTES {
            self.pending.resize(self.pending.len() + left, 0);
        }
    }
}

impl Default for TrieWriter {
    fn default() -> Self {
        TrieWriter {
            open: vec![Node::of_byte(0)],
            last_key: Vec::new(),
            count: 0,
        }
    }
}

impl TrieWriter {
    /// Adds a key that sorts after all before it.
    pub fn add(&mut self, sink: &mut PageSink, key: &[u8], payload: Payload) {
        assert!(
            self.count == 0 || *self.last_key < *key,
            "keys are added in order, each once"
        );
        let shared = key
            .iter()
            .zip(&self.last_key)
            .take_while(|(new, old)| new == old)
            .count();
        while self.open.len() > shared + 1 {
            self.complete_last(sink);
        }
        self.open
            .extend(key[shared..].iter().map(|byte| Node::of_byte(*byte)));
        if let Some(node) = self.open.last_mut() {
            node.payload = payload;
        }
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(&key[shared..]);
        self.count += 1;
    }

    /// Number of keys.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Writes what is left and returns the root's position. The writer is then as new.
    pub fn finish(&mut self, sink: &mut PageSink) -> u64 {
        while self.open.len() > 1 {
            self.complete_last(sink);
        }
        let mut writer = std::mem::take(self);
        let Some(mut root) = writer.open.pop() else {
            unreachable!("the root is open until the end")
        };
        root.complete(sink);
        let mut bytes = root.measure(sink.position());
        if bytes > sink.bytes_left_in_page() {
            if bytes <= PAGE_BYTES {
                sink.pad_to_page();
                bytes = root.measure(sink.position());
            }
            if bytes > sink.bytes_left_in_page() {
                root.lay_out_children(sink);
                if root.node_bytes > sink.bytes_left_in_page() {
                    sink.pad_to_page();
                    root.measure(sink.position());
                }
            }
        }
        root.write(sink)
    }

    fn complete_last(&mut self, sink: &mut PageSink) {
        if let Some(mut node) = self.open.pop() {
            node.complete(sink);
            if let Some(parent) = self.open.last_mut() {
                parent.children.push(node);
            }
        }
    }
}

/// Recursion below is as deep as a branch that fits a page, at two bytes for a node: 2,048 levels.
impl Node {
    fn of_byte(byte: u8) -> Self {
        Node {
            byte,
            // Until it is complete, so that its pointers are measured child by child.
            has_placed_children: true,
            ..Node::default()
        }
    }

    /// Measures the branch, and lays its children out if it does not fit a page.
    fn complete(&mut self, sink: &mut PageSink) {
        self.branch_bytes = self
            .children
            .iter()
            .map(|child| child.branch_bytes + child.node_bytes)
            .sum();
        let node_bytes = self.length_at(sink.position());
        if node_bytes + self.branch_bytes >= PAGE_BYTES {
            self.lay_out_children(sink);
            return;
        }
        self.node_bytes = node_bytes;
        self.has_placed_children = self.children.iter().any(|child| child.position.is_some());
        self.has_placed_below_children = self.children.iter().any(|child| {
            child.position.is_none() && (child.has_placed_children || child.has_placed_below_children)
        });
    }

    /// Writes all children that are not written yet, each with its branch in one page.
    fn lay_out_children(&mut self, sink: &mut PageSink) {
        // By size, then by byte: of equal ones the last goes first, whose own children are the nearest.
        let mut unplaced: Vec<(usize, usize)> = (0..self.children.len())
            .filter(|index| self.children[*index].position.is_none())
            .map(|index| (self.children[index].total_bytes(), index))
            .collect();
        unplaced.sort_unstable();
        let mut left = sink.bytes_left_in_page();
        while !unplaced.is_empty() {
            let fitting = unplaced.partition_point(|(bytes, _)| *bytes <= left);
            let chosen = fitting.checked_sub(1).unwrap_or_else(|| {
                sink.pad_to_page();
                left = PAGE_BYTES;
                unplaced.len() - 1
            });
            let (_, index) = unplaced.remove(chosen);
            let child = &mut self.children[index];
            if child.has_placed_children || child.has_placed_below_children {
                // Only now is it known how far its placed children are.
                let bytes = child.measure(sink.position());
                if bytes > left {
                    if left == PAGE_BYTES {
                        child.lay_out_children(sink);
                        left = sink.bytes_left_in_page();
                    }
                    let entry = (child.total_bytes(), index);
                    let at = unplaced.partition_point(|other| *other < entry);
                    unplaced.insert(at, entry);
                    continue;
                }
            }
            child.place(sink);
            left = sink.bytes_left_in_page();
        }
        self.branch_bytes = 0;
        self.has_placed_children = true;
        self.has_placed_below_children = false;
        self.node_bytes = self.length_at(sink.position());
    }

    /// Writes the branch and forgets all but where it is.
    fn place(&mut self, sink: &mut PageSink) {
        let position = self.write(sink);
        *self = Node {
            byte: self.byte,
            position: Some(position),
            ..Node::default()
        };
    }

    /// The bytes that the branch takes if it is written at a position, as near as can be known before it is.
    fn measure(&mut self, position: u64) -> usize {
        if self.has_placed_below_children {
            let mut bytes = 0;
            for child in &mut self.children {
                bytes += child.measure(position + bytes as u64);
            }
            self.branch_bytes = bytes;
        }
        if self.has_placed_children || self.has_placed_below_children {
            self.node_bytes = self.length_at(position + self.branch_bytes as u64);
        }
        self.total_bytes()
    }

    fn total_bytes(&self) -> usize {
        self.branch_bytes + self.node_bytes
    }

    fn length_at(&self, position: u64) -> usize {
        let node_type = self.type_at(position);
        node_type.length(self.children.len(), self.span()) + usize::from(self.payload.length)
    }

    fn span(&self) -> usize {
        match (self.children.first(), self.children.last()) {
            (Some(first), Some(last)) => usize::from(last.byte - first.byte) + 1,
            _ => 0,
        }
    }

    fn type_at(&self, position: u64) -> &'static NodeType {
        let has_payload = self.payload.bits != 0;
        NodeType::choose(
            self.children.len(),
            self.span(),
            self.distance_max(position),
            has_payload,
        )
    }

    /// To the furthest child: the first of those not written yet, or a placed one.
    fn distance_max(&self, position: u64) -> u64 {
        let unplaced = |child: &Node| (self.branch_bytes - child.branch_bytes) as u64;
        if !self.has_placed_children {
            return self.children.first().map_or(0, unplaced);
        }
        let placed = self
            .children
            .iter()
            .filter_map(|child| child.position.map(|at| position - at))
            .max();
        let first_unplaced = self.children.iter().find(|child| child.position.is_none());
        placed.unwrap_or(0).max(first_unplaced.map_or(0, unplaced))
    }

    /// Children first, each after its own; returns the node's position.
    fn write(&mut self, sink: &mut PageSink) -> u64 {
        for child in &mut self.children {
            if child.position.is_none() {
                child.position = Some(child.write(sink));
            }
        }
        let position = sink.position();
        let node_type = self.type_at(position);
        let distance = |child: &Node| child.position.map_or(0, |at| position - at);
        let first_byte = node_type.ordinal << 4 | self.payload.bits;
        match node_type.shape {
            Shape::Leaf => sink.append(&[first_byte]),
            Shape::Single => self.write_single(sink, node_type, distance),
            Shape::Sparse => {
                sink.append(&[first_byte, self.children.len() as u8]);
                self.children.iter().for_each(|child| sink.append(&[child.byte]));
                push_pointers(sink, node_type, self.children.iter().map(distance));
            }
            Shape::Dense => {
                let start = self.children.first().map_or(0, |child| child.byte);
                let span = self.span();
                sink.append(&[first_byte, start, (span - 1) as u8]);
                let mut children = self.children.iter().peekable();
                let pointers = (0..span).map(|index| {
                    let child = children.next_if(|child| usize::from(child.byte - start) == index);
                    child.map_or(0, distance)
                });
                push_pointers(sink, node_type, pointers);
            }
        }
        sink.append(self.payload.bytes());
        debug_assert_eq!(sink.position() - position, self.length_at(position) as u64);
        position
    }

    fn write_single(&self, sink: &mut PageSink, node_type: &NodeType, distance: impl Fn(&Node) -> u64) {
        let Some(child) = self.children.first() else {
            return;
        };
        let (distance, first_byte) = (distance(child), node_type.ordinal << 4);
        match node_type.pointer_bits {
            4 => sink.append(&[first_byte | distance as u8, child.byte]),
            12 => sink.append(&[first_byte | (distance >> 8) as u8, distance as u8, child.byte]),
            _ => {
                sink.append(&[first_byte | self.payload.bits, child.byte]);
                push_pointers(sink, node_type, std::iter::once(distance));
            }
        }
    }
}

/// Big-endian, of the type's size; two of 12 bits share three bytes.
fn push_pointers(sink: &mut PageSink, node_type: &NodeType, mut distances: impl Iterator<Item = u64>) {
    if node_type.pointer_bits != 12 {
        let skipped = 8 - node_type.pointer_bits / 8;
        distances.for_each(|distance| sink.append(&distance.to_be_bytes()[skipped..]));
        return;
    }
    while let Some(first) = distances.next() {
        let second = distances.next();
        let joined = first << 12 | second.unwrap_or(0);
        let bytes = (joined as u32).to_be_bytes();
        let length = if second.is_some() { 3 } else { 2 };
        sink.append(&bytes[1..=length]);
    }
}
