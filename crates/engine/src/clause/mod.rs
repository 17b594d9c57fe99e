//! WHERE clauses, for every statement that has one: relations as restrictions of columns, Cassandra's rules of what may stand beside what, and
//! the keys and slices that come of them.

pub(crate) mod index_support;
pub(crate) mod key;
pub(crate) mod made_values;
mod named;
pub(crate) mod relation;
pub(crate) mod restriction;
pub(crate) mod slices;
pub(crate) mod statement_kind;
mod vector_rules;
pub(crate) mod where_clause;

pub use relation::RelationText;
pub use where_clause::WhereClause;
