//! The operator's commands on files.

mod dump;
mod files;
mod fixtures;
mod import;
mod parquet;
mod scrub;
