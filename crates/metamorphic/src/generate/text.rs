//! A statement under construction: text, and a value for each of its markers.

use helenus_schema::ColumnMetadata;
use helenus_types::quoted_identifier;

use crate::script::Statement;
use crate::value::Value;

#[derive(Default)]
pub struct Text {
    text: String,
    values: Vec<Option<Value>>,
}

impl Text {
    pub fn of(text: impl Into<String>) -> Text {
        Text {
            text: text.into(),
            values: Vec::new(),
        }
    }

    pub fn put(&mut self, text: &str) -> &mut Self {
        self.text.push_str(text);
        self
    }

    pub fn name(&mut self, column: &ColumnMetadata) -> &mut Self {
        self.text.push_str(&quoted_identifier(&column.name));
        self
    }

    /// A marker.
    pub fn bind(&mut self, value: Option<Value>) -> &mut Self {
        self.text.push('?');
        self.values.push(value);
        self
    }

    /// `separator` goes between the parts.
    pub fn list<T>(
        &mut self,
        separator: &str,
        parts: impl IntoIterator<Item = T>,
        mut write: impl FnMut(&mut Self, T),
    ) -> &mut Self {
        for (index, part) in parts.into_iter().enumerate() {
            if index > 0 {
                self.put(separator);
            }
            write(self, part);
        }
        self
    }

    pub fn equalities(&mut self, columns: Vec<(&ColumnMetadata, Value)>) -> &mut Self {
        self.list(" AND ", columns, |text, (column, value)| {
            text.name(column).put(" = ").bind(Some(value));
        })
    }

    /// Another statement as a part of this one.
    pub fn include(&mut self, other: Text) -> &mut Self {
        self.text.push_str(&other.text);
        self.values.extend(other.values);
        self
    }

    pub fn has(&self, part: &str) -> bool {
        self.text.contains(part)
    }

    pub fn begins_with(&self, start: &str) -> bool {
        self.text.starts_with(start)
    }

    pub fn finish(self) -> Statement {
        Statement {
            text: self.text,
            values: self.values,
        }
    }
}
