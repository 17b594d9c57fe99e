//! The versions of SSTables that can be written.

use std::fmt;

/// One per release of Cassandra that has to read the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SsTableFormat {
    /// Read by Cassandra 3.11 and later, and by ScyllaDB.
    Me,
    /// Read by Cassandra 4.0 and later.
    Nb,
    /// Read by Cassandra 5.0.
    Oa,
    /// Read by Cassandra 5.0; indexed by tries.
    Da,
}

impl SsTableFormat {
    pub const ALL: [SsTableFormat; 4] = [
        SsTableFormat::Me,
        SsTableFormat::Nb,
        SsTableFormat::Oa,
        SsTableFormat::Da,
    ];
    /// Format written where neither the configuration nor the table says otherwise; Cassandra 5.0's own default.
    pub const DEFAULT: SsTableFormat = SsTableFormat::Nb;

    /// As in options and file names.
    pub fn name(self) -> &'static str {
        match self {
            SsTableFormat::Me => "me",
            SsTableFormat::Nb => "nb",
            SsTableFormat::Oa => "oa",
            SsTableFormat::Da => "da",
        }
    }

    /// In lower or upper case; `None` for what is no version or can only be read.
    pub fn parse(name: &str) -> Option<Self> {
        SsTableFormat::ALL
            .into_iter()
            .find(|format| format.name().eq_ignore_ascii_case(name))
    }

    /// All names, for messages.
    pub fn names() -> String {
        SsTableFormat::ALL.map(SsTableFormat::name).join(", ")
    }
}

impl fmt::Display for SsTableFormat {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_formats_that_are_written_can_be_asked_for() {
        assert_eq!(SsTableFormat::parse("OA"), Some(SsTableFormat::Oa));
        assert_eq!(SsTableFormat::parse("na"), None);
        assert_eq!(SsTableFormat::names(), "me, nb, oa, da");
    }
}
