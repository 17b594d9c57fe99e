//! From terms as written to typed expressions.

use std::cell::RefCell;
use std::collections::HashMap;

use helenus_types::CqlType;

use super::literal::{constant_bytes, kind_name};
use super::raw_term::TypeText;
use super::type_name::hinted_type;
use super::{BoundValues, EvaluationContext, Expression, RawTerm, Receiver, StatementScope};
use crate::CqlError;
use crate::functions::{self, Clock, FunctionCallName, NativeFunction};
use crate::heap_bytes::HeapBytes;
use crate::select::Fetched;
use helenus_cql::ast::{Literal, TypeName};
use helenus_schema::ColumnMetadata;

/// Types the terms of one statement; with a selection scope also the expressions of its select clause.
#[derive(Clone, Copy, Debug)]
pub struct Typing<'a> {
    pub scope: StatementScope<'a>,
    pub(super) selection: Option<&'a RefCell<SelectionScope>>,
}

/// Inputs of the expressions of a select clause: values of the row, and aggregates over rows.
#[derive(Debug, Default)]
pub struct SelectionScope {
    pub fetched: Vec<Fetched>,
    slots: HashMap<Fetched, usize>,
    pub aggregates: Vec<AggregateCall>,
}

/// One aggregate function of a select clause; `count(*)` has no argument.
#[derive(Clone, Debug)]
pub struct AggregateCall {
    pub function: NativeFunction,
    pub argument: Option<Expression>,
}

impl SelectionScope {
    /// The place in the row where this is fetched.
    pub fn fetch(&mut self, wanted: Fetched) -> usize {
        let next = self.fetched.len();
        let slot = *self.slots.entry(wanted).or_insert(next);
        if slot == next {
            self.fetched.push(wanted);
        }
        slot
    }
}

impl<'a> Typing<'a> {
    pub fn terms(scope: StatementScope<'a>) -> Self {
        Typing {
            scope,
            selection: None,
        }
    }

    pub fn selectors(scope: StatementScope<'a>, selection: &'a RefCell<SelectionScope>) -> Self {
        Typing {
            scope,
            selection: Some(selection),
        }
    }

    pub(crate) fn is_selection(&self) -> bool {
        self.selection.is_some()
    }

