//! `WITH name = value AND ...`, shared by everything that is created or altered.

/// Properties in the order they were written. The parser rejects a name given twice.
pub type Properties = Vec<Property>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Property {
    pub name: String,
    pub value: PropertyValue,
}

/// Values are kept as their raw text (a string literal without its quotes), which is how Cassandra keeps them:
/// `gc_grace_seconds = '10'` and `gc_grace_seconds = 10` mean the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PropertyValue {
    Simple(String),
    Map(Vec<(String, String)>),
}
