//! Values that a caller binds to a statement's markers.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use helenus_types::CqlType;
use helenus_types::value::inet::inet_of;
use num_bigint::BigInt;
use uuid::Uuid;

/// The values of one execution, already written as they travel.
#[derive(Clone, Debug, Default)]
pub struct BoundValues {
    count: u16,
    bytes: Vec<u8>,
}

/// A value cannot be bound.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// The number of values is not that of a prepared statement's markers.
    #[error("the statement has {wanted} markers, and {found} values were given")]
    Count {
        /// Markers of the statement.
        wanted: usize,
        /// Values that were given.
        found: usize,
    },
    /// The marker's type does not take the Rust type, or not this value of it: an integer beyond its range.
    #[error("marker {index} takes {wanted:?}, not a Rust {found}")]
    Type {
        /// Place of the marker, from 0.
        index: usize,
        /// Type of the marker; `Blob` where it is not known, in an unprepared statement.
        wanted: Box<CqlType>,
        /// Name of the Rust type.
        found: &'static str,
    },
    /// A value, or a request as a whole, has more than 2^31 - 1 bytes.
    #[error("a value of {bytes} bytes is beyond the protocol's 2 GiB")]
    TooLong {
        /// Length of the value or of the request.
        bytes: usize,
    },
    /// More than 65,535 values were given.
    #[error("a statement has at most 65,535 values")]
    TooMany,
    /// The batch has 65,535 statements, and the protocol no room for more.
    #[error("a batch has at most 65,535 statements; send more in a second batch")]
    TooManyStatements,
}

/// A marker that leaves what it would have set as it is (v4 and later).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unset;

/// A Rust type whose values can be bound.
pub trait BindValue {
    /// Appends the value without its length. `data_type` is the marker's, `None` in an unprepared statement; false
    /// says that the type does not take such a value.
    fn write(&self, data_type: Option<&CqlType>, out: &mut Vec<u8>) -> bool;

    /// Marker that stands in place of the value's length for null and unset; `None` for a value.
    fn absent(&self) -> Option<i32> {
        None
    }
}

const NULL: i32 = -1;
const UNSET: i32 = -2;

impl BoundValues {
    /// Makes an empty list; takes no memory before the first value.
    pub fn new() -> Self {
        Self::default()
    }

    /// No values yet, in a buffer that has been used before.
    pub fn within(buffer: Vec<u8>) -> Self {
        BoundValues {
            count: 0,
            bytes: buffer,
        }
    }

    /// The memory, to be used again.
    pub fn into_buffer(self) -> Vec<u8> {
        self.bytes
    }

    /// Returns the number of values, null and unset ones included.
    pub fn count(&self) -> u16 {
        self.count
    }

    /// Each value's length as an int, then its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Forgets the values and keeps the memory.
    pub fn clear(&mut self) {
        self.count = 0;
        self.bytes.clear();
    }

    /// Appends a value for a marker of `data_type`; `None`, in an unprepared statement, writes it as its Rust
    /// type says and refuses collections. After an error the list is of no use until [`BoundValues::clear`].
    pub fn push<V: BindValue + ?Sized>(
        &mut self,
        value: &V,
        data_type: Option<&CqlType>,
    ) -> Result<(), BindError> {
        let index = usize::from(self.count);
        self.count = self.count.checked_add(1).ok_or(BindError::TooMany)?;
        let written = put_with_length(&mut self.bytes, |out| match value.absent() {
            Some(mark) => Some(mark),
            None => value.write(data_type, out).then_some(0),
        });
        match written {
            Some(length) if length <= i32::MAX as usize => Ok(()),
            Some(bytes) => Err(BindError::TooLong { bytes }),
            None => Err(BindError::Type {
                index,
                wanted: Box::new(data_type.cloned().unwrap_or(CqlType::Blob)),
                found: std::any::type_name::<V>(),
            }),
        }
    }

    /// A value that is serialized already; `None` is null.
    pub fn push_serialized(&mut self, value: Option<&[u8]>) -> Result<(), BindError> {
        self.count = self.count.checked_add(1).ok_or(BindError::TooMany)?;
        match value {
            None => self.bytes.extend_from_slice(&NULL.to_be_bytes()),
            Some(value) => {
                let length =
                    i32::try_from(value.len()).map_err(|_| BindError::TooLong { bytes: value.len() })?;
                self.bytes.extend_from_slice(&length.to_be_bytes());
                self.bytes.extend_from_slice(value);
            }
        }
        Ok(())
    }

