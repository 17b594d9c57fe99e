//! Which statement it is.

use super::cursor::Parser;
use super::rejection::Parsed;
use crate::ast::Statement;
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
        let TokenKind::Keyword(keyword) = self.next() else {
            return self.no_viable(1);
        };
        match keyword {
            Keyword::Select => self.select().map(Statement::Select),
            Keyword::Insert => self.insert().map(Statement::Insert),
            Keyword::Update => self.update().map(Statement::Update),
            Keyword::Delete => self.delete().map(Statement::Delete),
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
            Keyword::Add => self.add_identity().map(Statement::AddIdentity),
            Keyword::Describe | Keyword::Desc => self.describe().map(Statement::Describe),
            _ => self.no_viable(1),
        }
    }

    fn create(&mut self) -> Parsed<Statement> {
        let TokenKind::Keyword(keyword) = self.look(2) else {
            return self.no_viable(2);
        };
        match keyword {
            Keyword::Keyspace => self.create_keyspace().map(Statement::CreateKeyspace),
            Keyword::ColumnFamily => self.create_table().map(Statement::CreateTable),
            Keyword::Type => self.create_type().map(Statement::CreateType),
            Keyword::Custom | Keyword::Index => self.create_index().map(Statement::CreateIndex),
            Keyword::Materialized => self.create_view().map(Statement::CreateView),
            Keyword::Function => self.create_function().map(Statement::CreateFunction),
            Keyword::Aggregate => self.create_aggregate().map(Statement::CreateAggregate),
            Keyword::Or if self.look(3) != TokenKind::Keyword(Keyword::Replace) => self.no_viable(3),
            Keyword::Or => match self.look(4) {
                TokenKind::Keyword(Keyword::Function) => {
                    self.create_function().map(Statement::CreateFunction)
                }
                TokenKind::Keyword(Keyword::Aggregate) => {
                    self.create_aggregate().map(Statement::CreateAggregate)
                }
                _ => self.no_viable(4),
            },
            Keyword::Trigger => self.create_trigger().map(Statement::CreateTrigger),
            Keyword::Role => self.create_role().map(Statement::CreateRole),
            Keyword::User => self.create_user().map(Statement::CreateRole),
            _ => self.no_viable(2),
        }
    }

    fn alter(&mut self) -> Parsed<Statement> {
        let TokenKind::Keyword(keyword) = self.look(2) else {
            return self.no_viable(2);
        };
        match keyword {
            Keyword::Keyspace => self.alter_keyspace().map(Statement::AlterKeyspace),
            Keyword::ColumnFamily => self.alter_table().map(Statement::AlterTable),
            Keyword::Type => self.alter_type().map(Statement::AlterType),
            Keyword::Materialized => self.alter_view().map(Statement::AlterView),
            Keyword::Role => self.alter_role().map(Statement::AlterRole),
            Keyword::User => self.alter_user().map(Statement::AlterRole),
            _ => self.no_viable(2),
        }
    }

    fn drop_something(&mut self) -> Parsed<Statement> {
        let TokenKind::Keyword(keyword) = self.look(2) else {
            return self.no_viable(2);
        };
        match keyword {
            Keyword::Keyspace => self.drop_keyspace().map(Statement::DropKeyspace),
            Keyword::ColumnFamily => self.drop_table().map(Statement::DropTable),
            Keyword::Type => self.drop_type().map(Statement::DropType),
            Keyword::Index => self.drop_index().map(Statement::DropIndex),
            Keyword::Materialized => self.drop_view().map(Statement::DropView),
            Keyword::Function => self.drop_function(keyword).map(Statement::DropFunction),
            Keyword::Aggregate => self.drop_function(keyword).map(Statement::DropAggregate),
            Keyword::Trigger => self.drop_trigger().map(Statement::DropTrigger),
            Keyword::Role => self.drop_role().map(Statement::DropRole),
            Keyword::User => self.drop_user().map(Statement::DropRole),
            Keyword::Identity => self.drop_identity().map(Statement::DropIdentity),
            _ => self.no_viable(2),
        }
    }

    fn grant(&mut self) -> Parsed<Statement> {
        if self.next_names_permission(Keyword::To)? {
            return self.grant_permissions().map(Statement::GrantPermissions);
        }
        self.grant_role().map(Statement::GrantRole)
    }

    fn revoke(&mut self) -> Parsed<Statement> {
        if self.next_names_permission(Keyword::From)? {
            return self.revoke_permissions().map(Statement::RevokePermissions);
        }
        self.revoke_role().map(Statement::RevokeRole)
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
            Keyword::Roles => self.list_roles().map(Statement::ListRoles),
            Keyword::Users => self.list_users().map(Statement::ListRoles),
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
            | Keyword::Unmask => self.list_permissions().map(Statement::ListPermissions),
            _ => self.no_viable(2),
        }
    }
}
