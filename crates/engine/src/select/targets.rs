//! Which partitions a SELECT reads, on which shards, in the order of their reads.

use helenus_rows::clustering::Side;
use helenus_types::{ShardId, Token, shard_of, token_of};

use super::plan::SelectPlan;
use super::read_partitions::{OwnedPartitionBound, ReadPartitions};
use crate::CqlError;
use crate::clause::restriction::Restriction;
use crate::clause::slices;
use crate::term::{EvaluationContext, Expression};

#[derive(Clone, Debug)]
pub(super) struct Target {
    pub shard: ShardId,
    pub partitions: ReadPartitions,
}

pub(super) fn targets(
    plan: &SelectPlan,
    context: &EvaluationContext<'_>,
    shard_count: u16,
) -> Result<Vec<Target>, CqlError> {
    let Some((start, end)) = token_bounds(plan, context)? else {
        return Ok(Vec::new());
    };
    if plan.is_range_scan() {
        let shards = shard_of(start.token, shard_count).0..=shard_of(end.token, shard_count).0;
        let target = |shard| Target {
            shard: ShardId(shard),
            partitions: ReadPartitions::Range { start, end },
        };
        return Ok(shards.map(target).collect());
    }
    let keys = slices::partition_keys(&plan.table, &plan.clause.partition, context)?;
    if let Err(error) = slices::check_keys(&keys) {
        // Cassandra looks at keys after it knows that there are rows to ask for.
        let slices = slices::slices(&plan.table, plan.slicing(), context)?;
        let asks_for_statics = plan.selects_statics && !plan.slicing().iter().any(Restriction::is_slice);
        return match slices.is_empty() && !asks_for_statics {
            true => Ok(Vec::new()),
            false => Err(error),
        };
    }
    let targets = keys.into_iter().map(|key| {
        let token = token_of(&key);
        Target {
            shard: shard_of(token, shard_count),
            partitions: ReadPartitions::Key { token, key },
        }
    });
    let is_inside = |target: &Target| match &target.partitions {
        ReadPartitions::Key { token, .. } => is_between(*token, start, end),
        ReadPartitions::Range { .. } => true,
    };
    Ok(targets.filter(is_inside).collect())
}

pub(super) fn is_between(token: Token, start: OwnedPartitionBound, end: OwnedPartitionBound) -> bool {
    let is_after_start = token > start.token || (token == start.token && start.side == Side::Before);
    let is_before_end = token < end.token || (token == end.token && end.side == Side::After);
    is_after_start && is_before_end
}

/// The tokens that are asked for; none if there cannot be any.
pub(super) fn token_bounds(
    plan: &SelectPlan,
    context: &EvaluationContext<'_>,
) -> Result<Option<(OwnedPartitionBound, OwnedPartitionBound)>, CqlError> {
    let first = OwnedPartitionBound {
        token: Token::MINIMUM,
        side: Side::Before,
    };
    let last = OwnedPartitionBound {
        token: Token::MAXIMUM,
        side: Side::After,
    };
    let Some(restriction) = &plan.clause.token else {
        return Ok(Some((first, last)));
    };
    let bound = |bound: &Option<(Expression, bool)>| -> Result<Option<(Token, bool)>, CqlError> {
        let Some((term, is_inclusive)) = bound else {
            return Ok(None);
        };
        let value = term.evaluate(context)?;
        let bytes = value
            .bytes()
            .ok_or_else(|| invalid!("Invalid null token value"))?;
        let token = bytes
            .try_into()
            .map(i64::from_be_bytes)
            .map_err(|_| invalid!("Invalid token value"))?;
        Ok(Some((Token(token), *is_inclusive)))
    };
    let (start, end) = (bound(&restriction.start)?, bound(&restriction.end)?);
    let start = start.map_or(first, |(token, is_inclusive)| OwnedPartitionBound {
        token,
        side: if is_inclusive { Side::Before } else { Side::After },
    });
    // The smallest token stands for the end of the ring when it ends a range.
    let end = end
        .filter(|(token, _)| *token != Token::MINIMUM)
        .map_or(last, |(token, is_inclusive)| OwnedPartitionBound {
            token,
            side: if is_inclusive { Side::After } else { Side::Before },
        });
    let is_empty = start.token > end.token
        || (start.token == end.token && (start.side, end.side) != (Side::Before, Side::After));
    Ok((!is_empty).then_some((start, end)))
}
