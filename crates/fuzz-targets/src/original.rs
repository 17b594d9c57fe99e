//! The SSTables whose components are replaced, and everything that reads one.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use helenus_rows::clustering::{ClusteringBound, Components, Side, Slice, push_component};
use helenus_rows::partition_range::PartitionRange;
use helenus_schema::{SsTableFormat, TableMetadata};
use helenus_sstable::error::ReadError;
use helenus_sstable::source::{PartitionCursor, PartitionScanner};
use helenus_sstable::{
    Component, CompressionParameters, Compressor, Descriptor, PageCache, Salvage, SsTable, SsTableId,
    SsTableInfo, StoredMetadata,
};
use helenus_storage_model::{Case, CaseKind, Era, Item, LargePartition, Partition, scan, write};
use helenus_tools::progress::Silent;
use helenus_tools::target::Targets;
use helenus_tools::verify::verify;
use helenus_types::Token;
use helenus_types::token::token_of;
use helenus_vfs::{Disk, MemoryDisk};

use crate::seals;

const FOLDER: &str = "/sstable";
/// A table with three clustering and three static columns, range deletions, and 3 KB of data; found by trying.
const SEED: u64 = 6;
/// So that partitions of the small tables have several blocks.
const COLUMN_INDEX_BYTES: u32 = 64;
/// So that small data has several chunks.
const CHUNK_BYTES: u32 = 1024;
/// Keys that are read by themselves.
const KEYS_MAX: usize = 4;
/// Rows and markers that a damaged file may seem to have before reading it counts as endless: as in the bit-flip
/// campaign.
const ITEMS_MAX: usize = 1 << 16;
const CACHE_BYTES: usize = 1 << 20;

/// The compressor that goes with each version, so that all are read.
const COMPRESSORS: [(SsTableFormat, Compressor); 4] = [
    (SsTableFormat::Me, Compressor::Snappy),
    (SsTableFormat::Nb, Compressor::Lz4),
    (SsTableFormat::Oa, Compressor::Deflate),
    (SsTableFormat::Da, Compressor::Zstd { level: 3 }),
];

/// One undamaged SSTable.
struct Original {
    name: String,
    table: TableMetadata,
    format: SsTableFormat,
    descriptor: Descriptor,
    components: BTreeMap<Component, Vec<u8>>,
    keys: Vec<(Token, Vec<u8>)>,
    slices: Vec<Slice>,
    /// A partition of the size that Blocks.db describes; the others are small.
    is_large: bool,
}

/// Replaces the component of the original that the first byte chooses, and reads.
pub fn run(component: Component, bytes: &[u8]) {
    let Some((choice, replacement)) = bytes.split_first() else {
        return;
    };
    let variants = variants(component);
    if let Some(original) = variants.get(usize::from(*choice) % variants.len().max(1)) {
        original.read_with(component, replacement);
    }
}

/// The component of each original that has it.
pub fn corpus(component: Component) -> Vec<(String, Vec<u8>)> {
    let variants = variants(component).into_iter().enumerate();
    let inputs = variants.map(|(index, original)| {
        let mut bytes = vec![index as u8];
        bytes.extend_from_slice(&original.components[&component]);
        (original.name.clone(), bytes)
    });
    inputs.collect()
}

/// Compression matters to few components, of which the tries are of one version alone; Blocks.db describes large
/// partitions only.
fn variants(component: Component) -> Vec<&'static Original> {
    let for_compressed = [
        Component::Data,
        Component::CompressionInfo,
        Component::Partitions,
        Component::Rows,
        Component::Toc,
        Component::Checksums,
    ];
    let fits = |original: &&Original| {
        original.components.contains_key(&component)
            && original.is_large == (component == Component::Blocks)
            && (for_compressed.contains(&component)
                || !original.components.contains_key(&Component::CompressionInfo))
    };
    originals().iter().filter(fits).collect()
}

