//! `BEGIN TRANSACTION`. Its words are no keywords of Cassandra 5.0, whose grammar stays as it is.

use super::cursor::Parser;
use super::rejection::Parsed;
use crate::ast::{
    ConditionTarget, IndexHints, Let, Modification, Operator, Place, Reference, Returning, RowCondition,
    RowTest, Select, Selection, Term, Transaction,
};
use crate::lexer::{Keyword, TokenKind};

impl Parser<'_> {
    /// `BEGIN` is the next token.
    pub(super) fn begins_transaction(&self) -> bool {
        self.is_word_at(2, "transaction")
    }

    pub(super) fn transaction(&mut self) -> Parsed<Transaction> {
        self.expect_keyword(Keyword::Begin)?;
        self.expect_word("transaction")?;
        self.is_in_transaction = true;
        let mut lets = Vec::new();
        while self.next_is_word("let") {
            lets.push(self.let_row()?);
            self.expect(TokenKind::Semicolon)?;
        }
        let returning = match self.next_is_keyword(Keyword::Select) {
            true => Some(self.returning()?),
            false => None,
        };
        let is_conditional = self.accept_keyword(Keyword::If);
        let mut conditions = Vec::new();
        if is_conditional {
            conditions = self.and_separated(Self::row_condition)?;
            self.expect_word("then")?;
        }
        let statements = self.transaction_statements()?;
        if is_conditional {
            self.expect_word("end")?;
            self.expect_keyword(Keyword::If)?;
        }
        self.expect_word("commit")?;
        self.expect_word("transaction")?;
        Ok(Transaction {
            lets,
            returning,
            conditions,
            statements,
            markers: self.markers(),
        })
    }

    fn expect_word(&mut self, word: &str) -> Parsed<()> {
        if !self.next_is_word(word) {
            return self.no_viable(1);
        }
        self.consume();
        Ok(())
    }

    fn let_row(&mut self) -> Parsed<Let> {
        self.expect_word("let")?;
        if self.next() != TokenKind::Identifier {
            return self.no_viable(1);
        }
        let name = self.identifier()?;
        self.expect(TokenKind::Equal)?;
        self.expect(TokenKind::LeftParenthesis)?;
        let place = self.place();
        let select = self.let_select()?;
        self.expect(TokenKind::RightParenthesis)?;
        Ok(Let { name, select, place })
    }

    /// A `SELECT` without aliases, and with no clauses but `WHERE` and `LIMIT`.
    fn let_select(&mut self) -> Parsed<Select> {
        self.expect_keyword(Keyword::Select)?;
        let selection = self.selection()?;
        if let Selection::Items(items) = &selection
            && items.iter().any(|item| item.alias.is_some())
        {
            return self.no_viable(1);
        }
        self.expect_keyword(Keyword::From)?;
        let table = self.table_name()?;
        self.expect_keyword(Keyword::Where)?;
        let relations = self.where_clause()?;
        let limit = match self.accept_keyword(Keyword::Limit) {
            true => Some(self.integer_or_marker()?),
            false => None,
        };
        Ok(Select {
            json: false,
            distinct: false,
            selection,
            table,
            relations,
            group_by: Vec::new(),
            order_by: Vec::new(),
            per_partition_limit: None,
            limit,
            allow_filtering: false,
            index_hints: IndexHints::default(),
            bypass_cache: false,
            timeout: None,
        })
    }

    fn returning(&mut self) -> Parsed<Returning> {
        let place = self.place();
        let references = self.attempt(|parser| {
            parser.expect_keyword(Keyword::Select)?;
            let references = parser.comma_separated(Self::reference)?;
            parser.expect(TokenKind::Semicolon)?;
            Ok(references)
        })?;
        if let Some(references) = references {
            return Ok(Returning::References(references));
        }
        let select = self.select()?;
        self.expect(TokenKind::Semicolon)?;
        Ok(Returning::Select(Box::new(select), place))
    }

    fn transaction_statements(&mut self) -> Parsed<Vec<(Modification, Place)>> {
        let mut statements = Vec::new();
        self.takes_references = true;
        loop {
            let place = self.place();
            let statement = match self.next() {
                TokenKind::Keyword(Keyword::Insert) => Modification::Insert(self.insert()?),
                TokenKind::Keyword(Keyword::Update) => Modification::Update(self.update()?),
                TokenKind::Keyword(Keyword::Delete) => Modification::Delete(self.delete()?),
                _ => break,
            };
            self.expect(TokenKind::Semicolon)?;
            statements.push((statement, place));
        }
        self.takes_references = false;
        Ok(statements)
    }

    /// `row`, `row.column`, `row.column[key]` or `row.column.field`
    pub(super) fn reference(&mut self) -> Parsed<Reference> {
        let row = self.identifier()?;
        let mut reference = Reference {
            row,
            column: None,
            target: ConditionTarget::Whole,
        };
        if !self.accept(TokenKind::Dot) {
            return Ok(reference);
        }
        reference.column = Some(self.column()?);
        if self.accept(TokenKind::Dot) {
            reference.target = ConditionTarget::Field(self.identifier()?);
        } else if self.accept(TokenKind::LeftBracket) {
            reference.target = ConditionTarget::Element(self.term()?);
            self.expect(TokenKind::RightBracket)?;
        }
        Ok(reference)
    }

    fn row_condition(&mut self) -> Parsed<RowCondition> {
        if !self.next_is_reference() {
            return self.condition_with_value_first();
        }
        let reference = self.reference()?;
        if self.accept_keyword(Keyword::Is) {
            let test = match self.accept_keyword(Keyword::Not) {
                true => RowTest::IsNotNull,
                false => RowTest::IsNull,
            };
            self.expect_keyword(Keyword::Null)?;
            return Ok(RowCondition { reference, test });
        }
        let operator = self.comparison()?;
        self.takes_references = true;
        let value = self.term();
        self.takes_references = false;
        let test = RowTest::Compare {
            operator,
            value: value?,
        };
        Ok(RowCondition { reference, test })
    }

    fn condition_with_value_first(&mut self) -> Parsed<RowCondition> {
        let value: Term = self.term()?;
        let operator = match self.comparison()? {
            Operator::Less => Operator::Greater,
            Operator::LessOrEqual => Operator::GreaterOrEqual,
            Operator::Greater => Operator::Less,
            Operator::GreaterOrEqual => Operator::LessOrEqual,
            other => other,
        };
        Ok(RowCondition {
            reference: self.reference()?,
            test: RowTest::Compare { operator, value },
        })
    }

    /// A name that no function is called by.
    fn next_is_reference(&self) -> bool {
        self.next().is_identifier()
            && match self.look(2) {
                TokenKind::LeftParenthesis => false,
                TokenKind::Dot => self.look(4) != TokenKind::LeftParenthesis,
                _ => true,
            }
    }

    /// Returns whether a term may be, and is, `row.column`.
    pub(super) fn next_is_reference_term(&self) -> bool {
        self.takes_references && self.look(2) == TokenKind::Dot && self.next_is_reference()
    }

    /// Returns whether the `n`th token from here, counted from 1, follows a term of a transaction's condition.
    pub(super) fn ends_row_condition(&self, n: usize) -> bool {
        self.is_in_transaction && (self.look(n).is_comparison() || self.is_word_at(n, "then"))
    }
}
