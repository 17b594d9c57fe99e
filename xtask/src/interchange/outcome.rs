//! Findings of the proofs, counted by what the cases were about.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::time::{Duration, Instant};

use helenus_sstable::SsTableFormat;
use helenus_storage_model::Case;

/// The proofs, by who wrote the files and who read them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Proof {
    /// Ours, read by Cassandra's offline tools.
    Tools,
    /// Ours, streamed into a running Cassandra and asked for by CQL there and from Helenus.
    Loaded,
    /// Flushed and compacted by Cassandra, read by us.
    Foreign,
}

impl Proof {
    fn about(self) -> &'static str {
        match self {
            Proof::Tools => "ours, through sstabledump, sstableverify, sstablescrub and sstablemetadata",
            Proof::Loaded => "ours, through sstableloader into Cassandra, and served by Helenus",
            Proof::Foreign => "Cassandra's, flushed and compacted, read and served by Helenus",
        }
    }
}

/// Passed and failed cases per line of the report.
#[derive(Default)]
pub struct Outcome {
    counts: BTreeMap<(Proof, SsTableFormat, String, String), Count>,
    failures: Vec<String>,
}

#[derive(Clone, Copy, Default)]
struct Count {
    passed: usize,
    failed: usize,
    partitions: usize,
    items: usize,
}

impl Outcome {
    /// Counts a case; a failure is printed at once.
    pub fn note(&mut self, proof: Proof, format: SsTableFormat, case: &Case, result: &Result<(), String>) {
        let key = (proof, format, case.compressor().to_owned(), case.kind.to_string());
        let count = self.counts.entry(key).or_default();
        count.partitions += case.partitions.len();
        count.items += case.item_count();
        match result {
            Ok(()) => count.passed += 1,
            Err(reason) => {
                count.failed += 1;
                let failure = format!(
                    "{proof:?} {} seed {} {}: {reason}",
                    format.name(),
                    case.seed,
                    case.kind
                );
                println!("  FAIL {}", failure.chars().take(1200).collect::<String>());
                self.failures.push(failure);
            }
        }
    }

    pub fn passed(&self) -> usize {
        self.counts.values().map(|count| count.passed).sum()
    }

    pub fn failed(&self) -> usize {
        self.failures.len()
    }

    /// The report as Markdown.
    pub fn report(&self, heading: &str) -> String {
        let mut out = format!("# Interchange with Cassandra 5.0\n\n{heading}\n");
        let mut last = None;
        for ((proof, format, compressor, kind), count) in &self.counts {
            if last != Some((proof, format)) {
                // Writing to a String cannot fail.
                let _ = writeln!(
                    out,
                    "\n## {}: {}\n\n| compressor | kind | passed | failed | partitions | rows and markers |\n\
                     |---|---|---:|---:|---:|---:|",
                    format.name(),
                    proof.about()
                );
                last = Some((proof, format));
            }
            let Count {
                passed,
                failed,
                partitions,
                items,
            } = count;
            let _ = writeln!(
                out,
                "| {compressor} | {kind} | {passed} | {failed} | {partitions} | {items} |"
            );
        }
        let _ = writeln!(out, "\n{} passed, {} failed.", self.passed(), self.failed());
        for failure in &self.failures {
            let _ = writeln!(out, "- {failure}");
        }
        out
    }
}

/// A line that says how far a proof is: rewritten on a terminal, and printed now and then elsewhere.
pub struct Progress {
    what: String,
    total: usize,
    last: Instant,
    every: Duration,
}

impl Progress {
    pub fn new(what: String, total: usize) -> Self {
        let every = if std::io::stderr().is_terminal() {
            Duration::from_millis(200)
        } else {
            Duration::from_secs(15)
        };
        Progress {
            what,
            total,
            last: Instant::now(),
            every,
        }
    }

    pub fn show(&mut self, done: usize, failed: usize) {
        let is_last = done == self.total;
        if self.last.elapsed() < self.every && !is_last {
            return;
        }
        self.last = Instant::now();
        let end = match (std::io::stderr().is_terminal(), is_last) {
            (true, false) => "\r",
            _ => "\n",
        };
        eprint!(
            "  {}: {done}/{} cases, {failed} failed{end}",
            self.what, self.total
        );
        // A line that cannot be shown is not worth a failure.
        let _ = std::io::stderr().flush();
    }
}
