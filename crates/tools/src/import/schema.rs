//! Where the schema of imported files comes from.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use helenus_catalog::ddl::{self, DdlContext};
use helenus_catalog::describe::{create_table_statement, create_type_statement};
use helenus_cql::ast::{QualifiedName, SchemaStatement, Statement};
use helenus_cql::{parse_statement, split_statements};
use helenus_schema::{KeyspaceMetadata, Schema, TableId, TableMetadata};
use helenus_types::{CqlType, UserType, quoted_identifier};
use helenus_vfs::Disk;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::ImportError;
use crate::host::{Host, HostError};
use crate::schema_text::SCHEMA_FILE;

/// Source of the table's columns.
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
    /// Statements of the indexes. Those of kinds that are not made here (of vectors, of classes of others) are left out.
    indexes: Vec<String>,
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
        let (mut statements, mut indexes) = (Vec::new(), Vec::new());
        let mut types = Vec::new();
        let mut altered = Vec::new();
        for text in split_statements(text) {
            let statement = parse_statement(text).map_err(|source| HostError::Syntax {
                statement: text.to_owned(),
                source,
            })?;
            let Statement::Schema(schema) = &statement else {
                continue;
            };
            match schema {
                SchemaStatement::CreateTable(create) => {
                    altered.push(table.insert(create.table.clone()).clone())
                }
                SchemaStatement::CreateType(create) => types.push(create.name.clone()),
                SchemaStatement::AlterTable(alter) => altered.push(alter.table.clone()),
                SchemaStatement::CreateIndex(create) => {
                    altered.push(create.table.clone());
                    indexes.push(text.to_owned());
                    continue;
                }
                // Views and triggers are no part of the table's own files.
                _ => continue,
            }
            statements.push(text.to_owned());
        }
        let Some((keyspace, table)) = table.and_then(|table| Some((table.keyspace?, table.name))) else {
            return Err(ImportError::NoTableInText {
                path: path.to_path_buf(),
            });
        };
        // A backup comes from anywhere, and what it says of other tables is nobody's wish.
        let is_of_keyspace =
            |name: &QualifiedName| name.keyspace.as_ref().is_none_or(|named| *named == keyspace);
        let is_of_table = |name: &&QualifiedName| is_of_keyspace(name) && name.name == table;
        let foreign_table = altered.iter().find(|name| !is_of_table(name));
        let foreign = foreign_table.or_else(|| types.iter().find(|name| !is_of_keyspace(name)));
        if let Some(foreign) = foreign {
            return Err(ImportError::ForeignStatement {
                path: path.to_path_buf(),
                found: format!(
                    "{}.{}",
                    foreign.keyspace.as_deref().unwrap_or(&keyspace),
                    foreign.name
                ),
                wanted: format!("{keyspace}.{table}"),
            });
        }
        Ok(TextSchema {
            keyspace,
            table,
            statements,
            indexes,
        })
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
                materialized_views: false,
                default_index: helenus_schema::IndexKind::Legacy,
            };
            let outcome = ddl::schema_statement(statement)
                .and_then(|statement| ddl::apply(&schema, &statement, &context))
                .map_err(|source| HostError::Schema {
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
            .try_for_each(|statement| host.change_schema(statement))?;
        for index in &self.indexes {
            match host.change_schema(index) {
                Err(HostError::Schema { .. }) | Ok(()) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// The schema as it was before an import: by it, what the import has made goes if it finds that it cannot take the files.
pub(super) struct Undo {
    before: Arc<Schema>,
    keyspace: String,
    table: String,
}

impl Undo {
    pub fn begin(host: &dyn Host, keyspace: &str, table: &str) -> Result<Self, HostError> {
        Ok(Undo {
            before: host.schema()?,
            keyspace: keyspace.to_owned(),
            table: table.to_owned(),
        })
    }

    /// Drops the table, the types and the keyspace that were not there before, as far as nobody else uses them by now.
    pub fn undo(&self, host: &dyn Host) -> Result<(), HostError> {
        let keyspace = quoted_identifier(&self.keyspace);
        if self.before.table(&self.keyspace, &self.table).is_none() {
            host.change_schema(&format!(
                "DROP TABLE IF EXISTS {keyspace}.{}",
                quoted_identifier(&self.table)
            ))?;
        }
        let had = self.before.keyspace(&self.keyspace);
        let made = |name: &str| had.is_none_or(|had| !had.types.contains_key(name));
        // Those that others are made of go after them; each round drops at least the last of a chain.
        while let Some(now) = host.schema()?.keyspace(&self.keyspace) {
            let mut names = now.types.keys().filter(|name| made(name));
            let dropped = names.any(|name| {
                let drop = format!("DROP TYPE {keyspace}.{}", quoted_identifier(name));
                host.change_schema(&drop).is_ok()
            });
            if !dropped {
                break;
            }
        }
        let is_empty = |now: &KeyspaceMetadata| now.tables.is_empty() && now.types.is_empty();
        if had.is_none()
            && host
                .schema()?
                .keyspace(&self.keyspace)
                .is_some_and(|now| is_empty(now))
        {
            host.change_schema(&format!("DROP KEYSPACE {keyspace}"))?;
        }
        Ok(())
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
