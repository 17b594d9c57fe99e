//! The lexer proper. It decides as Cassandra's does, also where that is surprising: `a-1` is a name and a negative
//! integer, a comment has to end with a line break, eight hexadecimal digits and a dash have to become a UUID.

use super::fault::{LexicalFault, LexicalFaultKind};
use super::keyword::Keyword;
use super::token::{Token, TokenKind};

/// A statement cut into tokens.
pub struct Lexed {
    /// Hidden tokens included. The last token is `End`, or `Invalid` when there is a fault or there are too many.
    pub tokens: Vec<Token>,
    pub fault: Option<LexicalFault>,
    pub is_too_long: bool,
}

/// Room made at once, in tokens; a long statement may be one literal.
const CAPACITY_MAX: usize = 1 << 12;

/// Cuts the whole text, or as much as is free of faults.
pub fn lex(statement: &str) -> Lexed {
    lex_bounded(statement, usize::MAX)
}

/// As [`lex`], but gives up after so many tokens.
pub fn lex_bounded(statement: &str, tokens_max: usize) -> Lexed {
    let mut scanner = Scanner::new(statement);
    // A token and the space after it take about four bytes in typical statements.
    let mut tokens = Vec::with_capacity((statement.len() / 4 + 2).min(CAPACITY_MAX));
    loop {
        let start = scanner.at;
        if tokens.len() >= tokens_max {
            tokens.push(Token {
                kind: TokenKind::Invalid,
                start,
                end: start,
            });
            return Lexed {
                tokens,
                fault: None,
                is_too_long: true,
            };
        }
        match scanner.next_kind() {
            Ok(kind) => {
                tokens.push(Token {
                    kind,
                    start,
                    end: scanner.at,
                });
                if kind == TokenKind::End {
                    return Lexed {
                        tokens,
                        fault: None,
                        is_too_long: false,
                    };
                }
            }
            Err(fault) => {
                tokens.push(Token {
                    kind: TokenKind::Invalid,
                    start,
                    end: start,
                });
                return Lexed {
                    tokens,
                    fault: Some(fault),
                    is_too_long: false,
                };
            }
        }
    }
}

pub struct Scanner<'a> {
    pub(super) statement: &'a str,
    bytes: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Scanner<'a> {
    pub fn new(statement: &'a str) -> Self {
        Scanner {
            statement,
            bytes: statement.as_bytes(),
            at: 0,
        }
    }
}

