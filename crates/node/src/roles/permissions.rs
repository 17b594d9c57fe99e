//! GRANT, REVOKE and LIST of permissions, of which there are none.

use helenus_cql::ast::Resource;
use helenus_engine::CqlError;

use super::not_anonymous;
use super::statements::{Performer, RoleStatements};

impl RoleStatements<'_> {
    /// Permissions have no meaning where everybody may do everything; Cassandra says so after its other checks.
    pub async fn refuse_permissions(
        &self,
        performer: Performer<'_>,
        role: Option<&str>,
        resource: Option<&Resource>,
        operation: &str,
    ) -> Result<(), CqlError> {
        not_anonymous(performer.user)?;
        let absent = resource.and_then(|resource| self.absent(resource, performer.keyspace));
        let has_role = match role {
            Some(role) => self.tables.role(role).await?.is_some(),
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
        let schema = &self.schema;
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
