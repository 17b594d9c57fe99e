//! The cells that operations write into one row.

use std::cell::Cell;
use std::cmp::Ordering;
use std::rc::Rc;

use helenus_rows::deletion::{DeletionTime, NEVER_S};
use helenus_rows::row::{CellRef, RowBuilder};
use helenus_schema::ColumnId;
use helenus_types::value::timeuuid::{UUID_EPOCH_MS, timeuuid_of};
use helenus_types::value::{CollectionElements, MapEntries, TupleComponents};
use helenus_types::{CqlType, Token};

use super::attributes::WriteTime;
use super::list_view::{ListView, StoredList};
use super::operation::{Change, Operation};
use super::prior_lists::PriorLists;
use crate::CqlError;
use crate::functions::{NativeFunction, next_timeuuid};
use crate::term::{Evaluated, EvaluationContext, Expression};

/// The row that is written to.
#[derive(Clone, Copy, Debug)]
pub struct RowAddress<'a> {
    pub token: Token,
    pub key: &'a [u8],
    /// None for the static row.
    pub clustering: Option<&'a [u8]>,
}

/// Writes the cells of all operations, which are ordered by column.
pub fn write_cells(
    builder: &mut RowBuilder<'_>,
    operations: &[Operation],
    time: WriteTime,
    row: RowAddress<'_>,
    context: &EvaluationContext<'_>,
    lists: &mut dyn PriorLists,
) -> Result<(), CqlError> {
    for group in operations.chunk_by(|left, right| left.column == right.column) {
        let first = &group[0];
        if first.cql_type.is_multi_cell() {
            let mut column = MultiCellColumn::new(first, time);
            for operation in group {
                column.apply(&operation.change, row, context, lists)?;
            }
            column.write(builder);
            continue;
        }
        if let Change::Count { .. } = first.change {
            write_counter(builder, group, time, context)?;
            continue;
        }
        for operation in group {
            let value = match &operation.change {
                Change::Set(value) => value.evaluate(context)?,
                Change::AddToOwn { function, value } => {
                    let own = lists.value(row.clustering, operation.column)?;
                    own_and_more(own, function, value, context)?
                }
                _ => Evaluated::Null,
            };
            if let Some(bytes) = value.bytes() {
                operation.check_vector(bytes)?;
            }
            match &value {
                Evaluated::Unset => {}
                value => builder.cell(cell(operation.column, None, value.bytes(), time)),
            }
        }
    }
    Ok(())
}

/// Writes what a counter grows by, all operations on it together. The shard that owns the row makes the counter's new value of
/// it ([`helenus_storage::store::Counting`]).
fn write_counter(
    builder: &mut RowBuilder<'_>,
    operations: &[Operation],
    time: WriteTime,
    context: &EvaluationContext<'_>,
) -> Result<(), CqlError> {
    let mut sum: Option<i64> = None;
    for operation in operations {
        if let Change::Count { by, is_negated } = &operation.change
            && let Some(increment) = increment(by, *is_negated, context)?
        {
            // As Java's long does.
            sum = Some(sum.unwrap_or_default().wrapping_add(increment));
        }
    }
    if let (Some(sum), Some(first)) = (sum, operations.first()) {
        builder.cell(cell(first.column, None, Some(&sum.to_be_bytes()), time));
    }
    Ok(())
}

/// `None` for one that is not set, which leaves the counter as it is.
fn increment(
    by: &Expression,
    is_negated: bool,
    context: &EvaluationContext<'_>,
) -> Result<Option<i64>, CqlError> {
    let increment = match by.evaluate(context)? {
        Evaluated::Null => return Err(invalid!("Invalid null value for counter increment")),
        Evaluated::Unset => return Ok(None),
        Evaluated::Bytes(bytes) => match (*bytes).try_into() {
            Ok(bytes) => i64::from_be_bytes(bytes),
            Err(_) => return Err(invalid!("Invalid empty value for counter increment")),
        },
    };
    if !is_negated {
        return Ok(Some(increment));
    }
    match increment.checked_neg() {
        Some(negated) => Ok(Some(negated)),
        None => Err(invalid!(
            "The negation of {increment} overflows supported counter precision (signed 8 bytes integer)"
        )),
    }
}

