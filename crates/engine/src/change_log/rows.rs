//! The rows of a log: operations of a write in their order, with what was before them and after them, under their keys.

use helenus_rows::clustering::{Components, push_component};
use helenus_rows::deletion::{DeletionTime, NEVER_S};
use helenus_rows::row::{CellRef, Liveness, RowRef};
use helenus_rows::update::{Update, UpdateBuilder};
use helenus_schema::{Delta, Preimage};
use helenus_types::Token;
use helenus_types::partition_key::partition_key_components;
use helenus_types::token::murmur3_x64_128;
use helenus_types::value::timeuuid::timeuuid_of_us;

use super::images::Images;
use super::operations::{Cause, Group, LoggedCell, LoggedRow, Operation, Operations};
use super::plan::{ChangeLogPlan, LoggedColumn};
use super::streams::Streams;

/// Ingredients of all rows of a write's log.
struct Writing<'w, 'u> {
    plan: &'w ChangeLogPlan,
    update: &'w Update<'u>,
    images: &'w Images,
    now_s: u32,
}

impl ChangeLogPlan {
    /// The packed update of the log that tells of a packed update of the table; `None` where it writes nothing. `images` are the rows
    /// that it touches, if the log [has such](Self::has_images).
    pub fn log(
        &self,
        token: Token,
        (update, cause): (&Update<'_>, Cause),
        images: &Images,
        now_s: u32,
    ) -> Option<Vec<u8>> {
        let operations = Operations::of(self, update, cause);
        if operations.0.is_empty() {
            return None;
        }
        let writing = Writing {
            plan: self,
            update,
            images,
            now_s,
        };
        let mut logged = Vec::new();
        let stream = Streams::get().of(token);
        let mut builder = UpdateBuilder::new(&mut logged, self.table.id, &stream, DeletionTime::LIVE);
        let groups = &operations.0;
        for (place, group) in groups.iter().enumerate() {
            let mut rows: Vec<LoggedRow<'_>> = Vec::new();
            rows.extend(writing.preimages(groups, place));
            rows.extend(group.rows.iter().map(|row| self.delta(row)));
            rows.extend(writing.postimages(groups, place));
            // Times beyond those that a time uuid has come to the same one.
            let seed = writing.hash(&rows).wrapping_add(place as u64);
            let time = timeuuid_of_us(group.timestamp_us, seed);
            writing.put(&mut builder, time, group.timestamp_us, rows);
        }
        Some(logged)
    }

    fn delta<'u>(&self, row: &LoggedRow<'u>) -> LoggedRow<'u> {
        LoggedRow {
            cells: match self.options.delta {
                Delta::Full => row.cells.clone(),
                Delta::Keys => Vec::new(),
            },
            ..*row
        }
    }
}

