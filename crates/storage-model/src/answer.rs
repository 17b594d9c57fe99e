//! The rows that `SELECT *` must return of a model: what lives, as the protocol carries it.

use std::collections::BTreeMap;

use helenus_rows::clustering::Components;
use helenus_rows::row::{CellRef, Entry, RowRef, counter};
use helenus_schema::{ColumnId, ColumnMetadata, TableMetadata};
use helenus_types::CqlType;
use helenus_types::partition_key::partition_key_components;

use crate::partition::{Item, Partition, Partitions, is_live};

/// Serialized values, `None` for null.
pub type AnswerRow = Vec<Option<Vec<u8>>>;

/// All rows at `now_s`, in the order of tokens and clustering, their columns in the order of `SELECT *`.
pub fn answer(table: &TableMetadata, partitions: &Partitions, now_s: u32) -> Vec<AnswerRow> {
    let mut rows = Vec::new();
    for ((_, partition_key), partition) in partitions {
        let keys: Vec<_> = partition_key_components(partition_key, table.partition_key().len())
            .map(<[u8]>::to_vec)
            .collect();
        push_partition(&mut rows, table, &keys, partition, now_s);
    }
    rows
}

/// A partition whose static cells alone live is one row without clustering.
fn push_partition(
    rows: &mut Vec<AnswerRow>,
    table: &TableMetadata,
    keys: &[Vec<u8>],
    partition: &Partition,
    now_s: u32,
) {
    let statics = values(table.statics(), &partition.static_row, now_s);
    let first = rows.len();
    for item in &partition.items {
        let Item::Row { clustering, row } = item else {
            continue;
        };
        if !is_live(row, now_s) {
            continue;
        }
        let mut answer: AnswerRow = keys.iter().cloned().map(Some).collect();
        answer.extend(Components::new(clustering).map(|component| Some(component.to_vec())));
        answer.extend(statics.iter().cloned());
        answer.extend(values(table.regulars(), row, now_s));
        rows.push(answer);
    }
    if rows.len() == first && is_live(&partition.static_row, now_s) {
        let mut answer: AnswerRow = keys.iter().cloned().map(Some).collect();
        answer.extend(table.clustering().iter().map(|_| None));
        answer.extend(statics);
        answer.extend(table.regulars().iter().map(|_| None));
        rows.push(answer);
    }
}

fn values(columns: &[ColumnMetadata], row: &[u8], now_s: u32) -> AnswerRow {
    let mut cells: BTreeMap<ColumnId, Vec<CellRef<'_>>> = BTreeMap::new();
    for entry in RowRef::new(row).entries() {
        if let Entry::Cell(cell) = entry
            && cell.is_live(now_s)
        {
            cells.entry(cell.column).or_default().push(cell);
        }
    }
    columns
        .iter()
        .map(|column| cells.get(&column.id).map(|cells| value(&column.cql_type, cells)))
        .collect()
}

/// Encodes the value of at least one live cell.
fn value(cql_type: &CqlType, cells: &[CellRef<'_>]) -> Vec<u8> {
    let path = |cell: &CellRef<'_>| cell.path.unwrap_or_default().to_vec();
    let mut out = Vec::new();
    match cql_type {
        CqlType::Counter => out.extend(
            cells
                .iter()
                .map(|cell| counter::total(cell.value))
                .sum::<i64>()
                .to_be_bytes(),
        ),
        CqlType::List { frozen: false, .. } => {
            put_count(&mut out, cells.len());
            cells
                .iter()
                .for_each(|cell| put_value(&mut out, Some(cell.value)));
        }
        CqlType::Set { frozen: false, .. } => {
            put_count(&mut out, cells.len());
            cells
                .iter()
                .for_each(|cell| put_value(&mut out, Some(&path(cell))));
        }
        CqlType::Map { frozen: false, .. } => {
            put_count(&mut out, cells.len());
            for cell in cells {
                put_value(&mut out, Some(&path(cell)));
                put_value(&mut out, Some(cell.value));
            }
        }
        CqlType::UserDefined {
            definition,
            frozen: false,
        } => {
            for field in 0..definition.fields.len() as u16 {
                let of_field = cells.iter().find(|cell| path(cell) == field.to_be_bytes());
                put_value(&mut out, of_field.map(|cell| cell.value));
            }
        }
        _ => out.extend(cells.iter().flat_map(|cell| cell.value)),
    }
    out
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    out.extend((count as i32).to_be_bytes());
}

fn put_value(out: &mut Vec<u8>, value: Option<&[u8]>) {
    match value {
        Some(value) => {
            put_count(out, value.len());
            out.extend(value);
        }
        None => out.extend((-1_i32).to_be_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{Case, CaseKind};
    use crate::content::Era;

    /// How many rows a read at `now_s` returns: those with a marker or a cell that lives. What a deletion hides is
    /// not in the model, since it is not in files either. A partition with live static cells alone is one row.
    fn live_row_count(partition: &Partition, now_s: u32) -> usize {
        let rows = partition.items.iter().filter_map(|item| match item {
            Item::Row { row, .. } => Some(row),
            Item::Marker { .. } => None,
        });
        let count = rows.filter(|row| is_live(row, now_s)).count();
        if count == 0 {
            usize::from(is_live(&partition.static_row, now_s))
        } else {
            count
        }
    }

    /// Two ways to count what lives.
    #[test]
    fn as_many_rows_are_answered_as_live() {
        let now_s = 1_800_000_000;
        for seed in 0..40 {
            let case = Case::of_kind(seed, CaseKind::Small, "t", Era::SIGNED);
            let table = &case.table.metadata;
            let rows = answer(table, &case.partitions, now_s);
            let wanted: usize = case
                .partitions
                .values()
                .map(|partition| live_row_count(partition, now_s))
                .sum();
            assert_eq!(rows.len(), wanted, "seed {seed}");
            for row in rows {
                assert_eq!(row.len(), table.columns.len(), "seed {seed}");
            }
        }
    }

    #[test]
    fn collections_are_put_together_from_their_cells() {
        let map = CqlType::map(CqlType::Int, CqlType::Text, false);
        let mut cell = crate::partition::cell(ColumnId(0), 1, b"v");
        cell.path = Some(&[0, 0, 0, 7]);
        let wanted = [0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 7, 0, 0, 0, 1, b'v'];
        assert_eq!(value(&map, &[cell]), wanted);
        let set = CqlType::set(CqlType::Int, false);
        assert_eq!(value(&set, &[cell]), wanted[..12]);
    }
}
