//! The schema on disk: one file, replaced as a whole by every change (docs/formats/schema.md).
//!
//! Only one owner saves. After [`SchemaStore::save`] returned, the new schema survives a crash; if it fails or the node
//! dies in between, the file is still the one before.

mod file;
mod stored_index;
mod stored_params;
mod stored_schema;

pub use file::{SchemaStore, SchemaStoreError};
pub(crate) use stored_schema::encode_schema;
pub use stored_schema::types_beyond_bounds;
