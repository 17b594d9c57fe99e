//! Promises of a whole node, room by room. One program, as each would link the whole node; what counts the memory
//! of its process or its threads has one of its own beside it.

mod atomic_batches;
mod bypass_cache;
mod compaction_requests;
mod counters;
mod deadlines;
mod decisions;
mod disk_calls_of_shards;
mod disk_faults;
mod dropped_columns;
mod every_format;
mod full_log;
mod guardrails;
mod held_up_shard;
mod hot_partitions;
mod hung_disk;
mod indexes;
mod json;
mod long_answers;
mod long_clauses;
mod long_reads;
mod long_statements;
mod metrics;
mod operator_tools;
mod panics;
mod prepared_plans;
mod rate_limits;
mod replaced_rows;
mod sidecars;
mod system_views;
mod transactions;
mod unflushable_table;
mod vectors;
mod view_pruning;
mod views;
mod whole_node;
