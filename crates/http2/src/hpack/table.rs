//! The tables that fields are referred to by: one that is the same for all (RFC 7541, appendix A), one of what was sent before.

use std::collections::VecDeque;
use std::sync::LazyLock;

use super::Corrupt;
use super::field::{Field, Name};

/// Bytes that a table of what was sent may count: what HTTP/2 begins with, and no setting of ours changes.
pub const TABLE_BYTES_MAX: usize = 4_096;

/// Bytes that are counted for each field beside its name and value (RFC 7541, section 4.1).
pub const FIELD_BYTES: usize = 32;

/// RFC 7541, appendix A: the first one has index 1.
const STATIC: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

/// A field, and what it counts.
#[derive(Clone, Debug)]
pub struct Entry {
    pub field: Field,
    pub bytes: usize,
}

impl Entry {
    pub fn read(name: Name, value: &[u8]) -> Entry {
        let bytes = name.len() + value.len() + FIELD_BYTES;
        let field = Field::read(name, value);
        Entry { field, bytes }
    }
}

static STATIC_ENTRIES: LazyLock<Vec<Entry>> = LazyLock::new(|| {
    let read = |(name, value): &(&str, &str)| Entry::read(Name::read(name.as_bytes()), value.as_bytes());
    STATIC.iter().map(read).collect()
});

/// Fields that a client has sent before.
#[derive(Debug)]
pub struct Table {
    /// The last one is the first.
    entries: VecDeque<Entry>,
    bytes: usize,
    bytes_max: usize,
}

impl Default for Table {
    fn default() -> Self {
        Table {
            entries: VecDeque::new(),
            bytes: 0,
            bytes_max: TABLE_BYTES_MAX,
        }
    }
}

impl Table {
    pub fn get(&self, index: usize) -> Result<&Entry, Corrupt> {
        let index = index.checked_sub(1).ok_or(Corrupt)?;
        let entry = match index.checked_sub(STATIC.len()) {
            None => STATIC_ENTRIES.get(index),
            Some(index) => self.entries.get(index),
        };
        entry.ok_or(Corrupt)
    }

    /// Those that were added first give way. One that is longer than all of the table empties it.
    pub fn add(&mut self, entry: Entry) {
        self.bytes += entry.bytes;
        self.entries.push_front(entry);
        self.shrink();
    }

    pub fn resize(&mut self, bytes_max: usize) -> Result<(), Corrupt> {
        if bytes_max > TABLE_BYTES_MAX {
            return Err(Corrupt);
        }
        self.bytes_max = bytes_max;
        self.shrink();
        Ok(())
    }

    fn shrink(&mut self) {
        while self.bytes > self.bytes_max
            && let Some(oldest) = self.entries.pop_back()
        {
            self.bytes -= oldest.bytes;
        }
    }
}
