//! BATCH, in CQL and in the protocol's message.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use helenus_cql::ast::{BatchKind, Using};
use helenus_schema::{ColumnId, Schema, TableId, TableKind, TableMetadata, TableParams, is_made_from_code};
use helenus_types::Token;
use uuid::Uuid;

use super::attributes::Attributes;
use super::plan::{ModifyPlan, elements_effort};
use super::prior_lists::ListReading;
use super::updates::{EmitUpdate, check_written};
use crate::CqlError;
use crate::execute::{QueryOptions, Scratch};
use crate::functions::Clock;
use crate::heap_bytes::HeapBytes;
use crate::row_store::RowStore;
use crate::term::{BindMarkers, BoundValues, EvaluationContext, StatementScope, Typing};

/// Statements and keys of a batch whose updates are built where it arrives: about a microsecond each, of the millisecond
/// that a shard may be held.
const BUILT_AT_ONCE_MAX: usize = 256;

/// The plan of a `BEGIN BATCH ... APPLY BATCH`. Its statements share the numbering of bind markers.
#[derive(Clone, Debug)]
pub struct BatchPlan {
    pub kind: BatchKind,
    pub statements: Vec<ModifyPlan>,
    pub(crate) attributes: Attributes,
    pub(crate) is_conditional: bool,
}

impl BatchPlan {
    /// Returns whether a statement has an IF clause; then only a [`ConditionalRequest`](super::ConditionalRequest) executes the
    /// batch.
    pub fn is_conditional(&self) -> bool {
        self.is_conditional
    }

    pub fn needs_read(&self) -> bool {
        self.statements.iter().any(ModifyPlan::needs_read)
    }

    /// How it is written: an unlogged batch of statements on counters is a counter batch.
    pub fn write_kind(&self) -> BatchKind {
        write_kind(self.kind, self.statements.first())
    }

    /// Returns whether building its updates would hold a shard for long.
    pub fn is_long_to_build(&self, values: &BoundValues<'_>) -> bool {
        let counts = self
            .statements
            .iter()
            .map(|statement| statement.named_beside_elements(values));
        let elements = match self.statements.iter().any(ModifyPlan::binds_elements) {
            true => elements_effort(values),
            false => 0,
        };
        self.statements.len() > BUILT_AT_ONCE_MAX
            || counts.fold(elements, u64::saturating_add) > BUILT_AT_ONCE_MAX as u64
    }

    pub(crate) fn makes_keys(&self) -> bool {
        self.statements.iter().any(ModifyPlan::makes_keys)
    }

    /// The plan with the keys of one execution.
    pub(crate) fn with_made_keys(&self, context: &EvaluationContext<'_>) -> Result<Self, CqlError> {
        Ok(BatchPlan {
            statements: ModifyPlan::all_with_made_keys(&self.statements, context)?,
            attributes: self.attributes.clone(),
            ..*self
        })
    }

    /// The options that the statements are executed with: the batch's timestamp is theirs.
    pub(crate) fn statement_options<'o>(
        &self,
        values: &BoundValues<'_>,
        options: &QueryOptions<'o>,
    ) -> Result<QueryOptions<'o>, CqlError> {
        let timestamp_us = self
            .attributes
            .timestamp_us(options, &options.evaluation(values))?;
        Ok(QueryOptions {
            timestamp_us: Some(timestamp_us),
            ..*options
        })
    }

    /// The partitions that the statements touch.
    pub fn partitions(
        &self,
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
    ) -> Result<Vec<(TableId, Token)>, CqlError> {
        let mut partitions = Vec::new();
        for statement in &self.statements {
            partitions.extend(statement.partitions(values, options)?);
        }
        Ok(partitions)
    }

    /// The packed updates of all statements, in order. A later statement may turn out to be invalid: none is to be
    /// applied before all are there.
    pub fn updates(
        &self,
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
        scratch: &mut Scratch,
        emit: &mut EmitUpdate<'_>,
    ) -> Result<(), CqlError> {
        let options = self.statement_options(values, options)?;
        let mut written_bytes = 0;
        let emit: &mut EmitUpdate<'_> = &mut |token, update| {
            written_bytes += update.len();
            check_written(written_bytes)?;
            emit(token, update)
        };
        let written = self
            .statements
            .iter()
            .try_for_each(|statement| statement.updates_in_batch(values, &options, scratch, emit));
        written.map_err(|error| {
            // Cassandra looks at the keys of all statements before anything else.
            let mut statements = self.statements.iter();
            statements
                .find_map(|statement| statement.partitions(values, &options).err())
                .unwrap_or(error)
        })
    }

    /// As [`ModifyPlan::updates_reading`], for all statements. Lists are seen as they were before the batch. Another shard
    /// may find an earlier statement that fails, whose error is the batch's.
    pub fn updates_reading<R: RowStore>(
        &self,
        store: &mut R,
        reading: &mut ListReading,
        owns: &dyn Fn(Token) -> bool,
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
        scratch: &mut Scratch,
    ) -> Result<Vec<(Token, Vec<u8>)>, FailedStatement> {
        let options = self.statement_options(values, options)?;
        let (mut updates, mut written_bytes) = (Vec::new(), 0);
        for (place, statement) in self.statements.iter().enumerate() {
            let failed = |error| FailedStatement { place, error };
            let more = statement
                .updates_reading(store, reading, owns, values, &options, scratch)
                .map_err(failed)?;
            written_bytes += more.iter().map(|(_, update)| update.len()).sum::<usize>();
            check_written(written_bytes).map_err(failed)?;
            updates.extend(more);
        }
        Ok(updates)
    }
}

