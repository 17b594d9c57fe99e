//! All statements, by what they need of whoever executes them.

use super::{
    AddIdentity, AlterKeyspace, AlterRole, AlterTable, AlterType, AlterView, Batch, CreateAggregate,
    CreateFunction, CreateIndex, CreateKeyspace, CreateRole, CreateTable, CreateTrigger, CreateType,
    CreateView, DescribeStatement, DropFunction, DropIdentity, DropIndex, DropKeyspace, DropRole, DropTable,
    DropTrigger, DropType, DropView, GrantPermissions, GrantRole, ListPermissions, ListRoles, Modification,
    Prune, QualifiedName, RevokePermissions, RevokeRole, RoleSyntax, Select, Transaction,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Statement {
    Select(Select),
    Modification(Modification),
    Batch(Batch),
    Transaction(Box<Transaction>),
    /// The keyspace of a session's later statements.
    Use(String),
    Truncate(QualifiedName),
    Prune(Box<Prune>),
    Schema(SchemaStatement),
    Role(RoleStatement),
    Describe(DescribeStatement),
}

/// CREATE, ALTER and DROP of what a schema has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchemaStatement {
    CreateKeyspace(CreateKeyspace),
    AlterKeyspace(AlterKeyspace),
    DropKeyspace(DropKeyspace),
    CreateTable(CreateTable),
    AlterTable(AlterTable),
    DropTable(DropTable),
    CreateType(CreateType),
    AlterType(AlterType),
    DropType(DropType),
    CreateIndex(CreateIndex),
    DropIndex(DropIndex),
    CreateView(CreateView),
    AlterView(AlterView),
    DropView(DropView),
    CreateFunction(CreateFunction),
    DropFunction(DropFunction),
    CreateAggregate(CreateAggregate),
    DropAggregate(DropFunction),
    CreateTrigger(CreateTrigger),
    DropTrigger(DropTrigger),
}

/// Roles, what they may do, and who they are: `system_auth`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleStatement {
    CreateRole(CreateRole),
    AlterRole(AlterRole),
    DropRole(DropRole),
    GrantRole(GrantRole),
    RevokeRole(RevokeRole),
    ListRoles(ListRoles),
    GrantPermissions(GrantPermissions),
    RevokePermissions(RevokePermissions),
    ListPermissions(ListPermissions),
    AddIdentity(AddIdentity),
    DropIdentity(DropIdentity),
}

impl Statement {
    /// The words the statement begins with, for messages and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Statement::Select(_) => "SELECT",
            Statement::Modification(Modification::Insert(_)) => "INSERT",
            Statement::Modification(Modification::Update(_)) => "UPDATE",
            Statement::Modification(Modification::Delete(_)) => "DELETE",
            Statement::Batch(_) => "BATCH",
            Statement::Transaction(_) => "TRANSACTION",
            Statement::Use(_) => "USE",
            Statement::Truncate(_) => "TRUNCATE",
            Statement::Prune(_) => "PRUNE MATERIALIZED VIEW",
            Statement::Schema(statement) => statement.name(),
            Statement::Role(statement) => statement.name(),
            Statement::Describe(_) => "DESCRIBE",
        }
    }
}

impl SchemaStatement {
    /// As [`Statement::name`].
    pub fn name(&self) -> &'static str {
        match self {
            SchemaStatement::CreateKeyspace(_) => "CREATE KEYSPACE",
            SchemaStatement::AlterKeyspace(_) => "ALTER KEYSPACE",
            SchemaStatement::DropKeyspace(_) => "DROP KEYSPACE",
            SchemaStatement::CreateTable(_) => "CREATE TABLE",
            SchemaStatement::AlterTable(_) => "ALTER TABLE",
            SchemaStatement::DropTable(_) => "DROP TABLE",
            SchemaStatement::CreateType(_) => "CREATE TYPE",
            SchemaStatement::AlterType(_) => "ALTER TYPE",
            SchemaStatement::DropType(_) => "DROP TYPE",
            SchemaStatement::CreateIndex(_) => "CREATE INDEX",
            SchemaStatement::DropIndex(_) => "DROP INDEX",
            SchemaStatement::CreateView(_) => "CREATE MATERIALIZED VIEW",
            SchemaStatement::AlterView(_) => "ALTER MATERIALIZED VIEW",
            SchemaStatement::DropView(_) => "DROP MATERIALIZED VIEW",
            SchemaStatement::CreateFunction(_) => "CREATE FUNCTION",
            SchemaStatement::DropFunction(_) => "DROP FUNCTION",
            SchemaStatement::CreateAggregate(_) => "CREATE AGGREGATE",
            SchemaStatement::DropAggregate(_) => "DROP AGGREGATE",
            SchemaStatement::CreateTrigger(_) => "CREATE TRIGGER",
            SchemaStatement::DropTrigger(_) => "DROP TRIGGER",
        }
    }
}

impl RoleStatement {
    /// As [`Statement::name`].
    pub fn name(&self) -> &'static str {
        match self {
            RoleStatement::CreateRole(statement) => statement.syntax.choose("CREATE ROLE", "CREATE USER"),
            RoleStatement::AlterRole(statement) => statement.syntax.choose("ALTER ROLE", "ALTER USER"),
            RoleStatement::DropRole(statement) => statement.syntax.choose("DROP ROLE", "DROP USER"),
            RoleStatement::GrantRole(_) => "GRANT ROLE",
            RoleStatement::RevokeRole(_) => "REVOKE ROLE",
            RoleStatement::ListRoles(statement) => statement.syntax.choose("LIST ROLES", "LIST USERS"),
            RoleStatement::GrantPermissions(_) => "GRANT",
            RoleStatement::RevokePermissions(_) => "REVOKE",
            RoleStatement::ListPermissions(_) => "LIST PERMISSIONS",
            RoleStatement::AddIdentity(_) => "ADD IDENTITY",
            RoleStatement::DropIdentity(_) => "DROP IDENTITY",
        }
    }
}

impl RoleSyntax {
    fn choose(self, role: &'static str, user: &'static str) -> &'static str {
        match self {
            RoleSyntax::Role => role,
            RoleSyntax::User => user,
        }
    }
}
