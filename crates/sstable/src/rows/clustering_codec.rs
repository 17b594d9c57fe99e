//! Clustering keys and bounds as an SSTable stores them.
//!
//! Per 32 components a header of two bits each (1: empty, 2: null), then the values: as they are where the type
//! fixes the length, else after a variable-length length. A bound has its kind and its component count before that.

use std::cmp::Ordering;

use helenus_types::CqlType;

use crate::decode::{ByteReader, DecodeError, push_bytes_after_vint, push_unsigned_vint};
use helenus_rows::clustering::{ClusteringComparator, Components, Side, push_component};

/// Components per header word.
const HEADER_COMPONENTS: usize = 32;
/// So many have a header of seven bits or less: one byte.
const SHORT_HEADER_COMPONENTS: usize = 3;
const HEADER_EMPTY: u64 = 1;
const HEADER_NULL: u64 = 2;

pub(crate) const KIND_EXCLUSIVE_END: u8 = 0;
pub(crate) const KIND_INCLUSIVE_START: u8 = 1;
pub(crate) const KIND_EXCLUSIVE_END_INCLUSIVE_START: u8 = 2;
pub(crate) const KIND_CLUSTERING: u8 = 4;
pub(crate) const KIND_INCLUSIVE_END_EXCLUSIVE_START: u8 = 5;
pub(crate) const KIND_INCLUSIVE_END: u8 = 6;
pub(crate) const KIND_EXCLUSIVE_START: u8 = 7;

/// How the components of one table's clustering keys are stored.
#[derive(Clone, Debug)]
pub(crate) struct ClusteringCodec {
    fixed_lengths: Vec<Option<usize>>,
}

/// A place in a partition: a row's, or that of a bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub prefix: Box<[u8]>,
    /// `None` for a row.
    pub side: Option<Side>,
}

/// A [`Place`], borrowed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlaceRef<'a> {
    pub prefix: &'a [u8],
    pub side: Option<Side>,
}

impl Place {
    pub fn compare_to_bound(&self, comparator: &ClusteringComparator, bound: (&[u8], Side)) -> Ordering {
        match self.side {
            None => comparator.compare_to_place(&self.prefix, bound.0, bound.1),
            Some(side) => comparator.compare_bounds((&self.prefix, side), bound),
        }
    }
}

#[cfg(test)]
impl Place {
    pub fn as_ref(&self) -> PlaceRef<'_> {
        PlaceRef {
            prefix: &self.prefix,
            side: self.side,
        }
    }
}

impl PlaceRef<'_> {
    pub fn compare(&self, comparator: &ClusteringComparator, other: PlaceRef<'_>) -> Ordering {
        match (self.side, other.side) {
            (None, None) => comparator.compare(self.prefix, other.prefix),
            (Some(left), Some(right)) => {
                comparator.compare_bounds((self.prefix, left), (other.prefix, right))
            }
            (None, Some(side)) => comparator
                .compare_common(self.prefix, other.prefix)
                .then(key_versus(side)),
            (Some(side), None) => comparator
                .compare_common(self.prefix, other.prefix)
                .then(key_versus(side).reverse()),
        }
    }
}

/// Where the keys with a bound's prefix lie relative to the bound.
fn key_versus(side: Side) -> Ordering {
    match side {
        Side::Before => Ordering::Greater,
        Side::After => Ordering::Less,
    }
}

