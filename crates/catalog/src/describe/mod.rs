//! DESCRIBE, answered by the server as since Cassandra 4.0.

mod answer;
mod elements;
mod page;

mod cql_text;
mod create_statement;

pub use answer::{DescribeAnswer, DescribeColumn, describe};
pub use create_statement::{
    create_index_statement, create_table_statement, create_type_statement, create_view_statement,
};
pub use page::{page_offset, page_state};
