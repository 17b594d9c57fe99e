//! Text to tokens.

mod fault;
mod keyword;
mod number;
mod scanner;
mod token;

pub use fault::LexicalFault;
pub use keyword::{Keyword, KeywordClass};
pub use scanner::{Lexed, Scanner, lex, lex_bounded};
pub use token::{Token, TokenKind};
