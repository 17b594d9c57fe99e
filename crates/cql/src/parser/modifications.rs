//! `INSERT`, `UPDATE`, `DELETE` and `BATCH`.

use std::collections::{HashMap, HashSet};

use super::cursor::Parser;
use super::rejection::Parsed;
use crate::ast::{
    Assignment, Batch, BatchKind, Condition, ConditionTarget, ConditionTest, Conditions, Delete,
    DeletionTarget, Insert, InsertSource, JsonDefault, JsonValue, Literal, LiteralKind, Modification,
    Operation, Term, Update, Using,
};
use crate::lexer::{Keyword, TokenKind};

impl Parser<'_> {
    pub(super) fn insert(&mut self) -> Parsed<Insert> {
        self.expect_keywords(&[Keyword::Insert, Keyword::Into])?;
        let table = self.table_name()?;
        let source = match self.next() {
            TokenKind::LeftParenthesis => self.insert_values()?,
            TokenKind::Keyword(Keyword::Json) => self.insert_json()?,
            _ => return self.no_viable(1),
        };
        let if_not_exists = self.if_not_exists()?;
        let using = self.using()?;
        Ok(Insert {
            table,
            source,
            if_not_exists,
            using,
        })
    }

    fn insert_values(&mut self) -> Parsed<InsertSource> {
        self.expect(TokenKind::LeftParenthesis)?;
        let columns = self.comma_separated(Self::column)?;
        self.expect(TokenKind::RightParenthesis)?;
        self.expect_keyword(Keyword::Values)?;
        let values = self.tuple_literal()?;
        Ok(InsertSource::Values { columns, values })
    }

    fn insert_json(&mut self) -> Parsed<InsertSource> {
        self.expect_keyword(Keyword::Json)?;
        let value = match self.next() {
            TokenKind::String => JsonValue::Text(self.string()?),
            _ => JsonValue::Marker(self.marker()?),
        };
        let mut default = JsonDefault::Null;
        if self.accept_keyword(Keyword::Default) {
            if self.accept_keyword(Keyword::Unset) {
                default = JsonDefault::Unset;
            } else if !self.accept_keyword(Keyword::Null) {
                return self.no_viable(1);
            }
        }
        Ok(InsertSource::Json { value, default })
    }

    /// `USING ... AND ...`, if it is there.
    fn using(&mut self) -> Parsed<Using> {
        let mut using = Using::default();
        if !self.accept_keyword(Keyword::Using) {
            return Ok(using);
        }
        loop {
            if self.accept_keyword(Keyword::Timestamp) {
                using.timestamp = Some(self.integer_or_marker()?);
            } else if self.accept_keyword(Keyword::Ttl) {
                using.ttl = Some(self.integer_or_marker()?);
            } else {
                using.timeout = self.timeout_attribute()?;
            }
            if !self.accept_keyword(Keyword::And) {
                return Ok(using);
            }
        }
    }

    /// The `USING` of a `DELETE`, which takes no time to live.
    fn using_of_delete(&mut self) -> Parsed<Using> {
        let mut using = Using::default();
        if !self.accept_keyword(Keyword::Using) {
            return Ok(using);
        }
        loop {
            if self.next_is_word("timeout") {
                using.timeout = self.timeout_attribute()?;
            } else {
                self.expect_keyword(Keyword::Timestamp)?;
                using.timestamp = Some(self.integer_or_marker()?);
            }
            // Of one timestamp a DELETE says no second, as others may.
            let takes_more = using.timestamp.is_none() || self.is_word_at(2, "timeout");
            if !(takes_more && self.accept_keyword(Keyword::And)) {
                return Ok(using);
            }
        }
    }

    pub(super) fn update(&mut self) -> Parsed<Update> {
        self.expect_keyword(Keyword::Update)?;
        let table = self.table_name()?;
        let using = self.using()?;
        self.expect_keyword(Keyword::Set)?;
        let mut assignments = Vec::new();
        let mut assigned = AssignedColumns::default();
        loop {
            let assignment = self.assignment()?;
            if !assigned.takes(&assignment) {
                let column = assignment.column;
                return self.broken_rule(format!("Multiple incompatible setting of column {column}"));
            }
            assignments.push(assignment);
            if !self.accept(TokenKind::Comma) {
                break;
            }
        }
        self.expect_keyword(Keyword::Where)?;
        let relations = self.where_clause()?;
        let conditions = self.conditions()?;
        Ok(Update {
            table,
            using,
            assignments,
            relations,
            conditions,
        })
    }

    fn assignment(&mut self) -> Parsed<Assignment> {
        let column = self.column()?;
        let operation = match self.next() {
            TokenKind::Equal => {
                self.consume();
                self.assigned_value(&column)?
            }
            TokenKind::PlusEqual => {
                self.consume();
                Operation::Add(self.term()?)
            }
            TokenKind::MinusEqual => {
                self.consume();
                Operation::Subtract(self.term()?)
            }
            TokenKind::LeftBracket => {
                self.consume();
                let key = self.term()?;
                self.expect(TokenKind::RightBracket)?;
                self.expect(TokenKind::Equal)?;
                Operation::SetElement {
                    key,
                    value: self.term()?,
                }
            }
            TokenKind::Dot => {
                self.consume();
                let field = self.identifier()?;
                self.expect(TokenKind::Equal)?;
                Operation::SetField {
                    field,
                    value: self.term()?,
                }
            }
            _ => return self.no_viable(1),
        };
        Ok(Assignment { column, operation })
    }

    /// Parses the right side of `column =`: a value, or the column itself and what is added to it or taken from it.
    fn assigned_value(&mut self, column: &str) -> Parsed<Operation> {
        if self.next_begins_column_arithmetic()? {
            return self.column_arithmetic(column);
        }
        let value = self.term()?;
        if !self.accept(TokenKind::Plus) {
            return Ok(Operation::Set(value));
        }
        if self.column()? != column {
            return self.broken_rule("Only expressions of the form X = <value> + X are supported.");
        }
        Ok(Operation::Prepend(value))
    }

    fn next_begins_column_arithmetic(&self) -> Parsed<bool> {
        let first = self.next();
        if !first.is_column() {
            if !first.begins_term() {
                return self.no_viable(1);
            }
            self.predicted(1);
            return Ok(false);
        }
        let callable = first.is_function_identifier() || first == TokenKind::Keyword(Keyword::Cast);
        let found = match self.look(2) {
            TokenKind::Integer | TokenKind::Plus | TokenKind::Minus => true,
            TokenKind::Dot if first.is_identifier() => false,
            TokenKind::LeftParenthesis if callable => false,
            _ => return self.no_viable(2),
        };
        self.predicted(2);
        Ok(found)
    }

    fn column_arithmetic(&mut self, column: &str) -> Parsed<Operation> {
        let same = self.column()? == column;
        let sign = self.consume();
        match sign.kind {
            // The lexer reads `c = c -3` as a column and the integer -3, which is then added.
            TokenKind::Integer => {
                let text = self.text_of(sign);
                if !same {
                    let sign = if text.starts_with('-') { '-' } else { '+' };
                    let message = format!("Only expressions of the form X = X {sign} <value> are supported.");
                    return self.broken_rule(message);
                }
                Ok(Operation::Add(Term::Literal(Literal {
                    kind: LiteralKind::Integer,
                    text,
                })))
            }
            _ => {
                let value = self.term()?;
                let sign = sign.source(self.statement);
                if !same {
                    let message = format!("Only expressions of the form X = X {sign}<value> are supported.");
                    return self.broken_rule(message);
                }
                Ok(if sign == "+" {
                    Operation::Add(value)
                } else {
                    Operation::Subtract(value)
                })
            }
        }
    }

    pub(super) fn delete(&mut self) -> Parsed<Delete> {
        self.expect_keyword(Keyword::Delete)?;
        let mut targets = Vec::new();
        if self.next().is_column() {
            targets = self.comma_separated(Self::deletion_target)?;
        }
        self.expect_keyword(Keyword::From)?;
        let table = self.table_name()?;
        let using = self.using_of_delete()?;
        self.expect_keyword(Keyword::Where)?;
        let relations = self.where_clause()?;
        let conditions = self.conditions()?;
        Ok(Delete {
            table,
            targets,
            using,
            relations,
            conditions,
        })
    }

    fn deletion_target(&mut self) -> Parsed<DeletionTarget> {
        if !self.next().is_column() {
            return self.no_viable(1);
        }
        match self.look(2) {
            TokenKind::Comma | TokenKind::Keyword(Keyword::From) => self.column().map(DeletionTarget::Column),
            TokenKind::LeftBracket => {
                let column = self.column()?;
                self.consume();
                let key = self.term()?;
                self.expect(TokenKind::RightBracket)?;
                Ok(DeletionTarget::Element { column, key })
            }
            TokenKind::Dot => {
                let column = self.column()?;
                self.consume();
                Ok(DeletionTarget::Field {
                    column,
                    field: self.identifier()?,
                })
            }
            _ => self.no_viable(2),
        }
    }

    /// The `IF` clause of an `UPDATE` or `DELETE`, if it is there.
    fn conditions(&mut self) -> Parsed<Conditions> {
        if !self.accept_keyword(Keyword::If) {
            return Ok(Conditions::None);
        }
        if self.next_is_exists_condition()? {
            self.consume();
            return Ok(Conditions::Exists);
        }
        self.and_separated(Self::condition).map(Conditions::All)
    }

    /// Tells the keyword `EXISTS` from a column of that name.
    fn next_is_exists_condition(&self) -> Parsed<bool> {
        if !self.next_is_keyword(Keyword::Exists) {
            return if self.next().is_column() {
                Ok(false)
            } else {
                self.no_viable(1)
            };
        }
        match self.look(2) {
            TokenKind::Semicolon
            | TokenKind::End
            | TokenKind::Keyword(Keyword::Apply | Keyword::Delete | Keyword::Insert | Keyword::Update) => {
                Ok(true)
            }
            TokenKind::Dot | TokenKind::LeftBracket | TokenKind::Keyword(Keyword::Contains | Keyword::In) => {
                Ok(false)
            }
            kind if kind.is_comparison() => Ok(false),
            _ => self.no_viable(2),
        }
    }

    fn condition(&mut self) -> Parsed<Condition> {
        let column = self.column()?;
        if self.next_is_keyword(Keyword::Contains) {
            let operator = self.contains()?;
            let test = ConditionTest::Compare {
                operator,
                value: self.term()?,
            };
            return Ok(Condition {
                column,
                target: ConditionTarget::Whole,
                test,
            });
        }
        let target = match self.next() {
            TokenKind::LeftBracket => {
                self.consume();
                let element = self.term()?;
                self.expect(TokenKind::RightBracket)?;
                ConditionTarget::Element(element)
            }
            TokenKind::Dot => {
                self.consume();
                ConditionTarget::Field(self.identifier()?)
            }
            _ => ConditionTarget::Whole,
        };
        let test = if self.accept_keyword(Keyword::In) {
            ConditionTest::In(self.in_values()?)
        } else {
            ConditionTest::Compare {
                operator: self.comparison()?,
                value: self.term()?,
            }
        };
        Ok(Condition { column, target, test })
    }

    pub(super) fn batch(&mut self) -> Parsed<Batch> {
        self.expect_keyword(Keyword::Begin)?;
        let kind = if self.accept_keyword(Keyword::Unlogged) {
            BatchKind::Unlogged
        } else if self.accept_keyword(Keyword::Counter) {
            BatchKind::Counter
        } else {
            BatchKind::Logged
        };
        self.expect_keyword(Keyword::Batch)?;
        let using = self.using()?;
        let mut statements = Vec::new();
        loop {
            let statement = match self.next() {
                TokenKind::Keyword(Keyword::Insert) => Modification::Insert(self.insert()?),
                TokenKind::Keyword(Keyword::Update) => Modification::Update(self.update()?),
                TokenKind::Keyword(Keyword::Delete) => Modification::Delete(self.delete()?),
                _ => break,
            };
            statements.push(statement);
            self.accept(TokenKind::Semicolon);
        }
        self.expect_keywords(&[Keyword::Apply, Keyword::Batch])?;
        Ok(Batch {
            kind,
            using,
            statements,
        })
    }
}

/// Columns assigned so far, by which the next assignment is judged: a column is set as a whole only once and by itself, a
/// field only once.
#[derive(Default)]
struct AssignedColumns(HashMap<String, AssignedColumn>);

#[derive(Default)]
struct AssignedColumn {
    is_set: bool,
    fields: HashSet<String>,
}

impl AssignedColumns {
    /// Notes an assignment; returns whether it goes together with those before it.
    fn takes(&mut self, assignment: &Assignment) -> bool {
        let Some(before) = self.0.get_mut(&assignment.column) else {
            let mut column = AssignedColumn::default();
            match &assignment.operation {
                Operation::Set(_) => column.is_set = true,
                Operation::SetField { field, .. } => {
                    column.fields.insert(field.clone());
                }
                _ => {}
            }
            self.0.insert(assignment.column.clone(), column);
            return true;
        };
        match &assignment.operation {
            _ if before.is_set => false,
            Operation::Set(_) => false,
            Operation::SetField { field, .. } => before.fields.insert(field.clone()),
            _ => true,
        }
    }
}
