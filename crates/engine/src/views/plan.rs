//! Plans of the views of a table, made before any of its rows is seen.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use foldhash::fast::FixedState;
use helenus_cql::ast::Relation;
use helenus_rows::clustering::push_component;
use helenus_rows::layout::TableLayout;
use helenus_rows::row::RowRef;
use helenus_rows::update::{Update, UpdateItem};
use helenus_schema::{ColumnId, ColumnKind, KeyspaceMetadata, Schema, TableId, TableMetadata, ViewMetadata};
use helenus_types::partition_key::partition_key_components;

use super::conditions::{conditions_of, view_clause};
use super::entry::ViewShape;
use crate::CqlError;
use crate::change_log::ChangeLogPlan;
use crate::clause::slices::{KEY_BYTES_MAX, append_key, key_too_long};
use crate::functions::Clock;
use crate::select::{Filter, FilterEffort, RowView, bind_filters};
use crate::term::{BoundValues, EvaluationContext};

/// The tables that have views or a log of their changes.
pub type ViewsByTable = HashMap<TableId, Rc<BaseViews>, FixedState>;

/// A table that has views, or a log of its changes: what is written to it makes rows of others.
#[derive(Debug)]
pub struct BaseViews {
    pub layout: TableLayout,
    pub views: Vec<ViewPlan>,
    pub log: Option<ChangeLogPlan>,
}

/// One view of a table.
#[derive(Clone, Debug)]
pub struct ViewPlan {
    pub metadata: Arc<ViewMetadata>,
    pub table: Arc<TableMetadata>,
    pub shape: ViewShape,
    pub(super) partition: Vec<KeyPart>,
    pub(super) clustering: Vec<KeyPart>,
    /// Regular columns of both: the base table's, by its id, and the view's.
    columns: Vec<(ColumnId, ColumnId)>,
    /// True if the view's ids of them ascend as the base table's do.
    has_columns_in_order: bool,
    /// Filters on the base table's key.
    filters: Vec<Filter>,
}

/// Where a column of the view's key comes from.
#[derive(Clone, Copy, Debug)]
pub(super) enum KeyPart {
    /// That column of the base table's partition key.
    Partition(usize),
    /// That one of its clustering.
    Clustering(usize),
    /// The one column of the base row.
    Cell,
}

/// Where a row of a view is.
#[derive(Debug, Default)]
pub(super) struct ViewKey {
    pub partition: Vec<u8>,
    pub clustering: Vec<u8>,
}

impl BaseViews {
    /// All tables of a schema that have views or logs. What has not changed since `before` is taken from there: this runs on shards.
    /// `now` is what `'now'` in a condition means.
    pub fn of_schema(schema: &Schema, before: &ViewsByTable, now: Clock) -> ViewsByTable {
        let mut by_table = ViewsByTable::default();
        for keyspace in schema.keyspaces.values() {
            let of_views = keyspace
                .views
                .values()
                .filter_map(|view| keyspace.tables.get(&view.base));
            let with_logs = keyspace
                .tables
                .values()
                .filter(|table| table.params.change_log.is_some());
            for base in of_views.chain(with_logs) {
                if by_table.contains_key(&base.id) {
                    continue;
                }
                let known = before.get(&base.id).filter(|known| known.is_of(keyspace, base));
                let views = match known {
                    Some(known) => Rc::clone(known),
                    None => Rc::new(Self::of_table(schema, keyspace, base, now)),
                };
                by_table.insert(base.id, views);
            }
        }
        by_table
    }

    /// A view that cannot be planned is left out: its conditions and columns were checked when it was made and when the schema
    /// was read.
    fn of_table(schema: &Schema, keyspace: &KeyspaceMetadata, base: &Arc<TableMetadata>, now: Clock) -> Self {
        let views = keyspace.views_of(base.id);
        let views = views.filter_map(|view| Some((view, keyspace.tables.get(&view.name)?)));
        let views = views.filter_map(|(view, table)| ViewPlan::of(schema, view, table, base, now).ok());
        BaseViews {
            layout: TableLayout::of(base),
            views: views.collect(),
            log: keyspace.log_of(base).and_then(|log| ChangeLogPlan::of(base, log)),
        }
    }

    /// Returns whether all columns of an update are those of the table as it is known here. Another shard may have heard of
    /// more.
    pub fn know(&self, update: &Update<'_>) -> bool {
        let next = self.layout.metadata.next_column_id;
        update.items().all(|item| match item {
            UpdateItem::Row { row, .. } | UpdateItem::StaticRow(row) => {
                row.entries().all(|entry| entry.column() < next)
            }
            UpdateItem::RangeTombstone { .. } => true,
        })
    }

    /// Returns whether nothing of it has changed.
    fn is_of(&self, keyspace: &KeyspaceMetadata, base: &Arc<TableMetadata>) -> bool {
        let is_same = |(plan, view): (&ViewPlan, &Arc<ViewMetadata>)| {
            let table = keyspace.tables.get(&view.name);
            Arc::ptr_eq(&plan.metadata, view) && table.is_some_and(|table| Arc::ptr_eq(table, &plan.table))
        };
        let log = self.log.as_ref().map(|log| &log.table);
        let is_same_log = match (log, keyspace.log_of(base)) {
            (Some(known), Some(log)) => Arc::ptr_eq(known, log),
            (None, None) => true,
            _ => false,
        };
        Arc::ptr_eq(&self.layout.metadata, base)
            && is_same_log
            && keyspace.views_of(base.id).count() == self.views.len()
            && self.views.iter().zip(keyspace.views_of(base.id)).all(is_same)
    }
}

