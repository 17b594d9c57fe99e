//! Fences.db: fence pointers of Data.db, by which a small partition is found without the format's index. Ours, ignored by
//! Cassandra, beside whatever index the format has.
//!
//! A fence names a partition, and what lies from there up to the next fence is its stretch: one page of Data.db and what of its
//! last partition does not fit there. All fences are in memory, so that a lookup reads nothing but the page that the partition
//! begins in, and goes from partition to partition in it.
//!
//! | field | bytes |
//! |---|---|
//! | version | 4: 1 |
//! | data | 8: length of Data.db, uncompressed |
//! | fences | 4: their number |
//! | fence: token | 4: upper half of the token of its first partition, its first bit flipped, so that it orders as tokens do |
//! | fence: place | 5: flags, and 38 bits: where that partition begins in Data.db |
//! | checksum | 4: CRC32 of all before |
//!
//! Flags of a place: bit 39, the stretch is longer than what the format's index describes in one piece, and only that index tells
//! what is in it; bit 38, it is one partition. Tokens and places ascend. Partitions whose tokens begin alike are not divided by
//! a fence, so the stretch of a token is that of the last fence that is not behind it.

use helenus_types::Token;

use crate::decode::{ByteReader, DecodeError, without_checksum};

const VERSION: u32 = 1;
const FENCE_BYTES: usize = 9;

const FLAG_INDEXED: u64 = 1 << 39;
const FLAG_SINGLE: u64 = 1 << 38;
/// Places are below this: what lies behind it belongs to a stretch that the format's index is asked about.
const POSITION_END: u64 = 1 << 38;

/// A lookup passes half as many on average, but for partitions whose tokens begin alike.
const STRETCH_PARTITIONS_MAX: u32 = 32;
/// Largest page that partitions have a fence for, in bytes.
const PAGE_BYTES_MAX: u64 = 4096;
/// One stretch says nothing that the index's only page does not say.
const FENCES_MIN: usize = 2;
/// Tokens are spread evenly, so that so many fences of a bucket are nearly always found there: 72 bytes of memory are looked at.
const BUCKET_FENCES: usize = 8;

/// Fences of an open SSTable. A lookup goes to the bucket of a token and searches its fences: two places in memory, where a search
/// by halves takes as many as the number of fences has bits.
#[derive(Debug)]
pub(crate) struct Fences {
    /// As they are in the file.
    fences: Vec<Fence>,
    /// Index of each bucket's first fence, and the number of fences behind the last one.
    buckets: Vec<u32>,
    /// A bucket holds the tokens that differ from the first fence's by the same number, shifted by so many bits.
    bucket_bits: u32,
    data_length: u64,
}

/// A token, and a place behind it.
type Fence = [u8; FENCE_BYTES];

/// A part of Data.db that partitions lie in one behind the other, all of them small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub start: u64,
    /// The next partition begins there, or the file ends.
    pub end: u64,
    /// One partition is all of it.
    pub is_single: bool,
}

/// Orders as tokens do.
fn upper_half(token: Token) -> u32 {
    ((token.0.cast_unsigned() ^ 1 << 63) >> 32) as u32
}

fn fence(token: u32, place: u64) -> Fence {
    let [a, b, c, d] = token.to_be_bytes();
    let [_, _, _, e, f, g, h, i] = place.to_be_bytes();
    [a, b, c, d, e, f, g, h, i]
}

fn token_of(fence: &Fence) -> u32 {
    let [a, b, c, d, ..] = *fence;
    u32::from_be_bytes([a, b, c, d])
}

/// Flags and position.
fn place_of(fence: &Fence) -> u64 {
    let [_, _, _, _, e, f, g, h, i] = *fence;
    u64::from_be_bytes([0, 0, 0, e, f, g, h, i])
}

fn position_of(fence: &Fence) -> u64 {
    place_of(fence) & (POSITION_END - 1)
}