fn originals() -> &'static [Original] {
    static ORIGINALS: OnceLock<Vec<Original>> = OnceLock::new();
    ORIGINALS.get_or_init(|| {
        let plain = SsTableFormat::ALL.map(|format| small(format, None));
        let compressed = COMPRESSORS.map(|(format, compressor)| small(format, Some(compressor)));
        let large = [SsTableFormat::Nb, SsTableFormat::Da].map(large);
        plain.into_iter().chain(compressed).chain(large).collect()
    })
}

fn small(format: SsTableFormat, compressor: Option<Compressor>) -> Original {
    let case = Case::of_kind(SEED, CaseKind::Small, "t", Era::SIGNED);
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let mut options = case.writer_options();
    options.format = format;
    options.column_index_bytes = COLUMN_INDEX_BYTES;
    options.compression = compressor.map(|compressor| CompressionParameters {
        compressor,
        chunk_bytes: CHUNK_BYTES,
        compressed_bytes_max: CHUNK_BYTES,
    });
    let table = case.table.metadata;
    let folder = Path::new(FOLDER);
    let info = write(
        &disk,
        folder,
        SsTableId::Number(1),
        &table,
        &case.partitions,
        options,
    );
    let name = format!(
        "{}-{}",
        format.name(),
        compressor.map_or("Plain", Compressor::class)
    );
    Original::of(name, &*disk, info.expect("a memory disk has room"), table, format)
}

/// More than the 64 KiB from which on a partition is described in Blocks.db.
fn large(format: SsTableFormat) -> Original {
    let partition = LargePartition {
        rows: 40,
        huge_every: 1,
        huge_bytes: 2048,
    };
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let table = partition.table("t", None).metadata;
    let folder = Path::new(FOLDER);
    let info = partition.write(&disk, folder, SsTableId::Number(1), &table, format);
    let name = format!("{}-Large", format.name());
    let mut original = Original::of(name, &*disk, info.expect("a memory disk has room"), table, format);
    original.is_large = true;
    original
}

impl Original {
    fn of(
        name: String,
        disk: &dyn Disk,
        info: SsTableInfo,
        table: TableMetadata,
        format: SsTableFormat,
    ) -> Self {
        let folder = Path::new(FOLDER);
        let components = Component::ALL.into_iter().filter_map(|component| {
            let file = disk.open(&info.descriptor.path(folder, component)).ok()?;
            let mut bytes = vec![0; file.length().ok()? as usize];
            file.read_exact_at(0, &mut bytes).ok()?;
            Some((component, bytes))
        });
        let components = components.collect();
        let sstable = SsTable::open(disk, folder, info.descriptor, &table).expect("it is undamaged");
        let partitions = scan(&sstable, false).expect("it is undamaged");
        // The largest have several blocks.
        let mut ranked: Vec<_> = partitions.iter().collect();
        ranked.sort_by_key(|(_, partition)| std::cmp::Reverse(partition.items.len()));
        let mut keys: Vec<_> = ranked
            .iter()
            .map(|(place, _)| (*place).clone())
            .take(KEYS_MAX)
            .collect();
        let missing = b"\0missing".to_vec();
        keys.push((token_of(&missing), missing));
        Original {
            name,
            table,
            format,
            descriptor: info.descriptor,
            components,
            keys,
            slices: ranked
                .first()
                .and_then(|(_, partition)| middle(partition))
                .into_iter()
                .collect(),
            is_large: false,
        }
    }

    fn read_with(&self, component: Component, replacement: &[u8]) {
        let mut components = self.components.clone();
        components.insert(component, replacement.to_vec());
        if component != Component::Checksums {
            // It would refuse all others before they are decoded.
            components.remove(&Component::Checksums);
        }
        seals::fit(&mut components, component, self.format);
        let disk = MemoryDisk::new();
        let folder = Path::new(FOLDER);
        disk.create_dir_all(folder).expect("a memory disk has room");
        for (component, bytes) in &components {
            let file = disk.create(&self.descriptor.path(folder, *component));
            let appended = file.expect("the folder is empty").append(bytes);
            appended.expect("a memory disk has room");
        }
        match component {
            // Nothing but the tools reads it.
            Component::Digest => return verify_all(&disk, folder),
            Component::Toc => verify_all(&disk, folder),
            Component::Statistics => {
                if let Ok(metadata) = StoredMetadata::read(&disk, folder, self.descriptor) {
                    // The table as the file describes it, or an error.
                    let _ = metadata.table("k", "t");
                }
            }
            Component::Data | Component::Index | Component::Partitions | Component::CompressionInfo => {
                self.salvage(&disk, folder, component);
            }
            _ => {}
        }
        if let Ok(sstable) = SsTable::open(&disk, folder, self.descriptor, &self.table) {
            self.read(&sstable);
        }
    }

