//! From a call to the function it means: overloads are chosen by the types of the arguments.

use std::borrow::Cow;
use std::fmt;

use helenus_cql::ast::{ArithmeticOperator, FunctionName};
use helenus_types::CqlType;

use super::argument_types::{ArgumentTypes, inferred_type};
use super::kinds::OperationKind;
use super::signature::{AggregateKind, NativeFunction, ScalarKind};
use super::{bytes, cast, collection, json, mask, math, operation, time, vector};
use crate::CqlError;
use crate::term::{Assignability, RawTerm, native_type, type_assignment};

/// The name of a call. Operators and casts are calls of functions without a name of their own in CQL.
#[derive(Clone, Debug, PartialEq)]
pub enum FunctionCallName {
    Named(FunctionName),
    Operator(OperationKind),
    Negation,
    Cast(CqlType),
    CountRows,
}

impl FunctionCallName {
    /// Name and arguments of a term that is a call.
    pub fn of(call: &RawTerm) -> (FunctionCallName, Vec<RawTerm>) {
        match call {
            RawTerm::Function { name, arguments } => {
                (FunctionCallName::Named(name.clone()), arguments.clone())
            }
            RawTerm::Cast { term, target } => (
                FunctionCallName::Cast(native_type(*target)),
                vec![(**term).clone()],
            ),
            RawTerm::Arithmetic {
                operator,
                left,
                right,
            } => {
                let operation = match operator {
                    ArithmeticOperator::Add => OperationKind::Add,
                    ArithmeticOperator::Subtract => OperationKind::Subtract,
                    ArithmeticOperator::Multiply => OperationKind::Multiply,
                    ArithmeticOperator::Divide => OperationKind::Divide,
                    ArithmeticOperator::Modulo => OperationKind::Modulo,
                };
                (
                    FunctionCallName::Operator(operation),
                    vec![(**left).clone(), (**right).clone()],
                )
            }
            RawTerm::Negation(term) => (FunctionCallName::Negation, vec![(**term).clone()]),
            // Whoever asks has looked: only `count(*)` is left.
            _ => (FunctionCallName::CountRows, Vec::new()),
        }
    }

    pub fn operator(&self) -> Option<char> {
        match self {
            FunctionCallName::Operator(operation) => Some(operation.symbol()),
            _ => None,
        }
    }

    pub fn is_native(&self, name: &str) -> bool {
        self.native_name() == Some(name)
    }

    /// The name within `system`, if it may be a native function's.
    fn native_name(&self) -> Option<&str> {
        match self {
            FunctionCallName::Named(name)
                if name
                    .keyspace
                    .as_deref()
                    .is_none_or(|keyspace| keyspace == "system") =>
            {
                Some(&name.name)
            }
            _ => None,
        }
    }
}

impl fmt::Display for FunctionCallName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FunctionCallName::Named(name) => name.fmt(f),
            FunctionCallName::Operator(operation) => write!(f, "system.{}", operation.function_name()),
            FunctionCallName::Negation => f.write_str("system._negate"),
            FunctionCallName::Cast(target) => write!(f, "system.cast_as_{target}"),
            FunctionCallName::CountRows => f.write_str("system.count_rows"),
        }
    }
}

/// Returns whether the function of this name takes its argument types from the call instead of having overloads.
pub(crate) fn is_inferred(name: &FunctionCallName) -> bool {
    name.native_name().is_some_and(|name| {
        matches!(name, "token" | "min" | "max")
            || collection::is_function(name)
            || vector::is_function(name)
            || mask::is_function(name)
            || json::from_json_name(name).is_some()
    })
}

/// Finds the function a call means. `receiver` is the type that is wanted, where one is.
pub fn resolve(
    typing: &dyn ArgumentTypes,
    name: &FunctionCallName,
    arguments: &[RawTerm],
    receiver: Option<&CqlType>,
) -> Result<Option<NativeFunction>, CqlError> {
    let candidates = candidates(typing, name, arguments, receiver)?;
    match &*candidates {
        [] => Ok(None),
        [function] => {
            check_arguments(typing, function, arguments)?;
            Ok(Some(function.clone()))
        }
        _ => best_match(typing, name, arguments, receiver, &candidates).map(Some),
    }
}

