//! The rows of a log: operations of a write in their order, with what was before them and after them, under their keys.

use std::collections::{HashMap, HashSet};

use helenus_rows::clustering::{Components, push_component};
use helenus_rows::deletion::{DeletionTime, NEVER_S};
use helenus_rows::row::{CellRef, Liveness, RowRef};
use helenus_rows::update::{Update, UpdateBuilder};
use helenus_schema::{ColumnId, Delta, Preimage};
use helenus_types::Token;
use helenus_types::partition_key::partition_key_components;
use helenus_types::token::murmur3_x64_128;
use helenus_types::value::timeuuid::timeuuid_of_us;

use super::images::{Images, WrittenRows};
use super::operations::{Cause, Group, LoggedCell, LoggedRow, Operation, Operations};
use super::plan::{ChangeLogPlan, LoggedColumn};
use super::streams::Streams;

/// Ingredients of all rows of a write's log.
struct Writing<'w, 'u> {
    plan: &'w ChangeLogPlan,
    update: &'w Update<'u>,
    images: &'w Images,
    /// These two only for images.
    about: AboutRows<'u>,
    written: WrittenRows<'u>,
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
        let groups = Operations::of(self, update, cause).into_groups();
        if groups.is_empty() {
            return None;
        }
        let (about, written) = match self.has_images() {
            true => (
                About::rows_of(&groups),
                WrittenRows::of(update, &self.base.comparator),
            ),
            false => Default::default(),
        };
        let writing = Writing {
            plan: self,
            update,
            images,
            about,
            written,
            now_s,
        };
        let mut logged = Vec::new();
        let stream = Streams::get().of(token);
        let mut builder = UpdateBuilder::new(&mut logged, self.table.id, &stream, DeletionTime::LIVE);
        for (place, group) in groups.iter().enumerate() {
            let mut rows: Vec<LoggedRow<'_>> = Vec::new();
            rows.extend(writing.preimages(group, place));
            rows.extend(group.rows.iter().map(|row| self.delta(row)));
            rows.extend(writing.postimages(group, place));
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
    fn preimages(&self, group: &Group<'u>, place: usize) -> Vec<LoggedRow<'u>> {
        let (plan, preimage) = (self.plan, self.plan.options.preimage);
        if preimage == Preimage::None {
            return Vec::new();
        }
        let mut images: Vec<LoggedRow<'u>> = Vec::new();
        for (about, clustering) in self.told_rows(group, |about| about.first_group == place) {
            let stored = self.images.before(clustering, &plan.base.comparator);
            if stored.is_empty() {
                continue;
            }
            let is_whole = preimage == Preimage::Full || about.is_deleted;
            let has = |column: &LoggedColumn| is_whole || about.changes(column);
            images.push(LoggedRow {
                operation: Operation::Preimage,
                ttl_s: 0,
                clustering,
                cells: plan.image_cells(stored, clustering.is_none(), has, true),
            });
        }
        images
    }

    /// The rows of a group as they become, of those that no group behind it is about and that it does not only delete.
    fn postimages(&self, group: &Group<'u>, place: usize) -> Vec<LoggedRow<'u>> {
        let plan = self.plan;
        if !plan.options.postimage {
            return Vec::new();
        }
        let is_last = |about: &About| about.last_group == place && about.last_written == Some(place);
        let told = self.told_rows(group, is_last).map(|(_, clustering)| {
            let stored = self.images.before(clustering, &plan.base.comparator);
            let after = plan.after(stored, &self.written, clustering, self.now_s);
            let after = match after.is_empty() {
                true => RowRef::EMPTY,
                false => RowRef::new(&after),
            };
            LoggedRow {
                operation: Operation::Postimage,
                ttl_s: 0,
                clustering,
                cells: plan.image_cells(after, clustering.is_none(), |_| true, false),
            }
        });
        told.collect()
    }

    /// The rows that a group is about, each once, as far as `is_wanted`.
    fn told_rows<'g>(
        &'g self,
        group: &'g Group<'u>,
        is_wanted: impl Fn(&About) -> bool + 'g,
    ) -> impl Iterator<Item = (&'g About, Option<&'u [u8]>)> {
        let mut told = HashSet::new();
        let rows = group.rows.iter().filter(|row| row.operation.is_about_row());
        rows.filter_map(move |row| {
            let about = self.about.get(&row.clustering)?;
            (is_wanted(about) && told.insert(row.clustering)).then_some((about, row.clustering))
        })
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

/// A write as far as it is about one row, or the static one.
#[derive(Default)]
struct About {
    /// Places of the groups that are about it.
    first_group: usize,
    last_group: usize,
    /// Place of the last group that gives it something.
    last_written: Option<usize>,
    is_deleted: bool,
    /// Columns of the log, ascending.
    changed: Vec<ColumnId>,
}

type AboutRows<'u> = HashMap<Option<&'u [u8]>, About>;

impl About {
    fn rows_of<'u>(groups: &[Group<'u>]) -> AboutRows<'u> {
        let mut rows = AboutRows::new();
        for (place, group) in groups.iter().enumerate() {
            for row in group.rows.iter().filter(|row| row.operation.is_about_row()) {
                let about = rows.entry(row.clustering).or_insert_with(|| About {
                    first_group: place,
                    ..About::default()
                });
                about.last_group = place;
                match row.operation {
                    Operation::RowDelete => about.is_deleted = true,
                    _ => about.last_written = Some(place),
                }
                about.changed.extend(row.cells.iter().map(|(column, _)| *column));
            }
        }
        rows.values_mut().for_each(|about| about.changed.sort_unstable());
        rows
    }

    fn changes(&self, column: &LoggedColumn) -> bool {
        let own = [
            Some(column.value),
            Some(column.deleted),
            column.form.deleted_elements(),
        ];
        let mut own = own.into_iter().flatten();
        own.any(|column| self.changed.binary_search(&column).is_ok())
    }
}
