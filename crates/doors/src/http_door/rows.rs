//! Answers in JSON, with values in the forms that `SELECT JSON` gives them.

use helenus_node::handle::{Answer, Column, Outcome, Rows, SchemaChange, SchemaChangeTarget};
use helenus_types::json::write_json_string;
use serde::Deserialize;
use uuid::Uuid;

use super::options::page_state;
use crate::failure::Failure;

/// How a row is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RowForm {
    /// Names with values.
    #[default]
    Objects,
    /// Values in the order of the columns.
    Arrays,
}

/// An answer as a JSON document.
pub fn document(answer: &Answer, form: RowForm) -> Result<Vec<u8>, Failure> {
    let mut out = String::from("{");
    match &answer.outcome {
        Outcome::Rows(rows) => write_rows(&mut out, rows, form)?,
        Outcome::SchemaChange(change) => write_change(&mut out, change),
        _ => {}
    }
    write_strings(&mut out, "warnings", &answer.warnings);
    if let Some(id) = answer.tracing_id {
        separate(&mut out);
        out.push_str(&format!("\"tracing_id\":\"{}\"", Uuid::from_bytes(id)));
    }
    out.push('}');
    Ok(out.into_bytes())
}

fn write_change(out: &mut String, change: &SchemaChange) {
    let (target, name) = match &change.target {
        SchemaChangeTarget::Keyspace => ("KEYSPACE", None),
        SchemaChangeTarget::Table(name) => ("TABLE", Some(name)),
        SchemaChangeTarget::Type(name) => ("TYPE", Some(name)),
    };
    let kind = change.kind.name();
    out.push_str(&format!(
        "\"schema_change\":{{\"change\":\"{kind}\",\"target\":\"{target}\",\"keyspace\":"
    ));
    write_json_string(out, &change.keyspace);
    if let Some(name) = name {
        out.push_str(",\"name\":");
        write_json_string(out, name);
    }
    out.push('}');
}

fn separate(out: &mut String) {
    if !out.ends_with('{') {
        out.push(',');
    }
}

fn write_strings(out: &mut String, name: &str, texts: &[String]) {
    if texts.is_empty() {
        return;
    }
    separate(out);
    out.push_str(&format!("\"{name}\":["));
    for (index, text) in texts.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write_json_string(out, text);
    }
    out.push(']');
}

fn write_rows(out: &mut String, rows: &Rows, form: RowForm) -> Result<(), Failure> {
    out.push_str("\"columns\":[");
    for (index, column) in rows.columns().iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        out.push_str("{\"name\":");
        write_json_string(out, &column.name);
        out.push_str(",\"type\":");
        write_json_string(out, &type_name(&column.data_type.to_string()));
        out.push('}');
    }
    out.push_str("],\"rows\":[");
    for (index, row) in rows.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write_row(out, rows.columns(), &row, form)?;
    }
    out.push(']');
    if let Some(state) = rows.paging_state() {
        out.push_str(&format!(",\"page_state\":\"{}\"", page_state(state)));
    }
    Ok(())
}

/// One row.
pub fn write_row(
    out: &mut String,
    columns: &[Column],
    values: &[Option<&[u8]>],
    form: RowForm,
) -> Result<(), Failure> {
    let (begin, end) = match form {
        RowForm::Objects => ('{', '}'),
        RowForm::Arrays => ('[', ']'),
    };
    out.push(begin);
    for (index, (column, value)) in columns.iter().zip(values).enumerate() {
        if index > 0 {
            out.push(',');
        }
        if form == RowForm::Objects {
            write_json_string(out, &column.name);
            out.push(':');
        }
        match value {
            None => out.push_str("null"),
            Some(bytes) => {
                let written = column.data_type.write_json(out, bytes);
                written.map_err(|error| Failure::Invalid(error.to_string()))?;
            }
        }
    }
    out.push(end);
    Ok(())
}

/// A type as answers know it: those of the native protocol do not say what is frozen.
fn type_name(declared: &str) -> String {
    let mut name = String::with_capacity(declared.len());
    let mut is_quoted = false;
    // Of each bracket that is open, whether it is written.
    let mut written = Vec::new();
    for character in declared.chars() {
        is_quoted ^= character == '"';
        match character {
            '<' if !is_quoted => {
                let is_frozen = name.ends_with("frozen");
                written.push(!is_frozen);
                match is_frozen {
                    true => name.truncate(name.len() - "frozen".len()),
                    false => name.push('<'),
                }
            }
            '>' if !is_quoted && written.pop() == Some(false) => {}
            other => name.push(other),
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_told_without_what_is_frozen() {
        let told = "frozen<map<text, frozen<list<frozen<tuple<int, \"frozen<x>\">>>>>>";
        assert_eq!(type_name(told), "map<text, list<tuple<int, \"frozen<x>\">>>");
        assert_eq!(type_name("vector<float, 3>"), "vector<float, 3>");
    }
}
