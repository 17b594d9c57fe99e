//! The specification's notations, appended to a buffer the caller owns.

use std::fmt::{self, Write as _};
use std::net::{IpAddr, SocketAddr};

use crate::consistency::Consistency;

/// The longest `[string]` or `[short bytes]`: their length has 2 bytes.
pub(crate) const SHORT_LENGTH_MAX: usize = u16::MAX as usize;

#[inline]
pub(crate) fn put_byte(out: &mut Vec<u8>, value: u8) {
    out.push(value);
}

#[inline]
pub fn put_short(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_be_bytes());
}

#[inline]
pub(crate) fn put_int(out: &mut Vec<u8>, value: i32) {
    out.extend_from_slice(&value.to_be_bytes());
}

#[inline]
pub(crate) fn put_long(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// `[string]`. Text beyond 65,535 bytes, which the notation cannot carry, is cut at a character's boundary: only
/// error messages and warnings can come near it, identifiers are limited far below.
#[inline]
pub fn put_string(out: &mut Vec<u8>, text: &str) {
    let end = text.floor_char_boundary(SHORT_LENGTH_MAX);
    put_short(out, end as u16);
    out.extend_from_slice(&text.as_bytes()[..end]);
}

/// `[string]` formatted in place, without a `String` in between; cut at 65,535 bytes as [`put_string`].
pub(crate) fn put_formatted(out: &mut Vec<u8>, text: impl fmt::Display) {
    let length_at = out.len();
    put_short(out, 0);
    let mut bounded = BoundedText {
        out,
        bytes_left: SHORT_LENGTH_MAX,
    };
    // `BoundedText` swallows what does not fit and never fails; a `Display` that reports an error of its own leaves
    // the text it has written so far.
    let _ = write!(bounded, "{text}");
    // At most SHORT_LENGTH_MAX bytes were let through.
    let length = (out.len() - length_at - 2) as u16;
    out[length_at..length_at + 2].copy_from_slice(&length.to_be_bytes());
}

/// `[long string]`.
#[inline]
pub(crate) fn put_long_string(out: &mut Vec<u8>, text: &str) {
    put_length(out, text.len());
    out.extend_from_slice(text.as_bytes());
}

/// `[short bytes]`. The caller's bytes are identifiers of 16 bytes; longer than 65,535 is a bug.
#[inline]
pub(crate) fn put_short_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    assert!(
        bytes.len() <= SHORT_LENGTH_MAX,
        "short bytes of {} bytes",
        bytes.len()
    );
    put_short(out, bytes.len() as u16);
    out.extend_from_slice(bytes);
}

/// `[bytes]`: `None` is null.
#[inline]
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => {
            put_length(out, bytes.len());
            out.extend_from_slice(bytes);
        }
        None => put_int(out, -1),
    }
}

#[inline]
pub(crate) fn put_consistency(out: &mut Vec<u8>, consistency: Consistency) {
    put_short(out, consistency.code());
}

/// `[string list]`, of at most 65,535 strings; the rest is left out.
pub(crate) fn put_string_list(out: &mut Vec<u8>, texts: &[impl AsRef<str>]) {
    let count = texts.len().min(SHORT_LENGTH_MAX);
    put_short(out, count as u16);
    for text in &texts[..count] {
        put_string(out, text.as_ref());
    }
}

/// `[bytes map]`, of at most 65,535 entries; the rest is left out.
pub(crate) fn put_bytes_map(out: &mut Vec<u8>, entries: &[(&str, Option<&[u8]>)]) {
    let count = entries.len().min(SHORT_LENGTH_MAX);
    put_short(out, count as u16);
    for (key, value) in &entries[..count] {
        put_string(out, key);
        put_bytes(out, *value);
    }
}

/// `[inetaddr]`.
pub(crate) fn put_inet_address(out: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(address) => {
            put_byte(out, 4);
            out.extend_from_slice(&address.octets());
        }
        IpAddr::V6(address) => {
            put_byte(out, 16);
            out.extend_from_slice(&address.octets());
        }
    }
}

/// `[inet]`.
pub(crate) fn put_inet(out: &mut Vec<u8>, address: SocketAddr) {
    put_inet_address(out, address.ip());
    put_int(out, i32::from(address.port()));
}

/// A 4-byte length. A body is refused long before 2 GiB, so a longer piece of one is a bug.
#[inline]
fn put_length(out: &mut Vec<u8>, length: usize) {
    assert!(
        length <= i32::MAX as usize,
        "a piece of {length} bytes has no 4-byte length"
    );
    put_int(out, length as i32);
}

struct BoundedText<'a> {
    out: &'a mut Vec<u8>,
    bytes_left: usize,
}

impl fmt::Write for BoundedText<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = text.floor_char_boundary(self.bytes_left);
        self.out.extend_from_slice(&text.as_bytes()[..end]);
        // Once a piece was cut nothing may follow it, or the text would have a hole.
        self.bytes_left = if end < text.len() {
            0
        } else {
            self.bytes_left - end
        };
        Ok(())
    }
}
