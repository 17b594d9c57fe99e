//! Terms, types and operators as Cassandra prints them in messages and in the names of result columns.

use std::fmt::{self, Display, Formatter};

use super::{
    ArithmeticOperator, CellAttribute, Literal, LiteralKind, NativeType, Operator, Permission, Selector,
    Term, TypeName,
};
use crate::quoting::maybe_quote_identifier;

/// Items with commas between them.
fn write_list<T>(
    f: &mut Formatter<'_>,
    items: &[T],
    mut write_item: impl FnMut(&mut Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            f.write_str(", ")?;
        }
        write_item(f, item)?;
    }
    Ok(())
}

fn write_displays<T: Display>(f: &mut Formatter<'_>, open: &str, items: &[T], close: &str) -> fmt::Result {
    f.write_str(open)?;
    write_list(f, items, |f, item| item.fmt(f))?;
    f.write_str(close)
}

fn write_pairs<K: Display, V: Display>(f: &mut Formatter<'_>, pairs: &[(K, V)]) -> fmt::Result {
    f.write_str("{")?;
    write_list(f, pairs, |f, (key, value)| write!(f, "{key}: {value}"))?;
    f.write_str("}")
}

impl Display for Literal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.kind {
            // Quotes inside are not doubled: that is how Cassandra prints it.
            LiteralKind::String => write!(f, "'{}'", self.text),
            _ => f.write_str(&self.text),
        }
    }
}

impl Display for Term {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Term::Literal(literal) => literal.fmt(f),
            Term::Null => f.write_str("NULL"),
            Term::Reference(reference) => reference.fmt(f),
            Term::Marker(_) => f.write_str("?"),
            Term::List(elements) => write_displays(f, "[", elements, "]"),
            Term::Set(elements) => write_displays(f, "{", elements, "}"),
            Term::Map(entries) => write_pairs(f, entries),
            Term::UserType(fields) => write_pairs(f, fields),
            Term::Tuple(elements) => write_displays(f, "(", elements, ")"),
            Term::Function { name, arguments } => {
                if let Some(keyspace) = &name.keyspace {
                    write!(f, "{}.", maybe_quote_identifier(keyspace))?;
                }
                // The token function goes by its bare name although the word is reserved.
                if name.keyspace.is_none() && name.name == "token" {
                    f.write_str("token")?;
                } else {
                    f.write_str(&maybe_quote_identifier(&name.name))?;
                }
                write_displays(f, "(", arguments, ")")
            }
            Term::TypeHint { type_name, term } => write!(f, "({type_name}){term}"),
            Term::Cast { term, target } => write!(f, "system.cast_as_{target}({term})"),
            Term::Arithmetic {
                operator,
                left,
                right,
            } => {
                write!(f, "system.\"{}\"({left}, {right})", operator.function_name())
            }
            Term::Negation(term) => write!(f, "system.\"_negate\"({term})"),
        }
    }
}

impl ArithmeticOperator {
    /// The name of the native function that carries the operation out.
    pub fn function_name(self) -> &'static str {
        match self {
            ArithmeticOperator::Add => "_add",
            ArithmeticOperator::Subtract => "_substract",
            ArithmeticOperator::Multiply => "_multiply",
            ArithmeticOperator::Divide => "_divide",
            ArithmeticOperator::Modulo => "_modulo",
        }
    }
}

impl Display for NativeType {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Display for TypeName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write_type(f, self, false)
    }
}

/// Freezing reaches everything inside, and everything inside a tuple is frozen, which is printed.
fn write_type(f: &mut Formatter<'_>, type_name: &TypeName, frozen: bool) -> fmt::Result {
    let freezes = matches!(
        type_name,
        TypeName::List(_) | TypeName::Set(_) | TypeName::Map(..) | TypeName::UserType { .. }
    );
    if frozen && freezes {
        f.write_str("frozen<")?;
    }
    match type_name {
        TypeName::Native(native) => native.fmt(f)?,
        TypeName::List(element) => write_parameters(f, "list", &[element], frozen)?,
        TypeName::Set(element) => write_parameters(f, "set", &[element], frozen)?,
        TypeName::Map(key, value) => write_parameters(f, "map", &[key, value], frozen)?,
        TypeName::Tuple(elements) => {
            write_parameters(f, "tuple", &elements.iter().collect::<Vec<_>>(), true)?
        }
        TypeName::Vector { element, dimension } => write!(f, "vector<{element}, {dimension}>")?,
        TypeName::Frozen(inner) => write_type(f, inner, true)?,
        TypeName::UserType {
            keyspace: Some(keyspace),
            name,
        } => write!(f, "{keyspace}.{name}")?,
        TypeName::UserType { keyspace: None, name } => f.write_str(name)?,
        TypeName::Custom(class) => write!(f, "'{class}'")?,
    }
    if frozen && freezes {
        f.write_str(">")
    } else {
        Ok(())
    }
}

