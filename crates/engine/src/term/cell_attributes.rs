//! `writetime`, `maxwritetime` and `ttl` of columns and their parts.

use helenus_cql::ast::CellAttribute;
use helenus_schema::{ColumnKind, ColumnMetadata};
use helenus_types::CqlType;

use super::raw_term::attribute_name;
use super::select_clause::Selected;
use super::{Expression, RawTerm, Typing};
use crate::CqlError;
use crate::select::Fetched;

impl Typing<'_> {
    /// The column under any modifiers.
    fn attribute_column(&self, of: &RawTerm) -> Result<&ColumnMetadata, CqlError> {
        match of {
            RawTerm::Column(name) => self.column(name),
            RawTerm::Element { of, .. } | RawTerm::Slice { of, .. } | RawTerm::Field { of, .. } => {
                self.attribute_column(of)
            }
            other => Err(invalid!("{other} is not a column")),
        }
    }

    pub(super) fn cell_attribute_type(&self, attribute: CellAttribute, of: &RawTerm) -> Option<CqlType> {
        let column = self.attribute_column(of).ok()?;
        let single = match attribute {
            CellAttribute::Ttl => CqlType::Int,
            CellAttribute::WriteTime | CellAttribute::MaxWriteTime => CqlType::Bigint,
        };
        let is_list = attribute != CellAttribute::MaxWriteTime
            && column.cql_type.is_multi_cell()
            && matches!(of, RawTerm::Column(_) | RawTerm::Slice { .. });
        Some(if is_list {
            CqlType::list(single, false)
        } else {
            single
        })
    }

    pub(super) fn select_cell_attribute(
        &self,
        attribute: CellAttribute,
        of: &RawTerm,
    ) -> Result<Selected, CqlError> {
        let column = self.attribute_column(of)?;
        let (name, column_name) = (attribute_name(attribute), &column.name);
        if matches!(column.kind, ColumnKind::PartitionKey | ColumnKind::Clustering) {
            return Err(invalid!(
                "Cannot use selection function {name} on PRIMARY KEY part {column_name}"
            ));
        }
        let selected = self.select(of, None)?;
        let times = self.fetch(match attribute {
            CellAttribute::Ttl => Fetched::Ttl(column.id),
            CellAttribute::WriteTime | CellAttribute::MaxWriteTime => Fetched::WriteTime(column.id),
        });
        let expression = match selected.expression {
            // A frozen value is one cell: whatever part is selected has the cell's times.
            _ if !column.cql_type.is_multi_cell() => times,
            Expression::Element {
                of, key, collection, ..
            } => Expression::ParallelElement {
                list: Box::new(times),
                of,
                key,
                collection,
            },
            Expression::Slice {
                of,
                from,
                to,
                collection,
                ..
            } => Expression::ParallelSlice {
                list: Box::new(times),
                of,
                from,
                to,
                collection,
            },
            Expression::Field { index, .. } => Expression::ListEntry {
                list: Box::new(times),
                index,
            },
            _ => times,
        };
        let cql_type = self.cell_attribute_type(attribute, of).unwrap_or(CqlType::Bigint);
        let is_maximum = attribute == CellAttribute::MaxWriteTime
            && column.cql_type.is_multi_cell()
            && matches!(of, RawTerm::Column(_) | RawTerm::Slice { .. });
        Ok(Selected {
            expression: if is_maximum {
                Expression::ListMaximum(Box::new(expression))
            } else {
                expression
            },
            cql_type,
            name: format!("{name}({})", selected.name),
        })
    }
}
