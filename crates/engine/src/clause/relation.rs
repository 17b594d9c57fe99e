//! One relation of a WHERE clause: typed to a restriction, and printed as Cassandra prints it.

use std::fmt;
use std::sync::Arc;

use helenus_cql::ast::{InValues, Operator, Relation, Term, TupleInValues, TupleValue};
use helenus_schema::{ClusteringOrder, ColumnKind, ColumnMetadata};
use helenus_types::{CqlType, quoted_identifier};

use super::restriction::{InTerm, RestrictedColumn, Restriction, RestrictionKind, SliceBound, TupleTerm};
use crate::CqlError;
use crate::term::{RawTerm, Receiver, Typing};

/// Types one relation on columns.
pub fn restriction(typing: &Typing<'_>, relation: &Relation) -> Result<Restriction, CqlError> {
    match relation {
        Relation::Column {
            column,
            operator,
            value,
        } => {
            let column = typing.column(column)?;
            column_restriction(typing, relation, column, *operator, &value.into())
        }
        Relation::In { column, values } => in_restriction(typing, typing.column(column)?, values),
        Relation::Element {
            column,
            key,
            operator,
            value,
        } => element_restriction(
            typing,
            relation,
            typing.column(column)?,
            &key.into(),
            *operator,
            &value.into(),
        ),
        Relation::Tuple {
            columns,
            operator,
            value,
        } => tuple_restriction(typing, relation, columns, *operator, value),
        Relation::TupleIn { columns, values } => tuple_in_restriction(typing, relation, columns, values),
        Relation::IsNotNull { .. } | Relation::Token { .. } | Relation::Expression { .. } => {
            Err(invalid!("Unsupported restriction: {}", RelationText(relation)))
        }
    }
}

pub fn single(column: &ColumnMetadata, kind: RestrictionKind) -> Restriction {
    let columns = vec![RestrictedColumn {
        column: Arc::new(column.clone()),
    }];
    Restriction {
        columns,
        is_multi_column: false,
        kind,
    }
}

/// Refuses what no relation but CONTAINS may look at: values that are many cells.
fn check_receiver(column: &ColumnMetadata, operator: &str) -> Result<(), CqlError> {
    let (name, cql_type) = (&column.name, &column.cql_type);
    if cql_type.is_user_defined() && cql_type.is_multi_cell() {
        return Err(invalid!(
            "Non-frozen UDT column '{name}' ({cql_type}) cannot be restricted by any relation"
        ));
    }
    if cql_type.is_collection() && cql_type.is_multi_cell() {
        return Err(invalid!(
            "Collection column '{name}' ({cql_type}) cannot be restricted by a '{operator}' relation"
        ));
    }
    Ok(())
}

fn column_restriction(
    typing: &Typing<'_>,
    relation: &Relation,
    column: &ColumnMetadata,
    operator: Operator,
    value: &RawTerm,
) -> Result<Restriction, CqlError> {
    let (name, cql_type) = (&column.name, &column.cql_type);
    match operator {
        Operator::NotEqual => {
            return Err(invalid!(
                "Unsupported \"!=\" relation: {}",
                RelationText(relation)
            ));
        }
        Operator::Contains | Operator::ContainsKey => {
            return contains_restriction(typing, column, operator, value);
        }
        Operator::Less | Operator::LessOrEqual | Operator::Greater | Operator::GreaterOrEqual
            if cql_type.references_duration() =>
        {
            return Err(match cql_type {
                collection if collection.is_collection() => {
                    invalid!("Slice restrictions are not supported on collections containing durations")
                }
                CqlType::Tuple(_) => {
                    invalid!("Slice restrictions are not supported on tuples containing durations")
                }
                CqlType::UserDefined { .. } => {
                    invalid!("Slice restrictions are not supported on UDTs containing durations")
                }
                _ => invalid!("Slice restrictions are not supported on duration columns"),
            });
        }
        _ => {}
    }
    check_receiver(column, operator_text(operator))?;
    let term = TupleTerm::Single(typing.term(value, &Receiver::column(column))?);
    if operator == Operator::Like {
        return Err(invalid!(
            "LIKE restriction is only supported on properly indexed columns. {} is not valid.",
            RelationText(relation)
        ));
    }
    let kind = comparison(operator, term).ok_or_else(|| invalid!("Unsupported restriction on {name}"))?;
    Ok(single(column, kind))
}

