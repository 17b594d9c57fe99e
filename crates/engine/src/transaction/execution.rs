//! One execution of a transaction: what it reads, and what it decides on what was read.

use helenus_protocol::response::{RowsWriter, write_void};
use helenus_schema::TableId;
use helenus_types::Token;

use super::plan::{Answer, RowTest, TransactionPlan};
use super::prepare::{null_comparison, too_many_rows};
use crate::CqlError;
use crate::execute::{QueryOptions, Scratch};
use crate::modify::{BoundCondition, TransactionUpdates};
use crate::select::{RowRead, StoredRow};
use crate::term::{BoundValues, EvaluationContext, ReferencePlan};
use helenus_protocol::request::Value;

/// A transaction whose keys are known.
#[derive(Debug)]
pub struct BoundTransaction {
    /// Those of the plan, and then the rows that statements change, of those that do.
    pub reads: Vec<RowRead>,
    /// All that it reads or writes, each once.
    pub partitions: Vec<(TableId, Token)>,
    /// Partitions of these that it writes.
    pub written: Vec<(TableId, Token)>,
    /// No two statements write to the same partition.
    are_apart: bool,
    /// Where each statement finds its own row among the reads.
    own_rows: Vec<Option<usize>>,
}

/// Outcome of a transaction.
#[derive(Debug)]
pub struct Decided {
    /// One for each partition.
    pub updates: Vec<Vec<u8>>,
    /// The body of the RESULT.
    pub body: Vec<u8>,
}

impl TransactionPlan {
    pub fn bind(
        &self,
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
    ) -> Result<BoundTransaction, CqlError> {
        let mut reads = Vec::with_capacity(self.reads.len());
        for read in &self.reads {
            // What is left to be seen now is the value of a LIMIT; its place in the text is none of a later client's business.
            read.plan
                .check_one_row(Some((values, options)))
                .map_err(|many| too_many_rows(many, &read.name, ""))?;
            reads.push(read.plan.row_read(values, options)?);
        }
        let mut own_rows = Vec::with_capacity(self.statements.len());
        let mut written = Vec::new();
        for statement in &self.statements {
            let own_row = statement.own_row(values, options)?;
            own_rows.push(own_row.map(|own_row| {
                reads.push(own_row);
                reads.len() - 1
            }));
            written.extend(statement.partitions(values, options)?);
        }
        let mentioned = written.len();
        sort_unique(&mut written);
        let read = reads.iter().map(|read| (read.table.id, read.token));
        let mut partitions: Vec<_> = read.chain(written.iter().copied()).collect();
        sort_unique(&mut partitions);
        Ok(BoundTransaction {
            reads,
            partitions,
            are_apart: written.len() == mentioned,
            written,
            own_rows,
        })
    }
}

fn sort_unique(partitions: &mut Vec<(TableId, Token)>) {
    partitions.sort_unstable_by_key(|(table, token)| (*token, *table));
    partitions.dedup();
}

impl BoundTransaction {
    /// The newest timestamp of what was read.
    pub fn newest_us(rows: &[StoredRow]) -> Option<i64> {
        rows.iter().filter_map(StoredRow::newest_us).max()
    }

    /// `rows` are those of [`BoundTransaction::reads`].
    pub fn decide(
        &self,
        plan: &TransactionPlan,
        rows: &[StoredRow],
        (values, options): (&BoundValues<'_>, &QueryOptions<'_>),
        ballot_us: i64,
        scratch: &mut Scratch,
    ) -> Result<Decided, CqlError> {
        let context = options.evaluation(values);
        let referred = plan
            .references
            .iter()
            .map(|plan| self.value(plan, rows, &context));
        let referred: Vec<Option<Vec<u8>>> = referred.collect::<Result<_, CqlError>>()?;
        let behind = referred
            .iter()
            .map(|value| value.as_deref().map_or(Value::Null, Value::Bytes));
        let values = &BoundValues::positional(values.iter().chain(behind));
        let context = options.evaluation(values);
        let mut updates = TransactionUpdates::new(ballot_us, self.are_apart);
        if self.is_met(plan, rows, &context)? {
            for (statement, own_row) in plan.statements.iter().zip(&self.own_rows) {
                let own_row = own_row.and_then(|own_row| rows.get(own_row));
                updates.add(statement, own_row, (values, options), scratch)?;
            }
        }
        Ok(Decided {
            updates: updates.into_updates(),
            body: self.answer(plan, rows, (values, options))?,
        })
    }

    fn value(
        &self,
        reference: &ReferencePlan,
        rows: &[StoredRow],
        context: &EvaluationContext<'_>,
    ) -> Result<Option<Vec<u8>>, CqlError> {
        let whole = self
            .view(reference.row, rows)
            .and_then(|row| row.value(&reference.column));
        match whole {
            Some(whole) => reference.part_of(&whole, context),
            None => Ok(None),
        }
    }

    fn view<'v>(&'v self, read: usize, rows: &'v [StoredRow]) -> Option<crate::select::RowView<'v>> {
        self.reads.get(read)?.view(rows.get(read)?)
    }

    fn is_met(
        &self,
        plan: &TransactionPlan,
        rows: &[StoredRow],
        context: &EvaluationContext<'_>,
    ) -> Result<bool, CqlError> {
        let mut all_met = true;
        // All of them are bound: a value that is refused is refused whatever is stored.
        for condition in &plan.conditions {
            let row = self.view(condition.row, rows);
            all_met &= match &condition.test {
                RowTest::Exists(wanted) => row.is_some() == *wanted,
                RowTest::HasValue(condition) => {
                    BoundCondition::bind(condition, context)?.is_met_by(row.as_ref())
                }
                RowTest::Compare {
                    condition,
                    is_with_reference,
                } => match condition.has_operand(context)? {
                    true => BoundCondition::bind(condition, context)?.is_met_by(row.as_ref()),
                    false if *is_with_reference => false,
                    false => return Err(null_comparison()),
                },
            };
        }
        Ok(all_met)
    }

    fn answer(
        &self,
        plan: &TransactionPlan,
        rows: &[StoredRow],
        (values, options): (&BoundValues<'_>, &QueryOptions<'_>),
    ) -> Result<Vec<u8>, CqlError> {
        let mut out = Vec::new();
        match &plan.answer {
            Answer::Nothing => write_void(&mut out),
            Answer::Select(_) => {
                let place = plan.reads.len().saturating_sub(1);
                let (Some(read), Some(bound), Some(row)) =
                    (plan.reads.last(), self.reads.get(place), rows.get(place))
                else {
                    return Err(CqlError::server(format_args!(
                        "a transaction has lost what it answers"
                    )));
                };
                return read.plan.answer_of_row((bound, row), values, options);
            }
            Answer::References(references, result) => {
                let context = options.evaluation(values);
                let metadata = result.for_version(options.version);
                let mut writer = RowsWriter::begin(&mut out, metadata, options.metadata_form);
                for reference in references {
                    let value = self.value(reference, rows, &context)?;
                    writer.value(&mut out, value.as_deref());
                }
                writer.end_row();
                writer.finish(&mut out, None);
            }
        }
        Ok(out)
    }
}
