//! Assignability of terms to the types that are wanted, and the types that terms have by themselves.

use std::sync::Arc;

use helenus_cql::ast::{Literal, LiteralKind};
use helenus_schema::{ColumnMetadata, TableMetadata};
use helenus_types::CqlType;

use super::RawTerm;
use super::assignability::{Assignability, type_assignment};
use super::literal::preferred_type;
use super::type_name::{hinted_type, native_type};
use super::typing::Typing;
use crate::CqlError;
use crate::functions::{self, ArgumentTypes, FunctionCallName};

/// Returns the first of several types that all others can be assigned to.
fn common_type(types: &[CqlType]) -> Option<CqlType> {
    let fits_all = |wanted: &&CqlType| {
        types
            .iter()
            .all(|given| type_assignment(given, wanted).is_assignable())
    };
    types.iter().find(fits_all).cloned()
}

impl ArgumentTypes for Typing<'_> {
    fn table(&self) -> &Arc<TableMetadata> {
        self.scope.table
    }

    fn column(&self, name: &str) -> Result<&ColumnMetadata, CqlError> {
        Typing::column(self, name)
    }

    fn assignability(&self, term: &RawTerm, receiver: &CqlType) -> Assignability {
        Typing::assignability(self, term, receiver)
    }

    fn compatible_type(&self, term: &RawTerm) -> Option<CqlType> {
        Typing::compatible_type(self, term)
    }
}

