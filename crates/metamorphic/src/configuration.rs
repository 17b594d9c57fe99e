//! Configuration of a node, of which a client must see nothing.

use std::fmt;
use std::str::FromStr;

use helenus_node::SsTableFormat;
use helenus_storage::commitlog::SEGMENT_BYTES_DEFAULT;
use helenus_storage::read_state::STEP_UNITS_MAX;

/// One way to run a node. As text: `disk shards=2 cache=on memory=64 format=nb index=64 page=100`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    pub home: Home,
    pub shard_count: u16,
    pub row_cache: bool,
    /// Memory of all shards together.
    pub memory_mib: u64,
    pub format: SsTableFormat,
    /// Cassandra's `column_index_size`.
    pub column_index_kib: u32,
    /// Rows asked for at a time; unpaged where there is none.
    pub page_rows: Option<i32>,
    /// True if the node is told of secondary indexes; what it answers must not depend on them.
    pub indexes: bool,
    /// True if every SELECT that restricts anything allows filtering, also where the statement does not say so.
    pub filtering: bool,
    /// True if statements are prepared and kept, whatever becomes of their tables and types.
    pub prepared: bool,
    /// True if the nearest vectors are found over the links of a graph however few they are.
    pub walks: bool,
    /// True if SELECTs are tried in the turn that they arrive in.
    pub at_once: bool,
    /// True if half of what is read counts as what the operating system has in memory.
    pub resident: bool,
    /// Units of work after which a read takes its next step.
    pub step_units: u32,
    /// Size of a segment of the log.
    pub segment_mib: u32,
}

/// The node's own.
pub const SEGMENT_MIB: u32 = SEGMENT_BYTES_DEFAULT >> 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// Nothing is ever written to a disk, and no event of the history takes place: what every other node is held
    /// against.
    Memory,
    /// A simulated disk, which knows what of it was synced.
    Disk,
}

impl fmt::Display for Configuration {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let home = match self.home {
            Home::Memory => "memory",
            Home::Disk => "disk",
        };
        let cache = if self.row_cache { "on" } else { "off" };
        write!(
            out,
            "{home} shards={} cache={cache} memory={} format={} index={}",
            self.shard_count,
            self.memory_mib,
            self.format.name(),
            self.column_index_kib
        )?;
        if let Some(rows) = self.page_rows {
            write!(out, " page={rows}")?;
        }
        if !self.indexes {
            out.write_str(" indexes=off")?;
        }
        if self.filtering {
            out.write_str(" filtering=on")?;
        }
        if self.prepared {
            out.write_str(" prepared=on")?;
        }
        if self.walks {
            out.write_str(" walks=on")?;
        }
        if self.at_once {
            out.write_str(" at_once=on")?;
        }
        if self.resident {
            out.write_str(" resident=on")?;
        }
        if self.step_units != STEP_UNITS_MAX {
            write!(out, " steps={}", self.step_units)?;
        }
        match self.segment_mib {
            SEGMENT_MIB => Ok(()),
            mib => write!(out, " segments={mib}"),
        }
    }
}

impl FromStr for Configuration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split_whitespace();
        let home = match words.next() {
            Some("memory") => Home::Memory,
            Some("disk") => Home::Disk,
            _ => return Err(format!("{text:?} begins with neither memory nor disk")),
        };
        let mut configuration = Configuration {
            home,
            shard_count: 1,
            row_cache: true,
            memory_mib: 64,
            format: SsTableFormat::DEFAULT,
            column_index_kib: 64,
            page_rows: None,
            indexes: true,
            filtering: false,
            prepared: false,
            walks: false,
            at_once: false,
            resident: false,
            step_units: STEP_UNITS_MAX,
            segment_mib: SEGMENT_MIB,
        };
        for word in words {
            configuration
                .set(word)
                .ok_or_else(|| format!("{word:?} is no setting"))?;
        }
        Ok(configuration)
    }
}

impl Configuration {
    fn set(&mut self, word: &str) -> Option<()> {
        let (name, value) = word.split_once('=')?;
        match name {
            "shards" => self.shard_count = value.parse().ok().filter(|count| *count > 0)?,
            "cache" => self.row_cache = is_on(value)?,
            "memory" => self.memory_mib = value.parse().ok()?,
            "format" => self.format = SsTableFormat::parse(value)?,
            "index" => self.column_index_kib = value.parse().ok()?,
            "indexes" => self.indexes = is_on(value)?,
            "filtering" => self.filtering = is_on(value)?,
            "prepared" => self.prepared = is_on(value)?,
            "walks" => self.walks = is_on(value)?,
            "at_once" => self.at_once = is_on(value)?,
            "resident" => self.resident = is_on(value)?,
            "steps" => self.step_units = value.parse().ok().filter(|units| *units > 0)?,
            "segments" => {
                self.segment_mib = value.parse().ok().filter(|mib| (1..=SEGMENT_MIB).contains(mib))?
            }
            "page" => self.page_rows = Some(value.parse().ok().filter(|rows| *rows > 0)?),
            _ => return None,
        }
        Some(())
    }
}

fn is_on(value: &str) -> Option<bool> {
    match value {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_read_as_it_was_written() {
        for text in [
            "disk shards=3 cache=off memory=8 format=da index=4 page=100",
            "memory shards=1 cache=on memory=64 format=nb index=64",
            "memory shards=1 cache=on memory=64 format=nb index=64 page=1 indexes=off filtering=on prepared=on walks=on",
            "disk shards=1 cache=on memory=64 format=nb index=64 at_once=on resident=on steps=3 segments=4",
        ] {
            assert_eq!(text.parse::<Configuration>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "tape",
            "disk shards=0",
            "disk steps=0",
            "disk segments=33",
            "disk cache=maybe",
            "disk colour=red",
        ] {
            assert!(text.parse::<Configuration>().is_err(), "{text}");
        }
    }
}
