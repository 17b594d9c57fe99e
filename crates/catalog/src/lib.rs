//! A node's schema: changes of it by DDL, what DESCRIBE prints of it, how it is stored, and the system tables that tell of
//! it. Immutable snapshots of it are [`helenus_schema`]'s, statements on tables [`helenus_engine`]'s.

/// A [`CqlError::Invalid`](helenus_engine::CqlError::Invalid) with a formatted message.
macro_rules! invalid {
    ($($text:tt)*) => {
        helenus_engine::CqlError::invalid(format_args!($($text)*))
    };
}

pub mod ddl;

pub mod describe;
pub mod schema_store;
pub mod system;
