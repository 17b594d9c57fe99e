//! `helenus-perf fast-forward`: how little is read, and how fast, where a reader leaves much of the data out.
//!
//! The test groups, data sets, parameters and columns are those of ScyllaDB's tool of the same name, so that the two
//! tables lie side by side. What differs is said where it does: a row here has an even clustering key, so that the
//! odd ones are missing; a skip is the gap between two slices of one read.

mod data_set;
mod options;

mod case;
mod groups;

mod bench;
mod machine;
mod measurement;

mod published;
mod report;
mod table;

mod run;

pub use data_set::DataSet;
pub(crate) use data_set::{LARGE_PARTITION_KEY, clustering_of, missing_clustering_of, schema};
pub use groups::Group;
pub use options::{FastForwardError, FastForwardOptions, Population};
pub use report::{CaseReport, FastForwardReport, GroupReport};
pub use run::{populate, run};