    /// A value that `write` appends in its serialized form.
    pub fn push_written(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), BindError> {
        self.count = self.count.checked_add(1).ok_or(BindError::TooMany)?;
        let written = put_with_length(&mut self.bytes, |out| {
            write(out);
            Some(0)
        });
        match written {
            Some(bytes) if bytes > i32::MAX as usize => Err(BindError::TooLong { bytes }),
            _ => Ok(()),
        }
    }

    /// The serialized value at `index`; `None` if it is null, unset or not there.
    pub fn value(&self, index: u16) -> Option<&[u8]> {
        let mut rest = &self.bytes[..];
        for at in 0..=index {
            let (length, after) = rest.split_first_chunk::<4>()?;
            let length = usize::try_from(i32::from_be_bytes(*length));
            if at == index {
                return after.get(..length.ok()?);
            }
            rest = after.get(length.unwrap_or(0)..)?;
        }
        None
    }
}

/// Appends a length and what `write` appends behind it, or a mark in place of the length. `None` if `write` said no,
/// with `out` as it was; else the length.
fn put_with_length(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> Option<i32>) -> Option<usize> {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    let Some(mark) = write(out) else {
        out.truncate(at);
        return None;
    };
    let length = out.len() - at - 4;
    let number = if mark < 0 { mark } else { length as i32 };
    if let Some(place) = out.get_mut(at..at + 4) {
        place.copy_from_slice(&number.to_be_bytes());
    }
    Some(length)
}

impl<V: BindValue + ?Sized> BindValue for &V {
    fn write(&self, data_type: Option<&CqlType>, out: &mut Vec<u8>) -> bool {
        (**self).write(data_type, out)
    }

    fn absent(&self) -> Option<i32> {
        (**self).absent()
    }
}

impl<V: BindValue> BindValue for Option<V> {
    fn write(&self, data_type: Option<&CqlType>, out: &mut Vec<u8>) -> bool {
        self.as_ref().is_some_and(|value| value.write(data_type, out))
    }

    fn absent(&self) -> Option<i32> {
        self.as_ref().map_or(Some(NULL), BindValue::absent)
    }
}

impl BindValue for Unset {
    fn write(&self, _: Option<&CqlType>, _: &mut Vec<u8>) -> bool {
        true
    }

    fn absent(&self) -> Option<i32> {
        Some(UNSET)
    }
}

/// Integers widen or narrow to the marker's type where they fit it.
macro_rules! bind_integer {
    ($($rust:ty => $own:ident),*) => {$(
        impl BindValue for $rust {
            fn write(&self, data_type: Option<&CqlType>, out: &mut Vec<u8>) -> bool {
                write_integer(i64::from(*self), data_type.unwrap_or(&CqlType::$own), out)
            }
        }
    )*};
}

bind_integer!(i8 => Tinyint, i16 => Smallint, i32 => Int, i64 => Bigint);

fn write_integer(value: i64, data_type: &CqlType, out: &mut Vec<u8>) -> bool {
    match data_type {
        CqlType::Bigint | CqlType::Counter | CqlType::Timestamp | CqlType::Time => {
            out.extend_from_slice(&value.to_be_bytes());
        }
        CqlType::Int => match i32::try_from(value) {
            Ok(value) => out.extend_from_slice(&value.to_be_bytes()),
            Err(_) => return false,
        },
        CqlType::Smallint => match i16::try_from(value) {
            Ok(value) => out.extend_from_slice(&value.to_be_bytes()),
            Err(_) => return false,
        },
        CqlType::Tinyint => match i8::try_from(value) {
            Ok(value) => out.extend_from_slice(&value.to_be_bytes()),
            Err(_) => return false,
        },
        CqlType::Varint => out.extend_from_slice(&helenus_types::value::varint::varint_of(value)),
        _ => return false,
    }
    true
}

