//! Frames: nine bytes that say what follows (RFC 9113, section 4.1).

use crate::fault::ErrorCode;

/// Bytes in front of each payload.
pub const HEAD_BYTES: usize = 9;

/// The longest payload that is taken and sent: what every client understands.
pub const PAYLOAD_BYTES_MAX: usize = 16_384;

/// First bytes of a client (RFC 9113, section 3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Streams have 31 bits; the rest is reserved and means nothing.
pub const STREAM_MAX: u32 = i32::MAX as u32;

/// Kinds of frames (RFC 9113, section 6).
pub const DATA: u8 = 0x0;
pub const HEADERS: u8 = 0x1;
pub const PRIORITY: u8 = 0x2;
pub const RST_STREAM: u8 = 0x3;
pub const SETTINGS: u8 = 0x4;
pub const PUSH_PROMISE: u8 = 0x5;
pub const PING: u8 = 0x6;
pub const GOAWAY: u8 = 0x7;
pub const WINDOW_UPDATE: u8 = 0x8;
pub const CONTINUATION: u8 = 0x9;

/// Flag of DATA and HEADERS: the last of its side.
pub const END_STREAM: u8 = 0x1;
/// Flag of SETTINGS and PING.
pub const ACK: u8 = 0x1;
/// Flag of HEADERS and CONTINUATION: the last of its block.
pub const END_HEADERS: u8 = 0x4;
/// Flag of DATA and HEADERS: the first byte counts bytes at the end that mean nothing.
pub const PADDED: u8 = 0x8;
/// Flag of HEADERS: five bytes that nobody heeds any more come first.
pub const HAS_PRIORITY: u8 = 0x20;

/// Settings (RFC 9113, section 6.5.2).
pub const ENABLE_PUSH: u16 = 0x2;
pub const MAX_CONCURRENT_STREAMS: u16 = 0x3;
pub const INITIAL_WINDOW_SIZE: u16 = 0x4;
pub const MAX_FRAME_SIZE: u16 = 0x5;
pub const MAX_HEADER_LIST_SIZE: u16 = 0x6;

/// A frame without its payload.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
}

impl Head {
    pub fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Takes the frame at the front of `input`; `None` if not all of it has come.
pub fn take<'i>(input: &mut &'i [u8]) -> Result<Option<(Head, &'i [u8])>, ErrorCode> {
    let Some((&[a, b, c, kind, flags, d, e, f, g], behind)) = input.split_first_chunk::<HEAD_BYTES>() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes([0, a, b, c]) as usize;
    if length > PAYLOAD_BYTES_MAX {
        return Err(ErrorCode::FrameSizeError);
    }
    let Some((payload, rest)) = behind.split_at_checked(length) else {
        return Ok(None);
    };
    *input = rest;
    let stream = u32::from_be_bytes([d, e, f, g]) & STREAM_MAX;
    Ok(Some((Head { kind, flags, stream }, payload)))
}

/// The nine bytes in front of a payload of `length`, which is at most [`PAYLOAD_BYTES_MAX`].
pub fn head(kind: u8, flags: u8, stream: u32, length: usize) -> [u8; HEAD_BYTES] {
    let [_, a, b, c] = (length as u32).to_be_bytes();
    let [d, e, f, g] = stream.to_be_bytes();
    [a, b, c, kind, flags, d, e, f, g]
}

/// The payload without what pads it.
pub fn unpadded(head: Head, payload: &[u8]) -> Result<&[u8], ErrorCode> {
    if !head.has(PADDED) {
        return Ok(payload);
    }
    let (&padding, rest) = payload.split_first().ok_or(ErrorCode::FrameSizeError)?;
    let length = rest.len().checked_sub(usize::from(padding));
    length
        .and_then(|length| rest.get(..length))
        .ok_or(ErrorCode::ProtocolError)
}
