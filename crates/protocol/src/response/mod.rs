//! Responses: bodies that a server appends to its output, and that a client decodes as views.

mod error;
mod event;
mod metadata;
mod prelude;
mod received;
mod refusal;
mod result;
mod session;

pub use error::{ErrorBody, WireError, write_error};
pub use event::{
    Event, SchemaChange, SchemaChangeKind, SchemaTarget, StatusChange, TopologyChange, write_event,
};
pub use metadata::{BindMetadata, ColumnSpec, MetadataFlags, ResultMetadata};
pub use prelude::Prelude;
pub use received::{
    ReceivedColumn, ReceivedColumns, ReceivedError, ReceivedMarkers, ReceivedPrelude, ReceivedPrepared,
    ReceivedResult, ReceivedRow, ReceivedRows, Response, StringList, Supported,
};
pub use refusal::write_refusal;
pub use result::{
    MetadataForm, RowsWriter, write_prepared, write_schema_change, write_set_keyspace, write_void,
};
pub use session::{
    SupportedWriter, write_auth_challenge, write_auth_success, write_authenticate, write_ready,
};
