//! Names that are valid, and keyspaces that are not for users to change.

use helenus_engine::CqlError;
use helenus_schema::{
    TableMetadata, is_local_system_keyspace, is_replicated_system_keyspace, is_virtual_system_keyspace,
};
use helenus_types::quoted_identifier;

/// The longest name of a keyspace in characters (`SchemaConstants.NAME_LENGTH`).
pub(super) const KEYSPACE_NAME_LENGTH_MAX: usize = 48;

/// A statement's action and its object, in the words of Cassandra's refusals.
#[derive(Clone, Copy)]
pub(super) struct Access<'a> {
    /// `CREATE`, `ALTER` or `DROP`.
    pub verb: &'static str,
    pub keyspace: &'a str,
    pub resource: Resource<'a>,
}

#[derive(Clone, Copy)]
pub(super) enum Resource<'a> {
    Keyspace,
    AllTables,
    Table(&'a str),
}

/// The keyspace of a name: the one written, else the session's.
pub(super) fn keyspace_of<'a>(
    written: Option<&'a str>,
    session: Option<&'a str>,
) -> Result<&'a str, CqlError> {
    written.or(session).ok_or_else(|| {
        CqlError::invalid(format_args!(
            "No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename"
        ))
    })
}

/// Refuses changes to system keyspaces, which Cassandra treats as a lack of permission.
pub(super) fn check_access(access: Access<'_>) -> Result<(), CqlError> {
    let Access {
        verb,
        keyspace,
        resource,
    } = access;
    if is_local_system_keyspace(keyspace) {
        return Err(CqlError::unauthorized(format_args!(
            "{keyspace} keyspace is not user-modifiable."
        )));
    }
    if !is_replicated_system_keyspace(keyspace) {
        return Ok(());
    }
    match resource {
        Resource::Keyspace if verb == "ALTER" => Ok(()),
        Resource::Keyspace => Err(CqlError::unauthorized(format_args!(
            "Cannot {verb} <keyspace {keyspace}>"
        ))),
        Resource::AllTables => Err(CqlError::unauthorized(format_args!(
            "Cannot {verb} <all tables in {keyspace}>"
        ))),
        Resource::Table(table) => Err(CqlError::unauthorized(format_args!(
            "Cannot {verb} <table {keyspace}.{table}>"
        ))),
    }
}

/// The checks on the keyspace's name that precede every change.
pub(super) fn check_keyspace_name(keyspace: &str) -> Result<(), CqlError> {
    if is_virtual_system_keyspace(keyspace) || is_local_system_keyspace(keyspace) {
        return Err(CqlError::invalid(format_args!(
            "System keyspace '{keyspace}' is not user-modifiable"
        )));
    }
    if !is_word(keyspace) || keyspace.chars().count() > KEYSPACE_NAME_LENGTH_MAX {
        return Err(CqlError::invalid(format_args!(
            "Keyspace name must not be empty, more than {KEYSPACE_NAME_LENGTH_MAX} characters long, or contain \
             non-alphanumeric-underscore characters (got '{keyspace}')"
        )));
    }
    Ok(())
}

/// Not empty, and nothing but ASCII letters, digits and underscores.
pub(super) fn is_word(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The table as messages name it: quoted where CQL would need it.
pub(super) fn qualified_name(table: &TableMetadata) -> String {
    format!(
        "{}.{}",
        quoted_identifier(&table.keyspace),
        quoted_identifier(&table.name)
    )
}
