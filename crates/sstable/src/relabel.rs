//! The same SSTable under another id and with another level, by links to its files: what changes are Statistics.db and
//! our checksums of it.
//!
//! Cassandra puts a new Statistics.db in the place of the old one. Here Checksums.db may vouch for that file, and no
//! rename replaces two files; so the SSTable gets a second id and a compaction's list decides between the two.

use std::io;
use std::path::Path;

use helenus_vfs::Disk;

use crate::block::checksums::Checksums;
use crate::block::page_sums::PageSums;
use crate::component::Component;
use crate::component_reader::ComponentReader;
use crate::decode::DecodeError;
use crate::descriptor::Descriptor;
use crate::error::{OpenError, WriteError};
use crate::meta::statistics_file::with_level;
use crate::seal::SealError;
use crate::toc::Toc;
use crate::writer::STATISTICS_PAGE_BYTES;

/// Gives an SSTable of a folder (`from`) a twin (`to`), sealed and not published, that differs from it in its level. What
/// is there after an error is garbage; an error of writing is also how a file system says that it has no links.
pub fn relabel_sstable(
    disk: &dyn Disk,
    (directory, from, to): (&Path, Descriptor, Descriptor),
    level: u32,
) -> Result<(), SealError> {
    let mut components = ComponentReader::new(disk, directory, from)?;
    // Checks it.
    components.read_statistics()?;
    let statistics = components.read(Component::Statistics).map_err(OpenError::from)?;
    let in_file = |component: Component| {
        let file = from.path(directory, component);
        move |error: DecodeError| OpenError::from(error.in_file(&file, 0))
    };
    let statistics = with_level(&statistics, from.version, level).map_err(in_file(Component::Statistics))?;
    let mut toc = Toc::new(disk, directory, to);
    for component in Component::ALL {
        match component {
            Component::Toc => {}
            Component::Statistics => toc.write(component, &statistics)?,
            Component::Checksums => {
                let Some(bytes) = components.read_if_there(component).map_err(OpenError::from)? else {
                    continue;
                };
                // What does not decode is done without, and not copied.
                let Ok(mut checksums) = Checksums::decode(&bytes) else {
                    continue;
                };
                let of_statistics = checksums
                    .lists
                    .iter_mut()
                    .find(|list| list.component == Component::Statistics);
                if let Some(list) = of_statistics {
                    let mut sums = PageSums::new(STATISTICS_PAGE_BYTES);
                    sums.update(&statistics);
                    *list = sums.finish(Component::Statistics);
                }
                toc.write(component, &checksums.encode())?;
            }
            component => {
                let existing = from.path(directory, component);
                let linked = link(disk, &existing, &to.path(directory, component));
                let length = linked.map_err(|source| WriteError::Io {
                    file: existing,
                    source,
                })?;
                length.into_iter().for_each(|length| toc.note(component, length));
            }
        }
    }
    toc.seal()?;
    Ok(())
}

/// The length of the file, if there is one.
fn link(disk: &dyn Disk, existing: &Path, link: &Path) -> io::Result<Option<u64>> {
    if !disk.exists(existing)? {
        return Ok(None);
    }
    disk.hard_link(existing, link)?;
    disk.open(link)?.length().map(Some)
}
