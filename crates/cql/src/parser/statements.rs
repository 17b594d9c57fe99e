//! Which statement it is.

use super::cursor::Parser;
use super::rejection::Parsed;
use crate::ast::{Modification, RoleStatement, SchemaStatement, Statement};
use crate::lexer::{Keyword, TokenKind};

impl Parser<'_> {
    /// A whole text: one statement and any number of semicolons.
    pub(super) fn whole_statement(&mut self) -> Parsed<Statement> {
        let statement = self.statement()?;
        while self.accept(TokenKind::Semicolon) {}
        self.expect(TokenKind::End)?;
        Ok(statement)
    }

    fn statement(&mut self) -> Parsed<Statement> {
        if self.begins_prune() {
            return self.prune().map(Box::new).map(Statement::Prune);
        }
        let TokenKind::Keyword(keyword) = self.next() else {
            return self.no_viable(1);
        };
        match keyword {
            Keyword::Select => self.select().map(Statement::Select),
            Keyword::Insert => self
                .insert()
                .map(Modification::Insert)
                .map(Statement::Modification),
            Keyword::Update => self
                .update()
                .map(Modification::Update)
                .map(Statement::Modification),
            Keyword::Delete => self
                .delete()
                .map(Modification::Delete)
                .map(Statement::Modification),
            Keyword::Begin if self.begins_transaction() => {
                let transaction = self.transaction()?;
                Ok(Statement::Transaction(Box::new(transaction)))
            }
            Keyword::Begin => self.batch().map(Statement::Batch),
            Keyword::Use => {
                self.consume();
                self.keyspace_name().map(Statement::Use)
            }
            Keyword::Truncate => {
                self.consume();
                self.accept_keyword(Keyword::ColumnFamily);
                self.table_name().map(Statement::Truncate)
            }
            Keyword::Create => self.create(),
            Keyword::Alter => self.alter(),
            Keyword::Drop => self.drop_something(),
            Keyword::Grant => self.grant(),
            Keyword::Revoke => self.revoke(),
            Keyword::List => self.list(),
            Keyword::Add => role(self.add_identity(), RoleStatement::AddIdentity),
            Keyword::Describe | Keyword::Desc => self.describe().map(Statement::Describe),
            _ => self.no_viable(1),
        }
    }

    fn create(&mut self) -> Parsed<Statement> {
        let TokenKind::Keyword(keyword) = self.look(2) else {
            return self.no_viable(2);
        };
        match keyword {
            Keyword::Keyspace => schema(self.create_keyspace(), SchemaStatement::CreateKeyspace),
            Keyword::ColumnFamily => schema(self.create_table(), SchemaStatement::CreateTable),
            Keyword::Type => schema(self.create_type(), SchemaStatement::CreateType),
            Keyword::Custom | Keyword::Index => schema(self.create_index(), SchemaStatement::CreateIndex),
            Keyword::Materialized => schema(self.create_view(), SchemaStatement::CreateView),
            Keyword::Function => schema(self.create_function(), SchemaStatement::CreateFunction),
            Keyword::Aggregate => schema(self.create_aggregate(), SchemaStatement::CreateAggregate),
            Keyword::Or if self.look(3) != TokenKind::Keyword(Keyword::Replace) => self.no_viable(3),
            Keyword::Or => match self.look(4) {
                TokenKind::Keyword(Keyword::Function) => {
                    schema(self.create_function(), SchemaStatement::CreateFunction)
                }
                TokenKind::Keyword(Keyword::Aggregate) => {
                    schema(self.create_aggregate(), SchemaStatement::CreateAggregate)
                }
                _ => self.no_viable(4),
            },
            Keyword::Trigger => schema(self.create_trigger(), SchemaStatement::CreateTrigger),
            Keyword::Role => role(self.create_role(), RoleStatement::CreateRole),
            Keyword::User => role(self.create_user(), RoleStatement::CreateRole),
            _ => self.no_viable(2),
        }
    }

    fn alter(&mut self) -> Parsed<Statement> {
        let TokenKind::Keyword(keyword) = self.look(2) else {
            return self.no_viable(2);
        };
        match keyword {
            Keyword::Keyspace => schema(self.alter_keyspace(), SchemaStatement::AlterKeyspace),
            Keyword::ColumnFamily => schema(self.alter_table(), SchemaStatement::AlterTable),
            Keyword::Type => schema(self.alter_type(), SchemaStatement::AlterType),
            Keyword::Materialized => schema(self.alter_view(), SchemaStatement::AlterView),
            Keyword::Role => role(self.alter_role(), RoleStatement::AlterRole),
            Keyword::User => role(self.alter_user(), RoleStatement::AlterRole),
            _ => self.no_viable(2),
        }
    }

    fn drop_something(&mut self) -> Parsed<Statement> {
        let TokenKind::Keyword(keyword) = self.look(2) else {
            return self.no_viable(2);
        };
        match keyword {
            Keyword::Keyspace => schema(self.drop_keyspace(), SchemaStatement::DropKeyspace),
            Keyword::ColumnFamily => schema(self.drop_table(), SchemaStatement::DropTable),
            Keyword::Type => schema(self.drop_type(), SchemaStatement::DropType),
            Keyword::Index => schema(self.drop_index(), SchemaStatement::DropIndex),
            Keyword::Materialized => schema(self.drop_view(), SchemaStatement::DropView),
            Keyword::Function => schema(self.drop_function(keyword), SchemaStatement::DropFunction),
            Keyword::Aggregate => schema(self.drop_function(keyword), SchemaStatement::DropAggregate),
            Keyword::Trigger => schema(self.drop_trigger(), SchemaStatement::DropTrigger),
            Keyword::Role => role(self.drop_role(), RoleStatement::DropRole),
            Keyword::User => role(self.drop_user(), RoleStatement::DropRole),
            Keyword::Identity => role(self.drop_identity(), RoleStatement::DropIdentity),
            _ => self.no_viable(2),
        }
    }

    fn grant(&mut self) -> Parsed<Statement> {
        if self.next_names_permission(Keyword::To)? {
            return role(self.grant_permissions(), RoleStatement::GrantPermissions);
        }
        role(self.grant_role(), RoleStatement::GrantRole)
    }

    fn revoke(&mut self) -> Parsed<Statement> {
        if self.next_names_permission(Keyword::From)? {
            return role(self.revoke_permissions(), RoleStatement::RevokePermissions);
        }
        role(self.revoke_role(), RoleStatement::RevokeRole)
    }

    /// Tells permissions from roles after `GRANT` and `REVOKE`; `preposition` is what follows a role.
    fn next_names_permission(&self, preposition: Keyword) -> Parsed<bool> {
        match self.look(2) {
            TokenKind::Keyword(second @ (Keyword::All | Keyword::SelectMasked | Keyword::Unmask)) => {
                match self.look(3) {
                    TokenKind::Keyword(Keyword::On) => Ok(true),
                    TokenKind::Keyword(Keyword::Permissions) if second == Keyword::All => Ok(true),
                    TokenKind::Keyword(Keyword::Permission) | TokenKind::Comma if second != Keyword::All => {
                        Ok(true)
                    }
                    TokenKind::Keyword(third) if third == preposition => Ok(false),
                    _ => self.no_viable(3),
                }
            }
            TokenKind::Keyword(
                Keyword::Alter
                | Keyword::Authorize
                | Keyword::Create
                | Keyword::Describe
                | Keyword::Drop
                | Keyword::Execute
                | Keyword::Modify
                | Keyword::Select,
            ) => Ok(true),
            TokenKind::String | TokenKind::QuestionMark => Ok(false),
            kind if kind.is_identifier() => Ok(false),
            _ => self.no_viable(2),
        }
    }

    fn list(&mut self) -> Parsed<Statement> {
        let TokenKind::Keyword(keyword) = self.look(2) else {
            return self.no_viable(2);
        };
        match keyword {
            Keyword::Roles => role(self.list_roles(), RoleStatement::ListRoles),
            Keyword::Users => role(self.list_users(), RoleStatement::ListRoles),
            Keyword::All
            | Keyword::Alter
            | Keyword::Authorize
            | Keyword::Create
            | Keyword::Describe
            | Keyword::Drop
            | Keyword::Execute
            | Keyword::Modify
            | Keyword::Select
            | Keyword::SelectMasked
            | Keyword::Unmask => role(self.list_permissions(), RoleStatement::ListPermissions),
            _ => self.no_viable(2),
        }
    }
}

fn schema<T>(parsed: Parsed<T>, kind: impl FnOnce(T) -> SchemaStatement) -> Parsed<Statement> {
    parsed.map(kind).map(Statement::Schema)
}

fn role<T>(parsed: Parsed<T>, kind: impl FnOnce(T) -> RoleStatement) -> Parsed<Statement> {
    parsed.map(kind).map(Statement::Role)
}
