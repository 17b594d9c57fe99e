//! CREATE, ALTER, DROP, GRANT, REVOKE and LIST of roles and users, with Cassandra's checks in Cassandra's order: first who
//! may, then what is possible.

use std::rc::Rc;
use std::sync::Arc;

use helenus_cql::ast::{AlterRole, CreateRole, DropRole, GrantRole, RevokeRole, RoleStatement, RoleSyntax};
use helenus_engine::CqlError;
use helenus_protocol::request::Value;
use helenus_schema::Schema;

use super::listing::{Outcome, answer};
use super::passwords::Passwords;
use super::role_options::Options;
use super::tables::RoleTables;
use super::{boolean_value, not_anonymous, set_of, text_value};
use crate::session::Session;
use crate::shard::Shard;

/// Performer of a statement.
#[derive(Clone, Copy)]
pub(super) struct Performer<'a> {
    pub user: Option<&'a str>,
    /// Keyspace that `USE` chose.
    pub keyspace: Option<&'a str>,
}

/// Executes statements about roles.
pub(super) struct RoleStatements<'a> {
    pub tables: RoleTables,
    /// Where clients log in with them.
    pub passwords: Option<&'a Passwords>,
    pub schema: Arc<Schema>,
}

impl Shard {
    pub(crate) fn run_role_statement_later(
        self: &Rc<Self>,
        session: &Rc<Session>,
        stream: i16,
        statement: RoleStatement,
    ) {
        let shard = self.clone();
        let answered = session.clone();
        self.context.answer_later(session, stream, async move {
            let (user, keyspace) = (answered.user(), answered.conversation.keyspace());
            let performer = Performer {
                user: user.as_deref(),
                keyspace: keyspace.as_deref(),
            };
            let statements = RoleStatements {
                tables: RoleTables::of(&shard),
                passwords: shard.passwords.as_ref(),
                schema: shard.schema(),
            };
            let outcome = statements.run(performer, &statement).await;
            shard.context.count_failure(&outcome);
            answer(&answered, stream, outcome);
        });
    }
}

