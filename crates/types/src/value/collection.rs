//! Lists, sets and maps: an i32 count, then each element (for maps: key, then value) as an i32 length and its bytes.
//! A negative length is null; Cassandra stores none inside collections, but lists of `IN` values may carry one.

/// The bytes of the element count, and of each element's length.
pub const SIZE_BYTES: usize = 4;

/// Iterates over the elements of a serialized list or set, or the alternating keys and values of a map.
///
/// Ends early if the bytes do: compare [`CollectionElements::is_complete`] after the last element where it matters.
#[derive(Clone, Debug)]
pub struct CollectionElements<'a> {
    rest: &'a [u8],
    remaining: usize,
}

impl<'a> CollectionElements<'a> {
    /// `values_per_entry` is 1 for lists and sets and 2 for maps. None if the count is cut short; a negative count is
    /// taken for 0, as Cassandra's loops take it.
    pub fn new(collection: &'a [u8], values_per_entry: usize) -> Option<CollectionElements<'a>> {
        let (count, rest) = collection.split_first_chunk::<SIZE_BYTES>()?;
        let count = usize::try_from(i32::from_be_bytes(*count)).unwrap_or(0);
        Some(CollectionElements {
            rest,
            remaining: count.saturating_mul(values_per_entry),
        })
    }

    /// How many elements are still announced. Not to be trusted for sizing memory; see [`Self::capacity_hint`].
    pub fn remaining(&self) -> usize {
        self.remaining
    }

    /// How many elements the bytes left could hold at most, given what is announced.
    pub fn capacity_hint(&self) -> usize {
        self.remaining.min(self.rest.len() / SIZE_BYTES)
    }

    /// Returns whether all announced elements were there and nothing follows them.
    pub fn is_complete(&self) -> bool {
        self.remaining == 0 && self.rest.is_empty()
    }

    /// The bytes not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for CollectionElements<'a> {
    /// None is a null element.
    type Item = Option<&'a [u8]>;

    #[inline]
    fn next(&mut self) -> Option<Option<&'a [u8]>> {
        if self.remaining == 0 {
            return None;
        }
        let element = read_value(&mut self.rest)?;
        self.remaining -= 1;
        Some(element)
    }
}

/// Iterates over the entries of a serialized map. A null key or value, which no stored map has, ends it early.
#[derive(Clone, Debug)]
pub struct MapEntries<'a>(CollectionElements<'a>);

impl<'a> MapEntries<'a> {
    pub fn new(map: &'a [u8]) -> Option<MapEntries<'a>> {
        CollectionElements::new(map, 2).map(MapEntries)
    }

    pub fn capacity_hint(&self) -> usize {
        self.0.capacity_hint() / 2
    }

    pub fn is_complete(&self) -> bool {
        self.0.is_complete()
    }
}

impl<'a> Iterator for MapEntries<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<(&'a [u8], &'a [u8])> {
        let key = self.0.next()??;
        let value = self.0.next()??;
        Some((key, value))
    }
}

/// Reads one length-prefixed value off the front of `input`: the outer None says that it is cut short, the inner one
/// that it is null.
#[inline]
pub(crate) fn read_value<'a>(input: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    let (length, rest) = input.split_first_chunk::<SIZE_BYTES>()?;
    let Ok(length) = usize::try_from(i32::from_be_bytes(*length)) else {
        *input = rest;
        return Some(None);
    };
    let (value, rest) = rest.split_at_checked(length)?;
    *input = rest;
    Some(Some(value))
}

/// How many elements (for maps: entries) a serialized collection announces.
pub fn collection_count(collection: &[u8]) -> Option<i32> {
    let (count, _) = collection.split_first_chunk::<SIZE_BYTES>()?;
    Some(i32::from_be_bytes(*count))
}

/// Appends a list or set made of `elements`, or a map made of alternating keys and values with
/// `values_per_entry` 2, to `out`.
pub fn write_collection<'a>(
    out: &mut Vec<u8>,
    values_per_entry: usize,
    elements: impl IntoIterator<Item = &'a [u8]>,
) {
    let start = out.len();
    out.extend_from_slice(&[0; SIZE_BYTES]);
    let mut count = 0_usize;
    for element in elements {
        write_value(out, Some(element));
        count += 1;
    }
    let count = size_prefix(count / values_per_entry.max(1));
    out[start..start + SIZE_BYTES].copy_from_slice(&count);
}

/// Appends one length-prefixed value, null as -1.
#[inline]
pub fn write_value(out: &mut Vec<u8>, value: Option<&[u8]>) {
    match value {
        None => out.extend_from_slice(&(-1_i32).to_be_bytes()),
        Some(value) => {
            out.extend_from_slice(&size_prefix(value.len()));
            out.extend_from_slice(value);
        }
    }
}

/// Values reach Helenus in frames of at most 256 MiB, so no part of one can be longer than an i32 says.
fn size_prefix(size: usize) -> [u8; SIZE_BYTES] {
    debug_assert!(
        i32::try_from(size).is_ok(),
        "a value of {size} bytes came from nowhere"
    );
    (size as i32).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(elements: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        write_collection(&mut out, 1, elements.iter().copied());
        out
    }

    #[test]
    fn elements_read_back() {
        let bytes = list(&[b"a", b"", b"ccc"]);
        let mut elements = CollectionElements::new(&bytes, 1).unwrap();
        assert!(
            elements
                .by_ref()
                .eq([Some(b"a".as_slice()), Some(b""), Some(b"ccc")])
        );
        assert!(elements.is_complete());
    }

    #[test]
    fn cut_bytes_end_the_iteration_incomplete() {
        let bytes = list(&[b"a", b"bb"]);
        for cut in 0..bytes.len() {
            let complete = CollectionElements::new(&bytes[..cut], 1).is_some_and(|mut elements| {
                elements.by_ref().for_each(drop);
                elements.is_complete()
            });
            assert!(!complete, "{cut}");
        }
    }

    #[test]
    fn a_huge_count_announces_no_more_than_the_bytes_can_hold() {
        let mut elements = CollectionElements::new(&[0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0], 2).unwrap();
        assert_eq!(elements.capacity_hint(), 1);
        assert_eq!(elements.by_ref().count(), 1);
        assert!(!elements.is_complete());
    }

    #[test]
    fn a_map_is_its_keys_and_values_in_turn() {
        let mut bytes = Vec::new();
        write_collection(&mut bytes, 2, [b"k".as_slice(), b"v", b"l", b"w"]);
        assert_eq!(collection_count(&bytes), Some(2));
        let mut entries = MapEntries::new(&bytes).unwrap();
        assert!(
            entries
                .by_ref()
                .eq([(b"k".as_slice(), b"v".as_slice()), (b"l", b"w")])
        );
        assert!(entries.is_complete());
    }

    #[test]
    fn null_elements_are_a_negative_length() {
        let bytes = [0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff];
        assert!(CollectionElements::new(&bytes, 1).unwrap().eq([None]));
    }
}
