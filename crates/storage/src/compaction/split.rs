//! Where the output of a compaction is cut.

use helenus_types::Token;

use super::candidate::Split;

/// Says before each partition whether it begins a new SSTable.
#[derive(Debug)]
pub(crate) struct Splitter {
    split: Split,
    /// The last token of the part being written, where there are parts.
    part_end: Option<Token>,
    /// Size from which the SSTable being written is ended, in bytes on the disk; `u64::MAX` where sizes do not count.
    bytes_max: u64,
}

impl Splitter {
    pub fn new(split: Split) -> Self {
        let bytes_max = match split {
            Split::BySize { sstable_bytes } => sstable_bytes,
            Split::Halving {
                bytes_total,
                sstable_bytes_min,
            } => (bytes_total / 2).max(sstable_bytes_min),
            Split::Whole | Split::ByShard { .. } => u64::MAX,
        };
        Splitter {
            split,
            part_end: None,
            bytes_max,
        }
    }

    /// Returns whether a partition begins a new SSTable, after one that has so many bytes on the disk.
    pub fn is_next(&mut self, token: Token, disk_bytes: u64) -> bool {
        match self.split {
            Split::Whole => false,
            Split::BySize { .. } => disk_bytes >= self.bytes_max,
            Split::Halving {
                sstable_bytes_min, ..
            } => {
                let is_next = disk_bytes >= self.bytes_max;
                if is_next {
                    self.bytes_max = (self.bytes_max / 2).max(sstable_bytes_min);
                }
                is_next
            }
            Split::ByShard { shards } => {
                if self.part_end.is_some_and(|end| token <= end) {
                    return false;
                }
                let is_first = self.part_end.replace(part_end(token, shards)).is_none();
                !is_first
            }
        }
    }
}

/// Which of `shards` equal parts of the ring has a token.
pub(super) fn part_of(token: Token, shards: u32) -> u32 {
    let position = u128::from(token.0.cast_unsigned() ^ (1 << 63));
    ((position * u128::from(shards.max(1))) >> 64) as u32
}

/// The last token of the part that holds `token`.
fn part_end(token: Token, shards: u32) -> Token {
    let next = u128::from(part_of(token, shards)) + 1;
    let next_start = (next << 64).div_ceil(u128::from(shards.max(1)));
    Token((((next_start - 1) as u64) ^ (1 << 63)).cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_the_ring_are_equal_and_end_where_the_next_begins() {
        assert_eq!(part_end(Token::MINIMUM, 1), Token::MAXIMUM);
        assert_eq!(part_end(Token(-5), 4), Token(-1));
        assert_eq!(part_end(Token(0), 4), Token((1 << 62) - 1));
        assert_eq!(part_end(Token::MAXIMUM, 3), Token::MAXIMUM);
        let mut splitter = Splitter::new(Split::ByShard { shards: 4 });
        let quarter = 1 << 62;
        let tokens = [i64::MIN, -quarter - 1, -quarter, -1, 0, quarter, i64::MAX];
        let begins = tokens.map(|token| splitter.is_next(Token(token), 0));
        assert_eq!(begins, [false, false, true, false, true, true, false]);
    }

    #[test]
    fn halves_shrink_to_the_minimum() {
        let mut splitter = Splitter::new(Split::Halving {
            bytes_total: 400,
            sstable_bytes_min: 60,
        });
        let sizes = [199, 200, 99, 100, 59, 60, 60];
        let begins = sizes.map(|bytes| splitter.is_next(Token(0), bytes));
        assert_eq!(begins, [false, true, false, true, false, true, true]);
    }
}
