//! The names of an SSTable's files, of whatever version: `<version>-<id>-<format>-<component>`.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use helenus_vfs::{Disk, EntryKind};

/// A file name in its parts. The id is a number, or since Cassandra 4.1 possibly a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileName<'a> {
    pub version: &'a str,
    pub id: &'a str,
    /// Format and component, `big-Data.db` for one.
    pub rest: &'a str,
}

/// Which SSTable of a folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SsTableName {
    pub version: String,
    pub id: String,
    pub format: String,
}

/// The files of each SSTable in a folder: paths by what follows the id.
pub type FolderFiles = BTreeMap<SsTableName, BTreeMap<String, PathBuf>>;

const DATA: &str = "Data.db";
const TOC: &str = "TOC.txt";

impl<'a> FileName<'a> {
    pub fn parse(name: &'a str) -> Option<Self> {
        let (version, rest) = name.split_once('-')?;
        let (id, rest) = rest.split_once('-')?;
        let (format, component) = rest.split_once('-')?;
        let is_version = version.len() == 2 && version.bytes().all(|byte| byte.is_ascii_lowercase());
        (is_version && !id.is_empty() && !format.is_empty() && !component.is_empty()).then_some(FileName {
            version,
            id,
            rest,
        })
    }

    pub fn format(&self) -> &'a str {
        self.rest.split_once('-').map_or(self.rest, |(format, _)| format)
    }

    pub fn component(&self) -> &'a str {
        self.rest
            .split_once('-')
            .map_or(self.rest, |(_, component)| component)
    }

    pub fn sstable(&self) -> SsTableName {
        SsTableName {
            version: self.version.to_owned(),
            id: self.id.to_owned(),
            format: self.format().to_owned(),
        }
    }
}

impl SsTableName {
    pub fn data_file(&self) -> String {
        self.file(DATA)
    }

    pub fn file(&self, component: &str) -> String {
        format!("{}-{}-{}-{component}", self.version, self.id, self.format)
    }

    /// What follows the id in the name of a component.
    pub fn rest(&self, component: &str) -> String {
        format!("{}-{component}", self.format)
    }
}

/// What lies in a folder that looks like a part of an SSTable; temporary files are left out.
pub fn sstables_in(disk: &dyn Disk, folder: &Path) -> io::Result<FolderFiles> {
    let mut found = FolderFiles::new();
    for entry in disk.list(folder)? {
        let Some(name) = FileName::parse(&entry.name) else {
            continue;
        };
        if entry.kind == EntryKind::File && !entry.name.ends_with(".tmp") {
            found
                .entry(name.sstable())
                .or_default()
                .insert(name.rest.to_owned(), folder.join(&entry.name));
        }
    }
    Ok(found)
}

/// Whether the files are more than what an interrupted write or removal left.
pub fn is_finished(name: &SsTableName, files: &BTreeMap<String, PathBuf>) -> bool {
    files.contains_key(&name.rest(TOC))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart() {
        let name = FileName::parse("nb-12-big-Data.db").unwrap();
        assert_eq!((name.version, name.id), ("nb", "12"));
        assert_eq!((name.format(), name.component()), ("big", "Data.db"));
        assert_eq!(name.sstable().file("TOC.txt"), "nb-12-big-TOC.txt");
        let name = FileName::parse("da-3g1k_0a2b_1sc3409d5rtaybt1gd-bti-Partitions.db").unwrap();
        assert_eq!(name.id, "3g1k_0a2b_1sc3409d5rtaybt1gd");
        for other in [
            "manifest.json",
            "schema.cql",
            "nb-1-big",
            "removal-3.txt",
            "adoption-1.txt",
        ] {
            assert_eq!(FileName::parse(other), None, "{other}");
        }
    }
}