/// Equality or one bound.
fn comparison(operator: Operator, value: TupleTerm) -> Option<RestrictionKind> {
    let start = |value, is_inclusive| RestrictionKind::Slice {
        start: Some(SliceBound { value, is_inclusive }),
        end: None,
    };
    let end = |value, is_inclusive| RestrictionKind::Slice {
        start: None,
        end: Some(SliceBound { value, is_inclusive }),
    };
    Some(match operator {
        Operator::Equal => RestrictionKind::Equal(value),
        Operator::Greater => start(value, false),
        Operator::GreaterOrEqual => start(value, true),
        Operator::Less => end(value, false),
        Operator::LessOrEqual => end(value, true),
        Operator::NotEqual | Operator::Contains | Operator::ContainsKey | Operator::Like => return None,
    })
}

fn contains_restriction(
    typing: &Typing<'_>,
    column: &ColumnMetadata,
    operator: Operator,
    value: &RawTerm,
) -> Result<Restriction, CqlError> {
    let name = &column.name;
    let receiver = Receiver::column(column);
    let is_key = operator == Operator::ContainsKey;
    let part = match (collection_type(column), is_key) {
        (Some(CqlType::Map { key, .. }), true) => receiver.part("key", key),
        (_, true) => return Err(invalid!("Cannot use CONTAINS KEY on non-map column {name}")),
        (Some(CqlType::Map { value, .. }), false) => receiver.part("value", value),
        (Some(CqlType::List { element, .. } | CqlType::Set { element, .. }), false) => {
            receiver.part("value", element)
        }
        (_, false) => return Err(invalid!("Cannot use CONTAINS on non-collection column {name}")),
    };
    let term = vec![typing.term(value, &part)?];
    let (keys, values) = if is_key {
        (term, Vec::new())
    } else {
        (Vec::new(), term)
    };
    Ok(single(
        column,
        RestrictionKind::Contains {
            values,
            keys,
            entries: Vec::new(),
        },
    ))
}

/// The type of a column whose parts can be asked for. As in Cassandra, none of a clustering column in descending order, whose type it
/// does not look into.
fn collection_type(column: &ColumnMetadata) -> Option<&CqlType> {
    let is_descending = column.kind == ColumnKind::Clustering && column.order == ClusteringOrder::Descending;
    (!is_descending && column.cql_type.is_collection()).then_some(&column.cql_type)
}

fn element_restriction(
    typing: &Typing<'_>,
    relation: &Relation,
    column: &ColumnMetadata,
    key: &RawTerm,
    operator: Operator,
    value: &RawTerm,
) -> Result<Restriction, CqlError> {
    let name = &column.name;
    if operator == Operator::NotEqual {
        return Err(invalid!(
            "Unsupported \"!=\" relation: {}",
            RelationText(relation)
        ));
    }
    let (key_type, value_type) = match collection_type(column) {
        Some(CqlType::List { .. }) => {
            return Err(invalid!(
                "Indexes on list entries ({name}[index] = value) are not currently supported."
            ));
        }
        Some(CqlType::Map { frozen: true, .. }) => {
            return Err(invalid!(
                "Map-entry equality predicates on frozen map column {name} are not supported"
            ));
        }
        Some(CqlType::Map { key, value, .. }) => (key, value),
        _ => return Err(invalid!("Column {name} cannot be used as a map")),
    };
    if operator != Operator::Equal {
        return Err(invalid!("Only EQ relations are supported on map entries"));
    }
    let receiver = Receiver::column(column);
    let key = typing.term(key, &receiver.part("key", key_type))?;
    let value = typing.term(value, &receiver.part("value", value_type))?;
    let kind = RestrictionKind::Contains {
        values: Vec::new(),
        keys: Vec::new(),
        entries: vec![(key, value)],
    };
    Ok(single(column, kind))
}

