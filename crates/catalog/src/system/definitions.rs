//! The tables of the system keyspaces, with Cassandra's names, columns, options and ids.
//!
//! Each keyspace has a file of CREATE TABLE statements; options that have their default are left out there.

use std::collections::BTreeMap;
use std::sync::Arc;

use helenus_cql::ast::SchemaStatement;
use helenus_cql::{Statement, parse_statement};
use helenus_engine::CqlError;
use helenus_schema::{KeyspaceMetadata, Replication, Schema, TableKind, TableMetadata, is_made_from_code};

use crate::ddl::build_table;

struct Definition {
    keyspace: &'static str,
    /// None for `LocalStrategy`.
    replication_factor: Option<&'static str>,
    tables: &'static str,
}

const DEFINITIONS: [Definition; 7] = [
    Definition {
        keyspace: "system",
        replication_factor: None,
        tables: include_str!("definitions/system.cql"),
    },
    Definition {
        keyspace: "system_auth",
        replication_factor: Some("1"),
        tables: include_str!("definitions/system_auth.cql"),
    },
    Definition {
        keyspace: "system_distributed",
        replication_factor: Some("3"),
        tables: include_str!("definitions/system_distributed.cql"),
    },
    Definition {
        keyspace: "system_schema",
        replication_factor: None,
        tables: include_str!("definitions/system_schema.cql"),
    },
    Definition {
        keyspace: "system_traces",
        replication_factor: Some("2"),
        tables: include_str!("definitions/system_traces.cql"),
    },
    Definition {
        keyspace: "system_views",
        replication_factor: None,
        tables: include_str!("definitions/system_views.cql"),
    },
    Definition {
        keyspace: "system_virtual_schema",
        replication_factor: None,
        tables: include_str!("definitions/system_virtual_schema.cql"),
    },
];

/// Tables whose rows are stored although those of their keyspace are made from code.
const STORED_TABLES: [(&str, &str); 2] = [("system", "built_views"), ("system", "view_builds_in_progress")];

/// Adds the system keyspaces to a schema that has none yet. An error means that the program's own definitions are wrong.
pub fn add_system_keyspaces(schema: &mut Schema) -> Result<(), CqlError> {
    for definition in &DEFINITIONS {
        let keyspace = definition.keyspace()?;
        schema
            .keyspaces
            .insert(Arc::clone(&keyspace.name), Arc::new(keyspace));
    }
    Ok(())
}

impl Definition {
    fn keyspace(&self) -> Result<KeyspaceMetadata, CqlError> {
        let name: Arc<str> = self.keyspace.into();
        let tables = self.tables.split(";\n").filter(|text| !text.trim().is_empty());
        let tables = tables.map(|text| {
            let table = self.table(&name, text)?;
            Ok((Arc::clone(&table.name), Arc::new(table)))
        });
        let tables = tables.collect::<Result<BTreeMap<_, _>, CqlError>>()?;
        Ok(KeyspaceMetadata {
            durable_writes: true,
            replication: self.replication(),
            tables,
            types: BTreeMap::new(),
            views: BTreeMap::new(),
            is_virtual: is_made_from_code(&name),
            name,
        })
    }

    fn table(&self, keyspace: &Arc<str>, text: &str) -> Result<TableMetadata, CqlError> {
        let Statement::Schema(SchemaStatement::CreateTable(create)) = parse_statement(text)? else {
            return Err(CqlError::server(format_args!(
                "not a table of {keyspace}: {text}"
            )));
        };
        let is_stored = STORED_TABLES.contains(&(&**keyspace, &*create.table.name));
        let kind = if is_made_from_code(keyspace) && !is_stored {
            TableKind::Virtual
        } else {
            TableKind::Regular
        };
        build_table(&create, keyspace, kind)
    }

    fn replication(&self) -> Replication {
        let (strategy, factor) = match self.replication_factor {
            Some(factor) => (
                "SimpleStrategy",
                Some(("replication_factor".into(), factor.into())),
            ),
            None => ("LocalStrategy", None),
        };
        Replication {
            class: format!("org.apache.cassandra.locator.{strategy}").into(),
            options: factor.into_iter().collect(),
        }
    }
}
