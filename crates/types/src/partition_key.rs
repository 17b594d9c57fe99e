//! Partition keys: the columns of the key put together as one serialized value.
//!
//! A single column's key is that column's value as it is. Several columns make a `CompositeType` value: for each, its
//! length as a u16, its bytes and a zero byte.

/// Appends the key made of `components` to `out`. False, with `out` as it was, if one of several is too long for
/// its length to be written.
#[must_use]
pub fn write_partition_key<'a>(
    out: &mut Vec<u8>,
    components: impl ExactSizeIterator<Item = &'a [u8]>,
) -> bool {
    let is_composite = components.len() != 1;
    let start = out.len();
    for component in components {
        if !is_composite {
            out.extend_from_slice(component);
            continue;
        }
        let Ok(length) = u16::try_from(component.len()) else {
            out.truncate(start);
            return false;
        };
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(component);
        out.push(0);
    }
    true
}

/// The columns of a key of `component_count` columns, in order. Ends early if the key is not well formed; see
/// [`is_well_formed_partition_key`].
pub fn partition_key_components(key: &[u8], component_count: usize) -> PartitionKeyComponents<'_> {
    PartitionKeyComponents {
        rest: key,
        remaining: component_count,
        is_composite: component_count != 1,
    }
}

/// Returns whether the key splits into exactly `component_count` columns with nothing left over.
pub fn is_well_formed_partition_key(key: &[u8], component_count: usize) -> bool {
    let mut components = partition_key_components(key, component_count);
    components.by_ref().count() == component_count && components.rest.is_empty()
}

#[derive(Clone, Debug)]
pub struct PartitionKeyComponents<'a> {
    rest: &'a [u8],
    remaining: usize,
    is_composite: bool,
}

impl<'a> Iterator for PartitionKeyComponents<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        self.remaining = self.remaining.checked_sub(1)?;
        if !self.is_composite {
            return Some(std::mem::take(&mut self.rest));
        }
        let (length, rest) = self.rest.split_first_chunk::<2>()?;
        let (component, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
        let (_, rest) = rest.split_first()?;
        self.rest = rest;
        Some(component)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(components: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        assert!(write_partition_key(&mut out, components.iter().copied()));
        out
    }

    #[test]
    fn one_column_is_its_value() {
        assert_eq!(key(&[b"abc"]), b"abc");
        assert!(partition_key_components(b"abc", 1).eq([b"abc".as_slice()]));
    }

    #[test]
    fn several_columns_carry_length_and_end() {
        let composite = key(&[b"ab", b""]);
        assert_eq!(composite, [0, 2, b'a', b'b', 0, 0, 0, 0]);
        assert!(partition_key_components(&composite, 2).eq([b"ab".as_slice(), b""]));
        assert!(is_well_formed_partition_key(&composite, 2));
    }

    #[test]
    fn cut_or_longer_keys_are_refused() {
        let composite = key(&[b"ab", b"c"]);
        for length in 0..composite.len() {
            assert!(!is_well_formed_partition_key(&composite[..length], 2), "{length}");
        }
        assert!(!is_well_formed_partition_key(
            &[composite.as_slice(), &[0]].concat(),
            2
        ));
    }

    #[test]
    fn a_component_too_long_for_its_length_leaves_no_trace() {
        let long = vec![0; usize::from(u16::MAX) + 1];
        let mut out = vec![9];
        assert!(!write_partition_key(
            &mut out,
            [b"a".as_slice(), &long].into_iter()
        ));
        assert_eq!(out, [9]);
    }
}
