//! Lists of strings, and SUPPORTED.

use crate::wire::{DecodeError, WireReader};

/// A list of strings: a view of validated bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct StringList<'a> {
    count: usize,
    bytes: &'a [u8],
}

impl<'a> StringList<'a> {
    pub(super) fn decode(reader: &mut WireReader<'a>) -> Result<Self, DecodeError> {
        let count = reader.count("strings", 2)?;
        let start = reader.rest();
        for _ in 0..count {
            reader.string()?;
        }
        let used = start.len() - reader.rest().len();
        Ok(StringList {
            count,
            bytes: &start[..used],
        })
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub fn iter(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let mut reader = WireReader::new(self.bytes);
        // `decode` has checked the same bytes, so none of these can fail.
        (0..self.count).map_while(move |_| reader.string().ok())
    }
}

/// The options of SUPPORTED: names and the values each may have. A view of validated bytes.
#[derive(Clone, Copy, Debug)]
pub struct Supported<'a> {
    count: usize,
    bytes: &'a [u8],
}

impl<'a> Supported<'a> {
    pub(super) fn decode(reader: &mut WireReader<'a>) -> Result<Self, DecodeError> {
        // An option is at least an empty name and an empty list of 2 bytes each.
        let count = reader.count("supported options", 4)?;
        let start = reader.rest();
        for _ in 0..count {
            reader.string()?;
            StringList::decode(reader)?;
        }
        let used = start.len() - reader.rest().len();
        Ok(Supported {
            count,
            bytes: &start[..used],
        })
    }

    pub fn iter(&self) -> impl Iterator<Item = (&'a str, StringList<'a>)> + use<'a> {
        let mut reader = WireReader::new(self.bytes);
        // `decode` has checked the same bytes, so none of these can fail.
        (0..self.count)
            .map_while(move |_| Some((reader.string().ok()?, StringList::decode(&mut reader).ok()?)))
    }

    /// The values of an option; empty if the server does not name it.
    pub fn option(&self, name: &str) -> StringList<'a> {
        self.iter()
            .find(|(key, _)| *key == name)
            .map(|(_, values)| values)
            .unwrap_or_default()
    }
}
