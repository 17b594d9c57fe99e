//! How many copies a consistency level asks for, and how many there are.

use helenus_protocol::Consistency;
use helenus_schema::{KeyspaceMetadata, Replication, Schema};

use crate::{CqlError, Plan};

/// Rule for how many replicas the one copy that a node keeps counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CopyRule {
    /// For all replicas of its keyspace: statements meant for a cluster run on one node as they are.
    #[default]
    AllReplicas,
    /// For one replica, the others being down: what Cassandra answers with one node left.
    OneReplica,
}

impl CopyRule {
    /// Refuses levels that cannot be had of the statement's keyspaces.
    #[inline]
    pub fn check(self, schema: &Schema, plan: &Plan, consistency: Consistency) -> Result<(), CqlError> {
        match self.may_refuse(consistency) {
            true => self.check_keyspaces(schema, plan, consistency),
            false => Ok(()),
        }
    }

    #[inline(never)]
    fn check_keyspaces(self, schema: &Schema, plan: &Plan, consistency: Consistency) -> Result<(), CqlError> {
        match plan {
            Plan::Select(plan) => self.check_keyspace(schema, &plan.table.keyspace, consistency),
            Plan::Modify(plan) => self.check_keyspace(schema, &plan.table.keyspace, consistency),
            Plan::Batch(plan) => plan
                .statements
                .iter()
                .try_for_each(|plan| self.check_keyspace(schema, &plan.table.keyspace, consistency)),
            Plan::Transaction(plan) => plan
                .tables()
                .try_for_each(|table| self.check_keyspace(schema, &table.keyspace, consistency)),
            Plan::Use(_)
            | Plan::Truncate(_)
            | Plan::Prune(_)
            | Plan::Schema(_)
            | Plan::Role(_)
            | Plan::Describe(_) => Ok(()),
        }
    }

    #[inline]
    fn may_refuse(self, consistency: Consistency) -> bool {
        match consistency {
            Consistency::Any | Consistency::One | Consistency::LocalOne | Consistency::NodeLocal => false,
            Consistency::Two | Consistency::Three => true,
            _ => self == CopyRule::OneReplica,
        }
    }

    fn check_keyspace(
        self,
        schema: &Schema,
        keyspace: &str,
        consistency: Consistency,
    ) -> Result<(), CqlError> {
        let factor = schema
            .keyspace(keyspace)
            .map_or(1, |keyspace| replica_count(keyspace));
        let required = match consistency {
            Consistency::Two => 2,
            Consistency::Three => 3,
            Consistency::All => factor,
            Consistency::Any | Consistency::One | Consistency::LocalOne | Consistency::NodeLocal => 1,
            // With one datacenter every majority is of all replicas.
            Consistency::Quorum
            | Consistency::LocalQuorum
            | Consistency::EachQuorum
            | Consistency::Serial
            | Consistency::LocalSerial => factor / 2 + 1,
        };
        let alive = match self {
            CopyRule::AllReplicas => factor,
            CopyRule::OneReplica => 1,
        };
        if alive >= required {
            return Ok(());
        }
        Err(CqlError::Unavailable {
            consistency,
            required,
            alive,
        })
    }
}

/// How many copies the keyspace is meant to have, in all datacenters together; at least the one there is.
fn replica_count(keyspace: &KeyspaceMetadata) -> i32 {
    if keyspace.is_virtual {
        return 1;
    }
    let Replication { options, .. } = &keyspace.replication;
    // `3/1` are three replicas, one of them transient. What is not a number says nothing of replicas.
    let factors = options.values().filter_map(|factor| {
        let all = factor.split('/').next().unwrap_or_default();
        all.trim().parse::<u16>().ok().map(i32::from)
    });
    factors.fold(0_i32, i32::saturating_add).max(1)
}
