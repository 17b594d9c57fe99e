//! From the expressions of a select clause as written to typed ones, under the names Cassandra gives their columns.

use helenus_cql::ast::NativeType;
use helenus_types::CqlType;

use super::assignment::field_entries;
use super::raw_term::TypeText;
use super::type_name::{hinted_type, native_type};
use super::{AggregateCall, Expression, RawTerm, Receiver, Typing};
use crate::CqlError;
use crate::functions::{self, FunctionCallName, NativeFunction};
use crate::select::Fetched;

/// A typed expression of a select clause, under the name Cassandra gives its column.
#[derive(Debug)]
pub struct Selected {
    pub expression: Expression,
    pub cql_type: CqlType,
    pub name: String,
}

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
            RawTerm::Reference(_) => Err(invalid!("{term} is not a value")),
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

    pub(super) fn fetch(&self, fetched: Fetched) -> Expression {
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
        let function = functions::resolve_cast(&selected.cql_type, &cql_type)?;
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
