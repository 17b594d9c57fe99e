//! Reading bounded bytes: big-endian numbers, variable-length integers and length-prefixed strings.

/// A cursor over bytes that may lie. Nothing it returns was allocated; every length is checked against what is left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByteReader<'a> {
    bytes: &'a [u8],
    position: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DecodeError {
    /// The bytes end before the item does; at least `needed` bytes from their start would be there.
    Truncated { needed: usize },
    Malformed {
        offset: usize,
        wanted: &'static str,
        found: String,
    },
}

impl DecodeError {
    pub fn malformed(offset: usize, wanted: &'static str, found: impl ToString) -> Self {
        DecodeError::Malformed {
            offset,
            wanted,
            found: found.to_string(),
        }
    }

    /// A part's bounds are known from a length before it, so that its early end is damage and not a short window.
    pub fn within_part(self, part_offset: usize) -> Self {
        match self {
            DecodeError::Truncated { needed } => DecodeError::malformed(
                part_offset.saturating_add(needed),
                "an item that fits its length",
                "one that does not",
            ),
            DecodeError::Malformed {
                offset,
                wanted,
                found,
            } => DecodeError::Malformed {
                offset: part_offset.saturating_add(offset),
                wanted,
                found,
            },
        }
    }
}

impl<'a> ByteReader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        ByteReader { bytes, position: 0 }
    }

    pub fn position(&self) -> usize {
        self.position
    }

    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.position
    }

    #[inline]
    pub fn bytes(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        let end = self.position.saturating_add(length);
        let bytes = self
            .bytes
            .get(self.position..end)
            .ok_or(DecodeError::Truncated { needed: end })?;
        self.position = end;
        Ok(bytes)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let rest = self.bytes.get(self.position..).unwrap_or_default();
        let array = rest.first_chunk::<N>().ok_or(DecodeError::Truncated {
            needed: self.position + N,
        })?;
        self.position += N;
        Ok(*array)
    }

    #[inline]
    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub fn u16(&mut self) -> Result<u16, DecodeError> {
        self.array().map(u16::from_be_bytes)
    }

    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_be_bytes)
    }

    pub fn u32_little_endian(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        self.array().map(u64::from_be_bytes)
    }

    pub fn i64(&mut self) -> Result<i64, DecodeError> {
        self.array().map(i64::from_be_bytes)
    }

    pub fn f64(&mut self) -> Result<f64, DecodeError> {
        self.array().map(f64::from_be_bytes)
    }

    pub fn boolean(&mut self) -> Result<bool, DecodeError> {
        let offset = self.position;
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(DecodeError::malformed(offset, "a boolean", other)),
        }
    }

    /// A count of items of at least `item_bytes_min` bytes each, so that it bounds what is allocated for them.
    pub fn count_u32(&mut self, item_bytes_min: usize) -> Result<usize, DecodeError> {
        let offset = self.position;
        let count = self.u32()? as usize;
        self.check_count(offset, count, item_bytes_min)
    }

    pub fn count_vint(&mut self, item_bytes_min: usize) -> Result<usize, DecodeError> {
        let offset = self.position;
        let count = usize::try_from(self.unsigned_vint()?).unwrap_or(usize::MAX);
        self.check_count(offset, count, item_bytes_min)
    }

    fn check_count(&self, offset: usize, count: usize, item_bytes_min: usize) -> Result<usize, DecodeError> {
        if count.saturating_mul(item_bytes_min) > self.remaining() {
            return Err(DecodeError::malformed(offset, "a count of items that fit", count));
        }
        Ok(count)
    }

    /// An unsigned integer whose first byte has as many leading ones as bytes follow it.
    #[inline]
    pub fn unsigned_vint(&mut self) -> Result<u64, DecodeError> {
        let first = self.u8()?;
        if first < 0x80 {
            return Ok(u64::from(first));
        }
        let extra = first.leading_ones() as usize;
        let top = if extra >= 8 {
            0
        } else {
            u64::from(first & (0xff >> extra)) << (8 * extra)
        };
        let following = self.bytes.get(self.position..).and_then(<[u8]>::first_chunk::<8>);
        if let Some(following) = following {
            self.position += extra;
            return Ok(top | u64::from_be_bytes(*following) >> (64 - 8 * extra));
        }
        let rest = self.bytes(extra)?.iter();
        Ok(rest.fold(0, |value, byte| (value << 8) | u64::from(*byte)) | top)
    }

    /// A zigzag-coded signed integer.
    pub fn signed_vint(&mut self) -> Result<i64, DecodeError> {
        let coded = self.unsigned_vint()?;
        Ok((coded >> 1).cast_signed() ^ -(coded & 1).cast_signed())
    }

    pub fn bytes_after_vint(&mut self) -> Result<&'a [u8], DecodeError> {
        let offset = self.position;
        let length = self.unsigned_vint()?;
        let length =
            usize::try_from(length).map_err(|_| DecodeError::malformed(offset, "a length", length))?;
        self.bytes(length)
    }

    pub fn bytes_after_u16(&mut self) -> Result<&'a [u8], DecodeError> {
        let length = self.u16()?;
        self.bytes(usize::from(length))
    }

    pub fn bytes_after_u32(&mut self) -> Result<&'a [u8], DecodeError> {
        let length = self.u32()?;
        self.bytes(length as usize)
    }

    pub fn text_after_u16(&mut self) -> Result<&'a str, DecodeError> {
        let offset = self.position;
        let bytes = self.bytes_after_u16()?;
        std::str::from_utf8(bytes).map_err(|error| DecodeError::malformed(offset, "UTF-8", error))
    }

    pub fn text_after_vint(&mut self) -> Result<&'a str, DecodeError> {
        let offset = self.position;
        let bytes = self.bytes_after_vint()?;
        std::str::from_utf8(bytes).map_err(|error| DecodeError::malformed(offset, "UTF-8", error))
    }

    /// Nothing may follow.
    pub fn finish(&self) -> Result<(), DecodeError> {
        match self.remaining() {
            0 => Ok(()),
            count => Err(DecodeError::malformed(
                self.position,
                "the end",
                format!("{count} more bytes"),
            )),
        }
    }
}

