//! LZ4 blocks back to bytes, for chunks: into memory of the known length, all of it or nothing.
//!
//! A sequence is a token (lengths in four bits each), literals, and a match: so many bytes from so far back. Chunks of
//! rows are short sequences by the hundred, so what counts is how few steps one takes.

/// Pieces that literals and matches are copied in, where there is room for what is too much.
const PIECE_BYTES: usize = 16;
/// A sequence without lengths that go on: token, literals (and what a piece has beyond them), distance.
const SHORT_SEQUENCE_BYTES: usize = 1 + PIECE_BYTES + 2;
/// A length of so much in a token goes on in the bytes behind it.
const LENGTH_GOES_ON: usize = 15;
const MATCH_BYTES_MIN: usize = 4;

/// Decodes `block`; returns whether it is one of exactly the length of `out`, whose content otherwise is left open.
pub(crate) fn decode(block: &[u8], out: &mut [u8]) -> bool {
    decode_until_full::<true>(block, out).is_some()
}

/// Decodes the beginning of `block`; returns whether it fills `out`, whose content otherwise is left open. What follows is not looked at.
pub(crate) fn decode_beginning(block: &[u8], out: &mut [u8]) -> bool {
    decode_until_full::<false>(block, out).is_some()
}

/// `IS_WHOLE`: the block must end where `out` does.
fn decode_until_full<const IS_WHOLE: bool>(block: &[u8], out: &mut [u8]) -> Option<()> {
    let (mut rest, mut filled) = (block, 0);
    loop {
        (rest, filled) = decode_short(rest, out, filled);
        let (&token, behind) = rest.split_first()?;
        rest = behind;
        let mut length = usize::from(token >> 4);
        if length == LENGTH_GOES_ON {
            length += read_length(&mut rest)?;
        }
        if !IS_WHOLE && length >= out.len() - filled {
            let last = out.get_mut(filled..)?;
            last.copy_from_slice(rest.get(..last.len())?);
            return Some(());
        }
        let end = filled.checked_add(length)?;
        out.get_mut(filled..end)?.copy_from_slice(rest.get(..length)?);
        filled = end;
        rest = rest.get(length..)?;
        if rest.is_empty() {
            return (filled == out.len()).then_some(());
        }
        let (distance, behind) = rest.split_first_chunk::<2>()?;
        rest = behind;
        let distance = usize::from(u16::from_le_bytes(*distance));
        let mut length = usize::from(token & 15);
        if length == LENGTH_GOES_ON {
            length += read_length(&mut rest)?;
        }
        let (length, room) = (length + MATCH_BYTES_MIN, out.len() - filled);
        if !IS_WHOLE && length >= room {
            return copy_match(out, filled, distance, room).map(drop);
        }
        filled = copy_match(out, filled, distance, length)?;
    }
}

/// Sequences whose lengths are in their tokens, from where neither the block nor `out` ends soon; what is left of the
/// block and how much is filled at the first that is not so.
#[inline]
fn decode_short<'b>(mut rest: &'b [u8], out: &mut [u8], mut filled: usize) -> (&'b [u8], usize) {
    while let Some(sequence) = rest.first_chunk::<SHORT_SEQUENCE_BYTES>() {
        let token = sequence[0];
        let literals = usize::from(token >> 4);
        let length = usize::from(token & 15) + MATCH_BYTES_MIN;
        let distance = usize::from(u16::from_le_bytes([
            sequence[1 + literals],
            sequence[2 + literals],
        ]));
        let (at, end) = (filled + literals, filled + literals + length);
        let is_short = literals < LENGTH_GOES_ON && length < LENGTH_GOES_ON + MATCH_BYTES_MIN;
        if !is_short || distance < PIECE_BYTES || distance > at || end + PIECE_BYTES > out.len() {
            break;
        }
        let Some((_, pieces)) = sequence.split_first_chunk::<1>() else {
            break;
        };
        copy_piece(pieces, out, filled);
        let start = at - distance;
        repeat_piece(out, start, at);
        if length > PIECE_BYTES {
            repeat_piece(out, start + PIECE_BYTES, at + PIECE_BYTES);
        }
        filled = end;
        rest = rest.get(3 + literals..).unwrap_or_default();
    }
    (rest, filled)
}

#[inline]
fn copy_piece(from: &[u8], out: &mut [u8], at: usize) {
    let room = out.get_mut(at..).and_then(|room| room.first_chunk_mut());
    if let (Some(from), Some(room)) = (from.first_chunk::<PIECE_BYTES>(), room) {
        *room = *from;
    }
}

#[inline]
fn repeat_piece(out: &mut [u8], start: usize, at: usize) {
    let piece = out
        .get(start..)
        .and_then(|piece| piece.first_chunk::<PIECE_BYTES>())
        .copied();
    let room = out.get_mut(at..).and_then(|room| room.first_chunk_mut());
    if let (Some(piece), Some(room)) = (piece, room) {
        *room = piece;
    }
}