impl<'u> Writing<'_, 'u> {
    /// Tells writes of one time apart. The same write again, on the same rows, is told of by the same rows of the log, on whatever node
    /// and at whatever time: so a client that tries again under its own timestamp is told of once.
    fn hash(&self, rows: &[LoggedRow<'u>]) -> u64 {
        let mut content = self.update.partition_key.to_vec();
        let mut put = |bytes: &[u8]| {
            content.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
            content.extend_from_slice(bytes);
        };
        for row in rows {
            put(&(row.operation as i8).to_be_bytes());
            put(&row.ttl_s.to_le_bytes());
            row.clustering.into_iter().for_each(&mut put);
            for (column, value) in &row.cells {
                put(&column.0.to_le_bytes());
                put(value);
            }
        }
        let [hash, _] = murmur3_x64_128(&content);
        hash
    }

    /// The rows of a group as they were, of those that no group before it is about.
    fn preimages(&self, groups: &[Group<'u>], place: usize) -> Vec<LoggedRow<'u>> {
        let (plan, preimage) = (self.plan, self.plan.options.preimage);
        if preimage == Preimage::None {
            return Vec::new();
        }
        let (before, from_here) = groups.split_at(place);
        let mut images: Vec<LoggedRow<'u>> = Vec::new();
        for row in from_here.iter().take(1).flat_map(|group| &group.rows) {
            let is_told = images.iter().any(|image| image.clustering == row.clustering);
            if !row.operation.is_about_row() || is_told || is_about(before, row.clustering) {
                continue;
            }
            let stored = self.images.before(row.clustering, &plan.base.comparator);
            if stored.is_empty() {
                continue;
            }
            let is_whole = preimage == Preimage::Full || is_deleted(groups, row.clustering);
            let has = |column: &LoggedColumn| is_whole || is_changed(groups, row.clustering, column);
            images.push(LoggedRow {
                operation: Operation::Preimage,
                ttl_s: 0,
                clustering: row.clustering,
                cells: plan.image_cells(stored, row.clustering.is_none(), has, true),
            });
        }
        images
    }

    /// The rows of a group as they become, of those that no group behind it is about and that are not deleted.
    fn postimages(&self, groups: &[Group<'u>], place: usize) -> Vec<LoggedRow<'u>> {
        let plan = self.plan;
        if !plan.options.postimage {
            return Vec::new();
        }
        let behind = groups.get(place + 1..).unwrap_or_default();
        let mut images: Vec<LoggedRow<'u>> = Vec::new();
        for row in groups.iter().skip(place).take(1).flat_map(|group| &group.rows) {
            let is_told = images.iter().any(|image| image.clustering == row.clustering);
            let is_written = matches!(row.operation, Operation::RowUpdate | Operation::RowInsert);
            if !is_written || is_told || is_about(behind, row.clustering) {
                continue;
            }
            let stored = self.images.before(row.clustering, &plan.base.comparator);
            let after = plan.after(stored, self.update, row.clustering, self.now_s);
            let after = if after.is_empty() {
                RowRef::EMPTY
            } else {
                RowRef::new(&after)
            };
            images.push(LoggedRow {
                operation: Operation::Postimage,
                ttl_s: 0,
                clustering: row.clustering,
                cells: plan.image_cells(after, row.clustering.is_none(), |_| true, false),
            });
        }
        images
    }

    fn put(
        &self,
        builder: &mut UpdateBuilder<'_>,
        time: [u8; 16],
        timestamp_us: i64,
        rows: Vec<LoggedRow<'u>>,
    ) {
        let log_ttl_s = self.plan.options.ttl_s;
        let expires_at_s = match log_ttl_s {
            0 => NEVER_S,
            ttl_s => self.now_s.saturating_add(ttl_s).min(NEVER_S - 1),
        };
        let liveness = Liveness {
            timestamp_us,
            ttl_s: log_ttl_s,
            expires_at_s,
        };
        let count = rows.len();
        for (number, row) in (0_i32..).zip(rows) {
            let mut clustering = Vec::with_capacity(32);
            push_component(&mut clustering, &time);
            push_component(&mut clustering, &number.to_be_bytes());
            let cells = self.cells(row, number as usize + 1 == count);
            builder.row(&clustering, liveness, DeletionTime::LIVE, |builder| {
                for (column, value) in &cells {
                    builder.cell(CellRef {
                        column: *column,
                        timestamp_us,
                        ttl_s: log_ttl_s,
                        local_deletion_s: expires_at_s,
                        path: None,
                        value,
                    });
                }
            });
        }
    }

    /// All cells of a row, in the order of their columns.
    fn cells(&self, row: LoggedRow<'u>, is_last: bool) -> Vec<LoggedCell<'u>> {
        let plan = self.plan;
        let mut cells = row.cells;
        let key = partition_key_components(self.update.partition_key, plan.partition.len());
        cells.extend(
            plan.partition
                .iter()
                .zip(key)
                .map(|(column, value)| (*column, value.into())),
        );
        if let Some(clustering) = row.clustering {
            let components = plan.clustering.iter().zip(Components::new(clustering));
            cells.extend(components.map(|(column, value)| (*column, value.into())));
        }
        cells.push((
            plan.operation,
            (row.operation as i8).to_be_bytes().to_vec().into(),
        ));
        if row.ttl_s != 0 {
            cells.push((plan.ttl, i64::from(row.ttl_s).to_be_bytes().to_vec().into()));
        }
        if is_last {
            cells.push((plan.end_of_batch, vec![1].into()));
        }
        cells.sort_by_key(|(column, _)| *column);
        cells
    }
}

impl Operation {
    /// Returns whether it is about one row, or the static one.
    fn is_about_row(self) -> bool {
        matches!(self, Self::RowUpdate | Self::RowInsert | Self::RowDelete)
    }
}

fn rows_about<'g, 'u>(
    groups: &'g [Group<'u>],
    clustering: Option<&'g [u8]>,
) -> impl Iterator<Item = &'g LoggedRow<'u>> {
    let rows = groups.iter().flat_map(|group| &group.rows);
    rows.filter(move |row| row.operation.is_about_row() && row.clustering == clustering)
}

fn is_about(groups: &[Group<'_>], clustering: Option<&[u8]>) -> bool {
    rows_about(groups, clustering).next().is_some()
}

fn is_deleted(groups: &[Group<'_>], clustering: Option<&[u8]>) -> bool {
    rows_about(groups, clustering).any(|row| row.operation == Operation::RowDelete)
}

fn is_changed(groups: &[Group<'_>], clustering: Option<&[u8]>, column: &LoggedColumn) -> bool {
    let own = [
        Some(column.value),
        Some(column.deleted),
        column.form.deleted_elements(),
    ];
    rows_about(groups, clustering)
        .any(|row| row.cells.iter().any(|(of_cell, _)| own.contains(&Some(*of_cell))))
}
