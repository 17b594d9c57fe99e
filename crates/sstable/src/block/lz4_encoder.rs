//! LZ4 blocks of the chunks of Data.db: an encoder for inputs of one chunk, by the block format's description
//! (github.com/lz4/lz4, `doc/lz4_Block_format.md`).
//!
//! A chunk is encoded alone, so that every position fits 16 bits and the table of them fits a core's first cache. The
//! caller says how densely to look for repeats. Only the format's rules for the end and verified repeats decide what is
//! written: a table entry is a guess.

/// Inputs of at most so many bytes: positions are 16 bits.
pub(crate) const INPUT_BYTES_MAX: usize = 1 << 16;

/// Every n-th position is looked up, where nothing was found lately. The places between are entered all the same, so that
/// a repeat that is a little longer than the format's shortest is found wherever it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Density {
    Second,
    Third,
}

const TABLE_BITS: u32 = 12;
/// A repeat is worth naming from here on.
const MATCH_BYTES_MIN: usize = 4;
/// The format's: a block ends with so many literals,
const LAST_LITERALS: usize = 5;
/// and no match begins among its last bytes.
const MATCH_FREE_END: usize = 12;
/// After so many misses (a power of two) the stride grows by one.
const MISSES_PER_STRIDE_BITS: u32 = 6;
/// Lengths from here on go on in further bytes.
const TOKEN_LENGTH_MAX: usize = 15;
/// Literals are mostly few: copied in a piece of fixed size, what is too much is written over.
const SHORT_LITERALS: usize = 16;

/// The largest block that an input may become.
pub(crate) fn encoded_length_max(length: usize) -> usize {
    // A length byte for every 255 literals, a token, and room for the short copy of the last literals.
    length + length / 255 + 1 + SHORT_LITERALS
}

/// Encodes an input into `out`, which has [`encoded_length_max`] bytes; returns the block's length. `None` if the input
/// or `out` is of another size than said.
pub(crate) fn encode(input: &[u8], density: Density, out: &mut [u8]) -> Option<usize> {
    if input.len() > INPUT_BYTES_MAX || out.len() < encoded_length_max(input.len()) {
        return None;
    }
    let mut block = Block { out, length: 0 };
    let mut anchor = 0;
    if input.len() > MATCH_FREE_END {
        let last_start = input.len() - MATCH_FREE_END;
        let mut table = [0_u16; 1 << TABLE_BITS];
        let mut position = 1;
        while let Some((found, earlier)) = next_repeat(input, &mut table, position, last_start, density) {
            let (start, source) = extend_back(input, anchor, found, earlier);
            let length = MATCH_BYTES_MIN
                + repeat_length(
                    input,
                    found + MATCH_BYTES_MIN,
                    earlier + MATCH_BYTES_MIN,
                    input.len() - LAST_LITERALS,
                );
            let end = found + length;
            block.sequence(input, anchor..start, start - source, end - start);
            anchor = end;
            position = end;
            if let Some(word) = word_at(input, end - 2) {
                table[slot(word)] = (end - 2) as u16;
            }
        }
    }
    block.last_literals(&input[anchor..]);
    Some(block.length)
}

/// The next place, and an earlier one with the same four bytes.
#[inline(always)]
fn next_repeat(
    input: &[u8],
    table: &mut [u16; 1 << TABLE_BITS],
    mut position: usize,
    last_start: usize,
    density: Density,
) -> Option<(usize, usize)> {
    let mut misses = match density {
        Density::Second => 2,
        Density::Third => 3,
    } << MISSES_PER_STRIDE_BITS;
    while position <= last_start {
        let word = word_at(input, position)?;
        let entry = &mut table[slot(word)];
        let earlier = usize::from(*entry);
        *entry = position as u16;
        if earlier < position && word_at(input, earlier).is_some_and(|other| other as u32 == word as u32) {
            return Some((position, earlier));
        }
        table[slot(word >> 8)] = (position + 1) as u16;
        if density == Density::Third {
            table[slot(word >> 16)] = (position + 2) as u16;
        }
        position += misses >> MISSES_PER_STRIDE_BITS;
        misses += 1;
    }
    None
}

/// Both places, as far back as they are the same and nothing was written of the later one.
#[inline(always)]
fn extend_back(input: &[u8], anchor: usize, mut found: usize, mut earlier: usize) -> (usize, usize) {
    while found > anchor && earlier > 0 && input[found - 1] == input[earlier - 1] {
        found -= 1;
        earlier -= 1;
    }
    (found, earlier)
}

/// How many bytes are the same from two places on, up to where the later one must end.
#[inline(always)]
fn repeat_length(input: &[u8], start: usize, mut earlier: usize, end: usize) -> usize {
    let mut at = start;
    while at + 8 <= end {
        let (Some(left), Some(right)) = (word_at(input, at), word_at(input, earlier)) else {
            break;
        };
        let difference = left ^ right;
        if difference != 0 {
            return at - start + (difference.trailing_zeros() / 8) as usize;
        }
        at += 8;
        earlier += 8;
    }
    while at < end && input[at] == input[earlier] {
        at += 1;
        earlier += 1;
    }
    at - start
}

