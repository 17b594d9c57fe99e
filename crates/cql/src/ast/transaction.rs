//! `BEGIN TRANSACTION ... COMMIT TRANSACTION`.

use std::fmt::{self, Display, Formatter};

use super::{ConditionTarget, Modification, Operator, Select, Term};
use crate::quoting::maybe_quote_identifier;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    pub lets: Vec<Let>,
    pub returning: Option<Returning>,
    /// All of them must hold; none without an `IF`.
    pub conditions: Vec<RowCondition>,
    pub statements: Vec<(Modification, Place)>,
    /// How many bind markers it has.
    pub markers: usize,
}

/// `LET name = (SELECT ...)`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Let {
    pub name: String,
    pub select: Select,
    pub place: Place,
}

/// Answer to the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Returning {
    Select(Box<Select>, Place),
    /// `SELECT a.v, b.m['k']`
    References(Vec<Reference>),
}

/// Where a statement of a transaction begins: an offset in the text of the transaction, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(pub usize);

/// A row that a `LET` has read, or the value of one of its columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    pub row: String,
    /// None for the row itself.
    pub column: Option<String>,
    pub target: ConditionTarget,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowCondition {
    pub reference: Reference,
    pub test: RowTest,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowTest {
    IsNull,
    IsNotNull,
    /// With the reference on the left, wherever it was written.
    Compare {
        operator: Operator,
        value: Term,
    },
}

impl Place {
    /// As messages name it: line and column, both counted from 1.
    pub fn in_text(self, text: &str) -> String {
        let before = text.get(..self.0).unwrap_or_default();
        let (line, column) = (before.matches('\n').count(), before.rsplit('\n').next());
        let column = column.unwrap_or_default().chars().count();
        format!("at [{}:{}]", line + 1, column + 1)
    }
}

impl Display for Reference {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&maybe_quote_identifier(&self.row))?;
        if let Some(column) = &self.column {
            write!(f, ".{}", maybe_quote_identifier(column))?;
        }
        match &self.target {
            ConditionTarget::Whole => Ok(()),
            ConditionTarget::Element(key) => write!(f, "[{key}]"),
            ConditionTarget::Field(field) => write!(f, ".{}", maybe_quote_identifier(field)),
        }
    }
}
