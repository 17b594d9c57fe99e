//! A cursor over the text of a constant.

/// Reads text from the front; a failed read returns None and leaves the cursor where it was.
#[derive(Clone, Copy)]
pub(crate) struct Scan<'a>(&'a str);

impl<'a> Scan<'a> {
    pub(crate) fn new(text: &'a str) -> Scan<'a> {
        Scan(text)
    }

    pub(crate) fn is_done(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn rest(&self) -> &'a str {
        self.0
    }

    pub(crate) fn literal(&mut self, wanted: &str) -> Option<()> {
        self.0 = self.0.strip_prefix(wanted)?;
        Some(())
    }

    /// Between `min` and `max` ASCII digits, as many as there are.
    pub(crate) fn digits(&mut self, min: usize, max: usize) -> Option<&'a str> {
        let count = self.0.bytes().take(max).take_while(u8::is_ascii_digit).count();
        if count < min {
            return None;
        }
        let (digits, rest) = self.0.split_at(count);
        self.0 = rest;
        Some(digits)
    }

    pub(crate) fn number(&mut self, min: usize, max: usize) -> Option<i64> {
        let before = *self;
        let number = self.digits(min, max)?.parse().ok();
        if number.is_none() {
            *self = before;
        }
        number
    }
}
