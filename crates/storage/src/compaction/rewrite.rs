//! Copying merged partitions into a new SSTable, without what has done its work.

use std::sync::Arc;

use helenus_events::{Event, Events};
use helenus_schema::TableMetadata;
use helenus_types::Token;

use helenus_rows::deletion::DeletionTime;
use helenus_rows::guardrails::PartitionGuardrails;
use helenus_rows::layout::TableLayout;
use helenus_rows::row::purge::{Purge, keep_columns, purge_row};
use helenus_rows::row::{RowRef, merge};
use helenus_sstable::error::ReadError;
use helenus_sstable::source::{PartitionCursor, Unfiltered};
use helenus_sstable::{SsTableWriter, WriteError};

/// Purge rule of deletions: whether and when they go.
#[derive(Clone, Copy, Debug)]
pub enum PurgeRule {
    /// A flush: other sources may hold what the deletions hide.
    KeepAll,
    Purge(Purge),
}

/// Buffers that partitions share.
#[derive(Debug, Default)]
pub struct Rewritten {
    filtered: Vec<u8>,
    purged: Vec<u8>,
    static_row: Vec<u8>,
    pub partitions: u64,
    pub rows: u64,
    /// Has something to say of rows.
    row_guard: Option<Arc<RowGuard>>,
    /// Looks in every now and then, also within a partition.
    watch: Option<Box<dyn Watch>>,
    /// Uncompressed bytes of the writer from which on the watch looks in again.
    watch_at_bytes: u64,
}

/// Warns of what rows hold; they were written long ago, so that nothing is refused.
#[derive(Debug)]
pub(crate) struct RowGuard {
    pub events: Events,
    pub guardrails: PartitionGuardrails,
    pub table: Arc<TableMetadata>,
    /// Seconds since the Unix epoch.
    pub now_s: u32,
}

impl RowGuard {
    fn look(&self, key: &[u8], clustering: Option<&[u8]>, row: RowRef<'_>) {
        let (guardrails, table) = (&self.guardrails, &self.table);
        for line in guardrails.check_row(table, key, clustering, row, self.now_s) {
            self.events.event(&Event::Guardrail { violation: &line });
        }
    }
}

/// Destination of a rewrite.
#[derive(Debug)]
pub struct RewriteTarget<'a> {
    pub writer: &'a mut SsTableWriter,
    pub observer: Option<&'a mut dyn WrittenRows>,
}

impl<'a> From<&'a mut SsTableWriter> for RewriteTarget<'a> {
    fn from(writer: &'a mut SsTableWriter) -> Self {
        RewriteTarget {
            writer,
            observer: None,
        }
    }
}

