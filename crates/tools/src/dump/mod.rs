//! The content of SSTables as text: JSON as Cassandra's `sstabledump` prints it, byte for byte.

mod internal;
mod json_printer;
mod keys;
mod partition;
mod value;

pub(crate) use keys::key_of_text;
pub use keys::{KeyTextError, key_text};

use std::io::{self, Write};
use std::sync::Arc;

use helenus_rows::clustering::Slice;
use helenus_rows::partition_range::PartitionRange;
use helenus_schema::TableMetadata;
use helenus_sstable::error::ReadError;
use helenus_sstable::source::PartitionScanner;
use helenus_sstable::{PageCache, SsTable, SsTableScanner};
use helenus_types::{Token, token_of};
use helenus_vfs::Disk;

use self::json_printer::{JsonPrinter, Style};
use crate::progress::{Progress, Unit};
use crate::target::{Target, TargetError};

/// A pass reads every page once.
const CACHE_BYTES: usize = 4 << 20;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// One array of partitions.
    #[default]
    Json,
    /// A line of JSON for each partition.
    Lines,
    /// A line of text for each row.
    Internal,
    /// The keys alone, as an array.
    Keys,
}

#[derive(Clone, Debug, Default)]
pub struct DumpOptions {
    pub shape: Shape,
    /// Only these partitions; all if empty. Keys of several columns are joined by colons.
    pub keys: Vec<String>,
    pub excluded_keys: Vec<String>,
    /// Numbers instead of dates.
    pub raw_times: bool,
    /// Seconds since the Unix epoch: what has expired by then says so.
    pub now_s: u32,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DumpError {
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Key(#[from] KeyTextError),
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
}

/// Dumps one SSTable. Its header has all that is needed, as in Cassandra.
pub fn dump(
    disk: &dyn Disk,
    target: &Target,
    options: &DumpOptions,
    out: &mut dyn Write,
    progress: &dyn Progress,
) -> Result<(), DumpError> {
    let table = target
        .metadata(disk)?
        .table("keyspace", "table")
        .map_err(TargetError::from)?;
    let sstable = target.open(disk, &table)?;
    progress.begin("dumping", Unit::Bytes, sstable.data_bytes());
    let dump = Dump {
        table: &table,
        sstable,
        options,
        progress,
    };
    match options.shape {
        Shape::Json => dump.json(out, Style::Pretty),
        Shape::Lines => dump.json(out, Style::Lines),
        Shape::Internal => dump.internal(out),
        Shape::Keys => dump.keys(out),
    }
}

/// One partition, or with `None` all of them.
type ChosenRange = Option<(Token, Vec<u8>)>;

struct Dump<'a> {
    table: &'a TableMetadata,
    sstable: Arc<SsTable>,
    options: &'a DumpOptions,
    progress: &'a dyn Progress,
}

impl Dump<'_> {
    fn json(&self, out: &mut dyn Write, style: Style) -> Result<(), DumpError> {
        let mut json = JsonPrinter::new(out, style);
        if style == Style::Pretty {
            json.begin_array()?;
        }
        self.partitions(|key, scanner| {
            let cursor = scanner.open_in_file()?;
            partition::write(&mut json, self.table, self.options, key, cursor)?;
            self.progress.at(cursor.end_position());
            Ok(())
        })?;
        if style == Style::Pretty {
            json.end_array()?;
        }
        Ok(())
    }

    fn keys(&self, out: &mut dyn Write) -> Result<(), DumpError> {
        let mut json = JsonPrinter::new(out, Style::Pretty);
        json.begin_array()?;
        self.partitions(|key, _| {
            partition::write_key(&mut json, self.table, key)?;
            Ok(())
        })?;
        json.end_array()?;
        Ok(())
    }

    fn internal(&self, out: &mut dyn Write) -> Result<(), DumpError> {
        self.partitions(|key, scanner| {
            let cursor = scanner.open_in_file()?;
            internal::write(out, self.table, key, cursor)?;
            self.progress.at(cursor.end_position());
            Ok(())
        })
    }

    /// The chosen partitions, in the order of the file.
    fn partitions(
        &self,
        mut each: impl FnMut(&[u8], &mut SsTableScanner<'_>) -> Result<(), DumpError>,
    ) -> Result<(), DumpError> {
        let is_excluded = |key: &[u8]| {
            !self.options.excluded_keys.is_empty()
                && self.options.excluded_keys.contains(&key_text(self.table, key))
        };
        let cache = PageCache::new(CACHE_BYTES);
        let slices = [Slice::all()];
        for range in self.ranges()? {
            let range = match &range {
                None => PartitionRange::everything(),
                Some((token, key)) => PartitionRange::One { token: *token, key },
            };
            let (start, end) = range.bounds();
            let mut scanner = self.sstable.scan(&cache, start, end, &slices, false);
            while scanner.advance()? {
                let key = scanner.position().1.to_vec();
                if !is_excluded(&key) {
                    each(&key, &mut scanner)?;
                }
            }
        }
        Ok(())
    }

    fn ranges(&self) -> Result<Vec<ChosenRange>, KeyTextError> {
        if self.options.keys.is_empty() {
            return Ok(vec![None]);
        }
        let wanted = self.options.keys.iter();
        let mut ranges = wanted
            .filter(|key| !self.options.excluded_keys.contains(key))
            .map(|text| {
                let key = key_of_text(self.table, text)?;
                Ok(Some((token_of(&key), key)))
            })
            .collect::<Result<Vec<_>, KeyTextError>>()?;
        ranges.sort();
        Ok(ranges)
    }
}
