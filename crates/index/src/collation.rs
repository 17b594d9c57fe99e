//! How storage-attached indexes compare values where that is not as their type does.

use std::borrow::Cow;

use helenus_types::CqlType;

use crate::text::{TextOptions, analyzed};

/// Conversion of values before they are compared, those of rows and of queries alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collation {
    text: Option<TextOptions>,
    is_of_addresses: bool,
    /// Empty values are found by nothing.
    skips_empty: bool,
}

impl Collation {
    /// `None` where values are compared as they are.
    pub(crate) fn of(cql_type: &CqlType, text: TextOptions) -> Option<Self> {
        let is_text = matches!(cql_type, CqlType::Text | CqlType::Ascii);
        let has_parts = cql_type.sub_types().next().is_some();
        let collation = Collation {
            text: (is_text && !text.are_plain()).then_some(text),
            is_of_addresses: *cql_type == CqlType::Inet,
            skips_empty: !is_text && !has_parts && *cql_type != CqlType::Boolean,
        };
        let is_plain = collation.text.is_none() && !collation.is_of_addresses && !collation.skips_empty;
        (!is_plain).then_some(collation)
    }

    /// Returns whether two values may compare otherwise than their type says.
    pub fn changes_order(&self) -> bool {
        self.text.is_some() || self.is_of_addresses
    }

    /// Returns whether what it accepts has to be accepted by the column's type, too: Cassandra compares addresses both ways.
    pub fn narrows(&self) -> bool {
        self.is_of_addresses
    }

    /// `None` for a value that matches nothing.
    pub fn apply<'v>(&self, value: &'v [u8]) -> Option<Cow<'v, [u8]>> {
        if self.skips_empty && value.is_empty() {
            return None;
        }
        if self.is_of_addresses {
            return Some(expanded_address(value));
        }
        let Some(text) = &self.text else {
            return Some(Cow::Borrowed(value));
        };
        Some(match str::from_utf8(value) {
            Ok(value) => match analyzed(text, value) {
                Cow::Borrowed(value) => Cow::Borrowed(value.as_bytes()),
                Cow::Owned(value) => Cow::Owned(value.into_bytes()),
            },
            Err(_) => Cow::Borrowed(value),
        })
    }
}

/// Addresses of version 4 as those of version 6 that stand for them.
pub(crate) fn expanded_address(address: &[u8]) -> Cow<'_, [u8]> {
    const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
    match address.len() {
        4 => Cow::Owned([MAPPED.as_slice(), address].concat()),
        _ => Cow::Borrowed(address),
    }
}
