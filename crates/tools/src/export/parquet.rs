//! Rows as Parquet: a column for each column of the table, all of them nullable, compressed with Snappy.
//!
//! | CQL | Parquet |
//! |---|---|
//! | boolean, float, double | the same |
//! | tinyint, smallint, int | INT32, of 8, 16 and 32 bits |
//! | bigint, counter | INT64 |
//! | timestamp, time, date | TIMESTAMP in milliseconds of UTC, TIME in nanoseconds, DATE |
//! | uuid, timeuuid | UUID |
//! | text, ascii, varint, decimal, inet, duration | STRING |
//! | blob and custom types | BYTE_ARRAY |
//! | collections, tuples, user types, vectors | JSON, as `sstable dump` has it |

use std::io::Write;
use std::sync::Arc;

use helenus_schema::TableMetadata;
use helenus_types::CqlType;
use helenus_vfs::Disk;
use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FixedLenByteArray, FixedLenByteArrayType,
    FloatType, Int32Type, Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};

use super::live_rows::{Value, for_each_row};
use super::{ExportError, Exported};
use crate::dump::write_json_value;
use crate::progress::{Progress, Unit};
use crate::target::Target;

/// A row group is in memory until it is written. Large ones compress better and scan faster; beyond this it hardly tells.
const GROUP_BYTES_MAX: usize = 32 << 20;
const GROUP_ROWS_MAX: usize = 128 << 10;
/// How `date` stores the first of January of 1970; the days before lie below.
const DATE_OF_1970: u32 = 1 << 31;

/// Writes the live rows of SSTables of one table.
pub fn export_parquet(
    disk: &dyn Disk,
    targets: &[Target],
    table: &Arc<TableMetadata>,
    now_s: u32,
    out: &mut (dyn Write + Send),
    progress: &dyn Progress,
) -> Result<Exported, ExportError> {
    let sstables = targets
        .iter()
        .map(|target| target.open(disk, table))
        .collect::<Result<Vec<_>, _>>()?;
    let total = sstables.iter().map(|sstable| sstable.statistics().rows).sum();
    progress.begin("exporting rows", Unit::Partitions, total);
    let mut group = Group {
        columns: table
            .columns
            .iter()
            .map(|column| Column::new(&column.cql_type))
            .collect(),
        rows: 0,
        bytes: 0,
    };
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY);
    let mut writer = SerializedFileWriter::new(out, schema(table)?, Arc::new(properties.build()))?;
    let mut rows = 0;
    let (partitions, row_count) = for_each_row(table, &sstables, now_s, |values| {
        group.push(table, values);
        if group.is_full() {
            group.write(&mut writer)?;
        }
        rows += 1;
        progress.at(rows);
        Ok::<(), ExportError>(())
    })?;
    group.write(&mut writer)?;
    writer.finish()?;
    Ok(Exported {
        files: Vec::new(),
        partitions,
        rows: row_count,
        bytes: writer.bytes_written() as u64,
    })
}

fn schema(table: &TableMetadata) -> Result<TypePtr, ParquetError> {
    let fields = table
        .columns
        .iter()
        .map(|column| {
            let form = Form::of(&column.cql_type);
            Type::primitive_type_builder(&column.name, form.physical())
                .with_repetition(Repetition::OPTIONAL)
                .with_logical_type(form.logical(&column.cql_type))
                .with_length(if form == Form::Uuid { 16 } else { -1 })
                .build()
                .map(Arc::new)
        })
        .collect::<Result<Vec<_>, _>>()?;
    let root = Type::group_type_builder(&table.name)
        .with_fields(fields)
        .build()?;
    Ok(Arc::new(root))
}

/// How values of a type are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Boolean,
    /// Integer of so many bytes.
    Int32(i8),
    Date,
    Int64,
    Timestamp,
    Time,
    Float,
    Double,
    Uuid,
    Text,
    /// Text, where CQL has another type.
    Written,
    Blob,
    Json,
}

impl Form {
    fn of(cql_type: &CqlType) -> Form {
        match cql_type {
            CqlType::Boolean => Form::Boolean,
            CqlType::Tinyint => Form::Int32(1),
            CqlType::Smallint => Form::Int32(2),
            CqlType::Int => Form::Int32(4),
            CqlType::Date => Form::Date,
            CqlType::Bigint | CqlType::Counter => Form::Int64,
            CqlType::Timestamp => Form::Timestamp,
            CqlType::Time => Form::Time,
            CqlType::Float => Form::Float,
            CqlType::Double => Form::Double,
            CqlType::Uuid | CqlType::Timeuuid => Form::Uuid,
            CqlType::Text | CqlType::Ascii => Form::Text,
            CqlType::Varint | CqlType::Decimal | CqlType::Inet | CqlType::Duration => Form::Written,
            CqlType::List { .. }
            | CqlType::Set { .. }
            | CqlType::Map { .. }
            | CqlType::Tuple(_)
            | CqlType::UserDefined { .. }
            | CqlType::Vector { .. } => Form::Json,
            _ => Form::Blob,
        }
    }

