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

impl Resource {
    /// Returns whether the permission means anything for this kind of resource.
    pub fn supports(&self, permission: Permission) -> bool {
        use Permission::{
            Alter, Authorize, Create, Describe, Drop, Execute, Modify, Select, SelectMasked, Unmask,
        };
        match self {
            Resource::Table(_) => {
                matches!(
                    permission,
                    Alter | Drop | Select | Modify | Authorize | Unmask | SelectMasked
                )
            }
            Resource::AllKeyspaces | Resource::Keyspace(_) | Resource::AllTablesIn(_) => {
                matches!(
                    permission,
                    Create | Alter | Drop | Select | Modify | Authorize | Unmask | SelectMasked
                )
            }
            Resource::AllRoles => matches!(permission, Create | Alter | Drop | Authorize | Describe),
            Resource::Role(_) => matches!(permission, Alter | Drop | Authorize | Describe),
            Resource::AllFunctions | Resource::AllFunctionsIn(_) => {
                matches!(permission, Create | Alter | Drop | Authorize | Execute)
            }
            Resource::Function { .. } => matches!(permission, Alter | Drop | Authorize | Execute),
            Resource::AllMbeans | Resource::Mbean(_) | Resource::Mbeans(_) => {
                matches!(permission, Authorize | Describe | Execute | Modify | Select)
            }
        }
    }

    /// The kind of resource, in Cassandra's word for it.
    pub fn class_name(&self) -> &'static str {
        match self {
            Resource::Table(_)
            | Resource::AllKeyspaces
            | Resource::Keyspace(_)
            | Resource::AllTablesIn(_) => "DataResource",
            Resource::AllRoles | Resource::Role(_) => "RoleResource",
            Resource::AllFunctions | Resource::AllFunctionsIn(_) | Resource::Function { .. } => {
                "FunctionResource"
            }
            Resource::AllMbeans | Resource::Mbean(_) | Resource::Mbeans(_) => "JMXResource",
        }
    }
}
