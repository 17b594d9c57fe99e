//! `USING TIMEOUT d`: how long the client waits for this statement, where that is not the configured time.

use std::time::Duration;

use helenus_cql::ast::{Modification, Statement, Term};
use helenus_types::CqlType;
use helenus_types::value::duration;

use crate::CqlError;
use crate::execute::QueryOptions;
use crate::heap_bytes::HeapBytes;
use crate::term::{BoundValues, Evaluated, Expression, Receiver, Typing};

/// The timeout of a statement; a duration, or the marker that brings one.
#[derive(Clone, Debug)]
pub struct StatementTimeout(Expression);

impl StatementTimeout {
    pub(super) fn prepare(typing: &Typing<'_>, term: &Term) -> Result<Self, CqlError> {
        let receiver = Receiver::new("[timeout]", CqlType::Duration);
        let timeout = StatementTimeout(typing.term(&term.into(), &receiver)?);
        if let Expression::Constant(Some(bytes)) = &timeout.0 {
            from_bytes(bytes)?;
        }
        Ok(timeout)
    }

    /// `None` where an unset value leaves it to the configuration.
    pub fn evaluate(
        &self,
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
    ) -> Result<Option<Duration>, CqlError> {
        match self.0.evaluate(&options.evaluation(values))? {
            Evaluated::Unset => Ok(None),
            Evaluated::Null => Err(invalid!("Invalid null value of timeout")),
            Evaluated::Bytes(bytes) => from_bytes(&bytes).map(Some),
        }
    }
}

fn from_bytes(bytes: &[u8]) -> Result<Duration, CqlError> {
    let duration =
        duration::Duration::from_bytes(bytes).map_err(|error| invalid!("Invalid timeout value: {error}"))?;
    if duration.months != 0 || duration.days != 0 {
        return Err(invalid!("Timeout values cannot contain days or months"));
    }
    let nanoseconds = u64::try_from(duration.nanoseconds);
    nanoseconds
        .map(Duration::from_nanos)
        .map_err(|_| invalid!("Timeout values must be non-negative"))
}

/// Returns the term of the statement after `USING TIMEOUT`.
pub(super) fn timeout_of(statement: &Statement) -> Option<&Term> {
    match statement {
        Statement::Select(select) => select.timeout.as_ref(),
        Statement::Modification(modification) => timeout_of_modification(modification),
        Statement::Batch(batch) => {
            let mut members = batch.statements.iter().filter_map(timeout_of_modification);
            // Its members have one deadline, the batch's own.
            batch.using.timeout.as_ref().or(members.next_back())
        }
        Statement::Prune(prune) => prune.timeout.as_ref(),
        _ => None,
    }
}

fn timeout_of_modification(modification: &Modification) -> Option<&Term> {
    match modification {
        Modification::Insert(insert) => insert.using.timeout.as_ref(),
        Modification::Update(update) => update.using.timeout.as_ref(),
        Modification::Delete(delete) => delete.using.timeout.as_ref(),
    }
}

impl HeapBytes for StatementTimeout {
    fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }
}
