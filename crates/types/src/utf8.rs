//! Validation of UTF-8 that takes no more time than the memory does: texts of megabytes are looked at while a shard is held.

/// Texts up to this length are looked at where they are; longer ones pay for a call.
const SHORT_BYTES_MAX: usize = 64;

/// Returns the text that `bytes` are, or where they stop being UTF-8.
#[inline]
pub fn from_utf8(bytes: &[u8]) -> Result<&str, usize> {
    match bytes.len() <= SHORT_BYTES_MAX {
        true => std::str::from_utf8(bytes).map_err(|error| error.valid_up_to()),
        false => long_from_utf8(bytes),
    }
}

#[inline(never)]
fn long_from_utf8(bytes: &[u8]) -> Result<&str, usize> {
    simdutf8::compat::from_utf8(bytes).map_err(|error| error.valid_up_to())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_agrees_with_the_standard_library_wherever_a_byte_is_wrong() {
        let whole = "aé€𝛑\u{7f}\u{80}\u{7ff}\u{800}\u{ffff}\u{10000}\u{10ffff}"
            .repeat(9)
            .into_bytes();
        let agrees = |bytes: &[u8]| {
            let expected = std::str::from_utf8(bytes).map_err(|error| error.valid_up_to());
            assert_eq!(from_utf8(bytes), expected, "{bytes:02x?}");
        };
        for length in 0..whole.len() {
            agrees(&whole[..length]);
        }
        for index in 0..whole.len() {
            for wrong in [
                0x00, 0x7f, 0x80, 0xbf, 0xc0, 0xc1, 0xe0, 0xed, 0xf0, 0xf4, 0xf5, 0xff,
            ] {
                let mut bytes = whole.clone();
                bytes[index] = wrong;
                agrees(&bytes);
            }
        }
    }
}
