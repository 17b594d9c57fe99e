//! SSTables: Cassandra's files, in all versions since 3.0. Each component has a page in `docs/formats`, and what the
//! versions differ in stands in [`Version`].
//!
//! A file is written once by [`SsTableWriter`], exists when its TOC does, and is read by [`SsTable`] until it is
//! removed. Nothing in a file is trusted: chunks are checked as they are read, and lengths before they are believed.

mod component;
mod component_reader;
mod component_writer;
mod corruption;
mod descriptor;
mod directory;
pub mod error;
mod toc;
mod version;

pub mod source;

mod read_cost;
mod table;
mod writer;

mod block;
mod rows;

mod big;
mod bti;
mod index;

mod meta;

pub mod terms;

mod decode;
mod relabel;
mod salvage;
mod seal;
mod sidecar;

pub use block::absent_pages::AbsentPages;
pub use block::compression::CompressionParameters;
pub use block::compressor::Compressor;
pub use block::ghosts::{Ghosts, Worth};
pub use block::page_cache::{PageCache, PageLevel};
pub use block::pages::Pages;
pub use block::ticket::ReadTicket;
pub use component::Component;
pub use descriptor::{Descriptor, FileName, SsTableId};
pub use directory::{
    finished_sstables, foreign_sstables, publish_sstable, remove_if_there, remove_sstable, remove_unfinished,
    table_folder,
};
pub use error::{OpenError, ReadError, WriteError};
pub use helenus_schema::SsTableFormat;
pub use meta::cardinality::{Cardinality, KeySketch};
pub use meta::encoding_stats::{EncodingStats, EncodingStatsCollector};
pub use meta::histogram::{EstimatedHistogram, TombstoneHistogram};
pub use meta::statistics::{KeyRange, SsTableStatistics};
pub use meta::stored_metadata::StoredMetadata;
pub use read_cost::ReadCost;
pub use relabel::relabel_sstable;
pub use rows::cursor::SsTableCursor;
pub use rows::scanner::SsTableScanner;
pub use salvage::{Salvage, SalvageReader};
pub use seal::{SealError, seal_sstable};
pub use sidecar::{Sidecar, SidecarFault};
pub use table::SsTable;
pub use version::{IndexForm, Version};
pub use writer::{SsTableInfo, SsTableWriter, WriterOptions};
