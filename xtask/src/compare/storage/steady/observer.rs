//! Looks at a server once a second from outside: the processor time of its threads by purpose, and what its files take.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::TaskError;
use crate::compare::figures::{cpu_seconds, proc_file, thread_times, value_of};
use crate::node::Node;

/// Purpose of a thread's work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    Request,
    Log,
    Flush,
    Compaction,
    /// Also a virtual machine's compiler and its garbage collection.
    Other,
}

impl Purpose {
    pub const ALL: [Purpose; 5] = [
        Purpose::Request,
        Purpose::Log,
        Purpose::Flush,
        Purpose::Compaction,
        Purpose::Other,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Purpose::Request => "requests",
            Purpose::Log => "log",
            Purpose::Flush => "flush",
            Purpose::Compaction => "compaction",
            Purpose::Other => "other",
        }
    }
}

/// Beginnings of names as Linux keeps them, 15 bytes: first ours, then Cassandra's.
const THREADS: [(&str, Purpose); 16] = [
    ("shard-", Purpose::Request),
    ("plan-", Purpose::Request),
    ("disk-read", Purpose::Request),
    ("log-", Purpose::Log),
    ("flush-", Purpose::Flush),
    ("compact-", Purpose::Compaction),
    ("Native-Transpor", Purpose::Request),
    ("MutationStage", Purpose::Request),
    ("ReadStage", Purpose::Request),
    ("epollEventLoop", Purpose::Request),
    ("COMMIT-LOG", Purpose::Log),
    ("PERIODIC-COMMIT", Purpose::Log),
    ("GROUP-COMMIT", Purpose::Log),
    ("MemtableFlushWr", Purpose::Flush),
    ("PerDiskMemtable", Purpose::Flush),
    ("CompactionExecu", Purpose::Compaction),
];

const INTERVAL: Duration = Duration::from_secs(1);

/// Measurements of one moment. Times and bytes count from the beginning of the phase.
#[derive(Clone, Debug, Default)]
pub struct Observation {
    pub at_s: f64,
    /// In the order of [`Purpose::ALL`].
    pub cpu_s: [f64; Purpose::ALL.len()],
    /// Written to files by the process, the log included.
    pub written_bytes: u64,
    /// Size of the files, not since the beginning of the phase but in all.
    pub file_bytes: u64,
    /// Size of the tables' files, the log not included.
    pub table_bytes: u64,
    /// Reads of SSTables, where the server counts them.
    pub disk_reads: f64,
    /// Written by compactions, where the server counts it.
    pub compacted_bytes: f64,
}

/// A thread that looks until it is stopped.
pub struct Observer {
    stop: Sender<()>,
    thread: JoinHandle<Vec<Observation>>,
}

impl Observer {
    pub fn start(node: &Node) -> Self {
        let mut eye = Eye::new(node);
        let (stop, stopped) = mpsc::channel();
        let thread = thread::spawn(move || {
            let mut seen = vec![eye.look()];
            loop {
                let is_over = !matches!(stopped.recv_timeout(INTERVAL), Err(RecvTimeoutError::Timeout));
                seen.push(eye.look());
                if is_over {
                    return seen;
                }
            }
        });
        Observer { stop, thread }
    }

    pub fn stop(self) -> Result<Vec<Observation>, TaskError> {
        // The thread ends by nothing else, so that it is there to hear it.
        let _heard = self.stop.send(());
        self.thread.join().map_err(|_panic| TaskError::Report {
            text: "whoever looked at the server panicked".to_owned(),
        })
    }
}

struct Eye {
    process_id: u32,
    folder: Option<PathBuf>,
    metrics: Option<std::net::SocketAddr>,
    began: Instant,
    /// Nanoseconds of each thread at the last look.
    threads: HashMap<String, u64>,
    /// Before the first look.
    before: Option<Totals>,
    /// Processor time of threads with a purpose.
    named_cpu_s: [f64; Purpose::ALL.len()],
}

/// Since the process began.
#[derive(Clone, Copy, Default)]
struct Totals {
    cpu_s: f64,
    written_bytes: u64,
    disk_reads: f64,
    compacted_bytes: f64,
}

impl Eye {
    fn new(node: &Node) -> Self {
        Eye {
            process_id: node.process_id().unwrap_or_default(),
            folder: node.data_folder(),
            metrics: node.metrics_address(),
            began: Instant::now(),
            threads: HashMap::new(),
            before: None,
            named_cpu_s: [0.0; Purpose::ALL.len()],
        }
    }

    fn look(&mut self) -> Observation {
        let is_first = self.before.is_none();
        let totals = self.totals();
        let before = *self.before.get_or_insert(totals);
        self.add_threads(is_first);
        let mut cpu_s = self.named_cpu_s;
        let all = totals.cpu_s - before.cpu_s;
        cpu_s[Purpose::Other as usize] = (all - cpu_s.iter().sum::<f64>()).max(0.0);
        Observation {
            at_s: self.began.elapsed().as_secs_f64(),
            cpu_s,
            written_bytes: totals.written_bytes - before.written_bytes,
            file_bytes: self.folder.as_deref().map_or(0, bytes_below),
            table_bytes: self
                .folder
                .as_deref()
                .map_or(0, |folder| bytes_below(&folder.join("data"))),
            disk_reads: totals.disk_reads - before.disk_reads,
            compacted_bytes: totals.compacted_bytes - before.compacted_bytes,
        }
    }

    fn totals(&self) -> Totals {
        let metrics = self
            .metrics
            .and_then(|address| crate::node::metrics_page(address).ok())
            .unwrap_or_default();
        Totals {
            cpu_s: cpu_seconds(self.process_id),
            written_bytes: value_of(&proc_file(self.process_id, "io"), "write_bytes:") as u64,
            disk_reads: value_of(&metrics, "helenus_disk_reads_total"),
            compacted_bytes: value_of(&metrics, "helenus_compaction_written_bytes_total"),
        }
    }

    /// Adds the time of threads with a purpose since the last look; what one took between it and its end is with the others.
    fn add_threads(&mut self, is_first: bool) {
        // A process that has ended is seen by whoever waits for its answers.
        for thread in thread_times(self.process_id).unwrap_or_default() {
            let purpose = THREADS.iter().find(|(wanted, _)| thread.name.starts_with(wanted));
            let Some((_, purpose)) = purpose else {
                continue;
            };
            let last = self.threads.insert(thread.id, thread.nanoseconds).unwrap_or(0);
            if !is_first {
                self.named_cpu_s[*purpose as usize] += thread.nanoseconds.saturating_sub(last) as f64 / 1e9;
            }
        }
    }
}

/// Files come and go while they are counted.
fn bytes_below(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else {
        return 0;
    };
    let of_entry = |entry: fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => bytes_below(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries.flatten().map(of_entry).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purpose_is_where_all_say_it_is() {
        for (index, purpose) in Purpose::ALL.into_iter().enumerate() {
            assert_eq!(purpose as usize, index);
        }
    }
}
