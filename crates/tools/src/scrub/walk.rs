//! From partition to partition of a damaged SSTable.

use helenus_sstable::{Salvage, SalvageReader};
use helenus_types::Token;

pub struct Walk<'a> {
    salvage: &'a Salvage,
    pub reader: SalvageReader<'a>,
    /// Damage of the index, which is believed until it contradicts the data.
    pub index_damage: Option<String>,
    /// The partition that was written, or given up, last: what follows is behind it.
    pub last: Option<(Token, Vec<u8>)>,
}

impl<'a> Walk<'a> {
    pub fn new(salvage: &'a Salvage, reader: SalvageReader<'a>) -> Self {
        Walk {
            salvage,
            reader,
            index_damage: salvage.index_damage().map(str::to_owned),
            last: None,
        }
    }

    /// The key of the partition that begins at a position, or why none does.
    pub fn head_at(&mut self, position: u64) -> Result<Vec<u8>, String> {
        match self.head(position) {
            Ok(Some(key)) => {
                if self.salvage.starts().binary_search(&position).is_err() {
                    self.distrust("the index does not know a partition that the data has");
                }
                Ok(key)
            }
            Ok(None) => Err("no partition whose key is behind the one before".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Where the partition at a position must have ended, if the index can be believed.
    pub fn end_of(&mut self, position: u64) -> u64 {
        if !self.knows_all() {
            return u64::MAX;
        }
        let Some(&next) = self.starts_behind(position).first() else {
            return self.salvage.data_bytes();
        };
        match self.head(next) {
            Ok(Some(_)) => next,
            // The data cannot be read there, which its reader will find out.
            Err(_) => u64::MAX,
            Ok(None) => {
                self.distrust("the index leads to where no partition begins");
                u64::MAX
            }
        }
    }

    /// Where behind a place that cannot be read the next partition begins; the end of the data if none does.
    pub fn next_start(&mut self, lost_at: u64) -> u64 {
        let end = self.salvage.data_bytes();
        let ahead = self.starts_behind(lost_at);
        let known = ahead
            .iter()
            .copied()
            .take_while(|start| *start < end)
            .find(|start| matches!(self.head(*start), Ok(Some(_))))
            .unwrap_or(end);
        if self.knows_all() {
            return known;
        }
        let after = self.last.as_ref().map(|(token, key)| (*token, &**key));
        self.reader.find(lost_at + 1, known, after).unwrap_or(known)
    }

    fn knows_all(&self) -> bool {
        self.index_damage.is_none()
    }

    fn distrust(&mut self, reason: &str) {
        self.index_damage.get_or_insert_with(|| reason.to_owned());
    }

    fn starts_behind(&self, position: u64) -> &'a [u64] {
        let starts = self.salvage.starts();
        &starts[starts.partition_point(|start| *start <= position)..]
    }

    fn head(&mut self, position: u64) -> Result<Option<Vec<u8>>, helenus_sstable::error::ReadError> {
        let after = self.last.as_ref().map(|(token, key)| (*token, &**key));
        self.reader.head_at(position, after)
    }
}
