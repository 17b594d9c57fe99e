//! Reads that meet more tombstones than they should: warnings, failures and pages that end early, in Cassandra's words.

use std::net::IpAddr;

use helenus_protocol::{Consistency, FailureReason};
use helenus_storage::read::ReadStatistics;
use helenus_types::partition_key::partition_key_components;
use helenus_types::{Token, token_of};

use super::plan::SelectPlan;
use super::read_partitions::ReadPartitions;
use super::shard_rows::ShardRead;
use crate::CqlError;
use crate::error::ReplicaFailure;

/// Cassandra cuts the query in its warning to so many characters.
const QUERY_CHARACTERS_MAX: usize = 512;

/// The read of one copy that met too many tombstones and cannot be cut into pages.
pub(super) fn too_many_tombstones(consistency: Consistency, address: IpAddr) -> CqlError {
    CqlError::ReadFailure(Box::new(ReplicaFailure {
        consistency,
        received: 0,
        block_for: 1,
        failures: vec![(address, FailureReason::ReadTooManyTombstones)],
        detail: false,
    }))
}

/// Returns the warning to the client of a read that met many tombstones.
pub(super) fn warning(
    plan: &SelectPlan,
    read: &ShardRead,
    statistics: &ReadStatistics,
    last_key: &[u8],
) -> String {
    let query: String = query_text(plan, read)
        .chars()
        .take(QUERY_CHARACTERS_MAX)
        .collect();
    let token: Token = match &read.partitions {
        ReadPartitions::Key { token, .. } => *token,
        ReadPartitions::Range { .. } => token_of(last_key),
    };
    format!(
        "Read {} live rows and {} tombstone cells for query {query}; token {} (see tombstone_warn_threshold)",
        statistics.rows_live, statistics.tombstones, token.0
    )
}

/// The read as a statement; not one that has to run again.
fn query_text(plan: &SelectPlan, read: &ShardRead) -> String {
    let table = &plan.table;
    let mut text = format!("SELECT * FROM {}.{}", table.keyspace, table.name);
    if let ReadPartitions::Key { key, .. } = &read.partitions {
        let columns = table.partition_key();
        let components = partition_key_components(key, columns.len());
        for (index, (column, component)) in columns.iter().zip(components).enumerate() {
            let word = if index == 0 { "WHERE" } else { "AND" };
            let literal = column.cql_type.to_cql_literal(component);
            text.push_str(&format!(" {word} {} = {literal}", column.name));
        }
    }
    if read.rows_max != u32::MAX {
        text.push_str(&format!(" LIMIT {}", read.rows_max));
    }
    text.push_str(" ALLOW FILTERING");
    text
}
