//! Partition keys with a chosen token.
//!
//! The token is the first half of MurmurHash3 x64 128, none of whose steps loses anything: for a key of exactly one
//! 16-byte block each step can be taken back. The second half of the hash is free, so there are 2^64 keys per token.

use helenus_types::Token;

const C1: u64 = 0x87c3_7b91_1142_53d5;
const C2: u64 = 0x4cf5_ad43_2745_937f;
const LENGTH: u64 = 16;

/// The 16-byte key whose hash is `token` and `second_half`.
pub fn key_with_token(token: Token, second_half: u64) -> [u8; 16] {
    // The last steps: h1 = mix(a) + mix(b), h2 = h1 + mix(b).
    let first_half = token.0.cast_unsigned();
    let mixed_b = second_half.wrapping_sub(first_half);
    let mixed_a = first_half.wrapping_sub(mixed_b);
    // Before them: a = h1 + h2, b = a + h2.
    let (a, b) = (final_mix_inverse(mixed_a), final_mix_inverse(mixed_b));
    let h2 = b.wrapping_sub(a);
    let h1 = a.wrapping_sub(h2);
    let (h1, h2) = (h1 ^ LENGTH, h2 ^ LENGTH);
    // The only block, with both halves of the state at 0 before it.
    let fifth = inverse(5);
    let k1 = h1.wrapping_sub(0x52dc_e729).wrapping_mul(fifth).rotate_right(27);
    let k2 = h2
        .wrapping_sub(0x3849_5ab5)
        .wrapping_mul(fifth)
        .wrapping_sub(h1)
        .rotate_right(31);
    let low = k1
        .wrapping_mul(inverse(C2))
        .rotate_right(31)
        .wrapping_mul(inverse(C1));
    let high = k2
        .wrapping_mul(inverse(C1))
        .rotate_right(33)
        .wrapping_mul(inverse(C2));
    (u128::from(high) << 64 | u128::from(low)).to_le_bytes()
}

fn final_mix_inverse(mixed: u64) -> u64 {
    let mut k = mixed;
    k ^= k >> 33;
    k = k.wrapping_mul(inverse(0xc4ce_b9fe_1a85_ec53));
    k ^= k >> 33;
    k = k.wrapping_mul(inverse(0xff51_afd7_ed55_8ccd));
    k ^ (k >> 33)
}

/// The number that gives 1 when multiplied by an odd one, by Newton's method: each round doubles the right bits.
const fn inverse(odd: u64) -> u64 {
    let mut guess = odd;
    let mut round = 0;
    while round < 6 {
        guess = guess.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(guess)));
        round += 1;
    }
    guess
}

#[cfg(test)]
mod tests {
    use helenus_types::token::{murmur3_x64_128, token_of};

    use super::*;

    #[test]
    fn keys_have_the_tokens_they_are_made_for() {
        for token in [
            Token(0),
            Token(42),
            Token(-7),
            Token::MAXIMUM,
            Token(i64::MIN + 1),
        ] {
            for second_half in [0, 1, u64::MAX, 0x0123_4567_89ab_cdef] {
                let key = key_with_token(token, second_half);
                assert_eq!(murmur3_x64_128(&key), [token.0.cast_unsigned(), second_half]);
                assert_eq!(token_of(&key), token);
            }
        }
    }

    #[test]
    fn the_hash_that_no_partition_may_have_becomes_the_last_token() {
        assert_eq!(token_of(&key_with_token(Token::MINIMUM, 5)), Token::MAXIMUM);
    }
}
