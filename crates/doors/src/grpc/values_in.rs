//! Stargate's values to serialized ones.

use std::borrow::Cow;

use helenus_node::handle::Column;
use helenus_types::CqlType;
use helenus_types::value::Duration;
use helenus_types::value::vector::write_vector_element;
use helenus_types::value::write_component;
use helenus_values::{BoundValues, Unset};

use super::proto::stargate::value::Inner;
use super::proto::stargate::{Value, Values as Given};
use crate::failure::Failure;
use crate::statements::Values;

/// The values of a query; none if it has none.
pub struct GrpcValues<'a>(pub Option<&'a Given>);

impl Values for GrpcValues<'_> {
    fn is_empty(&self) -> bool {
        self.0.is_none_or(|given| given.values.is_empty())
    }

    fn bind(&self, markers: &[Column]) -> Result<BoundValues, Failure> {
        let mut bound = BoundValues::new();
        let Some(given) = self.0 else {
            return Ok(bound);
        };
        let names = &given.value_names;
        let (found, wanted) = (given.values.len(), markers.len());
        if names.is_empty() && found != wanted {
            let text = format!("Invalid number of bind values. Expected {wanted}, but received {found}");
            return Err(Failure::Invalid(text));
        }
        if !names.is_empty() && names.len() != found {
            let named = names.len();
            let text = format!("Invalid number of bind names. Expected {found}, but received {named}");
            return Err(Failure::Invalid(text));
        }
        for (index, marker) in markers.iter().enumerate() {
            let at = match names.is_empty() {
                true => Some(index),
                false => names.iter().position(|name| *name == marker.name),
            };
            let value = at.and_then(|at| given.values.get(at)).ok_or_else(|| {
                Failure::Invalid(format!("There is no value for the marker {}", marker.name))
            })?;
            push(&mut bound, marker, value)?;
        }
        Ok(bound)
    }
}

fn push(bound: &mut BoundValues, marker: &Column, value: &Value) -> Result<(), Failure> {
    if matches!(value.inner, Some(Inner::Unset(_))) {
        return Ok(bound.push(&Unset, None)?);
    }
    let encoded = encoded(&marker.data_type, value).map_err(|wrong| {
        Failure::Invalid(format!(
            "Invalid argument for the marker {}: {wrong}",
            marker.name
        ))
    })?;
    Ok(bound.push_serialized(encoded.as_deref())?)
}

/// `None` is null.
fn encoded<'v>(data_type: &CqlType, value: &'v Value) -> Result<Option<Cow<'v, [u8]>>, String> {
    match &value.inner {
        // What a client of a later version sends may be a value of a kind that is not known here.
        None => Err("the value is of no kind that is known here".to_owned()),
        Some(Inner::Null(_)) => Ok(None),
        Some(Inner::Unset(_)) => Err("only a marker's whole value can be left unset".to_owned()),
        Some(inner) => encoded_inner(data_type, inner).map(Some),
    }
}

fn encoded_inner<'v>(data_type: &CqlType, inner: &'v Inner) -> Result<Cow<'v, [u8]>, String> {
    match (data_type, inner) {
        (CqlType::List { element, .. } | CqlType::Set { element, .. }, Inner::Collection(given)) => {
            let types = std::iter::repeat(&**element);
            collection(given.elements.iter().zip(types), given.elements.len()).map(Cow::Owned)
        }
        (CqlType::Map { key, value, .. }, Inner::Collection(given)) => {
            if given.elements.len() % 2 != 0 {
                return Err("a map has a value for each key".to_owned());
            }
            let types = [&**key, &**value].into_iter().cycle();
            collection(given.elements.iter().zip(types), given.elements.len() / 2).map(Cow::Owned)
        }
        (CqlType::Vector { element, dimension }, Inner::Collection(given)) => {
            if given.elements.len() != *dimension as usize {
                return Err(format!(
                    "{data_type} has {dimension} elements, not {}",
                    given.elements.len()
                ));
            }
            let mut out = Vec::new();
            for value in &given.elements {
                let bytes = encoded(element, value)?.ok_or("elements of vectors cannot be null")?;
                write_vector_element(&mut out, element, &bytes);
            }
            Ok(out.into())
        }
        (CqlType::Tuple(types), Inner::Collection(given)) => {
            if given.elements.len() > types.len() {
                return Err(format!(
                    "{data_type} has {} components, not {}",
                    types.len(),
                    given.elements.len()
                ));
            }
            let mut out = Vec::new();
            for (value, data_type) in given.elements.iter().zip(types.iter()) {
                write_component(&mut out, encoded(data_type, value)?.as_deref());
            }
            Ok(out.into())
        }
        (CqlType::UserDefined { definition, .. }, Inner::Udt(given)) => {
            let is_field = |name: &str| definition.fields.iter().any(|(field, _)| **field == *name);
            if let Some(name) = given.fields.keys().find(|name| !is_field(name)) {
                return Err(format!("{} has no field {name}", definition.name));
            }
            let mut out = Vec::new();
            for (name, data_type) in &definition.fields {
                let value = given.fields.get(&**name);
                let bytes = value
                    .map(|value| encoded(data_type, value))
                    .transpose()?
                    .flatten();
                write_component(&mut out, bytes.as_deref());
            }
            Ok(out.into())
        }
        (native, inner) => native_encoded(native, inner),
    }
}

