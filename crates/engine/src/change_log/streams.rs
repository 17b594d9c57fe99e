//! Streams: the partitions of all logs.
//!
//! The ring is cut into equal ranges, and the changes of the partitions of one range go to one stream, whose own token lies in that range:
//! so a write and what is logged of it are nearly always one shard's. They are the same on every node and for ever.

use std::sync::LazyLock;

use helenus_types::{Token, token_of};

/// Streams of a node: as ScyllaDB has for each of its shards. A day of one is one partition, and who follows a log asks for each
/// of them.
const STREAM_COUNT: usize = 256;

/// The key of a stream's partition: the first token of its range, then a number under which its own token lies there, then the version of
/// this form, as ScyllaDB's begin and end.
pub type StreamId = [u8; 16];

/// The low four bits of a stream's id.
const VERSION: u64 = 1;

/// All streams, in the order of their ranges.
#[derive(Debug)]
pub struct Streams(Vec<StreamId>);

static STREAMS: LazyLock<Streams> =
    LazyLock::new(|| Streams((0..STREAM_COUNT).map(stream_of_range).collect()));

impl Streams {
    pub fn get() -> &'static Streams {
        &STREAMS
    }

    /// The stream that changes of a partition go to.
    pub fn of(&self, partition: Token) -> StreamId {
        self.0.get(range_of(partition)).copied().unwrap_or_default()
    }

    /// With the last token of the range of each.
    pub fn iter(&self) -> impl Iterator<Item = (Token, StreamId)> {
        let last = |range: usize| {
            Token(
                first_token(range)
                    .0
                    .wrapping_add((RANGE_LENGTH - 1).cast_signed()),
            )
        };
        (0..).map(last).zip(self.0.iter().copied())
    }
}

const RANGE_BITS: u32 = STREAM_COUNT.trailing_zeros();
const RANGE_LENGTH: u64 = 1 << (u64::BITS - RANGE_BITS);

fn range_of(token: Token) -> usize {
    let position = token.0.cast_unsigned() ^ (1 << 63);
    (position >> (u64::BITS - RANGE_BITS)) as usize
}

fn first_token(range: usize) -> Token {
    let position = (range as u64) << (u64::BITS - RANGE_BITS);
    Token((position ^ (1 << 63)).cast_signed())
}

/// It takes as many tries as there are ranges, on average.
fn stream_of_range(range: usize) -> StreamId {
    let mut id = StreamId::default();
    let (first, number) = id.split_at_mut(8);
    first.copy_from_slice(&first_token(range).0.to_be_bytes());
    let mut tried: u64 = 0;
    number.copy_from_slice(&VERSION.to_be_bytes());
    while range_of(token_of(&id)) != range {
        tried += 1;
        id[8..].copy_from_slice(&(tried << 4 | VERSION).to_be_bytes());
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_lies_in_the_range_whose_changes_it_has() {
        let streams = Streams::get();
        assert_eq!(streams.iter().count(), STREAM_COUNT);
        let mut first = i64::MIN;
        for (Token(last), id) in streams.iter() {
            assert!(first <= last);
            let own = token_of(&id).0;
            assert!((first..=last).contains(&own), "{own} is not in {first}..={last}");
            for token in [first, last, own] {
                assert_eq!(streams.of(Token(token)), id);
            }
            first = last.wrapping_add(1);
        }
        assert_eq!(first, i64::MIN);
    }
}
