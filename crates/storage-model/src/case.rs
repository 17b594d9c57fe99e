//! One random case: a table, its contents, and how the files are to be written.

use std::fmt;

use helenus_sstable::WriterOptions;
use helenus_types::Token;

use crate::chance::Chance;
use crate::collision::key_with_token;
use crate::content::{Contents, Era};
use crate::partition::{Item, Partitions, insert, is_empty_without};
use crate::table::{RandomTable, TableWish, wished_table};

/// Subject of a case, beyond chance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CaseKind {
    /// A few partitions of a few rows.
    Small,
    /// Partitions of many index blocks, with range deletions across them.
    Wide,
    /// Six to ten clustering columns.
    Deep,
    /// Thousands of partitions: several samples in the summary, several pages of index.
    Many,
    /// Different partition keys of equal token.
    Collisions,
    /// More than 64 columns: rows name theirs by another encoding.
    Broad,
    Counters,
    /// Values of a MiB.
    Huge,
    /// A column of the file was dropped since.
    Dropped,
}

impl CaseKind {
    pub const ALL: [CaseKind; 9] = [
        CaseKind::Small,
        CaseKind::Wide,
        CaseKind::Deep,
        CaseKind::Many,
        CaseKind::Collisions,
        CaseKind::Broad,
        CaseKind::Counters,
        CaseKind::Huge,
        CaseKind::Dropped,
    ];

    /// Costly kinds come up more rarely.
    fn of_chance(chance: &Chance) -> CaseKind {
        match chance.below(32) {
            0..10 => CaseKind::Small,
            10..16 => CaseKind::Wide,
            16..20 => CaseKind::Deep,
            20 => CaseKind::Many,
            21..24 => CaseKind::Collisions,
            24..26 => CaseKind::Broad,
            26..28 => CaseKind::Counters,
            28 => CaseKind::Huge,
            _ => CaseKind::Dropped,
        }
    }

    fn wish(self) -> TableWish {
        let any = TableWish::default();
        match self {
            CaseKind::Wide => TableWish {
                clustering: (1, 3),
                ..any
            },
            CaseKind::Deep => TableWish {
                clustering: (6, 10),
                ..any
            },
            CaseKind::Collisions => TableWish {
                blob_key: true,
                ..any
            },
            CaseKind::Broad => TableWish {
                regular_max: 100,
                ..any
            },
            CaseKind::Counters => TableWish {
                counters: true,
                ..any
            },
            _ => any,
        }
    }
}

impl fmt::Display for CaseKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, out)
    }
}

/// A table and what one SSTable of it holds.
#[derive(Clone, Debug)]
pub struct Case {
    pub seed: u64,
    pub kind: CaseKind,
    /// As the SSTable is written.
    pub table: RandomTable,
    /// As it is when the SSTable is read: the same, but for [`CaseKind::Dropped`].
    pub table_now: RandomTable,
    pub partitions: Partitions,
    pub column_index_bytes: u32,
}

impl Case {
    /// The case of this seed; its table is called `name`.
    pub fn new(seed: u64, name: &str, era: Era) -> Case {
        let chance = Chance::new(seed);
        let kind = CaseKind::of_chance(&chance);
        Case::of_kind(seed, kind, name, era)
    }

    /// The case of this seed among those of one kind.
    pub fn of_kind(seed: u64, kind: CaseKind, name: &str, era: Era) -> Case {
        let chance = Chance::new(seed ^ 0x1e1e_4e05);
        let table = wished_table(&chance, name, kind.wish());
        let partitions = partitions(&chance, kind, &table, era);
        // After everything in the case.
        let dropped_at_us = era.base_us + (1 << 40);
        let table_now = match kind {
            CaseKind::Dropped => table.with_column_dropped(&chance, dropped_at_us),
            _ => None,
        };
        Case {
            seed,
            kind,
            table_now: table_now.unwrap_or_else(|| table.clone()),
            table,
            partitions,
            column_index_bytes: *chance.pick(&[256, 1024, 4096, 65536]),
        }
    }

    /// How to write the case's SSTable, with the table's own compression.
    pub fn writer_options(&self) -> WriterOptions {
        let mut options = WriterOptions::of(&self.table.metadata);
        options.column_index_bytes = self.column_index_bytes;
        options
    }