    /// Rows or an error, which of them cannot be told without checksums; but not without end.
    fn read(&self, sstable: &SsTable) {
        let all = [Slice::all()];
        let mut left = ITEMS_MAX;
        for reversed in [false, true] {
            let _ = scan_all(sstable, &all, reversed, &mut left);
            for (token, key) in &self.keys {
                let _ = point(sstable, (*token, key), &all, reversed, &mut left);
                let _ = point(sstable, (*token, key), &self.slices, reversed, &mut left);
            }
        }
    }

    /// Salvages as `scrub` does, short of writing.
    fn salvage(&self, disk: &dyn Disk, folder: &Path, component: Component) {
        let Ok(salvage) = Salvage::open(disk, folder, self.descriptor, &self.table) else {
            return;
        };
        let (cache, all) = (PageCache::new(CACHE_BYTES), [Slice::all()]);
        let mut reader = salvage.reader(&cache, &all);
        let mut left = ITEMS_MAX;
        for start in salvage.starts() {
            if let Ok(Some(key)) = reader.head_at(*start, None)
                && let Ok(cursor) = reader.open(*start, &key)
            {
                let _ = drain(cursor, &mut left);
            }
        }
        if component == Component::Data {
            // The last tenth; it tries every byte.
            let length = salvage.data_bytes();
            let _ = reader.find(length - length / 10, length, None);
        }
    }
}

fn verify_all(disk: &dyn Disk, folder: &Path) {
    for target in Targets::find(disk, folder)
        .map(|targets| targets.readable)
        .unwrap_or_default()
    {
        let _ = verify(disk, &target, &Silent);
    }
}

/// The row in the middle alone, which an index has to find.
fn middle(partition: &Partition) -> Option<Slice> {
    let rows = partition.items.iter().skip(partition.items.len() / 2);
    let clustering = rows.clone().find_map(|item| match item {
        Item::Row { clustering, .. } => Some(clustering),
        Item::Marker { .. } => None,
    })?;
    let mut prefix = Vec::new();
    Components::new(clustering).for_each(|component| push_component(&mut prefix, component));
    let bound = |side| ClusteringBound {
        prefix: prefix.clone().into(),
        side,
    };
    Some(Slice {
        start: bound(Side::Before),
        end: bound(Side::After),
    })
}

fn scan_all(sstable: &SsTable, slices: &[Slice], reversed: bool, left: &mut usize) -> Result<(), ReadError> {
    let cache = PageCache::new(CACHE_BYTES);
    let (start, end) = PartitionRange::everything().bounds();
    let mut scanner = sstable.scan(&cache, start, end, slices, reversed);
    while scanner.advance()? {
        spend(left);
        drain(&mut scanner.open()?, left)?;
    }
    Ok(())
}

fn point(
    sstable: &SsTable,
    (token, key): (Token, &[u8]),
    slices: &[Slice],
    reversed: bool,
    left: &mut usize,
) -> Result<(), ReadError> {
    let cache = PageCache::new(CACHE_BYTES);
    match sstable.partition(&cache, token, key, slices, reversed)? {
        Some(mut cursor) => drain(&mut cursor, left),
        None => Ok(()),
    }
}

fn drain(cursor: &mut dyn PartitionCursor, left: &mut usize) -> Result<(), ReadError> {
    while cursor.advance()? {
        spend(left);
    }
    Ok(())
}

fn spend(left: &mut usize) {
    *left = left.checked_sub(1).expect("reading has an end");
}
