//! Conditions with their values bound, and whether a row meets them.

use std::borrow::Cow;
use std::cmp::Ordering;

use helenus_cql::ast::Operator;
use helenus_schema::ColumnMetadata;
use helenus_types::CqlType;
use helenus_types::value::collection::collection_count;
use helenus_types::value::{CollectionElements, MapEntries, TupleComponents};

use super::plan::{ColumnCondition, Part, Test};
use crate::CqlError;
use crate::clause::relation::operator_text;
use crate::select::RowView;
use crate::term::{Evaluated, EvaluationContext, Expression};

/// A condition on one column.
#[derive(Clone, Debug)]
pub struct BoundCondition<'p> {
    column: &'p ColumnMetadata,
    part: BoundPart<'p>,
    cql_type: &'p CqlType,
    test: BoundTest<'p>,
}

#[derive(Clone, Debug)]
enum BoundPart<'p> {
    Whole,
    Index(usize),
    Key(Cow<'p, [u8]>),
    Field(usize),
    /// An element whose key is unset: there is none.
    Nothing,
}

#[derive(Clone, Debug)]
enum BoundTest<'p> {
    /// With null, whether there is a value.
    Compare(Operator, Option<Cow<'p, [u8]>>),
    In(Vec<Option<Cow<'p, [u8]>>>),
    /// Test for something unset in the column: never met.
    Never,
}

impl<'p> BoundCondition<'p> {
    pub fn bind(condition: &'p ColumnCondition, context: &EvaluationContext<'p>) -> Result<Self, CqlError> {
        let column = &*condition.column;
        let part = match &condition.part {
            Part::Whole => BoundPart::Whole,
            Part::Field(index) => BoundPart::Field(*index),
            Part::Element(key) => bind_element(column, key, context)?,
        };
        let test = match &condition.test {
            Test::Compare(operator, value) => bind_comparison(condition, *operator, value, context)?,
            Test::In(values) => {
                let mut bound = Vec::with_capacity(values.len());
                for value in values {
                    match value.evaluate(context)? {
                        Evaluated::Unset => {}
                        Evaluated::Null => bound.push(None),
                        Evaluated::Bytes(bytes) => bound.push(condition.operand(bytes)),
                    }
                }
                BoundTest::In(bound)
            }
            Test::InMarker(list) => match list.evaluate(context)? {
                Evaluated::Unset => return Err(unset()),
                Evaluated::Null => return Err(invalid!("Invalid null list in IN condition")),
                Evaluated::Bytes(list) => {
                    let values = CollectionElements::new(&list, 1).into_iter().flatten();
                    let operand = |value: &[u8]| condition.operand(Cow::Owned(value.to_vec()));
                    BoundTest::In(values.map(|value| value.and_then(operand)).collect())
                }
            },
        };
        Ok(BoundCondition {
            column,
            part,
            cql_type: &condition.cql_type,
            test,
        })
    }

    /// No row at all is one without values.
    pub fn is_met_by(&self, row: Option<&RowView<'_>>) -> bool {
        let whole = row.and_then(|row| row.value(self.column));
        match &self.test {
            BoundTest::Never => false,
            BoundTest::Compare(operator @ (Operator::Contains | Operator::ContainsKey), operand) => {
                let looked_for = operand.as_deref().unwrap_or_default();
                whole.is_some_and(|whole| contains(&self.column.cql_type, *operator, &whole, looked_for))
            }
            BoundTest::Compare(operator, operand) => {
                let value = self.part_of(whole.as_ref());
                self.compare(value, *operator, operand.as_deref())
            }
            BoundTest::In(operands) => {
                let value = self.part_of(whole.as_ref());
                let equals = |operand: &Option<Cow<'_, [u8]>>| {
                    self.compare(value, Operator::Equal, operand.as_deref())
                };
                operands.iter().any(equals)
            }
        }
    }

    fn part_of<'v>(&self, whole: Option<&'v Cow<'_, [u8]>>) -> Option<&'v [u8]> {
        let whole: &'v [u8] = whole?;
        match &self.part {
            BoundPart::Whole => Some(whole),
            BoundPart::Nothing => None,
            BoundPart::Index(index) => CollectionElements::new(whole, 1)
                .into_iter()
                .flatten()
                .nth(*index)?,
            BoundPart::Field(index) => TupleComponents::new(whole).nth(*index)?,
            BoundPart::Key(key) => {
                let CqlType::Map { key: key_type, .. } = &self.column.cql_type else {
                    return None;
                };
                let mut entries = MapEntries::new(whole).into_iter().flatten();
                entries.find_map(|(other, value)| key_type.compare(other, key).is_eq().then_some(value))
            }
        }
    }

    fn compare(&self, value: Option<&[u8]>, operator: Operator, operand: Option<&[u8]>) -> bool {
        let ordering = match (value, operand) {
            (Some(value), Some(operand)) => self.cql_type.compare(value, operand),
            (None, None) => return operator == Operator::Equal,
            _ => return operator == Operator::NotEqual,
        };
        match operator {
            Operator::Equal => ordering.is_eq(),
            Operator::NotEqual => ordering.is_ne(),
            Operator::Less => ordering.is_lt(),
            Operator::LessOrEqual => ordering.is_le(),
            Operator::Greater => ordering.is_gt(),
            Operator::GreaterOrEqual => ordering.is_ge(),
            Operator::Contains | Operator::ContainsKey | Operator::Like => false,
        }
    }
}

