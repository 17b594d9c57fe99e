//! `PRUNE MATERIALIZED VIEW`, which Cassandra does not have.

use super::cursor::Parser;
use super::rejection::Parsed;
use crate::ast::Prune;
use crate::lexer::{Keyword, TokenKind};

impl Parser<'_> {
    pub(super) fn begins_prune(&self) -> bool {
        self.next_is_word("prune") && self.look(2) == TokenKind::Keyword(Keyword::Materialized)
    }

    /// From [`Self::begins_prune`] on.
    pub(super) fn prune(&mut self) -> Parsed<Prune> {
        self.consume();
        self.expect_keywords(&[Keyword::Materialized, Keyword::View])?;
        let mut prune = Prune {
            view: self.table_name()?,
            relations: Vec::new(),
            concurrency: None,
            timeout: None,
        };
        if self.accept_keyword(Keyword::Where) {
            prune.relations = self.where_clause()?;
        }
        if !self.accept_keyword(Keyword::Using) {
            return Ok(prune);
        }
        loop {
            if self.next_is_word("concurrency") {
                self.consume();
                prune.concurrency = Some(self.integer_or_marker()?);
            } else {
                prune.timeout = self.timeout_attribute()?;
            }
            if !self.accept_keyword(Keyword::And) {
                return Ok(prune);
            }
        }
    }
}
