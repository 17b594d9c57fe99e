//! SELECT: the plan, reading on the shards that own the rows, and putting the result together.

mod limit;
mod read_partitions;
mod targets;

mod filter;
mod hints;
mod indexed;
mod nearest;
mod row_view;
mod top_rows;

mod plan;

mod group_by;
mod prepare;

mod bound;
mod bound_nearest;
mod nearest_read;
mod nearest_reading;
mod paging;
mod rows_sink;
mod shard_read;
mod shard_rows;
mod tombstones;

mod computing;
mod direct;
mod direct_by_index;
mod execution;
mod grouping;
mod one_row;

pub use bound::{BOUND_AT_ONCE_MAX, BoundSelect, InProducts};
pub(crate) use bound::{JSON_BYTES_PER_VALUE, json_effort};
pub use direct::{Direct, DirectRead};
pub use direct_by_index::DirectByIndex;
pub use execution::{SelectExecution, SelectProgress, TargetIndex};
pub(crate) use filter::{Filter, FilterEffort, bind_filters};
pub(crate) use one_row::ManyRows;
pub use one_row::{RowRead, StoredRow};
pub use plan::SelectPlan;
pub use read_partitions::ReadPartitions;
pub use row_view::{Fetched, RowView};
pub use shard_read::ShardReading;
pub use shard_rows::{ShardRead, ShardRows};

pub(crate) use prepare::prepare_select;
