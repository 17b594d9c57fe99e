//! The answers that make a connection usable: READY, AUTHENTICATE and its like, SUPPORTED.

use crate::wire::{put_bytes, put_short, put_string, put_string_list};

/// READY has no body; the function exists so that every response has an encoder.
pub fn write_ready(_out: &mut Vec<u8>) {}

/// AUTHENTICATE: the class of the authenticator, which drivers match by name.
pub fn write_authenticate(out: &mut Vec<u8>, authenticator: &str) {
    put_string(out, authenticator);
}

pub fn write_auth_challenge(out: &mut Vec<u8>, token: &[u8]) {
    put_bytes(out, Some(token));
}

/// AUTH_SUCCESS; the authenticators drivers know send a null token.
pub fn write_auth_success(out: &mut Vec<u8>, token: Option<&[u8]>) {
    put_bytes(out, token);
}

/// SUPPORTED: a map of lists, whose count is patched as options are added.
#[derive(Debug)]
pub struct SupportedWriter {
    count_at: usize,
}

impl SupportedWriter {
    pub fn begin(out: &mut Vec<u8>) -> Self {
        let count_at = out.len();
        put_short(out, 0);
        SupportedWriter { count_at }
    }

    pub fn option(&self, out: &mut Vec<u8>, name: &str, values: &[impl AsRef<str>]) {
        put_string(out, name);
        put_string_list(out, values);
        let count = &mut out[self.count_at..self.count_at + 2];
        let next = u16::from_be_bytes([count[0], count[1]]) + 1;
        count.copy_from_slice(&next.to_be_bytes());
    }
}