/// The bytes before the CRC32 of them that a component of ours ends in.
pub(crate) fn without_checksum<'a>(bytes: &'a [u8], wanted: &'static str) -> Result<&'a [u8], DecodeError> {
    let (checked, checksum) = bytes
        .split_last_chunk::<4>()
        .ok_or(DecodeError::Truncated { needed: 4 })?;
    let (stated, found) = (u32::from_be_bytes(*checksum), crc32fast::hash(checked));
    if stated == found {
        return Ok(checked);
    }
    let found = format!("CRC32 {found:08x} instead of {stated:08x}");
    Err(DecodeError::malformed(checked.len(), wanted, found))
}

#[inline]
pub(crate) fn push_unsigned_vint(out: &mut Vec<u8>, value: u64) {
    if value < 0x80 {
        out.push(value as u8);
    } else {
        push_long_unsigned_vint(out, value);
    }
}

fn push_long_unsigned_vint(out: &mut Vec<u8>, value: u64) {
    let length = unsigned_vint_length(value);
    if length == 9 {
        out.push(0xff);
        out.extend_from_slice(&value.to_be_bytes());
        return;
    }
    // A copy of fixed size is a single store.
    let end = out.len() + length;
    out.extend_from_slice(&unsigned_vint_bytes(value, length));
    out.truncate(end);
}

/// The bytes of a number that takes `length` of them, 8 at most.
#[inline]
fn unsigned_vint_bytes(value: u64, length: usize) -> [u8; 8] {
    // Seven bits in each byte, and as many ones at the top of the first as there are more.
    let length_bits = u64::from(!(0xff_u8 >> (length - 1))) << 56;
    (value << (64 - 8 * length) | length_bits).to_be_bytes()
}

/// Begins something whose length goes before it and is not known yet; returns where it begins.
#[inline]
pub(crate) fn begin_after_vint(out: &mut Vec<u8>) -> usize {
    // Most are short: one byte is kept.
    out.push(0);
    out.len()
}

/// Ends what began at `start`: now its length is written.
#[inline]
pub(crate) fn end_after_vint(out: &mut Vec<u8>, start: usize) {
    let length = out.len() - start;
    if length < 0x80 {
        out[start - 1] = length as u8;
    } else {
        put_long_length(out, start, length);
    }
}

