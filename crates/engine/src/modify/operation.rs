//! Changes of one column.

use helenus_cql::ast::{DeletionTarget, Operation as RawOperation, Term};
use helenus_schema::{ColumnId, ColumnMetadata};
use helenus_types::CqlType;
use helenus_vector::{Similarity, VectorOptions};

use crate::CqlError;
use crate::functions::{NativeFunction, addition_of, subtraction_of};
use crate::heap_bytes::HeapBytes;
use crate::term::{Expression, RawTerm, Receiver, Typing};
use crate::vector_value::check_indexed_vector;

/// A change of one column, typed.
#[derive(Clone, Debug)]
pub struct Operation {
    pub column: ColumnId,
    pub cql_type: CqlType,
    pub change: Change,
    /// Similarity of an index that orders the column's vectors: it does not take all of them.
    pub similarity: Option<Similarity>,
}

#[derive(Clone, Debug)]
pub enum Change {
    /// The whole value, of whatever type.
    Set(Expression),
    /// More elements for a list, at its end or, in the order given, at its start.
    Append(Expression),
    Prepend(Expression),
    /// More elements for a set or entries for a map.
    Add(Expression),
    /// Elements out of a set or keys out of a map, given as a set.
    Discard(Expression),
    /// Increment of a counter, or with `is_negated` decrement.
    Count {
        by: Expression,
        is_negated: bool,
    },
    /// Every element of a list that equals one of these.
    DiscardFromList(Expression),
    /// The sum, or for texts both after each other, of the column's own value and another one. Of conditional statements.
    AddToOwn {
        function: Box<NativeFunction>,
        value: Expression,
    },
    SetIndex {
        index: Expression,
        value: Expression,
    },
    SetKey {
        key: Expression,
        value: Expression,
    },
    SetField {
        index: i16,
        value: Expression,
    },
    Delete,
    DeleteIndex(Expression),
    /// An element of a set.
    DeleteElement(Expression),
    DeleteKey(Expression),
    DeleteField(i16),
}

/// Reading of the row before a statement changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowBefore {
    Unread,
    /// Conditional statements read it, and may add to it.
    OfCondition,
    /// And subtract, as Cassandra 6 lets them.
    OfTransaction,
}

impl Operation {
    pub fn needs_read(&self) -> bool {
        matches!(
            self.change,
            Change::DiscardFromList(_) | Change::SetIndex { .. } | Change::DeleteIndex(_)
        )
    }

    /// Returns whether it changes the value that it finds.
    pub fn adds_to_own(&self) -> bool {
        matches!(self.change, Change::AddToOwn { .. })
    }

    pub(super) fn new(column: &ColumnMetadata, change: Change) -> Self {
        Operation {
            column: column.id,
            cql_type: column.cql_type.clone(),
            change,
            similarity: None,
        }
    }

    /// Refuses a vector that the column's index has no place for.
    pub fn check_vector(&self, value: &[u8]) -> Result<(), CqlError> {
        match self.similarity {
            Some(similarity) => check_indexed_vector(similarity, value),
            None => Ok(()),
        }
    }

    /// `c = v`, also from an INSERT.
    pub fn set(typing: &Typing<'_>, column: &ColumnMetadata, value: &Term) -> Result<Self, CqlError> {
        let value = typing.term(&value.into(), &Receiver::column(column))?;
        if column.cql_type.is_counter() {
            return Err(invalid!(
                "Cannot set the value of counter column {} (counters can only be incremented/decremented, not set)",
                column.name
            ));
        }
        let index = typing.scope.table.vector_index(column.id);
        Ok(Operation {
            similarity: index.map(|index| VectorOptions::of(&index.options).unwrap_or_default().similarity),
            ..Operation::new(column, Change::Set(value))
        })
    }

