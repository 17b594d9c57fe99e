//! The tokens made of digits: integers, floats, hexadecimal blobs, UUIDs and durations.

use super::fault::{LexicalFault, LexicalFaultKind};
use super::scanner::Scanner;
use super::token::TokenKind;

/// The groups of hexadecimal digits of a UUID.
const UUID_GROUPS: [usize; 5] = [8, 4, 4, 4, 12];

impl Scanner<'_> {
    /// A token that begins with a digit, or with a minus and a digit.
    pub(super) fn number(&mut self) -> Result<TokenKind, LexicalFault> {
        let sign = usize::from(self.byte(0) == Some(b'-'));
        if sign == 0 {
            if self.byte(0) == Some(b'0') && matches!(self.byte(1), Some(b'x' | b'X')) {
                self.at += 2 + self.count_while(2, |byte| byte.is_ascii_hexdigit());
                return Ok(TokenKind::Hex);
            }
            if let Some(kind) = self.uuid()? {
                return Ok(kind);
            }
        }
        let digits = sign + self.count_digits(sign);
        match self.byte(digits) {
            Some(b'.') if self.byte(digits + 1) == Some(b'.') && self.byte(digits + 2) != Some(b'.') => {
                self.at += digits;
                Ok(TokenKind::Integer)
            }
            Some(b'.') => {
                let fraction = digits + 1 + self.count_digits(digits + 1);
                self.float(fraction, LexicalFaultKind::ExpectedRepetition)
            }
            Some(b'e' | b'E') if sign > 0 => self.float(digits, LexicalFaultKind::ExpectedRepetition),
            // Without a sign it might also have become a UUID.
            Some(b'e' | b'E') => self.float(digits, LexicalFaultKind::NoViableAlternative),
            Some(byte) if begins_duration_unit(byte) => self.duration(digits),
            // The micro sign's first byte in UTF-8; no other token continues a number with it.
            Some(0xC2) if self.byte(digits + 1) == Some(0xB5) => self.duration(digits),
            _ => {
                self.at += digits;
                Ok(TokenKind::Integer)
            }
        }
    }

    fn count_digits(&self, offset: usize) -> usize {
        self.count_while(offset, |byte| byte.is_ascii_digit())
    }

    /// The exponent, if there is one, of a float whose other digits end at `mantissa`. `bare` is the complaint about
    /// an `e` which no exponent follows.
    fn float(&mut self, mantissa: usize, bare: LexicalFaultKind) -> Result<TokenKind, LexicalFault> {
        let mut length = mantissa;
        if matches!(self.byte(length), Some(b'e' | b'E')) {
            let signed = matches!(self.byte(length + 1), Some(b'+' | b'-'));
            length += 1 + usize::from(signed);
            let digits = self.count_digits(length);
            if digits == 0 {
                return self.fault(
                    length,
                    if signed {
                        LexicalFaultKind::ExpectedRepetition
                    } else {
                        bare
                    },
                );
            }
            length += digits;
        }
        self.at += length;
        Ok(TokenKind::Float)
    }

    /// `1y2mo3d`: numbers with units, of which the first number ends at `digits`.
    fn duration(&mut self, digits: usize) -> Result<TokenKind, LexicalFault> {
        let mut length = digits;
        loop {
            length += self.duration_unit(length)?;
            let digits = self.count_digits(length);
            if digits == 0 {
                self.at += length;
                return Ok(TokenKind::Duration);
            }
            length += digits;
        }
    }

    /// The length of the unit at `offset`.
    fn duration_unit(&self, offset: usize) -> Result<usize, LexicalFault> {
        let is_s = |offset| matches!(self.byte(offset), Some(b's' | b'S'));
        match self.byte(offset) {
            Some(b'm' | b'M') if is_s(offset + 1) || matches!(self.byte(offset + 1), Some(b'o' | b'O')) => {
                Ok(2)
            }
            Some(b'y' | b'Y' | b'm' | b'M' | b'w' | b'W' | b'd' | b'D' | b'h' | b'H' | b's' | b'S') => Ok(1),
            Some(b'u' | b'U' | b'n' | b'N') if is_s(offset + 1) => Ok(2),
            Some(b'u' | b'U' | b'n' | b'N') => self.fault(offset + 1, LexicalFaultKind::ExpectedOneOfSeveral),
            Some(0xC2) if self.byte(offset + 1) == Some(0xB5) && is_s(offset + 2) => Ok(3),
            Some(0xC2) if self.byte(offset + 1) == Some(0xB5) => {
                self.fault(offset + 2, LexicalFaultKind::ExpectedOneOfSeveral)
            }
            _ => self.fault(offset, LexicalFaultKind::NoViableAlternative),
        }
    }

    /// A UUID, if the next eight characters and the dash after them, or letters no number could contain, leave no
    /// other choice.
    pub(super) fn uuid(&mut self) -> Result<Option<TokenKind>, LexicalFault> {
        let run = self.count_while(0, |byte| byte.is_ascii_hexdigit());
        let commits = (run == 8 && self.byte(8) == Some(b'-')) || self.begins_like_uuid_only(run);
        if !commits {
            return Ok(None);
        }
        let mut length = 0;
        for (index, group) in UUID_GROUPS.into_iter().enumerate() {
            if index > 0 {
                if self.byte(length) != Some(b'-') {
                    return self.fault(length, LexicalFaultKind::Expected('-'));
                }
                length += 1;
            }
            for _ in 0..group {
                if !self.byte(length).is_some_and(|byte| byte.is_ascii_hexdigit()) {
                    return self.fault(length, LexicalFaultKind::ExpectedOneOfSeveral);
                }
                length += 1;
            }
        }
        self.at += length;
        Ok(Some(TokenKind::Uuid))
    }

    /// Returns whether a run of hexadecimal digits begins with a decimal digit but, within a UUID's first group, stops looking
    /// like an integer, a float with an exponent, or a duration of days.
    fn begins_like_uuid_only(&self, run: usize) -> bool {
        let run = run.min(UUID_GROUPS[0]);
        let mut end = self.count_digits(0);
        if end == 0 {
            return false;
        }
        if matches!(self.byte(end), Some(b'e' | b'E')) {
            end += 1 + self.count_digits(end + 1);
        }
        while matches!(self.byte(end), Some(b'd' | b'D'))
            && self.byte(end - 1).is_some_and(|byte| byte.is_ascii_digit())
        {
            end += 1 + self.count_digits(end + 1);
        }
        end < run
    }

    /// The length, sign included, of an ISO 8601 duration whose `P` is at `offset`; None when what follows could
    /// still be something else.
    pub(super) fn iso_duration(&self, offset: usize) -> Result<Option<usize>, LexicalFault> {
        let body = offset + 1;
        let digits = self.count_digits(body);
        if digits == 4 && self.byte(body + 4) == Some(b'-') {
            return self.iso_alternative_duration(body).map(Some);
        }
        if digits > 0 && self.byte(body + digits) == Some(b'W') {
            return Ok(Some(body + digits + 1));
        }
        let date = self.designated(body, b"YMD");
        let time = match self.byte(date) {
            Some(b'T') => self.designated(date + 1, b"HMS"),
            _ => date,
        };
        let end = if time > date + 1 { time } else { date };
        Ok((end > body).then_some(end))
    }

    /// The end of a series of numbers, each followed by one of `designators`, which come in this order.
    fn designated(&self, start: usize, designators: &[u8]) -> usize {
        let mut end = start;
        for designator in designators {
            let digits = self.count_digits(end);
            if digits > 0 && self.byte(end + digits) == Some(*designator) {
                end += digits + 1;
            }
        }
        end
    }

    /// `P0001-02-03T04:05:06`, whose four digits and first dash have been seen.
    fn iso_alternative_duration(&self, body: usize) -> Result<usize, LexicalFault> {
        for (index, wanted) in b"dddd-dd-ddTdd:dd:dd".iter().enumerate() {
            let found = self.byte(body + index);
            let matches = match wanted {
                b'd' => found.is_some_and(|byte| byte.is_ascii_digit()),
                other => found == Some(*other),
            };
            if !matches {
                let kind = match wanted {
                    b'd' => LexicalFaultKind::ExpectedOneOfSeveral,
                    other => LexicalFaultKind::Expected(char::from(*other)),
                };
                return self.fault(body + index, kind);
            }
        }
        Ok(body + "dddd-dd-ddTdd:dd:dd".len())
    }
}

/// Returns whether a number can be followed by the byte only as part of a duration.
fn begins_duration_unit(byte: u8) -> bool {
    matches!(
        byte.to_ascii_lowercase(),
        b'y' | b'm' | b'w' | b'd' | b'h' | b's' | b'u' | b'n'
    )
}