fn write_parameters(f: &mut Formatter<'_>, name: &str, types: &[&TypeName], frozen: bool) -> fmt::Result {
    write!(f, "{name}<")?;
    write_list(f, types, |f, type_name| write_type(f, type_name, frozen))?;
    f.write_str(">")
}

impl Display for Operator {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operator::Equal => "=",
            Operator::NotEqual => "!=",
            Operator::Less => "<",
            Operator::LessOrEqual => "<=",
            Operator::Greater => ">",
            Operator::GreaterOrEqual => ">=",
            Operator::Contains => "CONTAINS",
            Operator::ContainsKey => "CONTAINS KEY",
            Operator::Like => "LIKE",
        })
    }
}

impl CellAttribute {
    pub fn name(self) -> &'static str {
        match self {
            CellAttribute::WriteTime => "writetime",
            CellAttribute::MaxWriteTime => "maxwritetime",
            CellAttribute::Ttl => "ttl",
        }
    }
}

impl Display for Permission {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Permission::Create => "CREATE",
            Permission::Alter => "ALTER",
            Permission::Drop => "DROP",
            Permission::Select => "SELECT",
            Permission::Modify => "MODIFY",
            Permission::Authorize => "AUTHORIZE",
            Permission::Describe => "DESCRIBE",
            Permission::Execute => "EXECUTE",
            Permission::Unmask => "UNMASK",
            Permission::SelectMasked => "SELECT_MASKED",
        })
    }
}

/// Prints the name a result column gets from this selector, in which Cassandra qualifies each function with the
/// keyspace it was found in. Functions named without a keyspace print as native ones, in `system`; the engine
/// puts the keyspace into the names of those it found elsewhere before it prints, as it does with the user types of
/// type hints.
impl Display for Selector {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Selector::Column(name) => f.write_str(name),
            Selector::Literal(literal) => literal.fmt(f),
            Selector::Null => f.write_str("NULL"),
            Selector::Marker(_) => f.write_str("?"),
            Selector::CountRows => f.write_str("count"),
            // Counting a literal is counting rows.
            Selector::Function { name, arguments }
                if name.name == "count" && matches!(arguments.as_slice(), [Selector::Literal(_)]) =>
            {
                f.write_str("count")
            }
            Selector::Function { name, arguments } => {
                let keyspace = name.keyspace.as_deref().unwrap_or("system");
                write!(f, "{keyspace}.{}", name.name)?;
                write_displays(f, "(", arguments, ")")
            }
            Selector::CellAttribute { attribute, of } => write!(f, "{}({of})", attribute.name()),
            Selector::Cast { selector, target } => write!(f, "cast({selector} as {target})"),
            Selector::Arithmetic {
                operator,
                left,
                right,
            } => write!(f, "{left} {} {right}", operator.symbol()),
            Selector::Negation(selector) => write!(f, "-{selector}"),
            Selector::Element { of, key } => write!(f, "{of}[{key}]"),
            Selector::Slice { of, from, to } => {
                write!(f, "{of}[")?;
                from.iter().try_for_each(|from| from.fmt(f))?;
                f.write_str("..")?;
                to.iter().try_for_each(|to| to.fmt(f))?;
                f.write_str("]")
            }
            Selector::Field { of, field } => write!(f, "{of}.{field}"),
            Selector::TypeHint { type_name, selector } => write!(f, "({type_name}){selector}"),
            Selector::List(elements) => write_displays(f, "[", elements, "]"),
            Selector::Set(elements) => write_displays(f, "{", elements, "}"),
            Selector::MapOrUserType(entries) => write_pairs(f, entries),
            Selector::TupleOrNested(elements) => write_displays(f, "(", elements, ")"),
        }
    }
}
