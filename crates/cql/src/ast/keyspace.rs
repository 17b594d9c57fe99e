//! `CREATE`, `ALTER` and `DROP KEYSPACE`.

use super::Properties;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateKeyspace {
    pub if_not_exists: bool,
    pub keyspace: String,
    pub properties: Properties,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterKeyspace {
    pub if_exists: bool,
    pub keyspace: String,
    pub properties: Properties,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropKeyspace {
    pub if_exists: bool,
    pub keyspace: String,
}
