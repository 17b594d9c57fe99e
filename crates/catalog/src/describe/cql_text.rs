//! CQL text with Cassandra's indentation.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

/// Grows a statement line by line; a line is indented when its first character is written.
#[derive(Debug, Default)]
pub(super) struct CqlText {
    text: String,
    indent: usize,
    is_line_start: bool,
}

const INDENTATION: &str = "    ";

impl CqlText {
    pub fn push(&mut self, part: impl fmt::Display) -> &mut Self {
        if std::mem::take(&mut self.is_line_start) {
            self.text.push_str(&INDENTATION.repeat(self.indent));
        }
        // Writing to a String cannot fail.
        let _ = write!(self.text, "{part}");
        self
    }

    pub fn new_line(&mut self) -> &mut Self {
        self.text.push('\n');
        self.is_line_start = true;
        self
    }

    pub fn indented(&mut self, fill: impl FnOnce(&mut Self)) -> &mut Self {
        self.indent += 1;
        fill(self);
        self.indent -= 1;
        self
    }

    pub fn quoted(&mut self, text: &str) -> &mut Self {
        self.push(format_args!("'{}'", text.replace('\'', "''")))
    }

    /// A map in the order of its keys.
    pub fn map(&mut self, entries: &BTreeMap<String, String>) -> &mut Self {
        self.push("{");
        for (index, (key, value)) in entries.iter().enumerate() {
            if index > 0 {
                self.push(", ");
            }
            self.quoted(key).push(": ").quoted(value);
        }
        self.push("}")
    }

    pub fn into_string(self) -> String {
        self.text
    }
}
