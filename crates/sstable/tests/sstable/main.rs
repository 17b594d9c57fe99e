//! SSTables from outside: what is written is read back, by us and by Cassandra's own tools, and what Cassandra wrote
//! is read by us.

mod support;
mod typed;

mod full_rows;
mod roundtrip;

mod fixtures;
mod peer;

mod fences;
mod read_counts;
mod scan_cost;
mod shadowable;
mod suspended;

mod bit_flips;
mod bti;
mod crash;
