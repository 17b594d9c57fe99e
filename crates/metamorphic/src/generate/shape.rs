//! The tables of a history.

use super::Flavour;
use helenus_schema::TableMetadata;
use helenus_storage_model::{Chance, TableWish, random_table, schema_statements, wished_table};

/// A table, and the statements that make it and the types it needs.
pub fn table(chance: &Chance, flavour: Flavour, name: &str) -> (TableMetadata, Vec<String>) {
    // Faults of one row hide in large tables, and faults of many columns in small ones.
    let small = |clustering| TableWish {
        partition_key_max: 1,
        clustering,
        regular_max: 3,
        ..TableWish::default()
    };
    let table = match flavour {
        Flavour::Deep => wished_table(
            chance,
            name,
            TableWish {
                blob_key: chance.one_in(2),
                ..small((1, 2))
            },
        ),
        Flavour::Broad if chance.one_in(2) => wished_table(chance, name, small((0, 2))),
        Flavour::Broad => random_table(chance, name),
    };
    let mut texts = schema_statements(&table);
    let compaction = chance.pick(&COMPACTIONS);
    if let Some(create_table) = texts.last_mut() {
        create_table.push_str(&format!(" AND compaction = {compaction}"));
    }
    (table.metadata, texts)
}

const COMPACTIONS: [&str; 5] = [
    "{'class': 'SizeTieredCompactionStrategy'}",
    "{'class': 'SizeTieredCompactionStrategy', 'min_threshold': '2', 'max_threshold': '4'}",
    "{'class': 'LeveledCompactionStrategy', 'sstable_size_in_mb': '1'}",
    "{'class': 'TimeWindowCompactionStrategy', 'compaction_window_unit': 'MINUTES', 'compaction_window_size': '1'}",
    "{'class': 'UnifiedCompactionStrategy'}",
];
