//! Operators' tools for SSTables and snapshots: to look into them, check them, save, keep and move them.
//!
//! Everything works on files alone and blocks. A running node lends its files through `helenus_node::Operator`; the
//! control socket's messages are here too, so that the command line and the server speak the same.

pub mod progress;
pub mod times;

pub mod host;
pub mod stopped_node;

pub mod node_schema;
pub mod schema_text;

pub mod target;

pub mod dump;
pub mod export;
pub mod metadata;
pub mod scrub;
pub mod verify;

pub mod import;
pub mod snapshot;

pub mod control;
