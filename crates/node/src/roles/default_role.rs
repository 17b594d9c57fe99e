//! The role that a node begins with, `cassandra`: made once in the life of a data folder.
//!
//! A table of roles that reads as empty may be a damaged or a truncated one, and whoever reads this file knows the
//! default role's password. So its having been made is a mark in the data folder, and what the table holds decides only
//! for a folder that has none.

mod creation;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use helenus_vfs::Disk;

/// In the data folder; empty.
const FILE: &str = "default-role-made";

/// Record of whether the default role was made, and the folder that keeps it. The schema's owner has it.
#[derive(Clone)]
pub(crate) struct DefaultRole {
    is_made: bool,
    /// None in memory.
    folder: Option<(Arc<dyn Disk>, PathBuf)>,
}

impl DefaultRole {
    pub fn in_memory() -> Self {
        DefaultRole {
            is_made: false,
            folder: None,
        }
    }

    pub fn of_folder(disk: Arc<dyn Disk>, root: PathBuf) -> io::Result<Self> {
        Ok(DefaultRole {
            is_made: disk.exists(&root.join(FILE))?,
            folder: Some((disk, root)),
        })
    }

    /// Waits for the disk.
    fn mark(&self) -> io::Result<()> {
        if let Some((disk, root)) = &self.folder {
            disk.create(&root.join(FILE))?.sync_data()?;
            disk.sync_directory(root)?;
        }
        Ok(())
    }
}
