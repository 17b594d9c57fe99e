//! `CREATE` and `DROP` of functions and aggregates.

use super::{FunctionName, Term, TypeName};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateFunction {
    pub or_replace: bool,
    pub if_not_exists: bool,
    pub name: FunctionName,
    pub arguments: Vec<FunctionArgument>,
    /// True for `CALLED ON NULL INPUT`, false for `RETURNS NULL ON NULL INPUT`.
    pub called_on_null_input: bool,
    pub return_type: TypeName,
    /// As written.
    pub language: String,
    pub body: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionArgument {
    pub name: String,
    pub type_name: TypeName,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateAggregate {
    pub or_replace: bool,
    pub if_not_exists: bool,
    pub name: FunctionName,
    pub argument_types: Vec<TypeName>,
    pub state_function: String,
    pub state_type: TypeName,
    pub final_function: Option<String>,
    pub initial_state: Option<Term>,
}

/// `DROP FUNCTION` and `DROP AGGREGATE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropFunction {
    pub if_exists: bool,
    pub name: FunctionName,
    /// None when no argument list is written, which is valid while the name is not overloaded.
    pub argument_types: Option<Vec<TypeName>>,
}
