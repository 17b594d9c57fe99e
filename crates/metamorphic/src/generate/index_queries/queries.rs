//! Queries of the table.

use helenus_storage_model::Chance;

use super::folding::{HINTS, equality};
use super::literals::{Scalar, TEXTS, Type};
use super::table::{Column, Place, Table, Target};
use super::writes;

/// A relation of one column, and which of its indexes serve it.
struct Predicate {
    text: String,
    is_served: bool,
    is_served_by_attached: bool,
    /// Names of the indexes that serve it.
    served_by: Vec<String>,
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
        true => String::new(),
        false => format!(
            " ALLOW FILTERING{}",
            hints(chance, table, &predicates, is_narrowed)
        ),
    };
    format!(
        "SELECT {selected} FROM {} WHERE {}{grouped}{limit}{filtering}",
        table.name,
        relations.join(" AND ")
    )
}

/// Which indexes are to be used and which are not, for a query that allows filtering.
fn hints(chance: &Chance, table: &Table, predicates: &[Predicate], is_narrowed: bool) -> String {
    let mut options = Vec::new();
    let serving: Vec<&String> = predicates
        .iter()
        .flat_map(|predicate| &predicate.served_by)
        .collect();
    let mut included = None;
    if !serving.is_empty() && !is_narrowed && chance.one_in(4) {
        let index = *chance.pick(&serving);
        included = Some(index.as_str());
        options.push(format!("included_indexes = {{{index}}}"));
    }
    // What is equal depends on an index that folds.
    if !table.folds && chance.one_in(6) {
        let indexes = table.columns.iter().flat_map(|column| &column.indexes);
        let names = indexes.map(|index| index.name.as_str());
        let excluded: Vec<&str> = names
            .filter(|name| Some(*name) != included && chance.one_in(2))
            .collect();
        options.push(format!("excluded_indexes = {{{}}}", excluded.join(", ")));
    }
    match options.is_empty() {
        true => String::new(),
        false => format!("{HINTS}{}", options.join(" AND ")),
    }
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
    let serving = column.indexes.iter().filter(|index| serves(index));
    Predicate {
        text,
        served_by: serving.map(|index| index.name.clone()).collect(),
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