    /// One assignment of an UPDATE.
    pub fn assign(
        typing: &Typing<'_>,
        column: &ColumnMetadata,
        operation: &RawOperation,
        reads: RowBefore,
    ) -> Result<Self, CqlError> {
        let text = AssignmentText { column, operation };
        match operation {
            RawOperation::Set(value) => Operation::set(typing, column, value),
            RawOperation::SetElement { key, value } => set_element(typing, column, &text, key, value),
            RawOperation::SetField { field, value } => set_field(typing, column, &text, field, value),
            RawOperation::Add(value)
                if reads != RowBefore::Unread && addition_of(&column.cql_type).is_some() =>
            {
                change_own(typing, column, value, addition_of(&column.cql_type))
            }
            RawOperation::Subtract(value)
                if reads == RowBefore::OfTransaction && subtraction_of(&column.cql_type).is_some() =>
            {
                change_own(typing, column, value, subtraction_of(&column.cql_type))
            }
            RawOperation::Add(value) => add(typing, column, &text, value, reads),
            RawOperation::Subtract(value) => subtract(typing, column, &text, value),
            RawOperation::Prepend(value) => {
                let value = typing.term(&value.into(), &Receiver::column(column))?;
                match column.cql_type {
                    CqlType::List { frozen: false, .. } => Ok(Operation::new(column, Change::Prepend(value))),
                    CqlType::List { frozen: true, .. } => Err(invalid!(
                        "Invalid operation ({text}) for frozen list column {}",
                        column.name
                    )),
                    _ => Err(invalid!(
                        "Invalid operation ({text}) for non list column {}",
                        column.name
                    )),
                }
            }
        }
    }

    /// One target of a DELETE.
    pub fn delete(
        typing: &Typing<'_>,
        column: &ColumnMetadata,
        target: &DeletionTarget,
    ) -> Result<Self, CqlError> {
        let (name, receiver) = (&column.name, Receiver::column(column));
        let change = match target {
            DeletionTarget::Column(_) => Change::Delete,
            DeletionTarget::Element { key, .. } => {
                if !column.cql_type.is_collection() {
                    return Err(invalid!(
                        "Invalid deletion operation for non collection column {name}"
                    ));
                }
                if !column.cql_type.is_multi_cell() {
                    return Err(invalid!(
                        "Invalid deletion operation for frozen collection column {name}"
                    ));
                }
                let key = RawTerm::from(key);
                match &column.cql_type {
                    CqlType::Set { element, .. } => {
                        Change::DeleteElement(typing.term(&key, &receiver.part("value", element))?)
                    }
                    CqlType::Map { key: key_type, .. } => {
                        Change::DeleteKey(typing.term(&key, &receiver.part("key", key_type))?)
                    }
                    _ => Change::DeleteIndex(typing.term(&key, &receiver.part("idx", &CqlType::Int))?),
                }
            }
            DeletionTarget::Field { field, .. } => {
                let CqlType::UserDefined { definition, frozen } = &column.cql_type else {
                    return Err(invalid!(
                        "Invalid field deletion operation for non-UDT column {name}"
                    ));
                };
                if *frozen {
                    return Err(invalid!(
                        "Frozen UDT column {name} does not support field deletions"
                    ));
                }
                let index = definition
                    .field_position(field)
                    .and_then(|index| i16::try_from(index).ok());
                Change::DeleteField(
                    index.ok_or_else(|| invalid!("UDT column {name} does not have a field named {field}"))?,
                )
            }
        };
        Ok(Operation::new(column, change))
    }
}

