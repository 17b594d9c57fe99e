//! Values of columns, as Rust values.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, Hash};
use std::net::IpAddr;

use helenus_types::CqlType;
use helenus_types::value::collection::{CollectionElements, MapEntries};
use helenus_types::value::inet::inet_to_address;
use helenus_types::value::varint::{varint_to_big, varint_to_i64};
use num_bigint::BigInt;
use uuid::Uuid;

/// A column's value is not of the Rust type that was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ColumnError {
    /// The Rust type does not take values of the column's type.
    #[error("a value of {found:?} cannot be read as {wanted}")]
    Type {
        /// Name of the Rust type.
        wanted: &'static str,
        /// Type of the column, or of the element within it.
        found: Box<CqlType>,
    },
    /// The value is null, and the Rust type has nothing for it.
    #[error("the value is null; read it as an Option<{wanted}>")]
    Null {
        /// Name of the Rust type.
        wanted: &'static str,
    },
    /// The bytes have the wrong length or form for the column's type, or do not fit the Rust type.
    #[error("the value's bytes are not those of a {wanted}")]
    Malformed {
        /// Name of the Rust type.
        wanted: &'static str,
    },
}

/// A Rust type that columns can be read as.
pub trait FromColumn<'a>: Sized {
    /// Reads the serialized `value` of a column of `data_type`; `None` is null, which collections read as
    /// empty.
    fn from_column(data_type: &CqlType, value: Option<&'a [u8]>) -> Result<Self, ColumnError>;
}

impl<'a, T: FromColumn<'a>> FromColumn<'a> for Option<T> {
    fn from_column(data_type: &CqlType, value: Option<&'a [u8]>) -> Result<Self, ColumnError> {
        match value {
            None => Ok(None),
            some => T::from_column(data_type, some).map(Some),
        }
    }
}

fn wanted<T>() -> &'static str {
    std::any::type_name::<T>()
}

fn not_null<T>(value: Option<&[u8]>) -> Result<&[u8], ColumnError> {
    value.ok_or(ColumnError::Null {
        wanted: wanted::<T>(),
    })
}

fn wrong_type<T>(found: &CqlType) -> ColumnError {
    ColumnError::Type {
        wanted: wanted::<T>(),
        found: Box::new(found.clone()),
    }
}

fn malformed<T>() -> ColumnError {
    ColumnError::Malformed {
        wanted: wanted::<T>(),
    }
}

/// Types whose values have one form: `$read` turns the bytes into an `Option`.
macro_rules! from_column {
    ($rust:ty, $($accepted:pat_param)|+, $bytes:ident => $read:expr) => {
        impl<'a> FromColumn<'a> for $rust {
            fn from_column(data_type: &CqlType, value: Option<&'a [u8]>) -> Result<Self, ColumnError> {
                if !matches!(data_type, $($accepted)|+) {
                    return Err(wrong_type::<$rust>(data_type));
                }
                let $bytes = not_null::<$rust>(value)?;
                $read.ok_or_else(malformed::<$rust>)
            }
        }
    };
}

