//! LIST ROLES and LIST USERS, and the answers of statements about roles.

use helenus_cql::ast::{ListRoles, RoleSyntax};
use helenus_engine::CqlError;
use helenus_protocol::Opcode;
use helenus_protocol::frame::EnvelopeFlags;
use helenus_protocol::response::{ColumnSpec, MetadataForm, ResultMetadata, RowsWriter, write_void};
use helenus_types::CqlType;
use helenus_types::value::write_collection;

use super::tables::RoleTables;
use super::{Role, not_anonymous};
use crate::session::Session;

/// Datacenters that a role may reach where no network authorizer limits it.
const ALL_DATACENTERS: &str = "ALL";

/// Answer to a statement about roles.
pub(super) enum Outcome {
    Done,
    Roles(Vec<ListedRole>),
    Users(Vec<ListedRole>),
}

pub(super) struct ListedRole {
    name: String,
    is_superuser: bool,
    can_login: bool,
}

impl RoleTables {
    pub async fn list_roles(&self, user: Option<&str>, list: &ListRoles) -> Result<Outcome, CqlError> {
        not_anonymous(user)?;
        let roles = match &list.grantee {
            None => self.all_roles().await?,
            Some(grantee) => {
                if self.role(grantee).await?.is_none() {
                    return Err(CqlError::invalid(format_args!("<role {grantee}> doesn't exist")));
                }
                self.roles_of(grantee, list.recursive).await?
            }
        };
        if list.syntax == RoleSyntax::Role {
            return Ok(Outcome::Roles(roles.into_iter().map(ListedRole::from).collect()));
        }
        let mut users = Vec::new();
        for role in roles.into_iter().filter(|role| role.can_login) {
            // A user is one by what it was granted, too; a role is listed as it stands.
            let is_superuser = self.is_superuser(&role.name).await?;
            users.push(ListedRole {
                is_superuser,
                ..ListedRole::from(role)
            });
        }
        Ok(Outcome::Users(users))
    }
}

impl From<Role> for ListedRole {
    fn from(role: Role) -> Self {
        ListedRole {
            name: role.name,
            is_superuser: role.is_superuser,
            can_login: role.can_login,
        }
    }
}

pub(super) fn answer(session: &Session, stream: i16, outcome: Result<Outcome, CqlError>) {
    match outcome {
        Ok(Outcome::Done) => session.respond_later(stream, EnvelopeFlags::NONE, Opcode::Result, |out| {
            write_void(out);
            Ok(())
        }),
        Ok(Outcome::Roles(roles)) => {
            let options = CqlType::map(CqlType::Text, CqlType::Text, true);
            let columns = [
                ("role", CqlType::Text),
                ("super", CqlType::Boolean),
                ("login", CqlType::Boolean),
                ("options", options),
                ("datacenters", CqlType::Text),
            ];
            let mut no_options = Vec::new();
            write_collection(&mut no_options, 2, []);
            let rows = roles.iter().map(|role| {
                let (is_superuser, can_login) = (boolean(role.is_superuser), boolean(role.can_login));
                vec![
                    role.name.as_bytes(),
                    is_superuser,
                    can_login,
                    &no_options,
                    ALL_DATACENTERS.as_bytes(),
                ]
            });
            answer_rows(session, stream, "roles", &columns, rows);
        }
        Ok(Outcome::Users(users)) => {
            let columns = [
                ("name", CqlType::Text),
                ("super", CqlType::Boolean),
                ("datacenters", CqlType::Text),
            ];
            let rows = users.iter().map(|user| {
                vec![
                    user.name.as_bytes(),
                    boolean(user.is_superuser),
                    ALL_DATACENTERS.as_bytes(),
                ]
            });
            answer_rows(session, stream, "users", &columns, rows);
        }
        Err(error) => session.respond_later(stream, EnvelopeFlags::NONE, Opcode::Error, |_| Err(error)),
    }
}

fn boolean(is_true: bool) -> &'static [u8] {
    if is_true { &[1] } else { &[0] }
}

fn answer_rows<'a>(
    session: &Session,
    stream: i16,
    table: &str,
    columns: &[(&str, CqlType)],
    rows: impl Iterator<Item = Vec<&'a [u8]>>,
) {
    let columns: Vec<ColumnSpec<'_>> = columns
        .iter()
        .map(|(name, data_type)| ColumnSpec {
            keyspace: "system_auth",
            table,
            name,
            data_type,
        })
        .collect();
    let metadata = ResultMetadata::new(session.version(), &columns);
    session.respond_later(stream, EnvelopeFlags::NONE, Opcode::Result, |out| {
        let mut writer = RowsWriter::begin(out, &metadata, MetadataForm::Full);
        for row in rows {
            row.iter().for_each(|value| writer.value(out, Some(value)));
            writer.end_row();
        }
        writer.finish(out, None);
        Ok(())
    });
}
