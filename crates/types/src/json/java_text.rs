//! JSON values as messages name them: by the class of the Java object, and as that prints itself.

use super::error::TEXT_SHOWN_BYTES_MAX;
use super::number::JsonNumber;
use super::value::{JsonKind, JsonValue, literal_length, unescaped};

impl JsonValue<'_> {
    /// The class without its package.
    pub(super) fn class_name(&self) -> &'static str {
        match self.kind() {
            JsonKind::Null => "null",
            JsonKind::Boolean(_) => "Boolean",
            JsonKind::Number => JsonNumber::of(self.number_text()).class_name(),
            JsonKind::String => "String",
            JsonKind::Array => "ArrayList",
            JsonKind::Object => "LinkedHashMap",
        }
    }

    pub(super) fn class(&self) -> String {
        let package = match self.class_name() {
            "BigInteger" => "java.math",
            "ArrayList" | "LinkedHashMap" => "java.util",
            _ => "java.lang",
        };
        format!("{package}.{}", self.class_name())
    }

    /// As Java prints it, cut where a message has no room for more; but of a name that comes twice both values are shown.
    /// One pass over the text, however deep it nests.
    pub(super) fn java_text(&self) -> String {
        let mut out = String::new();
        let mut rest = self.text();
        let mut depth = 0_usize;
        while let Some(&byte) = rest.as_bytes().first()
            && out.len() <= TEXT_SHOWN_BYTES_MAX
        {
            let mut taken = 1;
            match byte {
                b'[' | b'{' => {
                    depth += 1;
                    out.push(char::from(byte));
                }
                b']' | b'}' => {
                    depth = depth.saturating_sub(1);
                    out.push(char::from(byte));
                }
                b',' => out.push_str(", "),
                b':' => out.push('='),
                b' ' | b'\t' | b'\r' | b'\n' => {}
                b'"' => {
                    let (string, length) = unescaped(rest);
                    out.push_str(&string);
                    taken = length;
                }
                _ => {
                    taken = literal_length(rest.as_bytes());
                    let literal = rest.get(..taken).unwrap_or_default();
                    match byte {
                        b't' => out.push_str("true"),
                        b'f' => out.push_str("false"),
                        b'n' => out.push_str("null"),
                        _ => out.push_str(&JsonNumber::of(literal).text()),
                    }
                }
            }
            if depth == 0 {
                break;
            }
            rest = rest.get(taken..).unwrap_or_default();
        }
        out.truncate(out.floor_char_boundary(TEXT_SHOWN_BYTES_MAX));
        out
    }
}
