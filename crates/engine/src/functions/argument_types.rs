//! Types of the arguments of a call, as the statement around it knows them.

use std::sync::Arc;

use helenus_schema::{ColumnMetadata, TableMetadata};
use helenus_types::CqlType;

use crate::CqlError;
use crate::term::{Assignability, RawTerm};

/// A statement whose calls are resolved.
pub trait ArgumentTypes {
    /// Returns the table that the statement is about.
    fn table(&self) -> &Arc<TableMetadata>;

    /// Finds a column by its name.
    fn column(&self, name: &str) -> Result<&ColumnMetadata, CqlError>;

    /// Returns how well a term fits a type.
    fn assignability(&self, term: &RawTerm, receiver: &CqlType) -> Assignability;

    /// Returns a type that a term can have, where it says one by itself.
    fn compatible_type(&self, term: &RawTerm) -> Option<CqlType>;
}

/// The type a parameter of a function without overloads takes from its argument.
pub(super) fn inferred_type(
    typing: &dyn ArgumentTypes,
    signature: &str,
    argument: &RawTerm,
    otherwise: Option<&CqlType>,
) -> Result<CqlType, CqlError> {
    typing
        .compatible_type(argument)
        .or_else(|| otherwise.cloned())
        .ok_or_else(|| {
            invalid!(
                "Cannot infer type of argument {argument} in call to function system.{signature}: \
             use type casts to disambiguate"
            )
        })
}
