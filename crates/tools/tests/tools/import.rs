//! Imports of files that Cassandra 5.0.5 flushed: they come with our checksums, so that bits that turn later are found
//! wherever the format itself would not notice.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use helenus_rows::clustering::Slice;
use helenus_rows::partition_range::PartitionRange;
use helenus_schema::TableMetadata;
use helenus_sstable::error::ReadError;
use helenus_sstable::source::{PartitionCursor, PartitionScanner, Unfiltered};
use helenus_sstable::{Component, Descriptor, PageCache, SsTable, finished_sstables};
use helenus_storage::store::Transfer;
use helenus_tools::host::{Host, Incumbents, TableChoice};
use helenus_tools::import::{ImportError, ImportOptions, Imported, import};
use helenus_tools::progress::Silent;
use helenus_tools::stopped_node::StoppedNode;
use helenus_tools::target::Targets;
use helenus_types::Token;
use helenus_vfs::{Disk, MemoryDisk, SimulatedDisk, SystemClock};

use crate::fixtures;

const DATA: &str = "/node";

fn import_into(host: &dyn Host, folder: PathBuf, table: &str) -> Result<Imported, ImportError> {
    let options = ImportOptions {
        folder,
        choice: TableChoice::of(Some("k"), Some(&table.replace('-', "_"))),
        schema_file: None,
        skip_bad: false,
        may_be_empty: false,
        transfer: Transfer::Copy,
        incumbents: Incumbents::Stay,
    };
    import(host, &options, &Silent)
}

/// An SSTable that was adopted from a fixture.
struct Adopted {
    disk: Arc<dyn Disk>,
    table: Arc<TableMetadata>,
    folder: PathBuf,
    descriptor: Descriptor,
}

impl Adopted {
    fn of(fixture: &str) -> Adopted {
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        let files = fixtures::copied_to(&*disk, fixture);
        let node =
            StoppedNode::open(Arc::clone(&disk), Arc::new(SystemClock::new()), Path::new(DATA)).unwrap();
        import_into(&node, files, fixture).unwrap();
        let table = node.schema().unwrap();
        let table = Arc::clone(table.table("k", &fixture.replace('-', "_")).unwrap());
        let folder = node.data_folder().unwrap().table_folder(&table);
        let descriptor = finished_sstables(&*disk, &folder).unwrap()[0];
        Adopted {
            disk,
            table,
            folder,
            descriptor,
        }
    }

    fn open(&self) -> Result<Arc<SsTable>, String> {
        SsTable::open(&*self.disk, &self.folder, self.descriptor, &self.table)
            .map_err(|error| error.to_string())
    }

    /// By a scan of everything, then each of the known keys by itself.
    fn read(&self, keys: &[(Token, Vec<u8>)]) -> Result<Vec<String>, String> {
        let sstable = self.open()?;
        read_all(&sstable, keys).map_err(|error| error.to_string())
    }
}

fn keys_of(sstable: &SsTable) -> Vec<(Token, Vec<u8>)> {
    let cache = PageCache::new(1 << 20);
    let slices = [Slice::all()];
    let (start, end) = PartitionRange::everything().bounds();
    let mut scanner = sstable.scan(&cache, start, end, &slices, false);
    let mut keys = Vec::new();
    while scanner.advance().unwrap() {
        let (token, key) = scanner.position();
        keys.push((token, key.to_vec()));
    }
    keys
}

fn read_all(sstable: &SsTable, keys: &[(Token, Vec<u8>)]) -> Result<Vec<String>, ReadError> {
    let cache = PageCache::new(1 << 20);
    let slices = [Slice::all()];
    let (start, end) = PartitionRange::everything().bounds();
    let mut lines = Vec::new();
    let mut scanner = sstable.scan(&cache, start, end, &slices, false);
    while scanner.advance()? {
        lines.push(format!("{:?}", scanner.position()));
        read_rows(&mut scanner.open()?, &mut lines)?;
    }
    for reversed in [false, true] {
        for (token, key) in keys {
            match sstable.partition(&cache, *token, key, &slices, reversed)? {
                Some(mut cursor) => read_rows(&mut cursor, &mut lines)?,
                None => lines.push("nothing".to_owned()),
            }
        }
    }
    Ok(lines)
}

fn read_rows(cursor: &mut dyn PartitionCursor, lines: &mut Vec<String>) -> Result<(), ReadError> {
    lines.push(format!(
        "{:?} {:?}",
        cursor.deletion(),
        cursor.static_row().as_bytes()
    ));
    while cursor.advance()? {
        lines.push(match cursor.current() {
            Unfiltered::Row { clustering, row } => format!("{clustering:?} {:?}", row.as_bytes()),
            Unfiltered::Marker { bound, deletion } => format!("{bound:?} {deletion:?}"),
        });
    }
    Ok(())
}