impl Fences {
    pub fn memory_bytes(&self) -> usize {
        size_of_val(self.fences.as_slice()) + size_of_val(self.buckets.as_slice())
    }

    /// `data_length` is that of the Data.db beside it.
    pub fn decode(bytes: &[u8], data_length: u64) -> Result<Self, DecodeError> {
        let checked = without_checksum(bytes, "fences that match their checksum")?;
        let mut reader = ByteReader::new(checked);
        let version = reader.u32()?;
        if version != VERSION {
            return Err(DecodeError::malformed(0, "version 1", version));
        }
        let length_at = reader.position();
        let length = reader.u64()?;
        if length != data_length {
            let found = format!("that of {length} bytes instead of {data_length}");
            return Err(DecodeError::malformed(
                length_at,
                "fences of the Data.db beside them",
                found,
            ));
        }
        let count = reader.count_u32(FENCE_BYTES)?;
        let mut fences: Vec<Fence> = Vec::with_capacity(count);
        for _ in 0..count {
            let at = reader.position();
            let Some(fence) = reader.bytes(FENCE_BYTES)?.first_chunk::<FENCE_BYTES>() else {
                unreachable!("as many bytes as asked for")
            };
            let follows = fences.last().is_none_or(|last| {
                token_of(last) < token_of(fence) && position_of(last) < position_of(fence)
            });
            if !follows || position_of(fence) >= data_length {
                return Err(DecodeError::malformed(at, "fences in order", "one out of order"));
            }
            fences.push(*fence);
        }
        reader.finish()?;
        Ok(Self::of(fences, data_length))
    }

    fn of(fences: Vec<Fence>, data_length: u64) -> Self {
        let token = |fence: Option<&Fence>| u64::from(fence.map_or(0, token_of));
        let first = token(fences.first());
        let span = token(fences.last()) - first;
        let bucket_max = (fences.len() / BUCKET_FENCES) as u64;
        // So many bits leave nothing of it.
        let bucket_bits = (0..u32::BITS)
            .find(|bits| span >> bits <= bucket_max)
            .unwrap_or(u32::BITS);
        let mut buckets = Vec::with_capacity((span >> bucket_bits) as usize + 2);
        for (index, fence) in fences.iter().enumerate() {
            let bucket = ((token(Some(fence)) - first) >> bucket_bits) as usize;
            // Empty ones before it begin, and end, where it does.
            while buckets.len() <= bucket {
                buckets.push(index as u32);
            }
        }
        buckets.push(fences.len() as u32);
        Fences {
            fences,
            buckets,
            bucket_bits,
            data_length,
        }
    }

    /// The stretch that a token's partitions are in, if they are anywhere; `None` where the format's index has to be asked.
    pub fn find(&self, token: Token) -> Option<Stretch> {
        let wanted = upper_half(token);
        let offset = wanted.checked_sub(self.fences.first().map(token_of)?)?;
        let last_bucket = self.buckets.len().saturating_sub(2);
        let bucket = ((u64::from(offset) >> self.bucket_bits) as usize).min(last_bucket);
        let start = *self.buckets.get(bucket)? as usize;
        let end = *self.buckets.get(bucket + 1)? as usize;
        let not_behind = self
            .fences
            .get(start..end)?
            .partition_point(|fence| token_of(fence) <= wanted);
        let after = start + not_behind;
        let fence = self.fences.get(after.checked_sub(1)?)?;
        if place_of(fence) & FLAG_INDEXED != 0 {
            return None;
        }
        Some(Stretch {
            start: position_of(fence),
            end: self.fences.get(after).map_or(self.data_length, position_of),
            is_single: place_of(fence) & FLAG_SINGLE != 0,
        })
    }
}

