//! The first message of a connection, judged before anything is kept for the connection.

use super::error::FrameError;
use super::header::{ENVELOPE_HEADER_BYTES, EnvelopeHeader, decode_version};
use super::reader::Envelope;
use crate::opcode::Direction;

/// How much of a connection's first message has arrived.
#[derive(Clone, Copy, Debug)]
pub enum FirstMessage<'a> {
    /// Less than its header, and nothing wrong so far.
    Nothing,
    /// Its header and some of its body.
    Begun(EnvelopeHeader),
    Whole(Envelope<'a>),
}

/// Looks at the first bytes that a client sent. Takes no memory and keeps no state: call it again with more bytes.
///
/// `envelope_bytes_max` bounds header and body. Any error ends the connection: no boundary can be trusted yet.
pub fn first_message(bytes: &[u8], envelope_bytes_max: u32) -> Result<FirstMessage<'_>, FrameError> {
    let Some(&first) = bytes.first() else {
        return Ok(FirstMessage::Nothing);
    };
    decode_version(first, 0)?;
    let Some((head, rest)) = bytes.split_first_chunk::<ENVELOPE_HEADER_BYTES>() else {
        return Ok(FirstMessage::Nothing);
    };
    let header = EnvelopeHeader::decode(head, Direction::Request).map_err(FrameError::fatal)?;
    let length = ENVELOPE_HEADER_BYTES as u64 + u64::from(header.body_bytes);
    if length > u64::from(envelope_bytes_max) {
        return Err(FrameError::EnvelopeTooBig {
            length,
            maximum: u64::from(envelope_bytes_max),
            stream: header.stream,
        });
    }
    Ok(match rest.get(..header.body_bytes as usize) {
        Some(body) => FirstMessage::Whole(Envelope { header, body }),
        None => FirstMessage::Begun(header),
    })
}

/// Returns whether `bytes` are one message to its end and nothing behind it, by the length in its header, whatever else is
/// wrong with it. Versions before 3 have another header: false for their messages.
pub fn is_one_message(bytes: &[u8]) -> bool {
    let Some((&[version, .., a, b, c, d], body)) = bytes.split_first_chunk::<ENVELOPE_HEADER_BYTES>() else {
        return false;
    };
    version >= 3 && u32::from_be_bytes([a, b, c, d]) as usize == body.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opcode::Opcode;

    const STARTUP: [u8; 12] = [4, 0, 0, 1, 1, 0, 0, 0, 3, 7, 8, 9];

    #[test]
    fn a_message_is_nothing_then_begun_then_whole() {
        for length in 0..=STARTUP.len() {
            let found = first_message(&STARTUP[..length], 100).unwrap();
            match (length, found) {
                (0..=8, FirstMessage::Nothing) | (9..=11, FirstMessage::Begun(_)) => {}
                (12, FirstMessage::Whole(envelope)) => {
                    assert_eq!(envelope.header.opcode, Opcode::Startup);
                    assert_eq!(envelope.body, [7, 8, 9]);
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn what_is_wrong_is_seen_in_the_first_byte_that_shows_it() {
        let error = first_message(&[66], 100).unwrap_err();
        assert!(matches!(error, FrameError::UnsupportedVersion { number: 66, .. }));
        let error = first_message(&STARTUP[..9], 11).unwrap_err();
        assert!(matches!(
            error,
            FrameError::EnvelopeTooBig {
                length: 12,
                maximum: 11,
                stream: 1
            }
        ));
    }
    #[test]
    fn one_message_ends_where_its_header_says_even_in_a_version_that_nobody_speaks() {
        for length in 0..STARTUP.len() {
            assert!(!is_one_message(&STARTUP[..length]));
        }
        assert!(is_one_message(&STARTUP));
        assert!(is_one_message(&[66, 0, 0, 1, 5, 0, 0, 0, 0]));
        assert!(!is_one_message(&[66, 0, 0, 1, 5, 0, 0, 0, 0, 9]));
        assert!(!is_one_message(&[66, 0, 0, 1, 5, 0xff, 0xff, 0xff, 0xff]));
        // A header of eight bytes and a body of one.
        assert!(!is_one_message(&[2, 0, 0, 5, 0, 0, 0, 1, 0]));
    }
}
