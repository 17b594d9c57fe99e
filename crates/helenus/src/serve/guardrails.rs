//! Guardrails from the configuration file; what it does not say is as the node has it.

use helenus_node::guardrails::{Guardrails, PartitionGuardrails, Threshold, ValueGuardrails};
use helenus_server::config::{ConfigFile, DataSize};

pub fn guardrails(config: &ConfigFile) -> Guardrails {
    let defaults = Guardrails::default();
    Guardrails {
        batch_size: sizes(
            (config.batch_size_warn_threshold, config.batch_size_fail_threshold),
            defaults.batch_size,
        ),
        page_size: counts(
            (config.page_size_warn_threshold, config.page_size_fail_threshold),
            defaults.page_size,
        ),
        partition_keys_in_select: counts(
            (
                config.partition_keys_in_select_warn_threshold,
                config.partition_keys_in_select_fail_threshold,
            ),
            defaults.partition_keys_in_select,
        ),
        in_select_cartesian_product: counts(
            (
                config.in_select_cartesian_product_warn_threshold,
                config.in_select_cartesian_product_fail_threshold,
            ),
            defaults.in_select_cartesian_product,
        ),
        keyspaces: counts(
            (config.keyspaces_warn_threshold, config.keyspaces_fail_threshold),
            defaults.keyspaces,
        ),
        tables: counts(
            (config.tables_warn_threshold, config.tables_fail_threshold),
            defaults.tables,
        ),
        columns_per_table: counts(
            (
                config.columns_per_table_warn_threshold,
                config.columns_per_table_fail_threshold,
            ),
            defaults.columns_per_table,
        ),
        secondary_indexes_per_table: counts(
            (
                config.secondary_indexes_per_table_warn_threshold,
                config.secondary_indexes_per_table_fail_threshold,
            ),
            defaults.secondary_indexes_per_table,
        ),
        fields_per_udt: counts(
            (
                config.fields_per_udt_warn_threshold,
                config.fields_per_udt_fail_threshold,
            ),
            defaults.fields_per_udt,
        ),
        values: value_guardrails(config, defaults.values),
        partition: partition_guardrails(config, defaults.partition),
    }
}

fn value_guardrails(config: &ConfigFile, defaults: ValueGuardrails) -> ValueGuardrails {
    ValueGuardrails {
        column_value_size: sizes(
            (
                config.column_value_size_warn_threshold,
                config.column_value_size_fail_threshold,
            ),
            defaults.column_value_size,
        ),
        collection_size: sizes(
            (
                config.collection_size_warn_threshold,
                config.collection_size_fail_threshold,
            ),
            defaults.collection_size,
        ),
        items_per_collection: counts(
            (
                config.items_per_collection_warn_threshold,
                config.items_per_collection_fail_threshold,
            ),
            defaults.items_per_collection,
        ),
    }
}

fn partition_guardrails(config: &ConfigFile, defaults: PartitionGuardrails) -> PartitionGuardrails {
    PartitionGuardrails {
        size: sizes(
            (
                config.partition_size_warn_threshold,
                config.partition_size_fail_threshold,
            ),
            defaults.size,
        ),
        tombstones: counts(
            (
                config.partition_tombstones_warn_threshold,
                config.partition_tombstones_fail_threshold,
            ),
            defaults.tombstones,
        ),
        // Those on collections are the same as on written values; the node hands them on.
        ..defaults
    }
}

fn sizes((warn, fail): (Option<DataSize>, Option<DataSize>), default: Threshold) -> Threshold {
    Threshold {
        warn: warn.map_or(default.warn, |size| size.0),
        fail: fail.map_or(default.fail, |size| size.0),
    }
}

/// As in Cassandra, what is not positive turns a threshold off.
fn counts((warn, fail): (Option<i64>, Option<i64>), default: Threshold) -> Threshold {
    let count = |count: Option<i64>, default| match count.map(u64::try_from) {
        None => default,
        Some(Ok(count @ 1..)) => count,
        Some(_) => u64::MAX,
    };
    Threshold {
        warn: count(warn, default.warn),
        fail: count(fail, default.fail),
    }
}