/// The sum of a column's value and another one; a column without a value stays so.
fn own_and_more(
    own: Option<Vec<u8>>,
    function: &NativeFunction,
    value: &Expression,
    context: &EvaluationContext<'_>,
) -> Result<Evaluated<'static>, CqlError> {
    let more = value.evaluate(context)?;
    if more == Evaluated::Null {
        return Err(invalid!("Invalid null value for an addition"));
    }
    let (Some(own), Some(more)) = (own, more.bytes()) else {
        return Ok(Evaluated::Unset);
    };
    let sum = function.execute(&[Some(&own), Some(more)], context.clock)?;
    Ok(sum.map_or(Evaluated::Unset, Evaluated::owned))
}

/// A cell, or without a value its tombstone.
fn cell<'c>(
    column: ColumnId,
    path: Option<&'c [u8]>,
    value: Option<&'c [u8]>,
    time: WriteTime,
) -> CellRef<'c> {
    let (timestamp_us, ttl_s, local_deletion_s) = match value {
        Some(_) => (
            time.timestamp_us,
            time.ttl_s,
            if time.ttl_s == 0 {
                NEVER_S
            } else {
                time.expires_at_s
            },
        ),
        None => (time.deletion_us, 0, time.now_s),
    };
    CellRef {
        column,
        timestamp_us,
        ttl_s,
        local_deletion_s,
        path,
        value: value.unwrap_or_default(),
    }
}

/// Writes to a collection or user type that has a cell for each part.
struct MultiCellColumn<'o> {
    column: ColumnId,
    cql_type: &'o CqlType,
    time: WriteTime,
    /// The moment up to which everything older goes.
    deleted_at_us: Option<i64>,
    cells: Vec<PartialCell>,
    /// The list with the cells that were there when it was asked last.
    view: Option<ListView>,
}

/// Path and value; no value is a tombstone.
type PartialCell = (Vec<u8>, Option<Vec<u8>>);

/// In the order of paths, one cell for each. Writes of one statement to one place have the same time, so that the order
/// they are written in says nothing, as in Cassandra: a tombstone counts, else the greater value.
fn reconciled(mut cells: Vec<PartialCell>, path_type: &CqlType) -> Vec<PartialCell> {
    cells.sort_by(|left, right| {
        let by_path = path_type.compare(&left.0, &right.0);
        by_path.then_with(|| match (&left.1, &right.1) {
            (Some(left), Some(right)) => right.cmp(left),
            (left, right) => left.is_some().cmp(&right.is_some()),
        })
    });
    cells.dedup_by(|later, first| path_type.compare(&later.0, &first.0) == Ordering::Equal);
    cells
}

impl<'o> MultiCellColumn<'o> {
    fn new(operation: &'o Operation, time: WriteTime) -> Self {
        MultiCellColumn {
            column: operation.column,
            cql_type: &operation.cql_type,
            time,
            deleted_at_us: None,
            cells: Vec::new(),
            view: None,
        }
    }

