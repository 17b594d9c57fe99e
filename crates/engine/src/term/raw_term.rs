//! Terms and selectors as written, in one shape, and their text as Cassandra prints it.

use std::fmt;

use helenus_cql::ast::{
    ArithmeticOperator, CellAttribute, FunctionName, Literal, LiteralKind, Marker, NativeType, Reference,
    Selector, Term, TypeName,
};

use super::native_type;

/// A term of a statement, or an expression of a select clause. The latter knows a few forms more, which stand at
/// the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RawTerm {
    Literal(Literal),
    Null,
    Marker(Marker),
    /// `[a, b]`: a list or a vector.
    List(Vec<RawTerm>),
    Set(Vec<RawTerm>),
    /// In a select clause also a user type's literal: then the keys are columns by their looks.
    Map(Vec<(RawTerm, RawTerm)>),
    UserType(Vec<(String, RawTerm)>),
    Tuple(Vec<RawTerm>),
    Function {
        name: FunctionName,
        arguments: Vec<RawTerm>,
    },
    TypeHint {
        type_name: TypeName,
        term: Box<RawTerm>,
    },
    Cast {
        term: Box<RawTerm>,
        target: NativeType,
    },
    Arithmetic {
        operator: ArithmeticOperator,
        left: Box<RawTerm>,
        right: Box<RawTerm>,
    },
    Negation(Box<RawTerm>),
    Column(String),
    CountRows,
    CellAttribute {
        attribute: CellAttribute,
        of: Box<RawTerm>,
    },
    Element {
        of: Box<RawTerm>,
        key: Box<RawTerm>,
    },
    Slice {
        of: Box<RawTerm>,
        from: Option<Box<RawTerm>>,
        to: Option<Box<RawTerm>>,
    },
    Field {
        of: Box<RawTerm>,
        field: String,
    },
    /// In a transaction.
    Reference(Box<Reference>),
}

impl RawTerm {
    /// Returns the terms that the values of a literal, a tuple or a call are made of.
    pub fn parts(&self) -> Vec<&RawTerm> {
        match self {
            RawTerm::List(parts) | RawTerm::Set(parts) | RawTerm::Tuple(parts) => parts.iter().collect(),
            RawTerm::Function { arguments, .. } => arguments.iter().collect(),
            RawTerm::Map(entries) => entries.iter().flat_map(|(key, value)| [key, value]).collect(),
            RawTerm::UserType(fields) => fields.iter().map(|(_, value)| value).collect(),
            RawTerm::TypeHint { term, .. } | RawTerm::Cast { term, .. } | RawTerm::Negation(term) => {
                vec![term]
            }
            RawTerm::Arithmetic { left, right, .. } => vec![left, right],
            RawTerm::CellAttribute { of, .. }
            | RawTerm::Element { of, .. }
            | RawTerm::Slice { of, .. }
            | RawTerm::Field { of, .. } => vec![of],
            RawTerm::Literal(_)
            | RawTerm::Null
            | RawTerm::Marker(_)
            | RawTerm::Column(_)
            | RawTerm::Reference(_)
            | RawTerm::CountRows => Vec::new(),
        }
    }

    /// Columns named anywhere in an expression.
    pub fn column_names(&self) -> Vec<&str> {
        let mut names = Vec::new();
        self.collect_column_names(&mut names);
        names
    }

    fn collect_column_names<'t>(&'t self, names: &mut Vec<&'t str>) {
        if let RawTerm::Column(name) = self {
            names.push(name);
        }
        for part in self.parts() {
            part.collect_column_names(names);
        }
    }

    pub fn has_marker(&self) -> bool {
        matches!(self, RawTerm::Marker(_)) || self.parts().into_iter().any(RawTerm::has_marker)
    }
}