    /// The column of this name, which must exist.
    pub fn column(&self, name: &str) -> Result<&'a ColumnMetadata, CqlError> {
        let table = self.scope.table;
        table.column(name).ok_or_else(|| {
            let name = helenus_types::quoted_identifier(name);
            invalid!(
                "Undefined column name {name} in table {}.{}",
                table.keyspace,
                table.name
            )
        })
    }

    /// Types a term that gives `receiver` its value.
    pub fn term(&self, term: &RawTerm, receiver: &Receiver) -> Result<Expression, CqlError> {
        match term {
            RawTerm::Literal(literal) => self.constant(literal, receiver),
            RawTerm::Null if receiver.cql_type.is_counter() => {
                Err(invalid!("Invalid null value for counter increment/decrement"))
            }
            RawTerm::Null => Ok(Expression::NULL),
            RawTerm::Marker(marker) => {
                self.scope.bind(marker.index, marker.name.as_deref(), receiver);
                Ok(Expression::Marker {
                    index: marker.index,
                    cql_type: receiver.cql_type.clone(),
                })
            }
            RawTerm::List(elements) => self.list_or_vector(elements, receiver),
            RawTerm::Set(elements) => self.set(elements, receiver),
            RawTerm::Map(entries) => self.map(entries, receiver),
            RawTerm::UserType(fields) => self.user_type(
                &fields
                    .iter()
                    .map(|(name, value)| (name.as_str(), value))
                    .collect::<Vec<_>>(),
                receiver,
            ),
            RawTerm::Tuple(components) => self.tuple(components, receiver),
            RawTerm::TypeHint {
                type_name,
                term: hinted,
            } => {
                self.check_hint(term, hinted, type_name, receiver)?;
                self.term(hinted, receiver)
            }
            RawTerm::Function { .. }
            | RawTerm::Cast { .. }
            | RawTerm::Arithmetic { .. }
            | RawTerm::Negation(_) => self.call(term, receiver),
            RawTerm::Reference(reference) => {
                let references = self
                    .scope
                    .references
                    .ok_or_else(|| invalid!("{term} is not a value"))?;
                let (_, _, column) = references.column(reference)?;
                if !self.assignability(term, &receiver.cql_type).is_assignable() {
                    return Err(invalid!(
                        "Invalid reference type {} ({}) for \"{}\" of type {}",
                        column.cql_type,
                        column.name,
                        receiver.name,
                        receiver.cql_type
                    ));
                }
                references.marker(self.scope, reference)
            }
            // The parser makes these only in select clauses, which are typed by `select`.
            RawTerm::Column(_)
            | RawTerm::CountRows
            | RawTerm::CellAttribute { .. }
            | RawTerm::Element { .. }
            | RawTerm::Slice { .. }
            | RawTerm::Field { .. } => Err(invalid!("{term} is not a value")),
        }
    }

    /// Refuses `hinted` with a type before it, which is `term`, where either does not fit the other or the receiver.
    fn check_hint(
        &self,
        term: &RawTerm,
        hinted: &RawTerm,
        type_name: &TypeName,
        receiver: &Receiver,
    ) -> Result<(), CqlError> {
        let hinted_type = hinted_type(self.scope.schema, &self.scope.table.keyspace, type_name)?;
        if !self.assignability(hinted, &hinted_type).is_assignable() {
            let name = TypeText(type_name);
            return Err(invalid!("Cannot cast value {hinted} to type {name}"));
        }
        if !self.assignability(term, &receiver.cql_type).is_assignable() {
            let Receiver { name, cql_type, .. } = receiver;
            return Err(invalid!(
                "Cannot assign value {term} to {name} of type {cql_type}"
            ));
        }
        Ok(())
    }

    fn constant(&self, literal: &Literal, receiver: &Receiver) -> Result<Expression, CqlError> {
        let Receiver { name, cql_type, .. } = receiver;
        if !self
            .assignability(&RawTerm::Literal(literal.clone()), cql_type)
            .is_assignable()
        {
            let (kind, text) = (kind_name(literal.kind), &literal.text);
            return Err(invalid!(
                "Invalid {kind} constant ({text}) for \"{name}\" of type {cql_type}"
            ));
        }
        let bytes = constant_bytes(literal, cql_type, self.scope.now).map_err(|error| invalid!("{error}"))?;
        Ok(Expression::Constant(Some(bytes.into())))
    }

    fn list_or_vector(&self, elements: &[RawTerm], receiver: &Receiver) -> Result<Expression, CqlError> {
        let Receiver { name, cql_type, .. } = receiver;
        match cql_type {
            CqlType::Vector { element, dimension } => {
                if elements.len() != *dimension as usize {
                    let given = elements.len();
                    return Err(invalid!(
                        "Invalid vector literal for {name} of type {cql_type}; \
                         expected {dimension} elements, but given {given}"
                    ));
                }
                if let Some(value) = self.unassignable(elements, element) {
                    return Err(invalid!(
                        "Invalid vector literal for {name}: value {value} is not of type {element}"
                    ));
                }
                let receiver = receiver.part("value", element);
                let elements = self.all(elements, &receiver)?;
                fold(Expression::Vector {
                    element: (**element).clone(),
                    elements,
                })
            }
            CqlType::List { element, .. } => {
                if let Some(value) = self.unassignable(elements, element) {
                    return Err(invalid!(
                        "Invalid list literal for {name}: value {value} is not of type {element}"
                    ));
                }
                refuse_markers("list", name, elements)?;
                fold(Expression::List(
                    self.all(elements, &receiver.part("value", element))?,
                ))
            }
            _ => Err(invalid!(
                "Unexpected receiver type '{cql_type}'; only list and vector are expected"
            )),
        }
    }

    fn set(&self, elements: &[RawTerm], receiver: &Receiver) -> Result<Expression, CqlError> {
        let Receiver { name, cql_type, .. } = receiver;
        match cql_type {
            CqlType::Map { key, .. } if elements.is_empty() => fold(Expression::Map {
                key: (**key).clone(),
                entries: Vec::new(),
            }),
            CqlType::Set { element, .. } => {
                if let Some(value) = self.unassignable(elements, element) {
                    return Err(invalid!(
                        "Invalid set literal for {name}: value {value} is not of type {element}"
                    ));
                }
                refuse_markers("set", name, elements)?;
                let elements = self.all(elements, &receiver.part("value", element))?;
                fold(Expression::Set {
                    element: (**element).clone(),
                    elements,
                })
            }
            _ => Err(invalid!("Invalid set literal for {name} of type {cql_type}")),
        }
    }

    fn map(&self, entries: &[(RawTerm, RawTerm)], receiver: &Receiver) -> Result<Expression, CqlError> {
        let Receiver { name, cql_type, .. } = receiver;
        let CqlType::Map {
            key: key_type,
            value: value_type,
            ..
        } = cql_type
        else {
            return Err(invalid!("Invalid map literal for {name} of type {cql_type}"));
        };
        for (key, value) in entries {
            if !self.assignability(key, key_type).is_assignable() {
                return Err(invalid!(
                    "Invalid map literal for {name}: key {key} is not of type {key_type}"
                ));
            }
            if !self.assignability(value, value_type).is_assignable() {
                return Err(invalid!(
                    "Invalid map literal for {name}: value {value} is not of type {value_type}"
                ));
            }
        }
        let (key_receiver, value_receiver) =
            (receiver.part("key", key_type), receiver.part("value", value_type));
        let mut typed = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            refuse_markers("map", name, [key, value])?;
            typed.push((self.term(key, &key_receiver)?, self.term(value, &value_receiver)?));
        }
        fold(Expression::Map {
            key: (**key_type).clone(),
            entries: typed,
        })
    }

    fn user_type(&self, fields: &[(&str, &RawTerm)], receiver: &Receiver) -> Result<Expression, CqlError> {
        let Receiver { name, cql_type, .. } = receiver;
        let CqlType::UserDefined { definition, .. } = cql_type else {
            return Err(invalid!(
                "Invalid user type literal for {name} of type {cql_type}"
            ));
        };
        let given = |field: &str| {
            fields
                .iter()
                .rev()
                .find(|(name, _)| *name == field)
                .map(|(_, value)| *value)
        };
        for (field, field_type) in &definition.fields {
            if given(field).is_some_and(|value| !self.assignability(value, field_type).is_assignable()) {
                return Err(invalid!(
                    "Invalid user type literal for {name}: field {field} is not of type {field_type}"
                ));
            }
        }
        let mut components = Vec::with_capacity(definition.fields.len());
        for (field, field_type) in &definition.fields {
            let field_receiver = Receiver::new(format!("{name}.{field}"), field_type.clone());
            components.push(self.term(given(field).unwrap_or(&RawTerm::Null), &field_receiver)?);
        }
        if let Some((unknown, _)) = fields
            .iter()
            .find(|(name, _)| definition.field_position(name).is_none())
        {
            let type_name = &definition.name;
            return Err(invalid!(
                "Unknown field '{unknown}' in value of user defined type {type_name}"
            ));
        }
        fold(Expression::Tuple(components))
    }

    fn tuple(&self, components: &[RawTerm], receiver: &Receiver) -> Result<Expression, CqlError> {
        let Receiver { name, cql_type, .. } = receiver;
        let types = match (cql_type, components) {
            (CqlType::Tuple(types), _) => types,
            (_, [nested]) => return self.term(nested, receiver),
            _ => {
                return Err(invalid!(
                    "Invalid tuple type literal for {name} of type {cql_type}"
                ));
            }
        };
        let (expected, given) = (types.len(), components.len());
        if given > expected {
            return Err(invalid!(
                "Invalid tuple literal for {name}: too many elements. Type {cql_type} expects {expected} but got {given}"
            ));
        }
        for (index, (component, component_type)) in components.iter().zip(types.iter()).enumerate() {
            if !self.assignability(component, component_type).is_assignable() {
                return Err(invalid!(
                    "Invalid tuple literal for {name}: component {index} is not of type {component_type}"
                ));
            }
        }
        let typed =
            components
                .iter()
                .zip(types.iter())
                .enumerate()
                .map(|(index, (component, component_type))| {
                    self.term(
                        component,
                        &Receiver::new(format!("{name}[{index}]"), component_type.clone()),
                    )
                });
        fold(Expression::Tuple(typed.collect::<Result<_, _>>()?))
    }

    fn unassignable<'t>(&self, terms: &'t [RawTerm], cql_type: &CqlType) -> Option<&'t RawTerm> {
        terms
            .iter()
            .find(|term| !self.assignability(term, cql_type).is_assignable())
    }

    fn all(&self, terms: &[RawTerm], receiver: &Receiver) -> Result<Vec<Expression>, CqlError> {
        terms.iter().map(|term| self.term(term, receiver)).collect()
    }

    fn call(&self, call: &RawTerm, receiver: &Receiver) -> Result<Expression, CqlError> {
        let (name, arguments) = FunctionCallName::of(call);
        let function = functions::resolve(self, &name, &arguments, Some(&receiver.cql_type))?
            .ok_or_else(|| invalid!("Unknown function {name} called"))?;
        if function.is_aggregate() {
            return Err(invalid!(
                "Aggregation function are not supported in the where clause"
            ));
        }
        let returned = &function.return_type;
        if !super::type_assignment(returned, &receiver.cql_type).is_assignable() {
            let Receiver {
                name: receiver,
                cql_type: wanted,
                ..
            } = receiver;
            return Err(match name.operator() {
                Some(operator) => invalid!(
                    "Type error: cannot assign result of operation {operator} (type {returned}) to {receiver} \
                     (type {wanted})"
                ),
                None => invalid!(
                    "Type error: cannot assign result of function {} (type {returned}) to {receiver} (type {wanted})",
                    function.qualified_name()
                ),
            });
        }
        if function.argument_types.len() != arguments.len() {
            return Err(invalid!(
                "Incorrect number of arguments specified for function {function} (expected {}, found {})",
                function.argument_types.len(),
                arguments.len()
            ));
        }
        let typed = arguments
            .iter()
            .enumerate()
            .map(|(index, argument)| self.term(argument, &Receiver::argument(&function, index)));
        let arguments = typed.collect::<Result<Vec<_>, _>>()?;
        if let Some(decoded) = functions::decoded_if_long(&function, &arguments, self.scope.now)? {
            return Ok(decoded);
        }
        if function.decodes_json() {
            self.scope.markers.borrow_mut().note_json();
        }
        Ok(Expression::Call {
            function: Box::new(function),
            arguments,
        })
    }
}

