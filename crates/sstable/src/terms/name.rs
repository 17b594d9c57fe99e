//! How files of terms are named: `index-<id of the index>-<SSTable>.db`, in the folder of the SSTable. No name of a component
//! is of this form, so that whoever knows only those passes them by.

use std::io;
use std::path::{Path, PathBuf};

use helenus_vfs::{Disk, EntryKind};

use uuid::Uuid;

use crate::descriptor::Descriptor;
use crate::directory::remove_if_there;

const PREFIX: &str = "index-";
const SUFFIX: &str = ".db";
/// A run of entries, until all of a file are sorted.
const RUN_SUFFIX: &str = ".run";

/// Kind of a file that is named as one of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TermFileName {
    Of {
        index: Uuid,
        sstable: Descriptor,
    },
    /// Remains of a build that was interrupted.
    Unfinished,
}

impl TermFileName {
    /// `None` for what is no file of an index.
    pub fn parse(name: &str) -> Option<Self> {
        let rest = name.strip_prefix(PREFIX)?;
        let Some(rest) = rest.strip_suffix(SUFFIX) else {
            return rest.contains(RUN_SUFFIX).then_some(TermFileName::Unfinished);
        };
        let (index, sstable) = rest.split_once('-')?;
        Some(TermFileName::Of {
            index: Uuid::try_parse(index).ok()?,
            sstable: Descriptor::parse(sstable)?,
        })
    }
}

/// Where the terms of an SSTable under an index are.
pub fn term_file_path(directory: &Path, index: Uuid, sstable: Descriptor) -> PathBuf {
    directory.join(format!("{PREFIX}{}-{sstable}{SUFFIX}", index.simple()))
}

/// Removes the files of indexes in a table's folder that are gone, by index and SSTable; with `has_unfinished` what
/// interrupted builds have left, too, while none runs.
pub fn remove_term_files(
    disk: &dyn Disk,
    directory: &Path,
    has_unfinished: bool,
    is_gone: impl Fn(Uuid, Descriptor) -> bool,
) -> io::Result<()> {
    for entry in disk.list(directory)? {
        let is_removed = entry.kind == EntryKind::File
            && match TermFileName::parse(&entry.name) {
                Some(TermFileName::Of { index, sstable }) => is_gone(index, sstable),
                Some(TermFileName::Unfinished) => has_unfinished,
                None => false,
            };
        if is_removed {
            remove_if_there(disk, &directory.join(&entry.name))?;
        }
    }
    Ok(())
}

/// Where one of the runs is that a file is made of.
pub(super) fn run_path(path: &Path, number: u32) -> PathBuf {
    let mut run = path.as_os_str().to_owned();
    run.push(format!("{RUN_SUFFIX}{number}"));
    PathBuf::from(run)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptor::FileName;

    #[test]
    fn names_are_found_again_and_are_no_components() {
        let sstable = Descriptor::parse("da-12-bti").unwrap();
        let index = Uuid::from_u128(7);
        let path = term_file_path(Path::new("/t"), index, sstable);
        let name = path.file_name().unwrap().to_str().unwrap();
        assert_eq!(name, "index-00000000000000000000000000000007-da-12-bti.db");
        assert_eq!(
            TermFileName::parse(name),
            Some(TermFileName::Of { index, sstable })
        );
        assert_eq!(FileName::parse(name), FileName::Other);
        let run = run_path(&path, 3);
        let run = run.file_name().unwrap().to_str().unwrap();
        assert_eq!(TermFileName::parse(run), Some(TermFileName::Unfinished));
        assert_eq!(FileName::parse(run), FileName::Other);
        for other in [
            "index-7-da-12-bti.db",
            "da-12-bti-Index.db",
            "index-.db",
            "index-x",
        ] {
            assert_eq!(TermFileName::parse(other), None, "{other}");
        }
    }
}
