//! Reads by indexes against scans of the same store: never a row too few, none that the scan does not have, and in its order.

use std::ops::Bound;
use std::sync::Arc;

use helenus_index::{IndexPredicate, IndexedColumn, TermQuery};
use helenus_rows::clustering::{Side, Slice};
use helenus_rows::partition_range::{PartitionBound, PartitionRange, PartitionSpan};
use helenus_schema::{IndexMetadata, IndexTarget, TableMetadata};
use helenus_storage::ShardStore;
use helenus_storage::read::ReadCommand;
use helenus_types::token_of;

use super::check::{Collected, read_suspended, slice_of};
use super::naive::{Answer, LiveCells, Place};
use super::table::{C1, Key, NUMBER, PARTITION_KEY, STATIC};
use super::writes::Writer;

/// A predicate that can be asked of an index and of a row.
#[derive(Clone, Debug)]
pub struct Wanted {
    index: Arc<IndexMetadata>,
    value: Vec<u8>,
    /// Key of an entry.
    key: Vec<u8>,
    /// Up to this value, not only it.
    to: Option<Vec<u8>>,
}

impl Wanted {
    pub fn equal(index: &Arc<IndexMetadata>, value: &[u8]) -> Self {
        Wanted {
            index: Arc::clone(index),
            value: value.to_vec(),
            key: Vec::new(),
            to: None,
        }
    }

    pub fn range(index: &Arc<IndexMetadata>, from: i32, to: i32) -> Self {
        Wanted {
            to: Some(to.to_be_bytes().to_vec()),
            ..Wanted::equal(index, &from.to_be_bytes())
        }
    }

    pub fn predicate(&self, table: &TableMetadata) -> IndexPredicate {
        let column = IndexedColumn::of(table, &self.index).unwrap();
        let query = match (&self.to, self.index.target) {
            (Some(to), _) => TermQuery::range(&column, Bound::Included(&self.value), Bound::Included(to)),
            (None, IndexTarget::Entries) => TermQuery::entry(&column, &self.key, &self.value),
            (None, _) => TermQuery::equal(&column, &self.value),
        };
        IndexPredicate {
            index: self.index.id,
            query,
        }
    }

    /// All numbers of these tests sort as their bytes do: none is negative.
    fn is_met(&self, value: &[u8]) -> bool {
        match &self.to {
            None => value == self.value,
            Some(to) => self.value.as_slice() <= value && value <= to.as_slice(),
        }
    }

    /// `row` is `None` for a partition with nothing but its static row.
    fn matches(&self, key: &[u8], statics: &LiveCells, row: Option<&(Key, Option<i64>, LiveCells)>) -> bool {
        let column = self.index.column;
        let cells = |cells: &LiveCells| {
            cells.iter().any(|((id, path), (value, ..))| {
                *id == column.0
                    && match (path, self.index.target) {
                        (Some(path), IndexTarget::Keys) => self.is_met(path),
                        (Some(path), IndexTarget::Entries) => *path == self.key && *value == self.value,
                        _ => self.is_met(value),
                    }
            })
        };
        match column {
            PARTITION_KEY => self.is_met(key),
            C1 => row.is_some_and(|row| self.is_met(&row.0.0.to_be_bytes())),
            STATIC => cells(statics),
            _ => row.is_some_and(|row| cells(&row.2)),
        }
    }
}

/// Something that is there more often than not.
fn wanted(writer: &Writer, table: &TableMetadata, answers: &[(Vec<u8>, Answer)]) -> Wanted {
    let index = &table.indexes[writer.below(table.indexes.len() as u64) as usize];
    let mut wanted = Wanted::equal(index, &[b'a' + writer.below(5) as u8; 2]);
    let chosen = writer.below(answers.len().max(1) as u64) as usize;
    let Some((key, answer)) = answers.get(chosen) else {
        return wanted;
    };
    let row = answer
        .rows
        .get(writer.below(answer.rows.len().max(1) as u64) as usize);
    let cells = match (index.column, row) {
        (STATIC, _) | (_, None) => &answer.static_cells,
        (_, Some(row)) => &row.2,
    };
    match index.column {
        PARTITION_KEY => wanted.value = key.clone(),
        C1 => wanted.value = (writer.below(6) as i32).to_be_bytes().to_vec(),
        column => {
            if let Some(((_, path), (value, ..))) = cells.iter().find(|((id, _), _)| *id == column.0) {
                wanted.key = path.clone().unwrap_or_default();
                wanted.value = match index.target {
                    IndexTarget::Keys => wanted.key.clone(),
                    _ => value.clone(),
                };
            }
        }
    }
    let is_number = matches!(index.column, C1 | NUMBER);
    if is_number && writer.below(2) == 0 {
        wanted.to = Some((writer.below(6) as i32).to_be_bytes().to_vec());
    }
    wanted
}

