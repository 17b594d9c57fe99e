//! Heads of a memtable's entries, as keys of an ordered map.

use std::cmp::Ordering;

use helenus_sstable::terms::TermPlace;
use helenus_types::Token;

/// Bytes that lie in the map's nodes: a term of a number, a token and a partition key of eight bytes have room.
const START_BYTES: usize = 31;

/// Bytes in their order. Most comparisons look at whole words in the nodes of the map, where no pointer is followed; short ones need no memory of
/// their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EntryHead {
    /// The first bytes, zeros, and how many those are; one more than there is room for if that is not all.
    start: [u8; START_BYTES + 1],
    /// All bytes, where there are more.
    whole: Box<[u8]>,
}

impl EntryHead {
    pub fn new(bytes: &[u8]) -> Self {
        let mut start = [0; START_BYTES + 1];
        let length = bytes.len().min(START_BYTES);
        start[..length].copy_from_slice(&bytes[..length]);
        start[START_BYTES] = bytes.len().min(START_BYTES + 1) as u8;
        let whole = match bytes.len() > START_BYTES {
            true => bytes.into(),
            false => Box::default(),
        };
        EntryHead { start, whole }
    }

    #[inline]
    pub fn bytes(&self) -> &[u8] {
        match usize::from(self.start[START_BYTES]) {
            length @ ..=START_BYTES => &self.start[..length],
            _ => &self.whole,
        }
    }

    /// Bytes that it has beside the map.
    pub fn heap_bytes(&self) -> usize {
        self.whole.len()
    }
}

impl Ord for EntryHead {
    /// Where zeros are all that one has more, the number of bytes, which comes last, tells.
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        let (words, other_words) = (self.start.as_chunks::<8>().0, other.start.as_chunks::<8>().0);
        for (word, other_word) in words.iter().zip(other_words) {
            if word != other_word {
                return u64::from_be_bytes(*word).cmp(&u64::from_be_bytes(*other_word));
            }
        }
        self.whole.cmp(&other.whole)
    }
}

impl PartialOrd for EntryHead {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The token of a head whose term is known.
#[inline]
pub(super) fn token_in(head: &[u8], prefix: &[u8]) -> Option<Token> {
    let token = head.strip_prefix(prefix)?.first_chunk::<8>()?;
    Some(Token((u64::from_be_bytes(*token) ^ 1 << 63).cast_signed()))
}

/// Takes a head apart whose term is known.
pub(super) fn place_of<'h>(
    head: &'h [u8],
    prefix: &[u8],
    clustering: Option<&'h [u8]>,
) -> Option<TermPlace<'h>> {
    Some(TermPlace {
        token: token_in(head, prefix)?,
        key: head.get(prefix.len() + 8..)?,
        clustering,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_have_the_order_of_their_bytes() {
        let mut all: Vec<Vec<u8>> = vec![vec![]];
        for length in [1, 2, 7, 8, 9, 30, 31, 32, 33, 40] {
            for byte in [0, 1, 255] {
                for last in [0, 1, 255] {
                    let mut bytes = vec![byte; length];
                    bytes[length - 1] = last;
                    all.push(bytes);
                }
            }
        }
        for left in &all {
            let head = EntryHead::new(left);
            assert_eq!(head.bytes(), left);
            assert_eq!(head.heap_bytes() > 0, left.len() > START_BYTES);
            for right in &all {
                assert_eq!(
                    head.cmp(&EntryHead::new(right)),
                    left.cmp(right),
                    "{left:?} {right:?}"
                );
            }
        }
    }
}
