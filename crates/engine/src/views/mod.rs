//! Materialized views: what a write to a base table does to its views.
//!
//! A row of a view is a pure function of the base row (`entry`). A write reads the base rows that it touches and comes to
//! the differences between the rows that the views had and those that they will have (`delta`).

mod changes;
mod compare;
mod conditions;
mod delta;
mod entry;
mod plan;
mod point;
mod pruning;

pub use changes::Changes;
pub use conditions::{conditions_of, view_clause};
pub use delta::{Chunk, ViewDelta};
pub use entry::{EntryChange, ViewShape};
pub use plan::{BaseViews, ViewPlan, ViewsByTable};
pub use point::{PointScratch, PointWrite};
pub(crate) use pruning::prepare_prune;
pub use pruning::{BaseKey, BoundPrune, NextViewRows, PrunePlan, PrunedPart, ViewRow};
