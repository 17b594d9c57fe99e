//! `GRANT`, `REVOKE` and `LIST` of permissions.

use super::{FunctionName, QualifiedName, TypeName};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Permission {
    Create,
    Alter,
    Drop,
    Select,
    Modify,
    Authorize,
    Describe,
    Execute,
    Unmask,
    SelectMasked,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resource {
    AllKeyspaces,
    Keyspace(String),
    AllTablesIn(String),
    Table(QualifiedName),
    AllRoles,
    Role(String),
    AllFunctions,
    AllFunctionsIn(String),
    Function {
        name: FunctionName,
        argument_types: Vec<TypeName>,
    },
    AllMbeans,
    Mbean(String),
    Mbeans(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantPermissions {
    /// None for `ALL`.
    pub permissions: Option<Vec<Permission>>,
    pub resource: Resource,
    pub grantee: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevokePermissions {
    /// None for `ALL`.
    pub permissions: Option<Vec<Permission>>,
    pub resource: Resource,
    pub revokee: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListPermissions {
    /// None for `ALL`.
    pub permissions: Option<Vec<Permission>>,
    pub resource: Option<Resource>,
    pub grantee: Option<String>,
    pub recursive: bool,
}
