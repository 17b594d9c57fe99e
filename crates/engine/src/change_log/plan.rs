//! Where a log has what of its table; made before anything is written.

use std::sync::Arc;

use helenus_rows::layout::TableLayout;
use helenus_schema::{
    ChangeLogOptions, ColumnId, ColumnKind, ColumnMetadata, TableMetadata, change_log_columns as names,
};
use helenus_types::CqlType;

/// The log of one table.
#[derive(Debug)]
pub struct ChangeLogPlan {
    pub table: Arc<TableMetadata>,
    pub(super) base: TableLayout,
    pub(super) options: ChangeLogOptions,
    /// The log's columns of the table's partition key and of its clustering, in their order.
    pub(super) partition: Vec<ColumnId>,
    pub(super) clustering: Vec<ColumnId>,
    /// By the table's ids.
    pub(super) columns: Vec<LoggedColumn>,
    pub(super) operation: ColumnId,
    pub(super) ttl: ColumnId,
    pub(super) end_of_batch: ColumnId,
}

/// A column of a table and those that its log has for it.
#[derive(Debug)]
pub(super) struct LoggedColumn {
    pub base: ColumnId,
    pub is_static: bool,
    pub form: Form,
    /// The value that is written to it; of one of several cells the cells, as one value.
    pub value: ColumnId,
    /// True where it is deleted.
    pub deleted: ColumnId,
}

/// How a log has the cells of a column.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    /// There is one.
    Single,
    /// A set of their paths.
    Paths { deleted_elements: ColumnId },
    /// A map of paths to values: of maps, and of lists, whose paths are the time uuids of their places.
    Map { deleted_elements: ColumnId },
    /// A user type of so many fields, whose paths are their places.
    Fields {
        deleted_elements: ColumnId,
        count: usize,
    },
}

impl ChangeLogPlan {
    /// `None` if the log lacks a column, which no statement makes of one.
    pub fn of(base: &Arc<TableMetadata>, log: &Arc<TableMetadata>) -> Option<Self> {
        let options = base.params.change_log?;
        let id = |name: &str| log.column(name).map(|column| column.id);
        let of_key = |columns: &[ColumnMetadata]| -> Option<Vec<ColumnId>> {
            columns.iter().map(|column| id(&column.name)).collect()
        };
        let others = base.statics().iter().chain(base.regulars());
        let columns = others.map(|column| {
            let deleted_elements = || id(&format!("{}{}", names::DELETED_ELEMENTS, column.name));
            let form = match &column.cql_type {
                cql_type if !cql_type.is_multi_cell() => Form::Single,
                CqlType::Set { .. } => Form::Paths {
                    deleted_elements: deleted_elements()?,
                },
                CqlType::UserDefined { definition, .. } => Form::Fields {
                    deleted_elements: deleted_elements()?,
                    count: definition.fields.len(),
                },
                _ => Form::Map {
                    deleted_elements: deleted_elements()?,
                },
            };
            Some(LoggedColumn {
                base: column.id,
                is_static: column.kind == ColumnKind::Static,
                form,
                value: id(&column.name)?,
                deleted: id(&format!("{}{}", names::DELETED, column.name))?,
            })
        });
        let mut columns = columns.collect::<Option<Vec<LoggedColumn>>>()?;
        columns.sort_unstable_by_key(|column| column.base);
        Some(ChangeLogPlan {
            base: TableLayout::of(base),
            options,
            partition: of_key(base.partition_key())?,
            clustering: of_key(base.clustering())?,
            columns,
            operation: id(names::OPERATION)?,
            ttl: id(names::TTL)?,
            end_of_batch: id(names::END_OF_BATCH)?,
            table: Arc::clone(log),
        })
    }

    /// Returns whether the rows that a write touches are to be read before it.
    pub fn has_images(&self) -> bool {
        self.options.has_images()
    }

    pub(super) fn column(&self, base: ColumnId) -> Option<&LoggedColumn> {
        let place = self.columns.binary_search_by_key(&base, |column| column.base);
        self.columns.get(place.ok()?)
    }
}
