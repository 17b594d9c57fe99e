//! `SELECT`.

use super::cursor::Parser;
use super::rejection::Parsed;
use crate::ast::{OrderDirection, Ordering, OrderingExpression, Select, Selection, Selector, Term};
use crate::lexer::{Keyword, TokenKind};

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
