//! A prepared statement.

use std::sync::{Arc, OnceLock};

use helenus_cql::ast::{DescribeStatement, RoleStatement, SchemaStatement};
use helenus_protocol::ProtocolVersion;
use helenus_protocol::response::BindMetadata;
use helenus_schema::TableMetadata;

use super::digest::md5;
use super::metadata::{ResultMetadata, protocol_specs};
use super::timeout::StatementTimeout;
use crate::CqlError;
use crate::error::PreparedId;
use crate::execute::QueryOptions;
use crate::heap_bytes::{HeapBytes, flat_bytes};
use crate::modify::{BatchPlan, ModifyPlan};
use crate::select::SelectPlan;
use crate::term::{BoundValues, ColumnSpec};
use crate::transaction::TransactionPlan;
use crate::views::PrunePlan;

/// A statement ready to be executed any number of times, on any shard.
#[derive(Debug)]
pub struct Prepared {
    pub id: PreparedId,
    pub plan: Plan,
    pub bind_columns: Vec<ColumnSpec>,
    /// Which markers give the partition key, in key order; empty if the markers alone do not.
    pub partition_key_bind_indexes: Vec<u16>,
    /// None for statements that return no rows.
    pub result: Option<Arc<ResultMetadata>>,
    /// The schema the plan was made for; under another one it must be made anew.
    pub schema_version: u64,
    pub query: Arc<str>,
    pub keyspace: Option<Arc<str>>,
    /// `USING TIMEOUT`.
    pub timeout: Option<StatementTimeout>,
    /// Counted when somebody asks.
    pub(super) heap_bytes: OnceLock<usize>,
}

/// How much longer a syntax tree is than its text at most: a name of one letter and its comma become a string of its own
/// in a vector, `a b,` a column's definition.
const SYNTAX_TREE_BYTES_PER_TEXT_BYTE: usize = 80;

#[derive(Debug)]
pub enum Plan {
    Select(Box<SelectPlan>),
    Modify(Box<ModifyPlan>),
    Batch(Box<BatchPlan>),
    Transaction(Box<TransactionPlan>),
    Use(String),
    Truncate(Arc<TableMetadata>),
    Prune(Box<PrunePlan>),
    Schema(Arc<SchemaStatement>),
    Role(Box<RoleStatement>),
    Describe(Box<DescribeStatement>),
}

impl Prepared {
    /// Heap bytes that the statement holds: its plan, its metadata, its text and itself.
    pub fn heap_bytes(&self) -> usize {
        *self.heap_bytes.get_or_init(|| self.count_heap_bytes())
    }

    /// Returns whether what it writes to has another key each time that the key is computed. Who computes it several times executes
    /// [`with_made_keys`](Self::with_made_keys) instead.
    #[inline]
    pub fn makes_keys(&self) -> bool {
        match &self.plan {
            Plan::Modify(plan) => plan.makes_keys(),
            Plan::Batch(plan) => plan.makes_keys(),
            Plan::Transaction(plan) => plan.makes_keys(),
            _ => false,
        }
    }

    /// The statement with the keys of one execution.
    pub fn with_made_keys(
        self: &Arc<Self>,
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
    ) -> Result<Arc<Prepared>, CqlError> {
        let context = options.evaluation(values);
        let plan = match &self.plan {
            Plan::Modify(plan) => Plan::Modify(Box::new(plan.with_made_keys(&context)?)),
            Plan::Batch(plan) => Plan::Batch(Box::new(plan.with_made_keys(&context)?)),
            Plan::Transaction(plan) => Plan::Transaction(Box::new(plan.with_made_keys(&context)?)),
            _ => return Ok(self.clone()),
        };
        Ok(Arc::new(self.with_plan(plan)))
    }

    fn with_plan(&self, plan: Plan) -> Self {
        Prepared {
            id: self.id,
            plan,
            bind_columns: self.bind_columns.clone(),
            partition_key_bind_indexes: self.partition_key_bind_indexes.clone(),
            result: self.result.clone(),
            schema_version: self.schema_version,
            query: self.query.clone(),
            keyspace: self.keyspace.clone(),
            timeout: self.timeout.clone(),
            heap_bytes: OnceLock::new(),
        }
    }

    fn count_heap_bytes(&self) -> usize {
        let syntax_tree = match self.plan.is_syntax_tree() {
            true => self.query.len() * SYNTAX_TREE_BYTES_PER_TEXT_BYTE,
            false => 0,
        };
        size_of::<Self>()
            + self.plan.heap_bytes()
            + syntax_tree
            + self.bind_columns.heap_bytes()
            + flat_bytes(&self.partition_key_bind_indexes)
            + self.result.as_deref().map_or(0, HeapBytes::heap_bytes)
            + self.query.heap_bytes()
            + self.keyspace.heap_bytes()
            + self.timeout.heap_bytes()
    }

    /// The bind markers as PREPARED carries them.
    pub fn bind_metadata(&self, version: ProtocolVersion) -> BindMetadata {
        BindMetadata::new(
            version,
            &protocol_specs(&self.bind_columns),
            &self.partition_key_bind_indexes,
        )
    }
}

impl Plan {
    /// Returns whether it is the statement as it was written.
    fn is_syntax_tree(&self) -> bool {
        matches!(self, Plan::Schema(_) | Plan::Role(_) | Plan::Describe(_))
    }

    /// None for statements that return no rows.
    pub(super) fn result(&self) -> Option<&Arc<ResultMetadata>> {
        match self {
            Plan::Select(plan) => Some(&plan.result),
            Plan::Transaction(plan) => plan.result(),
            Plan::Prune(plan) => Some(&plan.result),
            Plan::Modify(_)
            | Plan::Batch(_)
            | Plan::Use(_)
            | Plan::Truncate(_)
            | Plan::Schema(_)
            | Plan::Role(_)
            | Plan::Describe(_) => None,
        }
    }
}

impl HeapBytes for Plan {
    fn heap_bytes(&self) -> usize {
        match self {
            Plan::Select(plan) => plan.heap_bytes(),
            Plan::Modify(plan) => plan.heap_bytes(),
            Plan::Batch(plan) => plan.heap_bytes(),
            Plan::Transaction(plan) => plan.heap_bytes(),
            Plan::Prune(plan) => plan.heap_bytes(),
            Plan::Use(keyspace) => keyspace.heap_bytes(),
            // Syntax trees are weighed by the text they were made from.
            Plan::Truncate(_) | Plan::Schema(_) | Plan::Role(_) | Plan::Describe(_) => 0,
        }
    }
}

/// The id of a statement, as Cassandra computes it.
pub(super) fn prepared_id(keyspace: Option<&str>, query: &str) -> PreparedId {
    PreparedId(md5(&[keyspace.unwrap_or_default(), query]))
}
