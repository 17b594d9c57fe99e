//! A load generator for any CQL cluster: Helenus, Apache Cassandra, ScyllaDB.
//!
//! A [`workload`] says what is executed, with which values; a [`run`] executes it from every core it is given, closed
//! loop or open loop; a [`report`] says what came of it, to people and to scripts; [`compare`] tells two of them
//! apart from noise.

pub mod workload;

pub mod run;

pub mod storm;

pub mod live;

pub mod chart;
pub mod report;

pub mod compare;

pub mod goodput;

pub mod quiet;
