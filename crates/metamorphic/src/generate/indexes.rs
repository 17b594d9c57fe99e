//! CREATE and DROP INDEX, and what is asked of columns that may have one.

use helenus_schema::ColumnMetadata;
use helenus_storage_model::Chance;
use helenus_types::value::CollectionElements;
use helenus_types::{CqlType, quoted_identifier};

use super::subject::Subject;
use super::text::Text;
use super::values;
use crate::value::Value;

/// The statement that makes one more index, perhaps one that is there already.
pub fn create(chance: &Chance, subject: &mut Subject) -> Vec<String> {
    if subject.counts() {
        return Vec::new();
    }
    let has_one_key_column = subject.table.partition_key().len() == 1;
    let key = subject.table.partition_key().first().map(|column| column.id);
    let can_have = |column: &&ColumnMetadata| {
        let is_only_key = has_one_key_column && Some(column.id) == key;
        let is_fields = column.cql_type.is_user_defined() && column.cql_type.is_multi_cell();
        let is_refused = column.cql_type.references_duration() || column.cql_type.is_vector();
        !(is_only_key || is_fields || is_refused)
    };
    let columns: Vec<&ColumnMetadata> = subject.table.columns.iter().filter(can_have).collect();
    if columns.is_empty() {
        return Vec::new();
    }
    let column = (*chance.pick(&columns)).clone();
    let quoted = quoted_identifier(&column.name);
    let target = match &column.cql_type {
        CqlType::Map { frozen: false, .. } => {
            let function = chance.pick(&["values", "keys", "entries"]);
            format!("{function}({quoted})")
        }
        cql_type if cql_type.is_collection() && !cql_type.is_multi_cell() => format!("full({quoted})"),
        _ => quoted.into_owned(),
    };
    // Storage-attached indexes compare other types in ways of their own.
    let using = match &column.cql_type {
        CqlType::Text | CqlType::Ascii | CqlType::Boolean if is_word(&column.name) && chance.one_in(2) => {
            " USING 'sai'"
        }
        _ => "",
    };
    subject.indexes_made += 1;
    let name = format!("{}_ix{}", subject.table.name, subject.indexes_made);
    let text = format!(
        "CREATE INDEX IF NOT EXISTS {name} ON {} ({target}){using}",
        subject.name
    );
    subject.indexes.push((name, column.name.to_string()));
    vec![text]
}

fn is_word(name: &str) -> bool {
    name.len() <= 48
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The statement that drops one of those that there may be.
pub fn drop(chance: &Chance, subject: &mut Subject) -> Vec<String> {
    if subject.indexes.is_empty() {
        return Vec::new();
    }
    let (name, _) = subject.indexes.swap_remove(chance.count(subject.indexes.len()));
    vec![drop_text(subject, &name)]
}

/// The statements that a column must lose its indexes by before it goes.
pub fn drop_of_column(subject: &mut Subject, column: &str) -> Vec<String> {
    let indexes = std::mem::take(&mut subject.indexes);
    let (gone, kept): (Vec<_>, Vec<_>) = indexes.into_iter().partition(|(_, of)| of == column);
    subject.indexes = kept;
    gone.iter().map(|(name, _)| drop_text(subject, name)).collect()
}

fn drop_text(subject: &Subject, name: &str) -> String {
    let keyspace = quoted_identifier(&subject.table.keyspace);
    format!("DROP INDEX IF EXISTS {keyspace}.{name}")
}

/// A column that has an index, or any.
pub fn column<'s>(chance: &Chance, subject: &'s Subject) -> &'s ColumnMetadata {
    let indexed = match subject.indexes.is_empty() || chance.one_in(4) {
        true => None,
        false => subject.table.column(&chance.pick(&subject.indexes).1),
    };
    indexed.unwrap_or_else(|| chance.pick(&subject.table.columns))
}

/// A condition on a column, as an index may serve it.
pub fn condition(chance: &Chance, text: &mut Text, column: &ColumnMetadata) {
    text.name(column);
    let element = |cql_type: &CqlType, width: usize, place: usize| {
        let value = values::plain(chance, &column.cql_type).bytes();
        let elements = CollectionElements::new(&value, width).into_iter().flatten();
        let found: Vec<Vec<u8>> = elements
            .flatten()
            .enumerate()
            .filter(|(index, _)| index % width == place)
            .map(|(_, element)| element.to_vec())
            .collect();
        match found.is_empty() {
            true => values::plain(chance, cql_type),
            false => Value::literal(chance.pick(&found).clone()),
        }
    };
    match &column.cql_type {
        CqlType::List { element: of, .. } | CqlType::Set { element: of, .. } if chance.one_in(2) => {
            text.put(" CONTAINS ").bind(Some(element(of, 1, 0)));
        }
        CqlType::Map { key, .. } if chance.one_in(3) => {
            text.put(" CONTAINS KEY ").bind(Some(element(key, 2, 0)));
        }
        CqlType::Map { value, .. } if chance.one_in(3) => {
            text.put(" CONTAINS ").bind(Some(element(value, 2, 1)));
        }
        CqlType::Map { key, value, .. } if chance.one_in(2) => {
            text.put("[").bind(Some(element(key, 2, 0))).put("] = ");
            text.bind(Some(element(value, 2, 1)));
        }
        cql_type => {
            let operator = chance.pick(&[" = ", " = ", " = ", " > ", " >= ", " < ", " <= "]);
            text.put(operator).bind(Some(values::plain(chance, cql_type)));
        }
    }
}
