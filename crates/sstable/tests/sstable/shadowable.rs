//! Row deletions of materialized views' tables, which a newer marker of the row ends: Cassandra writes such.

use std::sync::Arc;

use helenus_rows::clustering::Slice;
use helenus_rows::deletion::{DeletionTime, NEVER_S};
use helenus_rows::layout::TableLayout;
use helenus_rows::row::{Liveness, RowBuilder};
use helenus_schema::{ColumnKind, TableMetadata};
use helenus_sstable::source::PartitionCursor;
use helenus_sstable::{PageCache, SsTable, SsTableFormat};
use helenus_storage::merge::MergedCursor;
use helenus_types::CqlType;
use helenus_types::token::token_of;
use helenus_vfs::{Disk, MemoryDisk};

use crate::support::{
    Column, Item, Partition, Partitions, cell, drain, folder, id, insert, key, live, options, row, scan,
    table, write,
};

const KEY: [u8; 4] = [0, 0, 0, 1];

struct View {
    table: Arc<TableMetadata>,
}

impl View {
    fn new() -> View {
        let columns = vec![
            Column("pk", ColumnKind::PartitionKey, CqlType::Int),
            Column("c", ColumnKind::Clustering, CqlType::Int),
            Column("v", ColumnKind::Regular, CqlType::Int),
        ];
        View {
            table: Arc::new(table("view", columns, &[])),
        }
    }

    fn written(&self, at: i64) -> Vec<u8> {
        let cells = vec![cell(id(&self.table, "v"), at, &[0, 0, 0, 7])];
        row(Liveness::NONE, DeletionTime::LIVE, cells)
    }

    fn partitions(&self, row: &[u8]) -> Partitions {
        let mut partition = Partition::default();
        partition.row(key(&[&[0, 0, 0, 2]]), row.to_vec());
        let mut partitions = Partitions::new();
        insert(&mut partitions, &KEY, partition);
        partitions
    }

    fn file(&self, format: SsTableFormat, row: &[u8]) -> Arc<SsTable> {
        let partitions = self.partitions(row);
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        let mut options = options(&self.table, &partitions);
        options.format = format;
        let folder = folder(&self.table);
        let info = write(&disk, &folder, &self.table, &partitions, options);
        SsTable::open(&*disk, &folder, info.descriptor, &self.table).unwrap()
    }

    /// The only row of the files together.
    fn merged(&self, files: &[&Arc<SsTable>]) -> Vec<u8> {
        let layout = TableLayout::of(&self.table);
        let (cache, slices, token) = (PageCache::new(1 << 20), [Slice::all()], token_of(&KEY));
        let cursors = files.iter().map(|file| {
            let cursor = file.partition(&cache, token, &KEY, &slices, false).unwrap();
            Box::new(cursor.unwrap()) as Box<dyn PartitionCursor>
        });
        let mut merged = MergedCursor::new(&layout, false, cursors.collect()).unwrap();
        let partition = drain(&mut merged).unwrap();
        match &partition.items[..] {
            [Item::Row { row, .. }] => row.clone(),
            items => panic!("{items:?}"),
        }
    }
}

fn deletion(at: i64) -> DeletionTime {
    DeletionTime {
        timestamp_us: at,
        local_s: 1_700_000_000,
    }
}

fn deleted(liveness: Liveness, at: i64, is_shadowable: bool) -> Vec<u8> {
    let mut out = Vec::new();
    let mut builder = RowBuilder::new(&mut out, liveness, deletion(at));
    if is_shadowable {
        builder.shadowable();
    }
    out
}

/// A row of a view that had gone and come back was without the columns that its base row had kept.
#[test]
fn what_a_newer_marker_ends_hides_nothing() {
    let view = View::new();
    for format in SsTableFormat::ALL {
        let written = view.file(format, &view.written(5));
        let gone = deleted(Liveness::NONE, 10, true);
        let gone_file = view.file(format, &gone);
        let back = view.file(format, &row(live(20), DeletionTime::LIVE, Vec::new()));
        assert_eq!(scan(&gone_file).unwrap(), view.partitions(&gone), "{format}");
        assert_eq!(view.merged(&[&written, &gone_file]), gone);

        let value = cell(id(&view.table, "v"), 5, &[0, 0, 0, 7]);
        let whole = row(live(20), DeletionTime::LIVE, vec![value]);
        let files = [&written, &gone_file, &back];
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let merged = view.merged(&order.map(|place: usize| files[place]));
            assert_eq!(merged, whole, "{format}: {order:?}");
        }
        // In the same file, and with an older marker, and beside a deletion that stays.
        let both = view.file(format, &deleted(live(20), 10, true));
        assert_eq!(
            view.merged(&[&both]),
            row(live(20), DeletionTime::LIVE, Vec::new())
        );
        let older = view.file(format, &row(live(9), DeletionTime::LIVE, Vec::new()));
        assert_eq!(view.merged(&[&older, &gone_file, &written]), gone);
        let plain = view.file(format, &deleted(Liveness::NONE, 10, false));
        for files in [
            [&plain, &gone_file, &back, &written],
            [&gone_file, &written, &back, &plain],
        ] {
            assert_eq!(view.merged(&files), deleted(live(20), 10, false), "{format}");
        }
    }
}

/// At the same time the marker that says expired stays, then the one that expires later.
#[test]
fn of_markers_of_the_same_time_the_expired_one_stays() {
    let marker = |ttl_s: u32, expires_at_s: u32| Liveness {
        timestamp_us: 10,
        ttl_s,
        expires_at_s,
    };
    let expired = marker(i32::MAX as u32, 50);
    let ascending = [
        marker(0, NEVER_S),
        marker(60, 100),
        marker(50, 100),
        marker(70, 200),
        expired,
    ];
    for (place, newer) in ascending.iter().enumerate() {
        for older in &ascending[..place] {
            assert!(newer.supersedes(older), "{newer:?} over {older:?}");
            assert!(!older.supersedes(newer), "{older:?} over {newer:?}");
        }
        assert!(!newer.supersedes(newer));
    }
    assert!(!expired.is_live(0), "whatever the time");
}
