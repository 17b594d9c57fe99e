//! Terms: literals, markers, function calls and arithmetic.

use super::cursor::Parser;
use super::rejection::Parsed;
use super::types::is_parametrized_type;
use crate::ast::{ArithmeticOperator, Literal, LiteralKind, Term};
use crate::lexer::{Keyword, TokenKind};

/// Form of a term, as it turns out after looking ahead.
enum TermForm {
    Value,
    Function,
    TypeHint,
    Cast,
    Reference,
}

impl Parser<'_> {
    pub(super) fn term(&mut self) -> Parsed<Term> {
        self.nested(Self::sum)
    }

    fn sum(&mut self) -> Parsed<Term> {
        let nesting = self.nesting();
        let mut term = self.product()?;
        while let Some(operator) = self.sum_operator()? {
            self.deepen()?;
            self.consume();
            let right = self.product()?;
            term = Term::Arithmetic {
                operator,
                left: Box::new(term),
                right: Box::new(right),
            };
        }
        self.restore_nesting(nesting);
        Ok(term)
    }

    fn product(&mut self) -> Parsed<Term> {
        let nesting = self.nesting();
        let mut term = self.signed_term()?;
        while let Some(operator) = product_operator(self.next()) {
            self.deepen()?;
            self.consume();
            let right = self.signed_term()?;
            term = Term::Arithmetic {
                operator,
                left: Box::new(term),
                right: Box::new(right),
            };
        }
        self.restore_nesting(nesting);
        Ok(term)
    }

    fn signed_term(&mut self) -> Parsed<Term> {
        if self.accept(TokenKind::Minus) {
            return Ok(Term::Negation(Box::new(self.simple_term()?)));
        }
        if !self.next().begins_term() {
            return self.no_viable(1);
        }
        self.simple_term()
    }

    /// The `+` or `-` that continues a sum. A `+` before a column is not one: in `SET l = [1] + l` it belongs to the
    /// assignment.
    fn sum_operator(&self) -> Parsed<Option<ArithmeticOperator>> {
        match self.next() {
            TokenKind::Minus => {
                self.predicted(1);
                Ok(Some(ArithmeticOperator::Subtract))
            }
            TokenKind::Plus => self.plus_operator(),
            kind if ends_term(kind) || self.begins_extension(1) || self.ends_row_condition(1) => {
                self.predicted(1);
                Ok(None)
            }
            _ => self.no_viable(1),
        }
    }

    /// Decides about a `+`.
    fn plus_operator(&self) -> Parsed<Option<ArithmeticOperator>> {
        let second = self.look(2);
        if !second.is_identifier() {
            let found = match second {
                TokenKind::EmptyQuotedName => None,
                kind if kind.begins_term() => Some(ArithmeticOperator::Add),
                _ => return self.no_viable(2),
            };
            self.predicted(2);
            return Ok(found);
        }
        let found = match self.look(3) {
            TokenKind::Comma | TokenKind::Keyword(Keyword::Where) => None,
            TokenKind::Dot => Some(ArithmeticOperator::Add),
            TokenKind::LeftParenthesis if is_callable(second) => Some(ArithmeticOperator::Add),
            _ => return self.no_viable(3),
        };
        self.predicted(3);
        Ok(found)
    }

    pub(super) fn simple_term(&mut self) -> Parsed<Term> {
        self.nested(|parser| match parser.term_form()? {
            TermForm::Value => parser.value(),
            TermForm::Function => parser.function_call(),
            TermForm::Reference => {
                let reference = parser.reference()?;
                Ok(Term::Reference(Box::new(reference)))
            }
            TermForm::TypeHint => {
                parser.expect(TokenKind::LeftParenthesis)?;
                let type_name = parser.type_name()?;
                parser.expect(TokenKind::RightParenthesis)?;
                let term = Box::new(parser.simple_term()?);
                Ok(Term::TypeHint { type_name, term })
            }
            TermForm::Cast => {
                parser.consume();
                parser.expect(TokenKind::LeftParenthesis)?;
                let term = Box::new(parser.simple_term()?);
                parser.expect_keyword(Keyword::As)?;
                let target = parser.native_type()?;
                parser.expect(TokenKind::RightParenthesis)?;
                Ok(Term::Cast { term, target })
            }
        })
    }

    fn term_form(&self) -> Parsed<TermForm> {
        let (form, tokens) = match self.next() {
            TokenKind::Keyword(Keyword::Cast) => match self.look(2) {
                TokenKind::LeftParenthesis => (TermForm::Cast, 2),
                TokenKind::Dot => (TermForm::Function, 2),
                _ => return self.no_viable(2),
            },
            TokenKind::QuestionMark => match self.look(2) {
                TokenKind::Dot => (TermForm::Function, 2),
                kind if follows_marker(kind) || self.begins_extension(2) || self.ends_row_condition(2) => {
                    (TermForm::Value, 2)
                }
                _ => return self.no_viable(2),
            },
            TokenKind::LeftParenthesis => self.parenthesized_form()?,
            _ if self.next_is_reference_term() => (TermForm::Reference, 4),
            TokenKind::Keyword(Keyword::Token) => (TermForm::Function, 1),
            kind if kind.is_identifier() => (TermForm::Function, 1),
            kind if kind.begins_term() && kind != TokenKind::Minus => (TermForm::Value, 1),
            _ => return self.no_viable(1),
        };
        self.predicted(tokens);
        Ok(form)
    }

    /// Tells `(int) 5` from `(f(5), 6)`, and how many tokens that took.
    fn parenthesized_form(&self) -> Parsed<(TermForm, usize)> {
        let second = self.look(2);
        match second {
            TokenKind::Keyword(Keyword::Set) => Ok((TermForm::TypeHint, 2)),
            TokenKind::String => self.parenthesized_string_form(),
            kind if self.takes_references && kind.is_identifier() && self.look(3) == TokenKind::Dot => {
                match self.look(5) {
                    TokenKind::LeftParenthesis | TokenKind::RightParenthesis => {
                        self.parenthesized_qualified_form()
                    }
                    _ => Ok((TermForm::Value, 5)),
                }
            }
            kind if kind.is_identifier() => match self.look(3) {
                TokenKind::LeftParenthesis if is_callable(second) => Ok((TermForm::Value, 3)),
                TokenKind::RightParenthesis if may_name_type(second) => Ok((TermForm::TypeHint, 3)),
                TokenKind::Less if is_parametrized_type(second) => Ok((TermForm::TypeHint, 3)),
                TokenKind::Dot => self.parenthesized_qualified_form(),
                _ => self.no_viable(3),
            },
            kind if kind.begins_term() => Ok((TermForm::Value, 2)),
            _ => self.no_viable(2),
        }
    }

    /// `(name.name`: a user type or a function.
    fn parenthesized_qualified_form(&self) -> Parsed<(TermForm, usize)> {
        match self.look(4) {
            TokenKind::Keyword(Keyword::Key) => Ok((TermForm::TypeHint, 4)),
            TokenKind::Keyword(Keyword::Count | Keyword::Token) => Ok((TermForm::Value, 4)),
            kind if kind.is_native_type() => Ok((TermForm::Value, 4)),
            kind if kind.is_function_identifier() => match self.look(5) {
                TokenKind::LeftParenthesis => Ok((TermForm::Value, 5)),
                TokenKind::RightParenthesis => Ok((TermForm::TypeHint, 5)),
                _ => self.no_viable(5),
            },
            _ => self.no_viable(4),
        }
    }

    /// `('text'`: the name of a type's class only when a term follows the parenthesis.
    fn parenthesized_string_form(&self) -> Parsed<(TermForm, usize)> {
        match self.look(3) {
            TokenKind::RightParenthesis => {}
            TokenKind::Comma | TokenKind::Plus | TokenKind::Minus => return Ok((TermForm::Value, 3)),
            kind if product_operator(kind).is_some() => return Ok((TermForm::Value, 3)),
            _ => return self.no_viable(3),
        }
        match self.look(4) {
            TokenKind::Keyword(Keyword::As) => self.string_form_before(TokenKind::is_native_type),
            TokenKind::Keyword(Keyword::Group) => {
                self.string_form_before(|kind| kind == TokenKind::Keyword(Keyword::By))
            }
            TokenKind::Keyword(Keyword::Per) => {
                self.string_form_before(|kind| kind == TokenKind::Keyword(Keyword::Partition))
            }
            TokenKind::Colon => self.string_form_before_colon(),
            TokenKind::Minus => Ok((TermForm::Value, 4)),
            kind if kind.begins_term() => Ok((TermForm::TypeHint, 4)),
            kind if follows_marker(kind) || self.begins_extension(4) => Ok((TermForm::Value, 4)),
            _ => self.no_viable(4),
        }
    }

    /// `('text')` and an unreserved keyword, which begins either a term or, if it continues so, the next clause.
    fn string_form_before(&self, continues_clause: impl Fn(TokenKind) -> bool) -> Parsed<(TermForm, usize)> {
        match self.look(5) {
            TokenKind::LeftParenthesis | TokenKind::Dot => Ok((TermForm::TypeHint, 5)),
            kind if continues_clause(kind) => Ok((TermForm::Value, 5)),
            _ => self.no_viable(5),
        }
    }

    /// `('text') :`, which is a marker after a type hint, or a map's key and the colon after it.
    fn string_form_before_colon(&self) -> Parsed<(TermForm, usize)> {
        let fifth = self.look(5);
        if !fifth.is_identifier() {
            return if fifth.begins_term() {
                Ok((TermForm::Value, 5))
            } else {
                self.no_viable(5)
            };
        }
        match self.look(6) {
            TokenKind::Dot => Ok((TermForm::Value, 6)),
            TokenKind::LeftParenthesis if is_callable(fifth) => Ok((TermForm::Value, 6)),
            sixth if follows_marker(sixth) => Ok((TermForm::TypeHint, 6)),
            _ => self.no_viable(6),
        }
    }

    fn value(&mut self) -> Parsed<Term> {
        self.predicted(1);
        match self.next() {
            TokenKind::Keyword(Keyword::Null) => {
                self.consume();
                Ok(Term::Null)
            }
            TokenKind::QuestionMark | TokenKind::Colon => self.marker().map(Term::Marker),
            TokenKind::LeftParenthesis => self.tuple_literal().map(Term::Tuple),
            TokenKind::LeftBracket => {
                self.consume();
                self.terms_until(TokenKind::RightBracket).map(Term::List)
            }
            TokenKind::LeftBrace => self.brace_literal(),
            _ => self.constant().map(Term::Literal),
        }
    }

    pub(super) fn constant(&mut self) -> Parsed<Literal> {
        let kind = match self.next() {
            TokenKind::String => LiteralKind::String,
            TokenKind::Integer => LiteralKind::Integer,
            TokenKind::Boolean => LiteralKind::Boolean,
            TokenKind::Duration => LiteralKind::Duration,
            TokenKind::Uuid => LiteralKind::Uuid,
            TokenKind::Hex => LiteralKind::Hex,
            kind if kind.is_constant() => LiteralKind::Float,
            _ => return self.no_viable(1),
        };
        let token = self.consume();
        let text = match token.kind {
            TokenKind::PositiveNan | TokenKind::NegativeNan => "NaN".to_owned(),
            TokenKind::PositiveInfinity => "Infinity".to_owned(),
            TokenKind::NegativeInfinity => "-Infinity".to_owned(),
            _ => self.text_of(token),
        };
        if token.kind == TokenKind::Float && text.parse::<f64>().is_ok_and(f64::is_infinite) {
            // Cassandra tells doubles from decimals while it parses, and does so by way of a double.
            return self.failed_parsing(
                "NumberFormatException Character I is neither a decimal digit number, decimal point, nor \"e\" \
                 notation exponential mark."
                    .to_owned(),
            );
        }
        Ok(Literal { kind, text })
    }

    /// `( term, term, ... )`
    pub(super) fn tuple_literal(&mut self) -> Parsed<Vec<Term>> {
        self.expect(TokenKind::LeftParenthesis)?;
        let terms = self.comma_separated(Self::term)?;
        self.expect(TokenKind::RightParenthesis)?;
        Ok(terms)
    }

    /// Terms, possibly none, up to the closing token.
    pub(super) fn terms_until(&mut self, closing: TokenKind) -> Parsed<Vec<Term>> {
        let mut terms = Vec::new();
        if self.next().begins_term() {
            terms = self.comma_separated(Self::term)?;
        }
        self.expect(closing)?;
        Ok(terms)
    }

    /// A set, map or user type literal.
    fn brace_literal(&mut self) -> Parsed<Term> {
        if self.next_is_user_type_literal()? {
            return self.user_type_literal();
        }
        self.consume();
        if self.accept(TokenKind::RightBrace) {
            return Ok(Term::Set(Vec::new()));
        }
        let first = self.term()?;
        let literal = match self.next() {
            TokenKind::Colon => {
                self.consume();
                let mut entries = vec![(first, self.term()?)];
                while self.accept(TokenKind::Comma) {
                    entries.push(self.map_entry()?);
                }
                Term::Map(entries)
            }
            TokenKind::Comma | TokenKind::RightBrace => {
                let mut elements = vec![first];
                while self.accept(TokenKind::Comma) {
                    elements.push(self.term()?);
                }
                Term::Set(elements)
            }
            _ => return self.no_viable(1),
        };
        self.expect(TokenKind::RightBrace)?;
        Ok(literal)
    }

    /// Tells `{name: ...` from sets and maps.
    fn next_is_user_type_literal(&self) -> Parsed<bool> {
        let second = self.look(2);
        if !second.is_identifier() {
            if !second.begins_term() && second != TokenKind::RightBrace {
                return self.no_viable(2);
            }
            self.predicted(2);
            return Ok(false);
        }
        let found = match self.look(3) {
            TokenKind::Colon => true,
            TokenKind::Dot => false,
            TokenKind::LeftParenthesis if is_callable(second) => false,
            _ => return self.no_viable(3),
        };
        self.predicted(3);
        Ok(found)
    }

    pub(super) fn map_entry(&mut self) -> Parsed<(Term, Term)> {
        let key = self.term()?;
        self.expect(TokenKind::Colon)?;
        Ok((key, self.term()?))
    }

    fn user_type_literal(&mut self) -> Parsed<Term> {
        self.expect(TokenKind::LeftBrace)?;
        let fields = self.comma_separated(|parser| {
            let field = parser.identifier()?;
            parser.expect(TokenKind::Colon)?;
            Ok((field, parser.term()?))
        })?;
        self.expect(TokenKind::RightBrace)?;
        Ok(Term::UserType(fields))
    }

    fn function_call(&mut self) -> Parsed<Term> {
        self.check_function_call()?;
        let name = self.function_name()?;
        self.expect(TokenKind::LeftParenthesis)?;
        let arguments = self.terms_until(TokenKind::RightParenthesis)?;
        Ok(Term::Function { name, arguments })
    }

    /// Looks ahead as far as the first argument: what is not a call by then is refused there.
    fn check_function_call(&self) -> Parsed<()> {
        let first = self.next();
        let mut at = 2;
        if self.look(2) == TokenKind::Dot && first != TokenKind::Keyword(Keyword::Token) {
            let name = self.look(3);
            if !name.is_function_identifier() && name != TokenKind::Keyword(Keyword::Token) {
                return self.no_viable(3);
            }
            at = 4;
        } else if first.is_not_function() || first == TokenKind::QuestionMark {
            return self.no_viable(2);
        }
        if self.look(at) != TokenKind::LeftParenthesis {
            return self.no_viable(at);
        }
        let argument = self.look(at + 1);
        if !argument.begins_term() && argument != TokenKind::RightParenthesis {
            return self.no_viable(at + 1);
        }
        self.predicted(at + 1);
        Ok(())
    }

    /// An integer or a marker.
    pub(super) fn integer_or_marker(&mut self) -> Parsed<Term> {
        match self.next() {
            TokenKind::Integer => self.constant().map(Term::Literal),
            TokenKind::QuestionMark | TokenKind::Colon => self.marker().map(Term::Marker),
            _ => self.no_viable(1),
        }
    }
}

