//! Limits on the schema, by Cassandra's names and in its words: looked at when a statement adds to it.

use helenus_catalog::ddl::{SchemaChangeTarget, SchemaTransition};
use helenus_engine::CqlError;
use helenus_protocol::response::SchemaChangeKind;
use helenus_rows::guardrails::{Exceeded, Threshold};
use helenus_schema::{KeyspaceMetadata, Schema, is_system_keyspace};

use crate::guardrails::{Guardrails, violated};

impl Guardrails {
    /// The warnings that a change of the schema deserves, or its refusal.
    pub(crate) fn check_schema(
        &self,
        before: &Schema,
        transition: &SchemaTransition,
    ) -> Result<Vec<String>, CqlError> {
        let (after, change) = (&transition.schema, &transition.change);
        let is_created = change.kind == SchemaChangeKind::Created;
        let keyspace = after.keyspace(&change.keyspace);
        let mut warnings = Vec::new();
        match &change.target {
            SchemaChangeTarget::Keyspace if is_created => {
                let count = user_keyspaces(after).count() as u64;
                warnings.extend(self.check_keyspaces(&change.keyspace, count)?);
            }
            SchemaChangeTarget::Table(name) => {
                let columns = |schema: &Schema| {
                    let table = schema.keyspace(&change.keyspace)?.tables.get(name)?;
                    Some(table.columns.len() as u64)
                };
                let count = columns(after).unwrap_or(0);
                if count > columns(before).unwrap_or(0) {
                    warnings.extend(self.check_columns(name, count)?);
                }
                warnings.extend(self.check_indexes(before, transition, name)?);
                if is_created {
                    let count = user_keyspaces(after)
                        .map(|keyspace| keyspace.tables.len() as u64)
                        .sum();
                    warnings.extend(self.check_tables(name, count)?);
                }
            }
            SchemaChangeTarget::Type(name) => {
                let fields = |keyspace: Option<&KeyspaceMetadata>| {
                    Some(keyspace?.types.get(name)?.fields.len() as u64)
                };
                let count = fields(keyspace.map(|keyspace| &**keyspace)).unwrap_or(0);
                let earlier = before.keyspace(&change.keyspace);
                if count > fields(earlier.map(|keyspace| &**keyspace)).unwrap_or(0) {
                    warnings.extend(self.check_fields(name, count)?);
                }
            }
            SchemaChangeTarget::Keyspace => {}
        }
        Ok(warnings)
    }

    fn check_keyspaces(&self, name: &str, count: u64) -> Result<Option<String>, CqlError> {
        check("keyspaces", self.keyspaces, count, |exceeded| match exceeded {
            Exceeded::Warn(threshold) => format!(
                "Creating keyspace {name}, current number of keyspaces {count} exceeds warning threshold of {threshold}."
            ),
            Exceeded::Fail(threshold) => {
                format!(
                    "Cannot have more than {threshold} keyspaces, aborting the creation of keyspace {name}"
                )
            }
        })
    }

    fn check_tables(&self, name: &str, count: u64) -> Result<Option<String>, CqlError> {
        check("tables", self.tables, count, |exceeded| match exceeded {
            Exceeded::Warn(threshold) => format!(
                "Creating table {name}, current number of tables {count} exceeds warning threshold of {threshold}."
            ),
            Exceeded::Fail(threshold) => {
                format!("Cannot have more than {threshold} tables, aborting the creation of table {name}")
            }
        })
    }

    fn check_columns(&self, name: &str, count: u64) -> Result<Option<String>, CqlError> {
        check(
            "columns_per_table",
            self.columns_per_table,
            count,
            |exceeded| match exceeded {
                Exceeded::Warn(threshold) => {
                    format!(
                        "The table {name} has {count} columns, this exceeds the warning threshold of {threshold}."
                    )
                }
                Exceeded::Fail(threshold) => format!(
                    "Tables cannot have more than {threshold} columns, but {count} provided for table {name}"
                ),
            },
        )
    }

    /// Checks the number of indexes of a table that has one index more than before.
    fn check_indexes(
        &self,
        before: &Schema,
        transition: &SchemaTransition,
        table: &str,
    ) -> Result<Option<String>, CqlError> {
        let keyspace = &transition.change.keyspace;
        let (Some(before), Some(after)) = (
            before.table(keyspace, table),
            transition.schema.table(keyspace, table),
        ) else {
            return Ok(None);
        };
        let mut indexes = after.indexes.iter();
        let Some(index) = indexes.find(|index| before.indexes.iter().all(|old| old.id != index.id)) else {
            return Ok(None);
        };
        let (name, count) = (&index.name, after.indexes.len() as u64);
        check(
            "secondary_indexes_per_table",
            self.secondary_indexes_per_table,
            count,
            |exceeded| match exceeded {
                Exceeded::Warn(threshold) => format!(
                    "Creating secondary index {name} on table {table}, current number of indexes {count} exceeds \
                     warning threshold of {threshold}."
                ),
                Exceeded::Fail(threshold) => format!(
                    "Tables cannot have more than {threshold} secondary indexes, aborting the creation of secondary \
                     index {name} on table {table}"
                ),
            },
        )
    }

    fn check_fields(&self, name: &str, count: u64) -> Result<Option<String>, CqlError> {
        check(
            "fields_per_udt",
            self.fields_per_udt,
            count,
            |exceeded| match exceeded {
                Exceeded::Warn(threshold) => format!(
                    "The user type {name} has {count} columns, this exceeds the warning threshold of {threshold}."
                ),
                Exceeded::Fail(threshold) => format!(
                    "User types cannot have more than {threshold} columns, but {count} provided for user type {name}."
                ),
            },
        )
    }
}

fn check(
    name: &str,
    threshold: Threshold,
    count: u64,
    text: impl Fn(Exceeded) -> String,
) -> Result<Option<String>, CqlError> {
    match threshold.exceeded_by(count) {
        None => Ok(None),
        Some(exceeded @ Exceeded::Fail(_)) => Err(violated(name, &text(exceeded))),
        Some(exceeded @ Exceeded::Warn(_)) => {
            Ok(Some(format!("Guardrail {name} violated: {}", text(exceeded))))
        }
    }
}

fn user_keyspaces(schema: &Schema) -> impl Iterator<Item = &KeyspaceMetadata> {
    let keyspaces = schema.keyspaces.values();
    keyspaces
        .map(|keyspace| &**keyspace)
        .filter(|keyspace| !keyspace.is_virtual && !is_system_keyspace(&keyspace.name))
}