fn set_element(
    typing: &Typing<'_>,
    column: &ColumnMetadata,
    text: &AssignmentText<'_>,
    key: &Term,
    value: &Term,
) -> Result<Operation, CqlError> {
    let (name, receiver) = (&column.name, Receiver::column(column));
    check_collection(column, text)?;
    let (key, value) = (RawTerm::from(key), RawTerm::from(value));
    match &column.cql_type {
        CqlType::Set { .. } => Err(invalid!("Invalid operation ({text}) for set column {name}")),
        CqlType::Map {
            key: key_type,
            value: value_type,
            ..
        } => {
            let key = typing.term(&key, &receiver.part("key", key_type))?;
            let value = typing.term(&value, &receiver.part("value", value_type))?;
            Ok(Operation::new(column, Change::SetKey { key, value }))
        }
        CqlType::List { element, .. } => {
            let index = typing.term(&key, &receiver.part("idx", &CqlType::Int))?;
            let value = typing.term(&value, &receiver.part("value", element))?;
            Ok(Operation::new(column, Change::SetIndex { index, value }))
        }
        _ => Err(invalid!(
            "Invalid operation ({text}) for non collection column {name}"
        )),
    }
}

fn check_collection(column: &ColumnMetadata, text: &AssignmentText<'_>) -> Result<(), CqlError> {
    if !column.cql_type.is_collection() {
        return Err(invalid!(
            "Invalid operation ({text}) for non collection column {}",
            column.name
        ));
    }
    if !column.cql_type.is_multi_cell() {
        return Err(invalid!(
            "Invalid operation ({text}) for frozen collection column {}",
            column.name
        ));
    }
    Ok(())
}

fn set_field(
    typing: &Typing<'_>,
    column: &ColumnMetadata,
    text: &AssignmentText<'_>,
    field: &str,
    value: &Term,
) -> Result<Operation, CqlError> {
    let name = &column.name;
    let CqlType::UserDefined { definition, frozen } = &column.cql_type else {
        return Err(invalid!("Invalid operation ({text}) for non-UDT column {name}"));
    };
    if *frozen {
        return Err(invalid!(
            "Invalid operation ({text}) for frozen UDT column {name}"
        ));
    }
    let position = definition.field_position(field);
    let (Some(position), Some(index)) = (position, position.and_then(|index| i16::try_from(index).ok()))
    else {
        return Err(invalid!("UDT column {name} does not have a field named {field}"));
    };
    let receiver = Receiver::new(format!("{name}.{field}"), definition.fields[position].1.clone());
    let value = typing.term(&value.into(), &receiver)?;
    Ok(Operation::new(column, Change::SetField { index, value }))
}

fn add(
    typing: &Typing<'_>,
    column: &ColumnMetadata,
    text: &AssignmentText<'_>,
    value: &Term,
    reads: RowBefore,
) -> Result<Operation, CqlError> {
    let name = &column.name;
    let (value, receiver) = (RawTerm::from(value), Receiver::column(column));
    match &column.cql_type {
        CqlType::Tuple(_) | CqlType::UserDefined { .. } => {
            Err(invalid!("Invalid operation ({text}) for tuple column {name}"))
        }
        CqlType::Counter => count(typing, column, &value, false),
        other if !other.is_collection() && reads != RowBefore::Unread => Err(invalid!(
            "Invalid operation ({text}) for non-numeric and non-text type {name}"
        )),
        other if !other.is_collection() => Err(invalid!(
            "Invalid operation ({text}) for non counter column {name}"
        )),
        other if !other.is_multi_cell() => Err(invalid!(
            "Invalid operation ({text}) for frozen collection column {name}"
        )),
        CqlType::List { .. } => Ok(Operation::new(
            column,
            Change::Append(typing.term(&value, &receiver)?),
        )),
        CqlType::Map { .. } => {
            let term = typing.term(&value, &receiver);
            let term =
                term.map_err(|_| invalid!("Value for a map addition has to be a map, but was: '{value}'"))?;
            Ok(Operation::new(column, Change::Add(term)))
        }
        _ => Ok(Operation::new(
            column,
            Change::Add(typing.term(&value, &receiver)?),
        )),
    }
}

