//! Roles, users (the older spelling of roles) and identities.

/// Which of the two spellings a statement used; they differ in defaults and in error messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RoleSyntax {
    Role,
    User,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateRole {
    pub syntax: RoleSyntax,
    pub if_not_exists: bool,
    pub role: String,
    pub options: Vec<RoleOption>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterRole {
    pub syntax: RoleSyntax,
    pub if_exists: bool,
    pub role: String,
    pub options: Vec<RoleOption>,
}

#[derive(Clone, PartialEq, Eq)]
pub enum RoleOption {
    Password(String),
    HashedPassword(String),
    /// `OPTIONS = {...}`
    Custom(Vec<(String, String)>),
    Superuser(bool),
    Login(bool),
    AccessToAllDatacenters,
    AccessToDatacenters(Vec<String>),
    AccessFromAllCidrs,
    AccessFromCidrs(Vec<String>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropRole {
    pub syntax: RoleSyntax,
    pub if_exists: bool,
    pub role: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantRole {
    pub role: String,
    pub grantee: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevokeRole {
    pub role: String,
    pub revokee: String,
}

/// `LIST ROLES` and `LIST USERS`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListRoles {
    pub syntax: RoleSyntax,
    pub grantee: Option<String>,
    pub recursive: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddIdentity {
    pub if_not_exists: bool,
    pub identity: String,
    pub role: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropIdentity {
    pub if_exists: bool,
    pub identity: String,
}

/// Passwords stay out of logs and panics: they are not printed even for debugging.
impl std::fmt::Debug for RoleOption {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RoleOption::Password(_) => f.write_str("Password(*****)"),
            RoleOption::HashedPassword(_) => f.write_str("HashedPassword(*****)"),
            RoleOption::Custom(options) => f.debug_tuple("Custom").field(options).finish(),
            RoleOption::Superuser(on) => f.debug_tuple("Superuser").field(on).finish(),
            RoleOption::Login(on) => f.debug_tuple("Login").field(on).finish(),
            RoleOption::AccessToAllDatacenters => f.write_str("AccessToAllDatacenters"),
            RoleOption::AccessToDatacenters(names) => {
                f.debug_tuple("AccessToDatacenters").field(names).finish()
            }
            RoleOption::AccessFromAllCidrs => f.write_str("AccessFromAllCidrs"),
            RoleOption::AccessFromCidrs(names) => f.debug_tuple("AccessFromCidrs").field(names).finish(),
        }
    }
}

impl RoleOption {
    /// The name under which an option may be given only once. Access to networks and datacenters has none: what is
    /// written adds up.
    pub(crate) fn property_name(&self) -> Option<&'static str> {
        match self {
            RoleOption::Password(_) => Some("PASSWORD"),
            RoleOption::HashedPassword(_) => Some("HASHED_PASSWORD"),
            RoleOption::Custom(_) => Some("OPTIONS"),
            RoleOption::Superuser(_) => Some("SUPERUSER"),
            RoleOption::Login(_) => Some("LOGIN"),
            RoleOption::AccessToAllDatacenters
            | RoleOption::AccessToDatacenters(_)
            | RoleOption::AccessFromAllCidrs
            | RoleOption::AccessFromCidrs(_) => None,
        }
    }
}
