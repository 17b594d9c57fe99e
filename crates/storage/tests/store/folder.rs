//! Data folders that cannot be used, and what the operator is told.

use std::path::Path;
use std::sync::Arc;

use helenus_storage::store::{DataFolder, FolderError};
use helenus_vfs::{Clock, Disk, Fault, FaultKind, ManualClock, Operation, SimulatedDisk};

const ROOT: &str = "/var/lib/helenus";

fn open(disk: &Arc<SimulatedDisk>) -> Result<Arc<DataFolder>, FolderError> {
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::starting_at(0));
    DataFolder::open(Arc::clone(disk) as Arc<dyn Disk>, clock, Path::new(ROOT))
}

fn refusal(disk: &Arc<SimulatedDisk>) -> String {
    open(disk).map(drop).unwrap_err().to_string()
}

#[test]
fn a_second_process_is_told_so() {
    let disk = Arc::new(SimulatedDisk::new(1));
    let first = open(&disk).unwrap();
    let in_use = format!("{ROOT} is in use by another process; stop it, or choose another data folder");
    assert_eq!(refusal(&disk), in_use);
    drop(first);
    open(&disk).unwrap();
}

#[test]
fn a_folder_with_other_files_is_left_alone() {
    let disk = Arc::new(SimulatedDisk::new(1));
    disk.create_dir_all(&Path::new(ROOT).join("system-3")).unwrap();
    assert!(refusal(&disk).starts_with(&format!("{ROOT} holds \"system-3\" but was not made by Helenus")));
    assert!(!disk.exists(&Path::new(ROOT).join("data")).unwrap());
}

#[test]
fn another_version_is_named() {
    let disk = Arc::new(SimulatedDisk::new(1));
    drop(open(&disk).unwrap());
    let version = disk
        .open_writable(&Path::new(ROOT).join("helenus-data-version"))
        .unwrap();
    version.write_at(0, b"7\n").unwrap();
    let wanted = format!(
        "{ROOT} has data version 7, this program needs 1, says helenus-data-version; start the version that wrote it"
    );
    assert_eq!(refusal(&disk), wanted);
}

#[test]
fn a_read_only_disk_is_named() {
    let disk = Arc::new(SimulatedDisk::new(1));
    disk.create_dir_all(Path::new(ROOT)).unwrap();
    disk.set_read_only(true);
    assert!(matches!(open(&disk), Err(FolderError::NotWritable { .. })));
}

#[test]
fn a_full_disk_is_named_and_leaves_nothing_in_the_way() {
    let disk = Arc::new(SimulatedDisk::new(1));
    disk.inject(Fault {
        operation: Operation::Write,
        after: 0,
        kind: FaultKind::NoSpace,
    });
    assert_eq!(
        refusal(&disk),
        format!("{ROOT}: no space left on the disk; make room and start again")
    );
    open(&disk).unwrap();
}

#[test]
fn a_first_start_may_be_interrupted_anywhere() {
    for after in 0..12 {
        for operation in [
            Operation::Sync,
            Operation::Create,
            Operation::Rename,
            Operation::SyncDirectory,
        ] {
            let disk = Arc::new(SimulatedDisk::new(after));
            disk.inject(Fault {
                operation,
                after,
                kind: FaultKind::Error,
            });
            drop(open(&disk));
            disk.crash();
            open(&disk).unwrap();
        }
    }
}
