//! All statements.

use super::{
    AddIdentity, AlterKeyspace, AlterRole, AlterTable, AlterType, AlterView, Batch, CreateAggregate,
    CreateFunction, CreateIndex, CreateKeyspace, CreateRole, CreateTable, CreateTrigger, CreateType,
    CreateView, Delete, DescribeStatement, DropFunction, DropIdentity, DropIndex, DropKeyspace, DropRole,
    DropTable, DropTrigger, DropType, DropView, GrantPermissions, GrantRole, Insert, ListPermissions,
    ListRoles, QualifiedName, RevokePermissions, RevokeRole, RoleSyntax, Select, Transaction, Update,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Statement {
    Select(Select),
    Insert(Insert),
    Update(Update),
    Delete(Delete),
    Batch(Batch),
    Transaction(Box<Transaction>),
    Use(String),
    Truncate(QualifiedName),
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
    Describe(DescribeStatement),
}

impl Statement {
    /// The words the statement begins with, for messages and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Statement::Select(_) => "SELECT",
            Statement::Insert(_) => "INSERT",
            Statement::Update(_) => "UPDATE",
            Statement::Delete(_) => "DELETE",
            Statement::Batch(_) => "BATCH",
            Statement::Transaction(_) => "TRANSACTION",
            Statement::Use(_) => "USE",
            Statement::Truncate(_) => "TRUNCATE",
            Statement::CreateKeyspace(_) => "CREATE KEYSPACE",
            Statement::AlterKeyspace(_) => "ALTER KEYSPACE",
            Statement::DropKeyspace(_) => "DROP KEYSPACE",
            Statement::CreateTable(_) => "CREATE TABLE",
            Statement::AlterTable(_) => "ALTER TABLE",
            Statement::DropTable(_) => "DROP TABLE",
            Statement::CreateType(_) => "CREATE TYPE",
            Statement::AlterType(_) => "ALTER TYPE",
            Statement::DropType(_) => "DROP TYPE",
            Statement::CreateIndex(_) => "CREATE INDEX",
            Statement::DropIndex(_) => "DROP INDEX",
            Statement::CreateView(_) => "CREATE MATERIALIZED VIEW",
            Statement::AlterView(_) => "ALTER MATERIALIZED VIEW",
            Statement::DropView(_) => "DROP MATERIALIZED VIEW",
            Statement::CreateFunction(_) => "CREATE FUNCTION",
            Statement::DropFunction(_) => "DROP FUNCTION",
            Statement::CreateAggregate(_) => "CREATE AGGREGATE",
            Statement::DropAggregate(_) => "DROP AGGREGATE",
            Statement::CreateTrigger(_) => "CREATE TRIGGER",
            Statement::DropTrigger(_) => "DROP TRIGGER",
            Statement::CreateRole(s) => s.syntax.choose("CREATE ROLE", "CREATE USER"),
            Statement::AlterRole(s) => s.syntax.choose("ALTER ROLE", "ALTER USER"),
            Statement::DropRole(s) => s.syntax.choose("DROP ROLE", "DROP USER"),
            Statement::GrantRole(_) => "GRANT ROLE",
            Statement::RevokeRole(_) => "REVOKE ROLE",
            Statement::ListRoles(s) => s.syntax.choose("LIST ROLES", "LIST USERS"),
            Statement::GrantPermissions(_) => "GRANT",
            Statement::RevokePermissions(_) => "REVOKE",
            Statement::ListPermissions(_) => "LIST PERMISSIONS",
            Statement::AddIdentity(_) => "ADD IDENTITY",
            Statement::DropIdentity(_) => "DROP IDENTITY",
            Statement::Describe(_) => "DESCRIBE",
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
