//! The ten test groups and their cases.

use super::DataSet;
use super::case::{Access, Case, Plan, Run, runs};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    LargePartitionSingleKeySlice,
    LargePartitionSkips,
    LargePartitionSlicing,
    LargePartitionSlicingClusteringKeys,
    LargePartitionSlicingSingleKeyReader,
    LargePartitionSelectFewRows,
    LargePartitionSelectMissingRows,
    LargePartitionForwarding,
    SmallPartitionSkips,
    SmallPartitionSlicing,
}

const READS: [u32; 2] = [1, 64];
const SKIPS: [u32; 9] = [0, 1, 8, 16, 32, 64, 256, 1024, 4096];
const SLICES: [u32; 4] = [1, 32, 256, 4096];

impl Group {
    pub const ALL: [Group; 10] = [
        Group::LargePartitionSingleKeySlice,
        Group::LargePartitionSkips,
        Group::LargePartitionSlicing,
        Group::LargePartitionSlicingClusteringKeys,
        Group::LargePartitionSlicingSingleKeyReader,
        Group::LargePartitionSelectFewRows,
        Group::LargePartitionSelectMissingRows,
        Group::LargePartitionForwarding,
        Group::SmallPartitionSkips,
        Group::SmallPartitionSlicing,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Group::LargePartitionSingleKeySlice => "large-partition-single-key-slice",
            Group::LargePartitionSkips => "large-partition-skips",
            Group::LargePartitionSlicing => "large-partition-slicing",
            Group::LargePartitionSlicingClusteringKeys => "large-partition-slicing-clustering-keys",
            Group::LargePartitionSlicingSingleKeyReader => "large-partition-slicing-single-key-reader",
            Group::LargePartitionSelectFewRows => "large-partition-select-few-rows",
            Group::LargePartitionSelectMissingRows => "large-partition-select-missing-rows",
            Group::LargePartitionForwarding => "large-partition-forwarding",
            Group::SmallPartitionSkips => "small-partition-skips",
            Group::SmallPartitionSlicing => "small-partition-slicing",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Group::ALL.into_iter().find(|group| group.name() == name)
    }

    pub fn description(self) -> &'static str {
        match self {
            Group::LargePartitionSingleKeySlice => {
                "Slices of the large partition by its key, cold and then again with what that left in memory"
            }
            Group::LargePartitionSkips => {
                "The large partition in turns of rows that are read and rows that are skipped"
            }
            Group::LargePartitionSlicing => "One slice of the large partition, in a scan of the table",
            Group::LargePartitionSlicingClusteringKeys => {
                "One slice of the large partition, in a scan of the range of its key"
            }
            Group::LargePartitionSlicingSingleKeyReader => "One slice of the large partition, by its key",
            Group::LargePartitionSelectFewRows => "Single rows of the large partition, evenly spread",
            Group::LargePartitionSelectMissingRows => "Rows that the large partition does not have",
            Group::LargePartitionForwarding => {
                "The first row of the large partition and the one in its middle"
            }
            Group::SmallPartitionSkips => {
                "Small partitions in turns of those that are read and those that are skipped"
            }
            Group::SmallPartitionSlicing => "One run of small partitions",
        }
    }

    pub fn data_set(self) -> DataSet {
        match self {
            Group::SmallPartitionSkips | Group::SmallPartitionSlicing => DataSet::SmallPartitions,
            _ => DataSet::LargePartition,
        }
    }

    /// The names of the parameters.
    pub fn parameters(self) -> &'static [&'static str] {
        match self {
            Group::LargePartitionSingleKeySlice => &["range", "caches"],
            Group::LargePartitionSkips | Group::SmallPartitionSkips => &["read", "skip"],
            Group::LargePartitionSelectFewRows => &["offset", "stride", "rows"],
            Group::LargePartitionSelectMissingRows => &["key"],
            Group::LargePartitionForwarding => &["pk-scan"],
            _ => &["offset", "read"],
        }
    }

    /// Returns the cases of the group over so many rows.
    pub fn cases(self, rows: u32) -> Vec<Case> {
        match self {
            Group::LargePartitionSingleKeySlice => single_key_slices(rows),
            Group::LargePartitionSkips => skips(rows, |runs| Plan::rows(runs, Access::Key)),
            Group::SmallPartitionSkips => skips(rows, |runs| Plan::Partitions { runs }),
            Group::LargePartitionSlicing => slicing(rows, |run| Plan::rows([run], Access::Scan)),
            Group::LargePartitionSlicingClusteringKeys => {
                slicing(rows, |run| Plan::rows([run], Access::Range))
            }
            Group::LargePartitionSlicingSingleKeyReader => {
                slicing(rows, |run| Plan::rows([run], Access::Key))
            }
            Group::SmallPartitionSlicing => slicing(rows, |run| Plan::Partitions { runs: vec![run] }),
            Group::LargePartitionSelectFewRows => few_rows(rows),
            Group::LargePartitionSelectMissingRows => missing_rows(rows),
            Group::LargePartitionForwarding => forwarding(rows),
        }
    }
}