impl Typing<'_> {
    pub(crate) fn assignability(&self, term: &RawTerm, receiver: &CqlType) -> Assignability {
        match term {
            RawTerm::Literal(literal) => literal_assignability(literal, receiver),
            RawTerm::Null if receiver.is_counter() => Assignability::None,
            RawTerm::Null | RawTerm::Marker(_) => Assignability::Weak,
            RawTerm::List(elements) => self.list_assignability(elements, receiver),
            RawTerm::Set(elements) => match receiver {
                CqlType::Map { .. } if elements.is_empty() => Assignability::Weak,
                CqlType::Set { .. } if elements.is_empty() => Assignability::Weak,
                CqlType::Set { element, .. } => self.all_assignable(elements, element),
                _ => Assignability::None,
            },
            RawTerm::Map(entries) => self.map_assignability(entries, receiver),
            RawTerm::UserType(fields) => {
                let fields = fields.iter().map(|(name, value)| (name.as_str(), value));
                self.user_type_assignability(fields, receiver)
            }
            RawTerm::Tuple(components) => match (components.as_slice(), receiver) {
                (components, CqlType::Tuple(types)) => {
                    let fits = components.len() <= types.len()
                        && components.iter().zip(types.iter()).all(|(component, cql_type)| {
                            self.assignability(component, cql_type).is_assignable()
                        });
                    if fits {
                        Assignability::Weak
                    } else {
                        Assignability::None
                    }
                }
                ([nested], _) => self.assignability(nested, receiver),
                _ => Assignability::None,
            },
            RawTerm::TypeHint { type_name, .. } => {
                let table = self.scope.table;
                match hinted_type(self.scope.schema, &table.keyspace, type_name) {
                    Ok(hinted) => type_assignment(&hinted, receiver),
                    Err(_) => Assignability::None,
                }
            }
            RawTerm::Function { .. }
            | RawTerm::Cast { .. }
            | RawTerm::Arithmetic { .. }
            | RawTerm::Negation(_)
            | RawTerm::CountRows => self.call_assignability(term, receiver),
            RawTerm::Column(_)
            | RawTerm::Reference(_)
            | RawTerm::CellAttribute { .. }
            | RawTerm::Element { .. }
            | RawTerm::Slice { .. }
            | RawTerm::Field { .. } => match self.exact_type(term) {
                Some(given) => type_assignment(&given, receiver),
                None => Assignability::None,
            },
        }
    }

    fn all_assignable(&self, terms: &[RawTerm], receiver: &CqlType) -> Assignability {
        Assignability::all(terms.iter().map(|term| self.assignability(term, receiver)))
    }

    fn list_assignability(&self, elements: &[RawTerm], receiver: &CqlType) -> Assignability {
        match receiver {
            CqlType::List { .. } if elements.is_empty() => Assignability::Weak,
            CqlType::List { element, .. } => self.all_assignable(elements, element),
            CqlType::Vector { element, dimension } if elements.len() == *dimension as usize => {
                self.all_assignable(elements, element)
            }
            _ => Assignability::None,
        }
    }

    fn map_assignability(&self, entries: &[(RawTerm, RawTerm)], receiver: &CqlType) -> Assignability {
        match receiver {
            CqlType::Map { .. } if entries.is_empty() => Assignability::Weak,
            CqlType::Map { key, value, .. } => Assignability::all(entries.iter().flat_map(|entry| {
                [
                    self.assignability(&entry.0, key),
                    self.assignability(&entry.1, value),
                ]
            })),
            CqlType::UserDefined { .. } => match field_entries(entries) {
                Some(fields) => self.user_type_assignability(fields.into_iter(), receiver),
                None => Assignability::None,
            },
            _ => Assignability::None,
        }
    }

    fn user_type_assignability<'t>(
        &self,
        fields: impl Iterator<Item = (&'t str, &'t RawTerm)>,
        receiver: &CqlType,
    ) -> Assignability {
        let CqlType::UserDefined { definition, .. } = receiver else {
            return Assignability::None;
        };
        for (name, value) in fields {
            let Some(position) = definition.field_position(name) else {
                continue;
            };
            if !self
                .assignability(value, &definition.fields[position].1)
                .is_assignable()
            {
                return Assignability::None;
            }
        }
        Assignability::Weak
    }

    /// A call in a term is let through when it cannot be resolved, so that preparing it says why; in a select clause
    /// its own type decides.
    fn call_assignability(&self, call: &RawTerm, receiver: &CqlType) -> Assignability {
        if self.is_selection() {
            return match self.exact_type(call) {
                Some(given) => type_assignment(&given, receiver),
                None => Assignability::None,
            };
        }
        let known = self.scope.calls.borrow().assignability(call, receiver);
        if let Some(known) = known {
            return known;
        }
        let (name, arguments) = FunctionCallName::of(call);
        let found = match functions::resolve(self, &name, &arguments, Some(receiver)) {
            Ok(Some(_)) if functions::is_inferred(&name) => Assignability::Weak,
            Ok(Some(function)) => type_assignment(&function.return_type, receiver),
            Ok(None) | Err(_) => Assignability::Weak,
        };
        let mut calls = self.scope.calls.borrow_mut();
        calls.found_assignability(call, receiver, found);
        found
    }

    /// Returns the type of a call that is no cast.
    fn call_type(&self, call: &RawTerm) -> Option<CqlType> {
        let known = self.scope.calls.borrow().exact(call, self.is_selection());
        if let Some(known) = known {
            return known;
        }
        let (name, arguments) = FunctionCallName::of(call);
        let function = functions::resolve(self, &name, &arguments, None).ok().flatten();
        let found = function.map(|function| function.return_type);
        let mut calls = self.scope.calls.borrow_mut();
        calls.found_exact(call, self.is_selection(), found.clone());
        found
    }

    /// The type the term has whatever it is for.
    pub(crate) fn exact_type(&self, term: &RawTerm) -> Option<CqlType> {
        match term {
            RawTerm::Literal(_)
            | RawTerm::Null
            | RawTerm::Marker(_)
            | RawTerm::Map(_)
            | RawTerm::UserType(_) => None,
            RawTerm::List(elements) if self.is_selection() => elements
                .iter()
                .find_map(|element| self.exact_type(element))
                .map(|element| CqlType::list(element, false)),
            RawTerm::List(_) => None,
            RawTerm::Set(elements) => elements
                .iter()
                .find_map(|element| self.exact_type(element))
                .map(|element| CqlType::set(element, false)),
            RawTerm::Tuple(components) if components.len() == 1 && self.is_selection() => None,
            RawTerm::Tuple(components) => {
                let types = components.iter().map(|component| self.exact_type(component));
                types.collect::<Option<Vec<_>>>().map(CqlType::tuple)
            }
            RawTerm::TypeHint { type_name, .. } => {
                let hinted = hinted_type(self.scope.schema, &self.scope.table.keyspace, type_name).ok()?;
                Some(if self.is_selection() {
                    hinted.freeze()
                } else {
                    hinted
                })
            }
            RawTerm::Cast { target, .. } => Some(native_type(*target)),
            RawTerm::Function { .. }
            | RawTerm::Arithmetic { .. }
            | RawTerm::Negation(_)
            | RawTerm::CountRows => self.call_type(term),
            RawTerm::Column(name) => self
                .scope
                .table
                .column(name)
                .map(|column| column.cql_type.clone()),
            RawTerm::Reference(reference) => self.scope.references?.exact_type(reference),
            RawTerm::CellAttribute { attribute, of } => self.cell_attribute_type(*attribute, of),
            RawTerm::Element { of, .. } => match self.exact_type(of)? {
                CqlType::Set { element, .. } => Some((*element).clone()),
                CqlType::Map { value, .. } => Some((*value).clone()),
                _ => None,
            },
            RawTerm::Slice { of, .. } => self.exact_type(of).filter(CqlType::is_collection),
            RawTerm::Field { of, field } => match self.exact_type(of)? {
                CqlType::UserDefined { definition, .. } => {
                    let position = definition.field_position(field)?;
                    Some(definition.fields[position].1.clone())
                }
                _ => None,
            },
        }
    }

    /// The type the term would be given if nothing else said.
    pub(crate) fn compatible_type(&self, term: &RawTerm) -> Option<CqlType> {
        let common = |terms: &[RawTerm]| {
            common_type(
                &terms
                    .iter()
                    .filter_map(|term| self.compatible_type(term))
                    .collect::<Vec<_>>(),
            )
        };
        match term {
            RawTerm::Literal(literal) => Some(preferred_type(literal)),
            RawTerm::List(elements) => Some(CqlType::list(common(elements)?, false)),
            RawTerm::Set(elements) => Some(CqlType::set(common(elements)?, false)),
            RawTerm::Map(entries) if !self.is_selection() => {
                let (keys, values): (Vec<_>, Vec<_>) = entries.iter().cloned().unzip();
                Some(CqlType::map(common(&keys)?, common(&values)?, false))
            }
            RawTerm::Tuple(components) if components.len() > 1 => {
                let types = components.iter().map(|component| self.compatible_type(component));
                types.collect::<Option<Vec<_>>>().map(CqlType::tuple)
            }
            _ => self.exact_type(term),
        }
    }
}

