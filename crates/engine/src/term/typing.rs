//! From terms as written to typed expressions.

use std::cell::RefCell;

use helenus_types::CqlType;

use super::assignment::field_entries;
use super::literal::{constant_bytes, kind_name};
use super::raw_term::{TypeText, attribute_name};
use super::type_name::{hinted_type, native_type};
use super::{BoundValues, EvaluationContext, Expression, RawTerm, Receiver, StatementScope};
use crate::CqlError;
use crate::functions::{self, Clock, FunctionCallName, NativeFunction};
use crate::select::Fetched;
use helenus_cql::ast::{CellAttribute, Literal, NativeType};
use helenus_schema::{ColumnKind, ColumnMetadata};

/// Types the terms of one statement; with a selection scope also the expressions of its select clause.
#[derive(Clone, Copy, Debug)]
pub struct Typing<'a> {
    pub scope: StatementScope<'a>,
    selection: Option<&'a RefCell<SelectionScope>>,
}

/// What the expressions of a select clause need: values of the row, and aggregates over rows.
#[derive(Debug, Default)]
pub struct SelectionScope {
    pub fetched: Vec<Fetched>,
    pub aggregates: Vec<AggregateCall>,
}

/// One aggregate function of a select clause; `count(*)` has no argument.
#[derive(Clone, Debug)]
pub struct AggregateCall {
    pub function: NativeFunction,
    pub argument: Option<Expression>,
}

/// A typed expression of a select clause, under the name Cassandra gives its column.
#[derive(Debug)]
pub struct Selected {
    pub expression: Expression,
    pub cql_type: CqlType,
    pub name: String,
}

impl SelectionScope {
    /// The place in the row where this is fetched.
    pub fn fetch(&mut self, wanted: Fetched) -> usize {
        match self.fetched.iter().position(|fetched| *fetched == wanted) {
            Some(slot) => slot,
            None => {
                self.fetched.push(wanted);
                self.fetched.len() - 1
            }
        }
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

    pub fn is_selection(&self) -> bool {
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
                let name = TypeText(type_name);
                let hinted_type = hinted_type(self.scope.schema, &self.scope.table.keyspace, type_name)?;
                if !self.assignability(hinted, &hinted_type).is_assignable() {
                    return Err(invalid!("Cannot cast value {hinted} to type {name}"));
                }
                if !self.assignability(term, &receiver.cql_type).is_assignable() {
                    let Receiver { name, cql_type, .. } = receiver;
                    return Err(invalid!(
                        "Cannot assign value {term} to {name} of type {cql_type}"
                    ));
                }
                self.term(hinted, receiver)
            }
            RawTerm::Function { .. }
            | RawTerm::Cast { .. }
            | RawTerm::Arithmetic { .. }
            | RawTerm::Negation(_) => self.call(term, receiver),
            // The parser makes these only in select clauses, which are typed by `select`.
            RawTerm::Column(_)
            | RawTerm::CountRows
            | RawTerm::CellAttribute { .. }
            | RawTerm::Element { .. }
            | RawTerm::Slice { .. }
            | RawTerm::Field { .. } => Err(invalid!("{term} is not a value")),
        }
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
        let bytes = constant_bytes(literal, cql_type).map_err(|error| invalid!("{error}"))?;
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
            .map(|(index, argument)| self.term(argument, &function.argument_receiver(index)));
        let arguments = typed.collect::<Result<_, _>>()?;
        Ok(Expression::Call {
            function: Box::new(function),
            arguments,
        })
    }
}

