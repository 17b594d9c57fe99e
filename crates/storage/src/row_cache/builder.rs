//! Cutting a sequence of items in blocks.

use super::block::{BLOCK_BYTES_TARGET, Block, HAS_MARKS};
use super::item::{Item, Knowledge, encode_sized, side_flag};
use helenus_rows::clustering::{ClusteringBound, Side};
use helenus_rows::update::BoundRef;

/// Takes items in clustering order and gives them back as blocks. Marks that change nothing are left out.
#[derive(Debug)]
pub(super) struct BlockBuilder {
    blocks: Vec<Box<[u8]>>,
    bytes_target: usize,
    /// The open block: what precedes its head, and its head.
    head: Vec<u8>,
    flags_at: usize,
    items: Vec<u8>,
    offsets: Vec<u32>,
    start: ClusteringBound,
    /// Knowledge of the places after the items written so far, as those say it.
    written: Knowledge,
    /// A change that is not written yet: the next one may be at the same bound.
    pending: Option<(ClusteringBound, Knowledge)>,
}

impl BlockBuilder {
    /// The first block comes behind `prefix` in its allocation.
    pub fn new(prefix: &[u8], start: BoundRef<'_>, initial: Knowledge) -> Self {
        let mut builder = BlockBuilder {
            blocks: Vec::new(),
            bytes_target: BLOCK_BYTES_TARGET,
            head: prefix.to_vec(),
            flags_at: prefix.len(),
            items: Vec::new(),
            offsets: Vec::new(),
            start: start.into(),
            written: initial,
            pending: None,
        };
        builder.begin(initial);
        builder
    }

    /// Cuts a full block in two when something is put into it: cut at its end, each would leave a block of one row.
    pub fn halve(&mut self, block: &Block<'_>) {
        if block.items_bytes() >= BLOCK_BYTES_TARGET {
            self.bytes_target = BLOCK_BYTES_TARGET / 2;
        }
    }

    pub fn push(&mut self, item: Item<'_>) {
        match item {
            Item::Mark { bound, knowledge } => self.mark(bound, knowledge),
            row @ Item::Row { clustering, .. } => {
                self.write_pending();
                if self.items.len() >= self.bytes_target {
                    let start = BoundRef {
                        prefix: clustering,
                        side: Side::Before,
                    };
                    self.cut(start.into());
                }
                self.write(&row);
            }
        }
    }

    /// From `bound` on this is known.
    pub fn mark(&mut self, bound: BoundRef<'_>, knowledge: Knowledge) {
        let is_elsewhere = |(pending, _): &(ClusteringBound, Knowledge)| pending.borrowed() != bound;
        if self.pending.as_ref().is_some_and(is_elsewhere) {
            self.write_pending();
        }
        self.pending = (knowledge != self.written).then(|| (bound.into(), knowledge));
    }

    pub fn finish(mut self) -> Vec<Box<[u8]>> {
        self.write_pending();
        self.close();
        self.blocks
    }

    fn write_pending(&mut self) {
        let Some((bound, knowledge)) = self.pending.take() else {
            return;
        };
        self.written = knowledge;
        if self.items.is_empty() && self.start == bound {
            self.head.truncate(self.flags_at);
            self.begin(knowledge);
        } else if self.items.len() >= self.bytes_target && knowledge.is_known() {
            self.cut(bound);
        } else {
            if let Some(flags) = self.head.get_mut(self.flags_at) {
                *flags |= HAS_MARKS;
            }
            self.write(&Item::Mark {
                bound: bound.borrowed(),
                knowledge,
            });
        }
    }

    fn write(&mut self, item: &Item<'_>) {
        self.offsets.push(self.items.len() as u32);
        item.encode(&mut self.items);
    }

    fn cut(&mut self, start: ClusteringBound) {
        self.close();
        self.start = start;
        self.begin(self.written);
    }

    fn begin(&mut self, initial: Knowledge) {
        initial.encode(side_flag(self.start.side), &mut self.head);
        encode_sized(&self.start.prefix, &mut self.head);
    }

    fn close(&mut self) {
        let offsets = self.offsets.get(1..).unwrap_or(&[]);
        let bytes = self.head.len() + self.items.len() + offsets.len() * 4 + 4;
        let mut block = Vec::with_capacity(bytes);
        block.extend_from_slice(&self.head);
        block.extend_from_slice(&self.items);
        for offset in offsets {
            block.extend_from_slice(&offset.to_le_bytes());
        }
        block.extend_from_slice(&(self.offsets.len() as u32).to_le_bytes());
        self.blocks.push(block.into_boxed_slice());
        self.head.clear();
        self.flags_at = 0;
        self.items.clear();
        self.offsets.clear();
    }
}
