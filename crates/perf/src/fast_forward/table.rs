//! Groups as text, column by column where ScyllaDB's tool has them.

use std::fmt;

use super::measurement::Columns;
use super::report::{CaseReport, GroupReport};

/// Name and width of each column.
const COLUMNS: [(&str, usize); 22] = [
    ("time (s)", 10),
    ("iterations", 12),
    ("frags", 9),
    ("frag/s", 10),
    ("mad f/s", 10),
    ("max f/s", 10),
    ("min f/s", 10),
    ("avg aio", 10),
    ("aio", 6),
    ("(KiB)", 10),
    ("blocked", 7),
    ("dropped", 7),
    ("idx hit", 8),
    ("idx miss", 8),
    ("idx blk", 8),
    ("c hit", 8),
    ("c miss", 8),
    ("c blk", 8),
    ("allocs", 9),
    ("tasks", 7),
    ("insns/f", 7),
    ("cpu", 6),
];

/// The least that a parameter takes.
const PARAMETER_WIDTH: usize = 7;

impl Columns {
    fn cells(&self) -> [String; 22] {
        let rounded = |value: f64| format!("{value:.0}");
        [
            format!("{:.6}", self.time_s),
            self.iterations.to_string(),
            self.frags.to_string(),
            rounded(self.frags_per_s),
            rounded(self.frags_per_s_mad),
            rounded(self.frags_per_s_max),
            rounded(self.frags_per_s_min),
            format!("{:.1}", self.aio_average),
            self.aio.to_string(),
            rounded(self.aio_kib),
            self.blocked.to_string(),
            self.dropped.to_string(),
            self.index_hits.to_string(),
            self.index_misses.to_string(),
            self.index_blocks.to_string(),
            self.cache_hits.to_string(),
            self.cache_misses.to_string(),
            self.cache_blocks.to_string(),
            self.allocations.to_string(),
            self.tasks.to_string(),
            self.instructions_per_frag.map_or_else(String::new, rounded),
            format!("{:.1}%", self.cpu),
        ]
    }
}

impl GroupReport {
    /// Heading and column names.
    fn header(&self) -> Vec<String> {
        let widths = self.parameter_widths();
        let mut line = String::from("  ");
        for (name, width) in self.parameters.iter().zip(widths) {
            line.push_str(&format!(" {name:<width$}"));
        }
        for (name, width) in COLUMNS {
            line.push_str(&format!(" {name:>width$}"));
        }
        vec![
            format!("running: {} on dataset {}", self.group, self.data_set),
            format!("{}:", self.description),
            line,
        ]
    }

    fn line(&self, case: &CaseReport) -> String {
        let mut line = String::from("->");
        for (value, width) in case.parameters.iter().zip(self.parameter_widths()) {
            line.push_str(&format!(" {value:<width$}"));
        }
        for (cell, (_, width)) in case.columns.cells().iter().zip(COLUMNS) {
            line.push_str(&format!(" {cell:>width$}"));
        }
        line
    }

    fn parameter_widths(&self) -> Vec<usize> {
        let width = |(index, name): (usize, &&str)| {
            let values = self.cases.iter().filter_map(|case| case.parameters.get(index));
            values
                .map(String::len)
                .chain([name.len(), PARAMETER_WIDTH])
                .max()
                .unwrap_or(0)
        };
        self.parameters.iter().enumerate().map(width).collect()
    }
}

impl fmt::Display for GroupReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in self.header() {
            writeln!(out, "{}", line.trim_end())?;
        }
        for case in &self.cases {
            writeln!(out, "{}", self.line(case))?;
        }
        Ok(())
    }
}