/// Select clauses.
impl Typing<'_> {
    /// Types one expression of the select clause; `expected` helps those without a type of their own.
    pub fn select(&self, term: &RawTerm, expected: Option<&CqlType>) -> Result<Selected, CqlError> {
        match term {
            RawTerm::Column(name) => self.select_column(name),
            RawTerm::Literal(_) | RawTerm::Null | RawTerm::Marker(_) => {
                let cql_type = self.own_or_expected(term, expected)?;
                let expression = self.term(term, &Receiver::new("[selection]", cql_type.clone()))?;
                Ok(Selected {
                    expression,
                    cql_type,
                    name: term.to_string(),
                })
            }
            RawTerm::Function { .. }
            | RawTerm::CountRows
            | RawTerm::Arithmetic { .. }
            | RawTerm::Negation(_) => self.select_call(term),
            RawTerm::Cast { term: given, target } => self.select_cast(given, *target),
            RawTerm::TypeHint {
                type_name,
                term: hinted,
            } => {
                let name = TypeText(type_name);
                let cql_type =
                    hinted_type(self.scope.schema, &self.scope.table.keyspace, type_name)?.freeze();
                if !self.assignability(hinted, &cql_type).is_assignable() {
                    return Err(invalid!(
                        "Cannot assign value {term} to {term} of type {cql_type}"
                    ));
                }
                let selected = self.select(hinted, Some(&cql_type))?;
                Ok(Selected {
                    cql_type,
                    name: format!("({name}){}", selected.name),
                    ..selected
                })
            }
            RawTerm::CellAttribute { attribute, of } => self.select_cell_attribute(*attribute, of),
            RawTerm::Element { of, key } => self.select_element(term, of, key),
            RawTerm::Slice { of, from, to } => {
                self.select_slice(term, of, from.as_deref(), to.as_deref(), expected)
            }
            RawTerm::Field { of, field } => self.select_field(of, field),
            RawTerm::List(elements) => self.select_list(term, elements, expected),
            RawTerm::Set(elements) => self.select_set(term, elements, expected),
            RawTerm::Map(entries) => self.select_map(term, entries, expected),
            RawTerm::UserType(_) => Err(invalid!("{term} is not allowed in a selection clause")),
            RawTerm::Tuple(components) => self.select_tuple(term, components, expected),
        }
    }

    fn own_or_expected(&self, term: &RawTerm, expected: Option<&CqlType>) -> Result<CqlType, CqlError> {
        self.exact_type(term)
            .or_else(|| expected.cloned())
            .ok_or_else(|| {
                invalid!(
                    "Cannot infer type for term {term} in selection clause (try using a cast to force a type)"
                )
            })
    }

    fn fetch(&self, fetched: Fetched) -> Expression {
        // Only called while a select clause is typed.
        let slot = self
            .selection
            .map_or(0, |selection| selection.borrow_mut().fetch(fetched));
        Expression::Column(slot)
    }

    fn select_column(&self, name: &str) -> Result<Selected, CqlError> {
        let column = self.column(name)?;
        Ok(Selected {
            expression: self.fetch(Fetched::Value(column.id)),
            cql_type: column.cql_type.clone(),
            name: name.to_owned(),
        })
    }

    fn select_call(&self, call: &RawTerm) -> Result<Selected, CqlError> {
        let (mut name, mut arguments) = FunctionCallName::of(call);
        if name.is_native("count") && matches!(arguments.as_slice(), [RawTerm::Literal(_)]) {
            (name, arguments) = FunctionCallName::of(&RawTerm::CountRows);
        }
        for argument in &arguments {
            self.check_columns(argument)?;
        }
        let function = functions::resolve(self, &name, &arguments, None)?
            .ok_or_else(|| invalid!("Unknown function '{name}'"))?;
        self.selected_call(function, &arguments)
    }

    fn selected_call(&self, function: NativeFunction, arguments: &[RawTerm]) -> Result<Selected, CqlError> {
        let aggregates_before = self
            .selection
            .map_or(0, |selection| selection.borrow().aggregates.len());
        let mut typed = Vec::with_capacity(arguments.len());
        let mut names = Vec::with_capacity(arguments.len());
        for (argument, argument_type) in arguments.iter().zip(&function.argument_types) {
            let selected = self.select(argument, Some(argument_type))?;
            typed.push(selected.expression);
            names.push(selected.name);
        }
        let name = function.column_name(&names);
        let cql_type = function.return_type.clone();
        if !function.is_aggregate() {
            let expression = Expression::Call {
                function: Box::new(function),
                arguments: typed,
            };
            return Ok(Selected {
                expression,
                cql_type,
                name,
            });
        }
        let Some(selection) = self.selection else {
            return Err(invalid!(
                "Aggregation function are not supported in the where clause"
            ));
        };
        let mut selection = selection.borrow_mut();
        if selection.aggregates.len() > aggregates_before {
            return Err(invalid!(
                "aggregate functions cannot be used as arguments of aggregate functions"
            ));
        }
        selection.aggregates.push(AggregateCall {
            function,
            argument: typed.pop(),
        });
        let expression = Expression::Aggregate(selection.aggregates.len() - 1);
        Ok(Selected {
            expression,
            cql_type,
            name,
        })
    }

    /// Names of columns are looked up before functions, so that a wrong one is what the error is about.
    fn check_columns(&self, term: &RawTerm) -> Result<(), CqlError> {
        if let RawTerm::Column(name) = term {
            self.column(name)?;
        }
        if matches!(term, RawTerm::Map(_)) {
            return Ok(());
        }
        term.parts()
            .into_iter()
            .try_for_each(|part| self.check_columns(part))
    }

    fn select_cast(&self, given: &RawTerm, target: NativeType) -> Result<Selected, CqlError> {
        let selected = self.select(given, None)?;
        let cql_type = native_type(target);
        if selected.cql_type == cql_type {
            return Ok(selected);
        }
        // There are conversions to text under that name only.
        if target == NativeType::Varchar || !functions::is_cast_target(&cql_type) {
            return Err(invalid!("{given} cannot be cast to {}", target.name()));
        }
        let name = FunctionCallName::Cast(cql_type.clone());
        let function = functions::cast_function(&selected.cql_type, &cql_type)
            .ok_or_else(|| functions::unmatched(&name, &functions::casts_to(&cql_type)))?;
        let name = function.column_name(&[selected.name]);
        let arguments = vec![selected.expression];
        Ok(Selected {
            expression: Expression::Call {
                function: Box::new(function),
                arguments,
            },
            cql_type,
            name,
        })
    }

    fn select_element(&self, term: &RawTerm, of: &RawTerm, key: &RawTerm) -> Result<Selected, CqlError> {
        let selected = self.select(of, None)?;
        let (spec, cql_type) = match &selected.cql_type {
            CqlType::Set { element, .. } => (
                Receiver::new(format!("value({})", selected.name), (**element).clone()),
                element,
            ),
            CqlType::Map { key, value, .. } => (
                Receiver::new(format!("key({})", selected.name), (**key).clone()),
                value,
            ),
            CqlType::List { .. } => {
                return Err(invalid!(
                    "Element selection is only allowed on sets and maps, but {of} is a list"
                ));
            }
            other => {
                return Err(invalid!(
                    "Invalid element selection: {of} is of type {other} is not a collection"
                ));
            }
        };
        let key = Box::new(self.term(key, &spec)?);
        Ok(Selected {
            cql_type: (**cql_type).clone(),
            name: term.to_string(),
            expression: Expression::Element {
                of: Box::new(selected.expression),
                key,
                collection: selected.cql_type.clone(),
                text: selected.name,
            },
        })
    }

    fn select_slice(
        &self,
        term: &RawTerm,
        of: &RawTerm,
        from: Option<&RawTerm>,
        to: Option<&RawTerm>,
        expected: Option<&CqlType>,
    ) -> Result<Selected, CqlError> {
        let selected = self.select(of, expected)?;
        let receiver = match &selected.cql_type {
            CqlType::Set { element, .. } => {
                Receiver::new(format!("value({})", selected.name), (**element).clone())
            }
            CqlType::Map { key, .. } => Receiver::new(format!("key({})", selected.name), (**key).clone()),
            CqlType::List { .. } => {
                return Err(invalid!(
                    "Slice selection is only allowed on sets and maps, but {of} is a list"
                ));
            }
            other => {
                return Err(invalid!(
                    "Invalid slice selection: {of} of type {other} is not a collection"
                ));
            }
        };
        let bound = |bound: Option<&RawTerm>| {
            bound
                .map(|bound| self.term(bound, &receiver).map(Box::new))
                .transpose()
        };
        Ok(Selected {
            name: term.to_string(),
            expression: Expression::Slice {
                from: bound(from)?,
                to: bound(to)?,
                of: Box::new(selected.expression),
                collection: selected.cql_type.clone(),
                text: selected.name,
            },
            cql_type: selected.cql_type,
        })
    }

    fn select_field(&self, of: &RawTerm, field: &str) -> Result<Selected, CqlError> {
        let expected = match of {
            RawTerm::Tuple(components) => components.first().and_then(|nested| self.exact_type(nested)),
            _ => None,
        };
        let selected = self.select(of, expected.as_ref())?;
        let CqlType::UserDefined { definition, .. } = &selected.cql_type else {
            let cql_type = &selected.cql_type;
            return Err(invalid!(
                "Invalid field selection: {of} of type {cql_type} is not a user type"
            ));
        };
        let Some(index) = definition.field_position(field) else {
            return Err(invalid!(
                "{of} of type {} has no field {field}",
                selected.cql_type
            ));
        };
        Ok(Selected {
            name: format!("{}.{field}", selected.name),
            cql_type: definition.fields[index].1.clone(),
            expression: Expression::Field {
                of: Box::new(selected.expression),
                index,
            },
        })
    }

    fn select_all(
        &self,
        terms: &[RawTerm],
        expected: &CqlType,
    ) -> Result<(Vec<Expression>, Vec<String>), CqlError> {
        let mut selected = Vec::with_capacity(terms.len());
        for term in terms {
            selected.push(self.select(term, Some(expected))?);
        }
        Ok(selected
            .into_iter()
            .map(|selected| (selected.expression, selected.name))
            .unzip())
    }

    fn select_list(
        &self,
        term: &RawTerm,
        elements: &[RawTerm],
        expected: Option<&CqlType>,
    ) -> Result<Selected, CqlError> {
        if let Some(cql_type @ CqlType::Vector { element, dimension }) = expected {
            if *dimension as usize != elements.len() {
                let given = elements.len();
                return Err(invalid!(
                    "Unable to create a vector selector of type {cql_type} from {given} elements"
                ));
            }
            let (elements, names) = self.select_all(elements, element)?;
            return Ok(Selected {
                expression: Expression::Vector {
                    element: (**element).clone(),
                    elements,
                },
                cql_type: cql_type.clone(),
                name: format!("[{}]", names.join(", ")),
            });
        }
        let cql_type = self.own_or_expected(term, expected)?;
        let CqlType::List { element, .. } = &cql_type else {
            return Err(invalid!(
                "Unexpected receiver type '{cql_type}'; only list and vector are expected"
            ));
        };
        let (elements, names) = self.select_all(elements, element)?;
        let name = format!("[{}]", names.join(", "));
        Ok(Selected {
            expression: Expression::List(elements),
            cql_type,
            name,
        })
    }

    fn select_set(
        &self,
        term: &RawTerm,
        elements: &[RawTerm],
        expected: Option<&CqlType>,
    ) -> Result<Selected, CqlError> {
        let cql_type = self.own_or_expected(term, expected)?;
        match &cql_type {
            CqlType::Map { key, .. } if elements.is_empty() => Ok(Selected {
                expression: Expression::Map {
                    key: (**key).clone(),
                    entries: Vec::new(),
                },
                name: "{}".to_owned(),
                cql_type,
            }),
            CqlType::Set { element, .. } if **element == CqlType::Duration => {
                Err(invalid!("Durations are not allowed inside sets: {cql_type}"))
            }
            CqlType::Set { element, .. } => {
                let (elements, names) = self.select_all(elements, element)?;
                Ok(Selected {
                    expression: Expression::Set {
                        element: (**element).clone(),
                        elements,
                    },
                    name: format!("{{{}}}", names.join(", ")),
                    cql_type,
                })
            }
            other => Err(invalid!("Invalid set literal for {term} of type {other}")),
        }
    }

    fn select_map(
        &self,
        term: &RawTerm,
        entries: &[(RawTerm, RawTerm)],
        expected: Option<&CqlType>,
    ) -> Result<Selected, CqlError> {
        let cql_type = self.own_or_expected(term, expected)?;
        match &cql_type {
            CqlType::Map { key, .. } if **key == CqlType::Duration => {
                Err(invalid!("Durations are not allowed as map keys: {cql_type}"))
            }
            CqlType::Map {
                key: key_type,
                value: value_type,
                ..
            } => {
                let mut typed = Vec::with_capacity(entries.len());
                let mut names = Vec::with_capacity(entries.len());
                for (key, value) in entries {
                    let (key, value) = (
                        self.select(key, Some(key_type))?,
                        self.select(value, Some(value_type))?,
                    );
                    names.push(format!("{}: {}", key.name, value.name));
                    typed.push((key.expression, value.expression));
                }
                let expression = Expression::Map {
                    key: (**key_type).clone(),
                    entries: typed,
                };
                Ok(Selected {
                    expression,
                    name: format!("{{{}}}", names.join(", ")),
                    cql_type,
                })
            }
            CqlType::UserDefined { definition, .. } => {
                let fields = field_entries(entries).ok_or_else(|| {
                    let wrong = entries.iter().find(|(key, _)| !matches!(key, RawTerm::Column(_)));
                    let wrong = wrong.map(|(key, _)| key.to_string()).unwrap_or_default();
                    invalid!(
                        "{wrong} is not a valid field identifier of type {} ",
                        definition.name
                    )
                })?;
                let mut components = vec![Expression::NULL; definition.fields.len()];
                let mut names = Vec::with_capacity(fields.len());
                for (field, value) in fields {
                    let Some(position) = definition.field_position(field) else {
                        let type_name = &definition.name;
                        return Err(invalid!(
                            "Unknown field '{field}' in value of user defined type {type_name}"
                        ));
                    };
                    let selected = self.select(value, Some(&definition.fields[position].1))?;
                    names.push(format!("{field}: {}", selected.name));
                    components[position] = selected.expression;
                }
                let name = format!("{{{}}}", names.join(", "));
                Ok(Selected {
                    expression: Expression::Tuple(components),
                    name,
                    cql_type,
                })
            }
            other => Err(invalid!("Invalid map literal for {term} of type {other}")),
        }
    }

    fn select_tuple(
        &self,
        term: &RawTerm,
        components: &[RawTerm],
        expected: Option<&CqlType>,
    ) -> Result<Selected, CqlError> {
        let nested_type = match components {
            [nested] if !expected.is_some_and(CqlType::is_tuple) => self.exact_type(nested),
            _ => None,
        };
        let cql_type = match nested_type {
            Some(nested) => nested,
            None => self.own_or_expected(term, expected)?,
        };
        match (&cql_type, components) {
            (CqlType::Tuple(types), _) if components.len() > 1 || expected.is_some_and(CqlType::is_tuple) => {
                let mut typed = Vec::with_capacity(components.len());
                let mut names = Vec::with_capacity(components.len());
                for (component, component_type) in components.iter().zip(types.iter()) {
                    let selected = self.select(component, Some(component_type))?;
                    typed.push(selected.expression);
                    names.push(selected.name);
                }
                let name = format!("({})", names.join(", "));
                Ok(Selected {
                    expression: Expression::Tuple(typed),
                    name,
                    cql_type,
                })
            }
            (_, [nested]) => {
                let selected = self.select(nested, expected)?;
                Ok(Selected {
                    name: format!("({})", selected.name),
                    ..selected
                })
            }
            (other, _) => Err(invalid!("Invalid tuple type literal for {term} of type {other}")),
        }
    }
}

/// `writetime`, `maxwritetime` and `ttl`.
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

    fn select_cell_attribute(&self, attribute: CellAttribute, of: &RawTerm) -> Result<Selected, CqlError> {
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