fn candidates(
    typing: &dyn ArgumentTypes,
    name: &FunctionCallName,
    arguments: &[RawTerm],
    receiver: Option<&CqlType>,
) -> Result<Cow<'static, [NativeFunction]>, CqlError> {
    let native = match name {
        FunctionCallName::Operator(operation) => return Ok(operation::overloads(*operation).into()),
        FunctionCallName::Negation => return Ok(operation::negations().into()),
        FunctionCallName::Cast(target) => return Ok(cast::overloads(target).into()),
        FunctionCallName::CountRows => return Ok(vec![count_rows()].into()),
        FunctionCallName::Named(_) => match name.native_name() {
            Some(native) => native,
            None => return Ok(Cow::default()),
        },
    };
    match inferred_function(typing, native, arguments, receiver)? {
        Some(function) => Ok(vec![function].into()),
        None => Ok(overloads(native).into()),
    }
}

/// The function of this name that takes its argument types from the call.
fn inferred_function(
    typing: &dyn ArgumentTypes,
    native: &str,
    arguments: &[RawTerm],
    receiver: Option<&CqlType>,
) -> Result<Option<NativeFunction>, CqlError> {
    let extreme = |name, kind| extreme_function(typing, name, kind, arguments, receiver).map(Some);
    match native {
        "token" => return Ok(Some(token_function(typing))),
        "min" => return extreme("min", AggregateKind::Minimum),
        "max" => return extreme("max", AggregateKind::Maximum),
        _ => {}
    }
    if let Some(function) = json::function(typing, native, arguments, receiver)? {
        return Ok(Some(function));
    }
    if let Some(function) = collection::function(typing, native, arguments)? {
        return Ok(Some(function));
    }
    if let Some(function) = vector::function(typing, native, arguments, receiver)? {
        return Ok(Some(function));
    }
    mask::function(typing, native, arguments, receiver)
}

/// All functions of this name, each with argument types of its own.
fn overloads(native: &str) -> Vec<NativeFunction> {
    let mut overloads = match native {
        "uuid" => vec![NativeFunction::scalar(
            "uuid",
            ScalarKind::Uuid,
            [],
            CqlType::Uuid,
        )],
        "count_rows" => vec![count_rows()],
        "count" => vec![NativeFunction::aggregate(
            "count",
            AggregateKind::Count,
            [CqlType::Blob],
            CqlType::Bigint,
        )],
        "sum" => math::aggregates("sum", AggregateKind::Sum),
        "avg" => math::aggregates("avg", AggregateKind::Average),
        _ => Vec::new(),
    };
    overloads.extend(time::overloads(native));
    overloads.extend(math::overloads(native));
    overloads.extend(bytes::overloads(native));
    overloads.extend(cast::named_overloads(native));
    overloads
}

fn count_rows() -> NativeFunction {
    NativeFunction::aggregate("count_rows", AggregateKind::CountRows, [], CqlType::Bigint)
}

fn token_function(typing: &dyn ArgumentTypes) -> NativeFunction {
    let table = typing.table();
    let types: Vec<CqlType> = table
        .partition_key()
        .iter()
        .map(|column| column.cql_type.clone())
        .collect();
    NativeFunction::scalar("token", ScalarKind::Token(table.clone()), types, CqlType::Bigint)
}

fn extreme_function(
    typing: &dyn ArgumentTypes,
    name: &'static str,
    kind: AggregateKind,
    arguments: &[RawTerm],
    receiver: Option<&CqlType>,
) -> Result<NativeFunction, CqlError> {
    let signature = format!("{name}(any)");
    let [argument] = arguments else {
        return Err(invalid!(
            "Invalid number of arguments for function system.{signature}"
        ));
    };
    let cql_type = inferred_type(typing, &signature, argument, receiver)?;
    Ok(NativeFunction::aggregate(
        name,
        kind,
        [cql_type.clone()],
        cql_type,
    ))
}

fn check_arguments(
    typing: &dyn ArgumentTypes,
    function: &NativeFunction,
    arguments: &[RawTerm],
) -> Result<(), CqlError> {
    let (wanted, given) = (function.argument_types.len(), arguments.len());
    let name = function.qualified_name();
    if wanted != given {
        return Err(invalid!(
            "Invalid number of arguments in call to function {name}: {wanted} required but {given} provided"
        ));
    }
    for (index, (argument, cql_type)) in arguments.iter().zip(&function.argument_types).enumerate() {
        if !typing.assignability(argument, cql_type).is_assignable() {
            return Err(invalid!(
                "Type error: {argument} cannot be passed as argument {index} of function {name} of type {cql_type}"
            ));
        }
    }
    Ok(())
}

