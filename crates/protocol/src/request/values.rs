//! Bound values: the hot part of EXECUTE.

use crate::version::ProtocolVersion;
use crate::wire::{DecodeError, WireReader};

/// One bound value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    Null,
    /// Not set at all (v4 and later): the statement leaves what it would have set as it is.
    Unset,
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    /// The serialized value; `None` for null and unset.
    #[inline]
    pub fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Value::Bytes(bytes) => Some(bytes),
            Value::Null | Value::Unset => None,
        }
    }
}

/// The values of a request: a view of its bytes, walked once to check every length, cheap to copy and to iterate.
#[derive(Clone, Copy, Debug, Default)]
pub struct Values<'a> {
    bytes: &'a [u8],
    count: u16,
    has_names: bool,
    has_unset: bool,
}

const NULL_LENGTH: i32 = -1;
const UNSET_LENGTH: i32 = -2;

impl<'a> Values<'a> {
    pub const EMPTY: Values<'static> = Values {
        bytes: &[],
        count: 0,
        has_names: false,
        has_unset: false,
    };

    #[inline]
    pub(super) fn decode(
        reader: &mut WireReader<'a>,
        version: ProtocolVersion,
        has_names: bool,
    ) -> Result<Self, DecodeError> {
        let item_bytes_min = if has_names { 6 } else { 4 };
        let count = reader.count("values", item_bytes_min)?;
        let has_unset = version >= ProtocolVersion::V4;
        let start = reader.rest();
        for _ in 0..count {
            if has_names {
                reader.string()?;
            }
            match reader.int("a value's length")? {
                length @ 0.. => {
                    reader.take(length as usize, "a value")?;
                }
                length if has_unset && length < UNSET_LENGTH => {
                    return Err(DecodeError::InvalidValueLength(length));
                }
                _ => {}
            }
        }
        let used = start.len() - reader.rest().len();
        Ok(Values {
            bytes: &start[..used],
            count: count as u16,
            has_names,
            has_unset,
        })
    }

    #[inline]
    pub fn len(&self) -> usize {
        usize::from(self.count)
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns whether the values are bound by name; then [`Self::named`] gives the names.
    #[inline]
    pub fn has_names(&self) -> bool {
        self.has_names
    }

    /// The values as they were sent, behind their count.
    pub(super) fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The values in the order they were sent.
    #[inline]
    pub fn iter(&self) -> ValuesIter<'a> {
        ValuesIter { named: self.named() }
    }

    /// Names and values in the order they were sent; the names are empty if the values are positional.
    #[inline]
    pub fn named(&self) -> NamedValues<'a> {
        NamedValues {
            reader: WireReader::new(self.bytes),
            left: self.count,
            has_names: self.has_names,
            has_unset: self.has_unset,
        }
    }
}

impl<'a> IntoIterator for Values<'a> {
    type Item = Value<'a>;
    type IntoIter = ValuesIter<'a>;

    #[inline]
    fn into_iter(self) -> ValuesIter<'a> {
        self.iter()
    }
}

/// See [`Values::iter`].
#[derive(Clone, Debug)]
pub struct ValuesIter<'a> {
    named: NamedValues<'a>,
}

impl<'a> Iterator for ValuesIter<'a> {
    type Item = Value<'a>;

    #[inline]
    fn next(&mut self) -> Option<Value<'a>> {
        self.named.next().map(|(_, value)| value)
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.named.size_hint()
    }
}

impl ExactSizeIterator for ValuesIter<'_> {}

/// See [`Values::named`].
#[derive(Clone, Debug)]
pub struct NamedValues<'a> {
    reader: WireReader<'a>,
    left: u16,
    has_names: bool,
    has_unset: bool,
}

impl<'a> Iterator for NamedValues<'a> {
    type Item = (&'a str, Value<'a>);

    /// `decode` has checked every length, so an error cannot come up; it would end the iteration.
    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let name = if self.has_names {
            self.reader.string().ok()?
        } else {
            ""
        };
        let value = match self.reader.int("a value's length").ok()? {
            length @ 0.. => Value::Bytes(self.reader.take(length as usize, "a value").ok()?),
            NULL_LENGTH => Value::Null,
            // In v3 every negative length is null.
            _ if self.has_unset => Value::Unset,
            _ => Value::Null,
        };
        Some((name, value))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::from(self.left), Some(usize::from(self.left)))
    }
}

impl ExactSizeIterator for NamedValues<'_> {}

/// Appends one value as a request carries it.
#[inline]
pub(super) fn put_value(out: &mut Vec<u8>, value: Value<'_>) {
    match value {
        Value::Null => crate::wire::put_int(out, NULL_LENGTH),
        Value::Unset => crate::wire::put_int(out, UNSET_LENGTH),
        Value::Bytes(bytes) => crate::wire::put_bytes(out, Some(bytes)),
    }
}
