//! Tokens into which the lexer cuts a statement.

use super::keyword::{Keyword, KeywordClass};

/// A piece of the statement: its kind and where it stands, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    pub kind: TokenKind,
    pub start: usize,
    pub end: usize,
}

impl Token {
    /// The characters the token was made from, quotes included.
    pub fn source<'a>(&self, statement: &'a str) -> &'a str {
        // A token's bounds are character boundaries of the statement it was cut from.
        statement.get(self.start..self.end).unwrap_or_default()
    }

    /// The token's meaning as text: quotes removed and escapes resolved.
    pub fn text(&self, statement: &str) -> String {
        let source = self.source(statement);
        let inner = |quote_bytes: usize| {
            source
                .get(quote_bytes..source.len().saturating_sub(quote_bytes))
                .unwrap_or_default()
        };
        match self.kind {
            TokenKind::String if source.starts_with('$') => inner(2).to_owned(),
            TokenKind::String => inner(1).replace("''", "'"),
            TokenKind::QuotedName => inner(1).replace("\"\"", "\""),
            _ => source.to_owned(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TokenKind {
    Keyword(Keyword),
    Identifier,
    QuotedName,
    /// `""`, which names a column of dense compact tables.
    EmptyQuotedName,
    String,
    Integer,
    Float,
    Boolean,
    Duration,
    Uuid,
    Hex,
    PositiveNan,
    NegativeNan,
    PositiveInfinity,
    NegativeInfinity,
    QuestionMark,
    /// `..`
    Range,
    NotEqual,
    Percent,
    LeftParenthesis,
    RightParenthesis,
    Plus,
    PlusEqual,
    Comma,
    Minus,
    MinusEqual,
    Dot,
    Slash,
    Colon,
    Semicolon,
    Less,
    LessOrEqual,
    Equal,
    Greater,
    GreaterOrEqual,
    LeftBracket,
    Star,
    RightBracket,
    /// `expr(`, lower case and without a space, is one token.
    ExpressionCall,
    LeftBrace,
    RightBrace,
    /// White space and comments. They are kept because error messages count them.
    Hidden,
    End,
    /// Where the lexer gave up.
    Invalid,
}

impl TokenKind {
    /// The token's name in the messages of Cassandra's parser.
    pub fn name(self) -> &'static str {
        match self {
            TokenKind::Keyword(keyword) => keyword.token_name(),
            TokenKind::Identifier => "IDENT",
            TokenKind::QuotedName => "QUOTED_NAME",
            TokenKind::EmptyQuotedName => "EMPTY_QUOTED_NAME",
            TokenKind::String => "STRING_LITERAL",
            TokenKind::Integer => "INTEGER",
            TokenKind::Float => "FLOAT",
            TokenKind::Boolean => "BOOLEAN",
            TokenKind::Duration => "DURATION",
            TokenKind::Uuid => "UUID",
            TokenKind::Hex => "HEXNUMBER",
            TokenKind::PositiveNan => "K_POSITIVE_NAN",
            TokenKind::NegativeNan => "K_NEGATIVE_NAN",
            TokenKind::PositiveInfinity => "K_POSITIVE_INFINITY",
            TokenKind::NegativeInfinity => "K_NEGATIVE_INFINITY",
            TokenKind::QuestionMark => "QMARK",
            TokenKind::Range => "RANGE",
            TokenKind::NotEqual => "'!='",
            TokenKind::Percent => "'%'",
            TokenKind::LeftParenthesis => "'('",
            TokenKind::RightParenthesis => "')'",
            TokenKind::Plus => "'+'",
            TokenKind::PlusEqual => "'+='",
            TokenKind::Comma => "','",
            TokenKind::Minus => "'-'",
            TokenKind::MinusEqual => "'-='",
            TokenKind::Dot => "'.'",
            TokenKind::Slash => "'/'",
            TokenKind::Colon => "':'",
            TokenKind::Semicolon => "';'",
            TokenKind::Less => "'<'",
            TokenKind::LessOrEqual => "'<='",
            TokenKind::Equal => "'='",
            TokenKind::Greater => "'>'",
            TokenKind::GreaterOrEqual => "'>='",
            TokenKind::LeftBracket => "'['",
            TokenKind::Star => "'*'",
            TokenKind::RightBracket => "']'",
            TokenKind::ExpressionCall => "'expr('",
            TokenKind::LeftBrace => "'{'",
            TokenKind::RightBrace => "'}'",
            TokenKind::Hidden => "WS",
            TokenKind::End | TokenKind::Invalid => "EOF",
        }
    }

    /// Returns whether the token may be used as a name: an identifier, a quoted name or an unreserved keyword.
    pub fn is_identifier(self) -> bool {
        match self {
            TokenKind::Identifier | TokenKind::QuotedName => true,
            TokenKind::Keyword(keyword) => keyword.class() != KeywordClass::Reserved,
            _ => false,
        }
    }

    /// Returns whether the token may be the name of a column, which `""` may too.
    pub fn is_column(self) -> bool {
        self.is_identifier() || self == TokenKind::EmptyQuotedName
    }

    /// Returns whether the token may be the name of a function (`token`, which is reserved, aside).
    pub fn is_function_identifier(self) -> bool {
        self.is_identifier() && !self.is_not_function()
    }

    /// Returns whether the token is an unreserved keyword which no function may be named after.
    pub fn is_not_function(self) -> bool {
        matches!(self, TokenKind::Keyword(keyword) if keyword.class() == KeywordClass::NotFunction)
    }

    pub fn is_native_type(self) -> bool {
        matches!(self, TokenKind::Keyword(keyword) if keyword.class() == KeywordClass::NativeType)
    }

    /// Returns whether the token is a constant by itself.
    pub fn is_constant(self) -> bool {
        matches!(
            self,
            TokenKind::String
                | TokenKind::Integer
                | TokenKind::Float
                | TokenKind::Boolean
                | TokenKind::Duration
                | TokenKind::Uuid
                | TokenKind::Hex
                | TokenKind::PositiveNan
                | TokenKind::NegativeNan
                | TokenKind::PositiveInfinity
                | TokenKind::NegativeInfinity
        )
    }

    /// Returns whether a term or a selector can begin with the token.
    pub fn begins_term(self) -> bool {
        self.is_constant()
            || self.is_identifier()
            || matches!(
                self,
                TokenKind::LeftParenthesis
                    | TokenKind::Minus
                    | TokenKind::Colon
                    | TokenKind::LeftBracket
                    | TokenKind::LeftBrace
                    | TokenKind::QuestionMark
                    | TokenKind::Keyword(Keyword::Null | Keyword::Token)
            )
    }

    pub fn is_comparison(self) -> bool {
        matches!(
            self,
            TokenKind::Equal
                | TokenKind::Less
                | TokenKind::LessOrEqual
                | TokenKind::Greater
                | TokenKind::GreaterOrEqual
                | TokenKind::NotEqual
        )
    }
}
