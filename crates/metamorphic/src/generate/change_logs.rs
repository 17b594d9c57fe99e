//! Logs of the changes of a history's tables: every node tells of the same writes by the same rows.

use helenus_schema::{TableMetadata, change_log_name};
use helenus_storage_model::Chance;
use helenus_types::{CqlType, quoted_identifier};

/// Tables that can have a log, of which one has it.
const LOG_ONE_IN: u64 = 3;

/// The log of a table.
pub struct ChangeLog {
    /// The statement that gives the table its log.
    pub alter: String,
    /// The statement that reads all of the log.
    pub select: String,
}

/// A log of a table to which nothing is written that has the time of a node's clock.
pub fn log(chance: &Chance, table: &TableMetadata) -> Option<ChangeLog> {
    if !chance.one_in(LOG_ONE_IN) {
        return None;
    }
    let keyspace = quoted_identifier(&table.keyspace);
    let preimage = chance.pick(&["false", "true", "full"]);
    let postimage = chance.pick(&["false", "true"]);
    let delta = chance.pick(&["full", "full", "keys"]);
    Some(ChangeLog {
        alter: format!(
            "ALTER TABLE {keyspace}.{} WITH cdc = {{'enabled': 'true', 'preimage': '{preimage}', 'postimage': '{postimage}', \
             'delta': '{delta}', 'ttl': '0'}}",
            quoted_identifier(&table.name)
        ),
        select: format!(
            "SELECT * FROM {keyspace}.{}",
            quoted_identifier(&change_log_name(&table.name))
        ),
    })
}

/// Returns whether the elements of a column are named by the time of a node's clock, which the log shows.
pub fn shows_clock(cql_type: &CqlType) -> bool {
    matches!(cql_type, CqlType::List { frozen: false, .. })
}
