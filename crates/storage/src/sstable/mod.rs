//! SSTables: Cassandra's files of version `nb` in the `big` format, byte for byte as Cassandra 5.0 writes them by
//! default. Each component has a page in `docs/formats`.
//!
//! A file is written once by [`SsTableWriter`], exists when its TOC does, and is read by [`SsTable`] until it is
//! removed. Nothing in a file is trusted: chunks are checked as they are read, and lengths before they are believed.

mod component;
mod error;

mod table;

mod chunk_stream;
mod chunked_file;
mod page_cache;
mod pages;
mod read_cost;

mod cursor;
mod partition_reader;
mod row_decoder;
mod scanner;

mod writer;

mod collector;
mod component_writer;
mod row_encoder;

mod bloom;
mod cardinality;
mod checksums;
mod clustering_codec;
mod compression;
mod decode;
mod encoding_stats;
mod header;
mod histogram;
mod index;
mod statistics;
mod summary;

pub use component::{
    Component, Generation, finished_generations, remove_sstable, remove_unfinished, table_folder,
};
pub use compression::{CompressionParameters, Compressor};
pub use cursor::SsTableCursor;
pub use encoding_stats::{EncodingStats, EncodingStatsCollector};
pub use error::{OpenError, WriteError};
pub use histogram::{EstimatedHistogram, TombstoneHistogram};
pub use page_cache::PageCache;
pub use pages::{AbsentPages, Pages, ReadTicket};
pub use read_cost::ReadCost;
pub use scanner::SsTableScanner;
pub use statistics::SsTableStatistics;
pub use table::SsTable;
pub use writer::{SsTableInfo, SsTableWriter, WriterOptions};