/// The rest of a length: bytes of 255, and a last one that is less.
fn read_length(rest: &mut &[u8]) -> Option<usize> {
    let mut length = 0_usize;
    loop {
        let (&byte, behind) = rest.split_first()?;
        *rest = behind;
        length = length.checked_add(usize::from(byte))?;
        if byte != u8::MAX {
            return Some(length);
        }
    }
}

/// Repeats `length` bytes from `distance` before what is filled; where that ends.
#[inline]
fn copy_match(out: &mut [u8], filled: usize, distance: usize, length: usize) -> Option<usize> {
    let start = filled.checked_sub(distance).filter(|_| distance > 0)?;
    let end = filled.checked_add(length).filter(|end| *end <= out.len())?;
    let (before, room) = out.split_at_mut_checked(filled)?;
    let from = before.get(start..)?;
    if let Some(from) = from.get(..length) {
        room.get_mut(..length)?.copy_from_slice(from);
    } else if let [byte] = from {
        room.get_mut(..length)?.fill(*byte);
    } else {
        repeat(out, start, filled, end);
    }
    Some(end)
}

/// A match that overlaps itself repeats what it has copied: twice as much each time.
fn repeat(out: &mut [u8], start: usize, filled: usize, end: usize) {
    let mut at = filled;
    while at < end {
        let count = (at - start).min(end - at);
        out.copy_within(start..start + count, at);
        at += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows, runs and noise, from a seed.
    fn chunk(seed: u32, length: usize) -> Vec<u8> {
        let mut state = seed;
        let mut next = move || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 16
        };
        let mut out = Vec::new();
        while out.len() < length {
            match next() % 4 {
                0 => out.extend((0..next() % 40).map(|_| next() as u8)),
                1 => out.extend(std::iter::repeat_n(next() as u8, next() as usize % 600)),
                _ => {
                    let start = next() as usize % (out.len() + 1);
                    let end = out.len().min(start + next() as usize % 90);
                    out.extend_from_within(start..end);
                }
            }
        }
        out.truncate(length);
        out
    }

    #[test]
    fn blocks_of_another_encoder_are_decoded() {
        for seed in 0..200 {
            let chunk = chunk(seed, seed as usize * 83);
            let block = lz4_flex::block::compress(&chunk);
            let mut out = vec![0xee; chunk.len()];
            assert!(decode(&block, &mut out) && out == chunk, "seed {seed}");
            assert!(!decode(&block, &mut vec![0; chunk.len() + 1]), "seed {seed}");
            if !chunk.is_empty() {
                assert!(!decode(&block, &mut vec![0; chunk.len() - 1]), "seed {seed}");
            }
        }
    }

    #[test]
    fn beginnings_are_those_of_the_whole() {
        for seed in 0..100 {
            let chunk = chunk(seed, 1 + seed as usize * 41);
            let block = lz4_flex::block::compress(&chunk);
            for length in (0..=chunk.len()).step_by(1 + seed as usize % 7) {
                let mut out = vec![0xee; length];
                assert!(decode_beginning(&block, &mut out), "seed {seed}, {length} bytes");
                assert!(out == chunk[..length], "seed {seed}, {length} bytes");
            }
            assert!(
                !decode_beginning(&block, &mut vec![0; chunk.len() + 1]),
                "seed {seed}"
            );
        }
    }

    #[test]
    fn damaged_blocks_are_refused_or_give_what_another_decoder_makes_of_them() {
        for seed in 0..200_u32 {
            let chunk = chunk(seed, 3_000);
            let block = lz4_flex::block::compress(&chunk);
            for damage in 0..40_u32 {
                let mut damaged = block.clone();
                let at = (seed * 7_919 + damage * 104_729) as usize % damaged.len();
                match damage % 3 {
                    0 => damaged[at] ^= 1 << (damage % 8),
                    1 => damaged.truncate(at),
                    _ => damaged[at] = 0xff,
                }
                let (mut ours, mut theirs) = (vec![0; chunk.len()], vec![0; chunk.len()]);
                let is_decoded = decode(&damaged, &mut ours);
                let wanted = lz4_flex::block::decompress_into(&damaged, &mut theirs);
                if is_decoded {
                    assert!(wanted.is_ok() && ours == theirs, "seed {seed}, damage {damage}");
                    let mut beginning = vec![0; at.min(chunk.len())];
                    assert!(decode_beginning(&damaged, &mut beginning));
                    assert!(
                        beginning == ours[..beginning.len()],
                        "seed {seed}, damage {damage}"
                    );
                }
                decode_beginning(&damaged, &mut vec![0; at]);
            }
        }
    }
}
