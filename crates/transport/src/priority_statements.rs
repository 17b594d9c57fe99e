//! Which statements are a driver's own business: they pass where others are refused, or no client could find its way
//! back after an overload.

use helenus_protocol::Opcode;
use helenus_protocol::frame::Envelope;

/// Statements of this kind that one turn of a connection lets pass although they waited too long: more than any driver
/// sends at once, and few enough that a flood of them is no way around admission.
pub const PRIORITY_PER_TURN_MAX: u32 = 16;

/// How much of a statement's text is looked at for the table it reads.
const TEXT_BYTES_LOOKED_AT_MAX: usize = 256;

/// PREPARE, schema statements, USE, DESCRIBE and reads of system tables.
pub fn is_priority(envelope: &Envelope<'_>) -> bool {
    match envelope.header.opcode {
        Opcode::Prepare => true,
        Opcode::Query => envelope.body.get(4..).is_some_and(is_priority_text),
        _ => false,
    }
}

/// `text` may end in what follows it in the message.
fn is_priority_text(text: &[u8]) -> bool {
    let text = text.trim_ascii_start();
    let word_bytes = text.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    let (word, rest) = text.split_at(word_bytes);
    let is = |wanted: &str| word.eq_ignore_ascii_case(wanted.as_bytes());
    if is("select") {
        let looked_at = &rest[..rest.len().min(TEXT_BYTES_LOOKED_AT_MAX)];
        return looked_at
            .windows(b" system".len())
            .any(|window| window.eq_ignore_ascii_case(b" system"));
    }
    ["create", "alter", "drop", "use", "describe", "desc"]
        .into_iter()
        .any(is)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_own_statements_are_told_from_their_users() {
        for text in [
            "SELECT * FROM system.local WHERE key='local'",
            "select peer from system.peers_v2",
            "SELECT * FROM system_schema.tables",
            "  CREATE TABLE t (p int PRIMARY KEY)",
            "USE k",
            "DESCRIBE KEYSPACES",
        ] {
            assert!(is_priority_text(text.as_bytes()), "{text}");
        }
        for text in [
            "SELECT * FROM k.t",
            "INSERT INTO k.t (p) VALUES (1)",
            "BEGIN BATCH",
            "UPDATE k.t SET v = 1 WHERE p = 1",
            "TRUNCATE k.t",
            "",
        ] {
            assert!(!is_priority_text(text.as_bytes()), "{text}");
        }
    }
}
