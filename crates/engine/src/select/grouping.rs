//! Aggregates and GROUP BY: rows in, one row for each group out.

use helenus_rows::clustering::{Side, push_component};

use super::paging::{PagePlace, Position};
use super::plan::{Grouping, Output, SelectPlan};
use crate::CqlError;
use crate::clause::slices;
use crate::functions::Accumulator;
use crate::term::{AggregateCall, Evaluated, EvaluationContext, FetchedRow};
use helenus_types::value::write_component;

/// The group that rows are being added to.
#[derive(Debug, Default)]
pub struct GroupInProgress {
    /// The values the group is told by.
    key: Vec<u8>,
    /// First row of the group: the values of its plain columns are taken from it.
    first_row: Option<Vec<u8>>,
    last_row: Vec<u8>,
    accumulators: Vec<Accumulator>,
}

impl GroupInProgress {
    pub fn new(plan: &SelectPlan) -> Self {
        let accumulators = match &plan.output {
            Output::Columns(_) => Vec::new(),
            Output::Expressions { aggregates, .. } => aggregates.iter().map(accumulator).collect(),
        };
        GroupInProgress {
            accumulators,
            ..GroupInProgress::default()
        }
    }

    pub fn is_empty(&self) -> bool {
        self.first_row.is_none()
    }

    /// Bytes of the row that its plain values are computed of.
    pub fn first_row_bytes(&self) -> usize {
        self.first_row.as_ref().map_or(0, Vec::len)
    }

    /// Returns whether the row belongs to this group; any row does to an empty one.
    pub fn takes(&self, key: &[u8]) -> bool {
        self.is_empty() || self.key == key
    }

    pub fn add(
        &mut self,
        plan: &SelectPlan,
        key: Vec<u8>,
        row: FetchedRow<'_>,
        context: &EvaluationContext<'_>,
    ) -> Result<(), CqlError> {
        if self.first_row.is_none() {
            self.first_row = Some(row.as_bytes().to_vec());
        }
        self.key = key;
        self.last_row.clear();
        self.last_row.extend_from_slice(row.as_bytes());
        let Output::Expressions { aggregates, .. } = &plan.output else {
            return Ok(());
        };
        let context = EvaluationContext {
            row: Some(row),
            ..*context
        };
        for (call, accumulator) in aggregates.iter().zip(&mut self.accumulators) {
            match &call.argument {
                Some(argument) => accumulator.add(argument.evaluate(&context)?.bytes())?,
                None => accumulator.add(None)?,
            }
        }
        Ok(())
    }

    /// Appends the group's row.
    pub fn write(
        &self,
        plan: &SelectPlan,
        context: &EvaluationContext<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), CqlError> {
        let aggregates: Vec<Option<Vec<u8>>> = self.accumulators.iter().map(Accumulator::finish).collect();
        let row = self.first_row.as_deref().map(FetchedRow::new);
        let context = EvaluationContext {
            row,
            aggregates: &aggregates,
            ..*context
        };
        write_output(plan, &context, out)
    }

    /// The last row of the group, as a place to go on from.
    pub fn position(&self, grouping: &Grouping, side: Side) -> Result<Position, CqlError> {
        let row = FetchedRow::new(&self.last_row);
        let components: Vec<&[u8]> = grouping
            .partition_key_slots
            .iter()
            .map(|slot| row.value(*slot).unwrap_or_default())
            .collect();
        let mut key = Vec::new();
        slices::append_key(&mut key, components.iter().copied())?;
        let mut clustering = Vec::new();
        for slot in &grouping.clustering_slots {
            match row.value(*slot) {
                Some(component) => push_component(&mut clustering, component),
                None => {
                    return Ok(Position { key, place: None });
                }
            }
        }
        Ok(Position {
            key,
            place: Some(PagePlace::behind_row(&clustering, side)),
        })
    }
}

fn accumulator(call: &AggregateCall) -> Accumulator {
    let function = &call.function;
    let argument_type = function.argument_types.first().unwrap_or(&function.return_type);
    let kind = function
        .as_aggregate()
        .unwrap_or(crate::functions::AggregateKind::CountRows);
    Accumulator::new(kind, argument_type)
}

/// The values that tell a row's group.
pub fn group_key(
    grouping: &Grouping,
    row: FetchedRow<'_>,
    context: &EvaluationContext<'_>,
) -> Result<Vec<u8>, CqlError> {
    let context = EvaluationContext {
        row: Some(row),
        ..*context
    };
    let mut key = Vec::new();
    for column in &grouping.columns {
        write_component(&mut key, column.evaluate(&context)?.bytes());
    }
    Ok(key)
}

/// Appends the values of one row of the result.
pub fn write_output(
    plan: &SelectPlan,
    context: &EvaluationContext<'_>,
    out: &mut Vec<u8>,
) -> Result<(), CqlError> {
    match &plan.output {
        Output::Columns(count) => {
            for slot in 0..*count {
                write_component(out, context.row.and_then(|row| row.value(slot)));
            }
        }
        Output::Expressions { expressions, .. } => {
            for expression in expressions {
                let value: Evaluated<'_> = expression.evaluate(context)?;
                write_component(out, value.bytes());
            }
        }
    }
    Ok(())
}
