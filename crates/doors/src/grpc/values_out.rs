//! Serialized values to Stargate's.

use std::collections::HashMap;

use helenus_types::CqlType;
use helenus_types::value::{CollectionElements, TupleComponents, VectorElements};

use super::proto::stargate::value::{Inner, Null};
use helenus_types::value::Duration;

use super::proto::stargate::{self, Collection, Decimal, Inet, UdtValue, Uuid, Value, Varint};

/// A value; `None` is null. Also null is what is empty and of a type that has no empty value: Cassandra's drivers read it so.
pub fn value(data_type: &CqlType, bytes: Option<&[u8]>) -> Value {
    let inner = bytes.and_then(|bytes| inner(data_type, bytes));
    Value {
        inner: Some(inner.unwrap_or(Inner::Null(Null {}))),
    }
}

fn inner(data_type: &CqlType, bytes: &[u8]) -> Option<Inner> {
    Some(match data_type {
        CqlType::List { element, .. } | CqlType::Set { element, .. } => {
            let elements = CollectionElements::new(bytes, 1)?;
            collection(elements.map(|bytes| value(element, bytes)))
        }
        CqlType::Map { key, value: of, .. } => {
            let elements = CollectionElements::new(bytes, 2)?;
            let types = [key, of].into_iter().cycle();
            collection(
                elements
                    .zip(types)
                    .map(|(bytes, data_type)| value(data_type, bytes)),
            )
        }
        CqlType::Vector { element, dimension } => {
            let elements = VectorElements::new(element, *dimension, bytes);
            collection(elements.map(|bytes| value(element, Some(bytes))))
        }
        CqlType::Tuple(types) => {
            let mut components = TupleComponents::new(bytes);
            collection(
                types
                    .iter()
                    .map(|data_type| value(data_type, components.next().flatten())),
            )
        }
        CqlType::UserDefined { definition, .. } => {
            let mut components = TupleComponents::new(bytes);
            let fields = definition.fields.iter();
            let fields =
                fields.map(|(name, field)| (name.to_string(), value(field, components.next().flatten())));
            Inner::Udt(UdtValue {
                fields: fields.collect::<HashMap<_, _>>(),
            })
        }
        native => return native_inner(native, bytes),
    })
}

fn collection(elements: impl Iterator<Item = Value>) -> Inner {
    Inner::Collection(Collection {
        elements: elements.collect(),
    })
}

fn native_inner(native: &CqlType, bytes: &[u8]) -> Option<Inner> {
    Some(match native {
        CqlType::Tinyint => Inner::Int(i8::from_be_bytes(bytes.try_into().ok()?).into()),
        CqlType::Smallint => Inner::Int(i16::from_be_bytes(bytes.try_into().ok()?).into()),
        CqlType::Int => Inner::Int(i32::from_be_bytes(bytes.try_into().ok()?).into()),
        CqlType::Bigint | CqlType::Counter | CqlType::Timestamp => {
            Inner::Int(i64::from_be_bytes(bytes.try_into().ok()?))
        }
        CqlType::Float => Inner::Float(f32::from_be_bytes(bytes.try_into().ok()?)),
        CqlType::Double => Inner::Double(f64::from_be_bytes(bytes.try_into().ok()?)),
        CqlType::Boolean => Inner::Boolean(*bytes.first()? != 0),
        // Cassandra's UTF-8 is also of surrogates; protobuf's is not.
        CqlType::Ascii | CqlType::Text => Inner::String(String::from_utf8_lossy(bytes).into_owned()),
        CqlType::Inet if bytes.is_empty() => return None,
        CqlType::Inet => Inner::Inet(Inet {
            value: bytes.to_vec(),
        }),
        CqlType::Uuid | CqlType::Timeuuid if bytes.is_empty() => return None,
        CqlType::Uuid | CqlType::Timeuuid => Inner::Uuid(Uuid {
            value: bytes.to_vec(),
        }),
        CqlType::Date => Inner::Date(u32::from_be_bytes(bytes.try_into().ok()?)),
        CqlType::Time => Inner::Time(u64::from_be_bytes(bytes.try_into().ok()?)),
        CqlType::Duration => {
            let duration = Duration::from_bytes(bytes).ok()?;
            Inner::Duration(stargate::Duration {
                months: duration.months,
                days: duration.days,
                nanos: duration.nanoseconds,
            })
        }
        CqlType::Varint if bytes.is_empty() => return None,
        CqlType::Varint => Inner::Varint(Varint {
            value: bytes.to_vec(),
        }),
        CqlType::Decimal => {
            let (scale, value) = bytes.split_first_chunk::<4>()?;
            Inner::Decimal(Decimal {
                // Negative scales are beyond what the published message says, and come as they are.
                scale: u32::from_be_bytes(*scale),
                value: value.to_vec(),
            })
        }
        _ => Inner::Bytes(bytes.to_vec()),
    })
}