fn flip(disk: &dyn Disk, path: &Path, bit: u64) {
    let file = disk.open_writable(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(bit / 8, &mut byte).unwrap();
    file.write_at(bit / 8, &[byte[0] ^ (1 << (bit % 8))]).unwrap();
}

/// Flips of one component; the step is prime, so that all bits of a byte have their turn.
const FLIPS_MAX: u64 = 40;

#[test]
fn a_bit_that_turns_after_an_import_never_shows_in_a_row() {
    for fixture in ["types", "counts", "ranges", "da-keys", "da-ranges"] {
        let adopted = Adopted::of(fixture);
        let keys = keys_of(&adopted.open().unwrap());
        let wanted = adopted.read(&keys).unwrap();
        let mut found_in = Vec::new();
        for component in Component::ALL {
            let path = adopted.descriptor.path(&adopted.folder, component);
            let Ok(file) = adopted.disk.open(&path) else {
                continue;
            };
            let bits = file.length().unwrap() * 8;
            let step = (bits / FLIPS_MAX).max(7) | 1;
            let mut found = 0;
            for bit in (0..bits).step_by(step as usize) {
                flip(&*adopted.disk, &path, bit);
                match adopted.read(&keys) {
                    Err(_) => found += 1,
                    Ok(lines) => {
                        assert!(
                            lines == wanted,
                            "{fixture}: bit {bit} of {} changed what is read",
                            component.file_suffix()
                        );
                        // Damage in what nothing needs is told, and refuses nothing.
                        found += u64::from(!adopted.open().unwrap().sidecar_faults().is_empty());
                    }
                }
                flip(&*adopted.disk, &path, bit);
            }
            if found > 0 {
                found_in.push(component);
            }
        }
        let index = match fixture.starts_with("da-") {
            true => Component::Partitions,
            false => Component::Index,
        };
        for component in [Component::Data, index, Component::Filter, Component::Checksums] {
            assert!(
                found_in.contains(&component),
                "{fixture}: no flip of {} was found",
                component.file_suffix()
            );
        }
    }
}

/// Index.db without its last entries looked like that of a smaller SSTable.
#[test]
fn an_index_that_was_cut_anywhere_is_refused_by_name() {
    for fixture in ["types", "counts", "ranges"] {
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        let files = fixtures::copied_to(&*disk, fixture);
        let target = Targets::find(&*disk, &files).unwrap().all().unwrap().remove(0);
        let table = target.metadata(&*disk).unwrap().table("", "").unwrap();
        target.open(&*disk, &table).unwrap();
        let index = target.path(Component::Index);
        let whole = disk.open(&index).unwrap().length().unwrap();
        for length in (0..whole).rev() {
            disk.open_writable(&index).unwrap().set_length(length).unwrap();
            let error = target.open(&*disk, &table).unwrap_err().to_string();
            let is_named = error.contains("nb-1-big-Index.db") || error.contains("nb-1-big-Summary.db");
            assert!(is_named, "{fixture} at {length}: {error}");
        }
    }
}

/// Rows of all SSTables that a table has after the start that follows.
/// As the node that streamed it leaves it: without TOC and Digest.
fn without_toc(disk: &dyn Disk, folder: &Path) -> Vec<String> {
    let mut sstables = Vec::new();
    for entry in disk.list(folder).unwrap() {
        if let Some(name) = entry.name.strip_suffix("-TOC.txt") {
            sstables.push(name.to_owned());
            disk.remove(&folder.join(&entry.name)).unwrap();
        } else if entry.name.ends_with("-Digest.crc32") {
            disk.remove(&folder.join(&entry.name)).unwrap();
        }
    }
    sstables
}

/// Rows of SSTables that other nodes had streamed to Cassandra were missing after an import, and nobody was told.
#[test]
fn what_was_streamed_to_cassandra_is_imported() {
    for fixture in ["counts", "da-keys"] {
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        let files = fixtures::copied_to(&*disk, fixture);
        let sstables = without_toc(&*disk, &files);
        let node =
            StoppedNode::open(Arc::clone(&disk), Arc::new(SystemClock::new()), Path::new(DATA)).unwrap();
        let imported = import_into(&node, files, fixture).unwrap();
        assert_eq!(imported.sstables as usize, sstables.len(), "{fixture}");
        drop(node);
        // A start removes what has no TOC.
        let node =
            StoppedNode::open(Arc::clone(&disk), Arc::new(SystemClock::new()), Path::new(DATA)).unwrap();
        let schema = node.schema().unwrap();
        let table = schema.table("k", &fixture.replace('-', "_")).unwrap();
        let found = node.sstables(table).unwrap();
        assert_eq!(found.len() as u64, imported.sstables_added, "{fixture}");
    }
}

#[test]
fn what_a_transaction_log_names_is_not_finished() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let files = fixtures::copied_to(&*disk, "counts");
    let sstables = without_toc(&*disk, &files);
    let lines: Vec<String> = sstables
        .iter()
        .map(|name| format!("ADD:[/var/lib/cassandra/{name},0,8][3735928559]\n"))
        .collect();
    let log = disk.create(&files.join("nb_txn_compaction_0.log")).unwrap();
    log.append(lines.concat().as_bytes()).unwrap();
    let node = StoppedNode::open(Arc::clone(&disk), Arc::new(SystemClock::new()), Path::new(DATA)).unwrap();
    let refused = import_into(&node, files, "counts").unwrap_err();
    assert!(refused.to_string().contains("no finished SSTable"), "{refused}");
}

