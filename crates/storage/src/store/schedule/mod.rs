//! The background work that a shard has.

mod choosing;
mod completing;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use helenus_schema::TableId;

use super::compaction_history::CompactionHistory;
use super::compaction_request::{CompactionTicket, CompactionTotals};
use super::job::{JobError, ObsoleteFiles};
use super::table::Table;
use crate::compaction::Pace;
use crate::memtable::Memtable;
use helenus_rows::layout::TableLayout;

/// After a failed job no other is begun for a second, then two, then four..
pub(super) const RETRY_DELAY_NS_MIN: u64 = 1_000_000_000;
/// ..up to a minute: a disk that was full may have room again.
pub(super) const RETRY_DELAY_NS_MAX: u64 = 60 * RETRY_DELAY_NS_MIN;

/// Failed requests that are remembered. Whoever asked is told within moments; only those who gave up waiting are never.
const FAILED_REQUESTS_MAX: usize = 64;

/// One for the large compaction that takes an hour, one for the small ones that come meanwhile.
pub const COMPACTIONS_PER_SHARD_MAX: usize = 2;

/// Between jobs.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    /// SSTables that nothing reads any more, by table.
    removals: Vec<Obsolete>,
    /// Dropped tables whose files may still come or go: an entry for each job and each removal that is not done.
    leaving: Vec<TableId>,
    /// Memtables that nothing reads any more. Freeing millions of rows takes longer than a shard may stand still; until then they count.
    garbage: Vec<(Arc<TableLayout>, Arc<Memtable>)>,
    /// Compactions under way.
    compactions: usize,
    /// One at a time: they are in nobody's way then.
    index_builds: usize,
    pub pace: Arc<Pace>,
    pub totals: CompactionTotals,
    pub history: CompactionHistory,
    last_ticket: u64,
    /// Requests whose compactions run, each with the number of its job.
    requests_running: Vec<(CompactionTicket, u64)>,
    /// Requests whose compactions failed, and why, until whoever asked is told; the latest last.
    requests_failed: VecDeque<(CompactionTicket, String)>,
    /// A request had nothing to do: whoever waits for it does not know yet.
    has_settled_request: bool,
    /// Number of tables whose flushes have failed again.
    pub failing_tables: usize,
    /// True while a table is written to the log again.
    pub is_rewriting: bool,
    /// A sealed memtable waits until the log is durable.
    is_waiting_for_log: bool,
    /// Something has changed since there was no job to be had.
    has_news: bool,
    look_again_ns: u64,
    retry_delay_ns: u64,
    not_before_ns: u64,
    is_list_wanted: bool,
    /// Lists of what dropped tables have left that are being made for the first time.
    lists_under_way: usize,
    /// Jobs of tables that were dropped meanwhile, some of which may still make SSTables.
    jobs_of_dropped: usize,
}

#[derive(Debug)]
struct Obsolete {
    layout: Arc<TableLayout>,
    folder: PathBuf,
    files: ObsoleteFiles,
    is_table_dropped: bool,
    /// It was tried, and is to be tried again.
    has_failed: bool,
}

impl Obsolete {
    /// Returns whether a DROP waits for its list.
    fn awaits_list(&self) -> bool {
        self.is_table_dropped && !self.has_failed && self.files.is_unlisted()
    }
}

impl Schedule {
    /// All that a dropped table leaves. Its SSTables are listed by a job, and from then on a crash brings none of them back.
    pub fn remove_dropped(&mut self, table: Table) {
        let id = table.layout.metadata.id;
        let removals = self.removals.iter_mut();
        for obsolete in removals.filter(|obsolete| obsolete.layout.metadata.id == id) {
            obsolete.is_table_dropped = true;
        }
        let mut sstables = match table.truncation.is_under_way() {
            // That lists them.
            true => Vec::new(),
            false => table
                .sstables
                .iter()
                .map(|sstable| sstable.descriptor())
                .collect(),
        };
        sstables.extend(table.undecided);
        table.jobs.iter().for_each(|job| job.stop());
        let files = ObsoleteFiles::Unlisted(sstables);
        self.jobs_of_dropped += table.jobs.len();
        let left_to_do = table.jobs.len() + table.removals + 1;
        self.leaving.extend(std::iter::repeat_n(id, left_to_do));
        self.remove(Obsolete {
            layout: Arc::clone(&table.layout),
            folder: table.folder,
            files,
            is_table_dropped: true,
            has_failed: false,
        });
        self.release(
            &table.layout,
            table
                .sealed
                .into_iter()
                .map(|sealed| sealed.memtable)
                .chain(table.absorbing.into_iter().map(|absorption| absorption.memtable))
                .chain([Arc::new(table.active)]),
        );
    }

