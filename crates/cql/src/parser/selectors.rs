//! The expressions of a select clause.

use super::cursor::Parser;
use super::rejection::Parsed;
use super::terms::product_operator;
use crate::ast::{ArithmeticOperator, CellAttribute, SelectItem, Selection, Selector, Term};
use crate::lexer::{Keyword, TokenKind};

/// Form of a name or marker, as it turns out after looking ahead.
enum NameForm {
    Plain,
    Function,
}

/// Access written after a selector to look inside its value.
enum Modifier {
    Field(String),
    Element(Term),
    Slice { from: Option<Term>, to: Option<Term> },
}

impl Parser<'_> {
    pub(super) fn selection(&mut self) -> Parsed<Selection> {
        if self.accept(TokenKind::Star) {
            return Ok(Selection::Wildcard);
        }
        if !self.next().begins_term() {
            return self.no_viable(1);
        }
        self.comma_separated(Self::select_item).map(Selection::Items)
    }

    fn select_item(&mut self) -> Parsed<SelectItem> {
        let selector = self.selector()?;
        let alias = if self.accept_keyword(Keyword::As) {
            Some(self.identifier()?)
        } else {
            None
        };
        Ok(SelectItem { selector, alias })
    }

    pub(super) fn selector(&mut self) -> Parsed<Selector> {
        self.nested(Self::selector_sum)
    }

    fn selector_sum(&mut self) -> Parsed<Selector> {
        let nesting = self.nesting();
        let mut selector = self.selector_product()?;
        loop {
            let operator = match self.next() {
                TokenKind::Plus => ArithmeticOperator::Add,
                TokenKind::Minus => ArithmeticOperator::Subtract,
                _ => break,
            };
            self.deepen()?;
            self.consume();
            let right = Box::new(self.selector_product()?);
            selector = Selector::Arithmetic {
                operator,
                left: Box::new(selector),
                right,
            };
        }
        self.restore_nesting(nesting);
        Ok(selector)
    }

    fn selector_product(&mut self) -> Parsed<Selector> {
        let nesting = self.nesting();
        let mut selector = self.signed_selector()?;
        while let Some(operator) = product_operator(self.next()) {
            self.deepen()?;
            self.consume();
            let right = Box::new(self.signed_selector()?);
            selector = Selector::Arithmetic {
                operator,
                left: Box::new(selector),
                right,
            };
        }
        self.restore_nesting(nesting);
        Ok(selector)
    }

    fn signed_selector(&mut self) -> Parsed<Selector> {
        if !self.next().begins_term() {
            return self.no_viable(1);
        }
        if self.next_is(TokenKind::Minus) {
            self.predicted(1);
            self.consume();
            let negated = self.nested(Self::signed_selector)?;
            return Ok(Selector::Negation(Box::new(negated)));
        }
        self.predicted(2);
        let nesting = self.nesting();
        let selector = self.unmodified_selector()?;
        // Modifiers that do not parse are left for whatever comes next to refuse.
        let modifiers = self.attempt(Self::modifiers)?.unwrap_or_default();
        let modified = self.apply_modifiers(selector, modifiers);
        self.restore_nesting(nesting);
        modified
    }

    /// `.field`, `[key]` and `[from..to]`, any number of them.
    fn modifiers(&mut self) -> Parsed<Vec<Modifier>> {
        let mut modifiers = Vec::new();
        loop {
            match self.next() {
                TokenKind::Dot => {
                    self.consume();
                    modifiers.push(Modifier::Field(self.identifier()?));
                }
                TokenKind::LeftBracket => {
                    self.consume();
                    modifiers.push(self.sub_selection()?);
                    self.expect(TokenKind::RightBracket)?;
                }
                kind if follows_selector(kind) => return Ok(modifiers),
                _ => return self.no_viable(1),
            }
        }
    }

    fn sub_selection(&mut self) -> Parsed<Modifier> {
        if self.accept(TokenKind::Range) {
            return Ok(Modifier::Slice {
                from: None,
                to: Some(self.term()?),
            });
        }
        if !self.next().begins_term() {
            return self.no_viable(1);
        }
        let first = self.term()?;
        if !self.accept(TokenKind::Range) {
            return Ok(Modifier::Element(first));
        }
        let to = if self.next().begins_term() {
            Some(self.term()?)
        } else {
            None
        };
        Ok(Modifier::Slice {
            from: Some(first),
            to,
        })
    }

    fn apply_modifiers(&mut self, selector: Selector, modifiers: Vec<Modifier>) -> Parsed<Selector> {
        let mut selector = selector;
        for modifier in modifiers {
            self.deepen()?;
            let of = Box::new(selector);
            selector = match modifier {
                Modifier::Field(field) => Selector::Field { of, field },
                Modifier::Element(key) => Selector::Element { of, key },
                Modifier::Slice { from, to } => Selector::Slice { of, from, to },
            };
        }
        Ok(selector)
    }

    fn unmodified_selector(&mut self) -> Parsed<Selector> {
        self.nested(|parser| match parser.next() {
            TokenKind::LeftParenthesis => {
                parser.predicted(2);
                match parser.attempt(Self::type_hint)? {
                    Some(hint) => Ok(hint),
                    None => parser.tuple_or_nested(),
                }
            }
            TokenKind::LeftBracket => parser.list_selector(),
            TokenKind::LeftBrace => parser.brace_selector(),
            _ => parser.simple_selector(),
        })
    }

    fn type_hint(&mut self) -> Parsed<Selector> {
        self.expect(TokenKind::LeftParenthesis)?;
        let type_name = self.type_name()?;
        self.expect(TokenKind::RightParenthesis)?;
        let selector = Box::new(self.unmodified_selector()?);
        Ok(Selector::TypeHint { type_name, selector })
    }

    fn tuple_or_nested(&mut self) -> Parsed<Selector> {
        self.expect(TokenKind::LeftParenthesis)?;
        let elements = self.comma_separated(Self::selector)?;
        self.expect(TokenKind::RightParenthesis)?;
        Ok(Selector::TupleOrNested(elements))
    }

    fn list_selector(&mut self) -> Parsed<Selector> {
        self.expect(TokenKind::LeftBracket)?;
        let mut elements = Vec::new();
        if self.next().begins_term() {
            elements = self.comma_separated(Self::selector)?;
        }
        self.expect(TokenKind::RightBracket)?;
        Ok(Selector::List(elements))
    }

    /// A set, map or user type.
    fn brace_selector(&mut self) -> Parsed<Selector> {
        let second = self.look(2);
        if !second.begins_term() && second != TokenKind::RightBrace {
            return self.no_viable(2);
        }
        self.expect(TokenKind::LeftBrace)?;
        if self.accept(TokenKind::RightBrace) {
            return Ok(Selector::Set(Vec::new()));
        }
        let first = self.selector()?;
        let literal = match self.next() {
            TokenKind::Colon => {
                self.consume();
                let mut entries = vec![(first, self.selector()?)];
                while self.accept(TokenKind::Comma) {
                    let key = self.selector()?;
                    self.expect(TokenKind::Colon)?;
                    entries.push((key, self.selector()?));
                }
                Selector::MapOrUserType(entries)
            }
            TokenKind::Comma | TokenKind::RightBrace => {
                let mut elements = vec![first];
                while self.accept(TokenKind::Comma) {
                    elements.push(self.selector()?);
                }
                Selector::Set(elements)
            }
            _ => return self.no_viable(1),
        };
        self.expect(TokenKind::RightBrace)?;
        Ok(literal)
    }

    /// A column, literal, marker or function.
    fn simple_selector(&mut self) -> Parsed<Selector> {
        if !self.next().begins_term() || self.next_is(TokenKind::Minus) {
            return self.no_viable(1);
        }
        self.predicted(1);
        match self.next() {
            TokenKind::Keyword(Keyword::Null) => {
                self.consume();
                Ok(Selector::Null)
            }
            TokenKind::Keyword(Keyword::Token) => self.function_selector(),
            TokenKind::Colon => self.marker().map(Selector::Marker),
            kind if kind.is_constant() => self.constant().map(Selector::Literal),
            kind => {
                let (form, tokens) = self.name_form(kind)?;
                self.predicted(tokens);
                match form {
                    NameForm::Function => self.function_selector(),
                    NameForm::Plain if kind == TokenKind::QuestionMark => self.marker().map(Selector::Marker),
                    NameForm::Plain => self.identifier().map(Selector::Column),
                }
            }
        }
    }

    /// Tells columns and their fields from functions and their keyspaces, and how many tokens that took.
    fn name_form(&self, first: TokenKind) -> Parsed<(NameForm, usize)> {
        // `distinct(`, `json(` and `key(` are the keywords which mean nothing before a parenthesis.
        let callable = first.is_identifier()
            && !matches!(
                first,
                TokenKind::Keyword(Keyword::Distinct | Keyword::Json | Keyword::Key)
            );
        match self.look(2) {
            TokenKind::LeftParenthesis if callable => Ok((NameForm::Function, 2)),
            TokenKind::LeftBracket => Ok((NameForm::Plain, 2)),
            TokenKind::Dot => match self.look(3) {
                TokenKind::Keyword(Keyword::Token) => Ok((NameForm::Function, 3)),
                kind if kind.is_not_function() => Ok((NameForm::Plain, 3)),
                kind if kind.is_function_identifier() => match self.look(4) {
                    TokenKind::LeftParenthesis => Ok((NameForm::Function, 4)),
                    TokenKind::Dot | TokenKind::LeftBracket => Ok((NameForm::Plain, 4)),
                    fourth if follows_selector(fourth) || self.begins_extension(4) => {
                        Ok((NameForm::Plain, 4))
                    }
                    _ => self.no_viable(4),
                },
                _ => self.no_viable(3),
            },
            kind if follows_selector(kind) || self.begins_extension(2) => Ok((NameForm::Plain, 2)),
            _ => self.no_viable(2),
        }
    }

    fn function_selector(&mut self) -> Parsed<Selector> {
        let first = self.next();
        let attribute = match first {
            TokenKind::Keyword(Keyword::WriteTime) => Some(CellAttribute::WriteTime),
            TokenKind::Keyword(Keyword::MaxWriteTime) => Some(CellAttribute::MaxWriteTime),
            TokenKind::Keyword(Keyword::Ttl) => Some(CellAttribute::Ttl),
            _ => None,
        };
        let is_cast = first == TokenKind::Keyword(Keyword::Cast);
        let is_count = first == TokenKind::Keyword(Keyword::Count);
        if attribute.is_none() && !is_cast && !is_count {
            self.predicted(1);
            return self.function_call_selector();
        }
        self.predicted(2);
        match self.look(2) {
            TokenKind::LeftParenthesis => {}
            TokenKind::Dot => return self.function_call_selector(),
            _ => return self.no_viable(2),
        }
        if let Some(attribute) = attribute {
            return self.cell_attribute(attribute);
        }
        if is_cast {
            return self.cast_selector();
        }
        match self.look(3) {
            TokenKind::Star => {
                self.predicted(3);
                self.count_rows()
            }
            kind if kind.begins_term() || kind == TokenKind::RightParenthesis => {
                self.predicted(3);
                self.function_call_selector()
            }
            _ => self.no_viable(3),
        }
    }

    fn function_call_selector(&mut self) -> Parsed<Selector> {
        let name = self.function_name()?;
        self.expect(TokenKind::LeftParenthesis)?;
        let mut arguments = Vec::new();
        if self.next().begins_term() {
            arguments = self.comma_separated(Self::selector)?;
        }
        self.expect(TokenKind::RightParenthesis)?;
        Ok(Selector::Function { name, arguments })
    }

    fn count_rows(&mut self) -> Parsed<Selector> {
        self.consume();
        self.expect(TokenKind::LeftParenthesis)?;
        self.expect(TokenKind::Star)?;
        self.expect(TokenKind::RightParenthesis)?;
        Ok(Selector::CountRows)
    }

    fn cell_attribute(&mut self, attribute: CellAttribute) -> Parsed<Selector> {
        self.consume();
        self.expect(TokenKind::LeftParenthesis)?;
        let nesting = self.nesting();
        let column = self.identifier().map(Selector::Column)?;
        let modifiers = self.modifiers()?;
        let of = Box::new(self.apply_modifiers(column, modifiers)?);
        self.restore_nesting(nesting);
        self.expect(TokenKind::RightParenthesis)?;
        Ok(Selector::CellAttribute { attribute, of })
    }

    fn cast_selector(&mut self) -> Parsed<Selector> {
        self.consume();
        self.expect(TokenKind::LeftParenthesis)?;
        let selector = Box::new(self.selector()?);
        self.expect_keyword(Keyword::As)?;
        let target = self.native_type()?;
        self.expect(TokenKind::RightParenthesis)?;
        Ok(Selector::Cast { selector, target })
    }
}

/// The tokens that follow a selector anywhere in the grammar, modifiers aside.
fn follows_selector(kind: TokenKind) -> bool {
    product_operator(kind).is_some()
        || matches!(
            kind,
            TokenKind::RightParenthesis
                | TokenKind::Plus
                | TokenKind::Comma
                | TokenKind::Minus
                | TokenKind::Colon
                | TokenKind::Semicolon
                | TokenKind::RightBracket
                | TokenKind::RightBrace
                | TokenKind::End
                | TokenKind::Keyword(
                    Keyword::Allow
                        | Keyword::As
                        | Keyword::From
                        | Keyword::Limit
                        | Keyword::Order
                        | Keyword::Per
                )
        )
}