    fn apply(
        &mut self,
        change: &Change,
        row: RowAddress<'_>,
        context: &EvaluationContext<'_>,
        lists: &mut dyn PriorLists,
    ) -> Result<(), CqlError> {
        match change {
            Change::Set(value) => self.replace(&value.evaluate(context)?, context),
            Change::Append(value) | Change::Add(value) => {
                self.put_parts(value.evaluate(context)?.bytes().unwrap_or_default(), context);
            }
            Change::Prepend(value) => self.prepend(&value.evaluate(context)?, context),
            Change::Discard(value) => {
                let value = value.evaluate(context)?;
                for element in list_elements(value.bytes().unwrap_or_default()) {
                    self.cells.push((element.to_vec(), None));
                }
            }
            Change::DiscardFromList(value) => {
                let value = value.evaluate(context)?;
                let unwanted = list_elements(value.bytes().unwrap_or_default());
                let gone = self.present(row, lists)?.discard(&unwanted);
                self.cells.extend(gone.into_iter().map(|path| (path, None)));
            }
            Change::SetIndex { index, value } => {
                let path = self.path_at(index, row, context, lists, IndexUse::Set)?;
                let value = value.evaluate(context)?;
                if let Some(path) = path {
                    self.put(path, &value);
                }
            }
            Change::DeleteIndex(index) => {
                if let Some(path) = self.path_at(index, row, context, lists, IndexUse::Delete)? {
                    self.cells.push((path, None));
                }
            }
            Change::SetKey { key, value } => {
                let key = map_key(key, context)?;
                self.put(key, &value.evaluate(context)?);
            }
            Change::DeleteKey(key) => {
                let key = map_key(key, context)?;
                self.cells.push((key, None));
            }
            Change::DeleteElement(element) => match element.evaluate(context)?.bytes() {
                Some(element) => self.cells.push((element.to_vec(), None)),
                None => return Err(invalid!("Invalid null set element")),
            },
            Change::SetField { index, value } => {
                self.put(index.to_be_bytes().to_vec(), &value.evaluate(context)?);
            }
            Change::DeleteField(index) => self.cells.push((index.to_be_bytes().to_vec(), None)),
            Change::Delete => self.delete_up_to(self.time.deletion_us),
            Change::Count { .. } => debug_assert!(false, "no column of several cells counts"),
            // Only of columns that have one cell.
            Change::AddToOwn { .. } => {}
        }
        Ok(())
    }

    /// The whole value becomes this one.
    fn replace(&mut self, value: &Evaluated<'_>, context: &EvaluationContext<'_>) {
        if value.is_unset() {
            return;
        }
        // One before, so that the new cells survive it.
        self.delete_up_to(self.time.timestamp_us - 1);
        self.put_parts(value.bytes().unwrap_or_default(), context);
    }

    /// Elements in front of a list, in the order given.
    fn prepend(&mut self, value: &Evaluated<'_>, context: &EvaluationContext<'_>) {
        let elements = list_elements(value.bytes().unwrap_or_default());
        for element in elements.into_iter().rev() {
            let path = path_before_all(context.clock.server_timestamp_us, context);
            self.cells.push((path.to_vec(), Some(element.to_vec())));
        }
    }

    /// One part: its value, or for null its tombstone.
    fn put(&mut self, path: Vec<u8>, value: &Evaluated<'_>) {
        if !value.is_unset() {
            self.cells.push((path, value.bytes().map(<[u8]>::to_vec)));
        }
    }

    /// One cell for each part of a serialized value. Nothing is no value: the empty collection.
    fn put_parts(&mut self, bytes: &[u8], context: &EvaluationContext<'_>) {
        match self.cql_type {
            CqlType::List { .. } => {
                for element in list_elements(bytes) {
                    self.cells
                        .push((next_timeuuid(context.clock).to_vec(), Some(element.to_vec())));
                }
            }
            CqlType::Map { key: key_type, .. } => {
                // Of a key that a value has twice the later entry counts.
                let mut entries: Vec<(&[u8], &[u8])> = MapEntries::new(bytes).into_iter().flatten().collect();
                entries.reverse();
                entries.sort_by(|left, right| key_type.compare(left.0, right.0));
                entries.dedup_by(|earlier, later| key_type.compare(earlier.0, later.0).is_eq());
                let cells = entries
                    .into_iter()
                    .map(|(key, value)| (key.to_vec(), Some(value.to_vec())));
                self.cells.extend(cells);
            }
            CqlType::UserDefined { .. } => {
                let fields = (0_i16..).zip(TupleComponents::new(bytes));
                let present = fields.filter_map(|(index, value)| Some((index, value?)));
                self.cells.extend(
                    present.map(|(index, value)| (index.to_be_bytes().to_vec(), Some(value.to_vec()))),
                );
            }
            _ => {
                let elements = list_elements(bytes).into_iter();
                self.cells
                    .extend(elements.map(|element| (element.to_vec(), Some(Vec::new()))));
            }
        }
    }

    fn delete_up_to(&mut self, timestamp_us: i64) {
        if self.deleted_at_us.replace(timestamp_us).is_none() {
            self.view = None;
        }
    }