/// Observer of what a rewrite writes, in its order: each partition of which something is left, and its rows.
pub trait WrittenRows: std::fmt::Debug {
    /// A partition begins. Its static row is empty where it has none.
    fn partition(&mut self, token: Token, key: &[u8], static_row: RowRef<'_>);

    fn row(&mut self, token: Token, key: &[u8], clustering: &[u8], row: RowRef<'_>);
}

/// Observer of a rewrite, which may end it or make it wait.
pub trait Watch: std::fmt::Debug {
    /// Called after about `WATCH_BYTES` of output, with how many there were.
    fn look(&mut self, bytes: u64) -> Result<(), Stopped>;
}

/// The work is not wanted any more.
#[derive(Debug, thiserror::Error)]
#[error("stopped")]
pub struct Stopped;

/// A millisecond of work.
pub const WATCH_BYTES: u64 = 256 << 10;

/// Copying failed on one side or the other.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RewriteError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

impl Rewritten {
    pub(crate) fn watched_by(watch: Box<dyn Watch>) -> Self {
        Rewritten {
            watch: Some(watch),
            watch_at_bytes: WATCH_BYTES,
            ..Rewritten::default()
        }
    }

    pub(crate) fn guarded_by(mut self, row_guard: RowGuard) -> Self {
        self.row_guard = Some(Arc::new(row_guard));
        self
    }

    /// Where a new writer begins.
    pub(crate) fn writer_begins(&mut self) {
        self.watch_at_bytes = WATCH_BYTES;
    }

    fn look(&mut self, data_bytes: u64) -> Result<(), Stopped> {
        let bytes = (data_bytes + WATCH_BYTES).saturating_sub(self.watch_at_bytes);
        self.watch_at_bytes = data_bytes + WATCH_BYTES;
        match &mut self.watch {
            Some(watch) => watch.look(bytes),
            None => Ok(()),
        }
    }

    /// Has the watch look in whatever the writer has written since.
    pub(crate) fn look_now(&mut self, writer: &SsTableWriter) -> Result<(), Stopped> {
        self.look(writer.data_bytes())
    }
}

/// Copies one partition, if anything of it is left.
pub fn rewrite_partition(
    layout: &TableLayout,
    token: Token,
    key: &[u8],
    cursor: &mut dyn PartitionCursor,
    rule: PurgeRule,
    target: RewriteTarget<'_>,
    scratch: &mut Rewritten,
) -> Result<(), RewriteError> {
    let deletion = cursor.deletion();
    let kept_deletion = rule.keep_deletion(deletion);
    let static_row = rule.keep_static_row(layout, cursor, scratch);
    let guard = scratch.row_guard.clone();
    if let Some(guard) = &guard {
        guard.look(key, None, RowRef::new(&static_row));
    }
    let mut output = Output {
        target,
        token,
        key,
        deletion: kept_deletion,
        static_row: if static_row.is_empty() {
            RowRef::EMPTY
        } else {
            RowRef::new(&static_row)
        },
        is_begun: false,
    };
    if !kept_deletion.is_live() || !static_row.is_empty() {
        output.begin()?;
    }
    let mut in_force = DeletionTime::LIVE;
    let mut written = DeletionTime::LIVE;
    while cursor.advance()? {
        let data_bytes = output.target.writer.data_bytes();
        if data_bytes >= scratch.watch_at_bytes {
            scratch.look(data_bytes)?;
        }
        match cursor.current() {
            Unfiltered::Row { clustering, row } => {
                if let Some(row) = rule.keep_row(layout, row, deletion.max(in_force), scratch) {
                    output.begin()?;
                    if let Some(guard) = &guard {
                        guard.look(key, Some(clustering), row);
                    }
                    output.row(clustering, row)?;
                    scratch.rows += 1;
                }
            }
            Unfiltered::Marker {
                bound,
                deletion: changed,
            } => {
                in_force = changed;
                let kept = rule.keep_range_deletion(changed, deletion);
                if kept != written {
                    output.begin()?;
                    output.target.writer.marker(bound, written, kept)?;
                    written = kept;
                }
            }
        }
    }
    if output.is_begun {
        output.target.writer.end_partition()?;
        scratch.partitions += 1;
    }
    scratch.static_row = static_row;
    Ok(())
}

impl PurgeRule {
    fn keep_deletion(&self, deletion: DeletionTime) -> DeletionTime {
        match self {
            PurgeRule::Purge(purge) if purge.allows_deletion(deletion) => DeletionTime::LIVE,
            _ => deletion,
        }
    }

    /// A range deletion that the partition's own does not cover.
    fn keep_range_deletion(&self, deletion: DeletionTime, of_partition: DeletionTime) -> DeletionTime {
        if deletion.supersedes(of_partition) {
            self.keep_deletion(deletion)
        } else {
            DeletionTime::LIVE
        }
    }

    /// Copied to the buffer of `scratch`, which is given back when the partition is over: the cursor that holds it moves on.
    fn keep_static_row(
        &self,
        layout: &TableLayout,
        cursor: &dyn PartitionCursor,
        scratch: &mut Rewritten,
    ) -> Vec<u8> {
        let mut kept = std::mem::take(&mut scratch.static_row);
        kept.clear();
        if let Some(row) = self.keep_row(layout, cursor.static_row(), cursor.deletion(), scratch) {
            kept.extend_from_slice(row.as_bytes());
        }
        kept
    }

    fn keep_row<'a>(
        &self,
        layout: &TableLayout,
        row: RowRef<'a>,
        shadow: DeletionTime,
        scratch: &'a mut Rewritten,
    ) -> Option<RowRef<'a>> {
        let row = if shadow.is_live() {
            row
        } else {
            scratch.filtered.clear();
            merge::filter(row, shadow, &mut scratch.filtered);
            RowRef::new(&scratch.filtered)
        };
        match self {
            PurgeRule::KeepAll => {
                let row = keep_columns(&layout.shape, row, &mut scratch.purged);
                (!row.is_empty()).then_some(row)
            }
            PurgeRule::Purge(purge) => purge_row(&layout.shape, row, purge, &mut scratch.purged),
        }
    }
}

/// A partition that is begun when its first content comes.
struct Output<'a, 't> {
    target: RewriteTarget<'t>,
    token: Token,
    key: &'a [u8],
    deletion: DeletionTime,
    static_row: RowRef<'a>,
    is_begun: bool,
}

impl Output<'_, '_> {
    fn begin(&mut self) -> Result<(), WriteError> {
        if !self.is_begun {
            self.is_begun = true;
            let (token, key, static_row) = (self.token, self.key, self.static_row);
            self.target
                .writer
                .begin_partition(token, key, self.deletion, static_row)?;
            if let Some(observer) = &mut self.target.observer {
                observer.partition(token, key, static_row);
            }
        }
        Ok(())
    }

    fn row(&mut self, clustering: &[u8], row: RowRef<'_>) -> Result<(), WriteError> {
        self.target.writer.row(clustering, row)?;
        if let Some(observer) = &mut self.target.observer {
            observer.row(self.token, self.key, clustering, row);
        }
        Ok(())
    }
}
