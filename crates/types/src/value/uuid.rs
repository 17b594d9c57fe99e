//! UUIDs: the 16 bytes, most significant first.

use uuid::Uuid;

/// Lower case with four hyphens.
pub fn format_uuid(bytes: [u8; 16]) -> String {
    Uuid::from_bytes(bytes).hyphenated().to_string()
}

/// Reads the hyphenated form only, in either case.
pub fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    // The crate also reads bare, braced and URN forms, which Cassandra does not.
    let has_hyphen = |at| text.as_bytes().get(at) == Some(&b'-');
    let is_hyphenated = text.len() == 36 && [8, 13, 18, 23].into_iter().all(has_hyphen);
    if !is_hyphenated {
        return None;
    }
    Uuid::try_parse(text).ok().map(Uuid::into_bytes)
}

/// The version number, in the top half of byte 6.
pub(crate) fn uuid_version(bytes: [u8; 16]) -> u8 {
    bytes[6] >> 4
}