fn in_restriction(
    typing: &Typing<'_>,
    column: &ColumnMetadata,
    values: &InValues,
) -> Result<Restriction, CqlError> {
    check_receiver(column, "IN")?;
    let receiver = Receiver::column(column);
    match values {
        InValues::Marker(marker) => {
            let list = CqlType::list(column.cql_type.clone(), false);
            let receiver = Receiver::new(format!("in({})", column.name), list);
            let marker = typing.term(&RawTerm::Marker(marker.clone()), &receiver)?;
            Ok(single(column, RestrictionKind::In(InTerm::Marker(marker))))
        }
        InValues::List(values) => {
            let terms = values
                .iter()
                .map(|value| typing.term(&value.into(), &receiver).map(TupleTerm::Single));
            let mut terms = terms.collect::<Result<Vec<_>, _>>()?;
            let kind = match terms.len() {
                1 => RestrictionKind::Equal(terms.swap_remove(0)),
                _ => RestrictionKind::In(InTerm::Values(terms)),
            };
            Ok(single(column, kind))
        }
    }
}

fn tuple_columns<'a>(
    typing: &Typing<'a>,
    relation: &Relation,
    names: &[String],
) -> Result<Vec<&'a ColumnMetadata>, CqlError> {
    let mut columns: Vec<&ColumnMetadata> = Vec::with_capacity(names.len());
    for name in names {
        let column = typing.column(name)?;
        if column.kind != ColumnKind::Clustering {
            return Err(invalid!(
                "Multi-column relations can only be applied to clustering columns but was applied to: {}",
                column.name
            ));
        }
        if columns.iter().any(|other| other.id == column.id) {
            return Err(invalid!(
                "Column \"{}\" appeared twice in a relation: {}",
                column.name,
                RelationText(relation)
            ));
        }
        if columns
            .last()
            .is_some_and(|last| column.position != last.position + 1)
        {
            return Err(invalid!(
                "Clustering columns must appear in the PRIMARY KEY order in multi-column relations: {}",
                RelationText(relation)
            ));
        }
        columns.push(column);
    }
    Ok(columns)
}

fn restricted(columns: &[&ColumnMetadata], kind: RestrictionKind) -> Restriction {
    let columns = columns
        .iter()
        .map(|column| RestrictedColumn {
            column: Arc::new((*column).clone()),
        })
        .collect();
    Restriction {
        columns,
        is_multi_column: true,
        kind,
    }
}

fn tuple_receiver(columns: &[&ColumnMetadata], prefix: &str) -> (String, CqlType) {
    let names = columns
        .iter()
        .map(|column| &*column.name)
        .collect::<Vec<_>>()
        .join(",");
    (
        format!("{prefix}({names})"),
        CqlType::tuple(columns.iter().map(|column| column.cql_type.clone())),
    )
}

fn tuple_term(
    typing: &Typing<'_>,
    columns: &[&ColumnMetadata],
    components: &[helenus_cql::ast::Term],
) -> Result<TupleTerm, CqlError> {
    if components.len() != columns.len() {
        let tuple = RawTerm::Tuple(components.iter().map(RawTerm::from).collect());
        return Err(invalid!(
            "Expected {} elements in value tuple, but got {}: {tuple}",
            columns.len(),
            components.len()
        ));
    }
    let typed = components
        .iter()
        .zip(columns)
        .map(|(component, column)| typing.term(&component.into(), &Receiver::column(column)));
    typed.collect::<Result<Vec<_>, _>>().map(TupleTerm::Components)
}

fn tuple_restriction(
    typing: &Typing<'_>,
    relation: &Relation,
    names: &[String],
    operator: Operator,
    value: &TupleValue,
) -> Result<Restriction, CqlError> {
    if matches!(
        operator,
        Operator::Contains | Operator::ContainsKey | Operator::Like
    ) {
        return Err(invalid!(
            "{} cannot be used for multi-column relations",
            operator_text(operator)
        ));
    }
    if operator == Operator::NotEqual {
        return Err(invalid!(
            "Unsupported \"!=\" relation: {}",
            RelationText(relation)
        ));
    }
    let columns = tuple_columns(typing, relation, names)?;
    let term = match value {
        TupleValue::Tuple(components) => tuple_term(typing, &columns, components)?,
        TupleValue::Marker(marker) => {
            let (name, tuple) = tuple_receiver(&columns, "");
            TupleTerm::Marker(typing.term(&RawTerm::Marker(marker.clone()), &Receiver::new(name, tuple))?)
        }
    };
    let kind = comparison(operator, term)
        .ok_or_else(|| invalid!("Unsupported restriction: {}", RelationText(relation)))?;
    Ok(restricted(&columns, kind))
}

