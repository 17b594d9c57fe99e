//! Functions of collections.

use helenus_schema::ClusteringOrder;
use helenus_types::CqlType;
use helenus_types::value::{CollectionElements, MapEntries, write_collection};

use super::aggregate::Accumulator;
use super::argument_types::{ArgumentTypes, inferred_type};
use super::number::is_numeric;
use super::signature::{AggregateKind, NativeFunction, ScalarKind};
use crate::CqlError;
use crate::term::RawTerm;

pub(super) fn is_function(name: &str) -> bool {
    known(name).is_some()
}

/// A function's name, how its parameter is called in messages, and what it computes.
fn known(name: &str) -> Option<(&'static str, &'static str, ScalarKind)> {
    let aggregate = |kind| ScalarKind::CollectionAggregate(kind);
    Some(match name {
        "map_keys" => ("map_keys", "map", ScalarKind::MapKeys),
        "map_values" => ("map_values", "map", ScalarKind::MapValues),
        "collection_count" => ("collection_count", "collection", ScalarKind::CollectionCount),
        "collection_min" => (
            "collection_min",
            "numeric_set_or_list",
            aggregate(AggregateKind::Minimum),
        ),
        "collection_max" => (
            "collection_max",
            "numeric_set_or_list",
            aggregate(AggregateKind::Maximum),
        ),
        "collection_sum" => (
            "collection_sum",
            "numeric_set_or_list",
            aggregate(AggregateKind::Sum),
        ),
        "collection_avg" => (
            "collection_avg",
            "numeric_set_or_list",
            aggregate(AggregateKind::Average),
        ),
        _ => return None,
    })
}

pub(super) fn function(
    typing: &dyn ArgumentTypes,
    name: &str,
    arguments: &[RawTerm],
) -> Result<Option<NativeFunction>, CqlError> {
    let Some((name, parameter, kind)) = known(name) else {
        return Ok(None);
    };
    let signature = format!("{name}({parameter})");
    let [argument] = arguments else {
        return Err(invalid!(
            "Invalid number of arguments for function system.{signature}"
        ));
    };
    let cql_type = inferred_type(typing, &signature, argument, None)?;
    // Cassandra's check of a clustering column in descending order sees the order around the type and no collection.
    let is_descending = matches!(
        argument,
        RawTerm::Column(name) if typing.column(name)?.order == ClusteringOrder::Descending
    );
    let refuse = |wanted: &str| {
        invalid!(
            "Function system.{name} requires a {wanted} argument, but found argument {argument} of type {cql_type}"
        )
    };
    let element = match &cql_type {
        _ if is_descending => None,
        CqlType::List { element, .. } | CqlType::Set { element, .. } => Some(&**element),
        _ => None,
    };
    let return_type = match (&kind, &cql_type) {
        (ScalarKind::MapKeys | ScalarKind::MapValues, _) if is_descending => return Err(refuse("map")),
        (ScalarKind::CollectionCount, _) if is_descending => return Err(refuse("collection")),
        (ScalarKind::MapKeys, CqlType::Map { key, .. }) => CqlType::set((**key).clone(), false),
        (ScalarKind::MapValues, CqlType::Map { value, .. }) => CqlType::list((**value).clone(), false),
        (ScalarKind::MapKeys | ScalarKind::MapValues, _) => return Err(refuse("map")),
        (ScalarKind::CollectionCount, collection) if collection.is_collection() => CqlType::Int,
        (ScalarKind::CollectionCount, _) => return Err(refuse("collection")),
        (ScalarKind::CollectionAggregate(AggregateKind::Minimum | AggregateKind::Maximum), _) => {
            element.cloned().ok_or_else(|| refuse("set or list"))?
        }
        _ => match element {
            Some(element) if is_numeric(element) => element.clone(),
            _ => return Err(refuse("numeric set/list")),
        },
    };
    Ok(Some(NativeFunction::scalar(name, kind, [cql_type], return_type)))
}

pub(super) fn map_keys(arguments: &[&[u8]]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    write_collection(
        &mut out,
        1,
        MapEntries::new(arguments.first()?)?.map(|(key, _)| key),
    );
    Some(out)
}

pub(super) fn map_values(arguments: &[&[u8]]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    write_collection(
        &mut out,
        1,
        MapEntries::new(arguments.first()?)?.map(|(_, value)| value),
    );
    Some(out)
}

pub(super) fn count(arguments: &[&[u8]]) -> Option<Vec<u8>> {
    arguments.first()?.first_chunk::<4>().map(|count| count.to_vec())
}

pub(super) fn aggregate(
    kind: AggregateKind,
    function: &NativeFunction,
    arguments: &[&[u8]],
) -> Result<Option<Vec<u8>>, CqlError> {
    let mut accumulator = Accumulator::new(kind, &function.return_type);
    let elements = arguments
        .first()
        .and_then(|collection| CollectionElements::new(collection, 1));
    let Some(elements) = elements else { return Ok(None) };
    for element in elements {
        accumulator.add(element)?;
    }
    Ok(accumulator.finish())
}
