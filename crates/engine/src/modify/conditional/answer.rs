//! Answer of a conditional statement: whether it was applied and, if not, the rows that it met.

use helenus_protocol::response::{MetadataForm, RowsWriter};
use helenus_rows::row::RowRef;
use helenus_schema::{ColumnKind, ColumnMetadata, TableMetadata};
use helenus_types::CqlType;

use super::rows::RowsRead;
use crate::execute::QueryOptions;
use crate::heap_bytes::{HeapBytes, flat_bytes};
use crate::prepare::ResultMetadata;
use crate::select::RowView;
use crate::term::ColumnSpec;

const TRUE: &[u8] = &[1];
const FALSE: &[u8] = &[0];

/// Bytes of most answers: metadata of some columns and a short row.
const ANSWER_BYTES: usize = 256;

/// `[applied]` alone: of what was applied, and where there is no row to be shown.
pub fn applied_metadata(table: &TableMetadata) -> ResultMetadata {
    ResultMetadata::new(vec![spec(table, "[applied]", CqlType::Boolean)])
}

/// Columns shown of the rows that did not meet the conditions.
#[derive(Debug)]
pub struct NotApplied {
    metadata: ResultMetadata,
    /// Behind `[applied]`.
    columns: Vec<ColumnMetadata>,
}

impl NotApplied {
    /// These columns, each once; all of the table if none are named.
    pub fn new(table: &TableMetadata, columns: Option<Vec<&ColumnMetadata>>) -> Self {
        let mut specs = vec![spec(table, "[applied]", CqlType::Boolean)];
        let mut shown: Vec<ColumnMetadata> = Vec::new();
        let mut push = |column: &ColumnMetadata| {
            if !shown.iter().any(|before| before.id == column.id) {
                specs.push(spec(table, &column.name, column.cql_type.clone()));
                shown.push(column.clone());
            }
        };
        match columns {
            Some(columns) => columns.into_iter().for_each(&mut push),
            None => table.columns.iter().for_each(&mut push),
        }
        NotApplied {
            metadata: ResultMetadata::new(specs),
            columns: shown,
        }
    }
}

impl HeapBytes for NotApplied {
    fn heap_bytes(&self) -> usize {
        self.metadata.heap_bytes() + flat_bytes(&self.columns)
    }
}

fn spec(table: &TableMetadata, name: &str, cql_type: CqlType) -> ColumnSpec {
    ColumnSpec {
        keyspace: table.keyspace.clone(),
        table: table.name.clone(),
        name: name.into(),
        cql_type,
    }
}

/// Appends the body of a RESULT.
pub fn applied(out: &mut Vec<u8>, metadata: &ResultMetadata, options: &QueryOptions<'_>, is_applied: bool) {
    out.reserve(ANSWER_BYTES);
    let mut writer = RowsWriter::begin(out, metadata.for_version(options.version), MetadataForm::Full);
    writer.value(out, Some(if is_applied { TRUE } else { FALSE }));
    writer.end_row();
    writer.finish(out, None);
}

/// Appends the body of a RESULT with the rows that were read; false if there are none.
pub fn not_applied(
    out: &mut Vec<u8>,
    shape: &NotApplied,
    (table, key): (&TableMetadata, &[u8]),
    rows: &RowsRead<'_>,
    options: &QueryOptions<'_>,
) -> bool {
    if rows.has_nothing_to_show() {
        return false;
    }
    out.reserve(ANSWER_BYTES);
    let mut writer = RowsWriter::begin(
        out,
        shape.metadata.for_version(options.version),
        MetadataForm::Full,
    );
    for (clustering, row) in rows.shown() {
        let view = RowView {
            partition_key: key,
            partition_key_count: usize::from(table.partition_key_count),
            static_row: rows.static_row().unwrap_or(RowRef::EMPTY),
            clustering,
            row,
        };
        writer.value(out, Some(FALSE));
        for column in &shape.columns {
            let is_read = match column.kind {
                ColumnKind::PartitionKey | ColumnKind::Clustering => true,
                ColumnKind::Static => rows.columns().reads_static(column),
                ColumnKind::Regular => rows.columns().all_regular,
            };
            let value = is_read.then(|| view.value(column)).flatten();
            writer.value(out, value.as_deref());
        }
        writer.end_row();
    }
    writer.finish(out, None);
    true
}
