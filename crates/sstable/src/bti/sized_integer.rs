//! Signed integers in as few big-endian bytes as they fit, whose number is stored elsewhere.

/// Appends 1 to 8 bytes.
pub(super) fn push_sized(out: &mut Vec<u8>, value: i64) {
    let magnitude = if value < 0 { !value } else { value };
    let bits = 64 - magnitude.leading_zeros() as usize + 1;
    let skipped = 8 - bits.div_ceil(8);
    out.extend_from_slice(value.to_be_bytes().get(skipped..).unwrap_or_default());
}

/// Reads an integer of at most 8 bytes; none are 0.
pub(super) fn read_sized(bytes: &[u8]) -> i64 {
    let sign = bytes
        .first()
        .map_or(0, |first| i64::from(first.cast_signed() >> 7));
    bytes
        .iter()
        .fold(sign, |value, byte| value << 8 | i64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sized_integers_are_as_short_as_their_sign_allows() {
        for (value, length) in [
            (0, 1),
            (127, 1),
            (128, 2),
            (-128, 1),
            (-129, 2),
            (32_767, 2),
            (32_768, 3),
            (i64::MAX, 8),
            (i64::MIN, 8),
        ] {
            let mut out = Vec::new();
            push_sized(&mut out, value);
            assert_eq!(out.len(), length, "{value}");
            assert_eq!(read_sized(&out), value);
        }
    }
}
