//! Options of CREATE and ALTER ROLE.

use helenus_cql::ast::RoleOption;
use helenus_engine::CqlError;

use super::passwords::check_salted_hash;
use crate::schema_change::DATA_CENTER;

/// The class whose name stands in Cassandra's messages.
const ROLE_MANAGER: &str = "org.apache.cassandra.auth.CassandraRoleManager";

/// Options of a statement, each at most once.
#[derive(Default)]
pub(super) struct Options<'a> {
    pub password: Option<&'a str>,
    pub hashed_password: Option<&'a str>,
    pub is_superuser: Option<bool>,
    pub can_login: Option<bool>,
    pub limits_datacenters: bool,
    datacenters: &'a [String],
    limits_networks: bool,
    has_custom: bool,
}

impl<'a> Options<'a> {
    pub fn of(options: &'a [RoleOption]) -> Options<'a> {
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

    pub fn changes_role(&self) -> bool {
        self.password.is_some()
            || self.hashed_password.is_some()
            || self.is_superuser.is_some()
            || self.can_login.is_some()
            || self.has_custom
    }

    pub fn check(&self, has_passwords: bool) -> Result<(), CqlError> {
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