/// `function` of the value that was read and this one.
fn change_own(
    typing: &Typing<'_>,
    column: &ColumnMetadata,
    value: &Term,
    function: Option<NativeFunction>,
) -> Result<Operation, CqlError> {
    let value = typing.term(&value.into(), &Receiver::column(column))?;
    let function = function
        .ok_or_else(|| CqlError::server(format_args!("{} has no such operation", column.cql_type)))?;
    Ok(Operation::new(
        column,
        Change::AddToOwn {
            function: Box::new(function),
            value,
        },
    ))
}

fn subtract(
    typing: &Typing<'_>,
    column: &ColumnMetadata,
    text: &AssignmentText<'_>,
    value: &Term,
) -> Result<Operation, CqlError> {
    let name = &column.name;
    let (value, receiver) = (RawTerm::from(value), Receiver::column(column));
    match &column.cql_type {
        CqlType::Counter => count(typing, column, &value, true),
        other if !other.is_collection() => Err(invalid!(
            "Invalid operation ({text}) for non counter column {name}"
        )),
        other if !other.is_multi_cell() => Err(invalid!(
            "Invalid operation ({text}) for frozen collection column {name}"
        )),
        CqlType::List { .. } => Ok(Operation::new(
            column,
            Change::DiscardFromList(typing.term(&value, &receiver)?),
        )),
        CqlType::Map { key, .. } => {
            let receiver = Receiver::new(name.clone(), CqlType::set((**key).clone(), false));
            let term = typing.term(&value, &receiver);
            let term = term
                .map_err(|_| invalid!("Value for a map substraction has to be a set, but was: '{value}'"))?;
            Ok(Operation::new(column, Change::Discard(term)))
        }
        _ => Ok(Operation::new(
            column,
            Change::Discard(typing.term(&value, &receiver)?),
        )),
    }
}

/// `c = c + n`, or `c = c - n` with `is_negated`, of a counter.
fn count(
    typing: &Typing<'_>,
    column: &ColumnMetadata,
    value: &RawTerm,
    is_negated: bool,
) -> Result<Operation, CqlError> {
    let by = typing.term(value, &Receiver::column(column))?;
    Ok(Operation::new(column, Change::Count { by, is_negated }))
}

/// An assignment as Cassandra prints it in messages.
struct AssignmentText<'a> {
    column: &'a ColumnMetadata,
    operation: &'a RawOperation,
}

impl std::fmt::Display for AssignmentText<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = &self.column.name;
        match self.operation {
            RawOperation::Set(value) => write!(f, "{name} = {}", RawTerm::from(value)),
            RawOperation::SetElement { key, value } => {
                write!(f, "{name}[{}] = {}", RawTerm::from(key), RawTerm::from(value))
            }
            RawOperation::SetField { field, value } => write!(f, "{name}.{field} = {}", RawTerm::from(value)),
            RawOperation::Add(value) => write!(f, "{name} = {name} + {}", RawTerm::from(value)),
            RawOperation::Subtract(value) => write!(f, "{name} = {name} - {}", RawTerm::from(value)),
            // With a minus sign, as Cassandra has it.
            RawOperation::Prepend(value) => write!(f, "{name} = {} - {name}", RawTerm::from(value)),
        }
    }
}

impl HeapBytes for Operation {
    fn heap_bytes(&self) -> usize {
        match &self.change {
            Change::Set(value)
            | Change::Append(value)
            | Change::Prepend(value)
            | Change::Add(value)
            | Change::Discard(value)
            | Change::DiscardFromList(value)
            | Change::SetField { value, .. }
            | Change::DeleteIndex(value)
            | Change::DeleteElement(value)
            | Change::AddToOwn { value, .. }
            | Change::DeleteKey(value)
            | Change::Count { by: value, .. } => value.heap_bytes(),
            Change::SetIndex { index: key, value } | Change::SetKey { key, value } => {
                key.heap_bytes() + value.heap_bytes()
            }
            Change::Delete | Change::DeleteField(_) => 0,
        }
    }
}
