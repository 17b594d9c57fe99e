//! `SELECT`.

use super::cursor::Parser;
use super::rejection::Parsed;
use crate::ast::{
    HintedIndex, IndexHints, OrderDirection, Ordering, OrderingExpression, QualifiedName, Select, Selection,
    Selector, Term,
};
use crate::lexer::{Keyword, TokenKind};

pub(super) const INCLUDED_INDEXES: &str = "included_indexes";
pub(super) const EXCLUDED_INDEXES: &str = "excluded_indexes";

impl Parser<'_> {
    pub(super) fn select(&mut self) -> Parsed<Select> {
        self.expect_keyword(Keyword::Select)?;
        let (json, distinct, selection) = self.json_select_clause()?;
        self.expect_keyword(Keyword::From)?;
        let table = self.table_name()?;
        let relations = if self.accept_keyword(Keyword::Where) {
            self.where_clause()?
        } else {
            Vec::new()
        };
        let group_by = self.group_by()?;
        let order_by = self.order_by()?;
        let mut per_partition_limit = None;
        if self.optional_clause(&[Keyword::Per, Keyword::Partition, Keyword::Limit])? {
            per_partition_limit = Some(self.integer_or_marker()?);
        }
        let limit = if self.accept_keyword(Keyword::Limit) {
            Some(self.integer_or_marker()?)
        } else {
            None
        };
        let allow_filtering = self.optional_clause(&[Keyword::Allow, Keyword::Filtering])?;
        let index_hints = self.index_hints()?;
        let bypass_cache = self.bypass_cache()?;
        let timeout = self.select_timeout()?;
        Ok(Select {
            json,
            distinct,
            selection,
            table,
            relations,
            group_by,
            order_by,
            per_partition_limit,
            limit,
            allow_filtering,
            index_hints,
            bypass_cache,
            timeout,
        })
    }

    /// The select clause with the words `JSON` and `DISTINCT` in front of it. Both may also be columns, so they are
    /// taken for keywords only when a whole clause follows.
    fn json_select_clause(&mut self) -> Parsed<(bool, bool, Selection)> {
        if !self.next().begins_term() && !self.next_is(TokenKind::Star) {
            return self.no_viable(1);
        }
        self.predicted(1);
        if self.next_is_keyword(Keyword::Json) {
            self.predicted(2);
            let clause = self.attempt(|parser| {
                parser.consume();
                parser.select_clause()
            })?;
            if let Some((distinct, selection)) = clause {
                return Ok((true, distinct, selection));
            }
        }
        let (distinct, selection) = self.select_clause()?;
        Ok((false, distinct, selection))
    }

    fn select_clause(&mut self) -> Parsed<(bool, Selection)> {
        if !self.next().begins_term() && !self.next_is(TokenKind::Star) {
            return self.no_viable(1);
        }
        self.predicted(1);
        if self.next_is_keyword(Keyword::Distinct) {
            self.predicted(2);
            let selection = self.attempt(|parser| {
                parser.consume();
                parser.selection()
            })?;
            if let Some(selection) = selection {
                return Ok((true, selection));
            }
        }
        Ok((false, self.selection()?))
    }

    fn group_by(&mut self) -> Parsed<Vec<Selector>> {
        if !self.next_is_keyword(Keyword::Group) {
            return Ok(Vec::new());
        }
        self.expect_keywords(&[Keyword::Group, Keyword::By])?;
        self.comma_separated(Self::selector)
    }

    fn order_by(&mut self) -> Parsed<Vec<Ordering>> {
        if !self.next_is_keyword(Keyword::Order) {
            return Ok(Vec::new());
        }
        self.expect_keywords(&[Keyword::Order, Keyword::By])?;
        self.comma_separated(Self::ordering)
    }

    fn ordering(&mut self) -> Parsed<Ordering> {
        let column = self.column()?;
        let expression = if self.optional_clause(&[Keyword::Ann, Keyword::Of])? {
            OrderingExpression::Nearest {
                column,
                vector: self.term()?,
            }
        } else {
            OrderingExpression::Column(column)
        };
        let direction = if self.accept_keyword(Keyword::Asc) {
            Some(OrderDirection::Ascending)
        } else if self.accept_keyword(Keyword::Desc) {
            Some(OrderDirection::Descending)
        } else {
            None
        };
        Ok(Ordering {
            expression,
            direction,
        })
    }

    /// `WITH included_indexes = {..} AND excluded_indexes = {..}`, which Cassandra 5 does not have.
    fn index_hints(&mut self) -> Parsed<IndexHints> {
        let mut hints = IndexHints::default();
        if !self.is_index_hints(1) {
            return Ok(hints);
        }
        self.consume();
        let (mut includes, mut excludes) = (false, false);
        self.and_separated(|parser| {
            let name = parser.identifier()?;
            let (is_given, indexes) = match &*name {
                INCLUDED_INDEXES => (&mut includes, &mut hints.included),
                EXCLUDED_INDEXES => (&mut excludes, &mut hints.excluded),
                _ => return parser.broken_rule(format!("Unknown property '{name}'")),
            };
            if std::mem::replace(is_given, true) {
                return parser.broken_rule(format!("Multiple definitions for property '{name}'"));
            }
            parser.expect(TokenKind::Equal)?;
            *indexes = parser.hinted_indexes(&name)?;
            Ok(())
        })?;
        Ok(hints)
    }

    /// `{ }` or `{ index, ... }`, and `*` for all indexes.
    fn hinted_indexes(&mut self, property: &str) -> Parsed<Vec<HintedIndex>> {
        if !self.accept(TokenKind::LeftBrace) {
            return self.no_set_of_names(property);
        }
        if self.accept(TokenKind::RightBrace) {
            return Ok(Vec::new());
        }
        let indexes = self.comma_separated(|parser| parser.hinted_index(property))?;
        match self.accept(TokenKind::RightBrace) {
            true => Ok(indexes),
            false => self.no_set_of_names(property),
        }
    }

    fn hinted_index(&mut self, property: &str) -> Parsed<HintedIndex> {
        if self.accept(TokenKind::Star) {
            return Ok(HintedIndex::All);
        }
        if !self.next().is_identifier() {
            return self.no_set_of_names(property);
        }
        let first = self.identifier()?;
        let (keyspace, name) = match self.accept(TokenKind::Dot) {
            true => (Some(first), self.index_identifier()?),
            false => (None, first),
        };
        Ok(HintedIndex::Named(QualifiedName { keyspace, name }))
    }

    fn no_set_of_names<T>(&self, property: &str) -> Parsed<T> {
        self.broken_rule(format!(
            "Invalid value for property '{property}'. It should be a set of identifiers."
        ))
    }

    /// `BYPASS CACHE`, which Cassandra does not have.
    fn bypass_cache(&mut self) -> Parsed<bool> {
        if !self.is_bypass_cache(1) {
            return Ok(false);
        }
        self.consume();
        self.consume();
        Ok(true)
    }

    /// `USING TIMEOUT d`, which Cassandra does not have.
    fn select_timeout(&mut self) -> Parsed<Option<Term>> {
        if !self.is_using_timeout(1) {
            return Ok(None);
        }
        self.consume();
        self.timeout_attribute()
    }

    /// `TIMEOUT d`, where `d` is a duration or a marker.
    pub(super) fn timeout_attribute(&mut self) -> Parsed<Option<Term>> {
        if !self.next_is_word("timeout") {
            return self.no_viable(1);
        }
        self.consume();
        match self.next() {
            TokenKind::Duration => self.constant().map(|literal| Some(Term::Literal(literal))),
            _ => self.marker().map(|marker| Some(Term::Marker(marker))),
        }
    }
}
