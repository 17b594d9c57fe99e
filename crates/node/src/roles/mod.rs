//! Logins and role statements: Cassandra's `PasswordAuthenticator` and `CassandraRoleManager`.
//!
//! Roles are rows of `system_auth.roles` and `system_auth.role_members`, as in Cassandra, so that its backups and scripts
//! hold here too. What a role may do is not limited: the authorizer is `AllowAllAuthorizer`. Only truncating those tables
//! is a superuser's: it would lock everybody out.

pub(crate) mod authenticator;
pub(crate) mod default_role;
mod listing;
mod login;
pub(crate) mod password_threads;
pub(crate) mod passwords;
mod permissions;
mod role_options;
mod statements;
mod tables;

use std::rc::Rc;

use helenus_engine::CqlError;
use helenus_protocol::request::Value;
use helenus_schema::TableMetadata;
use helenus_types::value::{CollectionElements, write_collection};

use crate::own_statement::OwnRow;
use crate::shard::Shard;

use tables::RoleTables;

/// A row of `system_auth.roles`.
#[derive(Clone, Debug, Default)]
struct Role {
    name: String,
    is_superuser: bool,
    can_login: bool,
    /// The roles that were granted to it directly.
    member_of: Vec<String>,
    /// Hash of its password, by bcrypt.
    salted_hash: Option<String>,
}

const COLUMNS: &str = "role, is_superuser, can_login, member_of, salted_hash";

/// The role that a new node starts with.
const DEFAULT_SUPERUSER: &str = "cassandra";

/// Hash of the password `cassandra`, which everybody knows: made once, so that a first start need not take the time for it.
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

/// Statements about roles are closed to whoever has not logged in, already when they are prepared.
pub(crate) fn not_anonymous(user: Option<&str>) -> Result<&str, CqlError> {
    user.ok_or_else(|| {
        CqlError::unauthorized(format_args!(
            "You have to be logged in and not anonymous to perform this request"
        ))
    })
}

/// Keyspace of the roles, whose tables only a superuser may truncate.
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
        if RoleTables::of(self).is_superuser(user).await? {
            return Ok(());
        }
        Err(CqlError::unauthorized(format_args!(
            "User {user} has no MODIFY permission on <table {}.{}> or any of its parents",
            table.keyspace, table.name
        )))
    }
}
