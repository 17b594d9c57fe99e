//! Variable-length integers: the number of leading one bits of the first byte is the number of bytes that follow it,
//! the remaining bits are the value, big-endian. Signed ones are zigzag-encoded first. SSTables, commit logs,
//! durations and vectors use them.

/// The longest encoding in bytes: eight one bits and a full 64-bit value.
pub(crate) const VINT_BYTES_MAX: usize = 9;

/// Reads an unsigned vint off the front of `input`; None, with `input` as it was, if it is cut short.
#[inline]
pub fn read_unsigned_vint(input: &mut &[u8]) -> Option<u64> {
    let (&first, rest) = input.split_first()?;
    if first < 0x80 {
        *input = rest;
        return Some(u64::from(first));
    }
    let extra = first.leading_ones() as usize;
    let (body, rest) = rest.split_at_checked(extra)?;
    let mut word = [0; 8];
    // extra is at most 8, so the slice is within the word.
    word[8 - extra..].copy_from_slice(body);
    let high = u64::from(first) & (0xff >> extra);
    *input = rest;
    // With eight bytes following, the first byte holds no bits of the value.
    Some(u64::from_be_bytes(word) | high.checked_shl(8 * extra as u32).unwrap_or(0))
}

#[inline]
pub fn read_vint(input: &mut &[u8]) -> Option<i64> {
    read_unsigned_vint(input).map(zigzag_decode)
}

/// Reads an unsigned vint that must fit an i32, as Cassandra's 32-bit ones must; None if it is cut short or greater.
#[inline]
pub(crate) fn read_unsigned_vint_32(input: &mut &[u8]) -> Option<u32> {
    let mut rest = *input;
    let value = i32::try_from(read_unsigned_vint(&mut rest)?).ok()?;
    *input = rest;
    Some(value.cast_unsigned())
}

#[inline]
pub fn write_unsigned_vint(out: &mut Vec<u8>, value: u64) {
    if value < 0x80 {
        out.push(value as u8);
        return;
    }
    let (bytes, length) = encode_unsigned_vint(value);
    out.extend_from_slice(&bytes[..length]);
}

#[inline]
pub fn write_vint(out: &mut Vec<u8>, value: i64) {
    write_unsigned_vint(out, zigzag_encode(value));
}

/// The encoding and its length, for those who write to something else than a `Vec`.
pub(crate) fn encode_unsigned_vint(value: u64) -> ([u8; VINT_BYTES_MAX], usize) {
    let length = unsigned_vint_length(value);
    let mut bytes = [0; VINT_BYTES_MAX];
    if length == VINT_BYTES_MAX {
        bytes[0] = 0xff;
        bytes[1..].copy_from_slice(&value.to_be_bytes());
    } else {
        bytes[..length].copy_from_slice(&value.to_be_bytes()[8 - length..]);
        bytes[0] |= !(0xff_u8 >> (length - 1));
    }
    (bytes, length)
}

/// How many bytes the encoding takes: seven bits of value per byte up to eight bytes, then nine.
#[inline]
pub fn unsigned_vint_length(value: u64) -> usize {
    let bits = 64 - (value | 1).leading_zeros() as usize;
    bits.div_ceil(7).min(VINT_BYTES_MAX)
}

#[inline]
pub fn vint_length(value: i64) -> usize {
    unsigned_vint_length(zigzag_encode(value))
}

#[inline]
pub(crate) fn zigzag_encode(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

#[inline]
pub(crate) fn zigzag_decode(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_change_where_seven_more_bits_are_full() {
        for length in 1..=8 {
            let last = (1_u64 << (7 * length)) - 1;
            assert_eq!(unsigned_vint_length(last), length);
            assert_eq!(unsigned_vint_length(last + 1), length + 1);
        }
        assert_eq!(unsigned_vint_length(0), 1);
        assert_eq!(unsigned_vint_length(u64::MAX), VINT_BYTES_MAX);
    }

    #[test]
    fn every_length_reads_back_and_no_cut_does() {
        for shift in 0..64 {
            for value in [1_u64 << shift, (1 << shift) - 1, u64::MAX >> shift] {
                let mut bytes = Vec::new();
                write_unsigned_vint(&mut bytes, value);
                assert_eq!(bytes.len(), unsigned_vint_length(value));
                let mut input = bytes.as_slice();
                assert_eq!(read_unsigned_vint(&mut input), Some(value));
                assert!(input.is_empty());
                for cut in 0..bytes.len() {
                    assert_eq!(read_unsigned_vint(&mut &bytes[..cut]), None);
                }
                let signed = value.cast_signed();
                assert_eq!(zigzag_decode(zigzag_encode(signed)), signed);
            }
        }
    }

    #[test]
    fn known_encodings() {
        for (value, bytes) in [
            (0_u64, &[0][..]),
            (127, &[0x7f]),
            (128, &[0x80, 0x80]),
            (16383, &[0xbf, 0xff]),
            (16384, &[0xc0, 0x40, 0x00]),
            (u64::MAX, &[0xff; 9]),
        ] {
            let mut out = Vec::new();
            write_unsigned_vint(&mut out, value);
            assert_eq!(out, bytes, "{value}");
        }
        assert_eq!([0, -1, 1, -2].map(zigzag_encode), [0, 1, 2, 3]);
    }

    #[test]
    fn values_above_an_i32_are_no_32_bit_vints() {
        let mut out = Vec::new();
        write_unsigned_vint(&mut out, i32::MAX as u64 + 1);
        assert_eq!(read_unsigned_vint_32(&mut out.as_slice()), None);
    }
}