/// Puts up the fences of an SSTable that is being written.
#[derive(Debug)]
pub(crate) struct FenceWriter {
    fences: Vec<Fence>,
    page_bytes: u64,
    /// The format's index describes a longer partition in pieces.
    stretch_bytes_max: u64,
    /// The upper half of the token of the partition before.
    last: u32,
    start: u64,
    /// Partitions behind the last fence.
    partitions: u32,
    /// The index has blocks of one of them.
    has_blocks: bool,
}

impl FenceWriter {
    /// `page_bytes` are read of Data.db at least.
    pub fn new(page_bytes: u32, column_index_bytes: u32) -> Self {
        let page_bytes = u64::from(page_bytes)
            .min(PAGE_BYTES_MAX)
            .min(u64::from(column_index_bytes) / 2);
        FenceWriter {
            fences: Vec::new(),
            page_bytes: page_bytes.max(1),
            stretch_bytes_max: u64::from(column_index_bytes),
            last: 0,
            start: 0,
            partitions: 0,
            has_blocks: false,
        }
    }

    /// The next partition of the file begins at a position in Data.db, and the index has blocks of it, however long it is.
    pub fn push_with_blocks(&mut self, token: Token, position: u64) {
        self.push(token, position);
        self.has_blocks = true;
    }

    /// The next partition of the file begins at a position in Data.db.
    pub fn push(&mut self, token: Token, position: u64) {
        let token = upper_half(token);
        let is_first = self.fences.is_empty();
        let is_due = position / self.page_bytes != self.start / self.page_bytes
            || self.partitions >= STRETCH_PARTITIONS_MAX;
        if is_first || is_due && token != self.last && position < POSITION_END {
            self.end_stretch(position);
            self.fences.push(fence(token, position));
            self.start = position;
            self.partitions = 0;
            self.has_blocks = false;
        }
        self.last = token;
        self.partitions = self.partitions.saturating_add(1);
    }

    fn end_stretch(&mut self, end: u64) {
        let flags = if self.has_blocks || end - self.start > self.stretch_bytes_max {
            FLAG_INDEXED
        } else if self.partitions == 1 {
            FLAG_SINGLE
        } else {
            0
        };
        if let Some(last) = self.fences.last_mut() {
            *last = fence(token_of(last), place_of(last) | flags);
        }
    }