    /// The compressor that the table asks for, by its class without the package.
    pub fn compressor(&self) -> &str {
        let class = self.table.metadata.params.compression.get("class");
        class.map_or("none", |class| class.rsplit('.').next().unwrap_or(class))
    }

    pub fn has_markers(&self) -> bool {
        let mut items = self.partitions.values().flat_map(|partition| &partition.items);
        items.any(|item| matches!(item, Item::Marker { .. }))
    }

    /// Partitions of which the column that was dropped since leaves nothing.
    pub fn emptied_count(&self) -> usize {
        let Some(gone) = self.table_now.metadata.dropped_columns.first() else {
            return 0;
        };
        let partitions = self.partitions.values().filter(|partition| {
            let rows_are_empty = partition.items.iter().all(|item| match item {
                Item::Row { row, .. } => is_empty_without(row, gone.id),
                Item::Marker { .. } => false,
            });
            partition.deletion.is_live() && is_empty_without(&partition.static_row, gone.id) && rows_are_empty
        });
        partitions.count()
    }

    /// Rows and markers.
    pub fn item_count(&self) -> usize {
        self.partitions
            .values()
            .map(|partition| partition.items.len())
            .sum()
    }
}

fn partitions(chance: &Chance, kind: CaseKind, table: &RandomTable, era: Era) -> Partitions {
    let contents = Contents {
        chance,
        table: &table.metadata,
        era,
        huge_one_in: (kind == CaseKind::Huge).then_some(6),
    };
    let (count, rows_max) = match kind {
        CaseKind::Wide => (1 + chance.count(3), 600),
        CaseKind::Many => (1500 + chance.count(1500), 2),
        CaseKind::Broad | CaseKind::Huge => (1 + chance.count(4), 8),
        _ => (1 + chance.count(12), 12),
    };
    let mut partitions = Partitions::new();
    for _ in 0..count {
        let rows = chance.count(rows_max + 1);
        insert(
            &mut partitions,
            &contents.partition_key(),
            contents.partition(rows),
        );
    }
    if kind == CaseKind::Collisions {
        for _ in 0..1 + chance.count(3) {
            let token = match chance.below(4) {
                0 => Token::MAXIMUM,
                1 => Token(i64::MIN + 1),
                _ => Token(chance.bits().cast_signed()),
            };
            for _ in 0..2 + chance.count(6) {
                let key = key_with_token(token, chance.bits());
                insert(&mut partitions, &key, contents.partition(chance.count(4)));
            }
        }
    }
    partitions
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use helenus_sstable::{SsTable, SsTableId};
    use helenus_vfs::{Disk, MemoryDisk};

    use super::*;
    use crate::sstable::{point_read, scan, write};

    /// Symptom: sstablescrub "dropped 0 bad and 3 empty partitions" of a table whose dropped column was all they held.
    #[test]
    fn partitions_of_a_dropped_column_alone_are_known() {
        let emptied = |seed| Case::of_kind(seed, CaseKind::Dropped, "t", Era::SIGNED).emptied_count();
        assert_eq!(emptied(1298), 3);
        assert_eq!(
            Case::of_kind(1298, CaseKind::Small, "t", Era::SIGNED).emptied_count(),
            0
        );
    }

    /// Written and read by ourselves: what the other proofs begin with.
    #[test]
    fn cases_read_back_as_they_were_written() {
        for (number, kind) in CaseKind::ALL.into_iter().cycle().take(36).enumerate() {
            let case = Case::of_kind(number as u64, kind, "t", Era::SIGNED);
            let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
            let folder = Path::new("/case");
            let table = &case.table.metadata;
            let options = case.writer_options();
            let info = write(
                &disk,
                folder,
                SsTableId::Number(1),
                table,
                &case.partitions,
                options,
            )
            .unwrap();
            let sstable = SsTable::open(&*disk, folder, info.descriptor, table).unwrap();
            let scanned = scan(&sstable, false).unwrap();
            assert_eq!(scanned.len(), case.partitions.len(), "seed {number} {kind}");
            for (place, partition) in &case.partitions {
                assert_eq!(scanned.get(place), Some(partition), "seed {number} {kind}");
            }
            let slices = [helenus_rows::clustering::Slice::all()];
            for ((token, key), partition) in &case.partitions {
                let read = point_read(&sstable, *token, key, &slices, false).unwrap();
                assert_eq!(read.as_ref(), Some(partition), "seed {number} {kind}");
            }
        }
    }
}