impl From<&Term> for RawTerm {
    fn from(term: &Term) -> Self {
        let all = |terms: &[Term]| terms.iter().map(RawTerm::from).collect();
        let boxed = |term: &Term| Box::new(RawTerm::from(term));
        match term {
            Term::Literal(literal) => RawTerm::Literal(literal.clone()),
            Term::Null => RawTerm::Null,
            Term::Marker(marker) => RawTerm::Marker(marker.clone()),
            Term::List(elements) => RawTerm::List(all(elements)),
            Term::Set(elements) => RawTerm::Set(all(elements)),
            Term::Map(entries) => RawTerm::Map(
                entries
                    .iter()
                    .map(|(key, value)| (key.into(), value.into()))
                    .collect(),
            ),
            Term::UserType(fields) => RawTerm::UserType(
                fields
                    .iter()
                    .map(|(name, value)| (name.clone(), value.into()))
                    .collect(),
            ),
            Term::Tuple(components) => RawTerm::Tuple(all(components)),
            Term::Function { name, arguments } => RawTerm::Function {
                name: name.clone(),
                arguments: all(arguments),
            },
            Term::TypeHint { type_name, term } => RawTerm::TypeHint {
                type_name: type_name.clone(),
                term: boxed(term),
            },
            Term::Cast { term, target } => RawTerm::Cast {
                term: boxed(term),
                target: *target,
            },
            Term::Arithmetic {
                operator,
                left,
                right,
            } => RawTerm::Arithmetic {
                operator: *operator,
                left: boxed(left),
                right: boxed(right),
            },
            Term::Negation(term) => RawTerm::Negation(boxed(term)),
            Term::Reference(reference) => RawTerm::Reference(reference.clone()),
        }
    }
}

impl From<&Selector> for RawTerm {
    fn from(selector: &Selector) -> Self {
        let all = |selectors: &[Selector]| selectors.iter().map(RawTerm::from).collect();
        let boxed = |selector: &Selector| Box::new(RawTerm::from(selector));
        let boxed_term = |term: &Term| Box::new(RawTerm::from(term));
        match selector {
            Selector::Column(name) => RawTerm::Column(name.clone()),
            Selector::Literal(literal) => RawTerm::Literal(literal.clone()),
            Selector::Null => RawTerm::Null,
            Selector::Marker(marker) => RawTerm::Marker(marker.clone()),
            Selector::CountRows => RawTerm::CountRows,
            Selector::Function { name, arguments } => RawTerm::Function {
                name: name.clone(),
                arguments: all(arguments),
            },
            Selector::CellAttribute { attribute, of } => RawTerm::CellAttribute {
                attribute: *attribute,
                of: boxed(of),
            },
            Selector::Cast { selector, target } => RawTerm::Cast {
                term: boxed(selector),
                target: *target,
            },
            Selector::Arithmetic {
                operator,
                left,
                right,
            } => RawTerm::Arithmetic {
                operator: *operator,
                left: boxed(left),
                right: boxed(right),
            },
            Selector::Negation(selector) => RawTerm::Negation(boxed(selector)),
            Selector::Element { of, key } => RawTerm::Element {
                of: boxed(of),
                key: boxed_term(key),
            },
            Selector::Slice { of, from, to } => RawTerm::Slice {
                of: boxed(of),
                from: from.as_ref().map(boxed_term),
                to: to.as_ref().map(boxed_term),
            },
            Selector::Field { of, field } => RawTerm::Field {
                of: boxed(of),
                field: field.clone(),
            },
            Selector::TypeHint { type_name, selector } => RawTerm::TypeHint {
                type_name: type_name.clone(),
                term: boxed(selector),
            },
            Selector::List(elements) => RawTerm::List(all(elements)),
            Selector::Set(elements) => RawTerm::Set(all(elements)),
            Selector::MapOrUserType(entries) => RawTerm::Map(
                entries
                    .iter()
                    .map(|(key, value)| (key.into(), value.into()))
                    .collect(),
            ),
            Selector::TupleOrNested(components) => RawTerm::Tuple(all(components)),
        }
    }
}

