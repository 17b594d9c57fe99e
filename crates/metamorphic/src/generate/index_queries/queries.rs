//! Queries of the table.

use helenus_storage_model::Chance;

use super::folding::equality;
use super::literals::{Scalar, TEXTS, Type};
use super::table::{Column, Place, Table, Target};
use super::writes;

/// A relation of one column, and which of its indexes serve it.
struct Predicate {
    text: String,
    is_served: bool,
    is_served_by_attached: bool,
}

/// Kind of a predicate, as indexes tell it apart.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    Equal,
    /// No index serves it: rows that another predicate's index gave are filtered by it.
    OneOf,
    Range,
    Element,
    Key,
    Entry,
}

pub fn query(chance: &Chance, table: &Table) -> String {
    let predicates = predicates(chance, table);
    let mut relations: Vec<String> = predicates
        .iter()
        .map(|predicate| predicate.text.clone())
        .collect();
    // Cassandra reads by one legacy index, or by all storage-attached ones: where these tell all, nothing is filtered.
    let is_served = predicates.iter().all(|predicate| predicate.is_served_by_attached)
        || matches!(&*predicates, [only] if only.is_served);
    let is_narrowed = chance.one_in(5);
    if is_narrowed {
        relations.push(narrowed(chance, table));
    }
    let (selected, grouped) = selected(chance, table);
    let limit = match chance.below(4) {
        0 => format!(" LIMIT {}", 1 + chance.below(6)),
        1 if grouped.is_empty() && selected != "count(*)" => {
            format!(" PER PARTITION LIMIT {}", 1 + chance.below(3))
        }
        _ => String::new(),
    };
    let filtering = match is_served && !is_narrowed && chance.one_in(2) {
        true => "",
        false => " ALLOW FILTERING",
    };
    format!(
        "SELECT {selected} FROM {} WHERE {}{grouped}{limit}{filtering}",
        table.name,
        relations.join(" AND ")
    )
}

/// Makes predicates of one to three columns, mostly of those that have an index.
fn predicates(chance: &Chance, table: &Table) -> Vec<Predicate> {
    let has_one_key = table.of_place(Place::PartitionKey).count() == 1;
    let can_be = |column: &&Column| !(has_one_key && column.place == Place::PartitionKey);
    let all: Vec<&Column> = table.columns.iter().filter(can_be).collect();
    let indexed: Vec<&Column> = all
        .iter()
        .filter(|column| !column.indexes.is_empty())
        .copied()
        .collect();
    let mut chosen: Vec<&Column> = Vec::new();
    for _ in 0..*chance.pick(&[1, 1, 1, 2, 2, 3]) {
        let from = if indexed.is_empty() || chance.one_in(8) {
            &all
        } else {
            &indexed
        };
        let column = *chance.pick(from);
        if chosen.iter().all(|other| other.name != column.name) {
            chosen.push(column);
        }
    }
    chosen
        .into_iter()
        .map(|column| predicate(chance, column))
        .collect()
}

fn predicate(chance: &Chance, column: &Column) -> Predicate {
    let name = &column.name;
    let has = |target| column.indexes.iter().any(|index| index.target == target);
    let (asked, text) = match column.cql_type {
        Type::Scalar(scalar) => scalar_predicate(chance, column, scalar),
        Type::List(element) | Type::Set(element) => (
            Asked::Element,
            format!("{name} CONTAINS {}", element.literal(chance)),
        ),
        // Mostly what the index is of.
        Type::Map(key, value) => match chance.below(3) {
            0 if has(Target::Keys) || !has(Target::Entries) => {
                (Asked::Key, format!("{name} CONTAINS KEY {}", key.literal(chance)))
            }
            1 if has(Target::Elements) || !has(Target::Entries) => (
                Asked::Element,
                format!("{name} CONTAINS {}", value.literal(chance)),
            ),
            _ if has(Target::Keys) && chance.one_in(2) => {
                (Asked::Key, format!("{name} CONTAINS KEY {}", key.literal(chance)))
            }
            _ => {
                let entry = format!("{name}[{}] = {}", key.literal(chance), value.literal(chance));
                (Asked::Entry, entry)
            }
        },
        _ => (
            Asked::Equal,
            format!("{name} = {}", column.cql_type.literal(chance)),
        ),
    };
    let is_key = matches!(column.place, Place::PartitionKey | Place::Clustering);
    let serves = |index: &super::table::Index| match (index.target, asked) {
        (Target::Value, Asked::Equal)
        | (Target::Elements, Asked::Element)
        | (Target::Keys, Asked::Key)
        | (Target::Entries, Asked::Entry) => !is_key,
        (Target::Value, Asked::Range) => {
            let mut scalars = column.cql_type.scalars().into_iter();
            !is_key && index.is_attached && scalars.all(Scalar::has_ranges)
        }
        _ => false,
    };
    Predicate {
        text,
        is_served: column.indexes.iter().any(serves),
        is_served_by_attached: column
            .indexes
            .iter()
            .any(|index| index.is_attached && serves(index)),
    }
}

