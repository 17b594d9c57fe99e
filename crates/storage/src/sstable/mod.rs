//! SSTables: Cassandra's files, in all versions since 3.0. Each component has a page in `docs/formats`, and what the
//! versions differ in stands in [`Version`].
//!
//! A file is written once by [`SsTableWriter`], exists when its TOC does, and is read by [`SsTable`] until it is
//! removed. Nothing in a file is trusted: chunks are checked as they are read, and lengths before they are believed.

mod component;
mod component_reader;
mod descriptor;
mod directory;
mod error;
mod version;

mod table;

mod chunk_stream;
mod chunked_file;
mod page_cache;
mod pages;
mod read_cost;

mod backward;
mod cursor;
mod found_entries;
mod partition_reader;
mod row_decoder;
mod scanner;
mod stop;
mod stored_block;

mod writer;

mod block_file_writer;
mod collector;
mod component_writer;
mod index_writer;
mod row_encoder;
mod toc;

mod block_file;
mod blocks;
mod bloom;
mod bti;
mod cardinality;
mod checksums;
mod clustering_codec;
mod compression;
mod compressor;
mod decode;
mod deletion_codec;
mod encoding_stats;
mod header;
mod histogram;
mod index;
mod index_reader;
mod lz4_decoder;
mod lz4_encoder;
mod page_sums;
mod relabel;
mod salvage;
mod seal;
mod sidecar;
mod statistics;
mod statistics_file;
mod stored_metadata;
mod summary;

pub use component::Component;
pub use compression::CompressionParameters;
pub use compressor::Compressor;
pub use cursor::SsTableCursor;
pub use descriptor::{Descriptor, FileName, SsTableId};
pub use directory::{
    finished_sstables, foreign_sstables, publish_sstable, remove_sstable, remove_unfinished, table_folder,
};
pub use encoding_stats::{EncodingStats, EncodingStatsCollector};
pub use error::{OpenError, WriteError};
pub use helenus_schema::SsTableFormat;
pub use histogram::{EstimatedHistogram, TombstoneHistogram};
pub use page_cache::PageCache;
pub use pages::{AbsentPages, Pages, ReadTicket};
pub use read_cost::ReadCost;
pub use relabel::relabel_sstable;
pub use salvage::{Salvage, SalvageReader};
pub use scanner::SsTableScanner;
pub use seal::{SealError, seal_sstable};
pub use sidecar::SidecarFault;
pub use statistics::{KeyRange, SsTableStatistics};
pub use stored_metadata::StoredMetadata;
pub use table::SsTable;
pub use version::{IndexForm, Version};
pub use writer::{SsTableInfo, SsTableWriter, WriterOptions};
