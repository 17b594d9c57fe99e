//! JSON in the layout of Cassandra's tools: objects and arrays spread over lines, or kept on one where the writer says
//! so in the middle of them.

use std::io::{self, Write};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Pretty,
    /// Without any white space, a line feed between roots.
    Lines,
}

/// Writes JSON token by token. Whether a value is set off by a line or a blank depends on the two compact flags at the
/// moment it is written, and an empty array or object is `[ ]` or `{ }`.
pub struct JsonPrinter<'a> {
    out: &'a mut dyn Write,
    style: Style,
    /// Values (or fields) written so far, of each array or object that is open.
    open: Vec<Open>,
    pub compact_objects: bool,
    pub compact_arrays: bool,
    has_root: bool,
}

struct Open {
    is_array: bool,
    count: usize,
}

const INDENT: &str = "  ";

impl<'a> JsonPrinter<'a> {
    pub fn new(out: &'a mut dyn Write, style: Style) -> Self {
        JsonPrinter {
            out,
            style,
            open: Vec::new(),
            compact_objects: false,
            compact_arrays: false,
            has_root: false,
        }
    }

    pub fn begin_object(&mut self) -> io::Result<()> {
        self.begin(b"{", false)
    }

    pub fn begin_array(&mut self) -> io::Result<()> {
        self.begin(b"[", true)
    }

    pub fn end_object(&mut self) -> io::Result<()> {
        self.end(b"}", self.compact_objects)
    }

    pub fn end_array(&mut self) -> io::Result<()> {
        self.end(b"]", self.compact_arrays)
    }

    pub fn field(&mut self, name: &str) -> io::Result<()> {
        self.next_entry(self.compact_objects)?;
        self.quoted(name)?;
        let separator: &[u8] = match self.style {
            Style::Pretty => b" : ",
            Style::Lines => b":",
        };
        self.out.write_all(separator)
    }

    pub fn text_field(&mut self, name: &str, value: &str) -> io::Result<()> {
        self.field(name)?;
        self.text(value)
    }

    pub fn raw_field(&mut self, name: &str, value: impl std::fmt::Display) -> io::Result<()> {
        self.field(name)?;
        self.raw(&value.to_string())
    }

    pub fn text(&mut self, value: &str) -> io::Result<()> {
        self.next_value()?;
        self.quoted(value)
    }

    /// A value that is JSON already.
    pub fn raw(&mut self, value: &str) -> io::Result<()> {
        self.next_value()?;
        self.out.write_all(value.as_bytes())
    }

    fn begin(&mut self, bracket: &[u8], is_array: bool) -> io::Result<()> {
        self.next_value()?;
        self.open.push(Open { is_array, count: 0 });
        self.out.write_all(bracket)
    }

    fn end(&mut self, bracket: &[u8], is_compact: bool) -> io::Result<()> {
        let count = self.open.pop().map_or(0, |open| open.count);
        if self.style == Style::Pretty {
            if count > 0 {
                self.indent(is_compact)?;
            } else {
                self.out.write_all(b" ")?;
            }
        }
        self.out.write_all(bracket)
    }

    /// Prints the separator between a value and the one before; a field's value follows its name.
    fn next_value(&mut self) -> io::Result<()> {
        match self.open.last() {
            Some(open) if open.is_array => self.next_entry(self.compact_arrays),
            Some(_) => Ok(()),
            None => {
                let is_first = !std::mem::replace(&mut self.has_root, true);
                if is_first {
                    Ok(())
                } else {
                    self.out.write_all(b"\n")
                }
            }
        }
    }

    fn next_entry(&mut self, is_compact: bool) -> io::Result<()> {
        let count = self.open.last_mut().map_or(0, |open| {
            open.count += 1;
            open.count
        });
        if count > 1 {
            self.out.write_all(b",")?;
        }
        if self.style == Style::Pretty {
            self.indent(is_compact)?;
        }
        Ok(())
    }

    fn indent(&mut self, is_compact: bool) -> io::Result<()> {
        if is_compact {
            return self.out.write_all(b" ");
        }
        self.out.write_all(b"\n")?;
        (0..self.open.len()).try_for_each(|_| self.out.write_all(INDENT.as_bytes()))
    }

    fn quoted(&mut self, text: &str) -> io::Result<()> {
        let mut quoted = String::with_capacity(text.len() + 2);
        push_quoted(&mut quoted, text);
        self.out.write_all(quoted.as_bytes())
    }
}

/// A JSON string, escaped as Jackson does it.
pub fn push_quoted(out: &mut String, text: &str) {
    out.push('"');
    push_escaped(out, text);
    out.push('"');
}

pub fn push_escaped(out: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            control if u32::from(control) < 0x20 => {
                out.push_str(&format!("\\u{:04X}", u32::from(control)));
            }
            other => out.push(other),
        }
    }
}
