//! An SSTable exists whole or not at all, whatever fails and whenever the power goes.

use std::path::Path;
use std::sync::Arc;

use helenus_rows::deletion::DeletionTime;
use helenus_rows::row::RowRef;
use helenus_schema::{ColumnKind, TableMetadata};
use helenus_sstable::{
    SsTable, SsTableWriter, WriteError, WriterOptions, finished_sstables, remove_sstable, remove_unfinished,
};
use helenus_types::CqlType;
use helenus_types::token::token_of;
use helenus_vfs::{Disk, Fault, FaultKind, Operation, SimulatedDisk};

use crate::support::{Column, DESCRIPTOR, NOW_US, cell, folder, id, key, live, row, scan, table};

fn small_table() -> TableMetadata {
    let columns = vec![
        Column("pk", ColumnKind::PartitionKey, CqlType::Int),
        Column("c", ColumnKind::Clustering, CqlType::Int),
        Column("v", ColumnKind::Regular, CqlType::Text),
    ];
    table("crash", columns, &[])
}

fn durable_folder(disk: &SimulatedDisk, folder: &Path) {
    disk.create_dir_all(folder).unwrap();
    for ancestor in folder.ancestors() {
        disk.sync_directory(ancestor).unwrap();
    }
}

fn try_write(disk: &Arc<dyn Disk>, folder: &Path, table: &TableMetadata) -> Result<(), WriteError> {
    let mut writer = SsTableWriter::new(
        Arc::clone(disk),
        folder,
        DESCRIPTOR.id,
        table,
        WriterOptions::of(table),
    )?;
    let partition_key = 1_u32.to_be_bytes();
    writer.begin_partition(
        token_of(&partition_key),
        &partition_key,
        DeletionTime::LIVE,
        RowRef::EMPTY,
    )?;
    for number in 0..2000_u32 {
        let cells = vec![cell(id(table, "v"), NOW_US, b"some text")];
        let row = row(live(NOW_US), DeletionTime::LIVE, cells);
        writer.row(&key(&[&number.to_be_bytes()]), RowRef::new(&row))?;
    }
    writer.end_partition()?;
    writer.finish().map(|_| ())
}

/// After a restart: nothing is there, or all of it is.
fn is_there_whole(disk: &dyn Disk, folder: &Path, table: &TableMetadata) -> bool {
    remove_unfinished(disk, folder).unwrap();
    match finished_sstables(disk, folder).unwrap().as_slice() {
        [] => {
            assert_eq!(disk.list(folder).unwrap(), [], "garbage is removed");
            false
        }
        [DESCRIPTOR] => {
            let sstable = SsTable::open(disk, folder, DESCRIPTOR, table).unwrap();
            let partitions = scan(&sstable).unwrap();
            assert_eq!(partitions.values().next().unwrap().items.len(), 2000);
            true
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_finish_reported_survives_a_crash() {
    let table = small_table();
    for seed in 0..20 {
        let simulated = Arc::new(SimulatedDisk::new(seed));
        durable_folder(&simulated, &folder(&table));
        let disk: Arc<dyn Disk> = simulated.clone();
        try_write(&disk, &folder(&table), &table).unwrap();
        simulated.crash();
        assert!(is_there_whole(&*disk, &folder(&table), &table), "seed {seed}");
    }
}

#[test]
fn a_failure_at_any_operation_leaves_all_or_nothing() {
    let table = small_table();
    let operations = [
        Operation::Create,
        Operation::Write,
        Operation::Sync,
        Operation::SyncDirectory,
        Operation::Rename,
    ];
    let mut failures = 0;
    for operation in operations {
        for after in 0.. {
            for kind in [FaultKind::Error, FaultKind::NoSpace, FaultKind::Short] {
                let simulated = Arc::new(SimulatedDisk::new(after));
                durable_folder(&simulated, &folder(&table));
                simulated.inject(Fault {
                    operation,
                    after,
                    kind,
                });
                let disk: Arc<dyn Disk> = simulated.clone();
                let result = try_write(&disk, &folder(&table), &table);
                failures += usize::from(result.is_err());
                simulated.crash();
                let is_there = is_there_whole(&*disk, &folder(&table), &table);
                assert!(
                    is_there || result.is_err(),
                    "{operation:?} {after} {kind:?}: lost what was reported"
                );
            }
            // Far more than one SSTable takes; the last rounds run without a failure.
            if after > 14 {
                break;
            }
        }
    }
    assert!(failures > 60, "{failures}");
}

#[test]
fn a_crash_while_removing_leaves_all_or_nothing() {
    let table = small_table();
    for after in 0..12 {
        let simulated = Arc::new(SimulatedDisk::new(after));
        durable_folder(&simulated, &folder(&table));
        let disk: Arc<dyn Disk> = simulated.clone();
        try_write(&disk, &folder(&table), &table).unwrap();
        simulated.inject(Fault {
            operation: Operation::Remove,
            after,
            kind: FaultKind::Error,
        });
        let removed = remove_sstable(&*disk, &folder(&table), DESCRIPTOR);
        simulated.crash();
        let is_there = is_there_whole(&*disk, &folder(&table), &table);
        assert!(!(is_there && removed.is_ok()), "removed and still there");
    }
}
