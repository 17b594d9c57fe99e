//! Writes to the table: everything that makes entries of an index old.

use helenus_storage_model::Chance;

use super::super::timestamps::Timestamps;
use super::literals::{Scalar, Type};
use super::table::{Column, Place, Table};

/// Statements of a batch at most.
const STATEMENTS_MAX: usize = 12;

pub fn write(chance: &Chance, table: &Table, timestamps: &Timestamps) -> String {
    let timestamp = timestamps.any(chance);
    if chance.one_in(6) {
        let statements: Vec<String> = (0..1 + chance.count(STATEMENTS_MAX))
            .map(|_| one(chance, table, ["", ""]) + "; ")
            .collect();
        let kind = chance.pick(&["BATCH", "UNLOGGED BATCH"]);
        return format!(
            "BEGIN {kind} USING TIMESTAMP {timestamp} {}APPLY BATCH",
            statements.concat()
        );
    }
    let plain = format!(" USING TIMESTAMP {timestamp}");
    let using = match chance.below(6) {
        // Which of two expiring cells of one timestamp stays depends on when they meet: what expires has its own.
        0 => {
            let ttl = chance.pick(&[1, 60, 3_600]);
            format!(" USING TIMESTAMP {} AND TTL {ttl}", timestamps.alone(chance))
        }
        _ => plain.clone(),
    };
    one(chance, table, [&using, &plain])
}

/// `using` of writes and of deletions.
fn one(chance: &Chance, table: &Table, [using, using_to_delete]: [&str; 2]) -> String {
    let has_clustering = table.of_place(Place::Clustering).next().is_some();
    let has_static = table.of_place(Place::Static).next().is_some();
    match chance.below(20) {
        0 => format!(
            "DELETE FROM {}{using_to_delete} WHERE {}",
            table.name,
            partition(chance, table)
        ),
        1 if has_clustering => delete_slice(chance, table, using_to_delete),
        2 | 3 => format!(
            "DELETE FROM {}{using_to_delete} WHERE {}",
            table.name,
            row(chance, table)
        ),
        4 | 5 => delete_columns(chance, table, using_to_delete),
        6..11 => update(chance, table, Place::Regular, using),
        11 if has_static => update(chance, table, Place::Static, using),
        _ => insert(chance, table, using),
    }
}

pub fn key_literal(chance: &Chance, table: &Table, column: &Column) -> String {
    match column.name.as_str() {
        "p" => chance.below(table.keys).to_string(),
        _ => column.cql_type.literal(chance),
    }
}

fn equalities<'t>(chance: &Chance, table: &Table, columns: impl Iterator<Item = &'t Column>) -> String {
    let equal = |column: &Column| format!("{} = {}", column.name, key_literal(chance, table, column));
    let parts: Vec<String> = columns.map(equal).collect();
    parts.join(" AND ")
}

pub fn partition(chance: &Chance, table: &Table) -> String {
    equalities(chance, table, table.of_place(Place::PartitionKey))
}

fn row(chance: &Chance, table: &Table) -> String {
    let keys = table.of_place(Place::PartitionKey);
    equalities(chance, table, keys.chain(table.of_place(Place::Clustering)))
}

fn delete_slice(chance: &Chance, table: &Table, using: &str) -> String {
    let column = table.of_place(Place::Clustering).next();
    let bound = column.map(|column| {
        let operator = chance.pick(&["=", ">", ">=", "<", "<="]);
        format!(
            " AND {} {operator} {}",
            column.name,
            column.cql_type.literal(chance)
        )
    });
    format!(
        "DELETE FROM {}{using} WHERE {}{}",
        table.name,
        partition(chance, table),
        bound.unwrap_or_default()
    )
}

fn some<'t>(chance: &Chance, table: &'t Table, place: Place) -> Vec<&'t Column> {
    let all: Vec<&Column> = table.of_place(place).collect();
    let chosen: Vec<&Column> = all.iter().filter(|_| chance.one_in(2)).copied().collect();
    match chosen.is_empty() {
        true => vec![*chance.pick(&all)],
        false => chosen,
    }
}

fn delete_columns(chance: &Chance, table: &Table, using: &str) -> String {
    let deleted: Vec<String> = some(chance, table, Place::Regular)
        .into_iter()
        .map(|column| match column.cql_type {
            Type::Map(key, _) | Type::Set(key) if chance.one_in(2) => {
                format!("{}[{}]", column.name, key.literal(chance))
            }
            _ => column.name.clone(),
        })
        .collect();
    format!(
        "DELETE {} FROM {}{using} WHERE {}",
        deleted.join(", "),
        table.name,
        row(chance, table)
    )
}

fn update(chance: &Chance, table: &Table, place: Place, using: &str) -> String {
    let assignments: Vec<String> = some(chance, table, place)
        .into_iter()
        .map(|column| assignment(chance, column))
        .collect();
    let key = match place {
        Place::Static => partition(chance, table),
        _ => row(chance, table),
    };
    format!(
        "UPDATE {}{using} SET {} WHERE {key}",
        table.name,
        assignments.join(", ")
    )
}

fn assignment(chance: &Chance, column: &Column) -> String {
    let name = &column.name;
    let whole = column.cql_type.literal(chance);
    if chance.one_in(12) {
        return format!("{name} = null");
    }
    match column.cql_type {
        Type::List(_) | Type::Set(_) | Type::Map(..) if chance.one_in(3) => format!("{name} = {whole}"),
        Type::List(_) => format!("{name} = {name} {} {whole}", chance.pick(&["+", "+", "-"])),
        Type::Set(_) => format!("{name} = {name} {} {whole}", chance.pick(&["+", "-"])),
        Type::Map(key, value) if chance.one_in(2) => {
            format!(
                "{name}[{}] = {}",
                key.literal(chance),
                value_literal(chance, value)
            )
        }
        Type::Map(..) => format!("{name} = {name} + {whole}"),
        _ => format!("{name} = {whole}"),
    }
}

/// Literal of an entry's value, or null.
fn value_literal(chance: &Chance, value: Scalar) -> String {
    match chance.one_in(6) {
        true => "null".to_owned(),
        false => value.literal(chance),
    }
}

fn insert(chance: &Chance, table: &Table, using: &str) -> String {
    let mut names: Vec<&str> = Vec::new();
    let mut values: Vec<String> = Vec::new();
    for column in &table.columns {
        let is_key = matches!(column.place, Place::PartitionKey | Place::Clustering);
        if is_key {
            names.push(&column.name);
            values.push(key_literal(chance, table, column));
        } else if !chance.one_in(4) {
            names.push(&column.name);
            let value = match chance.one_in(12) {
                true => "null".to_owned(),
                false => column.cql_type.literal(chance),
            };
            values.push(value);
        }
    }
    format!(
        "INSERT INTO {} ({}) VALUES ({}){using}",
        table.name,
        names.join(", "),
        values.join(", ")
    )
}