from_column!(bool, CqlType::Boolean, bytes => (bytes.len() == 1).then(|| bytes != [0]));
from_column!(i8, CqlType::Tinyint, bytes => bytes.try_into().ok().map(i8::from_be_bytes));
from_column!(i16, CqlType::Smallint, bytes => bytes.try_into().ok().map(i16::from_be_bytes));
from_column!(i32, CqlType::Int, bytes => bytes.try_into().ok().map(i32::from_be_bytes));
from_column!(u32, CqlType::Date, bytes => bytes.try_into().ok().map(u32::from_be_bytes));
from_column!(f32, CqlType::Float, bytes => bytes.try_into().ok().map(f32::from_be_bytes));
from_column!(f64, CqlType::Double, bytes => bytes.try_into().ok().map(f64::from_be_bytes));
from_column!(&'a str, CqlType::Text | CqlType::Ascii, bytes => std::str::from_utf8(bytes).ok());
from_column!(String, CqlType::Text | CqlType::Ascii, bytes => String::from_utf8(bytes.to_vec()).ok());
from_column!(Uuid, CqlType::Uuid | CqlType::Timeuuid, bytes => Uuid::from_slice(bytes).ok());
from_column!(IpAddr, CqlType::Inet, bytes => inet_to_address(bytes));
from_column!(BigInt, CqlType::Varint, bytes => Some(varint_to_big(bytes)));

impl<'a> FromColumn<'a> for i64 {
    fn from_column(data_type: &CqlType, value: Option<&'a [u8]>) -> Result<Self, ColumnError> {
        let bytes = not_null::<i64>(value)?;
        let read = match data_type {
            CqlType::Bigint | CqlType::Counter | CqlType::Timestamp | CqlType::Time => {
                bytes.try_into().ok().map(i64::from_be_bytes)
            }
            CqlType::Int => bytes.try_into().ok().map(i32::from_be_bytes).map(i64::from),
            CqlType::Smallint => bytes.try_into().ok().map(i16::from_be_bytes).map(i64::from),
            CqlType::Tinyint => bytes.try_into().ok().map(i8::from_be_bytes).map(i64::from),
            CqlType::Varint => varint_to_i64(bytes),
            _ => return Err(wrong_type::<i64>(data_type)),
        };
        read.ok_or_else(malformed::<i64>)
    }
}

/// The serialized bytes of a value of any type.
impl<'a> FromColumn<'a> for &'a [u8] {
    fn from_column(_: &CqlType, value: Option<&'a [u8]>) -> Result<Self, ColumnError> {
        not_null::<&[u8]>(value)
    }
}

/// A list or a set; the bytes of a blob read as `&[u8]`.
impl<'a, T: FromColumn<'a>> FromColumn<'a> for Vec<T> {
    fn from_column(data_type: &CqlType, value: Option<&'a [u8]>) -> Result<Self, ColumnError> {
        let (CqlType::List { element, .. } | CqlType::Set { element, .. }) = data_type else {
            return Err(wrong_type::<Vec<T>>(data_type));
        };
        // An empty collection of its own cells is null on the wire.
        let Some(bytes) = value else { return Ok(Vec::new()) };
        let elements = CollectionElements::new(bytes, 1).ok_or_else(malformed::<Vec<T>>)?;
        elements.map(|value| T::from_column(element, value)).collect()
    }
}

fn entries<'a, K: FromColumn<'a>, V: FromColumn<'a>>(
    data_type: &CqlType,
    value: Option<&'a [u8]>,
) -> Result<Vec<(K, V)>, ColumnError> {
    let CqlType::Map { key, value: data, .. } = data_type else {
        return Err(wrong_type::<Vec<(K, V)>>(data_type));
    };
    let Some(bytes) = value else { return Ok(Vec::new()) };
    let entries = MapEntries::new(bytes).ok_or_else(malformed::<Vec<(K, V)>>)?;
    entries
        .map(|(k, v)| Ok((K::from_column(key, Some(k))?, V::from_column(data, Some(v))?)))
        .collect()
}

impl<'a, K: FromColumn<'a> + Ord, V: FromColumn<'a>> FromColumn<'a> for BTreeMap<K, V> {
    fn from_column(data_type: &CqlType, value: Option<&'a [u8]>) -> Result<Self, ColumnError> {
        Ok(entries(data_type, value)?.into_iter().collect())
    }
}

impl<'a, K: FromColumn<'a> + Eq + Hash, V: FromColumn<'a>, S: BuildHasher + Default> FromColumn<'a>
    for HashMap<K, V, S>
{
    fn from_column(data_type: &CqlType, value: Option<&'a [u8]>) -> Result<Self, ColumnError> {
        Ok(entries(data_type, value)?.into_iter().collect())
    }
}