fn collection<'v>(
    elements: impl Iterator<Item = (&'v Value, &'v CqlType)>,
    count: usize,
) -> Result<Vec<u8>, String> {
    let count = i32::try_from(count).map_err(|_| "too many elements".to_owned())?;
    let mut out = count.to_be_bytes().to_vec();
    for (value, data_type) in elements {
        let bytes = encoded(data_type, value)?.ok_or("null is not supported inside collections")?;
        write_component(&mut out, Some(&bytes));
    }
    Ok(out)
}

/// Nanoseconds of a day.
const DAY_NS: u64 = 86_400_000_000_000;

fn native_encoded<'v>(native: &CqlType, inner: &'v Inner) -> Result<Cow<'v, [u8]>, String> {
    let out_of_range = |value: &dyn std::fmt::Display| format!("{value} is out of the range of {native}");
    // What the message has as CQL does is bound where it lies.
    let as_it_is = match (native, inner) {
        (CqlType::Ascii, Inner::String(value)) if value.is_ascii() => Some(value.as_bytes()),
        (CqlType::Text, Inner::String(value)) => Some(value.as_bytes()),
        (CqlType::Inet, Inner::Inet(inet)) if matches!(inet.value.len(), 4 | 16) => Some(&*inet.value),
        (CqlType::Uuid | CqlType::Timeuuid, Inner::Uuid(uuid)) if uuid.value.len() == 16 => {
            Some(&*uuid.value)
        }
        (CqlType::Varint, Inner::Varint(varint)) => Some(&*varint.value),
        (CqlType::Blob | CqlType::Custom(_) | CqlType::Duration, Inner::Bytes(value)) => Some(&**value),
        _ => None,
    };
    if let Some(bytes) = as_it_is {
        return Ok(Cow::Borrowed(bytes));
    }
    let out = match (native, inner) {
        (CqlType::Tinyint, Inner::Int(value)) => i8::try_from(*value)
            .map_err(|_| out_of_range(value))?
            .to_be_bytes()
            .to_vec(),
        (CqlType::Smallint, Inner::Int(value)) => i16::try_from(*value)
            .map_err(|_| out_of_range(value))?
            .to_be_bytes()
            .to_vec(),
        (CqlType::Int, Inner::Int(value)) => i32::try_from(*value)
            .map_err(|_| out_of_range(value))?
            .to_be_bytes()
            .to_vec(),
        (CqlType::Bigint | CqlType::Counter | CqlType::Timestamp, Inner::Int(value)) => {
            value.to_be_bytes().to_vec()
        }
        (CqlType::Float, Inner::Float(value)) => value.to_be_bytes().to_vec(),
        (CqlType::Double, Inner::Double(value)) => value.to_be_bytes().to_vec(),
        (CqlType::Boolean, Inner::Boolean(value)) => vec![u8::from(*value)],
        (CqlType::Date, Inner::Date(days)) => days.to_be_bytes().to_vec(),
        (CqlType::Time, Inner::Time(nanoseconds)) if *nanoseconds < DAY_NS => {
            nanoseconds.to_be_bytes().to_vec()
        }
        (CqlType::Time, Inner::Time(nanoseconds)) => return Err(out_of_range(nanoseconds)),
        (CqlType::Duration, Inner::Duration(given)) => {
            let duration = Duration {
                months: given.months,
                days: given.days,
                nanoseconds: given.nanos,
            };
            duration.to_bytes()
        }
        (CqlType::Decimal, Inner::Decimal(decimal)) => {
            let mut out = decimal.scale.to_be_bytes().to_vec();
            out.extend_from_slice(&decimal.value);
            out
        }
        (native, _) => return Err(format!("it is not a value of {native}")),
    };
    Ok(Cow::Owned(out))
}
