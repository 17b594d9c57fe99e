//! Rows and markers to and from the bytes of Data.db.

pub(crate) mod backward;
pub(crate) mod clustering_codec;
pub(crate) mod cursor;
pub(crate) mod deletion_codec;
pub(crate) mod partition_reader;
pub(crate) mod row_decoder;
pub(crate) mod row_encoder;
pub(crate) mod scanner;
pub(crate) mod skipping;
pub(crate) mod stop;
pub(crate) mod stored_block;
