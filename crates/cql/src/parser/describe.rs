//! `DESCRIBE`.

use super::cursor::Parser;
use super::rejection::Parsed;
use crate::ast::{DescribeStatement, DescribeTarget, QualifiedName};
use crate::lexer::{Keyword, TokenKind};

impl Parser<'_> {
    pub(super) fn describe(&mut self) -> Parsed<DescribeStatement> {
        self.consume();
        let target = self.describe_target()?;
        let with_internals = self.optional_clause(&[Keyword::With, Keyword::Internals])?;
        Ok(DescribeStatement {
            target,
            with_internals,
        })
    }

    fn describe_target(&mut self) -> Parsed<DescribeTarget> {
        let TokenKind::Keyword(keyword) = self.next() else {
            return self.describe_anything();
        };
        match keyword {
            Keyword::Cluster => self.describe_word(DescribeTarget::Cluster),
            Keyword::Keyspaces => self.describe_word(DescribeTarget::Keyspaces),
            Keyword::Tables => self.describe_word(DescribeTarget::Tables),
            Keyword::Types => self.describe_word(DescribeTarget::Types),
            Keyword::Functions => self.describe_word(DescribeTarget::Functions),
            Keyword::Aggregates => self.describe_word(DescribeTarget::Aggregates),
            Keyword::Full | Keyword::Schema => {
                let full = self.accept_keyword(Keyword::Full);
                self.expect_keyword(Keyword::Schema)?;
                Ok(DescribeTarget::Schema { full })
            }
            Keyword::Keyspace => self.describe_keyspace(),
            Keyword::Only => match self.look(2) {
                TokenKind::Keyword(Keyword::Keyspace) => self.describe_keyspace(),
                kind if ends_described_name(kind) => self.describe_anything(),
                _ => self.no_viable(2),
            },
            Keyword::ColumnFamily => {
                self.consume();
                self.table_name().map(DescribeTarget::Table)
            }
            Keyword::Index => {
                self.consume();
                self.table_name().map(DescribeTarget::Index)
            }
            Keyword::Materialized => {
                self.expect_keywords(&[Keyword::Materialized, Keyword::View])?;
                self.table_name().map(DescribeTarget::View)
            }
            Keyword::Type | Keyword::Function | Keyword::Aggregate => self.describe_named(keyword),
            _ => self.describe_anything(),
        }
    }

    fn describe_word(&mut self, target: DescribeTarget) -> Parsed<DescribeTarget> {
        self.predicted(2);
        self.consume();
        Ok(target)
    }

    fn describe_keyspace(&mut self) -> Parsed<DescribeTarget> {
        let only = self.accept_keyword(Keyword::Only);
        self.expect_keyword(Keyword::Keyspace)?;
        let has_name = self.next().is_identifier() || self.next_is(TokenKind::QuestionMark);
        let keyspace = if has_name {
            Some(self.keyspace_name()?)
        } else {
            None
        };
        Ok(DescribeTarget::Keyspace { keyspace, only })
    }

    /// `TYPE t`, `FUNCTION f` or `AGGREGATE a`, unless the word is itself the name of something.
    fn describe_named(&mut self, keyword: Keyword) -> Parsed<DescribeTarget> {
        let second = self.look(2);
        if ends_described_name(second) {
            return self.describe_anything();
        }
        let of_function = keyword != Keyword::Type;
        let names_function = of_function
            && matches!(
                second,
                TokenKind::QuestionMark | TokenKind::Keyword(Keyword::Token)
            );
        if !second.is_identifier() && !names_function {
            return self.no_viable(2);
        }
        self.predicted(2);
        self.consume();
        match keyword {
            Keyword::Type => self.user_type_name().map(DescribeTarget::Type),
            Keyword::Function => self.function_name().map(DescribeTarget::Function),
            _ => self.function_name().map(DescribeTarget::Aggregate),
        }
    }

    fn describe_anything(&mut self) -> Parsed<DescribeTarget> {
        if !self.next().is_identifier() {
            return self.no_viable(1);
        }
        let keyspace = match self.look(2) {
            TokenKind::Dot => {
                let keyspace = self.identifier()?;
                self.consume();
                Some(keyspace)
            }
            kind if ends_described_name(kind) => None,
            _ => return self.no_viable(2),
        };
        Ok(DescribeTarget::Generic(QualifiedName {
            keyspace,
            name: self.identifier()?,
        }))
    }
}

fn ends_described_name(kind: TokenKind) -> bool {
    matches!(
        kind,
        TokenKind::Dot | TokenKind::Semicolon | TokenKind::End | TokenKind::Keyword(Keyword::With)
    )
}
