//! `CREATE TABLE`, `ALTER TABLE` and materialized views.

use super::cursor::Parser;
use super::rejection::Parsed;
use crate::ast::{
    AlterTable, AlterTableAction, AlterView, ClusteringOrder, ColumnDefinition, ColumnMask, CreateTable,
    CreateView, OrderDirection, PrimaryKey, TableOptions,
};
use crate::lexer::{Keyword, TokenKind};

impl Parser<'_> {
    pub(super) fn create_table(&mut self) -> Parsed<CreateTable> {
        self.expect_keywords(&[Keyword::Create, Keyword::ColumnFamily])?;
        let if_not_exists = self.if_not_exists()?;
        let table = self.table_name()?;
        self.expect(TokenKind::LeftParenthesis)?;
        let mut columns = Vec::new();
        let mut primary_keys = Vec::new();
        self.table_column(&mut columns, &mut primary_keys)?;
        while self.accept(TokenKind::Comma) {
            if self.next().is_identifier() || self.next_is_keyword(Keyword::Primary) {
                self.table_column(&mut columns, &mut primary_keys)?;
            }
        }
        self.expect(TokenKind::RightParenthesis)?;
        let options = self.table_options()?;
        Ok(CreateTable {
            if_not_exists,
            table,
            columns,
            primary_keys,
            options,
        })
    }

    /// A column, which may be the whole primary key, or the clause that says what the primary key is.
    fn table_column(
        &mut self,
        columns: &mut Vec<ColumnDefinition>,
        primary_keys: &mut Vec<PrimaryKey>,
    ) -> Parsed<()> {
        if self.next_is_keyword(Keyword::Primary) {
            primary_keys.push(self.primary_key()?);
            return Ok(());
        }
        let column = self.column_definition()?;
        if self.optional_clause(&[Keyword::Primary, Keyword::Key])? {
            primary_keys.push(PrimaryKey {
                partition: vec![column.name.clone()],
                clustering: Vec::new(),
            });
        }
        columns.push(column);
        Ok(())
    }

    fn column_definition(&mut self) -> Parsed<ColumnDefinition> {
        let name = self.identifier()?;
        let type_name = self.type_name()?;
        let is_static = self.accept_keyword(Keyword::Static);
        let is_expiration = self.accept_keyword(Keyword::Ttl);
        let mask = if self.next_is_keyword(Keyword::Masked) {
            Some(self.column_mask()?)
        } else {
            None
        };
        Ok(ColumnDefinition {
            name,
            type_name,
            is_static,
            is_expiration,
            mask,
        })
    }

    /// `MASKED WITH DEFAULT` or `MASKED WITH f(...)`
    fn column_mask(&mut self) -> Parsed<ColumnMask> {
        let is_default = self.next_is_default_mask()?;
        self.expect_keywords(&[Keyword::Masked, Keyword::With])?;
        if is_default {
            self.consume();
            return Ok(ColumnMask::Default);
        }
        let name = self.function_name()?;
        if !self.next_is(TokenKind::LeftParenthesis) {
            return self.no_viable(1);
        }
        let second = self.look(2);
        if !second.begins_term() && second != TokenKind::RightParenthesis {
            return self.no_viable(2);
        }
        self.consume();
        Ok(ColumnMask::Function {
            name,
            arguments: self.terms_until(TokenKind::RightParenthesis)?,
        })
    }

    fn next_is_default_mask(&self) -> Parsed<bool> {
        if !self.next_is_keyword(Keyword::Masked) {
            return self.no_viable(1);
        }
        if self.look(2) != TokenKind::Keyword(Keyword::With) {
            return self.no_viable(2);
        }
        let third = self.look(3);
        if third == TokenKind::Keyword(Keyword::Default) {
            return match self.look(4) {
                TokenKind::LeftParenthesis | TokenKind::Dot => Ok(false),
                TokenKind::RightParenthesis
                | TokenKind::Comma
                | TokenKind::Semicolon
                | TokenKind::End
                | TokenKind::Keyword(Keyword::Primary) => Ok(true),
                _ => self.no_viable(4),
            };
        }
        let names_function = third.is_identifier()
            || matches!(
                third,
                TokenKind::Keyword(Keyword::Token) | TokenKind::QuestionMark
            );
        if names_function {
            Ok(false)
        } else {
            self.no_viable(3)
        }
    }

    /// `PRIMARY KEY ((a, b), c)`
    fn primary_key(&mut self) -> Parsed<PrimaryKey> {
        self.expect_keywords(&[Keyword::Primary, Keyword::Key])?;
        self.expect(TokenKind::LeftParenthesis)?;
        let partition = if self.accept(TokenKind::LeftParenthesis) {
            let columns = self.comma_separated(Self::identifier)?;
            self.expect(TokenKind::RightParenthesis)?;
            columns
        } else {
            vec![self.identifier()?]
        };
        let mut clustering = Vec::new();
        while self.accept(TokenKind::Comma) {
            clustering.push(self.identifier()?);
        }
        self.expect(TokenKind::RightParenthesis)?;
        Ok(PrimaryKey {
            partition,
            clustering,
        })
    }

    /// The `WITH` clause of a table or view, if it is there.
    fn table_options(&mut self) -> Parsed<TableOptions> {
        let mut options = TableOptions::default();
        if self.accept_keyword(Keyword::With) {
            self.and_separated(|parser| parser.table_option(&mut options))?;
        }
        Ok(options)
    }

    fn table_option(&mut self, options: &mut TableOptions) -> Parsed<()> {
        match (self.next(), self.look_after_option_keyword()) {
            (TokenKind::Keyword(Keyword::Compact), Some(TokenKind::Keyword(Keyword::Storage))) => {
                self.expect_keywords(&[Keyword::Compact, Keyword::Storage])?;
                options.compact_storage = true;
                Ok(())
            }
            (TokenKind::Keyword(Keyword::Clustering), Some(TokenKind::Keyword(Keyword::Order))) => {
                self.expect_keywords(&[Keyword::Clustering, Keyword::Order, Keyword::By])?;
                self.expect(TokenKind::LeftParenthesis)?;
                options
                    .clustering_order
                    .extend(self.comma_separated(Self::clustering_order)?);
                self.expect(TokenKind::RightParenthesis)?;
                Ok(())
            }
            (_, None | Some(TokenKind::Equal)) => self.property(&mut options.properties),
            _ => self.no_viable(2),
        }
    }

    /// The token after `COMPACT` or `CLUSTERING`, which is only looked at after these.
    fn look_after_option_keyword(&self) -> Option<TokenKind> {
        let is_option_keyword = matches!(
            self.next(),
            TokenKind::Keyword(Keyword::Compact | Keyword::Clustering)
        );
        is_option_keyword.then(|| self.look(2))
    }

    fn clustering_order(&mut self) -> Parsed<ClusteringOrder> {
        let column = self.identifier()?;
        let direction = if self.accept_keyword(Keyword::Asc) {
            OrderDirection::Ascending
        } else if self.accept_keyword(Keyword::Desc) {
            OrderDirection::Descending
        } else {
            return self.no_viable(1);
        };
        Ok(ClusteringOrder { column, direction })
    }

    pub(super) fn alter_table(&mut self) -> Parsed<AlterTable> {
        self.expect_keywords(&[Keyword::Alter, Keyword::ColumnFamily])?;
        let if_exists = self.if_exists()?;
        let table = self.table_name()?;
        let action = match self.next() {
            TokenKind::Keyword(Keyword::Add) => self.add_columns()?,
            TokenKind::Keyword(Keyword::Alter) => self.alter_column()?,
            TokenKind::Keyword(Keyword::Drop) => self.drop_columns()?,
            TokenKind::Keyword(Keyword::Rename) => {
                self.consume();
                let if_exists = self.if_exists()?;
                AlterTableAction::Rename {
                    if_exists,
                    renames: self.and_separated(Self::renaming)?,
                }
            }
            TokenKind::Keyword(Keyword::With) => {
                self.consume();
                AlterTableAction::With(self.properties()?)
            }
            TokenKind::Keyword(Keyword::Ttl) => {
                self.consume();
                AlterTableAction::Expire(self.expiration_column()?)
            }
            _ => return self.no_viable(1),
        };
        Ok(AlterTable {
            if_exists,
            table,
            action,
        })
    }

    /// A column's name, or NULL for none.
    fn expiration_column(&mut self) -> Parsed<Option<String>> {
        match self.accept_keyword(Keyword::Null) {
            true => Ok(None),
            false => self.identifier().map(Some),
        }
    }

    /// `old TO new`
    pub(super) fn renaming(&mut self) -> Parsed<(String, String)> {
        let from = self.identifier()?;
        self.expect_keyword(Keyword::To)?;
        Ok((from, self.identifier()?))
    }

    fn add_columns(&mut self) -> Parsed<AlterTableAction> {
        self.expect_keyword(Keyword::Add)?;
        let if_not_exists = self.if_not_exists()?;
        let columns = match self.next() {
            TokenKind::LeftParenthesis => {
                self.consume();
                let columns = self.comma_separated(Self::column_definition)?;
                self.expect(TokenKind::RightParenthesis)?;
                columns
            }
            kind if kind.is_identifier() => vec![self.column_definition()?],
            _ => return self.no_viable(1),
        };
        Ok(AlterTableAction::Add {
            if_not_exists,
            columns,
        })
    }

    /// `ALTER c TYPE t`, `ALTER c MASKED WITH f` or `ALTER c DROP MASKED`
    fn alter_column(&mut self) -> Parsed<AlterTableAction> {
        let second = self.look(2);
        if second.is_column() {
            match self.look(3) {
                TokenKind::Keyword(Keyword::Type) => {
                    self.consume();
                    let column = self.column()?;
                    self.expect_keyword(Keyword::Type)?;
                    return Ok(AlterTableAction::ChangeType {
                        column,
                        type_name: self.type_name()?,
                    });
                }
                TokenKind::Keyword(Keyword::Drop | Keyword::Masked) => {}
                _ => return self.no_viable(3),
            }
        } else if second != TokenKind::Keyword(Keyword::If) {
            return self.no_viable(2);
        }
        self.consume();
        let if_exists = self.if_exists()?;
        let column = self.column()?;
        let mask = match self.next() {
            TokenKind::Keyword(Keyword::Masked) => Some(self.column_mask()?),
            TokenKind::Keyword(Keyword::Drop) => {
                self.expect_keywords(&[Keyword::Drop, Keyword::Masked])?;
                None
            }
            _ => return self.no_viable(1),
        };
        Ok(AlterTableAction::ChangeMask {
            if_exists,
            column,
            mask,
        })
    }

    fn drop_columns(&mut self) -> Parsed<AlterTableAction> {
        if self.next_is_drop_compact_storage()? {
            self.expect_keywords(&[Keyword::Drop, Keyword::Compact, Keyword::Storage])?;
            return Ok(AlterTableAction::DropCompactStorage);
        }
        self.expect_keyword(Keyword::Drop)?;
        let if_exists = self.if_exists()?;
        let columns = match self.next() {
            TokenKind::LeftParenthesis => {
                self.consume();
                let columns = self.comma_separated(Self::identifier)?;
                self.expect(TokenKind::RightParenthesis)?;
                columns
            }
            kind if kind.is_identifier() => vec![self.identifier()?],
            _ => return self.no_viable(1),
        };
        let mut timestamp = None;
        if self.optional_clause(&[Keyword::Using, Keyword::Timestamp])? {
            let token = self.expect(TokenKind::Integer)?;
            let text = self.text_of(token);
            match text.parse() {
                Ok(microseconds) => timestamp = Some(microseconds),
                Err(_) => {
                    return self
                        .failed_parsing(format!("NumberFormatException For input string: \"{text}\""));
                }
            }
        }
        Ok(AlterTableAction::Drop {
            if_exists,
            columns,
            timestamp,
        })
    }

    /// Tells `DROP COMPACT STORAGE` from dropping a column named `compact`.
    fn next_is_drop_compact_storage(&self) -> Parsed<bool> {
        match self.look(2) {
            TokenKind::Keyword(Keyword::Compact) => match self.look(3) {
                TokenKind::Keyword(Keyword::Storage) => Ok(true),
                TokenKind::Keyword(Keyword::Using) | TokenKind::Semicolon | TokenKind::End => Ok(false),
                _ => self.no_viable(3),
            },
            TokenKind::LeftParenthesis | TokenKind::Keyword(Keyword::If) => Ok(false),
            kind if kind.is_identifier() => Ok(false),
            _ => self.no_viable(2),
        }
    }

    pub(super) fn create_view(&mut self) -> Parsed<CreateView> {
        self.expect_keywords(&[Keyword::Create, Keyword::Materialized, Keyword::View])?;
        let if_not_exists = self.if_not_exists()?;
        let view = self.table_name()?;
        self.expect_keywords(&[Keyword::As, Keyword::Select])?;
        let selection = self.selection()?;
        self.expect_keyword(Keyword::From)?;
        let base_table = self.table_name()?;
        let relations = if self.accept_keyword(Keyword::Where) {
            self.where_clause()?
        } else {
            Vec::new()
        };
        let primary_key = self.primary_key()?;
        let options = self.table_options()?;
        Ok(CreateView {
            if_not_exists,
            view,
            selection,
            base_table,
            relations,
            primary_key,
            options,
        })
    }

    pub(super) fn alter_view(&mut self) -> Parsed<AlterView> {
        self.expect_keywords(&[Keyword::Alter, Keyword::Materialized, Keyword::View])?;
        let if_exists = self.if_exists()?;
        let view = self.table_name()?;
        self.expect_keyword(Keyword::With)?;
        Ok(AlterView {
            if_exists,
            view,
            properties: self.properties()?,
        })
    }
}
