//! The plan of a transaction.

use std::sync::Arc;

use helenus_schema::TableMetadata;

use crate::CqlError;
use crate::heap_bytes::HeapBytes;
use crate::modify::{ColumnCondition, ModifyPlan};
use crate::prepare::ResultMetadata;
use crate::select::SelectPlan;
use crate::term::{EvaluationContext, ReferencePlan};

/// Statements of a transaction, `LET`s included: what it reads is held until it has decided, by one shard in one turn if it can
/// be.
pub(super) const STATEMENTS_MAX: usize = 500;

/// Immutable, shared by all executions.
#[derive(Clone, Debug)]
pub struct TransactionPlan {
    /// Reads of the `LET`s, and behind them the SELECT that is answered, if there is one.
    pub(super) reads: Vec<NamedRead>,
    pub(super) answer: Answer,
    /// References of the statements and conditions: bound behind the client's values, in this order.
    pub(super) references: Vec<ReferencePlan>,
    /// All of them must hold.
    pub(super) conditions: Vec<RowCondition>,
    pub(super) statements: Vec<ModifyPlan>,
}

#[derive(Clone, Debug)]
pub(super) struct NamedRead {
    /// As messages call it.
    pub name: String,
    pub plan: SelectPlan,
}

#[derive(Clone, Debug)]
pub(super) enum Answer {
    Nothing,
    /// Rows of the last read.
    Select(Arc<ResultMetadata>),
    References(Vec<ReferencePlan>, Arc<ResultMetadata>),
}

#[derive(Clone, Debug)]
pub(super) struct RowCondition {
    /// Index of the read whose row is tested.
    pub row: usize,
    pub test: RowTest,
}

#[derive(Clone, Debug)]
pub(super) enum RowTest {
    /// Existence of the row; absence if false.
    Exists(bool),
    /// Presence of a value in the column, or absence.
    HasValue(Box<ColumnCondition>),
    Compare {
        condition: Box<ColumnCondition>,
        /// With something that was read: without a value it is not met, where one of the client's is refused.
        is_with_reference: bool,
    },
}

impl TransactionPlan {
    /// Returns whether a value of a statement's key is another one each time.
    pub(crate) fn makes_keys(&self) -> bool {
        self.statements.iter().any(ModifyPlan::makes_keys)
    }

    /// The plan with the keys of one execution.
    pub(crate) fn with_made_keys(&self, context: &EvaluationContext<'_>) -> Result<Self, CqlError> {
        Ok(TransactionPlan {
            statements: ModifyPlan::all_with_made_keys(&self.statements, context)?,
            ..self.clone()
        })
    }

    /// The tables that it reads or writes.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<TableMetadata>> {
        let read = self.reads.iter().map(|read| &read.plan.table);
        read.chain(self.statements.iter().map(|statement| &statement.table))
    }

    pub fn is_read_only(&self) -> bool {
        self.statements.is_empty()
    }

    /// The metadata of its answer; none if it has no rows.
    pub fn result(&self) -> Option<&Arc<ResultMetadata>> {
        match &self.answer {
            Answer::Nothing => None,
            Answer::Select(result) | Answer::References(_, result) => Some(result),
        }
    }
}

impl HeapBytes for TransactionPlan {
    fn heap_bytes(&self) -> usize {
        let answer = match &self.answer {
            Answer::References(references, _) => references.heap_bytes(),
            Answer::Nothing | Answer::Select(_) => 0,
        };
        self.reads.heap_bytes()
            + answer
            + self.references.heap_bytes()
            + self.conditions.heap_bytes()
            + self.statements.heap_bytes()
    }
}

impl HeapBytes for NamedRead {
    fn heap_bytes(&self) -> usize {
        self.name.len() + self.plan.heap_bytes()
    }
}

impl HeapBytes for RowCondition {
    fn heap_bytes(&self) -> usize {
        match &self.test {
            RowTest::Exists(_) => 0,
            RowTest::HasValue(condition) | RowTest::Compare { condition, .. } => {
                size_of::<ColumnCondition>() + condition.heap_bytes()
            }
        }
    }
}
