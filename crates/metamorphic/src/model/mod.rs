//! Model of a table's content by CQL, from nothing but the statements: no memtable, no SSTable, no merge.
//!
//! A table is a heap of facts; a read looks at all of them. What the model does not know makes it silent about the table
//! until that is emptied: columns of lists and of user types with a cell per field, and every statement beyond
//! those that `writes` and `reads` name.

mod facts;
mod reads;
mod transactions;
mod writes;

use std::collections::BTreeMap;
use std::sync::Arc;

use helenus_cql::ast::{QualifiedName, Select, Selection, Statement, Transaction};
use helenus_cql::parse_statement;
use helenus_schema::{Schema, TableMetadata};
use helenus_types::{CqlType, quoted_identifier};

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
    /// The tables of views that have all of their rows, and nothing but them.
    views: BTreeMap<TableName, ViewOf>,
    /// How many statements there were: what is written to counters has no other time.
    statements: i64,
}

/// A view, as a query of its base table.
struct ViewOf {
    base: TableName,
    /// In the order of the view's columns.
    select: String,
}

impl Model {
    /// Takes in a statement that was not refused. `schema` is the one after it.
    pub fn apply(&mut self, text: &str, values: &Values, now_s: i64, schema: &dyn Fn() -> Arc<Schema>) {
        let Ok(statement) = parse_statement(text) else {
            return;
        };
        self.statements += 1;
        match &statement {
            Statement::Select(_) | Statement::Prune(_) => {}
            Statement::Modification(_) | Statement::Batch(_) => {
                for (table, facts) in writes::facts(self, &statement, values, now_s) {
                    self.write(table, facts);
                }
            }
            Statement::Transaction(transaction) => self.transact(transaction, values, now_s),
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

    /// Nothing else writes to the tables of transactions: their order is their time.
    fn transact(&mut self, transaction: &Transaction, values: &Values, now_s: i64) {
        let Some(statements) = transactions::statements(self, transaction, values, now_s) else {
            for (statement, _) in &transaction.statements {
                if let Some(table) = name_of(writes::table_of(statement)) {
                    self.write(table, None);
                }
            }
            return;
        };
        for (statement, values) in statements {
            if let Some((table, facts)) = writes::facts_of_transaction(self, &statement, &values) {
                self.write(table, facts);
            }
        }
    }

    /// Computes the answer to a SELECT or a transaction before that is applied; `None` where the model does not know.
    pub fn expect(&self, text: &str, values: &Values, now_s: i64) -> Option<Expected> {
        let select = match parse_statement(text) {
            Ok(Statement::Select(select)) => select,
            Ok(Statement::Transaction(transaction)) => {
                return transactions::expect(self, &transaction, values, now_s);
            }
            _ => return None,
        };
        let name = name_of(&select.table)?;
        if let Some(view) = self.views.get(&name) {
            return self.expect_view(view, &select, now_s);
        }
        reads::expect(self.facts(&select.table)?, &select, values, now_s)
    }

    /// All of a view that its base table's rows are in.
    fn expect_view(&self, view: &ViewOf, select: &Select, now_s: i64) -> Option<Expected> {
        if !matches!(select.selection, Selection::Wildcard) || !select.relations.is_empty() {
            return None;
        }
        let Ok(Statement::Select(of_base)) = parse_statement(&view.select) else {
            return None;
        };
        let facts = self.tables.get(&view.base)?.as_ref()?;
        let expected = reads::expect(facts, &of_base, &[], now_s)?;
        Some(Expected {
            is_ordered: false,
            ..expected
        })
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
        self.views = views_of(schema);
        let views: Vec<TableName> = schema
            .keyspaces
            .values()
            .flat_map(|keyspace| {
                let views = keyspace.views.keys();
                views.map(|view| (keyspace.name.to_string(), view.to_string()))
            })
            .collect();
        for (name, table) in present {
            let of_view = name.clone();
            let facts = self.tables.entry(name).or_insert_with(|| Some(Facts::default()));
            let is_known = table.columns.iter().all(|column| is_known(&column.cql_type));
            if views.contains(&of_view) || table.is_change_log() || !is_known {
                *facts = None;
            } else if let Some(facts) = facts {
                facts.follow(table);
            }
        }
    }
}

/// Views whose key is that of their base table in another order: they have its rows, whatever is in them.
fn views_of(schema: &Schema) -> BTreeMap<TableName, ViewOf> {
    let mut views = BTreeMap::new();
    for keyspace in schema.keyspaces.values() {
        for view in keyspace.views.values() {
            let tables = (keyspace.tables.get(&view.name), keyspace.tables.get(&view.base));
            let (Some(table), Some(base)) = tables else {
                continue;
            };
            let key_count = |table: &TableMetadata| table.partition_key_count + table.clustering_count;
            if key_count(table) != key_count(base) || !view.includes_all_columns {
                continue;
            }
            let columns = table
                .columns
                .iter()
                .map(|column| quoted_identifier(&column.name).to_string());
            let columns: Vec<String> = columns.collect();
            let select = format!(
                "SELECT {} FROM {}.{}",
                columns.join(", "),
                quoted_identifier(&keyspace.name),
                quoted_identifier(&base.name)
            );
            let name = |table: &str| (keyspace.name.to_string(), table.to_owned());
            views.insert(
                name(&view.name),
                ViewOf {
                    base: name(&view.base),
                    select,
                },
            );
        }
    }
    views
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
