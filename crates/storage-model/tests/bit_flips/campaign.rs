//! One SSTable after another, each component of it damaged in turn.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use helenus_sstable::error::ReadError;
use helenus_sstable::{Component, Descriptor, OpenError, SsTableFormat, SsTableId, Version};
use helenus_storage_model::{Case, CaseKind, Chance, Era, write};
use helenus_vfs::{Disk, SimulatedDisk};

use crate::reading::{Answers, read_everything};
use helenus_test_heap::largest_allocation_of;

/// Origin of files: ours bring checksums of what the format leaves unchecked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    Ours,
    /// The same without our own components, as Cassandra's come.
    Foreign,
}

/// Outcomes of damaging one component of one kind of file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    pub flips: usize,
    /// Refused with file, offset, what was wanted and what was found.
    pub detected: usize,
    /// Refused by name: another table, another compressor, an unknown column.
    pub refused: usize,
    /// Everything was read as it was written.
    pub harmless: usize,
    /// Something else was read; only possible where no checksum covers the component.
    pub wrong: usize,
    /// An error of the disk, a panic, no end, or an allocation beyond the file's size: bugs.
    pub faults: usize,
    pub cuts: usize,
    pub cuts_detected: usize,
}

/// Origin, format, compressor, component.
pub type Counts = BTreeMap<(Origin, String, String, &'static str), Count>;

enum Verdict {
    Detected,
    Refused,
    Harmless,
    Wrong(String),
    Fault(String),
}

pub struct Campaign {
    pub counts: Counts,
    pub complaints: Vec<String>,
    flips_max: u64,
    chance: Chance,
}

/// One file on a disk of its own, and what reading it undamaged returned.
struct Target<'a> {
    origin: Origin,
    disk: Arc<SimulatedDisk>,
    folder: PathBuf,
    descriptor: Descriptor,
    case: &'a Case,
    pristine: Answers,
    /// The largest allocation that reading may make: what reading the file undamaged takes, or the file's size, compressed or
    /// not.
    allocation_max: usize,
}

impl Campaign {
    pub fn new(seed: u64, flips_max: u64) -> Self {
        Campaign {
            counts: Counts::new(),
            complaints: Vec::new(),
            flips_max,
            chance: Chance::new(seed),
        }
    }

    /// Damages one case's file in each format; formats that cannot be written yet are left out.
    pub fn run(&mut self, seed: u64, formats: &[SsTableFormat]) {
        for &format in formats {
            let case = case(seed, format);
            for origin in [Origin::Ours, Origin::Foreign] {
                let Some(target) = Target::new(&case, format, origin) else {
                    continue;
                };
                self.damage(&target, origin, format);
            }
        }
    }

    /// Flips one bit of a file that Cassandra could have left; its complaint, if there is one.
    pub fn flip(
        seed: u64,
        format: SsTableFormat,
        component: Component,
        bit: u64,
    ) -> Result<&'static str, String> {
        let case = case(seed, format);
        let target = Target::new(&case, format, Origin::Foreign).ok_or("not a file")?;
        let path = target.descriptor.path(&target.folder, component);
        target
            .disk
            .flip_bit(&path, bit)
            .map_err(|error| error.to_string())?;
        match target.verdict() {
            Verdict::Detected => Ok("detected"),
            Verdict::Refused => Ok("refused"),
            Verdict::Harmless => Ok("harmless"),
            Verdict::Wrong(reason) | Verdict::Fault(reason) => Err(reason),
        }
    }

    fn damage(&mut self, target: &Target<'_>, origin: Origin, format: SsTableFormat) {
        for component in Component::ALL {
            let path = target.descriptor.path(&target.folder, component);
            let Ok(length) = target.disk.open(&path).and_then(|file| file.length()) else {
                continue;
            };
            let key = (
                origin,
                format.name().to_owned(),
                target.case.compressor().to_owned(),
                component.file_suffix(),
            );
            let mut count = self.counts.get(&key).copied().unwrap_or_default();
            let what = format!(
                "{} seed {} {origin:?} {}",
                format.name(),
                target.case.seed,
                component.file_suffix()
            );
            let bits = length * 8;
            for number in 0..bits.min(self.flips_max) {
                let bit = if bits <= self.flips_max {
                    number
                } else {
                    self.chance.below(bits)
                };
                target.disk.flip_bit(&path, bit).unwrap();
                count.flips += 1;
                let verdict = target.verdict();
                self.note(
                    &mut count,
                    verdict,
                    &format!("{what} bit {bit}"),
                    target.is_covered(component),
                );
                target.disk.flip_bit(&path, bit).unwrap();
            }
            self.cut(target, &path, length, component, &mut count, &what);
            self.counts.insert(key, count);
        }
    }

    fn note(&mut self, count: &mut Count, verdict: Verdict, what: &str, is_covered: bool) {
        match verdict {
            Verdict::Detected => count.detected += 1,
            Verdict::Refused => count.refused += 1,
            Verdict::Harmless => count.harmless += 1,
            Verdict::Wrong(reason) => {
                count.wrong += 1;
                if is_covered {
                    self.complaints.push(format!("{what}: {reason}"));
                }
            }
            Verdict::Fault(reason) => {
                count.faults += 1;
                self.complaints.push(format!("{what}: {reason}"));
            }
        }
    }

    /// Shortened at a few places and taken away: refused, or not needed.
    fn cut(
        &mut self,
        target: &Target<'_>,
        path: &Path,
        length: u64,
        component: Component,
        count: &mut Count,
        what: &str,
    ) {
        let file = target.disk.open_writable(path).unwrap();
        let mut original = vec![0; length as usize];
        file.read_exact_at(0, &mut original).unwrap();
        for keep in [0, 1, length / 2, length.saturating_sub(1)] {
            file.set_length(keep).unwrap();
            count.cuts += 1;
            match target.verdict() {
                Verdict::Detected | Verdict::Refused => count.cuts_detected += 1,
                Verdict::Harmless => {}
                Verdict::Wrong(_) if !target.is_covered(component) => {}
                Verdict::Wrong(reason) | Verdict::Fault(reason) => {
                    self.complaints.push(format!("{what} cut to {keep}: {reason}"));
                }
            }
            file.set_length(0).unwrap();
            file.write_at(0, &original).unwrap();
        }
        drop(file);
        target.disk.remove(path).unwrap();
        match target.verdict_of_missing(component) {
            Ok(()) => {}
            Err(reason) => self.complaints.push(format!("{what} taken away: {reason}")),
        }
        target.disk.create(path).unwrap().append(&original).unwrap();
    }
}

