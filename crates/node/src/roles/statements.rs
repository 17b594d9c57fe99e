//! CREATE, ALTER, DROP, GRANT, REVOKE and LIST of roles and users, with Cassandra's checks in Cassandra's order: first who
//! may, then what is possible.

use std::rc::Rc;

use helenus_cql::ast::{
    AlterRole, CreateRole, DropRole, GrantRole, ListRoles, Resource, RevokeRole, RoleOption, RoleStatement,
    RoleSyntax,
};
use helenus_engine::CqlError;
use helenus_protocol::Opcode;
use helenus_protocol::frame::EnvelopeFlags;
use helenus_protocol::request::Value;
use helenus_protocol::response::{ColumnSpec, MetadataForm, ResultMetadata, RowsWriter, write_void};
use helenus_types::CqlType;
use helenus_types::value::write_collection;

use super::passwords::check_salted_hash;
use super::{Role, boolean_value, set_of, text_value};
use crate::schema_change::DATA_CENTER;
use crate::session::Session;
use crate::shard::Shard;

/// The class whose name stands in Cassandra's messages.
const ROLE_MANAGER: &str = "org.apache.cassandra.auth.CassandraRoleManager";

/// What a role may reach where no network authorizer limits it.
const ALL_DATACENTERS: &str = "ALL";

/// Whose statement it is.
#[derive(Clone, Copy)]
struct Performer<'a> {
    user: Option<&'a str>,
    /// What `USE` chose.
    keyspace: Option<&'a str>,
}

enum Outcome {
    Done,
    Roles(Vec<ListedRole>),
    Users(Vec<ListedRole>),
}

struct ListedRole {
    name: String,
    is_superuser: bool,
    can_login: bool,
}

/// What a statement's options say, each at most once.
#[derive(Default)]
struct Options<'a> {
    password: Option<&'a str>,
    hashed_password: Option<&'a str>,
    is_superuser: Option<bool>,
    can_login: Option<bool>,
    limits_datacenters: bool,
    datacenters: &'a [String],
    limits_networks: bool,
    has_custom: bool,
}

impl<'a> Options<'a> {
    fn of(options: &'a [RoleOption]) -> Options<'a> {
        let mut all = Options::default();
        for option in options {
            match option {
                RoleOption::Password(password) => all.password = Some(password),
                RoleOption::HashedPassword(hash) => all.hashed_password = Some(hash),
                RoleOption::Superuser(on) => all.is_superuser = Some(*on),
                RoleOption::Login(on) => all.can_login = Some(*on),
                RoleOption::Custom(_) => all.has_custom = true,
                RoleOption::AccessToAllDatacenters => all.limits_datacenters = true,
                RoleOption::AccessToDatacenters(names) => {
                    all.limits_datacenters = true;
                    all.datacenters = names;
                }
                RoleOption::AccessFromAllCidrs | RoleOption::AccessFromCidrs(_) => all.limits_networks = true,
            }
        }
        all
    }

    fn changes_role(&self) -> bool {
        self.password.is_some()
            || self.hashed_password.is_some()
            || self.is_superuser.is_some()
            || self.can_login.is_some()
            || self.has_custom
    }

    fn check(&self, has_passwords: bool) -> Result<(), CqlError> {
        let unsupported = |option: &str| {
            Err(CqlError::invalid(format_args!(
                "{ROLE_MANAGER} doesn't support {option}"
            )))
        };
        if self.has_custom {
            return unsupported("OPTIONS");
        }
        if self.password.is_some() && !has_passwords {
            return unsupported("PASSWORD");
        }
        if self.hashed_password.is_some() && !has_passwords {
            return unsupported("HASHED_PASSWORD");
        }
        self.hashed_password.map_or(Ok(()), check_salted_hash)?;
        let unknown: Vec<&str> = self
            .datacenters
            .iter()
            .map(String::as_str)
            .filter(|name| *name != DATA_CENTER)
            .collect();
        if !unknown.is_empty() {
            let unknown = unknown.join(", ");
            return Err(CqlError::invalid(format_args!(
                "Invalid value(s) for DATACENTERS '[{unknown}]',All values must be valid datacenters"
            )));
        }
        if self.limits_networks {
            return Err(CqlError::invalid(format_args!(
                "ACCESS FROM CIDRS is not supported yet"
            )));
        }
        Ok(())
    }
}

/// Statements about roles are closed to whoever has not logged in, already when they are prepared.
pub(crate) fn not_anonymous(user: Option<&str>) -> Result<&str, CqlError> {
    user.ok_or_else(|| {
        CqlError::unauthorized(format_args!(
            "You have to be logged in and not anonymous to perform this request"
        ))
    })
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
        self.answer_later(session, stream, async move {
            let (user, keyspace) = (answered.user(), answered.conversation.keyspace());
            let performer = Performer {
                user: user.as_deref(),
                keyspace: keyspace.as_deref(),
            };
            let outcome = shard.run_role_statement(performer, &statement).await;
            shard.count_failure(&outcome);
            answer(&answered, stream, outcome);
        });
    }

