//! One line of a table: what is read.

use helenus_rows::clustering::{ClusteringBound, Side, Slice};

use super::data_set::{clustering_of, missing_clustering_of};

/// A reading and the parameters that name it.
#[derive(Clone, Debug)]
pub struct Case {
    /// In the order of the group's parameter columns.
    pub labels: Vec<String>,
    pub plan: Plan,
    /// Read once before, unmeasured, so that the caches have what it needs.
    pub is_warm: bool,
}

#[derive(Clone, Debug)]
pub enum Plan {
    /// Slices of the large partition.
    Rows { slices: Vec<Slice>, by: Access },
    /// Runs of small partitions, by their numbers in token order.
    Partitions { runs: Vec<Run> },
}

/// How a slice of the large partition is come by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// By its key.
    Key,
    /// By a range of partitions around it.
    Range,
    /// In a scan over everything.
    Scan,
}

/// From `start`, which is part of it, to `end`, which is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub start: u32,
    pub end: u32,
}

impl Case {
    pub fn new(labels: impl IntoIterator<Item = String>, plan: Plan) -> Self {
        Case {
            labels: labels.into_iter().collect(),
            plan,
            is_warm: false,
        }
    }
}

impl Plan {
    pub fn rows(runs: impl IntoIterator<Item = Run>, by: Access) -> Self {
        Plan::Rows {
            slices: runs.into_iter().map(|run| slice(run.start, run.end)).collect(),
            by,
        }
    }

    /// A place between two rows.
    pub fn missing_row(number: u32) -> Self {
        let key = missing_clustering_of(i64::from(number)).into_boxed_slice();
        let bound = |side| ClusteringBound {
            prefix: key.clone(),
            side,
        };
        let slice = Slice {
            start: bound(Side::Before),
            end: bound(Side::After),
        };
        Plan::Rows {
            slices: vec![slice],
            by: Access::Key,
        }
    }
}

/// Rows `start` to `end`, the latter not included.
fn slice(start: u32, end: u32) -> Slice {
    let bound = |number: i64, side| ClusteringBound {
        prefix: clustering_of(number).into(),
        side,
    };
    Slice {
        start: bound(i64::from(start), Side::Before),
        end: bound(i64::from(end) - 1, Side::After),
    }
}

/// Reads of `read` with `skip` between them, up to `count`.
pub fn runs(count: u32, read: u32, skip: u32) -> Vec<Run> {
    if skip == 0 {
        return vec![Run { start: 0, end: count }];
    }
    let starts = (0..count).step_by((read + skip) as usize);
    starts
        .map(|start| Run {
            start,
            end: start.saturating_add(read).min(count),
        })
        .collect()
}
