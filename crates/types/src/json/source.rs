//! Places and characters of a source, as Java names them.

use std::fmt::Write as _;

/// The source that a message shows, in UTF-16 units.
const SOURCE_SHOWN_MAX: usize = 500;

/// A place in a text, as messages name it.
pub(super) fn source_at(text: &str, line: usize, column: usize) -> String {
    let mut out = String::from("[Source: (String)\"");
    let mut units = 0;
    let mut rest = text.chars();
    for character in rest.by_ref() {
        let is_shown_as_it_is = !character.is_control() || matches!(character, '\r' | '\n');
        // Writing to a String cannot fail.
        let _ = match is_shown_as_it_is {
            true => write!(out, "{character}"),
            false => write!(out, "\\u{:04X}", u32::from(character)),
        };
        units += character.len_utf16();
        if units >= SOURCE_SHOWN_MAX {
            break;
        }
    }
    out.push('"');
    let left = rest.as_str().encode_utf16().count();
    let _ = match left {
        0 => write!(out, "; line: {line}, column: {column}]"),
        left => write!(out, "[truncated {left} chars]; line: {line}, column: {column}]"),
    };
    out
}

/// A character with its code; of two UTF-16 units the first one, which is none by itself.
pub(super) fn described(character: char) -> String {
    let code = match character.len_utf16() {
        1 => u32::from(character),
        _ => u32::from(character.encode_utf16(&mut [0; 2])[0]),
    };
    match char::from_u32(code) {
        _ if code < 0x20 || (0x7f..0xa0).contains(&code) => format!("(CTRL-CHAR, code {code})"),
        Some(character) if code < 0x100 => format!("'{character}' (code {code})"),
        character => format!("'{}' (code {code} / 0x{code:x})", character.unwrap_or('?')),
    }
}

/// Nearly Java's `isJavaIdentifierPart`.
pub(super) fn is_identifier_part(character: char) -> bool {
    character.len_utf16() == 1 && (character.is_alphanumeric() || is_currency_or_connector(character))
}

pub(super) fn is_currency_or_connector(character: char) -> bool {
    matches!(character, '$' | '_' | '¢'..='¥' | '€' | '₠'..='⃀' | '‿' | '⁀')
}