    pub fn release(&mut self, layout: &Arc<TableLayout>, memtables: impl IntoIterator<Item = Arc<Memtable>>) {
        self.garbage.extend(
            memtables
                .into_iter()
                .map(|memtable| (Arc::clone(layout), memtable)),
        );
        self.has_news = true;
    }

    pub fn has_garbage(&self) -> bool {
        !self.garbage.is_empty()
    }

    pub fn is_waiting_for_log(&self) -> bool {
        self.is_waiting_for_log
    }

    /// Somebody waits for a list of SSTables that are to go: it is made next, whatever has failed before.
    pub fn note_list_wanted(&mut self) {
        self.is_list_wanted = true;
        self.has_news = true;
    }

    /// Returns whether a crash brings back no SSTable of a table that was dropped, but for those of which the list could not be
    /// made yet.
    pub fn are_drops_listed(&self) -> bool {
        self.jobs_of_dropped == 0
            && self.lists_under_way == 0
            && !self.removals.iter().any(Obsolete::awaits_list)
    }

    /// There may be a job now.
    pub fn note_news(&mut self) {
        self.has_news = true;
    }

    /// Returns whether no file of a dropped table is left, nor will come.
    pub fn has_left(&self, id: TableId) -> bool {
        !self.leaving.contains(&id)
    }

    pub fn note_log_progress(&mut self) {
        self.has_news |= self.is_waiting_for_log;
    }

    fn remove(&mut self, obsolete: Obsolete) {
        self.has_news = true;
        self.is_list_wanted |= obsolete.awaits_list();
        self.removals.push(obsolete);
    }

    pub fn new_ticket(&mut self) -> CompactionTicket {
        self.has_news = true;
        self.last_ticket += 1;
        CompactionTicket(self.last_ticket)
    }

    pub fn is_running(&self, ticket: CompactionTicket) -> bool {
        self.requests_running
            .iter()
            .any(|(running, _)| *running == ticket)
    }

    fn request_ended(&mut self, number: u64, error: Option<&JobError>) {
        let of_job = |(_, running): &(CompactionTicket, u64)| *running == number;
        let Some(place) = self.requests_running.iter().position(of_job) else {
            return;
        };
        let (ticket, _) = self.requests_running.swap_remove(place);
        if let Some(error) = error.filter(|error| !matches!(error, JobError::Stopped)) {
            self.request_failed(ticket, error.to_string());
        }
    }

    fn request_failed(&mut self, ticket: CompactionTicket, reason: String) {
        if self.requests_failed.len() >= FAILED_REQUESTS_MAX {
            self.requests_failed.pop_front();
        }
        self.requests_failed.push_back((ticket, reason));
    }

    /// Why the compaction of a request failed; once.
    pub fn take_failure(&mut self, ticket: CompactionTicket) -> Option<String> {
        let place = self
            .requests_failed
            .iter()
            .position(|(failed, _)| *failed == ticket)?;
        self.requests_failed.remove(place).map(|(_, reason)| reason)
    }

    fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.not_before_ns && (self.has_news || now_ns >= self.look_again_ns)
    }

    /// Returns whether files of a table could not be removed when that was tried last.
    pub fn is_failing_to_remove(&self, id: TableId) -> bool {
        let mut removals = self.removals.iter();
        removals.any(|obsolete| obsolete.has_failed && obsolete.layout.metadata.id == id)
    }

    fn job_done(&mut self, failed: bool, now_ns: u64) {
        self.has_news = true;
        if failed {
            self.retry_delay_ns = (self.retry_delay_ns * 2).clamp(RETRY_DELAY_NS_MIN, RETRY_DELAY_NS_MAX);
            self.not_before_ns = now_ns + self.retry_delay_ns;
        } else {
            self.retry_delay_ns = 0;
        }
    }
}
