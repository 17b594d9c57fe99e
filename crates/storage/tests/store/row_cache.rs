//! The row cache by itself, with a memtable in the place of the SSTables: whatever was filled, absorbed and evicted,
//! what is known and what is read from the gaps together is what the memtable has.

use std::cell::RefCell;
use std::sync::Arc;

use helenus_rows::clustering::{ClusteringBound, Side, Slice};
use helenus_rows::deletion::DeletionTime;
use helenus_rows::layout::TableLayout;
use helenus_rows::row::{RowRef, merge};
use helenus_rows::update::Update;
use helenus_schema::TableParams;
use helenus_sstable::source::{PartitionCursor, Unfiltered};
use helenus_storage::memtable::Memtable;
use helenus_storage::row_cache::{
    AbsorbedTo, CachedCursor, CachedRow, Recorder, RecordingCursor, RowCache, Step,
};
use helenus_types::{Token, token_of};
use helenus_vfs::SeededRandom;

use super::check::slice_of;
use super::table;
use super::writes::Writer;

/// Rows as they show under what deletes them, and where the range deletion in force changes.
#[derive(Debug, Default, PartialEq)]
struct Content {
    rows: Vec<(Vec<u8>, Vec<u8>)>,
    changes: Vec<((Vec<u8>, Side), DeletionTime)>,
}

struct Reading {
    content: Content,
    deletion: DeletionTime,
    in_force: DeletionTime,
    rows_left: usize,
}

impl Reading {
    fn new(deletion: DeletionTime, rows_left: usize) -> Self {
        Reading {
            content: Content::default(),
            deletion,
            in_force: DeletionTime::LIVE,
            rows_left,
        }
    }

    /// Takes an element; returns whether to go on.
    fn take(&mut self, element: Unfiltered<'_>) -> bool {
        match element {
            Unfiltered::Row { clustering, row } => {
                let mut left = Vec::new();
                merge::filter(row, self.deletion.max(self.in_force), &mut left);
                if RowRef::new(&left).is_empty() {
                    return true;
                }
                self.content.rows.push((clustering.to_vec(), left));
                self.rows_left -= 1;
                self.rows_left > 0
            }
            Unfiltered::Marker { bound, deletion } => {
                self.in_force = deletion;
                // What the partition's deletion hides anyway may be told or not.
                let deletion = if deletion.supersedes(self.deletion) {
                    deletion
                } else {
                    DeletionTime::LIVE
                };
                let place = (bound.prefix.to_vec(), bound.side);
                let changes = &mut self.content.changes;
                changes.retain(|(other, _)| *other != place);
                if changes.last().map_or(DeletionTime::LIVE, |(_, last)| *last) != deletion {
                    changes.push((place, deletion));
                }
                true
            }
        }
    }
}

struct Model {
    writer: Writer,
    layout: Arc<TableLayout>,
    /// All that was flushed.
    truth: Memtable,
    cache: RowCache,
    hits: usize,
    reads: usize,
}

impl Model {
    fn new(seed: u64, bytes_max: usize) -> Self {
        let writer = Writer {
            random: SeededRandom::new(seed),
            key_bound: [4, 12, 40][seed as usize % 3],
            timestamp_from_us: 1,
            timestamp_spread_us: 200,
            is_plain: false,
        };
        let schema = table::schema(TableParams::default());
        let layout = Arc::new(TableLayout::of(schema.tables().next().unwrap()));
        Model {
            writer,
            truth: Memtable::new(Arc::clone(&layout)),
            layout,
            cache: RowCache::new(bytes_max),
            hits: 0,
            reads: 0,
        }
    }

    fn key(&self) -> Vec<u8> {
        vec![self.writer.below(4) as u8; 3]
    }

    fn flush(&mut self, writes: u64) {
        let mut memtable = Memtable::new(Arc::clone(&self.layout));
        let mut scratch = Vec::new();
        for _ in 0..writes {
            let key = self.key();
            let bytes = self.writer.write().encode(self.layout.metadata.id, &key);
            let update = Update::decode(&bytes).unwrap();
            for memtable in [&mut memtable, &mut self.truth] {
                memtable.apply(token_of(&key), &update, None, &mut scratch);
            }
        }
        let mut to = AbsorbedTo::Token(Token::MINIMUM);
        while let AbsorbedTo::Token(from) = to {
            to = self.cache.absorb(&self.layout, &memtable, from);
        }
    }

    fn slices(&self) -> Vec<Slice> {
        self.writer.slices().iter().map(slice_of).collect()
    }

