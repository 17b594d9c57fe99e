//! The tables of roles.

use std::collections::HashSet;
use std::rc::Rc;

use helenus_engine::CqlError;

use super::{COLUMNS, Role, text_value};
use crate::own_statement::OwnStatements;
use crate::shard::Shard;

/// Reads roles by the node's own statements.
pub(super) struct RoleTables {
    pub statements: OwnStatements,
}

impl RoleTables {
    pub fn of(shard: &Rc<Shard>) -> Self {
        RoleTables {
            statements: OwnStatements::on(shard),
        }
    }

    pub async fn role(&self, name: &str) -> Result<Option<Role>, CqlError> {
        let text = format!("SELECT {COLUMNS} FROM system_auth.roles WHERE role = ?");
        let rows = self.statements.execute(&text, &[text_value(name)]).await?;
        Ok(rows.into_iter().next().and_then(Role::from_row))
    }

    pub async fn existing_role(&self, name: &str) -> Result<Role, CqlError> {
        let role = self.role(name).await?;
        role.ok_or_else(|| CqlError::invalid(format_args!("{name} doesn't exist")))
    }

    /// All roles, in the order of their names.
    pub async fn all_roles(&self) -> Result<Vec<Role>, CqlError> {
        let text = format!("SELECT {COLUMNS} FROM system_auth.roles");
        let rows = self.statements.execute(&text, &[]).await?;
        let mut roles: Vec<Role> = rows.into_iter().filter_map(Role::from_row).collect();
        roles.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(roles)
    }

    /// A role and those granted to it: directly, or with all that these were granted. Empty if there is no such role.
    pub async fn roles_of(&self, name: &str, is_recursive: bool) -> Result<Vec<Role>, CqlError> {
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

    /// Returns whether a role is a superuser, itself or by a role that it was granted.
    pub async fn is_superuser(&self, name: &str) -> Result<bool, CqlError> {
        let roles = self.roles_of(name, true).await?;
        Ok(roles.iter().any(|role| role.is_superuser))
    }
}
