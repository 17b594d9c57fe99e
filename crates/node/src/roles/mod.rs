//! Who may log in, and what role statements do: Cassandra's `PasswordAuthenticator` and `CassandraRoleManager`.
//!
//! Roles are rows of `system_auth.roles` and `system_auth.role_members`, as in Cassandra, so that its backups and scripts
//! hold here too. What a role may do is not limited: the authorizer is `AllowAllAuthorizer`. Only truncating those tables
//! is a superuser's: it would lock everybody out.

pub(crate) mod authenticator;
pub(crate) mod default_role;
mod login;
pub(crate) mod password_threads;
pub(crate) mod passwords;
mod statements;

use std::collections::HashSet;
use std::rc::Rc;

use helenus_engine::CqlError;
use helenus_protocol::request::Value;
use helenus_schema::TableMetadata;
use helenus_types::value::{CollectionElements, write_collection};

use crate::own_statement::OwnRow;
use crate::shard::Shard;

pub(crate) use statements::not_anonymous;

/// A row of `system_auth.roles`.
#[derive(Clone, Debug, Default)]
struct Role {
    name: String,
    is_superuser: bool,
    can_login: bool,
    /// The roles that were granted to it directly.
    member_of: Vec<String>,
    /// Of its password, by bcrypt.
    salted_hash: Option<String>,
}

const COLUMNS: &str = "role, is_superuser, can_login, member_of, salted_hash";

/// The role that a new node starts with.
const DEFAULT_SUPERUSER: &str = "cassandra";

/// Of the password `cassandra`, which everybody knows: made once, so that a first start need not take the time for it.
const DEFAULT_SUPERUSER_HASH: &str = "$2a$10$qEENTod6wS/HAQeuPFaiBOJRwQbCXUrEaKr8Lf8bwFQtta53oNySK";

impl Role {
    fn from_row(row: OwnRow) -> Option<Role> {
        let [name, is_superuser, can_login, member_of, salted_hash] = <[_; 5]>::try_from(row).ok()?;
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).ok();
        let is_true = |value: Option<Vec<u8>>| value.is_some_and(|bytes| bytes == [1]);
        let members = member_of.unwrap_or_default();
        let members = CollectionElements::new(&members, 1).into_iter().flatten();
        Some(Role {
            name: text(name?)?,
            is_superuser: is_true(is_superuser),
            can_login: is_true(can_login),
            member_of: members.flatten().filter_map(|name| text(name.to_vec())).collect(),
            salted_hash: salted_hash.and_then(text),
        })
    }
}

fn text_value(text: &str) -> Value<'_> {
    Value::Bytes(text.as_bytes())
}

fn boolean_value(is_true: bool) -> Value<'static> {
    Value::Bytes(if is_true { &[1] } else { &[0] })
}

/// A set with one element.
fn set_of(element: &str) -> Vec<u8> {
    let mut set = Vec::new();
    write_collection(&mut set, 1, [element.as_bytes()]);
    set
}

/// What a truncation by anybody else must leave alone.
const AUTH_KEYSPACE: &str = "system_auth";

impl Shard {
    /// Where the node does without an SSTable of the roles, nobody knows who may log in.
    fn check_roles_are_whole(&self) -> Result<(), CqlError> {
        let refused = self.store.borrow().refused_sstables();
        match refused.iter().find(|refused| &*refused.keyspace == AUTH_KEYSPACE) {
            None => Ok(()),
            Some(refused) => Err(CqlError::server(format_args!(
                "An SSTable of {}.{} is damaged, so nobody can log in: `helenus sstable refused` names it; replace it by \
                 a good one, or move it away if no role is missed, and restart the node",
                refused.keyspace, refused.table
            ))),
        }
    }

    /// Everybody may truncate a table, except those that say who may log in.
    pub(crate) async fn may_truncate(
        self: &Rc<Self>,
        user: Option<&str>,
        table: &TableMetadata,
    ) -> Result<(), CqlError> {
        if self.passwords.is_none() || &*table.keyspace != AUTH_KEYSPACE {
            return Ok(());
        }
        let user = not_anonymous(user)?;
        if self.is_superuser(user).await? {
            return Ok(());
        }
        Err(CqlError::unauthorized(format_args!(
            "User {user} has no MODIFY permission on <table {}.{}> or any of its parents",
            table.keyspace, table.name
        )))
    }

    async fn role(self: &Rc<Self>, name: &str) -> Result<Option<Role>, CqlError> {
        let text = format!("SELECT {COLUMNS} FROM system_auth.roles WHERE role = ?");
        let rows = self.execute_own(&text, &[text_value(name)]).await?;
        Ok(rows.into_iter().next().and_then(Role::from_row))
    }

    async fn existing_role(self: &Rc<Self>, name: &str) -> Result<Role, CqlError> {
        let role = self.role(name).await?;
        role.ok_or_else(|| CqlError::invalid(format_args!("{name} doesn't exist")))
    }

    /// All roles, in the order of their names.
    async fn all_roles(self: &Rc<Self>) -> Result<Vec<Role>, CqlError> {
        let text = format!("SELECT {COLUMNS} FROM system_auth.roles");
        let rows = self.execute_own(&text, &[]).await?;
        let mut roles: Vec<Role> = rows.into_iter().filter_map(Role::from_row).collect();
        roles.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(roles)
    }

    /// A role and those granted to it: directly, or with all that these were granted. Empty if there is no such role.
    async fn roles_of(self: &Rc<Self>, name: &str, is_recursive: bool) -> Result<Vec<Role>, CqlError> {
        let mut found: Vec<Role> = self.role(name).await?.into_iter().collect();
        let mut seen: HashSet<String> = HashSet::from([name.to_owned()]);
        let mut looked_at = 0;
        while looked_at < found.len() && (is_recursive || looked_at == 0) {
            for granted in found[looked_at].member_of.clone() {
                if seen.insert(granted.clone()) {
                    found.extend(self.role(&granted).await?);
                }
            }
            looked_at += 1;
        }
        found.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(found)
    }

    /// Whether a role is a superuser, itself or by a role that it was granted.
    async fn is_superuser(self: &Rc<Self>, name: &str) -> Result<bool, CqlError> {
        let roles = self.roles_of(name, true).await?;
        Ok(roles.iter().any(|role| role.is_superuser))
    }
}
