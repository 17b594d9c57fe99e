//! Terms: everything that stands for a value.

use super::{FunctionName, NativeType, Reference, TypeName};

/// A value as written. What it means depends on the type of its receiver, which only the schema knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Term {
    Literal(Literal),
    Null,
    Marker(Marker),
    /// `[a, b]`: a list or a vector.
    List(Vec<Term>),
    /// `{a, b}`. The empty literal `{}` is an empty set here and may also stand for an empty map.
    Set(Vec<Term>),
    /// `{k: v}` whose keys are not all identifiers.
    Map(Vec<(Term, Term)>),
    /// `{field: value}`.
    UserType(Vec<(String, Term)>),
    /// `(a, b)`. A term in plain parentheses is a tuple of one, which also passes for the term itself.
    Tuple(Vec<Term>),
    Function {
        name: FunctionName,
        arguments: Vec<Term>,
    },
    /// `(int) term`: the type hint, which Cassandra calls a type cast.
    TypeHint {
        type_name: TypeName,
        term: Box<Term>,
    },
    /// `CAST(term AS type)`: the conversion function.
    Cast {
        term: Box<Term>,
        target: NativeType,
    },
    Arithmetic {
        operator: ArithmeticOperator,
        left: Box<Term>,
        right: Box<Term>,
    },
    Negation(Box<Term>),
    /// Row or column that one of the transaction's `LET`s has read, in a statement of the transaction.
    Reference(Box<Reference>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Literal {
    pub kind: LiteralKind,
    /// The raw text: strings without quotes and with escapes resolved, everything else as written, except that
    /// not-a-number of either sign is spelt `NaN`, and the infinities `Infinity` and `-Infinity`.
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LiteralKind {
    String,
    Integer,
    Uuid,
    Float,
    Boolean,
    Hex,
    Duration,
}

/// A bind marker, `?` or `:name`. Markers are numbered in the order they appear in the statement; the markers of
/// a batch's statements share one numbering.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Marker {
    pub index: usize,
    pub name: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArithmeticOperator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

impl ArithmeticOperator {
    pub fn symbol(self) -> char {
        match self {
            ArithmeticOperator::Add => '+',
            ArithmeticOperator::Subtract => '-',
            ArithmeticOperator::Multiply => '*',
            ArithmeticOperator::Divide => '/',
            ArithmeticOperator::Modulo => '%',
        }
    }
}
