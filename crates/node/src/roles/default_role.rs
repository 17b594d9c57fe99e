//! The role that a node begins with, `cassandra`: made once in the life of a data folder.
//!
//! A table of roles that reads as empty may be a damaged or a truncated one, and whoever reads this file knows the
//! default role's password. So its having been made is a mark in the data folder, and what the table holds decides only
//! for a folder that has none.

use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use helenus_engine::CqlError;
use helenus_vfs::Disk;

use super::{DEFAULT_SUPERUSER, DEFAULT_SUPERUSER_HASH, text_value};
use crate::schema_change::SCHEMA_OWNER;
use crate::shard::Shard;

/// In the data folder; empty.
const FILE: &str = "default-role-made";

/// Whether the default role was made, where that is kept. The schema's owner has it.
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

    fn mark(&mut self) -> io::Result<()> {
        if let Some((disk, root)) = &self.folder {
            disk.create(&root.join(FILE))?.sync_data()?;
            disk.sync_directory(root)?;
        }
        self.is_made = true;
        Ok(())
    }
}

impl Shard {
    /// Sees to it that the default role was made, in this run or in one before.
    pub(super) async fn settle_default_role(self: &Rc<Self>) -> Result<(), CqlError> {
        if self.default_role_is_settled.get() {
            return Ok(());
        }
        self.call_async(
            SCHEMA_OWNER,
            |owner| async move { owner.decide_default_role().await },
        )
        .await
        .unwrap_or_else(|| Err(self.no_answer_from(SCHEMA_OWNER)))?;
        self.default_role_is_settled.set(true);
        Ok(())
    }

    async fn decide_default_role(self: &Rc<Self>) -> Result<(), CqlError> {
        let mut default_role = self.default_role.lock().await;
        let Some(default_role) = default_role.as_mut().filter(|role| !role.is_made) else {
            return Ok(());
        };
        let any = self
            .execute_own("SELECT role FROM system_auth.roles LIMIT 1", &[])
            .await?;
        if any.is_empty() {
            self.make_default_role().await?;
        }
        default_role.mark().map_err(|error| {
            CqlError::server(format_args!("The default role cannot be marked as made: {error}"))
        })
    }

    async fn make_default_role(self: &Rc<Self>) -> Result<(), CqlError> {
        self.execute_own(
            "INSERT INTO system_auth.roles (role, is_superuser, can_login, salted_hash) VALUES (?, true, true, ?) \
             USING TIMESTAMP 0",
            &[text_value(DEFAULT_SUPERUSER), text_value(DEFAULT_SUPERUSER_HASH)],
        )
        .await?;
        // A periodic log may lose it yet, and the mark must not outlive it: nobody could log in.
        let table = self.schema().table("system_auth", "roles").map(|table| table.id);
        for shard in self.shards() {
            let flushed = self.call_async(shard, move |shard| async move { shard.flush(table).await });
            if !flushed.await.unwrap_or(false) {
                return Err(CqlError::server(format_args!(
                    "The default role cannot be stored"
                )));
            }
        }
        Ok(())
    }
}
