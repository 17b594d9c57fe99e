//! `to_json` and `from_json`.

use helenus_types::CqlType;
use helenus_types::json::{JsonError, JsonValue, shown};

use super::argument_types::{ArgumentTypes, inferred_type};
use super::clock::Clock;
use super::signature::{NativeFunction, ScalarKind};
use crate::CqlError;
use crate::error::FunctionFailure;
use crate::term::{Expression, RawTerm, type_assignment};

/// The name that messages have, and whether it is `to_json`.
fn known(name: &str) -> Option<(&'static str, bool)> {
    Some(match name {
        "to_json" => ("to_json", true),
        "tojson" => ("tojson", true),
        "from_json" => ("from_json", false),
        "fromjson" => ("fromjson", false),
        _ => return None,
    })
}

/// The name of a call of `from_json`, whose type is that of what receives its value.
pub(super) fn from_json_name(name: &str) -> Option<&'static str> {
    known(name).filter(|(_, is_to)| !is_to).map(|(name, _)| name)
}

pub(super) fn function(
    typing: &dyn ArgumentTypes,
    name: &str,
    arguments: &[RawTerm],
    receiver: Option<&CqlType>,
) -> Result<Option<NativeFunction>, CqlError> {
    let Some((name, is_to_json)) = known(name) else {
        return Ok(None);
    };
    let signature = format!("{name}({})", if is_to_json { "any" } else { "text" });
    let [argument] = arguments else {
        return Err(invalid!(
            "Invalid number of arguments for function system.{signature}"
        ));
    };
    if is_to_json {
        let cql_type = inferred_type(typing, &signature, argument, None)?;
        return Ok(Some(NativeFunction::scalar(
            name,
            ScalarKind::ToJson,
            [cql_type],
            CqlType::Text,
        )));
    }
    if let Some(given) = typing.compatible_type(argument)
        && !type_assignment(&given, &CqlType::Text).is_assignable()
    {
        return Err(invalid!(
            "Function system.{name} requires an argument of type text, but found argument {argument} of type {given}"
        ));
    }
    let Some(receiver) = receiver else {
        return Err(not_selected(name));
    };
    Ok(Some(NativeFunction::scalar(
        name,
        ScalarKind::FromJson,
        [CqlType::Text],
        receiver.clone(),
    )))
}

fn not_selected(name: &str) -> CqlError {
    invalid!("{name}() cannot be used in the selection clause of a SELECT statement")
}

/// Refuses `from_json` in what a select clause computes; the keys of elements are values like any other.
pub(crate) fn check_selected(term: &RawTerm) -> Result<(), CqlError> {
    if let RawTerm::Function { name, .. } = term
        && name
            .keyspace
            .as_deref()
            .is_none_or(|keyspace| keyspace == "system")
        && let Some(name) = from_json_name(&name.name)
    {
        return Err(not_selected(name));
    }
    term.parts().into_iter().try_for_each(check_selected)
}

/// Null is a text here.
pub(super) fn to_json(function: &NativeFunction, argument: Option<&[u8]>) -> Result<Vec<u8>, CqlError> {
    let mut out = String::new();
    match (argument, function.argument_types.first()) {
        (Some(bytes), Some(cql_type)) if !bytes.is_empty() || !cql_type.is_empty_value_meaningless() => {
            cql_type
                .write_json(&mut out, bytes)
                .map_err(|error| invalid!("{error}"))?;
        }
        _ => out.push_str("null"),
    }
    Ok(out.into_bytes())
}

pub(super) fn from_json(
    function: &NativeFunction,
    argument: &[u8],
    clock: Clock,
) -> Result<Option<Vec<u8>>, CqlError> {
    let text = String::from_utf8_lossy(argument);
    let value = JsonValue::parse(&text).map_err(|error| {
        let (text, error) = (shown(&text), error.with_class());
        failure(
            function,
            format!("Could not decode JSON string '{text}': {error}"),
            false,
        )
    })?;
    if value.is_null() {
        return Ok(None);
    }
    match function.return_type.decode_json(value, clock.now_ms()) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error @ JsonError::Duration(_)) => Err(invalid!("{error}")),
        Err(error) => {
            let detail = format!("org.apache.cassandra.serializers.MarshalException: {error}");
            Err(failure(function, detail, true))
        }
    }
}

fn failure(function: &NativeFunction, detail: String, is_detail_alone: bool) -> CqlError {
    CqlError::FunctionFailure(Box::new(FunctionFailure {
        keyspace: "system".to_owned(),
        function: function.name.to_owned(),
        argument_types: vec!["text".to_owned()],
        detail,
        is_detail_alone,
    }))
}

/// Texts up to so many bytes are decoded where a statement is executed: a tenth of a millisecond, of the one that a shard may be
/// held.
const DECODED_AT_ONCE_BYTES_MAX: usize = 4 << 10;

/// A call of `from_json` whose long text is known is its value: it was read beside the shard, and need not be again.
pub(crate) fn decoded_if_long(
    function: &NativeFunction,
    arguments: &[Expression],
    now: Clock,
) -> Result<Option<Expression>, CqlError> {
    match (&function.kind, arguments) {
        (
            super::signature::FunctionKind::Scalar(ScalarKind::FromJson),
            [Expression::Constant(Some(text))],
        ) if text.len() > DECODED_AT_ONCE_BYTES_MAX => {
            let value = from_json(function, text, now)?;
            Ok(Some(Expression::Constant(value.map(Vec::into_boxed_slice))))
        }
        _ => Ok(None),
    }
}
