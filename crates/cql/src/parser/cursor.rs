//! The parser's place in the token list, and the few moves it makes.

use std::cell::Cell;

use super::rejection::{Parsed, Reason, Rejection};
use super::select::{EXCLUDED_INDEXES, INCLUDED_INDEXES};
use crate::ast::{Marker, Place};
use crate::lexer::{Keyword, Lexed, Token, TokenKind, lex_bounded};

/// How many levels of rules for terms, selectors, types and relations may be open at once, operators of a chain
/// included. A pair of brackets takes two. Each level costs a few stack frames here and when the tree is dropped;
/// real statements stay below twenty.
pub(super) const NESTING_LEVELS_MAX: usize = 100;

/// Tokens of a statement at most, white space and comments included: a list of 80,000 elements, or a batch of thousands of
/// INSERTs. Parsing and planning take a microsecond for two or three of them, and a hundred bytes for each;
/// 16 MB of short tokens took a shard for ten seconds and 3 GB.
pub(super) const TOKENS_MAX: usize = 250_000;

/// A recursive-descent parser for one statement. The grammar's rules are methods in the files beside this one.
///
/// The rules decide with exactly as many tokens of lookahead as Cassandra's generated parser does: which token an
/// error names, and which part of the statement is quoted with it, depends on that.
pub(super) struct Parser<'a> {
    pub(super) statement: &'a str,
    pub(super) lexed: Lexed,
    /// The next visible token.
    position: usize,
    /// The last token looked at so far. Cassandra's token stream ends there when it quotes the statement.
    fetched: Cell<usize>,
    markers: usize,
    nesting: usize,
    /// Terms end where those of a transaction's conditions do.
    pub(super) is_in_transaction: bool,
    /// Terms may be what a transaction has read.
    pub(super) takes_references: bool,
}

/// A place to return to when an alternative does not work out.
#[derive(Clone, Copy)]
pub(super) struct Checkpoint {
    position: usize,
    markers: usize,
    nesting: usize,
}

