//! Asking a store and the model the same question.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use helenus_rows::clustering::{ClusteringBound, Components, Side, Slice};
use helenus_rows::partition_range::{PartitionBound, PartitionRange, PartitionSpan};
use helenus_rows::row::{Entry, RowRef};
use helenus_schema::TableMetadata;
use helenus_storage::ShardStore;
use helenus_storage::read::{ReadCommand, RowSink};
use helenus_storage::read_state::{ReadProgress, ReadState};
use helenus_types::{Token, token_of};

use super::naive::{Answer, LiveCells, NaivePartition, Place};
use super::table::packed;

#[derive(Default)]
pub struct Collected {
    pub partitions: Vec<(Vec<u8>, Answer)>,
    is_open: bool,
}

impl RowSink for Collected {
    fn partition(&mut self, token: Token, key: &[u8], static_row: RowRef<'_>) -> ControlFlow<()> {
        assert!(!std::mem::replace(&mut self.is_open, true));
        assert_eq!(token, token_of(key));
        let answer = Answer {
            static_cells: cells_of(static_row),
            rows: Vec::new(),
        };
        self.partitions.push((key.to_vec(), answer));
        ControlFlow::Continue(())
    }

    fn row(&mut self, clustering: &[u8], row: RowRef<'_>) -> ControlFlow<()> {
        assert!(self.is_open);
        let components =
            Components::new(clustering).map(|bytes| i32::from_be_bytes(bytes.try_into().unwrap()));
        let components: Vec<i32> = components.collect();
        let marker = row.liveness();
        let marker = (!marker.is_none()).then_some(marker.timestamp_us);
        let answer = &mut self.partitions.last_mut().unwrap().1;
        answer
            .rows
            .push(((components[0], -components[1]), marker, cells_of(row)));
        ControlFlow::Continue(())
    }

    fn partition_end(&mut self) -> ControlFlow<()> {
        assert!(std::mem::replace(&mut self.is_open, false));
        ControlFlow::Continue(())
    }
}

impl Collected {
    pub fn end(self) -> Vec<(Vec<u8>, Answer)> {
        assert!(!self.is_open);
        self.partitions
    }
}

fn cells_of(row: RowRef<'_>) -> LiveCells {
    assert!(row.deletion().is_live());
    let mut cells = BTreeMap::new();
    for entry in row.entries() {
        let Entry::Cell(cell) = entry else {
            panic!("a deletion was handed out")
        };
        let key = (cell.column.0, cell.path.map(<[u8]>::to_vec));
        assert_eq!(
            cells.insert(key, (cell.value.to_vec(), cell.timestamp_us, cell.ttl_s)),
            None
        );
    }
    cells
}

pub fn slice_of((start, end): &(Place, Place)) -> Slice {
    let bound = |place: &Place| ClusteringBound {
        prefix: packed(&place.0).into(),
        side: place.1,
    };
    Slice {
        start: bound(start),
        end: bound(end),
    }
}

/// Computes the answer that a read must give, partitions in token order, empty ones left out.
pub fn expected(
    model: &BTreeMap<Vec<u8>, NaivePartition>,
    slices: &[(Place, Place)],
    reversed: bool,
    now_s: u32,
) -> Vec<(Vec<u8>, Answer)> {
    let mut answers: Vec<_> = model
        .iter()
        .map(|(key, partition)| (key.clone(), partition.answer(slices, now_s)))
        .filter(|(_, answer)| *answer != Answer::default())
        .collect();
    answers.sort_by_key(|(key, _)| (token_of(key), key.clone()));
    if reversed {
        answers.iter_mut().for_each(|(_, answer)| answer.rows.reverse());
    }
    answers
}

/// Reads as a shard does: step by step, with the pages brought that a step lacked.
pub fn read_suspended(store: &mut ShardStore, command: &ReadCommand<'_>, collected: &mut Collected) {
    let mut state = ReadState::suspending();
    loop {
        match store.read_step(command, &mut state, collected).unwrap() {
            ReadProgress::Done => return,
            ReadProgress::Yield => {}
            ReadProgress::Absent(absent) => {
                let stored = absent.read().unwrap();
                store.deliver(&state, &absent, &stored).unwrap();
            }
        }
    }
}

/// Reads every partition by key, and all in one scan.
pub fn check(
    store: &mut ShardStore,
    table: &Arc<TableMetadata>,
    model: &BTreeMap<Vec<u8>, NaivePartition>,
    slices: &[(Place, Place)],
    reversed: bool,
    now_s: u32,
) {
    let expected = expected(model, slices, reversed, now_s);
    let packed_slices: Vec<Slice> = slices.iter().map(slice_of).collect();
    let mut read = |partitions: PartitionRange<'_>| {
        let command = ReadCommand {
            table,
            partitions,
            slices: &packed_slices,
            reversed,
            now_s,
            index: &[],
        };
        let mut collected = Collected::default();
        read_suspended(store, &command, &mut collected);
        assert!(!collected.is_open);
        collected.partitions
    };
    for key in model.keys() {
        let found = read(PartitionRange::One {
            token: token_of(key),
            key,
        });
        let wanted: Vec<_> = expected
            .iter()
            .filter(|(other, _)| other == key)
            .cloned()
            .collect();
        assert_eq!(
            found, wanted,
            "one partition, slices {slices:?}, reversed {reversed}"
        );
    }
    let bound = |token, side| PartitionBound {
        token,
        key: None,
        side,
    };
    let all = PartitionRange::Many {
        start: bound(Token::MINIMUM, Side::Before),
        end: bound(Token::MAXIMUM, Side::After),
    };
    assert_eq!(
        read(all),
        expected,
        "scan, slices {slices:?}, reversed {reversed}"
    );
    // The scan again, cut in two after a key.
    if let Some((middle, _)) = expected.get(expected.len() / 2) {
        let at = |side| PartitionBound {
            token: token_of(middle),
            key: Some(middle),
            side,
        };
        let lower = read(PartitionRange::Many {
            start: bound(Token::MINIMUM, Side::Before),
            end: at(Side::After),
        });
        let upper = read(PartitionRange::Many {
            start: at(Side::After),
            end: bound(Token::MAXIMUM, Side::After),
        });
        assert_eq!([lower, upper].concat(), expected);
    }
    // Every other partition, in one scan.
    let chosen: Vec<_> = expected.iter().step_by(2).cloned().collect();
    let keys: Vec<_> = chosen.iter().map(|(key, _)| key.clone()).collect();
    let parts: Vec<_> = keys
        .iter()
        .map(|key| {
            let (start, end) = PartitionRange::One {
                token: token_of(key),
                key,
            }
            .bounds();
            PartitionSpan { start, end }
        })
        .collect();
    assert_eq!(read(PartitionRange::Parts(&parts)), chosen);
}