    fn physical(self) -> Physical {
        match self {
            Form::Boolean => Physical::BOOLEAN,
            Form::Int32(_) | Form::Date => Physical::INT32,
            Form::Int64 | Form::Timestamp | Form::Time => Physical::INT64,
            Form::Float => Physical::FLOAT,
            Form::Double => Physical::DOUBLE,
            Form::Uuid => Physical::FIXED_LEN_BYTE_ARRAY,
            Form::Text | Form::Written | Form::Blob | Form::Json => Physical::BYTE_ARRAY,
        }
    }

    fn logical(self, cql_type: &CqlType) -> Option<LogicalType> {
        match self {
            Form::Int32(bytes) if *cql_type != CqlType::Int => Some(LogicalType::integer(8 * bytes, true)),
            Form::Date => Some(LogicalType::Date),
            Form::Timestamp => Some(LogicalType::timestamp(true, TimeUnit::MILLIS)),
            Form::Time => Some(LogicalType::time(false, TimeUnit::NANOS)),
            Form::Uuid => Some(LogicalType::Uuid),
            Form::Text | Form::Written => Some(LogicalType::String),
            Form::Json => Some(LogicalType::Json),
            _ => None,
        }
    }
}

/// A column's values of the row group that is being filled; nulls have no value.
#[derive(Debug)]
struct Column {
    form: Form,
    values: Values,
    /// Definition level of each row: 1 for a value, 0 for null.
    levels: Vec<i16>,
}

#[derive(Debug)]
enum Values {
    Boolean(Vec<bool>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Float(Vec<f32>),
    Double(Vec<f64>),
    Fixed(Vec<FixedLenByteArray>),
    Bytes(Vec<ByteArray>),
}

impl Column {
    fn new(cql_type: &CqlType) -> Self {
        let form = Form::of(cql_type);
        Column {
            form,
            values: match form.physical() {
                Physical::BOOLEAN => Values::Boolean(Vec::new()),
                Physical::INT32 => Values::Int32(Vec::new()),
                Physical::INT64 => Values::Int64(Vec::new()),
                Physical::FLOAT => Values::Float(Vec::new()),
                Physical::DOUBLE => Values::Double(Vec::new()),
                Physical::FIXED_LEN_BYTE_ARRAY => Values::Fixed(Vec::new()),
                _ => Values::Bytes(Vec::new()),
            },
            levels: Vec::new(),
        }
    }

    fn push(&mut self, cql_type: &CqlType, value: &Value) {
        let is_there = match value {
            Value::Null => false,
            Value::Bytes(bytes) => self.push_bytes(cql_type, bytes),
            Value::Elements(elements) => self.push_bytes(cql_type, &frozen(elements, cql_type)),
        };
        self.levels.push(i16::from(is_there));
    }

    /// False for bytes that are no value of the type, such as an empty `int`: null stands for it.
    fn push_bytes(&mut self, cql_type: &CqlType, bytes: &[u8]) -> bool {
        match &mut self.values {
            Values::Boolean(values) => push_some(values, bytes.first().map(|byte| *byte != 0)),
            Values::Int32(values) => push_some(
                values,
                match self.form {
                    Form::Date => {
                        fixed(bytes).map(|days| u32::from_be_bytes(days).wrapping_sub(DATE_OF_1970) as i32)
                    }
                    Form::Int32(1) => fixed(bytes).map(|bytes| i32::from(i8::from_be_bytes(bytes))),
                    Form::Int32(2) => fixed(bytes).map(|bytes| i32::from(i16::from_be_bytes(bytes))),
                    _ => fixed(bytes).map(i32::from_be_bytes),
                },
            ),
            Values::Int64(values) => push_some(values, fixed(bytes).map(i64::from_be_bytes)),
            Values::Float(values) => push_some(values, fixed(bytes).map(f32::from_be_bytes)),
            Values::Double(values) => push_some(values, fixed(bytes).map(f64::from_be_bytes)),
            Values::Fixed(values) => push_some(
                values,
                fixed::<16>(bytes).map(|bytes| FixedLenByteArray::from(bytes.to_vec())),
            ),
            Values::Bytes(values) => push_some(
                values,
                match self.form {
                    Form::Written if bytes.is_empty() => None,
                    Form::Written => cql_type.to_text(bytes).ok().map(String::into_bytes),
                    Form::Json => {
                        let mut text = String::new();
                        write_json_value(&mut text, cql_type, bytes);
                        Some(text.into_bytes())
                    }
                    _ => Some(bytes.to_vec()),
                }
                .map(ByteArray::from),
            ),
        }
    }

