//! Column types.

use super::cursor::Parser;
use super::rejection::Parsed;
use crate::ast::{NativeType, TypeName};
use crate::lexer::{Keyword, TokenKind};

impl Parser<'_> {
    pub(super) fn type_name(&mut self) -> Parsed<TypeName> {
        self.nested(Self::type_name_at_level)
    }

    fn type_name_at_level(&mut self) -> Parsed<TypeName> {
        self.check_type_follows()?;
        match self.next() {
            TokenKind::Keyword(Keyword::Set) => {
                self.consume();
                self.element_type()
                    .map(|element| TypeName::Set(Box::new(element)))
            }
            TokenKind::String => self.string().map(TypeName::Custom),
            kind if kind.is_native_type() && self.look(2) != TokenKind::Dot => {
                self.native_type().map(TypeName::Native)
            }
            TokenKind::Keyword(
                keyword @ (Keyword::Map | Keyword::List | Keyword::Tuple | Keyword::Vector | Keyword::Frozen),
            ) if self.look(2) == TokenKind::Less => {
                self.consume();
                self.parametrized_type(keyword)
            }
            _ => self.user_type(),
        }
    }

    /// Looks ahead as far as it takes to tell what kind of type comes.
    fn check_type_follows(&self) -> Parsed<()> {
        let first = self.next();
        if first.is_native_type() || is_parametrized_type(first) {
            match self.look(2) {
                TokenKind::Dot => {}
                TokenKind::Less if !first.is_native_type() => {}
                second if follows_type(second) => {}
                _ => return self.no_viable(2),
            }
            self.predicted(2);
            return Ok(());
        }
        if !self.next_begins_type() {
            return self.no_viable(1);
        }
        self.predicted(1);
        Ok(())
    }

    fn user_type(&mut self) -> Parsed<TypeName> {
        let name = self.user_type_name()?;
        Ok(TypeName::UserType {
            keyspace: name.keyspace,
            name: name.name,
        })
    }

    /// `< ... >` after the keyword that says what the parameters are.
    fn parametrized_type(&mut self, keyword: Keyword) -> Parsed<TypeName> {
        match keyword {
            Keyword::List => self
                .element_type()
                .map(|element| TypeName::List(Box::new(element))),
            Keyword::Frozen => {
                let inner = self.element_type()?;
                if let TypeName::Native(native) = inner {
                    let name = native.name();
                    return self.broken_rule(format!(
                        "frozen<> is only allowed on collections, tuples, and user-defined types (got {name})"
                    ));
                }
                Ok(TypeName::Frozen(Box::new(inner)))
            }
            Keyword::Map => {
                self.expect(TokenKind::Less)?;
                let key = self.type_name()?;
                self.expect(TokenKind::Comma)?;
                let value = self.type_name()?;
                self.expect(TokenKind::Greater)?;
                Ok(TypeName::Map(Box::new(key), Box::new(value)))
            }
            Keyword::Tuple => {
                self.expect(TokenKind::Less)?;
                if self.next_is(TokenKind::Greater) {
                    // Cassandra's parser recovers inside the type and then trips over the missing one.
                    return self.failed_parsing(
                        "NullPointerException Cannot invoke \"org.apache.cassandra.cql3.CQL3Type$Raw.supportsFreezing()\" \
                         because \"t\" is null"
                            .to_owned(),
                    );
                }
                let elements = self.comma_separated(Self::type_name)?;
                self.expect(TokenKind::Greater)?;
                Ok(TypeName::Tuple(elements))
            }
            _ => self.vector_type(),
        }
    }

    fn element_type(&mut self) -> Parsed<TypeName> {
        self.expect(TokenKind::Less)?;
        let element = self.type_name()?;
        self.expect(TokenKind::Greater)?;
        Ok(element)
    }

    fn vector_type(&mut self) -> Parsed<TypeName> {
        self.expect(TokenKind::Less)?;
        let element = Box::new(self.type_name()?);
        self.expect(TokenKind::Comma)?;
        let digits = self.expect(TokenKind::Integer)?;
        let text = self.text_of(digits);
        self.expect(TokenKind::Greater)?;
        match text.parse() {
            Ok(dimension) => Ok(TypeName::Vector { element, dimension }),
            Err(_) => self.failed_parsing(format!("NumberFormatException For input string: \"{text}\"")),
        }
    }

    /// An error of the kind Cassandra reports when its parser itself trips.
    pub(super) fn failed_parsing<T>(&self, reason: String) -> Parsed<T> {
        self.broken_rule(format!(
            "Failed parsing statement: [{}] reason: {reason}",
            self.statement
        ))
    }

    pub(super) fn native_type(&mut self) -> Parsed<NativeType> {
        let TokenKind::Keyword(keyword) = self.next() else {
            return self.no_viable(1);
        };
        let Some(native) = native_type_named(keyword) else {
            return self.no_viable(1);
        };
        self.consume();
        Ok(native)
    }

    /// `(type, type, ...)`, possibly empty.
    pub(super) fn type_list(&mut self) -> Parsed<Vec<TypeName>> {
        self.expect(TokenKind::LeftParenthesis)?;
        let mut types = Vec::new();
        if self.next_begins_type() {
            types = self.comma_separated(Self::type_name)?;
        }
        self.expect(TokenKind::RightParenthesis)?;
        Ok(types)
    }

    fn next_begins_type(&self) -> bool {
        self.next().is_identifier()
            || matches!(self.next(), TokenKind::String | TokenKind::Keyword(Keyword::Set))
    }
}

/// Returns whether the keyword is a type when parameters follow it, and a name otherwise.
pub(super) fn is_parametrized_type(kind: TokenKind) -> bool {
    matches!(
        kind,
        TokenKind::Keyword(Keyword::Frozen | Keyword::List | Keyword::Map | Keyword::Tuple | Keyword::Vector)
    )
}

/// The tokens that follow a type anywhere in the grammar.
fn follows_type(kind: TokenKind) -> bool {
    matches!(
        kind,
        TokenKind::RightParenthesis
            | TokenKind::Comma
            | TokenKind::Semicolon
            | TokenKind::Greater
            | TokenKind::End
            | TokenKind::Keyword(
                Keyword::FinalFunc
                    | Keyword::InitCond
                    | Keyword::Language
                    | Keyword::Masked
                    | Keyword::Primary
                    | Keyword::Static
                    | Keyword::Ttl
            )
    )
}

fn native_type_named(keyword: Keyword) -> Option<NativeType> {
    Some(match keyword {
        Keyword::Ascii => NativeType::Ascii,
        Keyword::Bigint => NativeType::Bigint,
        Keyword::Blob => NativeType::Blob,
        Keyword::Boolean => NativeType::Boolean,
        Keyword::Counter => NativeType::Counter,
        Keyword::Date => NativeType::Date,
        Keyword::Decimal => NativeType::Decimal,
        Keyword::Double => NativeType::Double,
        Keyword::Duration => NativeType::Duration,
        Keyword::Float => NativeType::Float,
        Keyword::Inet => NativeType::Inet,
        Keyword::Int => NativeType::Int,
        Keyword::Smallint => NativeType::Smallint,
        Keyword::Text => NativeType::Text,
        Keyword::Time => NativeType::Time,
        Keyword::Timestamp => NativeType::Timestamp,
        Keyword::Timeuuid => NativeType::Timeuuid,
        Keyword::Tinyint => NativeType::Tinyint,
        Keyword::Uuid => NativeType::Uuid,
        Keyword::Varchar => NativeType::Varchar,
        Keyword::Varint => NativeType::Varint,
        _ => return None,
    })
}
