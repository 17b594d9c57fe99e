//! The values a statement is executed with, in the order of its bind markers.

use std::collections::HashMap;
use std::fmt;

use helenus_protocol::request::{Value, Values};

use super::ColumnSpec;
use crate::CqlError;

/// Values found without touching the heap; statements with more keep them in a vector. Most statements bind fewer.
const INLINE_VALUES: usize = 16;

/// Bound values by marker index: names are resolved and the count is checked.
#[derive(Clone)]
pub struct BoundValues<'a> {
    inline: [Value<'a>; INLINE_VALUES],
    beyond: Vec<Value<'a>>,
    count: usize,
}

/// Bound values that travel to another shard.
#[derive(Clone, Debug, Default)]
pub struct OwnedValues {
    bytes: Vec<u8>,
    /// Where each value lies in `bytes`.
    values: Vec<OwnedValue>,
}

#[derive(Clone, Copy, Debug)]
enum OwnedValue {
    Null,
    Unset,
    Bytes { start: usize, end: usize },
}

impl OwnedValues {
    /// Heap bytes that they take beside themselves.
    pub fn heap_bytes(&self) -> usize {
        self.bytes.capacity() + self.values.capacity() * size_of::<OwnedValue>()
    }
}

impl<'a> BoundValues<'a> {
    pub const EMPTY: BoundValues<'static> = BoundValues {
        inline: [Value::Null; INLINE_VALUES],
        beyond: Vec::new(),
        count: 0,
    };

    pub fn positional(values: impl IntoIterator<Item = Value<'a>>) -> Self {
        let mut bound = BoundValues { ..Self::EMPTY };
        for value in values {
            bound.push(value);
        }
        bound
    }

    /// The values of a request for a statement with these markers. `is_prepared` only chooses the words of the
    /// refusal when their number does not match.
    pub fn resolve(values: Values<'a>, markers: &[ColumnSpec], is_prepared: bool) -> Result<Self, CqlError> {
        let mut bound = BoundValues::EMPTY;
        bound.add(values, markers, is_prepared)?;
        Ok(bound)
    }

    /// As [`Self::resolve`], in place: there are 400 bytes of them.
    #[inline]
    pub fn add(
        &mut self,
        values: Values<'a>,
        markers: &[ColumnSpec],
        is_prepared: bool,
    ) -> Result<(), CqlError> {
        if values.has_names() {
            self.add_named(values, markers);
        } else {
            values.iter().for_each(|value| self.push(value));
        }
        match self.count == markers.len() {
            true => Ok(()),
            // A statement and a request have at most 65,535 of them.
            false if is_prepared => Err(CqlError::MarkerCount {
                markers: markers.len() as u32,
                values: self.count as u32,
            }),
            false => Err(invalid!("Invalid amount of bind variables")),
        }
    }

    /// Adds values by the names of the markers. Of two values of one name the first counts.
    #[cold]
    fn add_named(&mut self, values: Values<'a>, markers: &[ColumnSpec]) {
        let mut by_name = HashMap::new();
        for (name, value) in values.named() {
            by_name.entry(name).or_insert(value);
        }
        for marker in markers {
            if let Some(value) = by_name.get(&*marker.name) {
                self.push(*value);
            }
        }
    }

    #[inline]
    fn push(&mut self, value: Value<'a>) {
        match self.inline.get_mut(self.count) {
            Some(slot) => *slot = value,
            None => self.beyond.push(value),
        }
        self.count += 1;
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The value of a marker. The count was checked against the plan's markers, so none is missing; if one were, it
    /// would be unset.
    #[inline]
    pub fn value(&self, index: usize) -> Value<'a> {
        if index >= self.count {
            return Value::Unset;
        }
        match self.inline.get(index) {
            Some(value) => *value,
            None => self
                .beyond
                .get(index - INLINE_VALUES)
                .copied()
                .unwrap_or(Value::Unset),
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = Value<'a>> + '_ {
        (0..self.count).map(|index| self.value(index))
    }

    pub fn to_owned_values(&self) -> OwnedValues {
        self.iter().collect()
    }
}

impl fmt::Debug for BoundValues<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl OwnedValues {
    pub fn bound(&self) -> BoundValues<'_> {
        BoundValues::positional(self.values.iter().map(|value| match *value {
            OwnedValue::Null => Value::Null,
            OwnedValue::Unset => Value::Unset,
            OwnedValue::Bytes { start, end } => Value::Bytes(&self.bytes[start..end]),
        }))
    }
}

impl<'a> FromIterator<Value<'a>> for OwnedValues {
    fn from_iter<I: IntoIterator<Item = Value<'a>>>(values: I) -> Self {
        let mut owned = OwnedValues::default();
        for value in values {
            let value = match value {
                Value::Null => OwnedValue::Null,
                Value::Unset => OwnedValue::Unset,
                Value::Bytes(bytes) => {
                    let start = owned.bytes.len();
                    owned.bytes.extend_from_slice(bytes);
                    OwnedValue::Bytes {
                        start,
                        end: owned.bytes.len(),
                    }
                }
            };
            owned.values.push(value);
        }
        owned
    }
}
