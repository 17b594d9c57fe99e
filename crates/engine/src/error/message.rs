//! Texts of errors.

use std::fmt;

/// The text of an error. Fixed texts cost nothing; others are formatted where the names they mention are at hand.
#[derive(Clone, PartialEq, Eq)]
pub struct Message(MessageText);

#[derive(Clone, PartialEq, Eq)]
enum MessageText {
    Fixed(&'static str),
    #[expect(
        clippy::box_collection,
        reason = "in two steps, so that a Message has the size of a &str"
    )]
    Formatted(Box<String>),
}

impl From<fmt::Arguments<'_>> for Message {
    fn from(text: fmt::Arguments<'_>) -> Self {
        Message(match text.as_str() {
            Some(fixed) => MessageText::Fixed(fixed),
            None => MessageText::Formatted(Box::new(text.to_string())),
        })
    }
}

impl From<&'static str> for Message {
    fn from(text: &'static str) -> Self {
        Message(MessageText::Fixed(text))
    }
}

impl Message {
    pub fn as_str(&self) -> &str {
        match &self.0 {
            MessageText::Fixed(text) => text,
            MessageText::Formatted(text) => text,
        }
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}