    async fn run_role_statement(
        self: &Rc<Self>,
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
            RoleStatement::ListRoles(list) => return self.list_roles(user, list).await,
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

    async fn is_superuser_logged_in(self: &Rc<Self>, user: Option<&str>) -> Result<bool, CqlError> {
        match user {
            Some(user) => self.is_superuser(user).await,
            None => Ok(false),
        }
    }

    async fn create_role(self: &Rc<Self>, user: Option<&str>, create: &CreateRole) -> Result<(), CqlError> {
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
        if self.role(&create.role).await?.is_some() {
            return if create.if_not_exists {
                Ok(())
            } else {
                Err(CqlError::invalid(format_args!("{} already exists", create.role)))
            };
        }
        let can_login = options.can_login.unwrap_or(create.syntax == RoleSyntax::User);
        let salted_hash = self.salted_hash_of(&options).await?;
        self.execute_own(
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
        match (options.password, &self.passwords) {
            (Some(password), Some(passwords)) => passwords.hash(password).await.map(Some),
            _ => Ok(options.hashed_password.map(str::to_owned)),
        }
    }

    async fn alter_role(self: &Rc<Self>, user: Option<&str>, alter: &AlterRole) -> Result<(), CqlError> {
        let options = Options::of(&alter.options);
        self.may_alter(user, &alter.role, &options).await?;
        options.check(self.passwords.is_some())?;
        if !options.changes_role() && !options.limits_datacenters {
            return Err(CqlError::invalid(format_args!(
                "ALTER [ROLE|USER] can't be empty"
            )));
        }
        not_anonymous(user)?;
        if self.role(&alter.role).await?.is_none() {
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
            self.execute_own(
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

    async fn may_alter(
        self: &Rc<Self>,
        user: Option<&str>,
        role: &str,
        options: &Options<'_>,
    ) -> Result<(), CqlError> {
        let refused = |why: std::fmt::Arguments<'_>| Err(CqlError::unauthorized(why));
        let own = match user {
            Some(user) => self.roles_of(user, true).await?,
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

    async fn drop_role(self: &Rc<Self>, user: Option<&str>, drop: &DropRole) -> Result<(), CqlError> {
        let role = self.role(&drop.role).await?;
        if role.is_some()
            && self.is_superuser(&drop.role).await?
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
        self.execute_own("DELETE FROM system_auth.roles WHERE role = ?", &[name])
            .await?;
        let members = self
            .execute_own(
                "SELECT member FROM system_auth.role_members WHERE role = ?",
                &[name],
            )
            .await?;
        let removed = set_of(&drop.role);
        for member in members.into_iter().flatten().flatten() {
            self.execute_own(
                "UPDATE system_auth.roles SET member_of = member_of - ? WHERE role = ?",
                &[Value::Bytes(&removed), Value::Bytes(&member)],
            )
            .await?;
        }
        self.execute_own("DELETE FROM system_auth.role_members WHERE role = ?", &[name])
            .await?;
        Ok(())
    }

    async fn grant_role(self: &Rc<Self>, user: Option<&str>, grant: &GrantRole) -> Result<(), CqlError> {
        let GrantRole { role, grantee } = grant;
        not_anonymous(user)?;
        self.existing_role(role).await?;
        self.existing_role(grantee).await?;
        for (member, of) in [(grantee, role), (role, grantee)] {
            if self
                .roles_of(member, true)
                .await?
                .iter()
                .any(|known| known.name == *of)
            {
                return Err(CqlError::invalid(format_args!("{member} is a member of {of}")));
            }
        }
        let granted = set_of(role);
        self.execute_own(
            "UPDATE system_auth.roles SET member_of = member_of + ? WHERE role = ?",
            &[Value::Bytes(&granted), text_value(grantee)],
        )
        .await?;
        self.execute_own(
            "INSERT INTO system_auth.role_members (role, member) VALUES (?, ?)",
            &[text_value(role), text_value(grantee)],
        )
        .await?;
        Ok(())
    }

    async fn revoke_role(self: &Rc<Self>, user: Option<&str>, revoke: &RevokeRole) -> Result<(), CqlError> {
        let RevokeRole { role, revokee } = revoke;
        not_anonymous(user)?;
        self.existing_role(role).await?;
        self.existing_role(revokee).await?;
        if !self
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
        self.execute_own(
            "UPDATE system_auth.roles SET member_of = member_of - ? WHERE role = ?",
            &[Value::Bytes(&revoked), text_value(revokee)],
        )
        .await?;
        self.execute_own(
            "DELETE FROM system_auth.role_members WHERE role = ? AND member = ?",
            &[text_value(role), text_value(revokee)],
        )
        .await?;
        Ok(())
    }

    async fn list_roles(self: &Rc<Self>, user: Option<&str>, list: &ListRoles) -> Result<Outcome, CqlError> {
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

    /// Permissions have no meaning where everybody may do everything; Cassandra says so after its other checks.
    async fn refuse_permissions(
        self: &Rc<Self>,
        performer: Performer<'_>,
        role: Option<&str>,
        resource: Option<&Resource>,
        operation: &str,
    ) -> Result<(), CqlError> {
        not_anonymous(performer.user)?;
        let absent = resource.and_then(|resource| self.absent(resource, performer.keyspace));
        let has_role = match role {
            Some(role) => self.role(role).await?.is_some(),
            None => true,
        };
        let role = role.unwrap_or_default();
        Err(if operation == "LIST PERMISSIONS" {
            match absent {
                Some(resource) => CqlError::invalid(format_args!("{resource} doesn't exist")),
                None if !has_role => CqlError::invalid(format_args!("<role {role}> doesn't exist")),
                None => CqlError::invalid(format_args!(
                    "{operation} operation is not supported by AllowAllAuthorizer"
                )),
            }
        } else {
            match absent {
                _ if !has_role => CqlError::invalid(format_args!("Role {role} doesn't exist")),
                Some(resource) => CqlError::invalid(format_args!("Resource {resource} doesn't exist")),
                None => CqlError::server(format_args!(
                    "java.lang.UnsupportedOperationException: {operation} operation is not supported by \
                     AllowAllAuthorizer"
                )),
            }
        })
    }

    /// Cassandra's name of a keyspace or table that is not there.
    fn absent(&self, resource: &Resource, session_keyspace: Option<&str>) -> Option<String> {
        let schema = self.schema();
        match resource {
            Resource::Keyspace(name) if schema.keyspace(name).is_none() => Some(format!("<keyspace {name}>")),
            Resource::AllTablesIn(name) if schema.keyspace(name).is_none() => {
                Some(format!("<all tables in {name}>"))
            }
            Resource::Table(table) => {
                let keyspace = table.keyspace.as_deref().or(session_keyspace)?;
                let found = schema
                    .keyspace(keyspace)
                    .and_then(|found| found.tables.get(&*table.name));
                found
                    .is_none()
                    .then(|| format!("<table {keyspace}.{}>", table.name))
            }
            _ => None,
        }
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

fn answer(session: &Session, stream: i16, outcome: Result<Outcome, CqlError>) {
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
