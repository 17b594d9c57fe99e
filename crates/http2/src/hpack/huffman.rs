//! Strings of headers in HPACK's code (RFC 7541, section 5.2 and appendix B).
//!
//! The code is canonical: codes of one length are consecutive numbers in the order of their symbols. So the lengths are all that is to be
//! known of it.

use super::Corrupt;

/// Symbols: the bytes, and the end of the string, which no string contains.
const SYMBOLS: usize = 257;

const END: u16 = 256;

/// Bits of the longest code.
const BITS_MAX: usize = 30;

/// Codes of at most so many bits are found by their bits.
const QUICK_BITS: usize = 9;

/// Bits of each symbol's code.
#[rustfmt::skip]
const LENGTHS: [u8; SYMBOLS] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];

/// The code, by length.
struct Code {
    /// The first code of each length.
    first: [u32; BITS_MAX + 1],
    /// How many codes of each length there are.
    count: [u32; BITS_MAX + 1],
    /// The place of a length's first symbol in `symbols`.
    place: [u32; BITS_MAX + 1],
    /// By length, then by value.
    symbols: [u16; SYMBOLS],
    /// Symbol and length by the first bits, 0 for longer codes.
    quick: [(u8, u8); 1 << QUICK_BITS],
}

static CODE: Code = Code::new();

#[expect(
    clippy::indexing_slicing,
    reason = "computed when this is compiled, which fails where an index is wrong"
)]
impl Code {
    const fn new() -> Code {
        let mut code = Code {
            first: [0; BITS_MAX + 1],
            count: [0; BITS_MAX + 1],
            place: [0; BITS_MAX + 1],
            symbols: [0; SYMBOLS],
            quick: [(0, 0); 1 << QUICK_BITS],
        };
        let (mut next, mut placed, mut length) = (0, 0, 1);
        while length <= BITS_MAX {
            next <<= 1;
            code.first[length] = next;
            code.place[length] = placed as u32;
            let mut symbol = 0;
            while symbol < SYMBOLS {
                if LENGTHS[symbol] as usize == length {
                    if length <= QUICK_BITS {
                        let from = (next as usize) << (QUICK_BITS - length);
                        let mut at = from;
                        while at < from + (1 << (QUICK_BITS - length)) {
                            code.quick[at] = (symbol as u8, length as u8);
                            at += 1;
                        }
                    }
                    code.symbols[placed] = symbol as u16;
                    code.count[length] += 1;
                    placed += 1;
                    next += 1;
                }
                symbol += 1;
            }
            length += 1;
        }
        assert!(next == 1 << BITS_MAX, "every string of bits is a code");
        code
    }
}

/// Appends the string that `coded` stands for.
pub fn decode(coded: &[u8], out: &mut Vec<u8>) -> Result<(), Corrupt> {
    let mut bytes = coded.iter();
    // The next bits, from the highest on; behind those that have come there are ones, as at the end of a string.
    let (mut bits, mut count) = (u64::MAX, 0_usize);
    loop {
        while count <= 56
            && let Some(&byte) = bytes.next()
        {
            let shift = 56 - count;
            bits &= !(0xff << shift);
            bits |= u64::from(byte) << shift;
            count += 8;
        }
        if count == 0 {
            return Ok(());
        }
        let (symbol, length) = symbol_of(bits);
        if length > count {
            // What is left pads the last byte, with ones.
            return match count < 8 && bits == u64::MAX {
                true => Ok(()),
                false => Err(Corrupt),
            };
        }
        if symbol == END {
            return Err(Corrupt);
        }
        out.push(symbol as u8);
        bits = !(!bits << length);
        count -= length;
    }
}

/// The symbol that the highest bits stand for, and how many bits that are.
fn symbol_of(bits: u64) -> (u16, usize) {
    let quick = (bits >> (64 - QUICK_BITS)) as usize;
    match CODE.quick.get(quick) {
        Some(&(symbol, length)) if length > 0 => (u16::from(symbol), usize::from(length)),
        _ => long_symbol_of(bits),
    }
}

fn long_symbol_of(bits: u64) -> (u16, usize) {
    let lengths = CODE.first.iter().zip(&CODE.count).zip(&CODE.place).enumerate();
    for (length, ((first, count), place)) in lengths.skip(QUICK_BITS + 1) {
        let after = ((bits >> (64 - length)) as u32).wrapping_sub(*first);
        if after < *count {
            let symbol = CODE.symbols.get((place + after) as usize);
            return (symbol.copied().unwrap_or(END), length);
        }
    }
    (END, BITS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The other direction, bit by bit.
    fn encode(text: &[u8]) -> Vec<u8> {
        let mut bits = String::new();
        for byte in text {
            let place = CODE
                .symbols
                .iter()
                .position(|symbol| *symbol == u16::from(*byte))
                .unwrap();
            let length = usize::from(LENGTHS[usize::from(*byte)]);
            let code = CODE.first[length] + place as u32 - CODE.place[length];
            bits.push_str(&format!("{code:0length$b}"));
        }
        while !bits.len().is_multiple_of(8) {
            bits.push('1');
        }
        (0..bits.len() / 8)
            .map(|at| u8::from_str_radix(&bits[8 * at..8 * at + 8], 2).unwrap())
            .collect()
    }

    fn decoded(coded: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        decode(coded, &mut out).ok().map(|()| out)
    }

    /// RFC 7541, appendix C.4.1 and C.6.1.
    #[test]
    fn strings_of_the_rfc() {
        let of = |hex: &str| {
            let bytes: Vec<u8> = (0..hex.len() / 2)
                .map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap())
                .collect();
            String::from_utf8(decoded(&bytes).unwrap()).unwrap()
        };
        assert_eq!(of("f1e3c2e5f23a6ba0ab90f4ff"), "www.example.com");
        assert_eq!(
            of("d07abe941054d444a8200595040b8166e082a62d1bff"),
            "Mon, 21 Oct 2013 20:13:21 GMT"
        );
        assert_eq!(
            of("9d29ad171863c78f0b97c8e9ae82ae43d3"),
            "https://www.example.com"
        );
    }

    #[test]
    fn every_byte_comes_back_alone_and_among_others() {
        for byte in 0..=255 {
            for text in [vec![byte], vec![byte; 9], vec![b'a', byte, b'~', byte]] {
                assert_eq!(decoded(&encode(&text)), Some(text));
            }
        }
        let all: Vec<u8> = (0..=255).rev().collect();
        assert_eq!(decoded(&encode(&all)), Some(all));
        assert_eq!(decoded(&[]), Some(Vec::new()));
    }

    /// RFC 7541, section 5.2: too much padding, padding that is no ones, and the end within a string.
    #[test]
    fn strings_that_are_none_are_refused() {
        for wrong in [
            &[0xff][..],
            &[0b0001_1111, 0xff],
            &[0b0001_1110],
            &[0xff, 0xff, 0xff, 0xff],
            &[0xff, 0xff, 0xff, 0xfc],
        ] {
            assert_eq!(decoded(wrong), None, "{wrong:02x?}");
        }
        assert_eq!(decoded(&[0b0001_1111]), Some(b"a".to_vec()));
    }
}