impl ColumnCondition {
    /// A collection of cells that is empty is none.
    fn operand<'e>(&self, bytes: Cow<'e, [u8]>) -> Option<Cow<'e, [u8]>> {
        let is_cells = matches!(self.part, Part::Whole)
            && self.cql_type.is_collection()
            && self.cql_type.is_multi_cell();
        (!is_cells || collection_count(&bytes) != Some(0)).then_some(bytes)
    }
}

fn unset() -> CqlError {
    invalid!("Invalid 'unset' value in condition")
}

fn bind_element<'p>(
    column: &ColumnMetadata,
    key: &'p Expression,
    context: &EvaluationContext<'p>,
) -> Result<BoundPart<'p>, CqlError> {
    let is_map = matches!(column.cql_type, CqlType::Map { .. });
    match key.evaluate(context)? {
        Evaluated::Null if is_map => Err(invalid!("Invalid null value for map element access")),
        Evaluated::Null => Err(invalid!("Invalid null value for list element access")),
        Evaluated::Unset if is_map => Ok(BoundPart::Nothing),
        Evaluated::Unset => Err(invalid!("Invalid unset value for list element access")),
        Evaluated::Bytes(key) if is_map => Ok(BoundPart::Key(key)),
        Evaluated::Bytes(index) => {
            let index = i32::from_be_bytes((*index).try_into().unwrap_or([0xff; 4]));
            let index =
                usize::try_from(index).map_err(|_| invalid!("Invalid negative list index {index}"))?;
            Ok(BoundPart::Index(index))
        }
    }
}

fn bind_comparison<'p>(
    condition: &ColumnCondition,
    operator: Operator,
    value: &'p Expression,
    context: &EvaluationContext<'p>,
) -> Result<BoundTest<'p>, CqlError> {
    let is_contains = matches!(operator, Operator::Contains | Operator::ContainsKey);
    let bytes = match value.evaluate(context)? {
        Evaluated::Unset if is_contains => return Ok(BoundTest::Never),
        Evaluated::Unset => return Err(unset()),
        Evaluated::Bytes(bytes) if is_contains => return Ok(BoundTest::Compare(operator, Some(bytes))),
        Evaluated::Bytes(bytes) => Some(bytes),
        Evaluated::Null => None,
    };
    let is_value = bytes.is_some();
    let operand = bytes.and_then(|bytes| condition.operand(bytes));
    let is_order = !matches!(operator, Operator::Equal | Operator::NotEqual);
    let text = operator_text(operator);
    match operand {
        None if is_order && is_value => {
            let kind = match &condition.cql_type {
                CqlType::List { .. } => "list",
                CqlType::Set { .. } => "set",
                _ => "map",
            };
            Err(invalid!(
                "Invalid comparison with an empty {kind} for operator \"{text}\""
            ))
        }
        None if is_order => Err(invalid!("Invalid comparison with null for operator \"{text}\"")),
        operand => Ok(BoundTest::Compare(operator, operand)),
    }
}

fn contains(cql_type: &CqlType, operator: Operator, whole: &[u8], looked_for: &[u8]) -> bool {
    match (cql_type, operator) {
        (CqlType::Map { key, .. }, Operator::ContainsKey) => {
            let mut entries = MapEntries::new(whole).into_iter().flatten();
            entries.any(|(other, _)| key.compare(other, looked_for) == Ordering::Equal)
        }
        (CqlType::Map { value, .. }, _) => {
            let mut entries = MapEntries::new(whole).into_iter().flatten();
            entries.any(|(_, other)| value.compare(other, looked_for) == Ordering::Equal)
        }
        (CqlType::List { element, .. } | CqlType::Set { element, .. }, _) => {
            let mut elements = CollectionElements::new(whole, 1).into_iter().flatten().flatten();
            elements.any(|other| element.compare(other, looked_for) == Ordering::Equal)
        }
        _ => false,
    }
}
