//! The codec as its users see it: what one side writes, the other reads.

mod allocations;
mod captured;
mod frames;
mod hostile;
mod messages;
mod support;
