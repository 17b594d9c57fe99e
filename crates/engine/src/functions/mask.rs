//! Functions that hide values: `mask_null`, `mask_default`, `mask_replace`, `mask_inner`, `mask_outer`, `mask_hash`.

use helenus_types::CqlType;
use helenus_types::value::timeuuid::timeuuid_min;
use helenus_types::value::vector::write_vector_element;
use helenus_types::value::{Duration, write_component};

use md5::{Digest, Md5};
use sha1::Sha1;
use sha2::{Sha224, Sha256, Sha384, Sha512};

use super::argument_types::{ArgumentTypes, inferred_type};
use super::kinds::MaskKind;
use super::signature::{NativeFunction, ScalarKind};
use crate::CqlError;
use crate::term::RawTerm;

pub(super) fn is_function(name: &str) -> bool {
    known(name).is_some()
}

fn known(name: &str) -> Option<(&'static str, &'static str, MaskKind)> {
    Some(match name {
        "mask_null" => ("mask_null", "any", MaskKind::Null),
        "mask_default" => ("mask_default", "any", MaskKind::Default),
        "mask_replace" => ("mask_replace", "any, any", MaskKind::Replace),
        "mask_inner" => (
            "mask_inner",
            "[text|varchar|ascii], int, int, [text]",
            MaskKind::Inner,
        ),
        "mask_outer" => (
            "mask_outer",
            "[text|varchar|ascii], int, int, [text]",
            MaskKind::Outer,
        ),
        "mask_hash" => ("mask_hash", "any, [text]", MaskKind::Hash),
        _ => return None,
    })
}

pub(super) fn function(
    typing: &dyn ArgumentTypes,
    name: &str,
    arguments: &[RawTerm],
    receiver: Option<&CqlType>,
) -> Result<Option<NativeFunction>, CqlError> {
    let Some((name, parameters, kind)) = known(name) else {
        return Ok(None);
    };
    let signature = format!("{name}({parameters})");
    let counts = match kind {
        MaskKind::Null | MaskKind::Default => 1..=1,
        MaskKind::Replace => 2..=2,
        MaskKind::Hash => 1..=2,
        MaskKind::Inner | MaskKind::Outer => 3..=4,
    };
    if !counts.contains(&arguments.len()) {
        return Err(invalid!(
            "Invalid number of arguments for function system.{signature}"
        ));
    }
    let first = &arguments[0];
    let cql_type = match kind {
        MaskKind::Inner | MaskKind::Outer => typing.compatible_type(first).unwrap_or(CqlType::Text),
        MaskKind::Replace => inferred_type(typing, &signature, first, receiver)?,
        MaskKind::Null | MaskKind::Default | MaskKind::Hash => {
            inferred_type(typing, &signature, first, None)?
        }
    };
    let types = match kind {
        MaskKind::Null | MaskKind::Default => vec![cql_type.clone()],
        MaskKind::Replace => vec![cql_type.clone(), cql_type.clone()],
        MaskKind::Hash => {
            let mut types = vec![cql_type.clone(), CqlType::Text];
            types.truncate(arguments.len());
            types
        }
        MaskKind::Inner | MaskKind::Outer => {
            if !matches!(cql_type, CqlType::Text | CqlType::Ascii) {
                return Err(invalid!(
                    "Function system.{name} requires an argument of type [text|varchar|ascii], \
                     but found argument {first} of type {cql_type}"
                ));
            }
            let mut types = vec![cql_type.clone(), CqlType::Int, CqlType::Int, CqlType::Text];
            types.truncate(arguments.len());
            types
        }
    };
    Ok(Some(NativeFunction::scalar(
        name,
        ScalarKind::Mask(kind),
        types,
        if kind == MaskKind::Hash {
            CqlType::Blob
        } else {
            cql_type
        },
    )))
}