impl ViewPlan {
    pub fn of(
        schema: &Schema,
        view: &Arc<ViewMetadata>,
        table: &Arc<TableMetadata>,
        base: &Arc<TableMetadata>,
        now: Clock,
    ) -> Result<Self, CqlError> {
        let part = |name: &str| {
            let column = base.column(name);
            let column = column.ok_or_else(|| {
                CqlError::server(format_args!("View {} has a column {name} of its own", view.name))
            })?;
            Ok(match column.kind {
                ColumnKind::PartitionKey => KeyPart::Partition(usize::from(column.position)),
                ColumnKind::Clustering => KeyPart::Clustering(usize::from(column.position)),
                ColumnKind::Static | ColumnKind::Regular => KeyPart::Cell,
            })
        };
        let parts = |columns: &[helenus_schema::ColumnMetadata]| {
            columns.iter().map(|column| part(&column.name)).collect()
        };
        let columns = table.regulars().iter().filter_map(|column| {
            let of_base = base.column(&column.name)?;
            (of_base.kind == ColumnKind::Regular).then_some((of_base.id, column.id))
        });
        let mut columns: Vec<(ColumnId, ColumnId)> = columns.collect();
        columns.sort_unstable();
        let partition: Result<Vec<KeyPart>, CqlError> = parts(table.partition_key());
        let clustering: Result<Vec<KeyPart>, CqlError> = parts(table.clustering());
        Ok(ViewPlan {
            has_columns_in_order: columns.is_sorted_by_key(|(_, of_view)| *of_view),
            shape: ViewShape::of(view, table, base),
            partition: partition?,
            clustering: clustering?,
            columns,
            filters: filters_of(schema, view, base, now)?,
            metadata: Arc::clone(view),
            table: Arc::clone(table),
        })
    }

    /// The view's column that has what a column of the base table has.
    pub(super) fn column_of(&self, base: ColumnId) -> Option<ColumnId> {
        let place = self.columns.binary_search_by_key(&base, |(of_base, _)| *of_base);
        Some(self.columns[place.ok()?].1)
    }

    pub(super) fn has_columns_in_order(&self) -> bool {
        self.has_columns_in_order
    }

    /// Returns whether a write to this base row may change the view.
    pub(super) fn is_concerned(
        &self,
        (partition_key, clustering): (&[u8], &[u8]),
        written: RowRef<'_>,
        base: &TableMetadata,
    ) -> bool {
        !self.shape.is_untouched_by(written) && self.covers(partition_key, clustering, base)
    }

    /// Returns whether the view has rows of this place in the base table.
    pub fn covers(&self, partition_key: &[u8], clustering: &[u8], base: &TableMetadata) -> bool {
        if self.filters.is_empty() {
            return true;
        }
        let row = RowView {
            partition_key,
            partition_key_count: usize::from(base.partition_key_count),
            static_row: RowRef::EMPTY,
            clustering: Some(clustering),
            row: RowRef::EMPTY,
        };
        let effort = &mut FilterEffort::default();
        self.filters.iter().all(|filter| filter.accepts(&row, effort))
    }

    /// Where the view's row of a base row is; false for one that would have no partition key.
    pub(super) fn key_of(
        &self,
        partition_key: &[u8],
        clustering: &[u8],
        row: RowRef<'_>,
        base: &TableMetadata,
        key: &mut ViewKey,
    ) -> Result<bool, CqlError> {
        let count = usize::from(base.partition_key_count);
        let value = |part: &KeyPart| match *part {
            KeyPart::Partition(place) => partition_key_components(partition_key, count).nth(place),
            KeyPart::Clustering(place) => helenus_rows::clustering::Components::new(clustering).nth(place),
            KeyPart::Cell => self.shape.key_value(row),
        };
        key.partition.clear();
        key.clustering.clear();
        match self.partition.as_slice() {
            // Nearly all, which take nothing from the heap.
            [only] => match value(only) {
                Some(component) => append_key(&mut key.partition, std::iter::once(component))?,
                None => return Ok(false),
            },
            several => {
                let Some(components) = several.iter().map(value).collect::<Option<Vec<&[u8]>>>() else {
                    return Ok(false);
                };
                append_key(&mut key.partition, components.iter().copied())?;
            }
        }
        if key.partition.is_empty() {
            return Ok(false);
        }
        for part in &self.clustering {
            let Some(component) = value(part) else {
                return Ok(false);
            };
            if component.len() > KEY_BYTES_MAX {
                return Err(key_too_long(component.len()));
            }
            push_component(&mut key.clustering, component);
        }
        Ok(true)
    }
}

/// The view's conditions as tests of a base row's key; that columns are not null is seen from their being there.
fn filters_of(
    schema: &Schema,
    view: &ViewMetadata,
    base: &Arc<TableMetadata>,
    now: Clock,
) -> Result<Vec<Filter>, CqlError> {
    let relations: Vec<Relation> = conditions_of(view)?;
    let is_test = |relation: &Relation| !matches!(relation, Relation::IsNotNull { .. });
    let relations: Vec<Relation> = relations.into_iter().filter(is_test).collect();
    let (clause, _) = view_clause(schema, base, &relations, now)?;
    let context = EvaluationContext {
        values: &BoundValues::EMPTY,
        clock: now,
        row: None,
        aggregates: &[],
    };
    let restrictions = clause
        .partition
        .iter()
        .chain(&clause.clustering)
        .chain(&clause.others);
    bind_filters(restrictions, &[], &context)
}
