//! CQL 3.4.7, the language of Cassandra 5.0, as text: lexer, parser, syntax tree, printing. It does no I/O and
//! knows no schema.

mod lexer;

pub mod ast;
mod parser;
mod script;

mod class;
pub mod error;
mod snippet;

pub mod quoting;

pub use ast::Statement;
pub use class::{StatementClass, chooses_keyspace, only_reads};
pub use error::{SyntaxError, SyntaxErrorKind};
pub use parser::{TokenBudget, parse_statement, parse_statement_within, parse_type};
pub use script::split_statements;
