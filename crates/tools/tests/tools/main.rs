//! The operator's commands on files.

mod dump;
mod files;
mod import;
mod parquet;
mod scrub;