impl RoleStatements<'_> {
    pub async fn run(
        &self,
        performer: Performer<'_>,
        statement: &RoleStatement,
    ) -> Result<Outcome, CqlError> {
        let user = performer.user;
        match statement {
            RoleStatement::CreateRole(create) => self.create_role(user, create).await?,
            RoleStatement::AlterRole(alter) => self.alter_role(user, alter).await?,
            RoleStatement::DropRole(drop) => self.drop_role(user, drop).await?,
            RoleStatement::GrantRole(grant) => self.grant_role(user, grant).await?,
            RoleStatement::RevokeRole(revoke) => self.revoke_role(user, revoke).await?,
            RoleStatement::ListRoles(list) => return self.tables.list_roles(user, list).await,
            RoleStatement::GrantPermissions(grant) => {
                self.refuse_permissions(performer, Some(&grant.grantee), Some(&grant.resource), "GRANT")
                    .await?
            }
            RoleStatement::RevokePermissions(revoke) => {
                self.refuse_permissions(performer, Some(&revoke.revokee), Some(&revoke.resource), "REVOKE")
                    .await?;
            }
            RoleStatement::ListPermissions(list) => {
                self.refuse_permissions(
                    performer,
                    list.grantee.as_deref(),
                    list.resource.as_ref(),
                    "LIST PERMISSIONS",
                )
                .await?;
            }
            RoleStatement::AddIdentity(_) | RoleStatement::DropIdentity(_) => {
                not_anonymous(user)?;
                let name = statement.name();
                return Err(CqlError::invalid(format_args!("{name} is not supported yet")));
            }
        }
        Ok(Outcome::Done)
    }

    async fn is_superuser_logged_in(&self, user: Option<&str>) -> Result<bool, CqlError> {
        match user {
            Some(user) => self.tables.is_superuser(user).await,
            None => Ok(false),
        }
    }

    async fn create_role(&self, user: Option<&str>, create: &CreateRole) -> Result<(), CqlError> {
        let options = Options::of(&create.options);
        if options.is_superuser == Some(true) && !self.is_superuser_logged_in(user).await? {
            return Err(CqlError::unauthorized(format_args!(
                "Only superusers can create a role with superuser status"
            )));
        }
        options.check(self.passwords.is_some())?;
        if create.role.is_empty() {
            return Err(CqlError::invalid(format_args!(
                "Role name can't be an empty string"
            )));
        }
        not_anonymous(user)?;
        if self.tables.role(&create.role).await?.is_some() {
            return if create.if_not_exists {
                Ok(())
            } else {
                Err(CqlError::invalid(format_args!("{} already exists", create.role)))
            };
        }
        let can_login = options.can_login.unwrap_or(create.syntax == RoleSyntax::User);
        let salted_hash = self.salted_hash_of(&options).await?;
        self.tables.statements.execute(
            "INSERT INTO system_auth.roles (role, is_superuser, can_login, salted_hash) VALUES (?, ?, ?, ?)",
            &[
                text_value(&create.role),
                boolean_value(options.is_superuser.unwrap_or(false)),
                boolean_value(can_login),
                salted_hash.as_deref().map_or(Value::Unset, text_value),
            ],
        )
        .await?;
        Ok(())
    }

    /// None if the options have no password.
    async fn salted_hash_of(&self, options: &Options<'_>) -> Result<Option<String>, CqlError> {
        match (options.password, self.passwords) {
            (Some(password), Some(passwords)) => passwords.hash(password).await.map(Some),
            _ => Ok(options.hashed_password.map(str::to_owned)),
        }
    }

    async fn alter_role(&self, user: Option<&str>, alter: &AlterRole) -> Result<(), CqlError> {
        let options = Options::of(&alter.options);
        self.may_alter(user, &alter.role, &options).await?;
        options.check(self.passwords.is_some())?;
        if !options.changes_role() && !options.limits_datacenters {
            return Err(CqlError::invalid(format_args!(
                "ALTER [ROLE|USER] can't be empty"
            )));
        }
        not_anonymous(user)?;
        if self.tables.role(&alter.role).await?.is_none() {
            return if alter.if_exists {
                Ok(())
            } else {
                Err(CqlError::invalid(format_args!(
                    "Role {} doesn't exist",
                    alter.role
                )))
            };
        }
        let salted_hash = self.salted_hash_of(&options).await?;
        let boolean = |option: Option<bool>| option.map_or(Value::Unset, boolean_value);
        if options.changes_role() {
            self.tables.statements.execute(
                "UPDATE system_auth.roles SET is_superuser = ?, can_login = ?, salted_hash = ? WHERE role = ?",
                &[
                    boolean(options.is_superuser),
                    boolean(options.can_login),
                    salted_hash.as_deref().map_or(Value::Unset, text_value),
                    text_value(&alter.role),
                ],
            )
            .await?;
        }
        if options.limits_datacenters {
            return Err(CqlError::invalid(format_args!(
                "ACCESS TO DATACENTERS operations not supported by AllowAllNetworkAuthorizer"
            )));
        }
        Ok(())
    }

    async fn may_alter(&self, user: Option<&str>, role: &str, options: &Options<'_>) -> Result<(), CqlError> {
        let refused = |why: std::fmt::Arguments<'_>| Err(CqlError::unauthorized(why));
        let own = match user {
            Some(user) => self.tables.roles_of(user, true).await?,
            None => Vec::new(),
        };
        if options.is_superuser.is_some() && own.iter().any(|own| own.name == role) {
            return refused(format_args!(
                "You aren't allowed to alter your own superuser status or that of a role granted to you"
            ));
        }
        if own.iter().any(|own| own.is_superuser) {
            return Ok(());
        }
        if options.is_superuser.is_some() {
            return refused(format_args!(
                "Only superusers are allowed to alter superuser status"
            ));
        }
        if options.limits_datacenters {
            return refused(format_args!(
                "Only superusers are allowed to alter access to datacenters."
            ));
        }
        if user == Some(role) && options.can_login.is_some() {
            return refused(format_args!("You aren't allowed to alter LOGIN"));
        }
        Ok(())
    }

    async fn drop_role(&self, user: Option<&str>, drop: &DropRole) -> Result<(), CqlError> {
        let role = self.tables.role(&drop.role).await?;
        if role.is_some()
            && self.tables.is_superuser(&drop.role).await?
            && !self.is_superuser_logged_in(user).await?
        {
            return Err(CqlError::unauthorized(format_args!(
                "Only superusers can drop a role with superuser status"
            )));
        }
        let user = not_anonymous(user)?;
        if role.is_none() && !drop.if_exists {
            return Err(CqlError::invalid(format_args!("{} doesn't exist", drop.role)));
        }
        if user == drop.role {
            return Err(CqlError::invalid(format_args!(
                "Cannot DROP primary role for current login"
            )));
        }
        if role.is_none() {
            return Ok(());
        }
        let name = text_value(&drop.role);
        self.tables
            .statements
            .execute("DELETE FROM system_auth.roles WHERE role = ?", &[name])
            .await?;
        let members = self
            .tables
            .statements
            .execute(
                "SELECT member FROM system_auth.role_members WHERE role = ?",
                &[name],
            )
            .await?;
        let removed = set_of(&drop.role);
        for member in members.into_iter().flatten().flatten() {
            self.tables
                .statements
                .execute(
                    "UPDATE system_auth.roles SET member_of = member_of - ? WHERE role = ?",
                    &[Value::Bytes(&removed), Value::Bytes(&member)],
                )
                .await?;
        }
        self.tables
            .statements
            .execute("DELETE FROM system_auth.role_members WHERE role = ?", &[name])
            .await?;
        Ok(())
    }

    async fn grant_role(&self, user: Option<&str>, grant: &GrantRole) -> Result<(), CqlError> {
        let GrantRole { role, grantee } = grant;
        not_anonymous(user)?;
        self.tables.existing_role(role).await?;
        self.tables.existing_role(grantee).await?;
        for (member, of) in [(grantee, role), (role, grantee)] {
            if self
                .tables
                .roles_of(member, true)
                .await?
                .iter()
                .any(|known| known.name == *of)
            {
                return Err(CqlError::invalid(format_args!("{member} is a member of {of}")));
            }
        }
        let granted = set_of(role);
        self.tables
            .statements
            .execute(
                "UPDATE system_auth.roles SET member_of = member_of + ? WHERE role = ?",
                &[Value::Bytes(&granted), text_value(grantee)],
            )
            .await?;
        self.tables
            .statements
            .execute(
                "INSERT INTO system_auth.role_members (role, member) VALUES (?, ?)",
                &[text_value(role), text_value(grantee)],
            )
            .await?;
        Ok(())
    }

    async fn revoke_role(&self, user: Option<&str>, revoke: &RevokeRole) -> Result<(), CqlError> {
        let RevokeRole { role, revokee } = revoke;
        not_anonymous(user)?;
        self.tables.existing_role(role).await?;
        self.tables.existing_role(revokee).await?;
        if !self
            .tables
            .roles_of(revokee, false)
            .await?
            .iter()
            .any(|known| known.name == *role)
        {
            return Err(CqlError::invalid(format_args!(
                "{revokee} is not a member of {role}"
            )));
        }
        let revoked = set_of(role);
        self.tables
            .statements
            .execute(
                "UPDATE system_auth.roles SET member_of = member_of - ? WHERE role = ?",
                &[Value::Bytes(&revoked), text_value(revokee)],
            )
            .await?;
        self.tables
            .statements
            .execute(
                "DELETE FROM system_auth.role_members WHERE role = ? AND member = ?",
                &[text_value(role), text_value(revokee)],
            )
            .await?;
        Ok(())
    }
}
