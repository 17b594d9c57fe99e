//! The tables of a history.

use super::{Flavour, GC_GRACE_SECONDS, vectors};
use helenus_schema::{ClusteringOrder, ColumnId, ColumnKind, ColumnMetadata, TableMetadata};
use helenus_storage_model::{Chance, RandomTable, TableWish, random_table, schema_statements, wished_table};
use helenus_types::CqlType;

/// Grace of the tables of `helenus_storage_model`: tombstones stay for ever.
const GC_GRACE_SECONDS_MAX: i64 = 630_720_000;

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
        Flavour::Deep => {
            let blob_key = !chance.one_in(4);
            let wish = TableWish {
                blob_key,
                ..small((1, 2))
            };
            with_bulk(wished_table(chance, name, wish))
        }
        Flavour::Broad if chance.one_in(5) => {
            let wish = TableWish {
                counters: true,
                ..small((0, 2))
            };
            wished_table(chance, name, wish)
        }
        Flavour::Broad if chance.one_in(4) => {
            vectors::with_vectors(wished_table(chance, name, small((0, 2))))
        }
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

/// Leaves the id of a table to who makes it: Cassandra keeps for ever what conditional statements have left of an id. And what they
/// leave expires after the table's grace, which must not be too long for it.
pub fn for_cassandra(create: &str) -> String {
    const ID: &str = " WITH ID = ";
    let long = format!("gc_grace_seconds = {GC_GRACE_SECONDS_MAX}");
    let create = create.replace(&long, &format!("gc_grace_seconds = {GC_GRACE_SECONDS}"));
    match create
        .split_once(ID)
        .map(|(start, rest)| (start, rest.split_once(" AND ")))
    {
        Some((start, Some((_, properties)))) => format!("{start} WITH {properties}"),
        _ => create,
    }
}

/// With a column whose values are long: only partitions of some length have an index.
fn with_bulk(mut table: RandomTable) -> RandomTable {
    let metadata = &mut table.metadata;
    let mut columns = metadata.columns.clone();
    columns.push(ColumnMetadata {
        id: metadata.next_column_id,
        name: "bulk".into(),
        kind: ColumnKind::Regular,
        position: 0,
        cql_type: CqlType::Blob,
        order: ClusteringOrder::Ascending,
    });
    metadata.next_column_id = ColumnId(metadata.next_column_id.0 + 1);
    metadata.set_columns(columns);
    table
}

const COMPACTIONS: [&str; 6] = [
    "{'class': 'SizeTieredCompactionStrategy'}",
    "{'class': 'SizeTieredCompactionStrategy', 'min_threshold': '2', 'max_threshold': '4'}",
    "{'class': 'SizeTieredCompactionStrategy', 'min_sstable_size': '0'}",
    "{'class': 'LeveledCompactionStrategy', 'sstable_size_in_mb': '1'}",
    "{'class': 'TimeWindowCompactionStrategy', 'compaction_window_unit': 'MINUTES', 'compaction_window_size': '1'}",
    "{'class': 'UnifiedCompactionStrategy'}",
];