/// Values that one family of types takes as the bytes that `$bytes` gives.
macro_rules! bind_as {
    ($rust:ty, $($accepted:pat_param)|+, $value:ident => $bytes:expr) => {
        impl BindValue for $rust {
            fn write(&self, data_type: Option<&CqlType>, out: &mut Vec<u8>) -> bool {
                let $value = self;
                let accepts = data_type.is_none_or(|data_type| matches!(data_type, $($accepted)|+));
                if accepts {
                    out.extend_from_slice(AsRef::<[u8]>::as_ref(&$bytes));
                }
                accepts
            }
        }
    };
}

bind_as!(bool, CqlType::Boolean, value => [u8::from(*value)]);
bind_as!(f32, CqlType::Float, value => value.to_be_bytes());
bind_as!(f64, CqlType::Double, value => value.to_be_bytes());
bind_as!(str, CqlType::Text | CqlType::Ascii, value => value.as_bytes());
bind_as!(String, CqlType::Text | CqlType::Ascii, value => value.as_bytes());
bind_as!([u8], CqlType::Blob | CqlType::Custom(_), value => value);
bind_as!(Uuid, CqlType::Uuid | CqlType::Timeuuid, value => value.as_bytes());
bind_as!(IpAddr, CqlType::Inet, value => inet_of(*value));
bind_as!(BigInt, CqlType::Varint, value => value.to_signed_bytes_be());

/// A list, set or vector; bytes go in as a blob (`Vec<u8>` of a `blob` marker).
impl<V: BindValue + 'static> BindValue for Vec<V> {
    fn write(&self, data_type: Option<&CqlType>, out: &mut Vec<u8>) -> bool {
        match data_type {
            Some(CqlType::List { element, .. } | CqlType::Set { element, .. }) => {
                write_elements(self.iter(), self.len(), out, |value, out| {
                    value.write(Some(element), out)
                })
            }
            Some(CqlType::Blob) | None => {
                // The only element whose values are single bytes; anything else is no blob.
                let bytes = (self as &dyn std::any::Any).downcast_ref::<Vec<u8>>();
                bytes.inspect(|bytes| out.extend_from_slice(bytes)).is_some()
            }
            _ => false,
        }
    }
}

/// A byte is bound as a tinyint's bits; it exists so that `Vec<u8>` can be a blob.
impl BindValue for u8 {
    fn write(&self, data_type: Option<&CqlType>, out: &mut Vec<u8>) -> bool {
        let accepts = data_type == Some(&CqlType::Tinyint);
        if accepts {
            out.push(*self);
        }
        accepts
    }
}

impl<K: BindValue, V: BindValue, S> BindValue for HashMap<K, V, S> {
    fn write(&self, data_type: Option<&CqlType>, out: &mut Vec<u8>) -> bool {
        write_map(self.iter(), self.len(), data_type, out)
    }
}

impl<K: BindValue, V: BindValue> BindValue for BTreeMap<K, V> {
    fn write(&self, data_type: Option<&CqlType>, out: &mut Vec<u8>) -> bool {
        write_map(self.iter(), self.len(), data_type, out)
    }
}

fn write_map<'a, K: BindValue + 'a, V: BindValue + 'a>(
    entries: impl Iterator<Item = (&'a K, &'a V)>,
    count: usize,
    data_type: Option<&CqlType>,
    out: &mut Vec<u8>,
) -> bool {
    let Some(CqlType::Map { key, value, .. }) = data_type else {
        return false;
    };
    put_count(count, out)
        && entries.into_iter().all(|(k, v)| {
            put_with_length(out, |out| k.write(Some(key), out).then_some(0)).is_some()
                && put_with_length(out, |out| v.write(Some(value), out).then_some(0)).is_some()
        })
}

fn write_elements<T>(
    elements: impl Iterator<Item = T>,
    count: usize,
    out: &mut Vec<u8>,
    write: impl Fn(T, &mut Vec<u8>) -> bool,
) -> bool {
    put_count(count, out)
        && elements
            .into_iter()
            .all(|element| put_with_length(out, |out| write(element, out).then_some(0)).is_some())
}

fn put_count(count: usize, out: &mut Vec<u8>) -> bool {
    let count = i32::try_from(count);
    out.extend_from_slice(&count.unwrap_or_default().to_be_bytes());
    count.is_ok()
}

