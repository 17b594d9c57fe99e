//! What CQL says that a table holds, from nothing but the statements: no memtable, no SSTable, no merge.
//!
//! A table is a heap of facts; a read looks at all of them. What the model does not know makes it silent about the table
//! until that is emptied: columns of lists and of user types with a cell per field, and every statement beyond
//! those that `writes` and `reads` name.

mod facts;
mod reads;
mod writes;

use std::collections::BTreeMap;
use std::sync::Arc;

use helenus_cql::ast::{QualifiedName, Statement};
use helenus_cql::parse_statement;
use helenus_schema::{Schema, TableMetadata};
use helenus_types::CqlType;

use facts::Facts;
pub use reads::Expected;

/// A statement's bound values; `None` is null.
pub type Values = [Option<Vec<u8>>];

/// Keyspace and name.
type TableName = (String, String);

#[derive(Default)]
pub struct Model {
    /// `None` where something happened that the model does not know.
    tables: BTreeMap<TableName, Option<Facts>>,
    /// How many statements there were: what is written to counters has no other time.
    statements: i64,
}

impl Model {
    /// Takes in a statement that was not refused. `schema` is the one after it.
    pub fn apply(&mut self, text: &str, values: &Values, now_s: i64, schema: &dyn Fn() -> Arc<Schema>) {
        let Ok(statement) = parse_statement(text) else {
            return;
        };
        self.statements += 1;
        match &statement {
            Statement::Select(_) => {}
            Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_) | Statement::Batch(_) => {
                for (table, facts) in writes::facts(self, &statement, values, now_s) {
                    self.write(table, facts);
                }
            }
            _ if text.starts_with("TRUNCATE ") => {
                // The name of one table is all that is written here.
                self.tables.retain(|(keyspace, name), _| {
                    let table = text.trim_start_matches("TRUNCATE ");
                    table != format!("{keyspace}.{name}")
                });
                self.follow(&schema());
            }
            _ => self.follow(&schema()),
        }
    }

    /// What the answer to a SELECT must be; `None` where the model does not know.
    pub fn expect(&self, text: &str, values: &Values, now_s: i64) -> Option<Expected> {
        let Ok(Statement::Select(select)) = parse_statement(text) else {
            return None;
        };
        reads::expect(self.facts(&select.table)?, &select, values, now_s)
    }

    fn facts(&self, table: &QualifiedName) -> Option<&Facts> {
        self.tables.get(&name_of(table)?)?.as_ref()
    }

    fn write(&mut self, table: TableName, written: Option<Vec<facts::Fact>>) {
        let Some(facts) = self.tables.get_mut(&table) else {
            return;
        };
        match (facts.as_mut(), written) {
            (Some(facts), Some(written)) => facts.extend(written),
            _ => *facts = None,
        }
    }

    /// Tables that are new are empty; those that changed lose what was in columns that are gone.
    fn follow(&mut self, schema: &Schema) {
        let is_own = |table: &&Arc<TableMetadata>| !table.keyspace.starts_with("system");
        let present: BTreeMap<TableName, &Arc<TableMetadata>> = schema
            .tables()
            .filter(is_own)
            .map(|table| ((table.keyspace.to_string(), table.name.to_string()), table))
            .collect();
        self.tables.retain(|name, _| present.contains_key(name));
        for (name, table) in present {
            let facts = self.tables.entry(name).or_insert_with(|| Some(Facts::default()));
            if table.columns.iter().any(|column| !is_known(&column.cql_type)) {
                *facts = None;
            } else if let Some(facts) = facts {
                facts.follow(table);
            }
        }
    }
}

fn is_known(cql_type: &CqlType) -> bool {
    match cql_type {
        CqlType::List { .. } | CqlType::UserDefined { .. } => !cql_type.is_multi_cell(),
        _ => true,
    }
}

fn name_of(table: &QualifiedName) -> Option<TableName> {
    Some((table.keyspace.clone()?, table.name.clone()))
}

#[cfg(test)]
mod tests;