impl Scanner<'_> {
    pub(super) fn byte(&self, offset: usize) -> Option<u8> {
        self.bytes.get(self.at.checked_add(offset)?).copied()
    }

    pub(super) fn fault<T>(&self, offset: usize, kind: LexicalFaultKind) -> Result<T, LexicalFault> {
        Err(LexicalFault {
            at: (self.at + offset).min(self.bytes.len()),
            kind,
        })
    }

    fn take(&mut self, bytes: usize, kind: TokenKind) -> Result<TokenKind, LexicalFault> {
        self.at += bytes;
        Ok(kind)
    }

    /// Steps over the next token, hidden ones included, and returns its kind.
    pub fn next_kind(&mut self) -> Result<TokenKind, LexicalFault> {
        use TokenKind as Kind;
        let Some(first) = self.byte(0) else {
            return Ok(Kind::End);
        };
        let second = self.byte(1);
        match first {
            b' ' | b'\t' | b'\n' | b'\r' => Ok(self.white_space()),
            b'a'..=b'z' | b'A'..=b'Z' => self.word(),
            b'0'..=b'9' => self.number(),
            b'-' => self.minus(),
            b'\'' => self.quoted(b'\'', Kind::String),
            b'"' => self.quoted_name(),
            b'$' => self.dollar_string(),
            b'/' if second == Some(b'/') => self.line_comment(),
            b'/' if second == Some(b'*') => self.block_comment(),
            b'!' if second == Some(b'=') => self.take(2, Kind::NotEqual),
            b'!' => self.fault(1, LexicalFaultKind::Expected('=')),
            b'+' if second == Some(b'=') => self.take(2, Kind::PlusEqual),
            b'<' if second == Some(b'=') => self.take(2, Kind::LessOrEqual),
            b'>' if second == Some(b'=') => self.take(2, Kind::GreaterOrEqual),
            b'.' if second == Some(b'.') => self.take(2, Kind::Range),
            b'?' => self.take(1, Kind::QuestionMark),
            b'%' => self.take(1, Kind::Percent),
            b'(' => self.take(1, Kind::LeftParenthesis),
            b')' => self.take(1, Kind::RightParenthesis),
            b'+' => self.take(1, Kind::Plus),
            b',' => self.take(1, Kind::Comma),
            b'.' => self.take(1, Kind::Dot),
            b'/' => self.take(1, Kind::Slash),
            b':' => self.take(1, Kind::Colon),
            b';' => self.take(1, Kind::Semicolon),
            b'<' => self.take(1, Kind::Less),
            b'=' => self.take(1, Kind::Equal),
            b'>' => self.take(1, Kind::Greater),
            b'[' => self.take(1, Kind::LeftBracket),
            b'*' => self.take(1, Kind::Star),
            b']' => self.take(1, Kind::RightBracket),
            b'{' => self.take(1, Kind::LeftBrace),
            b'}' => self.take(1, Kind::RightBrace),
            _ => self.fault(0, LexicalFaultKind::NoViableAlternative),
        }
    }

    fn white_space(&mut self) -> TokenKind {
        while matches!(self.byte(0), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
        TokenKind::Hidden
    }

    /// A keyword, an identifier, or one of the literals that begin with a letter.
    fn word(&mut self) -> Result<TokenKind, LexicalFault> {
        let length = self.count_while(0, |byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if let Some(kind) = self.uuid()? {
            return Ok(kind);
        }
        if self.byte(0) == Some(b'P')
            && let Some(bytes) = self.iso_duration(0)?
            && bytes >= length
        {
            return self.take(bytes, TokenKind::Duration);
        }
        let word = self.statement.get(self.at..self.at + length).unwrap_or_default();
        if word == "expr" && self.byte(length) == Some(b'(') {
            return self.take(length + 1, TokenKind::ExpressionCall);
        }
        let kind = match Keyword::from_word(word) {
            Some(keyword) => TokenKind::Keyword(keyword),
            None if word.eq_ignore_ascii_case("true") || word.eq_ignore_ascii_case("false") => {
                TokenKind::Boolean
            }
            None if word.eq_ignore_ascii_case("nan") => TokenKind::PositiveNan,
            None if word.eq_ignore_ascii_case("infinity") => TokenKind::PositiveInfinity,
            None => TokenKind::Identifier,
        };
        self.take(length, kind)
    }

    fn minus(&mut self) -> Result<TokenKind, LexicalFault> {
        match self.byte(1) {
            Some(b'-') => self.line_comment(),
            Some(b'=') => self.take(2, TokenKind::MinusEqual),
            Some(b'0'..=b'9') => self.number(),
            Some(b'n' | b'N') => self.spelt_out(b"nan", TokenKind::NegativeNan),
            Some(b'i' | b'I') => self.spelt_out(b"infinity", TokenKind::NegativeInfinity),
            Some(b'P') => match self.iso_duration(1)? {
                Some(bytes) => self.take(bytes, TokenKind::Duration),
                None => {
                    let seen = 2 + usize::from(self.byte(2) == Some(b'T'));
                    let digits = self.count_while(seen, |byte| byte.is_ascii_digit());
                    self.fault(seen + digits, LexicalFaultKind::NoViableAlternative)
                }
            },
            _ => self.take(1, TokenKind::Minus),
        }
    }

    /// The rest of a word after a minus, which has to be exactly this one.
    fn spelt_out(&mut self, word: &[u8], kind: TokenKind) -> Result<TokenKind, LexicalFault> {
        for (index, wanted) in word.iter().enumerate() {
            if !self
                .byte(index + 1)
                .is_some_and(|byte| byte.eq_ignore_ascii_case(wanted))
            {
                return self.fault(index + 1, LexicalFaultKind::ExpectedOneOfSeveral);
            }
        }
        self.take(word.len() + 1, kind)
    }

    /// A text between quotes, in which a doubled quote stands for one.
    fn quoted(&mut self, quote: u8, kind: TokenKind) -> Result<TokenKind, LexicalFault> {
        let mut length = 1;
        loop {
            length += self.count_while(length, |byte| byte != quote);
            if self.byte(length).is_none() {
                return self.fault(length, LexicalFaultKind::Expected(char::from(quote)));
            }
            if self.byte(length + 1) != Some(quote) {
                return self.take(length + 1, kind);
            }
            length += 2;
        }
    }

    fn quoted_name(&mut self) -> Result<TokenKind, LexicalFault> {
        match (self.byte(1), self.byte(2)) {
            (None, _) => self.fault(1, LexicalFaultKind::NoViableAlternative),
            (Some(b'"'), Some(b'"')) => self.quoted(b'"', TokenKind::QuotedName),
            (Some(b'"'), _) => self.take(2, TokenKind::EmptyQuotedName),
            _ => self.quoted(b'"', TokenKind::QuotedName),
        }
    }

    /// `$$ ... $$`, in which nothing is escaped.
    fn dollar_string(&mut self) -> Result<TokenKind, LexicalFault> {
        if self.byte(1) != Some(b'$') {
            return self.fault(1, LexicalFaultKind::Expected('$'));
        }
        let rest = self.statement.get(self.at + 2..).unwrap_or_default();
        if let Some(length) = rest.find("$$") {
            return self.take(length + 4, TokenKind::String);
        }
        // Cassandra's lexer never looks at the last character for content, so that is where it gives up.
        match rest.char_indices().next_back() {
            Some((index, last)) if last != '$' => self.fault(2 + index, LexicalFaultKind::Expected('$')),
            _ => self.fault(2 + rest.len(), LexicalFaultKind::Expected('$')),
        }
    }

    fn line_comment(&mut self) -> Result<TokenKind, LexicalFault> {
        let length = self.count_while(2, |byte| byte != b'\n' && byte != b'\r');
        if self.byte(length + 2).is_none() {
            return self.fault(length + 2, LexicalFaultKind::ExpectedOneOfSeveral);
        }
        self.take(length + 3, TokenKind::Hidden)
    }

    fn block_comment(&mut self) -> Result<TokenKind, LexicalFault> {
        match self.statement.get(self.at + 2..).and_then(|rest| rest.find("*/")) {
            Some(length) => self.take(length + 4, TokenKind::Hidden),
            None => self.fault(self.bytes.len() - self.at, LexicalFaultKind::Expected('*')),
        }
    }

    /// How many bytes from `offset` on satisfy `wanted`.
    pub(super) fn count_while(&self, offset: usize, wanted: impl Fn(u8) -> bool) -> usize {
        let rest = self.bytes.get(self.at + offset..).unwrap_or_default();
        rest.iter().position(|byte| !wanted(*byte)).unwrap_or(rest.len())
    }
}