impl fmt::Display for RawTerm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RawTerm::Literal(Literal {
                kind: LiteralKind::String,
                text,
            }) => write!(f, "'{text}'"),
            RawTerm::Literal(literal) => f.write_str(&literal.text),
            RawTerm::Null => f.write_str("NULL"),
            RawTerm::Reference(reference) => reference.fmt(f),
            RawTerm::Marker(_) => f.write_str("?"),
            RawTerm::List(elements) => write_joined(f, "[", elements, "]"),
            RawTerm::Set(elements) => write_joined(f, "{", elements, "}"),
            RawTerm::Map(entries) => write_pairs(f, entries),
            RawTerm::UserType(fields) => write_pairs(f, fields),
            RawTerm::Tuple(components) => write_joined(f, "(", components, ")"),
            RawTerm::Function { name, arguments } => {
                write!(f, "{name}")?;
                write_joined(f, "(", arguments, ")")
            }
            RawTerm::TypeHint { type_name, term } => write!(f, "({}){term}", TypeText(type_name)),
            RawTerm::Cast { term, target } => write!(f, "cast({term} as {})", native_type(*target)),
            RawTerm::Arithmetic {
                operator,
                left,
                right,
            } => write!(f, "{left} {} {right}", operator.symbol()),
            RawTerm::Negation(term) => write!(f, "-{term}"),
            RawTerm::Column(name) => f.write_str(name),
            RawTerm::CountRows => f.write_str("count(*)"),
            RawTerm::CellAttribute { attribute, of } => write!(f, "{}({of})", attribute_name(*attribute)),
            RawTerm::Element { of, key } => write!(f, "{of}[{key}]"),
            RawTerm::Slice { of, from, to } => {
                write!(f, "{of}[")?;
                from.iter().try_for_each(|from| from.fmt(f))?;
                f.write_str("..")?;
                to.iter().try_for_each(|to| to.fmt(f))?;
                f.write_str("]")
            }
            RawTerm::Field { of, field } => write!(f, "{of}.{field}"),
        }
    }
}

pub(super) fn attribute_name(attribute: CellAttribute) -> &'static str {
    match attribute {
        CellAttribute::WriteTime => "writetime",
        CellAttribute::MaxWriteTime => "maxwritetime",
        CellAttribute::Ttl => "ttl",
    }
}

/// A type name as Cassandra prints what it parsed.
pub(super) struct TypeText<'a>(pub(super) &'a TypeName);

impl fmt::Display for TypeText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            TypeName::Native(native) => native_type(*native).fmt(f),
            TypeName::List(element) => write!(f, "list<{}>", TypeText(element)),
            TypeName::Set(element) => write!(f, "set<{}>", TypeText(element)),
            TypeName::Map(key, value) => write!(f, "map<{}, {}>", TypeText(key), TypeText(value)),
            TypeName::Tuple(components) => {
                f.write_str("tuple<")?;
                for (index, component) in components.iter().enumerate() {
                    let separator = if index == 0 { "" } else { ", " };
                    write!(f, "{separator}{}", TypeText(component))?;
                }
                f.write_str(">")
            }
            TypeName::Vector { element, dimension } => {
                write!(f, "vector<{}, {dimension}>", TypeText(element))
            }
            TypeName::Frozen(frozen) => write!(f, "frozen<{}>", TypeText(frozen)),
            TypeName::UserType {
                keyspace: Some(keyspace),
                name,
            } => write!(f, "{keyspace}.{name}"),
            TypeName::UserType { keyspace: None, name } => f.write_str(name),
            TypeName::Custom(class) => f.write_str(class),
        }
    }
}

fn write_joined(f: &mut fmt::Formatter<'_>, open: &str, terms: &[RawTerm], close: &str) -> fmt::Result {
    f.write_str(open)?;
    for (index, term) in terms.iter().enumerate() {
        let separator = if index == 0 { "" } else { ", " };
        write!(f, "{separator}{term}")?;
    }
    f.write_str(close)
}

fn write_pairs(f: &mut fmt::Formatter<'_>, pairs: &[(impl fmt::Display, RawTerm)]) -> fmt::Result {
    f.write_str("{")?;
    for (index, (key, value)) in pairs.iter().enumerate() {
        let separator = if index == 0 { "" } else { ", " };
        write!(f, "{separator}{key}: {value}")?;
    }
    f.write_str("}")
}
