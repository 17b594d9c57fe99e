//! The serialization header: which columns an SSTable's rows have, in which order and of which types.

use std::path::Path;
use std::sync::Arc;

use helenus_schema::{ClusteringOrder, ColumnId, ColumnMetadata, TableMetadata};
use helenus_types::{CqlType, ParsedClass};

use crate::decode::{ByteReader, DecodeError, push_bytes_after_vint, push_unsigned_vint};
use crate::error::OpenError;
use crate::meta::encoding_stats::EncodingStats;
use crate::rows::clustering_codec::ClusteringCodec;
use crate::version::Version;

/// The header as it is stored: names and type names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeaderComponent {
    pub stats: EncodingStats,
    pub key_class: String,
    pub clustering_classes: Vec<String>,
    pub static_columns: Vec<(String, String)>,
    pub regular_columns: Vec<(String, String)>,
}

/// The header bound to a table: what the row codecs work with.
#[derive(Clone, Debug)]
pub(crate) struct Header {
    pub version: Version,
    pub stats: EncodingStats,
    pub clustering: ClusteringCodec,
    pub statics: RowColumns,
    pub regulars: RowColumns,
}

/// The static or the regular columns, in the order of cells: single-cell before multi-cell, each by name.
#[derive(Clone, Debug)]
pub(crate) struct RowColumns {
    pub columns: Vec<StoredColumn>,
    /// True if the cells of every row are those of a packed row, in its order: single cells of columns by ascending id, none of
    /// which was dropped.
    pub is_plain: bool,
    /// The index within `columns` by column id.
    index_by_id: Vec<Option<u16>>,
}

#[derive(Clone, Debug)]
pub(crate) struct StoredColumn {
    pub name: Arc<str>,
    /// `None` for a column that was dropped since: its cells are skipped.
    pub id: Option<ColumnId>,
    pub is_multi_cell: bool,
    /// The length of every non-empty value, where the type fixes it. Elements of multi-cell columns have a length.
    pub fixed_length: Option<usize>,
    /// Cells written at or before it belong to a dropped column of the same name. Microseconds.
    pub dropped_at_us: Option<i64>,
}

impl HeaderComponent {
    pub fn of(table: &TableMetadata, stats: EncodingStats) -> Self {
        let columns = |columns: &[ColumnMetadata]| {
            let mut sorted: Vec<&ColumnMetadata> = columns.iter().collect();
            sorted.sort_by(|left, right| cell_order(left).cmp(&cell_order(right)));
            sorted
                .iter()
                .map(|column| (column.name.to_string(), column.cql_type.to_marshal_class()))
                .collect::<Vec<_>>()
        };
        HeaderComponent {
            stats,
            key_class: CqlType::key_marshal_class(
                table.partition_key().iter().map(|column| &column.cql_type),
            ),
            clustering_classes: table.clustering().iter().map(clustering_class).collect(),
            static_columns: columns(table.statics()),
            regular_columns: columns(table.regulars()),
        }
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        self.stats.encode(out);
        push_bytes_after_vint(out, self.key_class.as_bytes());
        push_unsigned_vint(out, self.clustering_classes.len() as u64);
        for class in &self.clustering_classes {
            push_bytes_after_vint(out, class.as_bytes());
        }
        for columns in [&self.static_columns, &self.regular_columns] {
            push_unsigned_vint(out, columns.len() as u64);
            for (name, class) in columns {
                push_bytes_after_vint(out, name.as_bytes());
                push_bytes_after_vint(out, class.as_bytes());
            }
        }
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = ByteReader::new(bytes);
        let stats = EncodingStats::decode(&mut reader)?;
        let key_class = reader.text_after_vint()?.to_owned();
        let clustering_count = reader.count_vint(1)?;
        let clustering_classes = (0..clustering_count)
            .map(|_| reader.text_after_vint().map(str::to_owned))
            .collect::<Result<_, _>>()?;
        let static_columns = decode_columns(&mut reader)?;
        let regular_columns = decode_columns(&mut reader)?;
        reader.finish()?;
        Ok(HeaderComponent {
            stats,
            key_class,
            clustering_classes,
            static_columns,
            regular_columns,
        })
    }

    /// Maps the stored columns to those of the table as it is now.
    pub fn bind(&self, table: &TableMetadata, version: Version, file: &Path) -> Result<Header, OpenError> {
        let expected = HeaderComponent::of(table, self.stats);
        let wrong_table = |what, stored: &str, expected: &str| OpenError::WrongTable {
            file: file.to_path_buf(),
            what,
            stored: stored.to_owned(),
            expected: expected.to_owned(),
        };
        if self.key_class != expected.key_class {
            return Err(wrong_table(
                "the partition key",
                &self.key_class,
                &expected.key_class,
            ));
        }
        let clustering_types = self.clustering_types(table).ok_or_else(|| {
            let stored = self.clustering_classes.join(", ");
            wrong_table(
                "the clustering key",
                &stored,
                &expected.clustering_classes.join(", "),
            )
        })?;
        Ok(Header {
            version,
            stats: self.stats,
            clustering: ClusteringCodec::new(clustering_types.iter()),
            statics: RowColumns::bind(&self.static_columns, table.statics(), table, file)?,
            regulars: RowColumns::bind(&self.regular_columns, table.regulars(), table, file)?,
        })
    }

