//! The part of a statement quoted after a syntax error: a few tokens with the offending one in brackets.

use crate::error::Position;
use crate::lexer::{Token, TokenKind};

/// How many tokens, white space included, are quoted before the one the parser stood at.
const TOKENS_BEFORE: usize = 10;

/// How many tokens, white space included, are quoted after it, if the parser has looked that far.
const TOKENS_AFTER: usize = 2;

/// A token's place among the lines of the statement, in UTF-16 code units.
struct Placed {
    line: usize,
    start: usize,
    end: usize,
}

/// The quotation, with a space in front, for a parser standing at `position` of the tokens it has looked at. Empty
/// when the end of the statement would have to be quoted.
///
/// None in the cases in which Cassandra trips over its own bookkeeping, such as when the offending token is a
/// string of several lines; the message does without a quotation then.
pub(crate) fn snippet(text: &str, tokens: &[Token], position: usize) -> Option<String> {
    let last = tokens.len().checked_sub(1)?;
    let from = tokens.get(position.saturating_sub(TOKENS_BEFORE))?;
    let to = tokens.get((position + TOKENS_AFTER).min(last))?;
    let offending = tokens.get(position.min(last))?;
    if [from, to, offending]
        .iter()
        .any(|token| token.kind == TokenKind::End)
    {
        return Some(String::new());
    }
    let (from, to, offending) = (place(text, from), place(text, to), place(text, offending));
    let mut lines: Vec<Vec<u16>> = text
        .split('\n')
        .map(|line| line.encode_utf16().collect())
        .collect();
    while lines.len() > 1 && lines.last().is_some_and(Vec::is_empty) {
        lines.pop();
    }
    let includes_start = from.line == 0 && from.start == 0;
    let includes_end = to.line + 1 == lines.len() && lines.last().is_some_and(|line| to.end == line.len());

    lines.get_mut(to.line)?.truncate(to.end);
    let marked = lines.get_mut(offending.line)?;
    if offending.end > marked.len() || offending.start > offending.end {
        return None;
    }
    marked.insert(offending.end, u16::from(b']'));
    marked.insert(offending.start, u16::from(b'['));
    let first = lines.get_mut(from.line)?;
    first.drain(..from.start.min(first.len()));

    let quoted = String::from_utf16_lossy(&lines.get(from.line..=to.line)?.concat());
    let before = if includes_start { "" } else { "..." };
    let after = if includes_end { "" } else { "..." };
    Some(format!(" ({before}{quoted}{after})"))
}

fn place(text: &str, token: &Token) -> Placed {
    let Position { line, column } = Position::of(text, token.start);
    let length = token.text(text).encode_utf16().count();
    Placed {
        line: line - 1,
        start: column,
        end: column + length,
    }
}
