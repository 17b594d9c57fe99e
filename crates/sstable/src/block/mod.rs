//! Bytes of files in pages and chunks: checked, compressed, cached, and fetched for reads that wait for them.

pub(crate) mod absent_pages;
pub(crate) mod checksums;
pub(crate) mod chunk_stream;
pub(crate) mod chunked_file;
pub(crate) mod compression;
pub(crate) mod compressor;
pub(crate) mod ghosts;
pub(crate) mod lz4_decoder;
pub(crate) mod lz4_encoder;
pub(crate) mod page_bytes;
pub(crate) mod page_cache;
pub(crate) mod page_sums;
#[cfg(test)]
mod page_traces;
pub(crate) mod pages;
pub(crate) mod segment_memory;
pub(crate) mod segmented_pages;
pub(crate) mod spare_pages;
pub(crate) mod ticket;
