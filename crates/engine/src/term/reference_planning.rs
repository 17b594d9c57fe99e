//! References of a transaction's statements: rows that it has read, and the values of their columns.
//!
//! A reference becomes a bind marker behind those of the client: the values that were read are bound there.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::sync::Arc;

use helenus_cql::ast::{ConditionTarget, Reference};
use helenus_schema::ColumnMetadata;
use helenus_types::CqlType;
use helenus_types::value::{CollectionElements, MapEntries, TupleComponents};

use super::reference::{LetRow, Part, ReferencePlan, References};
use super::{EvaluationContext, Expression, Receiver, StatementScope, Typing};
use crate::CqlError;

impl References {
    /// `markers` is how many bind markers the client has.
    pub fn new(rows: Vec<LetRow>, markers: usize) -> Self {
        References {
            rows,
            first_marker: markers,
            used: RefCell::default(),
        }
    }

    pub fn row(&self, name: &str) -> Result<(usize, &LetRow), CqlError> {
        let found = self.rows.iter().enumerate().find(|(_, row)| row.name == name);
        found.ok_or_else(|| invalid!("Cannot resolve reference to tuple '{name}'."))
    }

    pub(crate) fn used_count(&self) -> usize {
        self.used.borrow().len()
    }

    /// In the order of their markers.
    pub(crate) fn into_used(self) -> Vec<ReferencePlan> {
        self.used.into_inner()
    }

    pub fn column(&self, reference: &Reference) -> Result<(usize, &LetRow, &ColumnMetadata), CqlError> {
        let (index, row) = self.row(&reference.row)?;
        let name = reference.column.as_deref().unwrap_or_default();
        let column = row
            .table
            .column(name)
            .filter(|column| row.columns.contains(&column.id));
        let column =
            column.ok_or_else(|| invalid!("Column '{name}' does not exist in tuple '{}'.", reference.row))?;
        Ok((index, row, column))
    }

    /// The type of what is referred to; none if there is no such thing.
    pub(super) fn exact_type(&self, reference: &Reference) -> Option<CqlType> {
        let (_, _, column) = self.column(reference).ok()?;
        part_type(column, &reference.target).ok()
    }

    /// The marker that stands for a value.
    pub(super) fn marker(
        &self,
        scope: StatementScope<'_>,
        reference: &Reference,
    ) -> Result<Expression, CqlError> {
        let plan = self.plan(scope, reference)?;
        let cql_type = plan.cql_type.clone();
        let mut used = self.used.borrow_mut();
        used.push(plan);
        Ok(Expression::Marker {
            index: self.first_marker + used.len() - 1,
            cql_type,
        })
    }

    pub fn plan(&self, scope: StatementScope<'_>, reference: &Reference) -> Result<ReferencePlan, CqlError> {
        let (index, row, column) = self.column(reference)?;
        let cql_type = part_type(column, &reference.target)?;
        let part = match &reference.target {
            ConditionTarget::Whole => Part::Whole,
            ConditionTarget::Field(field) => {
                let CqlType::UserDefined { definition, .. } = &column.cql_type else {
                    return Err(no_field(column));
                };
                Part::Field(definition.field_position(field).unwrap_or_default())
            }
            ConditionTarget::Element(key) => {
                let own = Receiver::column(column);
                let receiver = match &column.cql_type {
                    CqlType::List { .. } => own.part("idx", &CqlType::Int),
                    CqlType::Map { key, .. } => own.part("key", key),
                    CqlType::Set { element, .. } => own.part("value", element),
                    _ => return Err(no_element(column)),
                };
                let typing = Typing::terms(StatementScope {
                    table: &row.table,
                    references: None,
                    ..scope
                });
                Part::Element(typing.term(&key.into(), &receiver)?)
            }
        };
        Ok(ReferencePlan {
            row: index,
            column: Arc::new(column.clone()),
            cql_type,
            part,
        })
    }
}

fn part_type(column: &ColumnMetadata, target: &ConditionTarget) -> Result<CqlType, CqlError> {
    match (target, &column.cql_type) {
        (ConditionTarget::Whole, cql_type) => Ok(cql_type.clone()),
        (ConditionTarget::Element(_), CqlType::List { element, .. } | CqlType::Set { element, .. }) => {
            Ok((**element).clone())
        }
        (ConditionTarget::Element(_), CqlType::Map { value, .. }) => Ok((**value).clone()),
        (ConditionTarget::Element(_), _) => Err(no_element(column)),
        (ConditionTarget::Field(field), CqlType::UserDefined { definition, .. }) => {
            let position = definition
                .field_position(field)
                .ok_or_else(|| invalid!("Unknown field {field} for column {}", column.name))?;
            Ok(definition.fields[position].1.clone())
        }
        (ConditionTarget::Field(_), _) => Err(no_field(column)),
    }
}

fn no_element(column: &ColumnMetadata) -> CqlError {
    invalid!(
        "Invalid element access syntax for non-collection column {}",
        column.name
    )
}

fn no_field(column: &ColumnMetadata) -> CqlError {
    invalid!("Invalid field access syntax for non-UDT column {}", column.name)
}

impl ReferencePlan {
    /// The value, of the column's.
    pub fn part_of(
        &self,
        whole: &[u8],
        context: &EvaluationContext<'_>,
    ) -> Result<Option<Vec<u8>>, CqlError> {
        let key = match &self.part {
            Part::Whole => return Ok(Some(whole.to_vec())),
            Part::Field(index) => {
                let field = TupleComponents::new(whole).nth(*index).flatten();
                return Ok(field.map(<[u8]>::to_vec));
            }
            Part::Element(key) => key.evaluate(context)?,
        };
        let Some(key) = key.bytes() else {
            return Err(invalid!(
                "Invalid null value for {} element access",
                self.column.name
            ));
        };
        let found = match &self.column.cql_type {
            CqlType::List { .. } => {
                let index = <[u8; 4]>::try_from(key).map_or(-1, i32::from_be_bytes);
                let index =
                    usize::try_from(index).map_err(|_| invalid!("Invalid negative list index {index}"))?;
                let mut elements = CollectionElements::new(whole, 1).into_iter().flatten();
                elements.nth(index).flatten()
            }
            CqlType::Set { element, .. } => {
                let mut elements = CollectionElements::new(whole, 1).into_iter().flatten().flatten();
                elements.find(|other| element.compare(other, key) == Ordering::Equal)
            }
            CqlType::Map { key: key_type, .. } => {
                let mut entries = MapEntries::new(whole).into_iter().flatten();
                let entry = entries.find(|(other, _)| key_type.compare(other, key) == Ordering::Equal);
                entry.map(|(_, value)| value)
            }
            _ => None,
        };
        Ok(found.map(<[u8]>::to_vec))
    }
}
