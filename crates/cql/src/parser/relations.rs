//! The relations of a `WHERE` clause.

use super::cursor::Parser;
use super::rejection::Parsed;
use crate::ast::{InValues, Operator, QualifiedName, Relation, TupleInValues, TupleValue};
use crate::lexer::{Keyword, TokenKind};

impl Parser<'_> {
    pub(super) fn where_clause(&mut self) -> Parsed<Vec<Relation>> {
        // What a transaction reads and writes is known before it has read anything.
        let takes_references = std::mem::replace(&mut self.takes_references, false);
        let relations = self.and_separated(|parser| {
            if parser.next_is(TokenKind::ExpressionCall) {
                parser.index_expression()
            } else {
                parser.relation()
            }
        });
        self.takes_references = takes_references;
        relations
    }

    /// `expr(index, value)`
    fn index_expression(&mut self) -> Parsed<Relation> {
        self.expect(TokenKind::ExpressionCall)?;
        let index = QualifiedName {
            keyspace: None,
            name: self.index_identifier()?,
        };
        self.expect(TokenKind::Comma)?;
        let value = self.term()?;
        self.expect(TokenKind::RightParenthesis)?;
        Ok(Relation::Expression { index, value })
    }

    fn relation(&mut self) -> Parsed<Relation> {
        match self.next() {
            TokenKind::Keyword(Keyword::Token) => {
                self.predicted(1);
                self.token_relation()
            }
            TokenKind::LeftParenthesis => self.parenthesized_relation(),
            kind if kind.is_column() => self.column_relation(),
            _ => self.no_viable(1),
        }
    }

    fn token_relation(&mut self) -> Parsed<Relation> {
        self.expect_keyword(Keyword::Token)?;
        let columns = self.column_tuple()?;
        let operator = self.comparison()?;
        Ok(Relation::Token {
            columns,
            operator,
            value: self.term()?,
        })
    }

    /// A relation in parentheses or one between tuples.
    fn parenthesized_relation(&mut self) -> Parsed<Relation> {
        let second = self.look(2);
        let nested = match second {
            TokenKind::LeftParenthesis | TokenKind::Keyword(Keyword::Token) => true,
            kind if kind.is_column() => {
                let nested = match self.look(3) {
                    TokenKind::RightParenthesis | TokenKind::Comma => false,
                    TokenKind::LeftBracket
                    | TokenKind::Keyword(Keyword::Contains | Keyword::In | Keyword::Is | Keyword::Like) => {
                        true
                    }
                    kind if kind.is_comparison() => true,
                    _ => return self.no_viable(3),
                };
                self.predicted(3);
                nested
            }
            _ => return self.no_viable(2),
        };
        self.predicted(2);
        if !nested {
            return self.tuple_relation();
        }
        self.consume();
        let relation = self.nested(Self::relation)?;
        self.expect(TokenKind::RightParenthesis)?;
        Ok(relation)
    }

    fn column_relation(&mut self) -> Parsed<Relation> {
        match self.look(2) {
            TokenKind::Keyword(Keyword::In) => {
                if !matches!(
                    self.look(3),
                    TokenKind::QuestionMark | TokenKind::Colon | TokenKind::LeftParenthesis
                ) {
                    return self.no_viable(3);
                }
                self.predicted(3);
                let column = self.column()?;
                self.consume();
                Ok(Relation::In {
                    column,
                    values: self.in_values()?,
                })
            }
            TokenKind::Keyword(Keyword::Is) => {
                self.predicted(2);
                let column = self.column()?;
                self.expect_keywords(&[Keyword::Is, Keyword::Not, Keyword::Null])?;
                Ok(Relation::IsNotNull { column })
            }
            TokenKind::Keyword(Keyword::Like) => {
                let column = self.column()?;
                self.consume();
                Ok(Relation::Column {
                    column,
                    operator: Operator::Like,
                    value: self.term()?,
                })
            }
            TokenKind::Keyword(Keyword::Contains) => {
                let column = self.column()?;
                let operator = self.contains()?;
                Ok(Relation::Column {
                    column,
                    operator,
                    value: self.term()?,
                })
            }
            TokenKind::LeftBracket => {
                let column = self.column()?;
                self.consume();
                let key = self.term()?;
                self.expect(TokenKind::RightBracket)?;
                let operator = self.comparison()?;
                Ok(Relation::Element {
                    column,
                    key,
                    operator,
                    value: self.term()?,
                })
            }
            kind if kind.is_comparison() => {
                let column = self.column()?;
                let operator = self.comparison()?;
                Ok(Relation::Column {
                    column,
                    operator,
                    value: self.term()?,
                })
            }
            _ => self.no_viable(2),
        }
    }

    /// `(a, b) IN ...`, `(a, b) > ...`
    fn tuple_relation(&mut self) -> Parsed<Relation> {
        let columns = self.column_tuple()?;
        if self.next_is_keyword(Keyword::In) {
            self.predicted(1);
            self.consume();
            return Ok(Relation::TupleIn {
                columns,
                values: self.tuple_in_values()?,
            });
        }
        if !self.next().is_comparison() {
            return self.no_viable(1);
        }
        let is_marker = match self.look(2) {
            TokenKind::QuestionMark | TokenKind::Colon => true,
            TokenKind::LeftParenthesis => false,
            _ => return self.no_viable(2),
        };
        self.predicted(2);
        let operator = self.comparison()?;
        let value = if is_marker {
            TupleValue::Marker(self.marker()?)
        } else {
            TupleValue::Tuple(self.tuple_literal()?)
        };
        Ok(Relation::Tuple {
            columns,
            operator,
            value,
        })
    }

    fn tuple_in_values(&mut self) -> Parsed<TupleInValues> {
        if self.next_is_marker() {
            return self.marker().map(TupleInValues::Marker);
        }
        if !self.next_is(TokenKind::LeftParenthesis) {
            return self.no_viable(1);
        }
        let values = match self.look(2) {
            TokenKind::RightParenthesis => {
                self.consume();
                TupleInValues::Tuples(Vec::new())
            }
            TokenKind::LeftParenthesis => {
                self.consume();
                TupleInValues::Tuples(self.comma_separated(Self::tuple_literal)?)
            }
            TokenKind::QuestionMark | TokenKind::Colon => {
                self.consume();
                TupleInValues::Markers(self.comma_separated(Self::marker)?)
            }
            _ => return self.no_viable(2),
        };
        self.expect(TokenKind::RightParenthesis)?;
        Ok(values)
    }

    /// Parses the values of `IN` when one column is tested.
    pub(super) fn in_values(&mut self) -> Parsed<InValues> {
        if self.next_is_marker() {
            return self.marker().map(InValues::Marker);
        }
        if !self.accept(TokenKind::LeftParenthesis) {
            return self.no_viable(1);
        }
        self.terms_until(TokenKind::RightParenthesis).map(InValues::List)
    }

    fn column_tuple(&mut self) -> Parsed<Vec<String>> {
        self.expect(TokenKind::LeftParenthesis)?;
        let columns = self.comma_separated(Self::column)?;
        self.expect(TokenKind::RightParenthesis)?;
        Ok(columns)
    }

    pub(super) fn comparison(&mut self) -> Parsed<Operator> {
        let operator = match self.next() {
            TokenKind::Equal => Operator::Equal,
            TokenKind::NotEqual => Operator::NotEqual,
            TokenKind::Less => Operator::Less,
            TokenKind::LessOrEqual => Operator::LessOrEqual,
            TokenKind::Greater => Operator::Greater,
            TokenKind::GreaterOrEqual => Operator::GreaterOrEqual,
            _ => return self.no_viable(1),
        };
        self.consume();
        Ok(operator)
    }

    /// `CONTAINS` or `CONTAINS KEY`.
    pub(super) fn contains(&mut self) -> Parsed<Operator> {
        self.expect_keyword(Keyword::Contains)?;
        // `key` may also be the keyspace of a function: `CONTAINS key.f()`.
        if self.next_is_keyword(Keyword::Key) && self.look(2).begins_term() {
            self.consume();
            return Ok(Operator::ContainsKey);
        }
        Ok(Operator::Contains)
    }
}
