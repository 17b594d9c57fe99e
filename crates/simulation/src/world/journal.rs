//! Journal of a seed's events.

use std::collections::VecDeque;
use std::fmt::Display;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use helenus_test_node::Answer;

use crate::clock::SimulatedClock;

/// Lines of the trace that a failure shows.
const TRACE_LINES_MAX: usize = 400;

/// Record of events, for who looks for a fault.
pub struct Journal {
    clock: Arc<SimulatedClock>,
    lines: VecDeque<String>,
    fingerprint: DefaultHasher,
}

impl Journal {
    pub fn new(clock: Arc<SimulatedClock>) -> Self {
        Journal {
            clock,
            lines: VecDeque::new(),
            fingerprint: DefaultHasher::new(),
        }
    }

    /// The same for two runs in which the same happened.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint.finish()
    }

    /// Oldest first.
    pub fn trace(&self) -> Vec<String> {
        self.lines.iter().cloned().collect()
    }

    pub fn note(&mut self, what: impl Display) {
        let elapsed = self.clock.elapsed();
        let line = format!("{:>12.3} ms  {what}", elapsed.as_secs_f64() * 1_000.0);
        line.hash(&mut self.fingerprint);
        if self.lines.len() == TRACE_LINES_MAX {
            self.lines.pop_front();
        }
        let end = line.char_indices().nth(240).map_or(line.len(), |(end, _)| end);
        self.lines.push_back(line[..end].to_owned());
    }
}

/// Returns as much of a statement as tells it from others.
pub fn shortened(text: &str) -> &str {
    text.get(..100).unwrap_or(text)
}

pub fn brief(answer: &Answer) -> String {
    match answer {
        Answer::Rows(rows) => format!("{} rows", rows.rows.len()),
        Answer::Error { code, message } => format!("{code:?}: {message}"),
        other => format!("{other:?}"),
    }
}