pub(super) fn execute(
    kind: MaskKind,
    function: &NativeFunction,
    arguments: &[Option<&[u8]>],
) -> Result<Option<Vec<u8>>, CqlError> {
    let argument = |index: usize| arguments.get(index).copied().flatten();
    match kind {
        MaskKind::Null => Ok(None),
        MaskKind::Default => Ok(masked_value(&function.return_type)),
        MaskKind::Replace => Ok(argument(1).map(<[u8]>::to_vec)),
        MaskKind::Hash => {
            let algorithm = argument(1).map_or("SHA-256".into(), String::from_utf8_lossy);
            argument(0).map(|value| digest(&algorithm, value)).transpose()
        }
        MaskKind::Inner | MaskKind::Outer => {
            let Some(text) = argument(0).map(String::from_utf8_lossy) else {
                return Ok(None);
            };
            let count = |index| {
                argument(index)
                    .and_then(|bytes| bytes.try_into().ok())
                    .map_or(0, i32::from_be_bytes)
            };
            let padding = padding(function, argument(3))?;
            Ok(Some(
                mask_text(kind, &text, count(1), count(2), padding).into_bytes(),
            ))
        }
    }
}

/// The algorithms that every Java has, under Java's names, which are not case-sensitive.
fn digest(algorithm: &str, value: &[u8]) -> Result<Vec<u8>, CqlError> {
    Ok(match algorithm.to_ascii_uppercase().as_str() {
        "MD5" => Md5::digest(value).to_vec(),
        "SHA" | "SHA1" | "SHA-1" => Sha1::digest(value).to_vec(),
        "SHA-224" => Sha224::digest(value).to_vec(),
        "SHA-256" => Sha256::digest(value).to_vec(),
        "SHA-384" => Sha384::digest(value).to_vec(),
        "SHA-512" => Sha512::digest(value).to_vec(),
        _ => return Err(invalid!("Hash algorithm not found: {algorithm}")),
    })
}

fn padding(function: &NativeFunction, argument: Option<&[u8]>) -> Result<char, CqlError> {
    let Some(bytes) = argument else { return Ok('*') };
    let text = String::from_utf8_lossy(bytes);
    let mut characters = text.chars();
    match (characters.next(), characters.next()) {
        (Some(padding), None) => Ok(padding),
        _ => Err(invalid!(
            "The padding argument for function {} should be single-character, but '{text}' has {} characters.",
            function.qualified_name(),
            text.encode_utf16().count()
        )),
    }
}

fn mask_text(kind: MaskKind, text: &str, begin: i32, end: i32, padding: char) -> String {
    let count = text.chars().count() as i64;
    let (first, last) = (i64::from(begin), count - 1 - i64::from(end));
    let masked = |position: i64| match kind {
        MaskKind::Outer => position < first || position > last,
        _ => position >= first && position <= last,
    };
    let mask = |(position, character)| if masked(position) { padding } else { character };
    (0..).zip(text.chars()).map(mask).collect()
}

/// The value `mask_default` shows instead of any value of the type.
fn masked_value(cql_type: &CqlType) -> Option<Vec<u8>> {
    Some(match cql_type {
        CqlType::Ascii | CqlType::Text => b"****".to_vec(),
        CqlType::Blob | CqlType::Empty | CqlType::Custom(_) => Vec::new(),
        CqlType::Boolean | CqlType::Tinyint | CqlType::Varint => vec![0],
        CqlType::Smallint => vec![0; 2],
        CqlType::Int | CqlType::Float | CqlType::Inet => vec![0; 4],
        CqlType::List { .. } | CqlType::Set { .. } | CqlType::Map { .. } => vec![0; 4],
        CqlType::Decimal => vec![0; 5],
        CqlType::Bigint | CqlType::Counter | CqlType::Double | CqlType::Time | CqlType::Timestamp => {
            vec![0; 8]
        }
        CqlType::Uuid => vec![0; 16],
        CqlType::Timeuuid => timeuuid_min(0).to_vec(),
        CqlType::Date => vec![0x80, 0, 0, 0],
        CqlType::Duration => Duration::default().to_bytes(),
        CqlType::Tuple(_) | CqlType::UserDefined { .. } => {
            let mut out = Vec::new();
            for component in cql_type.sub_types() {
                write_component(&mut out, masked_value(component).as_deref());
            }
            out
        }
        CqlType::Vector { element, dimension } => {
            let component = masked_value(element)?;
            let mut out = Vec::new();
            for _ in 0..*dimension {
                write_vector_element(&mut out, element, &component);
            }
            out
        }
    })
}