impl ClusteringCodec {
    pub fn new<'a>(types: impl Iterator<Item = &'a CqlType>) -> Self {
        ClusteringCodec {
            fixed_lengths: types.map(CqlType::value_length_if_fixed).collect(),
        }
    }

    pub fn component_count(&self) -> usize {
        self.fixed_lengths.len()
    }

    /// The values of a packed key or prefix. A value whose length is not its type's was refused by the statement.
    pub fn write_values(&self, out: &mut Vec<u8>, packed: &[u8]) {
        if self.fixed_lengths.len() <= SHORT_HEADER_COMPONENTS {
            return self.write_few_values(out, packed);
        }
        let mut components = Components::new(packed).zip(&self.fixed_lengths);
        let mut ahead = Components::new(packed);
        loop {
            let mut header = 0;
            let mut count = 0;
            for (index, component) in ahead.by_ref().take(HEADER_COMPONENTS).enumerate() {
                if component.is_empty() {
                    header |= HEADER_EMPTY << (2 * index);
                }
                count += 1;
            }
            if count == 0 {
                return;
            }
            push_unsigned_vint(out, header);
            for (component, fixed) in components.by_ref().take(count) {
                if component.is_empty() {
                    continue;
                }
                match fixed {
                    Some(length) => {
                        debug_assert_eq!(*length, component.len(), "clustering values are validated");
                        out.extend_from_slice(component);
                    }
                    None => push_bytes_after_vint(out, component),
                }
            }
        }
    }

    /// [`Self::write_values`] where the header is one byte, which is filled in at the end.
    #[inline]
    fn write_few_values(&self, out: &mut Vec<u8>, packed: &[u8]) {
        if packed.is_empty() {
            return;
        }
        let header_at = out.len();
        let mut header = 0;
        out.push(header);
        for (index, (component, fixed)) in Components::new(packed).zip(&self.fixed_lengths).enumerate() {
            if component.is_empty() {
                header |= (HEADER_EMPTY as u8) << (2 * index);
                continue;
            }
            match fixed {
                Some(length) => debug_assert_eq!(*length, component.len(), "clustering values are validated"),
                None => push_unsigned_vint(out, component.len() as u64),
            }
            out.extend_from_slice(component);
        }
        out[header_at] = header;
    }

    /// Appends `count` components in packed form. A null, which only old compact tables have, reads as empty.
    pub fn read_values(
        &self,
        reader: &mut ByteReader<'_>,
        count: usize,
        packed: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        self.each_value(reader, count, |component| push_component(packed, component))
    }

    /// Passes `count` components.
    pub fn skip_values(&self, reader: &mut ByteReader<'_>, count: usize) -> Result<(), DecodeError> {
        self.each_value(reader, count, |_| ())
    }

    #[inline]
    fn each_value<'a>(
        &self,
        reader: &mut ByteReader<'a>,
        count: usize,
        mut take: impl FnMut(&'a [u8]),
    ) -> Result<(), DecodeError> {
        let mut header = 0;
        for index in 0..count {
            let slot = index % HEADER_COMPONENTS;
            if slot == 0 {
                header = reader.unsigned_vint()?;
            }
            let offset = reader.position();
            let component = if (header >> (2 * slot)) & (HEADER_EMPTY | HEADER_NULL) != 0 {
                &[][..]
            } else {
                match self.fixed_lengths.get(index) {
                    Some(Some(length)) => reader.bytes(*length)?,
                    Some(None) => reader.bytes_after_vint()?,
                    None => {
                        return Err(DecodeError::malformed(
                            offset,
                            "fewer clustering components",
                            count,
                        ));
                    }
                }
            };
            if component.len() > usize::from(u16::MAX) {
                return Err(DecodeError::malformed(
                    offset,
                    "a clustering value below 64 KiB",
                    component.len(),
                ));
            }
            take(component);
        }
        Ok(())
    }

    /// The kind has been written.
    pub fn write_bound_values(&self, out: &mut Vec<u8>, prefix: &[u8]) {
        let count = Components::new(prefix).count();
        out.extend_from_slice(&(count as u16).to_be_bytes());
        self.write_values(out, prefix);
    }

    /// The kind has been read.
    pub fn read_bound_values(
        &self,
        reader: &mut ByteReader<'_>,
        packed: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        let count = usize::from(reader.u16()?);
        self.read_values(reader, count, packed)
    }

    /// The least that [`ClusteringCodec::write_place`] writes: a row's kind and headers, or a bound's kind and count.
    pub fn place_bytes_min(&self) -> usize {
        let headers = self.component_count().div_ceil(HEADER_COMPONENTS);
        1 + headers.min(size_of::<u16>())
    }

    /// A place in an index block. Where a boundary between two deletions lies is all that is kept of its kind.
    pub fn write_place(&self, out: &mut Vec<u8>, prefix: &[u8], kind: u8) {
        out.push(kind);
        if kind == KIND_CLUSTERING {
            self.write_values(out, prefix);
        } else {
            self.write_bound_values(out, prefix);
        }
    }

    pub fn read_place(&self, reader: &mut ByteReader<'_>) -> Result<Place, DecodeError> {
        let offset = reader.position();
        let kind = reader.u8()?;
        let mut prefix = Vec::new();
        let side = if kind == KIND_CLUSTERING {
            self.read_values(reader, self.component_count(), &mut prefix)?;
            None
        } else {
            let side =
                side_of_kind(kind).ok_or_else(|| DecodeError::malformed(offset, "a bound kind", kind))?;
            self.read_bound_values(reader, &mut prefix)?;
            Some(side)
        };
        Ok(Place {
            prefix: prefix.into(),
            side,
        })
    }
}

