//! Figures that ScyllaDB has published, beside ours.

use std::fmt::Write;

use super::report::{CaseReport, FastForwardReport};

/// Reads and KiB of one case: of 1,000,000 rows with index blocks of 1 KiB, none in memory.
struct Published {
    group: &'static str,
    /// The parameters of our case.
    parameters: [&'static str; 3],
    big: &'static str,
    trie: &'static str,
}

/// ScyllaDB's pull request 20522, after it, and the trie index that followed.
const PUBLISHED: [Published; 6] = [
    few_rows(["500000", "1", "1"], "20 / 137", "5 / 20"),
    few_rows(["0", "1000000", "1"], "15 / 116", "4 / 16"),
    few_rows(["0", "500000", "2"], "29 / 284", "8 / 88"),
    few_rows(["0", "250000", "4"], "56 / -", "16 / -"),
    few_rows(["0", "125000", "8"], "106 / -", "31 / -"),
    few_rows(["0", "62500", "16"], "195 / 1,732", "54 / 1,056"),
];

const fn few_rows(parameters: [&'static str; 3], big: &'static str, trie: &'static str) -> Published {
    Published {
        group: "large-partition-select-few-rows",
        parameters,
        big,
        trie,
    }
}

impl FastForwardReport {
    /// A page of all tables, and of what was published where it is of the same cases.
    pub fn to_markdown(&self, command: &str) -> String {
        let population = &self.population;
        let mut page = format!(
            "# perf fast-forward\n\n`{command}`: {} rows of {} bytes, index blocks of {} bytes, format {}, {}; row cache \
             {}; {}.\n",
            population.rows,
            population.value_bytes,
            population.column_index_bytes,
            population.sstable_format,
            if population.with_compression {
                "compressed"
            } else {
                "not compressed"
            },
            if self.enable_cache { "on" } else { "off" },
            if self.keep_cache_across_test_cases {
                "caches kept from case to case"
            } else {
                "every reading cold, the operating system's cache included"
            },
        );
        page.push_str(
            "\n`aio` and `(KiB)` are reads of the median reading, `blocked` waits for the disk, `dropped` pages read \
             ahead and not\nused, `idx` pages of the index, `c` the row cache (reads answered, reads that needed \
             SSTables, slices filled in).\nInstructions are blank where the processor does not count them.\n",
        );
        self.compare(&mut page);
        for group in &self.groups {
            // Writing to a string cannot fail.
            let _ = write!(page, "\n## {}\n\n```\n{group}```\n", group.group);
        }
        page
    }

    fn compare(&self, page: &mut String) {
        let lines: Vec<String> = PUBLISHED.iter().filter_map(|line| self.compared(line)).collect();
        if lines.is_empty() {
            return;
        }
        page.push_str(
            "\n## Beside what ScyllaDB publishes\n\nReads / KiB, cold (index blocks of 1 KiB; its pull request 20522: big format after it, \
             and the trie index).\n\n| offset, stride, rows | here | big | trie |\n|---|---|---|---|\n",
        );
        lines.iter().for_each(|line| page.push_str(line));
    }

    fn compared(&self, line: &Published) -> Option<String> {
        let group = self.groups.iter().find(|group| group.group == line.group)?;
        let is_same = |case: &&CaseReport| case.parameters == line.parameters;
        let columns = &group.cases.iter().find(is_same)?.columns;
        Some(format!(
            "| {} | {} / {:.0} | {} | {} |\n",
            line.parameters.join(", "),
            columns.aio,
            columns.aio_kib,
            line.big,
            line.trie
        ))
    }
}
