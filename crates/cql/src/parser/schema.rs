//! Keyspaces, types, indexes, functions, aggregates and triggers, and what is dropped.

use super::cursor::Parser;
use super::rejection::Parsed;
use crate::ast::{
    AlterKeyspace, AlterType, AlterTypeAction, CreateAggregate, CreateFunction, CreateIndex, CreateKeyspace,
    CreateTrigger, CreateType, DropFunction, DropIndex, DropKeyspace, DropTable, DropTrigger, DropType,
    DropView, FieldDefinition, FunctionArgument, IndexTarget, IndexTargetKind,
};
use crate::lexer::{Keyword, TokenKind};

impl Parser<'_> {
    pub(super) fn create_keyspace(&mut self) -> Parsed<CreateKeyspace> {
        self.expect_keywords(&[Keyword::Create, Keyword::Keyspace])?;
        let if_not_exists = self.if_not_exists()?;
        let keyspace = self.keyspace_name()?;
        self.expect_keyword(Keyword::With)?;
        Ok(CreateKeyspace {
            if_not_exists,
            keyspace,
            properties: self.properties()?,
        })
    }

    pub(super) fn alter_keyspace(&mut self) -> Parsed<AlterKeyspace> {
        self.expect_keywords(&[Keyword::Alter, Keyword::Keyspace])?;
        let if_exists = self.if_exists()?;
        let keyspace = self.keyspace_name()?;
        self.expect_keyword(Keyword::With)?;
        Ok(AlterKeyspace {
            if_exists,
            keyspace,
            properties: self.properties()?,
        })
    }

    pub(super) fn drop_keyspace(&mut self) -> Parsed<DropKeyspace> {
        self.expect_keywords(&[Keyword::Drop, Keyword::Keyspace])?;
        Ok(DropKeyspace {
            if_exists: self.if_exists()?,
            keyspace: self.keyspace_name()?,
        })
    }

    pub(super) fn drop_table(&mut self) -> Parsed<DropTable> {
        self.expect_keywords(&[Keyword::Drop, Keyword::ColumnFamily])?;
        Ok(DropTable {
            if_exists: self.if_exists()?,
            table: self.table_name()?,
        })
    }

    pub(super) fn drop_view(&mut self) -> Parsed<DropView> {
        self.expect_keywords(&[Keyword::Drop, Keyword::Materialized, Keyword::View])?;
        Ok(DropView {
            if_exists: self.if_exists()?,
            view: self.table_name()?,
        })
    }

    pub(super) fn create_type(&mut self) -> Parsed<CreateType> {
        self.expect_keywords(&[Keyword::Create, Keyword::Type])?;
        let if_not_exists = self.if_not_exists()?;
        let name = self.user_type_name()?;
        self.expect(TokenKind::LeftParenthesis)?;
        let mut fields = vec![self.field_definition()?];
        while self.accept(TokenKind::Comma) {
            if self.next().is_identifier() {
                fields.push(self.field_definition()?);
            }
        }
        self.expect(TokenKind::RightParenthesis)?;
        Ok(CreateType {
            if_not_exists,
            name,
            fields,
        })
    }

    fn field_definition(&mut self) -> Parsed<FieldDefinition> {
        Ok(FieldDefinition {
            name: self.identifier()?,
            type_name: self.type_name()?,
        })
    }

    pub(super) fn alter_type(&mut self) -> Parsed<AlterType> {
        self.expect_keywords(&[Keyword::Alter, Keyword::Type])?;
        let if_exists = self.if_exists()?;
        let name = self.user_type_name()?;
        let action = if self.accept_keyword(Keyword::Alter) {
            let field = self.identifier()?;
            self.expect_keyword(Keyword::Type)?;
            AlterTypeAction::ChangeType(FieldDefinition {
                name: field,
                type_name: self.type_name()?,
            })
        } else if self.accept_keyword(Keyword::Add) {
            AlterTypeAction::Add {
                if_not_exists: self.if_not_exists()?,
                field: self.field_definition()?,
            }
        } else if self.accept_keyword(Keyword::Rename) {
            let if_exists = self.if_exists()?;
            AlterTypeAction::Rename {
                if_exists,
                renames: self.and_separated(Self::renaming)?,
            }
        } else {
            return self.no_viable(1);
        };
        Ok(AlterType {
            if_exists,
            name,
            action,
        })
    }

    pub(super) fn drop_type(&mut self) -> Parsed<DropType> {
        self.expect_keywords(&[Keyword::Drop, Keyword::Type])?;
        Ok(DropType {
            if_exists: self.if_exists()?,
            name: self.user_type_name()?,
        })
    }

    pub(super) fn create_index(&mut self) -> Parsed<CreateIndex> {
        self.expect_keyword(Keyword::Create)?;
        let custom = self.accept_keyword(Keyword::Custom);
        self.expect_keyword(Keyword::Index)?;
        let if_not_exists = self.if_not_exists()?;
        let has_name = self.next().is_identifier() || self.next_is(TokenKind::QuestionMark);
        let name = if has_name {
            Some(self.index_identifier()?)
        } else {
            None
        };
        self.expect_keyword(Keyword::On)?;
        let table = self.table_name()?;
        self.expect(TokenKind::LeftParenthesis)?;
        let mut targets = Vec::new();
        if self.next().is_column()
            || matches!(self.next(), TokenKind::Keyword(Keyword::Entries | Keyword::Full))
        {
            targets = self.comma_separated(Self::index_target)?;
        }
        self.expect(TokenKind::RightParenthesis)?;
        let class = if self.accept_keyword(Keyword::Using) {
            Some(self.string()?)
        } else {
            None
        };
        let properties = if self.accept_keyword(Keyword::With) {
            self.properties()?
        } else {
            Vec::new()
        };
        Ok(CreateIndex {
            custom,
            if_not_exists,
            name,
            table,
            targets,
            class,
            properties,
        })
    }

    fn index_target(&mut self) -> Parsed<IndexTarget> {
        let kind = match self.next() {
            TokenKind::Keyword(keyword @ (Keyword::Values | Keyword::Keys)) => match self.look(2) {
                TokenKind::LeftParenthesis if keyword == Keyword::Values => IndexTargetKind::Values,
                TokenKind::LeftParenthesis => IndexTargetKind::Keys,
                TokenKind::RightParenthesis | TokenKind::Comma => IndexTargetKind::Simple,
                _ => return self.no_viable(2),
            },
            TokenKind::Keyword(Keyword::Entries) => IndexTargetKind::Entries,
            TokenKind::Keyword(Keyword::Full) => IndexTargetKind::Full,
            kind if kind.is_column() => IndexTargetKind::Simple,
            _ => return self.no_viable(1),
        };
        if kind == IndexTargetKind::Simple {
            return Ok(IndexTarget {
                column: self.column()?,
                kind,
            });
        }
        self.consume();
        self.expect(TokenKind::LeftParenthesis)?;
        let column = self.column()?;
        self.expect(TokenKind::RightParenthesis)?;
        Ok(IndexTarget { column, kind })
    }

    pub(super) fn drop_index(&mut self) -> Parsed<DropIndex> {
        self.expect_keywords(&[Keyword::Drop, Keyword::Index])?;
        Ok(DropIndex {
            if_exists: self.if_exists()?,
            index: self.index_name()?,
        })
    }

    pub(super) fn create_function(&mut self) -> Parsed<CreateFunction> {
        self.expect_keyword(Keyword::Create)?;
        let or_replace = self.optional_clause(&[Keyword::Or, Keyword::Replace])?;
        self.expect_keyword(Keyword::Function)?;
        let if_not_exists = self.if_not_exists()?;
        let name = self.function_name()?;
        self.expect(TokenKind::LeftParenthesis)?;
        let mut arguments = Vec::new();
        if self.next().is_identifier() {
            arguments = self.comma_separated(|parser| {
                Ok(FunctionArgument {
                    name: parser.identifier()?,
                    type_name: parser.type_name()?,
                })
            })?;
        }
        self.expect(TokenKind::RightParenthesis)?;
        let called_on_null_input = self.accept_keyword(Keyword::Called);
        if !called_on_null_input {
            if !self.next_is_keyword(Keyword::Returns) {
                return self.no_viable(1);
            }
            self.expect_keywords(&[Keyword::Returns, Keyword::Null])?;
        }
        self.expect_keywords(&[Keyword::On, Keyword::Null, Keyword::Input, Keyword::Returns])?;
        let return_type = self.type_name()?;
        self.expect_keyword(Keyword::Language)?;
        let language = self.expect(TokenKind::Identifier)?;
        let language = self.text_of(language);
        self.expect_keyword(Keyword::As)?;
        let body = self.string()?;
        Ok(CreateFunction {
            or_replace,
            if_not_exists,
            name,
            arguments,
            called_on_null_input,
            return_type,
            language,
            body,
        })
    }

    pub(super) fn create_aggregate(&mut self) -> Parsed<CreateAggregate> {
        self.expect_keyword(Keyword::Create)?;
        let or_replace = self.optional_clause(&[Keyword::Or, Keyword::Replace])?;
        self.expect_keyword(Keyword::Aggregate)?;
        let if_not_exists = self.if_not_exists()?;
        let name = self.function_name()?;
        let argument_types = self.type_list()?;
        self.expect_keyword(Keyword::SFunc)?;
        let state_function = self.unqualified_function_name()?;
        self.expect_keyword(Keyword::SType)?;
        let state_type = self.type_name()?;
        let mut final_function = None;
        if self.accept_keyword(Keyword::FinalFunc) {
            final_function = Some(self.unqualified_function_name()?);
        }
        let initial_state = if self.accept_keyword(Keyword::InitCond) {
            Some(self.term()?)
        } else {
            None
        };
        Ok(CreateAggregate {
            or_replace,
            if_not_exists,
            name,
            argument_types,
            state_function,
            state_type,
            final_function,
            initial_state,
        })
    }

    /// `DROP FUNCTION` or `DROP AGGREGATE`
    pub(super) fn drop_function(&mut self, keyword: Keyword) -> Parsed<DropFunction> {
        self.expect_keywords(&[Keyword::Drop, keyword])?;
        let if_exists = self.if_exists()?;
        let name = self.function_name()?;
        let has_types = self.next_is(TokenKind::LeftParenthesis);
        let argument_types = if has_types { Some(self.type_list()?) } else { None };
        Ok(DropFunction {
            if_exists,
            name,
            argument_types,
        })
    }

    pub(super) fn create_trigger(&mut self) -> Parsed<CreateTrigger> {
        self.expect_keywords(&[Keyword::Create, Keyword::Trigger])?;
        let if_not_exists = self.if_not_exists()?;
        let trigger = self.identifier()?;
        self.expect_keyword(Keyword::On)?;
        let table = self.table_name()?;
        self.expect_keyword(Keyword::Using)?;
        Ok(CreateTrigger {
            if_not_exists,
            trigger,
            table,
            class: self.string()?,
        })
    }

    pub(super) fn drop_trigger(&mut self) -> Parsed<DropTrigger> {
        self.expect_keywords(&[Keyword::Drop, Keyword::Trigger])?;
        let if_exists = self.if_exists()?;
        let trigger = self.identifier()?;
        self.expect_keyword(Keyword::On)?;
        Ok(DropTrigger {
            if_exists,
            trigger,
            table: self.table_name()?,
        })
    }
}
