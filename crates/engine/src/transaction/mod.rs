//! `BEGIN TRANSACTION`: planned as a whole, and executed in two halves. First it says which rows it reads and which partitions
//! it is about ([`TransactionPlan::bind`]); once they are read, whoever sees to it that nothing changes them meanwhile lets it
//! decide what is written and answered ([`BoundTransaction::decide`]). The grammar and the rules are those of Cassandra 6.

mod execution;
mod plan;
mod prepare;

pub use execution::{BoundTransaction, Decided};
pub use plan::TransactionPlan;
pub(crate) use prepare::{TransactionText, prepare_transaction};