    /// The bytes of Fences.db, if it is of any use.
    pub fn finish(mut self, data_length: u64) -> Option<Vec<u8>> {
        if self.fences.len() < FENCES_MIN {
            return None;
        }
        self.end_stretch(data_length);
        let mut out = Vec::with_capacity(20 + FENCE_BYTES * self.fences.len());
        out.extend_from_slice(&VERSION.to_be_bytes());
        out.extend_from_slice(&data_length.to_be_bytes());
        out.extend_from_slice(&(self.fences.len() as u32).to_be_bytes());
        out.extend_from_slice(self.fences.as_flattened());
        let checksum = crc32fast::hash(&out);
        out.extend_from_slice(&checksum.to_be_bytes());
        Some(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE_BYTES: u32 = 4096;
    const COLUMN_INDEX_BYTES: u32 = 64 << 10;

    fn token(upper: u32, lower: u32) -> Token {
        Token(((u64::from(upper) << 32 | u64::from(lower)) ^ 1 << 63).cast_signed())
    }

    /// Partitions of tokens and lengths, one behind the other: their positions, the end, and the fences.
    fn written(partitions: &[(Token, u64)]) -> (Vec<u64>, Option<Vec<u8>>) {
        let mut writer = FenceWriter::new(PAGE_BYTES, COLUMN_INDEX_BYTES);
        let mut positions = vec![0];
        for (token, length) in partitions {
            let position = positions.last().copied().unwrap_or(0);
            writer.push(*token, position);
            positions.push(position + length);
        }
        let bytes = writer.finish(positions.last().copied().unwrap_or(0));
        (positions, bytes)
    }

    fn fences(partitions: &[(Token, u64)]) -> (Vec<u64>, Fences) {
        let (positions, bytes) = written(partitions);
        let length = positions.last().copied().unwrap_or(0);
        let fences = Fences::decode(&bytes.expect("there are several pages"), length).expect("fences");
        (positions, fences)
    }

    #[test]
    fn a_partition_lies_in_the_stretch_of_its_token_and_small_ones_in_one_of_little_more_than_a_page() {
        let mut random = 7_u64;
        let mut upper = 0_u32;
        let partitions: Vec<_> = (0..20_000)
            .map(|_| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                upper += 1 + (random >> 44) as u32 % 5_000;
                (token(upper, random as u32), 30 + (random >> 33) % 500)
            })
            .collect();
        let (positions, fences) = fences(&partitions);
        for ((token, length), position) in partitions.iter().zip(positions) {
            let stretch = fences.find(*token).expect("all are small");
            assert!(stretch.start <= position && position + length <= stretch.end);
            assert!(stretch.end - stretch.start < 4096 + 530, "{stretch:?}");
            assert_eq!(stretch.is_single, stretch.end - stretch.start == *length);
        }
        assert_eq!(fences.find(token(0, 0)), None, "before the first partition");
        assert!(fences.fences.len() < 1_500, "{} fences", fences.fences.len());
    }

    /// Somebody may choose keys, and a range of tokens may be all that a file has.
    #[test]
    fn tokens_that_are_not_spread_evenly_are_found_too() {
        let near = (0..3_000).map(|upper| (token(u32::MAX / 2 + upper, 0), 5_000));
        let crowded = (0..3_000_u32).map(|upper| {
            let upper = if upper < 2_900 { upper } else { upper << 20 };
            (token(upper, 0), 5_000)
        });
        for partitions in [near.collect::<Vec<_>>(), crowded.collect()] {
            let (positions, fences) = fences(&partitions);
            for ((token, length), position) in partitions.iter().zip(positions) {
                let stretch = fences.find(*token).expect("all are small");
                assert_eq!((stretch.start, stretch.end), (position, position + length));
            }
            assert!(fences.buckets.len() <= partitions.len() / BUCKET_FENCES + 2);
            assert!(
                fences.find(token(u32::MAX, u32::MAX)).is_some(),
                "behind the last one"
            );
        }
    }

    /// Symptom: an SSTable of two pages took 16 GiB of memory when it was opened.
    #[test]
    fn few_fences_take_little_memory_however_far_apart_their_tokens_are() {
        for count in 2..40 {
            for last in [u32::MAX, 1 << 31, (1 << 31) - 1, 1 << 30] {
                let upper = |index: u32| (u64::from(last) * u64::from(index) / u64::from(count - 1)) as u32;
                let partitions: Vec<_> = (0..count).map(|index| (token(upper(index), 0), 5_000)).collect();
                let (positions, fences) = fences(&partitions);
                assert!(fences.memory_bytes() <= 10 * count as usize + 8);
                for ((token, length), position) in partitions.iter().zip(positions) {
                    let stretch = fences.find(*token).expect("all are small");
                    assert_eq!((stretch.start, stretch.end), (position, position + length));
                }
            }
        }
    }

    #[test]
    fn tiny_partitions_have_more_fences_than_pages() {
        let partitions: Vec<_> = (0..1_000).map(|upper| (token(upper, 0), 20)).collect();
        let (positions, fences) = fences(&partitions);
        for ((token, _), position) in partitions.iter().zip(positions) {
            let stretch = fences.find(*token).expect("all are small");
            assert!((stretch.start..stretch.end).contains(&position));
            assert!(stretch.end - stretch.start <= 32 * 20);
        }
    }

    /// The next fence came with the next page.
    #[test]
    fn a_tiny_partition_whose_token_begins_like_the_one_before_puts_off_the_fence_by_one() {
        let mut tokens: Vec<_> = (0..32).map(|upper| token(upper, 0)).collect();
        tokens.push(token(31, 1));
        tokens.extend((32..1_000).map(|upper| token(upper, 0)));
        let partitions: Vec<_> = tokens.into_iter().map(|token| (token, 20)).collect();
        let (positions, fences) = fences(&partitions);
        let stretch = fences.find(token(32, 0)).expect("all are small");
        assert_eq!(stretch.start, positions[33]);
    }

    /// Otherwise a lookup of the second half would begin behind the first.
    #[test]
    fn tokens_that_begin_alike_are_not_divided() {
        let alike = |lower| (token(5, lower), 5_000);
        let partitions = [
            (token(4, 0), 5_000),
            alike(1),
            alike(2),
            alike(3),
            (token(6, 0), 5_000),
        ];
        let (positions, fences) = fences(&partitions);
        for lower in 0..5 {
            let stretch = fences.find(token(5, lower)).expect("all are small");
            assert_eq!((stretch.start, stretch.end), (positions[1], positions[4]));
            assert!(!stretch.is_single);
        }
    }

    /// A lookup would go through all of them; of a large partition, the format's index knows more.
    #[test]
    fn the_index_is_asked_where_a_stretch_is_long() {
        let mut partitions: Vec<_> = (0..100).map(|lower| (token(5, lower), 1_000)).collect();
        partitions.push((token(6, 0), 70_000));
        partitions.push((token(7, 0), 60_000));
        partitions.push((token(8, 0), 10));
        let (positions, fences) = fences(&partitions);
        assert_eq!(fences.find(token(5, 1)), None);
        assert_eq!(fences.find(token(6, 0)), None);
        let single = Stretch {
            start: positions[101],
            end: positions[102],
            is_single: true,
        };
        assert_eq!(fences.find(token(7, 3)), Some(single));
        let last = fences.find(token(u32::MAX, 0)).expect("a short one");
        assert_eq!((last.start, last.end), (positions[102], positions[103]));
    }

    #[test]
    fn places_beyond_38_bits_are_left_to_the_index() {
        let mut writer = FenceWriter::new(PAGE_BYTES, COLUMN_INDEX_BYTES);
        for (upper, position) in [
            (1, 0),
            (2, POSITION_END - 10),
            (3, POSITION_END),
            (4, POSITION_END + 90_000),
        ] {
            writer.push(token(upper, 0), position);
        }
        let length = POSITION_END + 90_010;
        let fences = Fences::decode(&writer.finish(length).expect("fences"), length).expect("fences");
        assert!((1..=4).all(|upper| fences.find(token(upper, 0)).is_none()));
    }

    #[test]
    fn one_stretch_has_no_file() {
        assert_eq!(written(&[(token(1, 0), 100), (token(2, 0), 100)]).1, None);
    }

    #[test]
    fn damage_and_fences_of_other_data_are_refused() {
        let partitions: Vec<_> = (0..100).map(|upper| (token(upper, 0), 1_000)).collect();
        let (_, bytes) = written(&partitions);
        let bytes = bytes.expect("several pages");
        assert!(Fences::decode(&bytes, 100_000).is_ok());
        assert!(Fences::decode(&bytes, 100_001).is_err());
        for length in 0..bytes.len() {
            assert!(Fences::decode(&bytes[..length], 100_000).is_err());
        }
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 4;
            assert!(Fences::decode(&damaged, 100_000).is_err(), "byte {at}");
        }
        let sealed_with = |token: u32, place: u64| {
            let mut bytes = bytes[..bytes.len() - 4].to_vec();
            let at = bytes.len() - FENCE_BYTES;
            bytes[at..].copy_from_slice(&fence(token, place));
            let checksum = crc32fast::hash(&bytes);
            bytes.extend_from_slice(&checksum.to_be_bytes());
            Fences::decode(&bytes, 100_000)
        };
        assert!(sealed_with(99, 99_000).is_ok());
        for (token, place) in [(0, 99_000), (99, 100_000), (99, 0)] {
            assert!(sealed_with(token, place).is_err(), "{token} at {place}");
        }
    }
}