    fn write(&mut self, mut column: SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        let levels = &mut self.levels;
        match &mut self.values {
            Values::Boolean(values) => write_values::<BoolType>(&mut column, values, levels)?,
            Values::Int32(values) => write_values::<Int32Type>(&mut column, values, levels)?,
            Values::Int64(values) => write_values::<Int64Type>(&mut column, values, levels)?,
            Values::Float(values) => write_values::<FloatType>(&mut column, values, levels)?,
            Values::Double(values) => write_values::<DoubleType>(&mut column, values, levels)?,
            Values::Fixed(values) => write_values::<FixedLenByteArrayType>(&mut column, values, levels)?,
            Values::Bytes(values) => write_values::<ByteArrayType>(&mut column, values, levels)?,
        }
        column.close()
    }
}

fn write_values<T: DataType>(
    column: &mut SerializedColumnWriter<'_>,
    values: &mut Vec<T::T>,
    levels: &mut Vec<i16>,
) -> Result<(), ParquetError> {
    column.typed::<T>().write_batch(values, Some(levels), None)?;
    values.clear();
    levels.clear();
    Ok(())
}

fn push_some<T>(values: &mut Vec<T>, value: Option<T>) -> bool {
    let is_there = value.is_some();
    values.extend(value);
    is_there
}

fn fixed<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    bytes.try_into().ok()
}

/// Cells of a multi-cell column as the bytes of the frozen one.
fn frozen(elements: &[(Vec<u8>, Vec<u8>)], cql_type: &CqlType) -> Vec<u8> {
    let mut out = Vec::new();
    let push = |out: &mut Vec<u8>, bytes: &[u8]| {
        out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
        out.extend_from_slice(bytes);
    };
    if let CqlType::UserDefined { definition, .. } = cql_type {
        for index in 0..definition.fields.len() as u16 {
            match elements.iter().find(|(path, _)| *path == index.to_be_bytes()) {
                Some((_, value)) => push(&mut out, value),
                None => out.extend_from_slice(&(-1_i32).to_be_bytes()),
            }
        }
        return out;
    }
    out.extend_from_slice(&(elements.len() as u32).to_be_bytes());
    for (path, value) in elements {
        match cql_type {
            CqlType::Set { .. } => push(&mut out, path),
            CqlType::Map { .. } => {
                push(&mut out, path);
                push(&mut out, value);
            }
            _ => push(&mut out, value),
        }
    }
    out
}

#[derive(Debug)]
struct Group {
    columns: Vec<Column>,
    rows: usize,
    bytes: usize,
}

impl Group {
    fn push(&mut self, table: &TableMetadata, values: &[Value]) {
        for ((column, value), metadata) in self.columns.iter_mut().zip(values).zip(&table.columns) {
            column.push(&metadata.cql_type, value);
            self.bytes += match value {
                Value::Null => 0,
                Value::Bytes(bytes) => bytes.len(),
                Value::Elements(elements) => elements
                    .iter()
                    .map(|(path, value)| path.len() + value.len())
                    .sum(),
            };
        }
        self.rows += 1;
    }

    fn is_full(&self) -> bool {
        self.rows >= GROUP_ROWS_MAX || self.bytes >= GROUP_BYTES_MAX
    }

    fn write<W: Write + Send>(&mut self, writer: &mut SerializedFileWriter<W>) -> Result<(), ParquetError> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut group = writer.next_row_group()?;
        for column in &mut self.columns {
            if let Some(writer) = group.next_column()? {
                column.write(writer)?;
            }
        }
        group.close()?;
        (self.rows, self.bytes) = (0, 0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_of_collections_freeze() {
        let elements = vec![(vec![1], vec![2, 3])];
        let list = CqlType::List {
            element: Arc::new(CqlType::Blob),
            frozen: false,
        };
        assert_eq!(frozen(&elements, &list), [0, 0, 0, 1, 0, 0, 0, 2, 2, 3]);
    }
}
