//! Tuples and UDTs: each component as an i32 length and its bytes, -1 for null. Components missing at the end are null,
//! so that a type may gain some after values were written.

use crate::value::collection::{read_value, write_value};

/// Iterates over the components that are there; stops at the end of the bytes, whether well formed or not.
#[derive(Clone, Debug)]
pub struct TupleComponents<'a> {
    rest: &'a [u8],
}

impl<'a> TupleComponents<'a> {
    pub fn new(tuple: &'a [u8]) -> TupleComponents<'a> {
        TupleComponents { rest: tuple }
    }

    /// The bytes not read yet; not empty after the last component if that was cut short.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for TupleComponents<'a> {
    /// None is a null component.
    type Item = Option<&'a [u8]>;

    #[inline]
    fn next(&mut self) -> Option<Option<&'a [u8]>> {
        read_value(&mut self.rest)
    }
}

/// Appends one component.
#[inline]
pub fn write_component(out: &mut Vec<u8>, component: Option<&[u8]>) {
    write_value(out, component);
}
