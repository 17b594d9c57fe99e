//! Similarities of float vectors, as Lucene scores them.

use helenus_types::CqlType;
use helenus_types::value::VectorElements;
use helenus_vector::Similarity;

use super::argument_types::ArgumentTypes;
use super::signature::{NativeFunction, ScalarKind};
use crate::CqlError;
use crate::term::RawTerm;

pub(super) fn is_function(name: &str) -> bool {
    known(name).is_some()
}

fn known(name: &str) -> Option<(&'static str, Similarity)> {
    match name {
        "similarity_cosine" => Some(("similarity_cosine", Similarity::Cosine)),
        "similarity_euclidean" => Some(("similarity_euclidean", Similarity::Euclidean)),
        "similarity_dot_product" => Some(("similarity_dot_product", Similarity::DotProduct)),
        _ => None,
    }
}

pub(super) fn function(
    typing: &dyn ArgumentTypes,
    name: &str,
    arguments: &[RawTerm],
    receiver: Option<&CqlType>,
) -> Result<Option<NativeFunction>, CqlError> {
    let Some((name, kind)) = known(name) else {
        return Ok(None);
    };
    let signature = format!("{name}(vector<float, n>, vector<float, n>)");
    let [left, right] = arguments else {
        return Err(invalid!(
            "Invalid number of arguments for function system.{signature}"
        ));
    };
    let inferred = |argument: &RawTerm| match argument {
        RawTerm::List(elements) => u32::try_from(elements.len())
            .ok()
            .map(|dimension| CqlType::vector(CqlType::Float, dimension)),
        other => typing.compatible_type(other).or_else(|| receiver.cloned()),
    };
    let (left_type, right_type) = (inferred(left), inferred(right));
    let typed = |argument: &RawTerm, own: &Option<CqlType>, other: &Option<CqlType>| {
        let cql_type = own.clone().or_else(|| other.clone()).ok_or_else(|| {
            invalid!(
                "Cannot infer type of argument {argument} in call to function system.{signature}: \
                 use type casts to disambiguate"
            )
        })?;
        match &cql_type {
            CqlType::Vector { element, dimension } if **element == CqlType::Float => Ok(*dimension),
            _ => Err(invalid!(
                "Function system.{name} requires a float vector argument, \
                 but found argument {argument} of type {cql_type}"
            )),
        }
    };
    let left_dimension = typed(left, &left_type, &right_type)?;
    if left_dimension != typed(right, &right_type, &left_type)? {
        return Err(invalid!("All arguments must have the same vector dimensions"));
    }
    let vector = CqlType::vector(CqlType::Float, left_dimension);
    let function = NativeFunction::scalar(
        name,
        ScalarKind::Similarity(kind),
        [vector.clone(), vector],
        CqlType::Float,
    );
    Ok(Some(function))
}

pub(super) fn similarity(
    kind: Similarity,
    function: &NativeFunction,
    arguments: &[&[u8]],
) -> Result<Vec<u8>, CqlError> {
    let vectors: Vec<Vec<f32>> = arguments
        .iter()
        .zip(&function.argument_types)
        .map(|(bytes, cql_type)| floats(cql_type, bytes))
        .collect();
    let [left, right] = vectors.as_slice() else {
        return Err(CqlError::server(format_args!(
            "{function} was called without its arguments"
        )));
    };
    if kind == Similarity::Cosine {
        let is_zero = |vector: &[f32]| vector.iter().all(|component| *component == 0.0);
        if is_zero(left) || is_zero(right) {
            return Err(invalid!(
                "Function {} doesn't support all-zero vectors.",
                function.qualified_name()
            ));
        }
    }
    Ok(kind.score(left, right).to_be_bytes().to_vec())
}

fn floats(cql_type: &CqlType, bytes: &[u8]) -> Vec<f32> {
    let CqlType::Vector { element, dimension } = cql_type else {
        return Vec::new();
    };
    let float = |component: &[u8]| component.try_into().map_or(f32::NAN, f32::from_be_bytes);
    VectorElements::new(element, *dimension, bytes)
        .map(float)
        .collect()
}