fn match_arguments(
    typing: &dyn ArgumentTypes,
    function: &NativeFunction,
    arguments: &[RawTerm],
) -> Assignability {
    if function.argument_types.len() != arguments.len() {
        return Assignability::None;
    }
    let mut result = Assignability::Exact;
    for (argument, cql_type) in arguments.iter().zip(&function.argument_types) {
        match typing.assignability(argument, cql_type) {
            Assignability::None => return Assignability::None,
            Assignability::Weak => result = Assignability::Weak,
            Assignability::Exact => {}
        }
    }
    result
}

fn best_match(
    typing: &dyn ArgumentTypes,
    name: &FunctionCallName,
    arguments: &[RawTerm],
    receiver: Option<&CqlType>,
    candidates: &[NativeFunction],
) -> Result<NativeFunction, CqlError> {
    let mut compatible = Vec::new();
    for function in candidates {
        if receiver.is_some_and(|receiver| !type_assignment(&function.return_type, receiver).is_assignable())
        {
            continue;
        }
        match match_arguments(typing, function, arguments) {
            Assignability::Exact => return Ok(function.clone()),
            Assignability::Weak => compatible.push(function.clone()),
            Assignability::None => {}
        }
    }
    match compatible.len() {
        0 => Err(no_match(name, arguments, candidates)),
        1 => Ok(compatible.swap_remove(0)),
        _ => ambiguous(name, arguments, receiver, &compatible),
    }
}

fn no_match(name: &FunctionCallName, arguments: &[RawTerm], candidates: &[NativeFunction]) -> CqlError {
    match (name.operator(), arguments) {
        (Some(operator), [left, right]) => {
            invalid!("the '{operator}' operation is not supported between {left} and {right}")
        }
        _ => unmatched(name, candidates),
    }
}

/// Finds the conversion of a value that is selected: of its own type, or else the only one of a type that can read its bytes, as a
/// bigint those of a timestamp.
pub(crate) fn resolve_cast(from: &CqlType, to: &CqlType) -> Result<NativeFunction, CqlError> {
    if let Some(function) = cast::cast_function(from, to) {
        return Ok(function);
    }
    let name = FunctionCallName::Cast(to.clone());
    let candidates = cast::overloads(to);
    let mut compatible = candidates.clone();
    compatible.retain(|function| {
        let argument_type = function.argument_types.first();
        argument_type.is_some_and(|wanted| type_assignment(from, wanted).is_assignable())
    });
    match compatible.len() {
        0 => Err(unmatched(&name, &candidates)),
        1 => Ok(compatible.swap_remove(0)),
        _ => ambiguous(&name, &[], None, &compatible),
    }
}

/// Makes the refusal of a call that fits none of the overloads.
fn unmatched(name: &FunctionCallName, candidates: &[NativeFunction]) -> CqlError {
    invalid!(
        "Invalid call to function {name}, none of its type signatures match (known type signatures: {})",
        signatures(candidates)
    )
}

fn ambiguous(
    name: &FunctionCallName,
    arguments: &[RawTerm],
    receiver: Option<&CqlType>,
    compatible: &[NativeFunction],
) -> Result<NativeFunction, CqlError> {
    if let (Some(operator), [left, right]) = (name.operator(), arguments) {
        if let Some(receiver) = receiver
            && !matches!(left, RawTerm::Marker(_))
            && !matches!(right, RawTerm::Marker(_))
            && let Some(same) = compatible
                .iter()
                .find(|function| function.argument_types.iter().all(|given| given == receiver))
        {
            return Ok(same.clone());
        }
        return Err(invalid!(
            "Ambiguous '{operator}' operation with args {left} and {right}: \
             use type hint to disambiguate, example '(int) ?'"
        ));
    }
    if *name == FunctionCallName::Negation {
        return Err(invalid!("Ambiguous negation: use type casts to disambiguate"));
    }
    Err(invalid!(
        "Ambiguous call to function {name} (can be matched by following signatures: {}): \
         use type casts to disambiguate",
        signatures(compatible)
    ))
}

fn signatures(functions: &[NativeFunction]) -> String {
    functions
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}
