//! The keyspaces that every node has: what they are, and the rows that are made from code.

mod names;

pub use names::{
    is_local_system_keyspace, is_replicated_system_keyspace, is_system_keyspace, is_virtual_system_keyspace,
};