fn single_key_slices(rows: u32) -> Vec<Case> {
    let ends = [
        ("[0, 1]".to_owned(), 0, 2),
        (format!("[0, {}]", rows / 2), 0, rows / 2 + 1),
        (format!("[0, {rows}]"), 0, rows),
        ("[1, 100)".to_owned(), 1, 100),
        ("[1, 100]".to_owned(), 1, 101),
    ];
    let mut cases = Vec::new();
    for (label, start, end) in ends {
        let run = Run {
            start,
            end: end.min(rows),
        };
        for (caches, is_warm) in [("cold", false), ("warm", true)] {
            let labels = [label.clone(), caches.to_owned()];
            cases.push(Case {
                is_warm,
                ..Case::new(labels, Plan::rows([run], Access::Key))
            });
        }
    }
    cases
}

fn skips(rows: u32, plan: impl Fn(Vec<Run>) -> Plan) -> Vec<Case> {
    let mut cases = Vec::new();
    for read in READS {
        for skip in SKIPS {
            let labels = [read, skip].map(|number| number.to_string());
            cases.push(Case::new(labels, plan(runs(rows, read, skip))));
        }
    }
    cases
}

fn slicing(rows: u32, plan: impl Fn(Run) -> Plan) -> Vec<Case> {
    let mut cases = Vec::new();
    for offset in [0, rows / 2] {
        for read in SLICES {
            let run = Run {
                start: offset,
                end: offset.saturating_add(read).min(rows),
            };
            let labels = [offset, read].map(|number| number.to_string());
            cases.push(Case::new(labels, plan(run)));
        }
    }
    cases
}

fn few_rows(rows: u32) -> Vec<Case> {
    let half = rows / 2;
    let parameters = [
        (half, 1, 1),
        (half + 1, 1, 1),
        (0, rows, 1),
        (0, half, 2),
        (0, rows / 4, 4),
        (0, rows / 8, 8),
        (0, rows / 16, 16),
        (0, 2, half),
    ];
    parameters
        .map(|(offset, stride, count)| {
            let starts = (0..count).map(|index| offset + index * stride);
            let runs = starts.map(|start| Run {
                start,
                end: start + 1,
            });
            let labels = [offset, stride, count].map(|number| number.to_string());
            Case::new(labels, Plan::rows(runs, Access::Key))
        })
        .into()
}

fn missing_rows(rows: u32) -> Vec<Case> {
    let half = rows / 2;
    let keys = [
        0,
        1,
        rows / 3,
        half - 1,
        half,
        half + 1,
        (u64::from(rows) * 2 / 3) as u32,
        rows - 1,
        rows,
        rows.saturating_mul(2),
    ];
    keys.map(|key| Case::new([key.to_string()], Plan::missing_row(key)))
        .into()
}

fn forwarding(rows: u32) -> Vec<Case> {
    let middle = rows / 2;
    [("yes", Access::Scan), ("no", Access::Key)]
        .map(|(label, by)| {
            let runs = [0, middle].map(|start| Run {
                start,
                end: start + 1,
            });
            Case::new([label.to_owned()], Plan::rows(runs, by))
        })
        .into()
}
