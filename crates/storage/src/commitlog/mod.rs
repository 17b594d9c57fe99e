//! The log of writes that are not in SSTables yet; `docs/formats/commitlog.md` has its bytes.
//!
//! Each shard has its own log, cut in halves that never wait for each other: the shard appends records to a buffer
//! (`CommitLog`) and hands what has gathered to a log thread, which writes and syncs it ([`LogWriter`]). At start
//! the logs of all shards are read back before any shard runs ([`replay()`]).

mod format;
mod position;

mod batch;
mod log;

mod flushed;
mod segment_files;
mod torn;
mod write_set;
mod writer;

pub mod error;
pub mod replay;

pub use batch::LogBatch;
pub use error::{LogAppendError, LogError, ReplayError, SegmentNotRemoved};
pub use flushed::FlushedPositions;
pub use format::{SEGMENT_BYTES_DEFAULT, shard_folder};
pub(crate) use log::CommitLog;
pub use log::LogOptions;
pub use position::LogPosition;
pub use replay::{ReplayedLog, replay};
pub use segment_files::SegmentFiles;
pub use write_set::{ResolvedWriteSets, WriteSetId, WriteSetNumbers, WriteSetPart};
pub use writer::LogWriter;