fn case(seed: u64, format: SsTableFormat) -> Case {
    let kinds = [
        CaseKind::Small,
        CaseKind::Wide,
        CaseKind::Deep,
        CaseKind::Collisions,
        CaseKind::Counters,
    ];
    let kind = kinds[seed as usize % kinds.len()];
    let era = if Version::from(format).has_unsigned_deletion_time() {
        Era::UNSIGNED
    } else {
        Era::SIGNED
    };
    let mut case = Case::of_kind(seed, kind, "flipped", era);
    // A few partitions are enough, and let more bits be tried.
    while case.item_count() > 150 && case.partitions.len() > 1 {
        case.partitions.pop_last();
    }
    case
}

impl<'a> Target<'a> {
    fn new(case: &'a Case, format: SsTableFormat, origin: Origin) -> Option<Self> {
        let disk = Arc::new(SimulatedDisk::new(case.seed));
        let folder = PathBuf::from("/flips");
        let shared: Arc<dyn Disk> = disk.clone();
        let mut options = case.writer_options();
        options.format = format;
        options.column_index_bytes = 256;
        let table = &case.table.metadata;
        let written = write(
            &shared,
            &folder,
            SsTableId::Number(1),
            table,
            &case.partitions,
            options,
        );
        let info = written.expect("a case can be written");
        if origin == Origin::Foreign {
            for component in [Component::Checksums, Component::Blocks, Component::Fences] {
                // Not every file has all of them.
                let _ = disk.remove(&info.descriptor.path(&folder, component));
            }
        }
        let read = || read_everything(&*disk, &folder, info.descriptor, table, &case.partitions);
        let (pristine, largest) = largest_allocation_of(read);
        let pristine = pristine.ok()?;
        Some(Target {
            origin,
            allocation_max: largest.max(info.disk_bytes.max(info.data_bytes) as usize),
            pristine,
            disk,
            folder,
            descriptor: info.descriptor,
            case,
        })
    }

    /// Returns whether a checksum, or the format's own redundancy, covers every byte of the component.
    fn is_covered(&self, component: Component) -> bool {
        match component {
            Component::Data | Component::Checksums | Component::Digest | Component::Toc => true,
            // The format has a checksum of it from `na` on.
            Component::Statistics if self.descriptor.version.has_metadata_checksum() => true,
            _ => self.origin == Origin::Ours,
        }
    }

    fn read(&self) -> Result<Answers, OpenError> {
        let (table, model) = (&self.case.table.metadata, &self.case.partitions);
        read_everything(&*self.disk, &self.folder, self.descriptor, table, model)
    }

    fn verdict(&self) -> Verdict {
        let read = || catch_unwind(AssertUnwindSafe(|| self.read()));
        let (result, largest) = largest_allocation_of(read);
        let Ok(result) = result else {
            return Verdict::Fault("a panic".to_owned());
        };
        if largest > self.allocation_max {
            return Verdict::Fault(format!(
                "an allocation of {largest} bytes, {} are enough",
                self.allocation_max
            ));
        }
        match result {
            Err(OpenError::Read(error)) => of_error(&error),
            Err(_) => Verdict::Refused,
            Ok(answers) => self.compare(&answers),
        }
    }

    /// Without a component that is needed an SSTable is refused, and the error names the file.
    fn verdict_of_missing(&self, component: Component) -> Result<(), String> {
        match self.read() {
            Err(error) if error.to_string().contains(component.file_suffix()) => Ok(()),
            // Without it the file is taken for one that is not compressed.
            Err(error)
                if component == Component::CompressionInfo
                    && error.to_string().contains(Component::Crc.file_suffix()) =>
            {
                Ok(())
            }
            Err(error) => Err(format!("refused without its name: {error}")),
            Ok(answers) => match self.compare(&answers) {
                Verdict::Harmless | Verdict::Detected => Ok(()),
                _ => Err("something else was read".to_owned()),
            },
        }
    }

    fn compare(&self, answers: &Answers) -> Verdict {
        let mut error = None;
        for (index, (found, wanted)) in answers.iter().zip(&self.pristine).enumerate() {
            match (found, wanted) {
                (Err(found), _) => error = Some(of_error(found)),
                (Ok(found), Ok(wanted)) if found == wanted => {}
                _ => return Verdict::Wrong(format!("read {index} returned something else")),
            }
        }
        error.unwrap_or(Verdict::Harmless)
    }
}

fn of_error(error: &ReadError) -> Verdict {
    match error {
        ReadError::Corrupt { .. } => Verdict::Detected,
        error => Verdict::Fault(format!("not told as corrupt: {error}")),
    }
}
