//! An SSTable one of whose components is replaced: opening and reading it ends in rows or an error, within bounds.

#![no_main]

use std::path::Path;
use std::sync::{Arc, OnceLock};

use helenus_schema::{
    ClusteringOrder, ColumnId, ColumnKind, ColumnMetadata, TableId, TableKind, TableMetadata, TableParams,
};
use helenus_storage::clustering::{Side, Slice, push_component};
use helenus_storage::deletion::{DeletionTime, NEVER_S};
use helenus_storage::read::PartitionBound;
use helenus_storage::row::{CellRef, Liveness, RowBuilder, RowRef};
use helenus_storage::source::PartitionScanner;
use helenus_storage::sstable::{
    Component, Descriptor, PageCache, SsTable, SsTableId, SsTableWriter, Version, WriterOptions,
};
use helenus_types::token::token_of;
use helenus_types::{CqlType, Token};
use helenus_vfs::{Disk, MemoryDisk};
use libfuzzer_sys::fuzz_target;

const DESCRIPTOR: Descriptor = Descriptor { id: SsTableId::Number(1), version: Version::Nb };
const FOLDER: &str = "/sstable";

/// What may be replaced; not Checksums.db, whose absence lets the others through.
const COMPONENTS: [Component; 6] = [
    Component::Data,
    Component::Index,
    Component::Filter,
    Component::Crc,
    Component::Statistics,
    Component::Summary,
];

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, replacement)) = bytes.split_first() else { return };
    let replaced = COMPONENTS[usize::from(*choice) % COMPONENTS.len()];
    let disk = MemoryDisk::new();
    let folder = Path::new(FOLDER);
    disk.create_dir_all(folder).expect("a memory disk has room");
    for (component, original) in originals() {
        let content = if *component == replaced { replacement } else { original };
        let file = disk.create(&DESCRIPTOR.path(folder, component)).expect("the folder is empty");
        file.append(content).expect("a memory disk has room");
    }
    let Ok(sstable) = SsTable::open(&disk, folder, DESCRIPTOR, &table()) else { return };
    let cache = PageCache::new(1 << 20);
    let slices = [Slice::all()];
    for reversed in [false, true] {
        let start = PartitionBound { token: Token::MINIMUM, key: None, side: Side::Before };
        let end = PartitionBound { token: Token::MAXIMUM, key: None, side: Side::After };
        let mut scanner = sstable.scan(&cache, start, end, &slices, reversed);
        while let Ok(true) = scanner.advance() {
            let Ok(mut cursor) = scanner.open() else { break };
            while let Ok(true) = cursor.advance() {}
        }
    }
});

fn table() -> TableMetadata {
    let column = |id, name: &str, kind, cql_type| ColumnMetadata {
        id: ColumnId(id),
        name: name.into(),
        kind,
        position: 0,
        cql_type,
        order: ClusteringOrder::Ascending,
    };
    let columns = vec![
        column(0, "pk", ColumnKind::PartitionKey, CqlType::Int),
        column(1, "c", ColumnKind::Clustering, CqlType::Int),
        column(2, "v", ColumnKind::Regular, CqlType::Text),
    ];
    let mut params = TableParams::default();
    params.compression.clear();
    TableMetadata {
        keyspace: "ks".into(),
        name: "t".into(),
        id: TableId(uuid::Uuid::nil()),
        kind: TableKind::Regular,
        partition_key_count: 1,
        clustering_count: 1,
        static_count: 0,
        columns,
        next_column_id: ColumnId(3),
        dropped_columns: Vec::new(),
        params,
    }
}

/// The components of a small SSTable with several index blocks.
fn originals() -> &'static [(Component, Vec<u8>)] {
    static ORIGINALS: OnceLock<Vec<(Component, Vec<u8>)>> = OnceLock::new();
    ORIGINALS.get_or_init(|| {
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        let folder = Path::new(FOLDER);
        disk.create_dir_all(folder).expect("a memory disk has room");
        let table = table();
        let mut options = WriterOptions::of(&table);
        options.column_index_bytes = 64;
        let mut writer =
            SsTableWriter::new(Arc::clone(&disk), folder, DESCRIPTOR.id, &table, options).expect("the folder is empty");
        let key = 1_u32.to_be_bytes();
        writer.begin_partition(token_of(&key), &key, DeletionTime::LIVE, RowRef::EMPTY).expect("in memory");
        for number in 0..20_u32 {
            let mut clustering = Vec::new();
            push_component(&mut clustering, &number.to_be_bytes());
            let mut row = Vec::new();
            let liveness = Liveness { timestamp_us: 1, ttl_s: 0, expires_at_s: NEVER_S };
            let mut builder = RowBuilder::new(&mut row, liveness, DeletionTime::LIVE);
            builder.cell(CellRef {
                column: ColumnId(2),
                timestamp_us: 1,
                ttl_s: 0,
                local_deletion_s: NEVER_S,
                path: None,
                value: b"some text",
            });
            writer.row(&clustering, RowRef::new(&row)).expect("in memory");
        }
        writer.end_partition().expect("in memory");
        writer.finish().expect("in memory");
        let read = |component: Component| {
            let file = disk.open(&DESCRIPTOR.path(folder, component)).expect("it was written");
            let mut bytes = vec![0; file.length().expect("in memory") as usize];
            file.read_exact_at(0, &mut bytes).expect("in memory");
            (component, bytes)
        };
        COMPONENTS.into_iter().map(read).collect()
    })
}
