//! The IF clause of one statement, typed.

use std::sync::Arc;

use helenus_cql::ast::{self, ConditionTarget, ConditionTest, InValues, Operator, Using};
use helenus_rows::clustering::ClusteringComparator;
use helenus_schema::{ColumnKind, ColumnMetadata};
use helenus_types::CqlType;

use super::answer::{NotApplied, applied_metadata};
use super::rows::ReadColumns;
use crate::CqlError;
use crate::clause::relation::operator_text;
use crate::heap_bytes::{HeapBytes, flat_bytes};
use crate::prepare::ResultMetadata;
use crate::term::{EvaluationContext, Expression, RawTerm, Receiver, Typing};

/// Conditions are looked at one after the other in one turn of a shard.
const CONDITIONS_MAX: usize = 1_000;

/// Conditions of a statement, and the form of its answers.
#[derive(Clone, Debug)]
pub struct ConditionPlan {
    pub conditions: Conditions,
    /// Comparator of the table.
    pub comparator: Arc<ClusteringComparator>,
    /// Columns that a statement by itself reads.
    pub columns: ReadColumns,
    /// Metadata of the answer of a statement by itself.
    pub applied: Arc<ResultMetadata>,
    pub not_applied: Arc<NotApplied>,
}

#[derive(Clone, Debug)]
pub enum Conditions {
    NotExists,
    Exists,
    /// At least one, of columns of the row or of the static row.
    Columns {
        regular: Vec<ColumnCondition>,
        statics: Vec<ColumnCondition>,
    },
}

#[derive(Clone, Debug)]
pub struct ColumnCondition {
    pub column: Arc<ColumnMetadata>,
    pub part: Part,
    /// Type of what is compared.
    pub cql_type: CqlType,
    pub test: Test,
}

/// Part of a column that is compared.
#[derive(Clone, Debug)]
pub enum Part {
    Whole,
    Element(Expression),
    Field(usize),
}

#[derive(Clone, Debug)]
pub enum Test {
    Compare(Operator, Expression),
    In(Vec<Expression>),
    /// One marker for the whole list.
    InMarker(Expression),
}

impl ConditionPlan {
    /// Types the clause; none if there is none.
    pub fn prepare(
        typing: &Typing<'_>,
        clause: &ast::Conditions,
        if_not_exists: bool,
        using: &Using,
    ) -> Result<Option<Self>, CqlError> {
        let conditions = match clause {
            _ if if_not_exists => Conditions::NotExists,
            ast::Conditions::None => return Ok(None),
            ast::Conditions::Exists => Conditions::Exists,
            ast::Conditions::All(conditions) => {
                check_timestamp(using.timestamp.is_some())?;
                Conditions::prepare(typing, conditions)?
            }
        };
        let table = typing.scope.table;
        Ok(Some(ConditionPlan {
            comparator: Arc::new(ClusteringComparator::of(table)),
            // See `ModifyPlan::with_columns_read`.
            columns: ReadColumns::default(),
            applied: Arc::new(applied_metadata(table)),
            not_applied: Arc::new(NotApplied::new(table, conditions.columns())),
            conditions,
        }))
    }
}

pub fn check_timestamp(has_timestamp: bool) -> Result<(), CqlError> {
    match has_timestamp {
        true => Err(invalid!(
            "Cannot provide custom timestamp for conditional updates"
        )),
        false => Ok(()),
    }
}

impl Conditions {
    fn prepare(typing: &Typing<'_>, conditions: &[ast::Condition]) -> Result<Self, CqlError> {
        if conditions.len() > CONDITIONS_MAX {
            return Err(invalid!(
                "A statement has at most {CONDITIONS_MAX} conditions, this one has {}",
                conditions.len()
            ));
        }
        let (mut regular, mut statics) = (Vec::new(), Vec::new());
        for condition in conditions {
            let column = typing.column(&condition.column)?;
            let typed = ColumnCondition::prepare(typing, column, condition)?;
            match column.kind {
                ColumnKind::PartitionKey | ColumnKind::Clustering => {
                    return Err(invalid!(
                        "PRIMARY KEY column '{}' cannot have IF conditions",
                        column.name
                    ));
                }
                ColumnKind::Regular => regular.push(typed),
                ColumnKind::Static => statics.push(typed),
            }
        }
        Ok(Conditions::Columns { regular, statics })
    }

    /// Returns whether a column of a row, and not only of the static row, is compared.
    pub fn are_of_regular_columns(&self) -> bool {
        matches!(self, Conditions::Columns { regular, .. } if !regular.is_empty())
    }

    /// The columns that are compared, those of the row first; `None` where it is asked whether there is a row.
    pub fn columns(&self) -> Option<Vec<&ColumnMetadata>> {
        match self {
            Conditions::NotExists | Conditions::Exists => None,
            Conditions::Columns { regular, statics } => {
                let conditions = regular.iter().chain(statics);
                Some(conditions.map(|condition| &*condition.column).collect())
            }
        }
    }
}