/// How a batch is written of which this is the first statement: all are on counters, or none.
pub fn write_kind(kind: BatchKind, first: Option<&ModifyPlan>) -> BatchKind {
    match first.is_some_and(ModifyPlan::is_counter) {
        true => BatchKind::Counter,
        false => kind,
    }
}

/// Why a statement, or one of a batch, is not executed.
#[derive(Debug)]
pub struct FailedStatement {
    /// In the batch; 0 for what concerns all of it.
    pub place: usize,
    pub error: CqlError,
}

impl From<CqlError> for FailedStatement {
    fn from(error: CqlError) -> Self {
        FailedStatement { place: 0, error }
    }
}

/// An unlogged batch over more partitions than this is warned of; Cassandra's default.
const UNLOGGED_PARTITIONS_WARN: usize = 10;

/// Returns the warning to the client of an unlogged batch that covers that many partitions of these tables.
pub fn unlogged_batch_warning<'p>(
    kind: BatchKind,
    partition_count: usize,
    statements: impl IntoIterator<Item = &'p ModifyPlan>,
) -> Option<String> {
    if kind == BatchKind::Logged || partition_count <= UNLOGGED_PARTITIONS_WARN {
        return None;
    }
    let names: BTreeSet<String> = statements
        .into_iter()
        .map(|statement| format!("{}.{}", statement.table.keyspace, statement.table.name))
        .collect();
    let plural = if names.len() == 1 { "" } else { "s" };
    let names = names.into_iter().collect::<Vec<_>>().join(", ");
    Some(format!(
        "Unlogged batch covering {partition_count} partitions detected against table{plural} [{names}]. You should \
         use a logged batch for atomicity, or asynchronous writes for performance."
    ))
}

/// The checks on a batch as a whole. The protocol's batches have neither TTL nor timestamp of their own.
pub fn check_batch<'p>(
    kind: BatchKind,
    has_ttl: bool,
    has_timestamp: bool,
    statements: impl IntoIterator<Item = &'p ModifyPlan> + Clone,
) -> Result<(), CqlError> {
    if has_ttl {
        return Err(invalid!("Global TTL on the BATCH statement is not supported."));
    }
    let is_counter = kind == BatchKind::Counter;
    let statements = || statements.clone().into_iter();
    let is_conditional = statements().any(ModifyPlan::is_conditional);
    if has_timestamp && is_conditional {
        return Err(invalid!("Cannot provide custom timestamp for conditional BATCH"));
    }
    if has_timestamp && is_counter {
        return Err(invalid!("Cannot provide custom timestamp for counter BATCH"));
    }
    let (mut has_counters, mut has_others, mut has_virtual, mut has_regular) = (false, false, false, false);
    for statement in statements() {
        if has_timestamp && statement.has_timestamp() {
            return Err(invalid!(
                "Timestamp must be set either on BATCH or individual statements"
            ));
        }
        let is_counter = statement.is_counter();
        has_counters |= is_counter;
        has_others |= !is_counter;
        let is_virtual = is_made_from_code(&statement.table.keyspace);
        has_virtual |= is_virtual;
        has_regular |= !is_virtual;
    }
    let is_logged = kind == BatchKind::Logged;
    let spans_tables = span_tables(statements());
    let refusals = [
        (
            has_timestamp && has_counters,
            "Cannot provide custom timestamp for a BATCH containing counters",
        ),
        (
            is_counter && has_others,
            "Cannot include non-counter statement in a counter batch",
        ),
        (
            has_counters && has_others,
            "Counter and non-counter mutations cannot exist in the same batch",
        ),
        (
            is_logged && has_counters,
            "Cannot include a counter statement in a logged batch",
        ),
        (
            is_logged && has_virtual,
            "Cannot include a virtual table statement in a logged batch",
        ),
        (
            has_virtual && has_regular,
            "Mutations for virtual and regular tables cannot exist in the same batch",
        ),
        (
            is_conditional && spans_tables,
            "Batch with conditions cannot span multiple tables",
        ),
    ];
    match refusals.iter().find(|(applies, _)| *applies) {
        Some((_, message)) => Err(invalid!("{message}")),
        None => Ok(()),
    }
}

fn span_tables<'p>(statements: impl Iterator<Item = &'p ModifyPlan>) -> bool {
    let mut tables = statements.map(|statement| statement.table.id);
    let first = tables.next();
    tables.any(|table| Some(table) != first)
}

/// A batch's USING clause. Its markers belong to no table.
pub(crate) fn prepare_batch_attributes(
    schema: &Schema,
    markers: &RefCell<BindMarkers>,
    now: Clock,
    using: &Using,
) -> Result<Attributes, CqlError> {
    let table = Arc::new(no_table());
    let scope = StatementScope {
        schema,
        table: &table,
        markers,
        calls: &RefCell::default(),
        references: None,
        now,
    };
    Attributes::prepare(&Typing::terms(scope), using)
}

/// Stands for the table of what belongs to none.
pub(crate) fn no_table() -> TableMetadata {
    TableMetadata {
        keyspace: "[batch]".into(),
        name: "[batch]".into(),
        id: TableId(Uuid::nil()),
        kind: TableKind::Regular,
        columns: Vec::new(),
        partition_key_count: 0,
        clustering_count: 0,
        static_count: 0,
        next_column_id: ColumnId(0),
        dropped_columns: Vec::new(),
        indexes: Vec::new(),
        expiration_column: None,
        params: TableParams::default(),
    }
}

impl HeapBytes for BatchPlan {
    fn heap_bytes(&self) -> usize {
        self.statements.heap_bytes() + self.attributes.heap_bytes()
    }
}
