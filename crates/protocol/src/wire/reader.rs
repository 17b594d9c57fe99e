//! A bounded cursor over a message body.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use helenus_types::utf8::from_utf8;

use super::DecodeError;
use crate::consistency::Consistency;

/// Reads the specification's notations from a slice. Every length is compared with what is left before use.
#[derive(Clone, Copy, Debug)]
pub struct WireReader<'a> {
    rest: &'a [u8],
}

impl<'a> WireReader<'a> {
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        WireReader { rest: bytes }
    }

    /// The bytes not read yet.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    #[inline]
    pub fn take(&mut self, bytes: usize, what: &'static str) -> Result<&'a [u8], DecodeError> {
        match self.rest.split_at_checked(bytes) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => Err(DecodeError::Truncated {
                what,
                wanted: bytes,
                found: self.rest.len(),
            }),
        }
    }

    #[inline]
    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], DecodeError> {
        match self.rest.split_first_chunk::<N>() {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(*taken)
            }
            None => Err(DecodeError::Truncated {
                what,
                wanted: N,
                found: self.rest.len(),
            }),
        }
    }

    #[inline]
    pub fn byte(&mut self, what: &'static str) -> Result<u8, DecodeError> {
        Ok(self.array::<1>(what)?[0])
    }

    #[inline]
    pub fn short(&mut self, what: &'static str) -> Result<u16, DecodeError> {
        Ok(u16::from_be_bytes(self.array(what)?))
    }

    #[inline]
    pub fn int(&mut self, what: &'static str) -> Result<i32, DecodeError> {
        Ok(i32::from_be_bytes(self.array(what)?))
    }

    #[inline]
    pub fn long(&mut self, what: &'static str) -> Result<i64, DecodeError> {
        Ok(i64::from_be_bytes(self.array(what)?))
    }

    #[inline]
    pub fn uuid(&mut self, what: &'static str) -> Result<[u8; 16], DecodeError> {
        self.array(what)
    }

    /// `[string]`: a 2-byte length and that many bytes of UTF-8.
    #[inline]
    pub fn string(&mut self) -> Result<&'a str, DecodeError> {
        let bytes = self.prefixed_short().ok_or(DecodeError::TruncatedString)?;
        utf8(bytes)
    }

    /// `[long string]`: a 4-byte length and that many bytes of UTF-8.
    #[inline]
    pub(crate) fn long_string(&mut self) -> Result<&'a str, DecodeError> {
        let length = self
            .int("a string length")
            .map_err(|_| DecodeError::TruncatedLongString)?;
        let length = usize::try_from(length).map_err(|_| DecodeError::TruncatedLongString)?;
        utf8(
            self.take(length, "a long string")
                .map_err(|_| DecodeError::TruncatedLongString)?,
        )
    }

    /// `[short bytes]`: a 2-byte length and that many bytes.
    #[inline]
    pub fn short_bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        self.prefixed_short().ok_or(DecodeError::TruncatedShortBytes)
    }

    /// `[bytes]`: a 4-byte length and that many bytes; any negative length is null.
    #[inline]
    pub fn bytes(&mut self, what: &'static str) -> Result<Option<&'a [u8]>, DecodeError> {
        match usize::try_from(self.int(what)?) {
            Ok(length) => self.take(length, what).map(Some),
            Err(_) => Ok(None),
        }
    }

    #[inline]
    pub fn consistency(&mut self) -> Result<Consistency, DecodeError> {
        let code = self.short("a consistency level")?;
        Consistency::from_code(code).ok_or(DecodeError::UnknownConsistency(code))
    }

    /// A 2-byte count of items of at least `item_bytes_min` bytes each; refused when the rest cannot hold them.
    #[inline]
    pub fn count(&mut self, what: &'static str, item_bytes_min: usize) -> Result<usize, DecodeError> {
        let count = usize::from(self.short(what)?);
        self.check_count(what, count, item_bytes_min)
    }

    /// As [`Self::count`] for a 4-byte count, which must not be negative.
    pub fn long_count(&mut self, what: &'static str, item_bytes_min: usize) -> Result<usize, DecodeError> {
        let count = self.int(what)?;
        let count = usize::try_from(count).map_err(|_| DecodeError::InvalidNumber {
            what,
            value: i64::from(count),
        })?;
        self.check_count(what, count, item_bytes_min)
    }

    #[inline]
    fn check_count(
        &self,
        what: &'static str,
        count: usize,
        item_bytes_min: usize,
    ) -> Result<usize, DecodeError> {
        if count.saturating_mul(item_bytes_min) > self.rest.len() {
            return Err(DecodeError::CountBeyondBody {
                what,
                count,
                found: self.rest.len(),
            });
        }
        Ok(count)
    }

    /// `[inetaddr]`: a length byte (4 or 16) and the address.
    pub(crate) fn inet_address(&mut self) -> Result<IpAddr, DecodeError> {
        match self.byte("an address length")? {
            4 => Ok(IpAddr::V4(Ipv4Addr::from(self.array::<4>("an IPv4 address")?))),
            16 => Ok(IpAddr::V6(Ipv6Addr::from(self.array::<16>("an IPv6 address")?))),
            length => Err(DecodeError::InvalidAddressLength(length)),
        }
    }

    /// `[inet]`: an `[inetaddr]` and a 4-byte port.
    pub fn inet(&mut self) -> Result<SocketAddr, DecodeError> {
        let address = self.inet_address()?;
        let port = self.int("a port")?;
        let port = u16::try_from(port).map_err(|_| DecodeError::InvalidNumber {
            what: "port",
            value: i64::from(port),
        })?;
        Ok(SocketAddr::new(address, port))
    }

    #[inline]
    fn prefixed_short(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.rest.split_first_chunk::<2>()?;
        let (taken, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
        self.rest = rest;
        Some(taken)
    }
}

#[inline]
fn utf8(bytes: &[u8]) -> Result<&str, DecodeError> {
    from_utf8(bytes).map_err(|offset| DecodeError::NotUtf8 { offset })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_shorter_than_their_length_are_refused_in_cassandras_words() {
        let mut reader = WireReader::new(&[0, 5, b'a']);
        assert_eq!(
            reader.string().unwrap_err().to_string(),
            "Not enough bytes to read an UTF8 serialized string preceded by its 2 bytes length"
        );
        let mut reader = WireReader::new(&[0xFF, 0xFF, 0xFF, 0xFF]);
        assert_eq!(reader.long_string(), Err(DecodeError::TruncatedLongString));
        let mut reader = WireReader::new(&[0, 1, 0xFF]);
        assert_eq!(reader.string(), Err(DecodeError::NotUtf8 { offset: 0 }));
    }

    #[test]
    fn counts_beyond_the_body_are_refused_before_anything_is_read() {
        let mut reader = WireReader::new(&[0xFF, 0xFF, 0, 0, 0, 0]);
        assert_eq!(
            reader.count("values", 4),
            Err(DecodeError::CountBeyondBody {
                what: "values",
                count: 65_535,
                found: 4
            })
        );
        let mut reader = WireReader::new(&[0x80, 0, 0, 0]);
        assert!(matches!(
            reader.long_count("rows", 0),
            Err(DecodeError::InvalidNumber { .. })
        ));
    }

    #[test]
    fn negative_lengths_of_bytes_are_null() {
        let mut reader = WireReader::new(&[0xFF, 0xFF, 0xFF, 0xFE, 0, 0, 0, 1, 7]);
        assert_eq!(reader.bytes("value"), Ok(None));
        assert_eq!(reader.bytes("value"), Ok(Some(&[7u8][..])));
        assert!(reader.rest().is_empty());
    }
}
