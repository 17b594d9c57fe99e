//! Where the schema of imported files comes from.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use helenus_cql::ast::Statement;
use helenus_cql::{parse_statement, split_statements};
use helenus_engine::ddl::{self, DdlContext};
use helenus_engine::describe::{create_table_statement, create_type_statement};
use helenus_schema::{KeyspaceMetadata, Schema, TableId, TableMetadata};
use helenus_types::{CqlType, UserType, quoted_identifier};
use helenus_vfs::Disk;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::ImportError;
use crate::host::{Host, HostError};
use crate::schema_text::SCHEMA_FILE;

/// What told the table's columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SchemaSource {
    /// The node has the table.
    Node,
    /// `schema.cql`, or the file that was named.
    Text,
    /// The SSTables: names of key columns are made up.
    Statistics,
}

/// The statements of a `schema.cql` that make one table.
#[derive(Clone, Debug)]
pub struct TextSchema {
    pub keyspace: String,
    pub table: String,
    /// In order, without those that say nothing about rows.
    pub statements: Vec<String>,
}

/// A schema takes kilobytes; more is not one.
const TEXT_BYTES_MAX: u64 = 16 << 20;

/// For what is made where no keyspace of that name is.
const REPLICATION: &str = "{'class': 'SimpleStrategy', 'replication_factor': 1}";

impl TextSchema {
    /// The file that was named, or `schema.cql` in the folder if there is one.
    pub fn find(disk: &dyn Disk, folder: &Path, named: Option<&Path>) -> Result<Option<Self>, ImportError> {
        let path = match named {
            Some(named) => named.to_path_buf(),
            None => folder.join(SCHEMA_FILE),
        };
        let failed = |source| ImportError::Io {
            path: path.clone(),
            source,
        };
        if named.is_none() && !disk.exists(&path).map_err(failed)? {
            return Ok(None);
        }
        let text = read_text(disk, &path).map_err(failed)?;
        Self::parse(&text, &path).map(Some)
    }

    fn parse(text: &str, path: &Path) -> Result<Self, ImportError> {
        let mut table = None;
        let mut statements = Vec::new();
        for text in split_statements(text) {
            let statement = parse_statement(text).map_err(|source| HostError::Syntax {
                statement: text.to_owned(),
                source,
            })?;
            match &statement {
                Statement::CreateTable(create) => {
                    table = Some((create.table.keyspace.clone(), create.table.name.clone()));
                }
                Statement::CreateType(_) | Statement::AlterTable(_) => {}
                // Indexes, views and triggers are no part of the table's own files.
                _ => continue,
            }
            statements.push(text.to_owned());
        }
        match table {
            Some((Some(keyspace), table)) => Ok(TextSchema {
                keyspace,
                table,
                statements,
            }),
            _ => Err(ImportError::NoTableInText {
                path: path.to_path_buf(),
            }),
        }
    }

    /// The table as it would be, made nowhere.
    pub fn table_metadata(&self) -> Result<Arc<TableMetadata>, ImportError> {
        let mut schema = Arc::new(Schema::default());
        let create = create_keyspace(&self.keyspace);
        for text in std::iter::once(&create).chain(&self.statements) {
            let statement = parse_statement(text).map_err(|source| HostError::Syntax {
                statement: text.clone(),
                source,
            })?;
            let context = DdlContext {
                session_keyspace: None,
                now_us: 0,
                new_table_id: TableId(Uuid::from_u128(1)),
                data_center: "datacenter1",
            };
            let outcome = ddl::apply(&schema, &statement, &context).map_err(|source| HostError::Schema {
                statement: text.clone(),
                source,
            })?;
            if let Some(transition) = outcome.transition {
                schema = transition.schema;
            }
        }
        let table = schema.table(&self.keyspace, &self.table).cloned();
        table.ok_or_else(|| ImportError::NoTableInText {
            path: PathBuf::from(SCHEMA_FILE),
        })
    }

    pub fn create(&self, host: &dyn Host) -> Result<(), HostError> {
        make_keyspace(host, &self.keyspace)?;
        self.statements
            .iter()
            .try_for_each(|statement| host.change_schema(statement))
    }
}

/// Makes a table of which only the files tell, and the user types that it needs.
pub fn create_inferred(host: &dyn Host, inferred: &TableMetadata) -> Result<(), HostError> {
    make_keyspace(host, &inferred.keyspace)?;
    let mut types: Vec<Arc<UserType>> = Vec::new();
    for column in &inferred.columns {
        add_types(&column.cql_type, &mut types);
    }
    for user_type in types {
        let of_keyspace = UserType {
            keyspace: Arc::clone(&inferred.keyspace),
            ..UserType::clone(&user_type)
        };
        let statement = create_type_statement(&of_keyspace);
        host.change_schema(&statement.replacen("CREATE TYPE ", "CREATE TYPE IF NOT EXISTS ", 1))?;
    }
    host.change_schema(&create_table_statement(inferred, false))
}

fn add_types(cql_type: &CqlType, found: &mut Vec<Arc<UserType>>) {
    cql_type.sub_types().for_each(|part| add_types(part, found));
    if let CqlType::UserDefined { definition, .. } = cql_type
        && found.iter().all(|known| known.name != definition.name)
    {
        found.push(Arc::clone(definition));
    }
}

fn make_keyspace(host: &dyn Host, keyspace: &str) -> Result<(), HostError> {
    let has_it = |keyspace: &KeyspaceMetadata| !keyspace.is_virtual;
    if host
        .schema()?
        .keyspace(keyspace)
        .is_some_and(|found| has_it(found))
    {
        return Ok(());
    }
    host.change_schema(&create_keyspace(keyspace))
}

fn create_keyspace(keyspace: &str) -> String {
    format!(
        "CREATE KEYSPACE {} WITH replication = {REPLICATION}",
        quoted_identifier(keyspace)
    )
}

fn read_text(disk: &dyn Disk, path: &Path) -> io::Result<String> {
    let file = disk.open(path)?;
    let length = file.length()?;
    if length > TEXT_BYTES_MAX {
        return Err(io::Error::other(format!(
            "{length} bytes are more than a schema takes"
        )));
    }
    let mut bytes = vec![0; length as usize];
    file.read_exact_at(0, &mut bytes)?;
    String::from_utf8(bytes).map_err(io::Error::other)
}