    /// The list as stored, with what this statement has changed in it so far.
    fn present(
        &mut self,
        row: RowAddress<'_>,
        lists: &mut dyn PriorLists,
    ) -> Result<&mut ListView, CqlError> {
        let view = match self.view.take() {
            Some(view) => view,
            None => ListView::new(match self.deleted_at_us {
                Some(_) => Rc::new(StoredList::default()),
                None => lists.list(row.token, row.key, row.clustering, self.column)?,
            }),
        };
        let view = self.view.insert(view);
        view.take(&self.cells);
        Ok(view)
    }

    fn path_at(
        &mut self,
        index: &Expression,
        row: RowAddress<'_>,
        context: &EvaluationContext<'_>,
        lists: &mut dyn PriorLists,
        index_use: IndexUse,
    ) -> Result<Option<Vec<u8>>, CqlError> {
        let index = match index.evaluate(context)? {
            Evaluated::Null => return Err(invalid!("Invalid null value for list index")),
            Evaluated::Unset if index_use == IndexUse::Delete => return Ok(None),
            Evaluated::Unset => return Err(invalid!("Invalid unset value for list index")),
            Evaluated::Bytes(bytes) => i32::from_be_bytes((*bytes).try_into().unwrap_or([0xff; 4])),
        };
        let present = self.present(row, lists)?;
        let size = present.len();
        if size == 0 {
            return Err(match index_use {
                IndexUse::Set => invalid!("Attempted to set an element on a list which is null"),
                IndexUse::Delete => invalid!("Attempted to delete an element from a list which is null"),
            });
        }
        let found = usize::try_from(index)
            .ok()
            .and_then(|index| present.path_at(index));
        match found {
            Some(path) => Ok(Some(path)),
            None => Err(invalid!("List index {index} out of bound, list has size {size}")),
        }
    }

    fn write(self, builder: &mut RowBuilder<'_>) {
        if let Some(timestamp_us) = self.deleted_at_us {
            let deletion = DeletionTime {
                timestamp_us,
                local_s: self.time.now_s,
            };
            builder.complex_deletion(self.column, deletion);
        }
        let path_type = match self.cql_type {
            CqlType::Map { key, .. } => (**key).clone(),
            CqlType::Set { element, .. } => (**element).clone(),
            CqlType::List { .. } => CqlType::Timeuuid,
            _ => CqlType::Smallint,
        };
        for (path, value) in &reconciled(self.cells, &path_type) {
            builder.cell(cell(self.column, Some(path), value.as_deref(), self.time));
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IndexUse {
    Set,
    Delete,
}

fn list_elements(bytes: &[u8]) -> Vec<&[u8]> {
    CollectionElements::new(bytes, 1)
        .into_iter()
        .flatten()
        .flatten()
        .collect()
}

fn map_key(key: &Expression, context: &EvaluationContext<'_>) -> Result<Vec<u8>, CqlError> {
    match key.evaluate(context)? {
        Evaluated::Null => Err(invalid!("Invalid null map key")),
        Evaluated::Unset => Err(invalid!("Invalid unset map key")),
        Evaluated::Bytes(key) => Ok(key.into_owned()),
    }
}

thread_local! {
    /// The last path given to a prepended element, in ticks of 100 ns.
    static LAST_PREPENDED_TICKS: Cell<i64> = const { Cell::new(i64::MAX) };
}

/// 2010-01-01, around which Cassandra mirrors time: the later an element is prepended, the smaller its path.
const MIRROR_MS: i64 = 1_262_304_000_000;

/// A timeuuid smaller than those of all elements appended or prepended before.
fn path_before_all(now_us: i64, context: &EvaluationContext<'_>) -> [u8; 16] {
    let mirrored_us = 2 * MIRROR_MS * 1_000 - now_us;
    let wanted = (mirrored_us + UUID_EPOCH_MS * 1_000) * 10 + 9;
    let ticks = LAST_PREPENDED_TICKS.get().saturating_sub(1).min(wanted);
    LAST_PREPENDED_TICKS.set(ticks);
    // The lower half tells this shard's paths from others'.
    let lower = next_timeuuid(context.clock);
    let lower = lower
        .last_chunk::<8>()
        .map_or(0, |half| u64::from_be_bytes(*half));
    timeuuid_of(ticks, lower)
}
