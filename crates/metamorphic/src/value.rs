//! Bound values, short as text however long as bytes.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use helenus_vfs::{Random, SeededRandom};

/// A value's bytes as pieces one after the other: `0x0001+bytes(7,65536)`. An empty value is `0x`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value(pub Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    Literal(Vec<u8>),
    /// So many bytes that no compressor shortens.
    Bytes {
        seed: u64,
        length: usize,
    },
    /// So many lower case letters, for what must be text.
    Letters {
        seed: u64,
        length: usize,
    },
}

/// No piece is longer: twice the largest value that is generated.
const PIECE_BYTES_MAX: usize = 2 << 20;

impl Value {
    pub fn literal(bytes: Vec<u8>) -> Value {
        Value(vec![Piece::Literal(bytes)])
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for piece in &self.0 {
            match piece {
                Piece::Literal(bytes) => out.extend_from_slice(bytes),
                Piece::Bytes { seed, length } => {
                    let start = out.len();
                    out.resize(start + length, 0);
                    SeededRandom::new(*seed).fill(&mut out[start..]);
                }
                Piece::Letters { seed, length } => {
                    let random = SeededRandom::new(*seed);
                    out.extend((0..*length).map(|_| b'a' + random.below(26) as u8));
                }
            }
        }
        out
    }
}

impl fmt::Display for Value {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, piece) in self.0.iter().enumerate() {
            if index > 0 {
                out.write_char('+')?;
            }
            match piece {
                Piece::Literal(bytes) => {
                    out.write_str("0x")?;
                    for byte in bytes {
                        write!(out, "{byte:02x}")?;
                    }
                }
                Piece::Bytes { seed, length } => write!(out, "bytes({seed},{length})")?,
                Piece::Letters { seed, length } => write!(out, "letters({seed},{length})")?,
            }
        }
        Ok(())
    }
}

impl FromStr for Value {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let pieces: Result<Vec<Piece>, String> = text.split('+').map(parse_piece).collect();
        Ok(Value(pieces?))
    }
}

fn parse_piece(text: &str) -> Result<Piece, String> {
    if let Some(digits) = text.strip_prefix("0x") {
        return Ok(Piece::Literal(parse_hex(digits)?));
    }
    let wrong = || format!("{text:?} is no value: 0x.., bytes(seed,length) or letters(seed,length)");
    let (name, arguments) = text
        .strip_suffix(')')
        .and_then(|text| text.split_once('('))
        .ok_or_else(wrong)?;
    let (seed, length) = arguments.split_once(',').ok_or_else(wrong)?;
    let seed = seed.parse().map_err(|_| wrong())?;
    let length = length.parse().map_err(|_| wrong())?;
    if length > PIECE_BYTES_MAX {
        return Err(format!("{text:?} is longer than {PIECE_BYTES_MAX} bytes"));
    }
    match name {
        "bytes" => Ok(Piece::Bytes { seed, length }),
        "letters" => Ok(Piece::Letters { seed, length }),
        _ => Err(wrong()),
    }
}

fn parse_hex(digits: &str) -> Result<Vec<u8>, String> {
    let wrong = || format!("{digits:?} is no even number of hexadecimal digits");
    if !digits.len().is_multiple_of(2) || !digits.is_ascii() {
        return Err(wrong());
    }
    (0..digits.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).map_err(|_| wrong()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_read_as_it_was_written() {
        let value = Value(vec![
            Piece::Literal(vec![0, 255]),
            Piece::Bytes {
                seed: 7,
                length: 65_536,
            },
            Piece::Letters { seed: 8, length: 3 },
        ]);
        let text = value.to_string();
        assert_eq!(text, "0x00ff+bytes(7,65536)+letters(8,3)");
        assert_eq!(text.parse::<Value>().unwrap(), value);
        assert_eq!(value.bytes().len(), 2 + 65_536 + 3);
        assert_eq!("0x".parse::<Value>().unwrap().bytes(), Vec::<u8>::new());
    }

    #[test]
    fn what_is_no_value_is_refused() {
        for text in [
            "",
            "0x0",
            "0xgg",
            "bytes(1)",
            "bytes(1,99999999999)",
            "digits(1,2)",
        ] {
            assert!(text.parse::<Value>().is_err(), "{text}");
        }
    }
}