fn rows_after_start(disk: &Arc<dyn Disk>) -> Option<u64> {
    let node = StoppedNode::open(Arc::clone(disk), Arc::new(SystemClock::new()), Path::new(DATA)).unwrap();
    let schema = node.schema().unwrap();
    let table = Arc::clone(schema.table("k", "counts")?);
    let descriptors = node.sstables(&table).unwrap();
    let folder = node.data_folder().unwrap().table_folder(&table);
    let rows = descriptors.iter().map(|&descriptor| {
        let sstable = SsTable::open(&**disk, &folder, descriptor, &table).unwrap();
        let keys = keys_of(&sstable);
        read_all(&sstable, &keys).unwrap();
        sstable.statistics().rows
    });
    Some(rows.sum())
}

/// The folder as it would be where a first import brought a file, on a disk that has stored everything.
fn disk_with_incumbent(seed: u64) -> (Arc<SimulatedDisk>, PathBuf) {
    let disk = Arc::new(SimulatedDisk::new(seed));
    let as_disk: Arc<dyn Disk> = Arc::clone(&disk) as Arc<dyn Disk>;
    let files = fixtures::copied_to(&*disk, "counts");
    for entry in disk.list(&files).unwrap() {
        disk.open(&files.join(&entry.name)).unwrap().sync_data().unwrap();
    }
    for folder in [Path::new("/files/counts"), Path::new("/files"), Path::new("/")] {
        disk.sync_directory(folder).unwrap();
    }
    let node = StoppedNode::open(as_disk, Arc::new(SystemClock::new()), Path::new(DATA)).unwrap();
    for _ in 0..2 {
        import_into(&node, files.clone(), "counts").unwrap();
    }
    (disk, files)
}

/// The power fails at each change of the disk during an import that replaces two files by one: a start finds the old
/// ones or the new one, whole, never both and never neither.
#[test]
fn a_crash_leaves_what_was_there_or_what_was_imported() {
    let mut outcomes = [0_u32; 2];
    for change in 0.. {
        let (disk, files) = disk_with_incumbent(change);
        let as_disk: Arc<dyn Disk> = Arc::clone(&disk) as Arc<dyn Disk>;
        let rows_once = rows_after_start(&as_disk).unwrap() / 2;
        let node = StoppedNode::open(
            Arc::clone(&as_disk),
            Arc::new(SystemClock::new()),
            Path::new(DATA),
        )
        .unwrap();
        disk.fail_power(change);
        let options = ImportOptions {
            folder: files,
            choice: TableChoice::of(Some("k"), Some("counts")),
            schema_file: None,
            skip_bad: false,
            may_be_empty: false,
            transfer: Transfer::Link,
            incumbents: Incumbents::Go,
        };
        let result = import(&node, &options, &Silent);
        drop(node);
        let is_over = !disk.is_power_off();
        disk.crash();
        let rows = rows_after_start(&as_disk).unwrap();
        if result.is_ok() {
            assert_eq!(rows, rows_once, "change {change}: what was answered stays");
        }
        match rows {
            rows if rows == 2 * rows_once => outcomes[0] += 1,
            rows if rows == rows_once => outcomes[1] += 1,
            other => panic!("change {change}: {other} rows"),
        }
        if is_over {
            break;
        }
    }
    assert!(outcomes.iter().all(|count| *count > 3), "{outcomes:?}");
}
