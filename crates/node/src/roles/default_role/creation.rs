//! Making the default role when somebody first logs in.

use std::rc::Rc;

use helenus_engine::CqlError;

use super::super::{DEFAULT_SUPERUSER, DEFAULT_SUPERUSER_HASH, text_value};
use crate::own_statement::OwnStatements;
use crate::schema_change::SCHEMA_OWNER;
use crate::shard::Shard;

impl Shard {
    /// Sees to it that the default role was made, in this run or in one before.
    pub(in crate::roles) async fn settle_default_role(self: &Rc<Self>) -> Result<(), CqlError> {
        if self.default_role_is_settled.get() {
            return Ok(());
        }
        self.ask(
            SCHEMA_OWNER,
            |owner| async move { owner.decide_default_role().await },
        )
        .await?;
        self.default_role_is_settled.set(true);
        Ok(())
    }

    async fn decide_default_role(self: &Rc<Self>) -> Result<(), CqlError> {
        let owner = self.schema_owner()?;
        let mut default_role = owner.default_role.lock().await;
        if default_role.is_made {
            return Ok(());
        }
        let any = OwnStatements::on(self)
            .execute("SELECT role FROM system_auth.roles LIMIT 1", &[])
            .await?;
        if any.is_empty() {
            self.make_default_role().await?;
        }
        let made = default_role.clone();
        let marked = owner.beside(move || made.mark()).await?;
        marked.map_err(|error| {
            CqlError::server(format_args!("The default role cannot be marked as made: {error}"))
        })?;
        default_role.is_made = true;
        Ok(())
    }

    async fn make_default_role(self: &Rc<Self>) -> Result<(), CqlError> {
        OwnStatements::on(self).execute(
            "INSERT INTO system_auth.roles (role, is_superuser, can_login, salted_hash) VALUES (?, true, true, ?) \
             USING TIMESTAMP 0",
            &[text_value(DEFAULT_SUPERUSER), text_value(DEFAULT_SUPERUSER_HASH)],
        )
        .await?;
        // A periodic log may lose it yet, and the mark must not outlive it: nobody could log in.
        let table = self.schema().table("system_auth", "roles").map(|table| table.id);
        let flushed =
            self.on_all_shards_async(move |shard| async move { shard.persistence.flush(table).await });
        if flushed
            .await
            .into_iter()
            .all(|is_flushed| is_flushed == Some(true))
        {
            return Ok(());
        }
        Err(CqlError::server(format_args!(
            "The default role cannot be stored"
        )))
    }
}