fn scalar_predicate(chance: &Chance, column: &Column, scalar: Scalar) -> (Asked, String) {
    let name = &column.name;
    let literal = || scalar.literal(chance);
    let is_key = matches!(column.place, Place::PartitionKey | Place::Clustering);
    match chance.below(11) {
        0..6 => (Asked::Equal, equal(column, &literal())),
        // Of a key, Cassandra refuses it beside an index.
        6 if !is_key => {
            let values: Vec<String> = (0..chance.below(4)).map(|_| literal()).collect();
            let text = match &*values {
                // The same as an equality, which the index serves.
                [only] if column.indexes.iter().any(|index| index.folding.is_some()) => equal(column, only),
                values => format!("{name} IN ({})", values.join(", ")),
            };
            (Asked::OneOf, text)
        }
        6 | 7 => {
            let (low, high) = (chance.pick(&[">", ">="]), chance.pick(&["<", "<="]));
            let text = format!("{name} {low} {} AND {name} {high} {}", literal(), literal());
            (Asked::Range, text)
        }
        _ => {
            let operator = chance.pick(&[">", ">=", "<", "<="]);
            (Asked::Range, format!("{name} {operator} {}", literal()))
        }
    }
}

fn equal(column: &Column, literal: &str) -> String {
    let name = &column.name;
    match column.indexes.iter().find_map(|index| index.folding) {
        Some(folding) => equality(name, literal, &folding.alike(literal, &TEXTS)),
        None => format!("{name} = {literal}"),
    }
}

/// To a partition or a range of tokens.
fn narrowed(chance: &Chance, table: &Table) -> String {
    let keys: Vec<&Column> = table.of_place(Place::PartitionKey).collect();
    if keys.iter().all(|column| column.indexes.is_empty()) && chance.one_in(2) {
        return writes::partition(chance, table);
    }
    let names: Vec<&str> = keys.iter().map(|column| &*column.name).collect();
    let operator = chance.pick(&[">", "<="]);
    let token = chance.bits().cast_signed();
    format!("token({}) {operator} {token}", names.join(", "))
}

/// Chooses the selection, and its grouping.
fn selected(chance: &Chance, table: &Table) -> (String, String) {
    let keys: Vec<&str> = table
        .of_place(Place::PartitionKey)
        .map(|column| &*column.name)
        .collect();
    let keys = keys.join(", ");
    match chance.below(12) {
        0 => ("count(*)".to_owned(), String::new()),
        1 => (format!("{keys}, count(*)"), format!(" GROUP BY {keys}")),
        2 => {
            let column = chance.pick(&table.columns);
            (format!("{keys}, {}", column.name), String::new())
        }
        3 => {
            let regular: Vec<&Column> = table.of_place(Place::Regular).collect();
            let column = chance.pick(&regular);
            let function = chance.pick(&["writetime", "ttl"]);
            (format!("{keys}, {function}({})", column.name), String::new())
        }
        _ => ("*".to_owned(), String::new()),
    }
}