/// The values of a whole statement: a tuple, a slice, or [`BoundValues`] made before.
pub trait BindValues {
    /// Appends each value; `types` are the markers', empty in an unprepared statement.
    fn bind(&self, types: &[CqlType], out: &mut BoundValues) -> Result<(), BindError>;
}

impl BindValues for BoundValues {
    fn bind(&self, _: &[CqlType], out: &mut BoundValues) -> Result<(), BindError> {
        out.count = out.count.checked_add(self.count).ok_or(BindError::TooMany)?;
        out.bytes.extend_from_slice(&self.bytes);
        Ok(())
    }
}

impl<V: BindValues + ?Sized> BindValues for &V {
    fn bind(&self, types: &[CqlType], out: &mut BoundValues) -> Result<(), BindError> {
        (**self).bind(types, out)
    }
}

impl<V: BindValue> BindValues for [V] {
    fn bind(&self, types: &[CqlType], out: &mut BoundValues) -> Result<(), BindError> {
        self.iter()
            .enumerate()
            .try_for_each(|(index, value)| out.push(value, types.get(index)))
    }
}

impl<V: BindValue, const N: usize> BindValues for [V; N] {
    fn bind(&self, types: &[CqlType], out: &mut BoundValues) -> Result<(), BindError> {
        self.as_slice().bind(types, out)
    }
}

impl BindValues for () {
    fn bind(&self, _: &[CqlType], _: &mut BoundValues) -> Result<(), BindError> {
        Ok(())
    }
}

macro_rules! bind_tuple {
    ($($name:ident $index:tt),+) => {
        impl<$($name: BindValue),+> BindValues for ($($name,)+) {
            fn bind(&self, types: &[CqlType], out: &mut BoundValues) -> Result<(), BindError> {
                $(out.push(&self.$index, types.get($index))?;)+
                Ok(())
            }
        }
    };
}

bind_tuple!(A 0);
bind_tuple!(A 0, B 1);
bind_tuple!(A 0, B 1, C 2);
bind_tuple!(A 0, B 1, C 2, D 3);
bind_tuple!(A 0, B 1, C 2, D 3, E 4);
bind_tuple!(A 0, B 1, C 2, D 3, E 4, F 5);
bind_tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
bind_tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_their_markers_want_them() {
        let types = [
            CqlType::Bigint,
            CqlType::Text,
            CqlType::Varint,
            CqlType::Blob,
            CqlType::Int,
        ];
        let mut bound = BoundValues::new();
        (7_i32, "lamp", -1_i64, vec![1_u8, 2], None::<i32>)
            .bind(&types, &mut bound)
            .unwrap();
        assert_eq!(bound.count(), 5);
        assert_eq!(bound.value(0), Some(&7_i64.to_be_bytes()[..]));
        assert_eq!(bound.value(1), Some(&b"lamp"[..]));
        assert_eq!(bound.value(2), Some(&[0xff][..]));
        assert_eq!(bound.value(3), Some(&[1, 2][..]));
        assert_eq!((bound.value(4), bound.value(5)), (None, None));
    }

    #[test]
    fn a_value_of_the_wrong_type_is_refused_and_leaves_nothing_behind() {
        let mut bound = BoundValues::new();
        let refused = bound.push("text", Some(&CqlType::Int));
        assert!(matches!(refused, Err(BindError::Type { index: 0, .. })));
        assert!(bound.as_bytes().is_empty());
        assert!(bound.push(&70_000_i32, Some(&CqlType::Smallint)).is_err());
    }

    #[test]
    fn a_value_that_is_written_in_place_has_its_length_before_it() {
        let (mut written, mut pushed) = (BoundValues::new(), BoundValues::new());
        for value in [&b"lamp"[..], b""] {
            written.push_written(|out| out.extend_from_slice(value)).unwrap();
            pushed.push_serialized(Some(value)).unwrap();
        }
        assert_eq!((written.count(), written.as_bytes()), (2, pushed.as_bytes()));
    }

    #[test]
    fn collections_nest() {
        let data_type = CqlType::map(CqlType::Text, CqlType::list(CqlType::Int, true), true);
        let value = BTreeMap::from([("a".to_owned(), vec![1_i32, 2])]);
        let mut out = Vec::new();
        assert!(value.write(Some(&data_type), &mut out));
        data_type.validate(&out).unwrap();
    }
}