    /// One read as a store makes it: cached where it can be, the gaps from the truth; what was read is filled in.
    fn read(&mut self) {
        let (key, slices, reversed) = (self.key(), self.slices(), self.writer.below(2) == 0);
        let rows_left = if self.writer.below(2) == 0 {
            usize::MAX
        } else {
            1 + self.writer.below(4) as usize
        };
        let token = token_of(&key);
        let wanted = self.wanted(&key, &slices, reversed, rows_left);
        self.reads += 1;
        let (deletion, static_row) = self.head(&key);
        let mut filled: Vec<(Vec<Slice>, RefCell<Recorder>)> = Vec::new();
        let mut reading = Reading::new(deletion, rows_left);
        match self.cache.partition(self.layout.metadata.id, token, &key) {
            None => {
                filled.push((slices, RefCell::new(Recorder::new(reversed))));
                self.read_truth(&key, &filled[0], reversed, &mut reading);
            }
            Some(partition) => {
                assert_eq!(partition.deletion(), deletion);
                let statics = [partition.static_row(), RowRef::new(&static_row)];
                assert_eq!(statics[0].as_bytes(), statics[1].as_bytes());
                let mut cursor = CachedCursor::new(partition, &self.layout.comparator, &slices, reversed);
                loop {
                    match cursor.step() {
                        Step::End => break,
                        Step::Element(element) => {
                            if !reading.take(element) {
                                break;
                            }
                        }
                        Step::Gap(gap) => {
                            let bound = |bound: helenus_rows::update::BoundRef<'_>| ClusteringBound {
                                prefix: bound.prefix.into(),
                                side: bound.side,
                            };
                            let slice = Slice {
                                start: bound(gap.start),
                                end: bound(gap.end),
                            };
                            let mut slices = gap.rest.to_vec();
                            slices.insert(if reversed { slices.len() } else { 0 }, slice);
                            filled.push((slices, RefCell::new(Recorder::new(reversed))));
                            if !self.read_truth(&key, filled.last().unwrap(), reversed, &mut reading) {
                                break;
                            }
                        }
                    }
                }
                self.hits += usize::from(filled.is_empty());
            }
        }
        assert_eq!(reading.content.rows, wanted.rows, "reversed {reversed}");
        if rows_left == usize::MAX {
            assert_eq!(reading.content.changes, wanted.changes, "reversed {reversed}");
        }
        for (slices, recorder) in filled {
            let head = (deletion, RowRef::new(&static_row));
            self.cache
                .fill(&self.layout, (token, &key), head, &slices, &recorder.into_inner());
        }
    }

    /// Deletion and static row, the latter as merging SSTables leaves it.
    fn head(&self, key: &[u8]) -> (DeletionTime, Vec<u8>) {
        let Some(partition) = self.truth.partition(token_of(key), key) else {
            return (DeletionTime::LIVE, RowRef::EMPTY.as_bytes().to_vec());
        };
        let mut static_row = Vec::new();
        let mut joined = Vec::new();
        let row = partition.joined_static_row(&mut joined);
        merge::filter(row, partition.deletion(), &mut static_row);
        (partition.deletion(), static_row)
    }

    fn wanted(&self, key: &[u8], slices: &[Slice], reversed: bool, rows_left: usize) -> Content {
        let all = (slices.to_vec(), RefCell::new(Recorder::new(reversed)));
        let mut reading = Reading::new(self.head(key).0, rows_left);
        self.read_truth(key, &all, reversed, &mut reading);
        reading.content
    }

    /// Reads slices from the truth; returns whether the reading goes on.
    fn read_truth(
        &self,
        key: &[u8],
        (slices, recorder): &(Vec<Slice>, RefCell<Recorder>),
        reversed: bool,
        reading: &mut Reading,
    ) -> bool {
        let Some(cursor) = self.truth.cursor(token_of(key), key, slices, reversed) else {
            return true;
        };
        let mut cursor = RecordingCursor::new(cursor, recorder);
        while cursor.advance().unwrap() {
            if !reading.take(cursor.current()) {
                return false;
            }
        }
        true
    }

    fn check_row(&self) {
        let (key, row_key) = (self.key(), self.writer.key());
        let clustering = table::packed(&[row_key.0, row_key.1]);
        let Some(partition) = self
            .cache
            .partition(self.layout.metadata.id, token_of(&key), &key)
        else {
            return;
        };
        let CachedRow::Known { found, deletion } = partition.row(&self.layout.comparator, &clustering) else {
            return;
        };
        let shadow = partition.deletion();
        let visible = |row: RowRef<'_>, shadow| {
            let mut left = Vec::new();
            merge::filter(row, shadow, &mut left);
            left
        };
        let truth = self.truth.partition(token_of(&key), &key);
        let wanted = truth.and_then(|truth| truth.row(&self.layout, &clustering));
        let mut joined = Vec::new();
        let wanted = wanted.zip(truth).map_or(vec![0], |((row, shadow), truth)| {
            visible(truth.joined_row(row, &mut joined), shadow)
        });
        let found = found.map_or(vec![0], |(_, row)| visible(row, shadow.max(deletion)));
        assert_eq!(found, wanted);
    }
}

#[test]
fn what_is_cached_is_what_was_flushed() {
    let (mut hits, mut reads) = (0, 0);
    for seed in 0..60 {
        let bytes_max = [1_500, 20_000, 1 << 20][seed as usize / 3 % 3];
        let mut model = Model::new(seed, bytes_max);
        model.flush([200, 2_000][seed as usize % 2]);
        for _ in 0..300 {
            match model.writer.below(40) {
                0 => model.flush(1 + model.writer.below(30)),
                1..12 => model.check_row(),
                12 if model.writer.below(10) == 0 => {
                    model.cache.drop_table(model.layout.metadata.id);
                    while model.cache.clear_dropped(2) {}
                    assert_eq!(model.cache.bytes(), 0);
                }
                _ => model.read(),
            }
            assert!(model.cache.bytes() <= bytes_max, "{} bytes", model.cache.bytes());
        }
        (hits, reads) = (hits + model.hits, reads + model.reads);
    }
    assert!(hits * 5 > reads, "{hits} of {reads} reads were hits");
}
