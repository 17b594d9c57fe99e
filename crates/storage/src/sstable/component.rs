//! The files of an SSTable, and the folder they live in.
//!
//! `<keyspace>/<table>-<id without dashes>/nb-<generation>-big-<component>`. A file name has exactly four dashes'
//! worth of parts, which is why nothing here invents other names next to them (temporary ones excepted).

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use helenus_schema::TableMetadata;
use helenus_vfs::{Disk, EntryKind};

/// The SSTable version that Cassandra 4.0 to 5.0 write by default.
const VERSION: &str = "nb";
const FORMAT: &str = "big";

/// Numbers the SSTables of one table folder; never reused while the folder lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Component {
    Data,
    Index,
    Filter,
    CompressionInfo,
    Statistics,
    /// Decimal CRC32 of the whole data file.
    Digest,
    /// Chunk checksums of an uncompressed data file.
    Crc,
    Summary,
    /// CRC32s of what the format itself leaves unchecked: ours, ignored by Cassandra, absent from its files.
    Checksums,
    /// Written last, by rename: an SSTable exists if its TOC does.
    Toc,
}

impl Component {
    pub const ALL: [Component; 10] = [
        Component::Data,
        Component::Index,
        Component::Filter,
        Component::CompressionInfo,
        Component::Statistics,
        Component::Digest,
        Component::Crc,
        Component::Summary,
        Component::Checksums,
        Component::Toc,
    ];

    pub fn file_suffix(self) -> &'static str {
        match self {
            Component::Data => "Data.db",
            Component::Index => "Index.db",
            Component::Filter => "Filter.db",
            Component::CompressionInfo => "CompressionInfo.db",
            Component::Statistics => "Statistics.db",
            Component::Digest => "Digest.crc32",
            Component::Crc => "CRC.db",
            Component::Summary => "Summary.db",
            Component::Checksums => "Checksums.db",
            Component::Toc => "TOC.txt",
        }
    }

    pub fn path(self, directory: &Path, generation: Generation) -> PathBuf {
        directory.join(format!("{VERSION}-{generation}-{FORMAT}-{}", self.file_suffix()))
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

/// Where the TOC is written before it gets its name.
pub(super) fn unfinished_toc_path(directory: &Path, generation: Generation) -> PathBuf {
    directory.join(format!(
        "{VERSION}-{generation}-{FORMAT}-{}.tmp",
        Component::Toc.file_suffix()
    ))
}

/// The folder of a table below the data folder.
pub fn table_folder(data_folder: &Path, table: &TableMetadata) -> PathBuf {
    data_folder
        .join(&*table.keyspace)
        .join(format!("{}-{}", table.name, table.id.0.simple()))
}

/// The generations in a table's folder that are complete, ascending.
pub fn finished_generations(disk: &dyn Disk, directory: &Path) -> io::Result<Vec<Generation>> {
    let mut generations: Vec<Generation> = files(disk, directory)?
        .into_iter()
        .filter(|(_, suffix)| suffix == Component::Toc.file_suffix())
        .map(|(generation, _)| generation)
        .collect();
    generations.sort_unstable();
    Ok(generations)
}

/// Removes what interrupted writes and removals left: the files of every generation without a TOC.
pub fn remove_unfinished(disk: &dyn Disk, directory: &Path) -> io::Result<()> {
    let finished = finished_generations(disk, directory)?;
    let mut removed = false;
    for (generation, suffix) in files(disk, directory)? {
        let is_component = Component::ALL
            .iter()
            .any(|component| component.file_suffix() == suffix);
        if finished.binary_search(&generation).is_err() || !is_component {
            disk.remove(&directory.join(format!("{VERSION}-{generation}-{FORMAT}-{suffix}")))?;
            removed = true;
        }
    }
    if removed {
        disk.sync_directory(directory)
    } else {
        Ok(())
    }
}

/// Removes an SSTable. The TOC goes first and for good, so that a crash leaves garbage and not half an SSTable.
pub fn remove_sstable(disk: &dyn Disk, directory: &Path, generation: Generation) -> io::Result<()> {
    remove_if_there(disk, &Component::Toc.path(directory, generation))?;
    disk.sync_directory(directory)?;
    for component in Component::ALL {
        remove_if_there(disk, &component.path(directory, generation))?;
    }
    Ok(())
}

fn remove_if_there(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    match disk.remove(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The generation and the suffix of every file of this version and format.
fn files(disk: &dyn Disk, directory: &Path) -> io::Result<Vec<(Generation, String)>> {
    let mut files = Vec::new();
    for entry in disk.list(directory)? {
        if entry.kind != EntryKind::File {
            continue;
        }
        let mut parts = entry.name.splitn(4, '-');
        if let (Some(VERSION), Some(generation), Some(FORMAT), Some(suffix)) =
            (parts.next(), parts.next(), parts.next(), parts.next())
            && let Ok(generation) = generation.parse()
        {
            files.push((Generation(generation), suffix.to_owned()));
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use helenus_vfs::MemoryDisk;

    #[test]
    fn generations_without_a_toc_are_garbage() {
        let disk = MemoryDisk::new();
        let folder = Path::new("/ks/t");
        disk.create_dir_all(folder).unwrap();
        for name in [
            "nb-2-big-Data.db",
            "nb-2-big-TOC.txt",
            "nb-10-big-TOC.txt",
            "nb-3-big-Data.db",
        ] {
            disk.create(&folder.join(name)).unwrap();
        }
        disk.create(&unfinished_toc_path(folder, Generation(3))).unwrap();
        disk.create(&folder.join("other")).unwrap();
        remove_unfinished(&disk, folder).unwrap();
        assert_eq!(
            finished_generations(&disk, folder).unwrap(),
            [Generation(2), Generation(10)]
        );
        remove_sstable(&disk, folder, Generation(2)).unwrap();
        let names: Vec<String> = disk
            .list(folder)
            .unwrap()
            .into_iter()
            .map(|entry| entry.name)
            .collect();
        assert_eq!(names, ["nb-10-big-TOC.txt", "other"]);
    }
}
