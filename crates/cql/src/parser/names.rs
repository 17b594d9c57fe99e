//! Identifiers and qualified names.

use super::cursor::Parser;
use super::rejection::Parsed;
use crate::ast::{FunctionName, Marker, QualifiedName};
use crate::lexer::{Keyword, Token, TokenKind};

impl Parser<'_> {
    /// The name a token stands for: unquoted ones are folded to lower case.
    fn folded(&self, token: Token) -> String {
        match token.kind {
            TokenKind::QuotedName | TokenKind::String => self.text_of(token),
            _ => token.source(self.statement).to_lowercase(),
        }
    }

    /// A name of something other than a column.
    pub(super) fn identifier(&mut self) -> Parsed<String> {
        if !self.next().is_identifier() {
            return self.no_viable(1);
        }
        let token = self.consume();
        Ok(self.folded(token))
    }

    /// The name of a column, which may be `""`.
    pub(super) fn column(&mut self) -> Parsed<String> {
        if self.accept(TokenKind::EmptyQuotedName) {
            Ok(String::new())
        } else {
            self.identifier()
        }
    }

    /// A name for which `?` is understood and refused.
    fn identifier_without_marker(&mut self, what: &str) -> Parsed<String> {
        if self.accept(TokenKind::QuestionMark) {
            return self.broken_rule(format!("Bind variables cannot be used for {what} names"));
        }
        self.identifier()
    }

    pub(super) fn keyspace_name(&mut self) -> Parsed<String> {
        self.identifier_without_marker("keyspace")
    }

    pub(super) fn index_identifier(&mut self) -> Parsed<String> {
        self.identifier_without_marker("index")
    }

    fn table_identifier(&mut self) -> Parsed<String> {
        self.identifier_without_marker("table")
    }

    pub(super) fn role_name(&mut self) -> Parsed<String> {
        if self.next_is(TokenKind::String) {
            let token = self.consume();
            return Ok(self.text_of(token));
        }
        self.identifier_without_marker("role")
    }

    /// The name of a table or view, which is followed by one of the tokens that follow such names anywhere.
    pub(super) fn table_name(&mut self) -> Parsed<QualifiedName> {
        let keyspace = self.keyspace_prefix(|kind| match kind {
            TokenKind::LeftParenthesis | TokenKind::Semicolon | TokenKind::End => true,
            TokenKind::Keyword(keyword) => follows_table_name(keyword),
            _ => false,
        })?;
        Ok(QualifiedName {
            keyspace,
            name: self.table_identifier()?,
        })
    }

    /// The name of an index at the end of a statement.
    pub(super) fn index_name(&mut self) -> Parsed<QualifiedName> {
        let keyspace = self.keyspace_prefix(|kind| matches!(kind, TokenKind::Semicolon | TokenKind::End))?;
        Ok(QualifiedName {
            keyspace,
            name: self.index_identifier()?,
        })
    }

    /// `(keyspace '.')?` before a name after which a token satisfying `follows` comes.
    fn keyspace_prefix(&mut self, follows: impl Fn(TokenKind) -> bool) -> Parsed<Option<String>> {
        if !self.next().is_identifier() && !self.next_is(TokenKind::QuestionMark) {
            return self.no_viable(1);
        }
        let second = self.look(2);
        if second != TokenKind::Dot && !follows(second) && !self.begins_extension(2) {
            return self.no_viable(2);
        }
        self.predicted(2);
        if second != TokenKind::Dot {
            return Ok(None);
        }
        let keyspace = self.keyspace_name()?;
        self.expect(TokenKind::Dot)?;
        Ok(Some(keyspace))
    }

    pub(super) fn user_type_name(&mut self) -> Parsed<QualifiedName> {
        let mut keyspace = None;
        if self.next().is_identifier() && (!self.next_may_name_type() || self.look(2) == TokenKind::Dot) {
            keyspace = Some(self.identifier()?);
            self.expect(TokenKind::Dot)?;
        }
        if !self.next_may_name_type() {
            return self.no_viable(1);
        }
        let token = self.consume();
        if token.kind == TokenKind::Identifier && is_reserved_type_name(token.source(self.statement)) {
            let name = token.source(self.statement).to_owned();
            return self.broken_rule(format!("Invalid (reserved) user type name {name}"));
        }
        Ok(QualifiedName {
            keyspace,
            name: self.folded(token),
        })
    }

    /// Keywords that name native types or are syntax in selectors cannot name user types, except `key`.
    fn next_may_name_type(&self) -> bool {
        let kind = self.next();
        kind.is_function_identifier() && !kind.is_native_type() && kind != TokenKind::Keyword(Keyword::Count)
            || kind == TokenKind::Keyword(Keyword::Key)
    }

    pub(super) fn function_name(&mut self) -> Parsed<FunctionName> {
        let first = self.next();
        let qualified = match first {
            TokenKind::Keyword(Keyword::Token) => false,
            TokenKind::QuestionMark => true,
            _ if first.is_not_function() => true,
            _ if !first.is_identifier() => return self.no_viable(1),
            _ => {
                let qualified = match self.look(2) {
                    TokenKind::Dot => true,
                    TokenKind::LeftParenthesis
                    | TokenKind::Semicolon
                    | TokenKind::End
                    | TokenKind::Keyword(Keyword::With) => false,
                    _ => return self.no_viable(2),
                };
                self.predicted(2);
                qualified
            }
        };
        self.predicted(1);
        let mut keyspace = None;
        if qualified {
            keyspace = Some(self.keyspace_name()?);
            self.expect(TokenKind::Dot)?;
        }
        Ok(FunctionName {
            keyspace,
            name: self.unqualified_function_name()?,
        })
    }

    pub(super) fn unqualified_function_name(&mut self) -> Parsed<String> {
        if !self.next().is_function_identifier() && !self.next_is_keyword(Keyword::Token) {
            return self.no_viable(1);
        }
        let token = self.consume();
        Ok(self.folded(token))
    }

    /// `?` or `:name`. The caller has seen the first token.
    pub(super) fn marker(&mut self) -> Parsed<Marker> {
        let name = match self.next() {
            TokenKind::QuestionMark => {
                self.consume();
                None
            }
            TokenKind::Colon => {
                self.consume();
                Some(self.identifier()?)
            }
            _ => return self.no_viable(1),
        };
        Ok(self.new_marker(name))
    }

    pub(super) fn next_is_marker(&self) -> bool {
        matches!(self.next(), TokenKind::QuestionMark | TokenKind::Colon)
    }

    /// `IF NOT EXISTS`, if it is there.
    pub(super) fn if_not_exists(&mut self) -> Parsed<bool> {
        self.optional_clause(&[Keyword::If, Keyword::Not, Keyword::Exists])
    }

    /// `IF EXISTS`, if it is there.
    pub(super) fn if_exists(&mut self) -> Parsed<bool> {
        self.optional_clause(&[Keyword::If, Keyword::Exists])
    }

    /// A fixed series of keywords of which the first one decides.
    pub(super) fn optional_clause(&mut self, keywords: &[Keyword]) -> Parsed<bool> {
        let found = keywords.first().is_some_and(|first| self.next_is_keyword(*first));
        if found {
            self.expect_keywords(keywords)?;
        }
        Ok(found)
    }

    pub(super) fn string(&mut self) -> Parsed<String> {
        let token = self.expect(TokenKind::String)?;
        Ok(self.text_of(token))
    }
}

fn follows_table_name(keyword: Keyword) -> bool {
    matches!(
        keyword,
        Keyword::Add
            | Keyword::Allow
            | Keyword::Alter
            | Keyword::As
            | Keyword::Drop
            | Keyword::From
            | Keyword::Group
            | Keyword::Json
            | Keyword::Limit
            | Keyword::NoRecursive
            | Keyword::Of
            | Keyword::Order
            | Keyword::Per
            | Keyword::Primary
            | Keyword::Rename
            | Keyword::Set
            | Keyword::To
            | Keyword::Ttl
            | Keyword::Using
            | Keyword::Where
            | Keyword::With
    )
}

/// Names Cassandra keeps for types it may have one day.
fn is_reserved_type_name(name: &str) -> bool {
    matches!(
        name,
        "byte" | "complex" | "enum" | "date" | "interval" | "macaddr" | "bitstring"
    )
}
