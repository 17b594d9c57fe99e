//! Compression of headers (RFC 7541).

pub mod encode;
pub mod field;
mod huffman;
mod table;

use field::Name;
use table::Table;

pub use table::Entry;

/// A header block that cannot be read. Both sides' tables may differ from here on, so the connection has to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt;

/// Reads a client's header blocks.
#[derive(Debug, Default)]
pub struct Decoder {
    table: Table,
}

/// Bytes of a block that are not read yet.
struct Rest<'b>(&'b [u8]);

impl<'b> Rest<'b> {
    fn byte(&mut self) -> Result<u8, Corrupt> {
        let (byte, rest) = self.0.split_first().ok_or(Corrupt)?;
        self.0 = rest;
        Ok(*byte)
    }

    /// A number of which the lowest `bits` bits of `first` are the beginning (RFC 7541, section 5.1).
    fn number(&mut self, first: u8, bits: u32) -> Result<usize, Corrupt> {
        let most = (1_usize << bits) - 1;
        let begun = usize::from(first) & most;
        if begun < most {
            return Ok(begun);
        }
        let mut number = most;
        // Four bytes say more than any length or index that is right.
        for at in 0..4 {
            let byte = self.byte()?;
            number += usize::from(byte & 0x7f) << (7 * at);
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Corrupt)
    }

    /// A string, which is in `decoded` if it was not sent as it is (RFC 7541, section 5.2).
    fn string<'s>(&mut self, decoded: &'s mut Vec<u8>) -> Result<&'s [u8], Corrupt>
    where
        'b: 's,
    {
        let first = self.byte()?;
        let length = self.number(first, 7)?;
        let (string, rest) = self.0.split_at_checked(length).ok_or(Corrupt)?;
        self.0 = rest;
        if first & 0x80 == 0 {
            return Ok(string);
        }
        decoded.clear();
        huffman::decode(string, decoded)?;
        Ok(decoded)
    }
}

impl Decoder {
    /// Reads a whole block, and tells of each field in its order.
    pub fn decode(&mut self, block: &[u8], mut tell: impl FnMut(&Entry)) -> Result<(), Corrupt> {
        let mut rest = Rest(block);
        let mut scratch = Vec::new();
        let mut is_first = true;
        while !rest.0.is_empty() {
            let first = rest.byte()?;
            match first {
                0x80.. => tell(self.table.get(rest.number(first, 7)?)?),
                0x40.. => {
                    let entry = self.literal(&mut rest, first, 6, &mut scratch)?;
                    tell(&entry);
                    self.table.add(entry);
                }
                // Sizes of the table come before all fields (section 4.2).
                0x20.. if is_first => {
                    self.table.resize(rest.number(first, 5)?)?;
                    continue;
                }
                0x20.. => return Err(Corrupt),
                _ => tell(&self.literal(&mut rest, first, 4, &mut scratch)?),
            }
            is_first = false;
        }
        Ok(())
    }

    fn literal(
        &self,
        rest: &mut Rest<'_>,
        first: u8,
        bits: u32,
        scratch: &mut Vec<u8>,
    ) -> Result<Entry, Corrupt> {
        let name = match rest.number(first, bits)? {
            0 => Name::read(rest.string(scratch)?),
            index => self.table.get(index)?.field.name(),
        };
        Ok(Entry::read(name, rest.string(scratch)?))
    }
}

