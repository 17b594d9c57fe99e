//! CQL 3.4.7, the language of Cassandra 5.0, as text: lexer, parser, syntax tree, printing. It does no I/O and
//! knows no schema.

pub mod ast;
pub mod error;

pub use ast::Statement;
pub use error::{SyntaxError, SyntaxErrorKind};