fn put_long_length(out: &mut Vec<u8>, start: usize, length: usize) {
    // Memory is far smaller than 2^56 bytes, so that eight suffice.
    let vint_length = unsigned_vint_length(length as u64).min(8);
    let bytes = unsigned_vint_bytes(length as u64, vint_length);
    out.extend_from_slice(&[0; 7][..vint_length - 1]);
    out.copy_within(start..start + length, start + vint_length - 1);
    out[start - 1..start - 1 + vint_length].copy_from_slice(&bytes[..vint_length]);
}

pub(crate) fn push_signed_vint(out: &mut Vec<u8>, value: i64) {
    push_unsigned_vint(out, ((value << 1) ^ (value >> 63)).cast_unsigned());
}

pub(crate) fn unsigned_vint_length(value: u64) -> usize {
    let bits = 64 - (value | 1).leading_zeros() as usize;
    if bits > 56 { 9 } else { (bits - 1) / 7 + 1 }
}

pub(crate) fn push_bytes_after_vint(out: &mut Vec<u8>, bytes: &[u8]) {
    push_unsigned_vint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// The caller has checked that there are at most 65,535 bytes.
pub(crate) fn push_bytes_after_u16(out: &mut Vec<u8>, bytes: &[u8]) {
    debug_assert!(bytes.len() <= usize::from(u16::MAX));
    out.extend_from_slice(&(bytes.len() as u16).to_be_bytes());
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::error::ReadError;

    /// Symptom: "attempt to add with overflow" instead of an error, where a damaged length asked for nearly 2^64 bytes, or
    /// a damaged offset pointed there.
    #[test]
    fn errors_of_any_length_and_place_can_be_told() {
        let path = Path::new("nb-1-big-Index.db");
        let ends = DecodeError::Truncated { needed: usize::MAX };
        assert!(matches!(
            ends.clone().within_part(5),
            DecodeError::Malformed {
                offset: usize::MAX,
                ..
            }
        ));
        assert!(matches!(
            ends.in_file(path, 5),
            ReadError::Corrupt { offset: u64::MAX, .. }
        ));
        let malformed = DecodeError::malformed(5, "a length", "another");
        assert!(matches!(
            malformed.in_file(path, u64::MAX),
            ReadError::Corrupt { offset: u64::MAX, .. }
        ));
    }

    #[test]
    fn vints_have_the_lengths_and_bytes_of_the_format() {
        for (value, expected) in [
            (0, &[0][..]),
            (127, &[0x7f]),
            (128, &[0x80, 0x80]),
            (16_383, &[0xbf, 0xff]),
            (16_384, &[0xc0, 0x40, 0]),
            (u64::MAX >> 8, &[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
            (u64::MAX, &[0xff; 9]),
        ] {
            let mut out = Vec::new();
            push_unsigned_vint(&mut out, value);
            assert_eq!(out, expected, "{value}");
            assert_eq!(unsigned_vint_length(value), out.len());
            assert_eq!(ByteReader::new(&out).unsigned_vint(), Ok(value));
            assert!(ByteReader::new(&out[..out.len() - 1]).unsigned_vint().is_err());
        }
    }

    #[test]
    fn every_vint_reads_back() {
        for shift in 0..64 {
            for value in [1_u64 << shift, (1_u64 << shift) - 1, u64::MAX >> shift] {
                let mut out = Vec::new();
                push_unsigned_vint(&mut out, value);
                push_signed_vint(&mut out, value.cast_signed());
                push_signed_vint(&mut out, value.cast_signed().wrapping_neg());
                let mut reader = ByteReader::new(&out);
                assert_eq!(reader.unsigned_vint(), Ok(value));
                assert_eq!(reader.signed_vint(), Ok(value.cast_signed()));
                assert_eq!(reader.signed_vint(), Ok(value.cast_signed().wrapping_neg()));
                assert_eq!(reader.finish(), Ok(()));
            }
        }
    }

    #[test]
    fn counts_are_bounded_by_what_is_there() {
        let bytes = [0, 0, 0, 2, 1, 1, 1, 1];
        assert_eq!(ByteReader::new(&bytes).count_u32(2), Ok(2));
        assert!(ByteReader::new(&bytes).count_u32(3).is_err());
    }
}