pub(crate) fn side_of_kind(kind: u8) -> Option<Side> {
    match kind {
        KIND_EXCLUSIVE_END | KIND_INCLUSIVE_START | KIND_EXCLUSIVE_END_INCLUSIVE_START => Some(Side::Before),
        KIND_INCLUSIVE_END_EXCLUSIVE_START | KIND_INCLUSIVE_END | KIND_EXCLUSIVE_START => Some(Side::After),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(components: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        components
            .iter()
            .for_each(|component| push_component(&mut out, component));
        out
    }

    #[test]
    fn values_are_stored_by_their_type_s_length() {
        let codec = ClusteringCodec::new([CqlType::Int, CqlType::Text, CqlType::Bigint].iter());
        let key = packed(&[&[0, 0, 0, 7], b"ab", b""]);
        let mut out = Vec::new();
        codec.write_values(&mut out, &key);
        assert_eq!(out, [0b01_0000, 0, 0, 0, 7, 2, b'a', b'b']);
        let mut read = Vec::new();
        codec
            .read_values(&mut ByteReader::new(&out), 3, &mut read)
            .unwrap();
        assert_eq!(read, key);
    }

    #[test]
    fn more_than_32_components_have_more_headers() {
        let types = vec![CqlType::Text; 40];
        let codec = ClusteringCodec::new(types.iter());
        let values: Vec<Vec<u8>> = (0..40).map(|index| vec![b'x'; index % 3]).collect();
        let key = packed(&values.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let mut out = Vec::new();
        codec.write_values(&mut out, &key);
        let mut read = Vec::new();
        let mut reader = ByteReader::new(&out);
        codec.read_values(&mut reader, 40, &mut read).unwrap();
        assert_eq!((read, reader.remaining()), (key, 0));
    }

    #[test]
    fn places_keep_their_side() {
        let codec = ClusteringCodec::new([CqlType::Int].iter());
        for (kind, side) in [
            (KIND_CLUSTERING, None),
            (KIND_INCLUSIVE_START, Some(Side::Before)),
            (KIND_INCLUSIVE_END_EXCLUSIVE_START, Some(Side::After)),
        ] {
            let mut out = Vec::new();
            codec.write_place(&mut out, &packed(&[&[0, 0, 0, 1]]), kind);
            let place = codec.read_place(&mut ByteReader::new(&out)).unwrap();
            assert_eq!(
                place,
                Place {
                    prefix: packed(&[&[0, 0, 0, 1]]).into(),
                    side
                }
            );
        }
        assert!(
            codec.read_place(&mut ByteReader::new(&[3, 0, 0])).is_err(),
            "a static row has no place"
        );
    }

    #[test]
    fn no_place_is_shorter_than_the_least() {
        for (columns, least) in [(0, 1), (1, 2), (3, 2), (32, 2), (33, 3), (65, 3)] {
            let types = vec![CqlType::Text; columns];
            let codec = ClusteringCodec::new(types.iter());
            let empty = packed(&vec![&b""[..]; columns]);
            let shortest = [(KIND_CLUSTERING, &*empty), (KIND_INCLUSIVE_START, &[])].map(|(kind, prefix)| {
                let mut out = Vec::new();
                codec.write_place(&mut out, prefix, kind);
                out.len()
            });
            assert_eq!(codec.place_bytes_min(), least, "{columns} columns");
            assert!(
                shortest.into_iter().all(|bytes| bytes >= least),
                "{columns} columns"
            );
        }
        let mut out = Vec::new();
        ClusteringCodec::new([].iter()).write_place(&mut out, &[], KIND_CLUSTERING);
        assert_eq!(out.len(), 1, "a row without clustering columns is its kind");
    }
}
