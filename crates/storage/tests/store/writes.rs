//! Random writes and slices over few keys and timestamps, so that they collide all the time.

use helenus_rows::clustering::Side;
use helenus_rows::deletion::{DeletionTime, NEVER_S, NO_TIMESTAMP};
use helenus_rows::row::Liveness;
use helenus_vfs::{Random, SeededRandom};

use super::naive::{Cell, Place, RowWrite, Write};
use super::table::{Key, MAP, NUMBER, STATIC, TEXT};

/// Deletions and expirations lie around the clock of the reads.
pub const NOW_S: u32 = 1_000;

pub struct Writer {
    pub random: SeededRandom,
    /// Keys are pairs of numbers below it.
    pub key_bound: u64,
    /// Timestamps lie between this and this plus `timestamp_spread_us`.
    pub timestamp_from_us: i64,
    pub timestamp_spread_us: u64,
    /// No statics and no collections.
    pub is_plain: bool,
}

impl Writer {
    pub fn below(&self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    fn timestamp(&self) -> i64 {
        self.timestamp_from_us + self.below(self.timestamp_spread_us) as i64
    }

    fn deletion(&self) -> DeletionTime {
        DeletionTime {
            timestamp_us: self.timestamp(),
            local_s: NOW_S - 10 + self.below(10) as u32,
        }
    }

    pub fn key(&self) -> Key {
        (
            self.below(self.key_bound) as i32,
            -(self.below(self.key_bound) as i32),
        )
    }

    pub fn place(&self) -> Place {
        let key = self.key();
        let prefix = [key.0, key.1][..self.below(3) as usize].to_vec();
        (
            prefix,
            if self.below(2) == 0 {
                Side::Before
            } else {
                Side::After
            },
        )
    }

    pub fn write(&self) -> Write {
        match self.below(40) {
            0 => Write::Partition(self.deletion()),
            1..=4 => Write::Range(self.place(), self.place(), self.deletion()),
            5..=7 if !self.is_plain => Write::Static(self.row(&[STATIC.0])),
            _ if self.is_plain => Write::Row(self.key(), self.row(&[NUMBER.0, TEXT.0])),
            _ => Write::Row(self.key(), self.row(&[NUMBER.0, MAP.0, TEXT.0])),
        }
    }

    fn row(&self, columns: &[u16]) -> RowWrite {
        let is_static = columns == [STATIC.0];
        let timestamp_us = self.timestamp();
        let mut row = RowWrite {
            liveness: Liveness::NONE,
            deletion: DeletionTime::LIVE,
            complex_deletion: None,
            cells: Vec::new(),
        };
        if !is_static && self.below(12) == 0 {
            row.deletion = self.deletion();
            return row;
        }
        if !is_static && self.below(2) == 0 {
            let ttl_s = if self.below(3) == 0 {
                1 + self.below(20) as u32
            } else {
                0
            };
            let expires_at_s = if ttl_s == 0 { NEVER_S } else { NOW_S - 10 + ttl_s };
            row.liveness = Liveness {
                timestamp_us,
                ttl_s,
                expires_at_s,
            };
        }
        for &column in columns.iter().filter(|_| self.below(3) != 0) {
            if column == MAP.0 {
                if self.below(4) == 0 {
                    row.complex_deletion = Some((column, self.deletion()));
                }
                // Now and then so many that the row is kept in parts.
                let path_bound = [4, 4, 4, 24][self.below(4) as usize];
                let paths = (0..path_bound).filter(|_| self.below(2) == 0);
                let cells = paths
                    .map(|path| self.cell((column, Some(i32::to_be_bytes(path).to_vec())), timestamp_us));
                row.cells.extend(cells);
            } else {
                row.cells.push(self.cell((column, None), timestamp_us));
            }
        }
        if row.liveness.timestamp_us == NO_TIMESTAMP && row.cells.is_empty() && row.complex_deletion.is_none()
        {
            row.cells.push(self.cell((columns[0], None), timestamp_us));
        }
        row
    }

    fn cell(&self, key: (u16, Option<Vec<u8>>), row_timestamp_us: i64) -> Cell {
        let timestamp_us = if self.below(4) == 0 {
            self.timestamp()
        } else {
            row_timestamp_us
        };
        let value = if key.0 == NUMBER.0 {
            (self.below(4) as i32).to_be_bytes().to_vec()
        } else {
            vec![b'a' + self.below(4) as u8; self.below(6) as usize]
        };
        match self.below(8) {
            0 => {
                let local_deletion_s = NOW_S - 10 + self.below(10) as u32;
                Cell {
                    key,
                    timestamp_us,
                    ttl_s: 0,
                    local_deletion_s,
                    value: Vec::new(),
                }
            }
            1 => {
                let ttl_s = 1 + self.below(20) as u32;
                Cell {
                    key,
                    timestamp_us,
                    ttl_s,
                    local_deletion_s: NOW_S - 10 + ttl_s,
                    value,
                }
            }
            _ => Cell {
                key,
                timestamp_us,
                ttl_s: 0,
                local_deletion_s: NEVER_S,
                value,
            },
        }
    }

    /// Disjoint, in order; often one whole key or everything.
    pub fn slices(&self) -> Vec<(Place, Place)> {
        match self.below(4) {
            0 => vec![((Vec::new(), Side::Before), (Vec::new(), Side::After))],
            1 => {
                let key = self.key();
                vec![(
                    (vec![key.0, key.1], Side::Before),
                    (vec![key.0, key.1], Side::After),
                )]
            }
            2 => {
                // Some values of the first component, apart from each other.
                let firsts = (0..self.key_bound as i32).filter(|_| self.below(2) == 0);
                firsts
                    .map(|first| ((vec![first], Side::Before), (vec![first], Side::After)))
                    .collect()
            }
            _ => {
                let mut ends = [
                    self.below(self.key_bound) as i32,
                    self.below(self.key_bound) as i32,
                ];
                ends.sort_unstable();
                vec![((vec![ends[0]], Side::Before), (vec![ends[1]], Side::After))]
            }
        }
    }
}
