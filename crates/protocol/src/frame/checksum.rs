//! The two checksums of a v5 segment (native_protocol_v5.spec, section 2.2).

/// CRC24 of a segment header: polynomial and initial value of the specification.
const CRC24_INITIAL: u32 = 0x87_5060;
const CRC24_POLYNOMIAL: u32 = 0x197_4F0B;

/// Fed to the CRC32 before the payload, so that a run of zeros does not have a checksum of zero.
const CRC32_INITIAL_BYTES: [u8; 4] = [0xFA, 0x2D, 0x55, 0xCA];

/// One table step per header byte; the specification's loop takes eight.
const CRC24_TABLE: [u32; 256] = crc24_table();

const fn crc24_table() -> [u32; 256] {
    let mut table = [0u32; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u32) << 16;
        let mut bit = 0;
        while bit < 8 {
            crc <<= 1;
            if crc & 0x100_0000 != 0 {
                crc ^= CRC24_POLYNOMIAL;
            }
            bit += 1;
        }
        table[byte] = crc & 0xFF_FFFF;
        byte += 1;
    }
    table
}

/// The CRC24 of a segment header's bytes, in the order they travel.
#[inline]
pub(crate) fn crc24(bytes: &[u8]) -> u32 {
    bytes.iter().fold(CRC24_INITIAL, |crc, &byte| {
        let index = ((crc >> 16) as u8 ^ byte) as usize;
        ((crc << 8) & 0xFF_FFFF) ^ CRC24_TABLE[index]
    })
}

/// The CRC32 of a segment's payload as it travels (compressed, if it is).
#[inline]
pub fn crc32(payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(CRC32_AFTER_INITIAL_BYTES);
    hasher.update(payload);
    hasher.finalize()
}

/// The state of the CRC32 after [`CRC32_INITIAL_BYTES`]: the same for every payload.
const CRC32_AFTER_INITIAL_BYTES: u32 = crc32_of(&CRC32_INITIAL_BYTES);

const fn crc32_of(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    let mut index = 0;
    while index < bytes.len() {
        crc ^= bytes[index] as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 != 0 {
                (crc >> 1) ^ 0xEDB8_8320
            } else {
                crc >> 1
            };
            bit += 1;
        }
        index += 1;
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The specification's bit-by-bit loop.
    fn crc24_by_bits(bytes: &[u8]) -> u32 {
        let mut crc = CRC24_INITIAL;
        for &byte in bytes {
            crc ^= u32::from(byte) << 16;
            for _ in 0..8 {
                crc <<= 1;
                if crc & 0x100_0000 != 0 {
                    crc ^= CRC24_POLYNOMIAL;
                }
            }
        }
        crc & 0xFF_FFFF
    }

    #[test]
    fn the_table_agrees_with_the_specifications_loop() {
        for seed in 0..5_000u64 {
            let bytes = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes();
            for length in 0..=8 {
                assert_eq!(crc24(&bytes[..length]), crc24_by_bits(&bytes[..length]));
            }
        }
    }

    #[test]
    fn the_payload_checksum_starts_after_the_initial_bytes() {
        let mut whole = CRC32_INITIAL_BYTES.to_vec();
        whole.extend_from_slice(b"payload");
        assert_eq!(crc32(b"payload"), crc32fast::hash(&whole));
        assert_ne!(crc32(&[0; 16]), 0);
    }
}
