//! Limits on what one statement may ask for, by Cassandra's names, defaults and words.

mod values;

use std::collections::BTreeSet;

use helenus_engine::CqlError;
use helenus_events::{Event, Events};
use helenus_rows::data_size::{data_bytes, data_bytes_max};
pub use helenus_rows::guardrails::{Exceeded, PartitionGuardrails, Threshold};
use helenus_rows::row::RowShape;
use helenus_rows::update::{PackedUpdate, Update};
use helenus_schema::{Schema, TableId};

pub use values::ValueGuardrails;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guardrails {
    /// `batch_size_warn_threshold` and `batch_size_fail_threshold`, in bytes as Cassandra counts them ([`data_bytes`]).
    pub batch_size: Threshold,
    /// `page_size_warn_threshold` and `page_size_fail_threshold`, in rows.
    pub page_size: Threshold,
    /// `partition_keys_in_select_warn_threshold` and `partition_keys_in_select_fail_threshold`.
    pub partition_keys_in_select: Threshold,
    /// `in_select_cartesian_product_warn_threshold` and `in_select_cartesian_product_fail_threshold`: what the lists of
    /// several INs multiply to, on the partition key and on clustering columns apart.
    pub in_select_cartesian_product: Threshold,
    /// `keyspaces_warn_threshold` and `keyspaces_fail_threshold`, without those of the system.
    pub keyspaces: Threshold,
    /// `tables_warn_threshold` and `tables_fail_threshold`, in all keyspaces but those of the system.
    pub tables: Threshold,
    /// `columns_per_table_warn_threshold` and `columns_per_table_fail_threshold`.
    pub columns_per_table: Threshold,
    /// `fields_per_udt_warn_threshold` and `fields_per_udt_fail_threshold`.
    pub fields_per_udt: Threshold,
    /// `secondary_indexes_per_table_warn_threshold` and `secondary_indexes_per_table_fail_threshold`.
    pub secondary_indexes_per_table: Threshold,
    /// On the values that a statement writes.
    pub values: ValueGuardrails,
    /// On what SSTables get to hold.
    pub partition: PartitionGuardrails,
}

impl Default for Guardrails {
    fn default() -> Self {
        Guardrails {
            batch_size: Threshold {
                warn: 5 << 10,
                fail: 50 << 10,
            },
            page_size: Threshold::DISABLED,
            partition_keys_in_select: Threshold::DISABLED,
            in_select_cartesian_product: Threshold::DISABLED,
            keyspaces: Threshold::DISABLED,
            tables: Threshold::DISABLED,
            columns_per_table: Threshold::DISABLED,
            fields_per_udt: Threshold::DISABLED,
            secondary_indexes_per_table: Threshold::DISABLED,
            values: ValueGuardrails::default(),
            partition: PartitionGuardrails::default(),
        }
    }
}

/// Sizes of updates together, by how they are counted.
fn batch_bytes<'u>(
    schema: &Schema,
    updates: impl Iterator<Item = &'u PackedUpdate>,
    count: impl Fn(&Update<'_>, &RowShape) -> u64,
) -> u64 {
    let mut shape: Option<(TableId, RowShape)> = None;
    let mut bytes = 0;
    for update in updates {
        let id = update.partition().0;
        if shape.as_ref().is_none_or(|(of, _)| *of != id) {
            shape = schema.table_by_id(id).map(|table| (id, RowShape::of(table)));
        }
        if let (Some((_, shape)), Some(update)) = (&shape, update.decode()) {
            bytes += count(&update, shape);
        }
    }
    bytes
}