fn refuse_markers<'t>(
    kind: &str,
    name: &str,
    terms: impl IntoIterator<Item = &'t RawTerm>,
) -> Result<(), CqlError> {
    match terms.into_iter().any(RawTerm::has_marker) {
        false => Ok(()),
        true => Err(invalid!(
            "Invalid {kind} literal for {name}: bind variables are not supported inside collection literals"
        )),
    }
}

/// A literal whose parts are all constant becomes a constant.
fn fold(expression: Expression) -> Result<Expression, CqlError> {
    let is_constant = match &expression {
        Expression::List(parts) | Expression::Tuple(parts) => parts.iter().all(Expression::is_constant),
        Expression::Set { elements, .. } | Expression::Vector { elements, .. } => {
            elements.iter().all(Expression::is_constant)
        }
        Expression::Map { entries, .. } => entries
            .iter()
            .all(|(key, value)| key.is_constant() && value.is_constant()),
        _ => false,
    };
    if !is_constant {
        return Ok(expression);
    }
    let context = EvaluationContext {
        values: &BoundValues::EMPTY,
        clock: Clock::default(),
        row: None,
        aggregates: &[],
    };
    let bytes = expression
        .evaluate(&context)?
        .into_option()
        .map(|bytes| bytes.into_owned().into_boxed_slice());
    Ok(Expression::Constant(bytes))
}

impl HeapBytes for AggregateCall {
    fn heap_bytes(&self) -> usize {
        self.function.heap_bytes() + self.argument.heap_bytes()
    }
}