    /// The types the clustering values were stored with, if the table's order is still theirs: a user type may have
    /// got more fields since.
    fn clustering_types(&self, table: &TableMetadata) -> Option<Vec<CqlType>> {
        if self.clustering_classes.len() != table.clustering().len() {
            return None;
        }
        let stored = self
            .clustering_classes
            .iter()
            .zip(table.clustering())
            .map(|(class, column)| {
                let stored = CqlType::from_marshal_class(class).ok()?;
                // Inside a frozen type the class names say nothing of what else is frozen, so user types are compared
                // as the tuples of their fields, all of whose parts are.
                let (now, then) = (
                    column.cql_type.expand_user_types(),
                    stored.cql_type.expand_user_types(),
                );
                let keeps_order = stored.is_reversed == (column.order == ClusteringOrder::Descending)
                    && (now == then || now.is_compatible_with(&then));
                keeps_order.then_some(stored.cql_type)
            });
        stored.collect()
    }
}

impl RowColumns {
    fn bind(
        stored: &[(String, String)],
        current: &[ColumnMetadata],
        table: &TableMetadata,
        file: &Path,
    ) -> Result<Self, OpenError> {
        let mut columns = Vec::with_capacity(stored.len());
        for (name, class) in stored {
            columns.push(StoredColumn::bind(name, class, current, table, file)?);
        }
        let ids = columns
            .iter()
            .enumerate()
            .filter_map(|(index, column)| Some((index, column.id?)));
        let mut index_by_id = vec![
            None;
            ids.clone()
                .map(|(_, id)| usize::from(id.0) + 1)
                .max()
                .unwrap_or(0)
        ];
        for (index, id) in ids {
            index_by_id[usize::from(id.0)] = Some(index as u16);
        }
        let is_kept = |column: &StoredColumn| {
            column.id.is_some() && column.dropped_at_us.is_none() && !column.is_multi_cell
        };
        Ok(RowColumns {
            is_plain: columns.iter().all(is_kept) && columns.is_sorted_by_key(|column| column.id),
            columns,
            index_by_id,
        })
    }

    /// `None` for a column that is not stored here, such as one dropped since the row was written.
    pub fn index_of(&self, id: ColumnId) -> Option<usize> {
        self.index_by_id
            .get(usize::from(id.0))
            .copied()
            .flatten()
            .map(usize::from)
    }
}

impl StoredColumn {
    fn bind(
        name: &str,
        class: &str,
        current: &[ColumnMetadata],
        table: &TableMetadata,
        file: &Path,
    ) -> Result<Self, OpenError> {
        let incompatible = || OpenError::IncompatibleColumn {
            file: file.to_path_buf(),
            column: name.to_owned(),
            stored: class.to_owned(),
        };
        let ParsedClass { cql_type: stored, .. } =
            CqlType::from_marshal_class(class).map_err(|_| incompatible())?;
        let column = current.iter().find(|column| &*column.name == name);
        let dropped = table
            .dropped_columns
            .iter()
            .filter(|dropped| &*dropped.name == name);
        let dropped = dropped.max_by_key(|dropped| dropped.dropped_at_us);
        if column.is_none() && dropped.is_none() {
            return Err(OpenError::UnknownColumn {
                file: file.to_path_buf(),
                column: name.to_owned(),
            });
        }
        let is_multi_cell = stored.is_multi_cell();
        if column.is_some_and(|column| column.cql_type.is_multi_cell() != is_multi_cell) {
            return Err(incompatible());
        }
        // What is newer than a column's deletion is there again when the column comes back.
        let of_dropped = dropped.filter(|dropped| dropped.cql_type.is_multi_cell() == is_multi_cell);
        let id = match column {
            Some(column) => Some(column.id),
            None => of_dropped.map(|dropped| dropped.id),
        };
        Ok(StoredColumn {
            name: name.into(),
            id,
            is_multi_cell,
            fixed_length: if is_multi_cell {
                None
            } else {
                stored.value_length_if_fixed()
            },
            dropped_at_us: dropped.map(|dropped| dropped.dropped_at_us),
        })
    }
}

fn decode_columns(reader: &mut ByteReader<'_>) -> Result<Vec<(String, String)>, DecodeError> {
    let offset = reader.position();
    let count = reader.count_vint(2)?;
    if count > usize::from(u16::MAX) {
        return Err(DecodeError::malformed(offset, "at most 65,535 columns", count));
    }
    (0..count)
        .map(|_| {
            Ok((
                reader.text_after_vint()?.to_owned(),
                reader.text_after_vint()?.to_owned(),
            ))
        })
        .collect()
}

/// Cells lie in this order: single-cell columns before multi-cell ones, each by the bytes of their names.
fn cell_order(column: &ColumnMetadata) -> (bool, &[u8]) {
    (column.cql_type.is_multi_cell(), column.name.as_bytes())
}

/// The types behind the names of a header's clustering columns, whichever way they are ordered.
pub(crate) fn clustering_types(classes: &[String]) -> Option<Vec<CqlType>> {
    classes
        .iter()
        .map(|class| Some(CqlType::from_marshal_class(class).ok()?.cql_type))
        .collect()
}

fn clustering_class(column: &ColumnMetadata) -> String {
    let is_reversed = column.order == ClusteringOrder::Descending;
    ParsedClass {
        cql_type: column.cql_type.clone(),
        is_reversed,
    }
    .to_marshal_class()
}
