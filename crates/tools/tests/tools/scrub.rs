//! Scrubbing SSTables that were damaged at random, in the data and in the index.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use helenus_rows::clustering::Slice;
use helenus_sstable::{Component, Descriptor, SsTable, SsTableFormat, SsTableId, Version};
use helenus_storage_model::{
    Case, CaseKind, Chance, Era, Item, Partition, Partitions, point_read, scan, write,
};
use helenus_tools::progress::Silent;
use helenus_tools::scrub::{ScrubError, scrub};
use helenus_tools::target::{Target, Targets};
use helenus_tools::verify::verify;
use helenus_vfs::{Disk, MemoryDisk};

/// Per format; `HELENUS_SCRUB_SEEDS=1000` for long runs.
const SEEDS: u64 = 24;

const FOLDER: &str = "/files";
const OUT: &str = "/scrubbed";

fn seeds() -> u64 {
    let count = std::env::var("HELENUS_SCRUB_SEEDS").ok();
    count.and_then(|text| text.parse().ok()).unwrap_or(SEEDS)
}

/// A file of some partitions, as Cassandra's come: without what we write about it.
struct Original {
    case: Case,
    descriptor: Descriptor,
    components: Vec<(Component, Vec<u8>)>,
}

fn original(seed: u64, format: SsTableFormat) -> Original {
    let era = if Version::from(format).has_unsigned_deletion_time() {
        Era::UNSIGNED
    } else {
        Era::SIGNED
    };
    let kinds = [CaseKind::Small, CaseKind::Wide, CaseKind::Deep];
    let kind = kinds[seed as usize % kinds.len()];
    let mut case = Case::of_kind(seed, kind, "damaged", era);
    let compression = &mut case.table.metadata.params.compression;
    if compression.contains_key("class") {
        // Small chunks, so that damage leaves something.
        compression.insert("chunk_length_in_kb".to_owned(), "4".to_owned());
    }
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let mut options = case.writer_options();
    options.format = format;
    options.column_index_bytes = 512;
    let (folder, table) = (Path::new(FOLDER), &case.table.metadata);
    let info = write(
        &disk,
        folder,
        SsTableId::Number(1),
        table,
        &case.partitions,
        options,
    )
    .unwrap();
    let foreign = Component::ALL.into_iter().filter(|component| {
        !matches!(
            component,
            Component::Checksums | Component::Blocks | Component::Fences
        )
    });
    let components = foreign.filter_map(|component| {
        let file = disk.open(&info.descriptor.path(folder, component)).ok()?;
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

fn disk_of(descriptor: Descriptor, components: &[(Component, Vec<u8>)]) -> Arc<dyn Disk> {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    disk.create_dir_all(Path::new(FOLDER)).unwrap();
    for (component, bytes) in components {
        let path = descriptor.path(Path::new(FOLDER), *component);
        disk.create(&path).unwrap().append(bytes).unwrap();
    }
    disk
}

fn target(disk: &dyn Disk, folder: &str) -> Target {
    let mut targets = Targets::find(disk, Path::new(folder)).unwrap().all().unwrap();
    assert_eq!(targets.len(), 1);
    targets.remove(0)
}

/// One to four times: a bit, a stretch, the end, or all of a component.
fn damage(chance: &Chance, components: &mut Vec<(Component, Vec<u8>)>) {
    for _ in 0..=chance.below(4) {
        let damaged = [
            Component::Data,
            Component::Data,
            Component::Index,
            Component::Partitions,
            Component::Rows,
            Component::Summary,
            Component::Filter,
        ];
        let wanted = *chance.pick(&damaged);
        let Some(at) = components
            .iter()
            .position(|(component, bytes)| *component == wanted && !bytes.is_empty())
        else {
            continue;
        };
        let bytes = &mut components[at].1;
        let place = chance.count(bytes.len());
        match chance.below(8) {
            0..5 => bytes[place] ^= 1 << chance.below(8),
            5 => {
                let end = bytes.len().min(place + 1 + chance.count(200));
                bytes[place..end].fill(0);
            }
            _ if wanted == Component::Data => bytes[place] ^= 0xff,
            6 => bytes.truncate(place),
            _ => drop(components.remove(at)),
        }
    }
}

/// The partitions that an intact index still leads to, whole.
fn undamaged(original: &Original, damaged: &[(Component, Vec<u8>)]) -> Partitions {
    let mut components = original.components.clone();
    for (component, bytes) in &mut components {
        if *component == Component::Data
            && let Some((_, data)) = damaged.iter().find(|(other, _)| other == component)
        {
            bytes.clone_from(data);
        }
    }
    let disk = disk_of(original.descriptor, &components);
    let table = &original.case.table.metadata;
    let Ok(sstable) = SsTable::open(&*disk, Path::new(FOLDER), original.descriptor, table) else {
        return Partitions::new();
    };
    let all = [Slice::all()];
    let mut found = Partitions::new();
    for ((token, key), partition) in &original.case.partitions {
        if point_read(&sstable, *token, key, &all, false).is_ok_and(|read| read.as_ref() == Some(partition)) {
            found.insert((*token, key.clone()), partition.clone());
        }
    }
    found
}

fn check_rows(name: &str, saved: &Partition, wanted: &Partition) {
    assert_eq!(saved.deletion, wanted.deletion, "{name}");
    assert!(saved.static_row == wanted.static_row, "{name}");
    for item in &saved.items {
        // A range deletion that is cut is ended where the cut is.
        if let Item::Row { .. } = item {
            assert!(
                wanted.items.contains(item),
                "{name}: {item:?} is not of the original"
            );
        }
    }
}

/// Scrubs the file while it is undamaged: the result is the same without what its own deletions hide.
fn scrubbed_whole(original: &Original) -> Partitions {
    let disk = disk_of(original.descriptor, &original.components);
    let out = PathBuf::from(OUT);
    let scrubbed = scrub(&disk, &target(&*disk, FOLDER), Some(&out), "unused", &Silent).unwrap();
    assert!(
        scrubbed.dropped.is_empty() && scrubbed.index_damage.is_none(),
        "{scrubbed:?}"
    );
    let table = &original.case.table.metadata;
    let sstable = SsTable::open(&*disk, &out, target(&*disk, OUT).descriptor, table).unwrap();
    scan(&sstable, false).unwrap()
}

fn scrub_damaged(seed: u64, format: SsTableFormat) -> bool {
    let original = original(seed, format);
    let chance = Chance::new(seed ^ 0x5c2b_0000);
    let mut components = original.components.clone();
    damage(&chance, &mut components);
    let disk = disk_of(original.descriptor, &components);
    let name = format!("seed {seed}, {}", original.descriptor);
    let out = PathBuf::from(OUT);
    let scrubbed = match scrub(&disk, &target(&*disk, FOLDER), Some(&out), "unused", &Silent) {
        Ok(scrubbed) => scrubbed,
        Err(ScrubError::Hopeless { .. }) => return false,
        Err(error) => panic!("{name}: {error}"),
    };
    let safe = undamaged(&original, &components);
    let whole = scrubbed_whole(&original);
    let mut saved = Partitions::new();
    if scrubbed.output.is_some() {
        let output = target(&*disk, OUT);
        let verification = verify(&*disk, &output, &Silent);
        assert!(verification.is_sound(), "{name}: {verification:?}");
        let table = &original.case.table.metadata;
        let sstable = SsTable::open(&*disk, &out, output.descriptor, table).unwrap();
        saved = scan(&sstable, false).unwrap();
    }
    for (place, partition) in &saved {
        let wanted = &whole[place];
        check_rows(&name, partition, wanted);
    }
    for place in safe.keys() {
        assert!(saved.get(place) == whole.get(place), "{name}: {scrubbed:#?}");
    }
    let is_whole = saved == whole;
    assert!(
        is_whole || !scrubbed.dropped.is_empty(),
        "{name}: what was lost is not said"
    );
    true
}

#[test]
fn random_damage_costs_what_it_reaches_and_no_more() {
    let mut scrubbed = 0;
    for format in SsTableFormat::ALL {
        for seed in 0..seeds() {
            scrubbed += u64::from(scrub_damaged(seed, format));
        }
    }
    assert!(scrubbed > seeds(), "{scrubbed} were scrubbed");
}

/// Symptom: scrub followed the index alone, and a damaged entry lost all partitions behind it.
#[test]
fn without_an_index_nothing_is_lost() {
    for format in SsTableFormat::ALL {
        let original = original(1, format);
        let whole = scrubbed_whole(&original);
        for is_missing in [true, false] {
            let mut components = original.components.clone();
            let index = [Component::Index, Component::Partitions, Component::Rows];
            if is_missing {
                components.retain(|(component, _)| !index.contains(component));
            } else {
                let damaged = components
                    .iter_mut()
                    .filter(|(component, _)| index.contains(component));
                damaged.for_each(|(_, bytes)| bytes.iter_mut().for_each(|byte| *byte ^= 0x55));
            }
            let disk = disk_of(original.descriptor, &components);
            let out = PathBuf::from(OUT);
            let scrubbed = scrub(&disk, &target(&*disk, FOLDER), Some(&out), "unused", &Silent).unwrap();
            assert!(scrubbed.dropped.is_empty(), "{scrubbed:?}");
            assert!(scrubbed.index_damage.is_some());
            let output = target(&*disk, OUT);
            let table = &original.case.table.metadata;
            let sstable = SsTable::open(&*disk, &out, output.descriptor, table).unwrap();
            assert!(scan(&sstable, false).unwrap() == whole, "{format:?}");
        }
    }
}