fn tuple_in_restriction(
    typing: &Typing<'_>,
    relation: &Relation,
    names: &[String],
    values: &TupleInValues,
) -> Result<Restriction, CqlError> {
    let columns = tuple_columns(typing, relation, names)?;
    let mut terms = match values {
        TupleInValues::Marker(marker) => {
            let (name, tuple) = tuple_receiver(&columns, "in");
            let receiver = Receiver::new(name, CqlType::list(tuple, false));
            let marker = typing.term(&RawTerm::Marker(marker.clone()), &receiver)?;
            return Ok(restricted(&columns, RestrictionKind::In(InTerm::Marker(marker))));
        }
        TupleInValues::Tuples(tuples) => tuples
            .iter()
            .map(|tuple| tuple_term(typing, &columns, tuple))
            .collect::<Result<Vec<_>, _>>()?,
        TupleInValues::Markers(markers) => {
            let (name, tuple) = tuple_receiver(&columns, "");
            let receiver = Receiver::new(name, tuple);
            let typed = markers
                .iter()
                .map(|marker| typing.term(&RawTerm::Marker(marker.clone()), &receiver));
            typed
                .map(|marker| marker.map(TupleTerm::Marker))
                .collect::<Result<Vec<_>, _>>()?
        }
    };
    let kind = match terms.len() {
        1 => RestrictionKind::Equal(terms.swap_remove(0)),
        _ => RestrictionKind::In(InTerm::Values(terms)),
    };
    Ok(restricted(&columns, kind))
}

pub(crate) fn operator_text(operator: Operator) -> &'static str {
    match operator {
        Operator::Equal => "=",
        Operator::NotEqual => "!=",
        Operator::Less => "<",
        Operator::LessOrEqual => "<=",
        Operator::Greater => ">",
        Operator::GreaterOrEqual => ">=",
        Operator::Contains => "CONTAINS",
        Operator::ContainsKey => "CONTAINS KEY",
        Operator::Like => "LIKE",
    }
}

/// A relation as Cassandra prints it.
pub struct RelationText<'a>(pub &'a Relation);

impl fmt::Display for RelationText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Relation::Column {
                column,
                operator,
                value,
            } => write_comparison(f, &quoted_identifier(column), *operator, &RawTerm::from(value)),
            Relation::In {
                column,
                values: InValues::Marker(_),
            } => write!(f, "{} IN ?", quoted_identifier(column)),
            Relation::In {
                column,
                values: InValues::List(values),
            } => write!(f, "{} IN {}", quoted_identifier(column), tuple_of(values)),
            Relation::IsNotNull { column } => write!(f, "{} IS NOT NULL", quoted_identifier(column)),
            Relation::Element {
                column,
                key,
                operator,
                value,
            } => {
                let element = format!("{}[{}]", quoted_identifier(column), RawTerm::from(key));
                write_comparison(f, &element, *operator, &RawTerm::from(value))
            }
            Relation::Token {
                columns,
                operator,
                value,
            } => {
                let token = format!("token({})", names(columns));
                write_comparison(f, &token, *operator, &RawTerm::from(value))
            }
            Relation::Tuple {
                columns,
                operator,
                value,
            } => {
                let tuple = format!("({})", names(columns));
                match value {
                    TupleValue::Marker(_) => write_comparison(f, &tuple, *operator, &"?"),
                    TupleValue::Tuple(components) => {
                        write_comparison(f, &tuple, *operator, &tuple_of(components))
                    }
                }
            }
            Relation::TupleIn { columns, .. } => write!(f, "({}) IN ?", names(columns)),
            Relation::Expression { index, .. } => write!(f, "expr({}, ?)", index.name),
        }
    }
}

fn write_comparison(
    f: &mut fmt::Formatter<'_>,
    left: &str,
    operator: Operator,
    right: &dyn fmt::Display,
) -> fmt::Result {
    write!(f, "{left} {} {right}", operator_text(operator))
}

/// Names of columns as they are listed.
fn names(columns: &[String]) -> String {
    let quoted: Vec<_> = columns.iter().map(|column| quoted_identifier(column)).collect();
    quoted.join(", ")
}

fn tuple_of(terms: &[Term]) -> RawTerm {
    RawTerm::Tuple(terms.iter().map(RawTerm::from).collect())
}
