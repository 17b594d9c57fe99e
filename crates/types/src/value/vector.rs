//! Vectors: exactly `dimension` elements. Elements of fixed length lie one after the other; others have their length
//! before them as an unsigned vint.

use crate::cql_type::CqlType;
use crate::value::vint::{read_unsigned_vint_32, write_unsigned_vint};

/// Iterates over the elements of a serialized vector; ends early if the bytes do.
#[derive(Clone, Debug)]
pub struct VectorElements<'a> {
    rest: &'a [u8],
    remaining: u32,
    element_length: Option<usize>,
}

impl<'a> VectorElements<'a> {
    pub fn new(element: &CqlType, dimension: u32, vector: &'a [u8]) -> VectorElements<'a> {
        VectorElements {
            rest: vector,
            remaining: dimension,
            element_length: element.value_length_if_fixed(),
        }
    }

    /// Elements not read yet.
    pub fn remaining(&self) -> u32 {
        self.remaining
    }

    /// Bytes not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for VectorElements<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        if self.remaining == 0 {
            return None;
        }
        let mut rest = self.rest;
        let length = match self.element_length {
            Some(length) => length,
            None => read_unsigned_vint_32(&mut rest)? as usize,
        };
        let (element, rest) = rest.split_at_checked(length)?;
        self.rest = rest;
        self.remaining -= 1;
        Some(element)
    }
}

/// Appends one element of a vector of `element`s.
pub fn write_vector_element(out: &mut Vec<u8>, element: &CqlType, value: &[u8]) {
    if element.value_length_if_fixed().is_none() {
        write_unsigned_vint(out, value.len() as u64);
    }
    out.extend_from_slice(value);
}