/// Reads, and returns the answer.
pub fn read(store: &mut ShardStore, command: &ReadCommand<'_>, suspends: bool) -> Vec<(Vec<u8>, Answer)> {
    let mut collected = Collected::default();
    match suspends {
        true => read_suspended(store, command, &mut collected),
        false => drop(store.read(command, &mut collected).unwrap()),
    }
    collected.end()
}

/// Asks one question by a scan and by indexes. Returns how many rows matched and how many the indexes gave.
pub fn compare(
    store: &mut ShardStore,
    command: &ReadCommand<'_>,
    wanted: &[Wanted],
    suspends: bool,
) -> (usize, usize) {
    let scanned = read(store, command, suspends);
    let predicates: Vec<_> = wanted
        .iter()
        .map(|wanted| wanted.predicate(command.table))
        .collect();
    let command = ReadCommand {
        index: &predicates,
        ..command.clone()
    };
    let found = read(store, &command, suspends);
    let context = || format!("{wanted:?} in {command:?}: {found:?} of {scanned:?}");
    let (mut matched, mut given) = (0, 0);
    let mut found = found.iter().peekable();
    for (key, answer) in &scanned {
        let partition = found.next_if(|(found, _)| found == key);
        let mut rows = partition.iter().flat_map(|(_, answer)| &answer.rows).peekable();
        if let Some((_, found)) = partition {
            assert_eq!(found.static_cells, answer.static_cells, "{}", context());
        }
        let is_met = |row| {
            wanted
                .iter()
                .all(|wanted| wanted.matches(key, &answer.static_cells, row))
        };
        if answer.rows.is_empty() {
            let is_met = is_met(None);
            assert!(
                !is_met || partition.is_some(),
                "the static row of {key:?} is missing: {}",
                context()
            );
        }
        for row in &answer.rows {
            let is_there = rows.next_if(|found| *found == row).is_some();
            let is_met = is_met(Some(row));
            assert!(
                !is_met || is_there,
                "{row:?} of {key:?} is missing: {}",
                context()
            );
            matched += usize::from(is_met);
            given += usize::from(is_there);
        }
        assert_eq!(
            rows.next(),
            None,
            "a row that the scan does not have: {}",
            context()
        );
    }
    assert_eq!(
        found.next(),
        None,
        "a partition that the scan does not have, or out of order: {}",
        context()
    );
    (matched, given)
}

/// Random predicates over a store that has anything.
pub fn check_indexed(
    store: &mut ShardStore,
    table: &Arc<TableMetadata>,
    writer: &Writer,
    slices: &[(Place, Place)],
    reversed: bool,
    now_s: u32,
) {
    if table.indexes.is_empty() {
        return;
    }
    let slices: Vec<Slice> = match writer.below(8) {
        0 => Vec::new(),
        1..=4 => vec![Slice::all()],
        _ => slices.iter().map(slice_of).collect(),
    };
    let everything = ReadCommand {
        table,
        partitions: PartitionRange::everything(),
        slices: &slices,
        reversed,
        now_s,
        index: &[],
    };
    let answers = read(store, &everything, false);
    for _ in 0..6 {
        let wanted: Vec<Wanted> = (0..1 + writer.below(2))
            .map(|_| wanted(writer, table, &answers))
            .collect();
        let key = answers
            .get(writer.below(answers.len().max(1) as u64) as usize)
            .map(|(key, _)| key.clone());
        let key = key.unwrap_or_default();
        let one = PartitionRange::One {
            token: token_of(&key),
            key: &key,
        };
        let (start, end) = PartitionRange::everything().bounds();
        let (_, behind) = one.bounds();
        let before = PartitionBound {
            side: Side::Before,
            ..behind
        };
        let parts = [
            PartitionSpan { start, end: before },
            PartitionSpan { start: behind, end },
        ];
        let partitions = match writer.below(8) {
            0 | 1 => one,
            2 => PartitionRange::Parts(&parts),
            3 => PartitionRange::Many { start, end: before },
            4 => PartitionRange::Many { start: behind, end },
            _ => everything.partitions,
        };
        let command = ReadCommand {
            partitions,
            ..everything.clone()
        };
        compare(store, &command, &wanted, writer.below(2) == 0);
    }
}
