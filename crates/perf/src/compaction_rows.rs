//! The rows that flushes and compactions are measured with, the same for every server and in every run.

/// One row of `(pk bigint, ck bigint, value blob, PRIMARY KEY (pk, ck))`.
#[derive(Clone, Copy, Debug)]
pub struct GeneratedRow<'a> {
    pub key: i64,
    pub clustering: i64,
    pub timestamp_us: i64,
    pub value: &'a [u8],
}

/// Rows of each partition in one SSTable; half of them are in the next SSTable too.
pub const PARTITION_ROWS: u64 = 16;
/// Bytes that values are cut from: repeats enough for LZ4 to take a fifth away, as of identifiers and numbers.
const POOL_BYTES: usize = 16 << 10;
const PIECE_BYTES: usize = 24;

/// Hands out the rows of one SSTable, partition by partition, until one is not taken.
pub fn each_row<E>(
    sstable: u32,
    rows: u64,
    value_bytes: usize,
    mut take: impl FnMut(GeneratedRow<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let mut random = Random(u64::from(sstable) + 1);
    let mut pool_random = Random(99);
    let pool: Vec<u8> = (0..POOL_BYTES / 8)
        .flat_map(|_| pool_random.next().to_le_bytes())
        .collect();
    let mut value = Vec::with_capacity(value_bytes);
    let first_row = u64::from(sstable) * PARTITION_ROWS / 2;
    for row in 0..rows {
        value.clear();
        while value.len() < value_bytes {
            let at = random.next() as usize % (POOL_BYTES - PIECE_BYTES);
            let length = PIECE_BYTES.min(value_bytes - value.len());
            value.extend_from_slice(&pool[at..at + length]);
        }
        take(GeneratedRow {
            key: (row / PARTITION_ROWS).cast_signed(),
            clustering: (first_row + row % PARTITION_ROWS).cast_signed(),
            timestamp_us: 1_700_000_000_000_000 + row.cast_signed(),
            value: &value,
        })?;
    }
    Ok(())
}

/// xorshift64*: the same data in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_a_partition_s_rows_are_in_the_next_sstable_too() {
        let keys = |sstable| {
            let mut keys = Vec::new();
            let taken = each_row(sstable, 32, 100, |row| {
                assert_eq!(row.value.len(), 100);
                keys.push((row.key, row.clustering));
                Ok::<_, ()>(())
            });
            taken.map(|()| keys)
        };
        let (first, second) = (keys(0).unwrap(), keys(1).unwrap());
        assert_eq!((first[0], first[31]), ((0, 0), (1, 15)));
        let shared = first.iter().filter(|key| second.contains(key)).count();
        assert_eq!(shared, 16);
    }
}
