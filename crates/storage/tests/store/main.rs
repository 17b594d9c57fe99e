//! The store as its callers see it.

mod cache_memory;
mod check;
mod indexed;
mod naive;
mod node;
mod table;
mod writes;

mod compaction;
mod damaged;
mod disk_model;
mod memory_model;

mod few_rows;
mod filtered_vectors;
mod folder;
mod index_life;
mod index_steps;
mod large_rows;
mod log_ahead;
mod log_faults;
mod long_reads;
mod point_read;
mod row_cache;
mod row_cache_memory;
mod settled;
mod tables;
mod unflushed;
mod vectors;
mod write_sets;
