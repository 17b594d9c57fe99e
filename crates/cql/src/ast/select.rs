//! `SELECT`.

use super::{
    ArithmeticOperator, FunctionName, Literal, Marker, NativeType, QualifiedName, Relation, Term, TypeName,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Select {
    pub json: bool,
    pub distinct: bool,
    pub selection: Selection,
    pub table: QualifiedName,
    pub relations: Vec<Relation>,
    pub group_by: Vec<Selector>,
    pub order_by: Vec<Ordering>,
    /// An integer literal or a marker.
    pub per_partition_limit: Option<Term>,
    /// An integer literal or a marker.
    pub limit: Option<Term>,
    pub allow_filtering: bool,
    /// `WITH included_indexes = {..} AND excluded_indexes = {..}`, of Cassandra 6.
    pub index_hints: IndexHints,
    /// `BYPASS CACHE`, an extension.
    pub bypass_cache: bool,
    /// `USING TIMEOUT d`, an extension: a duration literal or a marker.
    pub timeout: Option<Term>,
}

/// Which indexes a SELECT is to use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexHints {
    pub included: Vec<HintedIndex>,
    pub excluded: Vec<HintedIndex>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HintedIndex {
    /// `*`: all indexes of the table.
    All,
    Named(QualifiedName),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// `*`
    Wildcard,
    Items(Vec<SelectItem>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectItem {
    pub selector: Selector,
    pub alias: Option<String>,
}

/// An expression of the select clause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    Column(String),
    Literal(Literal),
    Null,
    Marker(Marker),
    /// `count(*)`; `count(1)` is an ordinary function call here.
    CountRows,
    Function {
        name: FunctionName,
        arguments: Vec<Selector>,
    },
    /// `writetime(c)`, `maxwritetime(c)` and `ttl(c)`; the argument is a column with any modifiers after it.
    CellAttribute {
        attribute: CellAttribute,
        of: Box<Selector>,
    },
    /// `CAST(a AS type)`
    Cast {
        selector: Box<Selector>,
        target: NativeType,
    },
    Arithmetic {
        operator: ArithmeticOperator,
        left: Box<Selector>,
        right: Box<Selector>,
    },
    Negation(Box<Selector>),
    /// `m[key]`
    Element {
        of: Box<Selector>,
        key: Term,
    },
    /// `m[from..to]`
    Slice {
        of: Box<Selector>,
        from: Option<Term>,
        to: Option<Term>,
    },
    /// `u.field`
    Field {
        of: Box<Selector>,
        field: String,
    },
    /// `(type) selector`
    TypeHint {
        type_name: TypeName,
        selector: Box<Selector>,
    },
    /// `[a, b]`: a list or a vector.
    List(Vec<Selector>),
    /// `{a, b}`; the empty literal `{}` may also stand for an empty map.
    Set(Vec<Selector>),
    /// `{k: v}`: a map, or a user type when every key is an identifier; only a type hint decides.
    MapOrUserType(Vec<(Selector, Selector)>),
    /// `(a, b)`, and `(a)`, which is a nested selector unless a tuple is wanted.
    TupleOrNested(Vec<Selector>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CellAttribute {
    WriteTime,
    MaxWriteTime,
    Ttl,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ordering {
    pub expression: OrderingExpression,
    /// None when neither `ASC` nor `DESC` is written.
    pub direction: Option<OrderDirection>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrderingExpression {
    Column(String),
    /// `column ANN OF vector`
    Nearest {
        column: String,
        vector: Term,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OrderDirection {
    Ascending,
    Descending,
}
