//! Expressions of a column in a select clause: casts, arithmetic, native functions.

use helenus_schema::{ClusteringOrder, ColumnKind, ColumnMetadata};
use helenus_storage_model::Chance;
use helenus_types::{CqlType, quoted_identifier};

use super::Audience;

/// Types that values are cast to.
const CASTS: [&str; 12] = [
    "text",
    "ascii",
    "int",
    "bigint",
    "smallint",
    "tinyint",
    "float",
    "double",
    "decimal",
    "varint",
    "timestamp",
    "date",
];

/// An expression of a column that is mostly valid.
pub fn expression(chance: &Chance, column: &ColumnMetadata, audience: Audience) -> String {
    let name = quoted_identifier(&column.name);
    // Cassandra does not know that it can be left as it is.
    let is_strange = audience == Audience::Cassandra && column.order == ClusteringOrder::Descending;
    let is_cell = matches!(column.kind, ColumnKind::Regular | ColumnKind::Static);
    match chance.below(8) {
        0 => format!("to_json({name})"),
        1 if is_cell && column.cql_type.is_multi_cell() => format!("writetime({name})"),
        2 if is_cell => format!("maxwritetime({name})"),
        3 if !is_strange => format!("CAST({name} AS {})", chance.pick(&CASTS)),
        _ => of_type(chance, &name, &column.cql_type),
    }
}

fn of_type(chance: &Chance, name: &str, cql_type: &CqlType) -> String {
    match cql_type {
        CqlType::Tinyint
        | CqlType::Smallint
        | CqlType::Int
        | CqlType::Bigint
        | CqlType::Varint
        | CqlType::Float
        | CqlType::Double
        | CqlType::Decimal
        | CqlType::Counter => number(chance, name),
        CqlType::Timestamp => chance
            .pick(&[
                "to_date({})",
                "to_unix_timestamp({})",
                "{} + 1h2m",
                "max_timeuuid({})",
                "{} - 1mo",
            ])
            .replace("{}", name),
        CqlType::Date => chance
            .pick(&["to_timestamp({})", "to_unix_timestamp({})", "{} + 3d", "{} - 1y"])
            .replace("{}", name),
        CqlType::Timeuuid => chance
            .pick(&["to_date({})", "to_timestamp({})", "to_unix_timestamp({})"])
            .replace("{}", name),
        CqlType::List { .. } | CqlType::Set { .. } => chance
            .pick(&[
                "collection_count({})",
                "collection_min({})",
                "collection_max({})",
                "collection_sum({})",
                "collection_avg({})",
            ])
            .replace("{}", name),
        CqlType::Map { .. } => chance
            .pick(&["collection_count({})", "map_keys({})", "map_values({})"])
            .replace("{}", name),
        CqlType::UserDefined { definition, .. } => {
            format!("{name}.{}", quoted_identifier(&chance.pick(&definition.fields).0))
        }
        CqlType::Vector { .. } => format!("similarity_euclidean({name}, {name})"),
        CqlType::Blob | CqlType::Tuple(_) | CqlType::Custom(_) => name.to_owned(),
        of => format!("{of}_as_blob({name})"),
    }
}

fn number(chance: &Chance, name: &str) -> String {
    chance
        .pick(&[
            "{} + {}",
            "{} * 2",
            "{} / 3",
            "{} % 7",
            "-{}",
            "{} - 1.5",
            "abs({})",
            "exp({})",
            "log({})",
            "log10({})",
            "round({})",
        ])
        .replace("{}", name)
}