#[inline(always)]
fn word_at(input: &[u8], position: usize) -> Option<u64> {
    let bytes = input.get(position..position + 8)?;
    bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

/// Where a word's first five bytes are in the table (multiplicative hashing).
#[inline(always)]
fn slot(word: u64) -> usize {
    const PRIME: u64 = 889_523_592_379;
    ((word << 24).wrapping_mul(PRIME) >> (64 - TABLE_BITS)) as usize
}

struct Block<'a> {
    out: &'a mut [u8],
    length: usize,
}

impl Block<'_> {
    /// Literals, then a repeat of what was `distance` bytes before.
    #[inline(always)]
    fn sequence(
        &mut self,
        input: &[u8],
        literals: std::ops::Range<usize>,
        distance: usize,
        repeat_length: usize,
    ) {
        let literal_count = literals.end - literals.start;
        let rest = repeat_length - MATCH_BYTES_MIN;
        let token = (literal_count.min(TOKEN_LENGTH_MAX) << 4 | rest.min(TOKEN_LENGTH_MAX)) as u8;
        self.push(token);
        if literal_count >= TOKEN_LENGTH_MAX {
            self.push_length(literal_count - TOKEN_LENGTH_MAX);
        }
        let short = input
            .get(literals.start..)
            .and_then(|rest| rest.first_chunk::<SHORT_LITERALS>());
        match (short, self.out[self.length..].first_chunk_mut::<SHORT_LITERALS>()) {
            (Some(from), Some(to)) if literal_count <= SHORT_LITERALS => *to = *from,
            _ => self.out[self.length..self.length + literal_count].copy_from_slice(&input[literals]),
        }
        self.length += literal_count;
        self.out[self.length..self.length + 2].copy_from_slice(&(distance as u16).to_le_bytes());
        self.length += 2;
        if rest >= TOKEN_LENGTH_MAX {
            self.push_length(rest - TOKEN_LENGTH_MAX);
        }
    }

    fn last_literals(&mut self, literals: &[u8]) {
        self.push((literals.len().min(TOKEN_LENGTH_MAX) << 4) as u8);
        if literals.len() >= TOKEN_LENGTH_MAX {
            self.push_length(literals.len() - TOKEN_LENGTH_MAX);
        }
        self.out[self.length..self.length + literals.len()].copy_from_slice(literals);
        self.length += literals.len();
    }

    #[inline(always)]
    fn push(&mut self, byte: u8) {
        self.out[self.length] = byte;
        self.length += 1;
    }

    #[inline(always)]
    fn push_length(&mut self, mut length: usize) {
        while length >= 255 {
            self.push(255);
            length -= 255;
        }
        self.push(length as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// xorshift: the same inputs in every run.
    fn random(state: &mut u64) -> usize {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        (*state >> 16) as usize
    }

    /// Bytes of few values, with pieces of what came before.
    fn input(length: usize, values: usize, state: &mut u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(length);
        while bytes.len() < length {
            if !bytes.is_empty() && random(state).is_multiple_of(3) {
                let start = random(state) % bytes.len();
                let piece = 1 + random(state) % 300;
                // Reaches into what it appends: a repeat that overlaps itself.
                (0..piece).for_each(|at| bytes.push(bytes[start + at]));
            } else {
                bytes.extend(
                    (0..random(state) % 40)
                        .map(|_| (random(state) % values) as u8)
                        .collect::<Vec<_>>(),
                );
            }
        }
        bytes.truncate(length);
        bytes
    }

    #[test]
    fn an_independent_decoder_gives_every_input_back() {
        let mut state = 0x9e37_79b9_7f4a_7c15;
        let lengths = (0..80).chain([255, 271, 4096, 16_383, 16_384, 65_535, INPUT_BYTES_MAX]);
        for length in lengths {
            for values in [1, 3, 256] {
                for density in [Density::Second, Density::Third] {
                    let input = input(length, values, &mut state);
                    let mut out = vec![0xaa; encoded_length_max(length)];
                    let encoded = encode(&input, density, &mut out).unwrap();
                    let decoded = lz4_flex::block::decompress(&out[..encoded], length).unwrap();
                    assert_eq!(decoded, input, "{length} bytes of {values} values");
                }
            }
        }
    }

    #[test]
    fn noise_grows_by_no_more_than_said_and_repeats_shrink() {
        let mut state = 7;
        let noise: Vec<u8> = (0..INPUT_BYTES_MAX).map(|_| random(&mut state) as u8).collect();
        let mut out = vec![0; encoded_length_max(noise.len())];
        let encoded = encode(&noise, Density::Second, &mut out).unwrap();
        assert!(encoded <= noise.len() + noise.len() / 255 + 1, "{encoded}");
        let same = vec![7; INPUT_BYTES_MAX];
        assert!(encode(&same, Density::Third, &mut out).unwrap() < 300);
    }

    #[test]
    fn a_block_ends_as_the_format_says() {
        // The last five bytes are literals, though they repeat what came before.
        let mut out = vec![0; encoded_length_max(40)];
        let encoded = encode(&[9; 40], Density::Second, &mut out).unwrap();
        assert_eq!(out[..encoded], [0x1f, 9, 1, 0, 15, 0x50, 9, 9, 9, 9, 9]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert_eq!(encode(&[0; 20], Density::Second, &mut [0; 20]), None);
        let large = vec![0; INPUT_BYTES_MAX + 1];
        let mut out = vec![0; encoded_length_max(large.len())];
        assert_eq!(encode(&large, Density::Second, &mut out), None);
    }
}