/// The entries of a literal in a select clause as fields of a user type, if all keys look like names.
pub(super) fn field_entries(entries: &[(RawTerm, RawTerm)]) -> Option<Vec<(&str, &RawTerm)>> {
    entries
        .iter()
        .map(|(key, value)| match key {
            RawTerm::Column(name) => Some((name.as_str(), value)),
            _ => None,
        })
        .collect()
}

fn literal_assignability(literal: &Literal, receiver: &CqlType) -> Assignability {
    match receiver {
        CqlType::List { .. }
        | CqlType::Set { .. }
        | CqlType::Map { .. }
        | CqlType::UserDefined { .. }
        | CqlType::Vector { .. } => return Assignability::None,
        CqlType::Tuple(_) | CqlType::Custom(_) => return Assignability::Weak,
        _ => {}
    }
    if preferred_type(literal) == *receiver {
        return Assignability::Exact;
    }
    let fits = match literal.kind {
        LiteralKind::String => matches!(
            receiver,
            CqlType::Ascii
                | CqlType::Text
                | CqlType::Inet
                | CqlType::Date
                | CqlType::Time
                | CqlType::Timestamp
        ),
        LiteralKind::Integer => matches!(
            receiver,
            CqlType::Bigint
                | CqlType::Counter
                | CqlType::Date
                | CqlType::Decimal
                | CqlType::Double
                | CqlType::Duration
                | CqlType::Float
                | CqlType::Int
                | CqlType::Smallint
                | CqlType::Time
                | CqlType::Timestamp
                | CqlType::Tinyint
                | CqlType::Varint
        ),
        LiteralKind::Uuid => matches!(receiver, CqlType::Uuid | CqlType::Timeuuid),
        LiteralKind::Float => matches!(receiver, CqlType::Decimal | CqlType::Double | CqlType::Float),
        LiteralKind::Boolean => *receiver == CqlType::Boolean,
        LiteralKind::Hex => *receiver == CqlType::Blob,
        LiteralKind::Duration => *receiver == CqlType::Duration,
    };
    if fits {
        Assignability::Weak
    } else {
        Assignability::None
    }
}
