//! Tokens to syntax tree, by recursive descent.

mod cursor;
mod rejection;

mod statements;

mod names;
mod properties;
mod prune;
mod relations;
mod selectors;
mod terms;
mod types;

mod describe;
mod modifications;
mod permissions;
mod roles;
mod schema;
mod select;
mod tables;
mod transactions;

use crate::ast::{Statement, TypeName};
use crate::error::SyntaxError;
use crate::lexer::TokenKind;
use cursor::{Parser, TOKENS_MAX};
use rejection::{Parsed, Reason};

/// Parses one statement; semicolons after it are accepted.
pub fn parse_statement(statement: &str) -> Result<Statement, SyntaxError> {
    parse_statement_within(statement, &mut TokenBudget::default())
}

/// As [`parse_statement`], of one of several statements of a request, which share a budget.
pub fn parse_statement_within(statement: &str, budget: &mut TokenBudget) -> Result<Statement, SyntaxError> {
    parse(statement, budget, |parser| parser.whole_statement())
}

/// How many tokens the statements of a request may still have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenBudget(usize);

impl Default for TokenBudget {
    fn default() -> Self {
        TokenBudget(TOKENS_MAX)
    }
}

/// Parses a column type, such as `frozen<map<text, int>>`.
pub fn parse_type(type_name: &str) -> Result<TypeName, SyntaxError> {
    parse(type_name, &mut TokenBudget::default(), |parser| {
        let parsed = parser.type_name()?;
        parser.expect(TokenKind::End)?;
        Ok(parsed)
    })
}

fn parse<T>(
    text: &str,
    budget: &mut TokenBudget,
    rule: impl FnOnce(&mut Parser<'_>) -> Parsed<T>,
) -> Result<T, SyntaxError> {
    let mut parser = Parser::new(text, budget.0);
    budget.0 = budget.0.saturating_sub(parser.lexed.tokens.len());
    if parser.lexed.is_too_long {
        return Err(SyntaxError::rule(format!(
            "The statement or batch has more than {TOKENS_MAX} words, signs and literals; bind values instead of writing them \
             out, or divide it into several statements"
        )));
    }
    let rejection = match rule(&mut parser) {
        Ok(parsed) => return Ok(parsed),
        Err(rejection) => rejection,
    };
    // The lexer runs just ahead of the parser: its complaint comes first if the parser has looked that far.
    if let Some(fault) = &parser.lexed.fault
        && parser.fetched() + 1 == parser.lexed.tokens.len()
    {
        return Err(SyntaxError::lexical(text, fault));
    }
    let tokens = parser.lexed.tokens.get(..=parser.fetched()).unwrap_or_default();
    Err(match rejection.reason {
        Reason::Rule(message) => SyntaxError::rule(message),
        Reason::Expected(wanted) => {
            SyntaxError::mismatched(text, tokens, rejection.offending, rejection.position, wanted)
        }
        Reason::ExpectedOneOfSeveral => {
            SyntaxError::mismatched_set(text, tokens, rejection.offending, rejection.position)
        }
        Reason::NoViableAlternative => {
            SyntaxError::no_viable_alternative(text, tokens, rejection.offending, rejection.position)
        }
    })
}