impl<'a> Parser<'a> {
    pub(super) fn new(statement: &'a str, tokens_max: usize) -> Parser<'a> {
        let mut parser = Parser {
            statement,
            lexed: lex_bounded(statement, tokens_max),
            position: 0,
            fetched: Cell::new(0),
            markers: 0,
            nesting: 0,
            is_in_transaction: false,
            takes_references: false,
        };
        parser.position = parser.visible_from(0);
        parser
    }

    fn token(&self, index: usize) -> Token {
        // The list ends with a token the parser never moves past, so the fallback is only for the compiler.
        let end = Token {
            kind: TokenKind::End,
            start: self.statement.len(),
            end: self.statement.len(),
        };
        self.lexed.tokens.get(index).copied().unwrap_or(end)
    }

    /// The first token at or after `index` that is not hidden. Looks at all tokens on the way.
    fn visible_from(&self, index: usize) -> usize {
        let last = self.lexed.tokens.len().saturating_sub(1);
        let mut index = index.min(last);
        while index < last && self.token(index).kind == TokenKind::Hidden {
            index += 1;
        }
        self.fetched.set(self.fetched.get().max(index));
        index
    }

    /// The index of the `n`th visible token from here, counted from 1.
    fn ahead(&self, n: usize) -> usize {
        (1..n).fold(self.position, |index, _| self.visible_from(index + 1))
    }

    /// The kind of the `n`th token from here, counted from 1.
    pub(super) fn look(&self, n: usize) -> TokenKind {
        self.token(self.ahead(n)).kind
    }

    /// Cassandra's table-driven decisions step over the last token they look at, and so fetch one more.
    pub(super) fn predicted(&self, n: usize) {
        self.ahead(n + 1);
    }

    /// Returns whether a clause that Cassandra 5 does not have begins at the `n`th token from here: `USING TIMEOUT`, `USING
    /// CONCURRENCY`, `BYPASS CACHE` or index hints. The second word does not count as looked at.
    pub(super) fn begins_extension(&self, n: usize) -> bool {
        self.is_using_timeout(n)
            || self.is_using(n, "concurrency")
            || self.is_bypass_cache(n)
            || self.is_index_hints(n)
    }

    pub(super) fn is_index_hints(&self, n: usize) -> bool {
        self.look(n) == TokenKind::Keyword(Keyword::With)
            && (self.is_word_after(n, INCLUDED_INDEXES) || self.is_word_after(n, EXCLUDED_INDEXES))
    }

    pub(super) fn is_using_timeout(&self, n: usize) -> bool {
        self.is_using(n, "timeout")
    }

    fn is_using(&self, n: usize, word: &str) -> bool {
        self.look(n) == TokenKind::Keyword(Keyword::Using) && self.is_word_after(n, word)
    }

    pub(super) fn is_bypass_cache(&self, n: usize) -> bool {
        self.is_word(self.token(self.ahead(n)), "bypass") && self.is_word_after(n, "cache")
    }

    fn is_word_after(&self, n: usize, word: &str) -> bool {
        let after = self.lexed.tokens.get(self.ahead(n) + 1..).unwrap_or_default();
        let next = after.iter().find(|token| token.kind != TokenKind::Hidden);
        next.is_some_and(|token| self.is_word(*token, word))
    }

    fn is_word(&self, token: Token, word: &str) -> bool {
        token.kind == TokenKind::Identifier && token.source(self.statement).eq_ignore_ascii_case(word)
    }

    pub(super) fn next(&self) -> TokenKind {
        self.look(1)
    }

    pub(super) fn next_is(&self, kind: TokenKind) -> bool {
        self.next() == kind
    }

    pub(super) fn next_is_keyword(&self, keyword: Keyword) -> bool {
        self.next() == TokenKind::Keyword(keyword)
    }

    /// Returns whether the next token is this word, which is no keyword of Cassandra's.
    pub(super) fn next_is_word(&self, word: &str) -> bool {
        self.is_word(self.token(self.position), word)
    }

    /// Returns whether the `n`th token from here is this word. It does not count as looked at.
    pub(super) fn is_word_at(&self, n: usize, word: &str) -> bool {
        let after = self.lexed.tokens.get(self.position..).unwrap_or_default();
        let mut visible = after.iter().filter(|token| token.kind != TokenKind::Hidden);
        visible.nth(n - 1).is_some_and(|token| self.is_word(*token, word))
    }

    /// Where the next token begins.
    pub(super) fn place(&self) -> Place {
        Place(self.token(self.position).start)
    }

    /// How many markers there were so far.
    pub(super) fn markers(&self) -> usize {
        self.markers
    }

    /// Moves past the next token, whatever it is.
    pub(super) fn consume(&mut self) -> Token {
        let token = self.token(self.position);
        self.position = self.visible_from(self.position + 1);
        token
    }

    pub(super) fn accept(&mut self, kind: TokenKind) -> bool {
        let found = self.next_is(kind);
        if found {
            self.consume();
        }
        found
    }

    pub(super) fn accept_keyword(&mut self, keyword: Keyword) -> bool {
        self.accept(TokenKind::Keyword(keyword))
    }

    pub(super) fn expect(&mut self, kind: TokenKind) -> Parsed<Token> {
        if self.next_is(kind) {
            Ok(self.consume())
        } else {
            Err(self.rejection(Reason::Expected(kind), 1))
        }
    }

    pub(super) fn expect_keyword(&mut self, keyword: Keyword) -> Parsed<()> {
        self.expect(TokenKind::Keyword(keyword)).map(drop)
    }

    pub(super) fn expect_keywords(&mut self, keywords: &[Keyword]) -> Parsed<()> {
        keywords
            .iter()
            .try_for_each(|keyword| self.expect_keyword(*keyword))
    }

    /// The rejection of the `n`th token from here as the continuation of any alternative.
    pub(super) fn no_viable<T>(&self, n: usize) -> Parsed<T> {
        Err(self.rejection(Reason::NoViableAlternative, n))
    }

    pub(super) fn expected_one_of_several<T>(&self) -> Parsed<T> {
        Err(self.rejection(Reason::ExpectedOneOfSeveral, 1))
    }

    pub(super) fn broken_rule<T>(&self, message: impl Into<String>) -> Parsed<T> {
        Err(self.rejection(Reason::Rule(message.into()), 1))
    }

    fn rejection(&self, reason: Reason, n: usize) -> Rejection {
        Rejection {
            reason,
            offending: self.ahead(n),
            position: self.position,
        }
    }

    pub(super) fn fetched(&self) -> usize {
        self.fetched.get()
    }

    /// `item (',' item)*`
    pub(super) fn comma_separated<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Parsed<T>,
    ) -> Parsed<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.accept(TokenKind::Comma) {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// `item (AND item)*`
    pub(super) fn and_separated<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Parsed<T>,
    ) -> Parsed<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.accept_keyword(Keyword::And) {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// Tries an alternative. When it fails, the parser stands where it stood before; a broken rule is final.
    pub(super) fn attempt<T>(
        &mut self,
        alternative: impl FnOnce(&mut Self) -> Parsed<T>,
    ) -> Parsed<Option<T>> {
        let before = Checkpoint {
            position: self.position,
            markers: self.markers,
            nesting: self.nesting,
        };
        match alternative(self) {
            Ok(found) => Ok(Some(found)),
            Err(Rejection {
                reason: Reason::Rule(message),
                offending,
                position,
            }) => Err(Rejection {
                reason: Reason::Rule(message),
                offending,
                position,
            }),
            Err(_) => {
                self.position = before.position;
                self.markers = before.markers;
                self.nesting = before.nesting;
                Ok(None)
            }
        }
    }

    /// Parses something one level further down.
    pub(super) fn nested<T>(&mut self, rule: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        let before = self.nesting;
        self.deepen()?;
        let parsed = rule(self);
        self.nesting = before;
        parsed
    }

    /// Counts a level which the caller gives back with `restore_nesting`.
    pub(super) fn deepen(&mut self) -> Parsed<()> {
        self.nesting += 1;
        if self.nesting > NESTING_LEVELS_MAX {
            return self.broken_rule(format!(
                "The statement is nested more than {NESTING_LEVELS_MAX} levels deep"
            ));
        }
        Ok(())
    }

    pub(super) fn nesting(&self) -> usize {
        self.nesting
    }

    pub(super) fn restore_nesting(&mut self, nesting: usize) {
        self.nesting = nesting;
    }

    /// A marker with the next free number.
    pub(super) fn new_marker(&mut self, name: Option<String>) -> Marker {
        let index = self.markers;
        self.markers += 1;
        Marker { index, name }
    }

    pub(super) fn text_of(&self, token: Token) -> String {
        token.text(self.statement)
    }
}