pub(super) fn product_operator(kind: TokenKind) -> Option<ArithmeticOperator> {
    match kind {
        TokenKind::Star => Some(ArithmeticOperator::Multiply),
        TokenKind::Slash => Some(ArithmeticOperator::Divide),
        TokenKind::Percent => Some(ArithmeticOperator::Modulo),
        _ => None,
    }
}

/// Returns whether a parenthesis after the name makes a term of it: a call, or `CAST(`.
fn is_callable(kind: TokenKind) -> bool {
    kind.is_function_identifier() || kind == TokenKind::Keyword(Keyword::Cast)
}

/// Returns whether the name alone in parentheses is a type.
fn may_name_type(kind: TokenKind) -> bool {
    kind == TokenKind::Keyword(Keyword::Key)
        || (kind.is_function_identifier() && kind != TokenKind::Keyword(Keyword::Count))
}

/// The tokens that follow a whole term anywhere in the grammar, operators aside.
fn ends_term(kind: TokenKind) -> bool {
    matches!(
        kind,
        TokenKind::RightParenthesis
            | TokenKind::Comma
            | TokenKind::Colon
            | TokenKind::Semicolon
            | TokenKind::End
            | TokenKind::Range
            | TokenKind::RightBracket
            | TokenKind::RightBrace
            | TokenKind::Keyword(
                Keyword::Allow
                    | Keyword::And
                    | Keyword::Apply
                    | Keyword::Asc
                    | Keyword::Delete
                    | Keyword::Desc
                    | Keyword::Group
                    | Keyword::If
                    | Keyword::Insert
                    | Keyword::Limit
                    | Keyword::Order
                    | Keyword::Per
                    | Keyword::Primary
                    | Keyword::Update
                    | Keyword::Where
            )
    )
}

/// The tokens that follow a marker, or any other part of a term, anywhere in the grammar.
fn follows_marker(kind: TokenKind) -> bool {
    ends_term(kind)
        || product_operator(kind).is_some()
        || matches!(
            kind,
            TokenKind::Plus | TokenKind::Minus | TokenKind::Keyword(Keyword::As)
        )
}
