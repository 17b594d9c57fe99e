//! Lines of text in styles, as wide as their characters: none of them is wider than a column.

use std::fmt::Write as _;

/// Look of a part of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Plain,
    Bold,
    Blue,
    Red,
}

impl Style {
    /// Parameter of the sequence SGR (ECMA-48, 8.3.117).
    fn parameter(self) -> u8 {
        match self {
            Style::Plain => 0,
            Style::Bold => 1,
            Style::Red => 31,
            Style::Blue => 34,
        }
    }
}

/// A line, in parts of one style each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    parts: Vec<(Style, String)>,
}

impl Line {
    pub fn new(style: Style, text: impl Into<String>) -> Self {
        Line {
            parts: vec![(style, text.into())],
        }
    }

    pub fn plain(text: impl Into<String>) -> Self {
        Line::new(Style::Plain, text)
    }

    /// Appends another line's parts.
    #[must_use]
    pub fn then(mut self, next: Line) -> Self {
        self.parts.extend(next.parts);
        self
    }

    /// Columns that it takes.
    pub fn width(&self) -> usize {
        self.parts.iter().map(|(_, text)| text.chars().count()).sum()
    }

    /// Cuts it, or fills it up with spaces, to this many columns.
    #[must_use]
    pub(crate) fn fitted(mut self, columns: usize) -> Self {
        let mut left = columns;
        for (_, text) in &mut self.parts {
            let end = text.char_indices().nth(left).map_or(text.len(), |(end, _)| end);
            text.truncate(end);
            left -= text.chars().count();
        }
        self.parts.push((Style::Plain, " ".repeat(left)));
        self
    }

    /// Text without styles.
    pub fn text(&self) -> String {
        self.parts.iter().map(|(_, text)| text.as_str()).collect()
    }

    /// Appends what a terminal is sent: control characters of the text are shown as `?`.
    pub(crate) fn render(&self, out: &mut String) {
        for (style, text) in &self.parts {
            let _infallible = write!(out, "\x1b[{}m", style.parameter());
            out.extend(
                text.chars()
                    .map(|shown| if shown.is_control() { '?' } else { shown }),
            );
        }
        out.push_str("\x1b[0m");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_fits_whatever_it_says() {
        let line = Line::new(Style::Bold, "größe ").then(Line::plain("12 µs"));
        assert_eq!(line.width(), 11);
        assert_eq!(line.clone().fitted(14).text(), "größe 12 µs   ");
        assert_eq!(line.clone().fitted(8).text(), "größe 12");
        assert_eq!(line.clone().fitted(3).text(), "grö");
        assert_eq!(line.fitted(0).text(), "");
    }

    /// A keyspace's or client's name could move the cursor or change the terminal's title.
    #[test]
    fn a_text_does_not_command_the_terminal() {
        let mut out = String::new();
        Line::plain("a\x1b]0;b\x07").render(&mut out);
        assert_eq!(out, "\x1b[0ma?]0;b?\x1b[0m");
    }
}