impl ColumnCondition {
    pub fn prepare(
        typing: &Typing<'_>,
        column: &ColumnMetadata,
        condition: &ast::Condition,
    ) -> Result<Self, CqlError> {
        if column.cql_type.is_counter() {
            return Err(invalid!("Conditions on counters are not supported"));
        }
        let (part, receiver) = part(typing, column, &condition.target)?;
        let test = match &condition.test {
            ConditionTest::Compare {
                operator: operator @ (Operator::Contains | Operator::ContainsKey),
                value,
            } => contains(typing, column, *operator, &value.into())?,
            ConditionTest::Compare { operator, value } => {
                check_durations(&receiver.cql_type, *operator)?;
                Test::Compare(*operator, typing.term(&value.into(), &receiver)?)
            }
            ConditionTest::In(InValues::List(values)) => {
                let values = values.iter().map(|value| typing.term(&value.into(), &receiver));
                Test::In(values.collect::<Result<_, _>>()?)
            }
            ConditionTest::In(InValues::Marker(marker)) => {
                let list = CqlType::list(receiver.cql_type.clone(), false);
                let list = Receiver::new(format!("in({})", receiver.name), list);
                Test::InMarker(typing.term(&RawTerm::Marker(marker.clone()), &list)?)
            }
        };
        Ok(ColumnCondition {
            column: Arc::new(column.clone()),
            part,
            cql_type: receiver.cql_type,
            test,
        })
    }
}

/// Returns the part that is compared, and the receiver of what it is compared with.
fn part(
    typing: &Typing<'_>,
    column: &ColumnMetadata,
    target: &ConditionTarget,
) -> Result<(Part, Receiver), CqlError> {
    let (name, receiver) = (&column.name, Receiver::column(column));
    match target {
        ConditionTarget::Whole => Ok((Part::Whole, receiver)),
        ConditionTarget::Element(key) => {
            let (key_receiver, value_type) = match &column.cql_type {
                CqlType::List { element, .. } => (receiver.part("idx", &CqlType::Int), element),
                CqlType::Map { key, value, .. } => (receiver.part("key", key), value),
                CqlType::Set { .. } => {
                    return Err(invalid!("Invalid element access syntax for set column {name}"));
                }
                _ => {
                    return Err(invalid!(
                        "Invalid element access syntax for non-collection column {name}"
                    ));
                }
            };
            let key = typing.term(&key.into(), &key_receiver)?;
            Ok((Part::Element(key), receiver.part("value", value_type)))
        }
        ConditionTarget::Field(field) => {
            let CqlType::UserDefined { definition, .. } = &column.cql_type else {
                return Err(invalid!("Invalid field access syntax for non-UDT column {name}"));
            };
            let index = definition
                .field_position(field)
                .ok_or_else(|| invalid!("Unknown field {field} for column {name}"))?;
            let receiver = Receiver::new(format!("{name}.{field}"), definition.fields[index].1.clone());
            Ok((Part::Field(index), receiver))
        }
    }
}

fn contains(
    typing: &Typing<'_>,
    column: &ColumnMetadata,
    operator: Operator,
    value: &RawTerm,
) -> Result<Test, CqlError> {
    let (name, receiver) = (&column.name, Receiver::column(column));
    let is_key = operator == Operator::ContainsKey;
    let receiver = match (&column.cql_type, is_key) {
        (CqlType::Map { key, .. }, true) => receiver.part("key", key),
        (_, true) => return Err(invalid!("Cannot use CONTAINS KEY on non-map column {name}")),
        (CqlType::Map { value, .. }, false) => receiver.part("value", value),
        (CqlType::List { element, .. } | CqlType::Set { element, .. }, false) => {
            receiver.part("value", element)
        }
        (_, false) => return Err(invalid!("Cannot use CONTAINS on non-collection column {name}")),
    };
    Ok(Test::Compare(operator, typing.term(value, &receiver)?))
}

impl ColumnCondition {
    /// Returns whether it compares with a value.
    pub fn has_operand(&self, context: &EvaluationContext<'_>) -> Result<bool, CqlError> {
        match &self.test {
            Test::Compare(_, value) => Ok(value.evaluate(context)?.bytes().is_some()),
            Test::In(_) | Test::InMarker(_) => Ok(true),
        }
    }
}

fn check_durations(cql_type: &CqlType, operator: Operator) -> Result<(), CqlError> {
    if matches!(operator, Operator::Equal | Operator::NotEqual) || !cql_type.references_duration() {
        return Ok(());
    }
    Err(match cql_type {
        collection if collection.is_collection() => {
            invalid!("Slice conditions are not supported on collections containing durations")
        }
        CqlType::Tuple(_) => invalid!("Slice conditions are not supported on tuples containing durations"),
        CqlType::UserDefined { .. } => {
            invalid!("Slice conditions are not supported on UDTs containing durations")
        }
        _ => invalid!(
            "Slice conditions ( {} ) are not supported on durations",
            operator_text(operator)
        ),
    })
}

impl HeapBytes for ConditionPlan {
    fn heap_bytes(&self) -> usize {
        let conditions = match &self.conditions {
            Conditions::NotExists | Conditions::Exists => 0,
            Conditions::Columns { regular, statics } => regular.heap_bytes() + statics.heap_bytes(),
        };
        conditions + self.applied.heap_bytes() + self.not_applied.heap_bytes()
    }
}

impl HeapBytes for ColumnCondition {
    fn heap_bytes(&self) -> usize {
        let part = match &self.part {
            Part::Element(key) => key.heap_bytes(),
            Part::Whole | Part::Field(_) => 0,
        };
        let test = match &self.test {
            Test::Compare(_, value) | Test::InMarker(value) => value.heap_bytes(),
            Test::In(values) => flat_bytes(values) + values.iter().map(HeapBytes::heap_bytes).sum::<usize>(),
        };
        part + test + size_of::<ColumnMetadata>()
    }
}
