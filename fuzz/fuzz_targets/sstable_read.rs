//! An SSTable one of whose components is replaced: opening and reading it ends in rows or an error, within bounds.
//!
//! The first byte chooses the version, the second whether the data is compressed, the third the component; the rest
//! takes the component's place. So this is the fuzz target of every reader: statistics, summary, index entries, tries
//! of partitions and rows, filter, compression information, checksums and rows.

#![no_main]

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use helenus_rows::clustering::Slice;
use helenus_sstable::{Component, Descriptor, SsTable, SsTableFormat, SsTableId};
use helenus_storage_model::{Case, CaseKind, Era, point_read, scan, write};
use helenus_vfs::{Disk, MemoryDisk};
use libfuzzer_sys::fuzz_target;

const FOLDER: &str = "/sstable";
/// A table with clustering and static columns, found by trying.
const SEED: u64 = 3;

/// One undamaged SSTable.
struct Original {
    case: Case,
    descriptor: Descriptor,
    components: Vec<(Component, Vec<u8>)>,
}

fuzz_target!(|bytes: &[u8]| {
    let [format, compression, component, replacement @ ..] = bytes else {
        return;
    };
    let format = usize::from(*format) % SsTableFormat::ALL.len();
    let original = &originals()[2 * format + usize::from(*compression % 2)];
    let replaced = usize::from(*component) % original.components.len();
    let disk = MemoryDisk::new();
    let folder = Path::new(FOLDER);
    disk.create_dir_all(folder).expect("a memory disk has room");
    for (index, (component, content)) in original.components.iter().enumerate() {
        // What covers the others would refuse them before they are decoded.
        if *component == Component::Checksums && index != replaced {
            continue;
        }
        let content = if index == replaced { replacement } else { content };
        let file = disk
            .create(&original.descriptor.path(folder, *component))
            .expect("the folder is empty");
        file.append(content).expect("a memory disk has room");
    }
    let table = &original.case.table.metadata;
    let Ok(sstable) = SsTable::open(&disk, folder, original.descriptor, table) else {
        return;
    };
    let all = [Slice::all()];
    for reversed in [false, true] {
        // Either rows or an error; what they are cannot be told without checksums.
        let _ = scan(&sstable, reversed);
        for (token, key) in original.case.partitions.keys() {
            let _ = point_read(&sstable, *token, key, &all, reversed);
        }
    }
});

/// Each version, not compressed and compressed.
fn originals() -> &'static [Original] {
    static ORIGINALS: OnceLock<Vec<Original>> = OnceLock::new();
    ORIGINALS.get_or_init(|| {
        let forms = SsTableFormat::ALL
            .into_iter()
            .flat_map(|format| [(format, false), (format, true)]);
        forms.map(|(format, is_compressed)| original(format, is_compressed)).collect()
    })
}

fn original(format: SsTableFormat, is_compressed: bool) -> Original {
    let mut case = Case::of_kind(SEED, CaseKind::Small, "t", Era::SIGNED);
    let compression = &mut case.table.metadata.params.compression;
    compression.clear();
    if is_compressed {
        compression.insert("class".to_owned(), "LZ4Compressor".to_owned());
    }
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let folder = PathBuf::from(FOLDER);
    let mut options = case.writer_options();
    options.format = format;
    options.column_index_bytes = 64;
    let table = &case.table.metadata;
    let info = write(&disk, &folder, SsTableId::Number(1), table, &case.partitions, options).expect("in memory");
    let components = Component::ALL.into_iter().filter_map(|component| {
        let file = disk.open(&info.descriptor.path(&folder, component)).ok()?;
        let mut bytes = vec![0; file.length().ok()? as usize];
        file.read_exact_at(0, &mut bytes).ok()?;
        Some((component, bytes))
    });
    Original {
        descriptor: info.descriptor,
        components: components.collect(),
        case,
    }
}