#[cfg(test)]
mod tests {
    use super::field::Field;
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<char> = hex.chars().filter(|digit| !digit.is_whitespace()).collect();
        digits
            .chunks(2)
            .map(|two| u8::from_str_radix(&two.iter().collect::<String>(), 16).unwrap())
            .collect()
    }

    fn text(field: &Field) -> String {
        match field {
            Field::Method(method) => format!(":method {method}"),
            Field::Scheme(scheme) => format!(":scheme {scheme}"),
            Field::Authority(authority) => format!(":authority {authority}"),
            Field::Path(path) => format!(":path {path}"),
            Field::Regular(name, value) => format!("{name} {}", value.to_str().unwrap()),
            Field::Wrong(name) => format!("wrong, {} bytes", name.len()),
        }
    }

    fn decoded(decoder: &mut Decoder, hex: &str) -> Result<String, Corrupt> {
        let mut fields = Vec::new();
        decoder.decode(&bytes(hex), |entry| fields.push(text(&entry.field)))?;
        Ok(fields.join(", "))
    }

    /// RFC 7541, appendix C.3 and C.4: three requests on one connection, as they are and in Huffman's code.
    #[test]
    fn requests_of_the_rfc() {
        let blocks = [
            [
                "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
                "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
            ],
            [
                "8286 84be 5808 6e6f 2d63 6163 6865",
                "8286 84be 5886 a8eb 1064 9cbf",
            ],
            [
                "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
                "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
            ],
        ];
        let wanted = [
            ":method GET, :scheme http, :path /, :authority www.example.com",
            ":method GET, :scheme http, :path /, :authority www.example.com, cache-control no-cache",
            ":method GET, :scheme https, :path /index.html, :authority www.example.com, custom-key custom-value",
        ];
        for kind in 0..2 {
            let mut decoder = Decoder::default();
            for (block, wanted) in blocks.iter().zip(wanted) {
                assert_eq!(decoded(&mut decoder, block[kind]).as_deref(), Ok(wanted));
            }
            assert_eq!(decoder.table.get(62).map(|entry| entry.bytes), Ok(54));
            assert_eq!(decoder.table.get(65).map(|_| ()), Err(Corrupt));
        }
    }

    /// A table that holds two fields forgets the first with the third, and everything with one that is too long.
    #[test]
    fn fields_give_way() {
        let mut decoder = Decoder::default();
        // Each of 34 bytes.
        let sized = "3f 25 40 0161 0131 40 0162 0132 40 0163 0133";
        assert_eq!(decoded(&mut decoder, sized).as_deref(), Ok("a 1, b 2, c 3"));
        assert_eq!(decoded(&mut decoder, "be bf").as_deref(), Ok("c 3, b 2"));
        assert_eq!(decoded(&mut decoder, "c0"), Err(Corrupt));
        let long = format!("40 0164 50 {}", "65".repeat(80));
        assert!(decoded(&mut decoder, &long).unwrap().starts_with("d ee"));
        assert_eq!(decoded(&mut decoder, "be"), Err(Corrupt));
    }

    #[test]
    fn blocks_that_are_none_are_corrupt() {
        for wrong in [
            "80",                // index 0
            "ff ff ff ff ff 01", // an endless index
            "40 05 61",          // a name that is cut off
            "00",                // no name
            "82 20",             // a size behind a field
            "3f e2 1f",          // a size beyond the setting
            "00 81 ff 00",       // padding for a name
            "7f",                // a number without its end
        ] {
            let mut decoder = Decoder::default();
            assert_eq!(decoded(&mut decoder, wrong), Err(Corrupt), "{wrong}");
        }
        assert_eq!(
            decoded(&mut Decoder::default(), "3f e1 1f 82").as_deref(),
            Ok(":method GET")
        );
    }

    #[test]
    fn what_no_request_may_have_is_known_and_can_be_referred_to() {
        let mut decoder = Decoder::default();
        for wrong in [
            "40 0141 0131",                     // a capital letter
            "88",                               // a status
            "40 0a 636f6e6e656374696f6e 01 78", // connection
            "40 02 7465 04 677a6970",           // te: gzip
            "44 00",                            // an empty path
            "44 01 78",                         // a path without a slash
            "40 0161 02 2062",                  // a blank before the value
            "40 0161 02 620a",                  // a line's end in it
            "40 00 00",                         // no name
        ] {
            assert!(
                decoded(&mut decoder, wrong).unwrap().starts_with("wrong"),
                "{wrong}"
            );
        }
        assert_eq!(decoded(&mut decoder, "be").as_deref(), Ok("wrong, 0 bytes"));
        // The name of a field with a wrong value is right.
        assert_eq!(decoded(&mut decoder, "0f 30 01 63").as_deref(), Ok("a c"));
    }
}