impl Guardrails {
    /// The warning that a batch over several partitions deserves, or its refusal.
    pub fn check_batch<'u>(
        &self,
        schema: &Schema,
        updates: impl Iterator<Item = &'u PackedUpdate> + Clone,
        events: &Events,
    ) -> Result<Option<String>, CqlError> {
        let Threshold { warn, fail } = self.batch_size;
        if batch_bytes(schema, updates.clone(), data_bytes_max) <= warn {
            return Ok(None);
        }
        let size = batch_bytes(schema, updates.clone(), data_bytes);
        if size <= warn {
            return Ok(None);
        }
        let names: BTreeSet<String> = updates
            .filter_map(|update| schema.table_by_id(update.partition().0))
            .map(|table| format!("{}.{}", table.keyspace, table.name))
            .collect();
        let names = names.into_iter().collect::<Vec<_>>().join(", ");
        if size > fail {
            events.event(&Event::BatchTooLarge {
                tables: &names,
                bytes: size,
                bytes_max: fail,
            });
            return Err(CqlError::invalid(format_args!("Batch too large")));
        }
        Ok(Some(format!(
            "Batch for [{names}] is of size {size}, exceeding specified threshold of {warn} by {}.",
            size - warn
        )))
    }

    pub fn check_page_size(&self, table: &str, rows: u64) -> Result<Option<String>, CqlError> {
        let Threshold { warn, fail } = self.page_size;
        if rows > fail {
            return Err(violated(
                "page_size",
                &format!(
                    "Aborting query for table {table}, page size {rows} exceeds fail threshold of {fail}."
                ),
            ));
        }
        Ok((rows > warn).then(|| {
            format!(
                "Guardrail page_size violated: Query for table {table} with page size {rows} exceeds warning threshold \
                 of {warn}."
            )
        }))
    }

    pub(crate) fn check_partition_keys(&self, table: &str, keys: u64) -> Result<Option<String>, CqlError> {
        let Threshold { warn, fail } = self.partition_keys_in_select;
        if keys > fail {
            return Err(violated(
                "partition_keys_in_select",
                &format!(
                    "Aborting query with partition keys in IN clause on table {table}, number of partition keys {keys} \
                     exceeds fail threshold of {fail}."
                ),
            ));
        }
        Ok((keys > warn).then(|| {
            format!(
                "Guardrail partition_keys_in_select violated: Query with partition keys in IN clause on table {table}, \
                 with number of partition keys {keys} exceeds warning threshold of {warn}."
            )
        }))
    }

    /// Checks the products of the INs on the partition key and of those on clustering columns.
    pub(crate) fn check_in_products(
        &self,
        (partition, clustering): (Option<u64>, Option<u64>),
    ) -> Result<Vec<String>, CqlError> {
        let mut warnings = Vec::new();
        for (what, product) in [("partition key", partition), ("clustering key", clustering)] {
            let product = product.unwrap_or(0);
            let Some(exceeded) = self.in_select_cartesian_product.exceeded_by(product) else {
                continue;
            };
            let produces =
                format!("cartesian product of the IN restrictions on {what} produces {product} values");
            match exceeded {
                Exceeded::Fail(fail) => {
                    let text = format!(
                        "Aborting query because the {produces}, this exceeds fail threshold of {fail}."
                    );
                    return Err(violated("in_select_cartesian_product", &text));
                }
                Exceeded::Warn(warn) => warnings.push(format!(
                    "Guardrail in_select_cartesian_product violated: The {produces}, this exceeds warning threshold \
                     of {warn}."
                )),
            }
        }
        Ok(warnings)
    }
}

/// Cassandra's GuardrailViolatedException is an invalid request.
pub(crate) fn violated(name: &str, message: &str) -> CqlError {
    CqlError::invalid(format_args!("Guardrail {name} violated: {message}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_those_of_cassandra() {
        let threshold = Threshold { warn: 10, fail: 20 };
        let guardrails = Guardrails {
            page_size: threshold,
            partition_keys_in_select: threshold,
            ..Guardrails::default()
        };
        assert_eq!(guardrails.check_page_size("t", 10).unwrap(), None);
        assert_eq!(
            guardrails.check_page_size("t", 11).unwrap().unwrap(),
            "Guardrail page_size violated: Query for table t with page size 11 exceeds warning threshold of 10."
        );
        assert_eq!(
            guardrails.check_page_size("t", 21).unwrap_err().to_string(),
            "Guardrail page_size violated: Aborting query for table t, page size 21 exceeds fail threshold of 20."
        );
        assert_eq!(guardrails.check_partition_keys("t", 10).unwrap(), None);
        assert!(guardrails.check_partition_keys("t", 11).unwrap().is_some());
        assert!(guardrails.check_partition_keys("t", 21).is_err());
    }
}
