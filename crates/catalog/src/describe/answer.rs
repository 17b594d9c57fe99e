//! From a DESCRIBE statement to its rows.

use std::sync::Arc;

use helenus_cql::ast::{DescribeStatement, DescribeTarget, QualifiedName};
use helenus_engine::CqlError;
use helenus_schema::{KeyspaceMetadata, Schema, is_system_keyspace};
use helenus_types::CqlType;
use helenus_types::value::collection::write_collection;

use super::elements::Element;
use crate::system::{NodeState, PARTITIONER, SNITCH};

/// All rows of a description. The keyspace and table that results name are `system` and `describe`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribeAnswer {
    pub columns: Vec<DescribeColumn>,
    /// One serialized value per column.
    pub rows: Vec<Vec<Vec<u8>>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribeColumn {
    pub name: &'static str,
    pub cql_type: CqlType,
}

impl DescribeAnswer {
    pub const KEYSPACE: &str = "system";
    pub const TABLE: &str = "describe";
}

/// Describes what the statement asks for; `session_keyspace` is what `USE` chose.
pub fn describe(
    schema: &Schema,
    node: &NodeState,
    statement: &DescribeStatement,
    session_keyspace: Option<&str>,
) -> Result<DescribeAnswer, CqlError> {
    let scope = Scope {
        schema,
        session_keyspace,
    };
    let listed = |elements: Vec<Element<'_>>| Ok(list(&elements));
    let described = |elements: Vec<Element<'_>>| Ok(detail(&elements, statement.with_internals));
    match &statement.target {
        DescribeTarget::Cluster => Ok(cluster(node, session_keyspace)),
        DescribeTarget::Keyspaces => listed(
            Element::keyspaces(schema)
                .into_iter()
                .map(Element::Keyspace)
                .collect(),
        ),
        DescribeTarget::Tables => listed(scope.keyspaces()?.into_iter().flat_map(Element::tables).collect()),
        DescribeTarget::Types => listed(scope.keyspaces()?.into_iter().flat_map(Element::types).collect()),
        // There are no functions yet; the keyspace is still looked up.
        DescribeTarget::Functions | DescribeTarget::Aggregates => {
            scope.keyspaces()?;
            listed(Vec::new())
        }
        DescribeTarget::Schema { full } => {
            let keyspaces = Element::keyspaces(schema).into_iter();
            let keyspaces = keyspaces.filter(|keyspace| *full || !is_system_keyspace(&keyspace.name));
            described(keyspaces.flat_map(Element::whole_keyspace).collect())
        }
        DescribeTarget::Keyspace { keyspace, only } => {
            let keyspace = scope.keyspace(keyspace.as_deref())?;
            described(match only {
                true => vec![Element::Keyspace(keyspace)],
                false => Element::whole_keyspace(keyspace).collect(),
            })
        }
        DescribeTarget::Table(name) => described(scope.table(name)?),
        DescribeTarget::Type(name) => described(vec![scope.user_type(name)?]),
        DescribeTarget::Generic(name) => described(scope.generic(name)?),
        DescribeTarget::Index(name) => described(vec![scope.index(name)?]),
        DescribeTarget::View(name) => described(vec![scope.view(name)?]),
        DescribeTarget::Function(name) => {
            scope.absent("User defined function", name.keyspace.as_deref(), &name.name)
        }
        DescribeTarget::Aggregate(name) => {
            scope.absent("User defined aggregate", name.keyspace.as_deref(), &name.name)
        }
    }
}

/// Where names are looked up.
#[derive(Clone, Copy)]
struct Scope<'a> {
    schema: &'a Schema,
    session_keyspace: Option<&'a str>,
}

impl<'a> Scope<'a> {
    /// The session's keyspace, or all if none is in use.
    fn keyspaces(self) -> Result<Vec<&'a KeyspaceMetadata>, CqlError> {
        match self.session_keyspace {
            Some(name) => Ok(vec![self.existing(name)?]),
            None => Ok(Element::keyspaces(self.schema)),
        }
    }

    fn keyspace(self, written: Option<&str>) -> Result<&'a KeyspaceMetadata, CqlError> {
        match written.or(self.session_keyspace) {
            Some(name) => self.existing(name),
            None => Err(CqlError::invalid(format_args!(
                "No keyspace specified and no current keyspace"
            ))),
        }
    }

    fn existing(self, name: &str) -> Result<&'a KeyspaceMetadata, CqlError> {
        match self.schema.keyspace(name) {
            Some(keyspace) => Ok(keyspace),
            None => Err(CqlError::invalid(format_args!("'{name}' not found in keyspaces"))),
        }
    }

    /// A table with its indexes and views.
    fn table(self, name: &QualifiedName) -> Result<Vec<Element<'a>>, CqlError> {
        let keyspace = self.keyspace(name.keyspace.as_deref())?;
        match keyspace.tables.get(&*name.name) {
            Some(table) if !keyspace.views.contains_key(&table.name) => {
                Ok(Element::with_parts(keyspace, table).collect())
            }
            _ => Err(CqlError::invalid(format_args!(
                "Table '{}' not found in keyspace '{}'",
                name.name, keyspace.name
            ))),
        }
    }

    fn view(self, name: &QualifiedName) -> Result<Element<'a>, CqlError> {
        let keyspace = self.keyspace(name.keyspace.as_deref())?;
        let view = keyspace.views.get(&*name.name);
        match view.and_then(|view| Element::view(keyspace, view)) {
            Some(view) => Ok(view),
            None => self.absent("Materialized view", name.keyspace.as_deref(), &name.name),
        }
    }

    fn index(self, name: &QualifiedName) -> Result<Element<'a>, CqlError> {
        let keyspace = self.keyspace(name.keyspace.as_deref())?;
        index_of(keyspace, &name.name).ok_or_else(|| {
            invalid!(
                "Table for existing index '{}' not found in '{}'",
                name.name,
                keyspace.name
            )
        })
    }

    fn user_type(self, name: &QualifiedName) -> Result<Element<'a>, CqlError> {
        let keyspace = self.keyspace(name.keyspace.as_deref())?;
        let user_type = keyspace.types.get(&*name.name).map(Arc::as_ref);
        user_type.map(Element::Type).ok_or_else(|| {
            CqlError::invalid(format_args!(
                "User defined type '{}' not found in '{}'",
                name.name, keyspace.name
            ))
        })
    }

    /// Refuses a name that is not found; functions and aggregates, which have not been built here, never are.
    fn absent<T>(self, kind: &str, keyspace: Option<&str>, name: &str) -> Result<T, CqlError> {
        let keyspace = &self.keyspace(keyspace)?.name;
        Err(CqlError::invalid(format_args!(
            "{kind} '{name}' not found in '{keyspace}'"
        )))
    }

    /// A keyspace if no keyspace is named and there is one, else a table with its indexes and views, a view or an index.
    fn generic(self, written: &QualifiedName) -> Result<Vec<Element<'a>>, CqlError> {
        let QualifiedName { keyspace, name } = written;
        if keyspace.is_none()
            && let Some(keyspace) = self.schema.keyspace(name)
        {
            return Ok(Element::whole_keyspace(keyspace).collect());
        }
        let keyspace = self.existing(keyspace.as_deref().or(self.session_keyspace).unwrap_or(name))?;
        let view = keyspace.views.get(name.as_str());
        if let Some(view) = view.and_then(|view| Element::view(keyspace, view)) {
            return Ok(vec![view]);
        }
        match keyspace.tables.get(name.as_str()) {
            Some(table) => Ok(Element::with_parts(keyspace, table).collect()),
            None => match index_of(keyspace, name) {
                Some(index) => Ok(vec![index]),
                None => Err(invalid!("'{name}' not found in keyspace '{}'", keyspace.name)),
            },
        }
    }
}

fn index_of<'a>(keyspace: &'a KeyspaceMetadata, name: &str) -> Option<Element<'a>> {
    let table = keyspace.table_of_index(name)?;
    Some(Element::Index(table.index(name)?, table))
}

fn text_columns(names: &[&'static str]) -> Vec<DescribeColumn> {
    names
        .iter()
        .map(|&name| DescribeColumn {
            name,
            cql_type: CqlType::Text,
        })
        .collect()
}

fn list(elements: &[Element<'_>]) -> DescribeAnswer {
    let row = |element: &Element<'_>| element.identification().map(String::into_bytes).to_vec();
    DescribeAnswer {
        columns: text_columns(&["keyspace_name", "type", "name"]),
        rows: elements.iter().map(row).collect(),
    }
}

fn detail(elements: &[Element<'_>], with_internals: bool) -> DescribeAnswer {
    let mut answer = list(elements);
    answer.columns.extend(text_columns(&["create_statement"]));
    for (row, element) in answer.rows.iter_mut().zip(elements) {
        row.push(element.create_statement(with_internals).into_bytes());
    }
    answer
}

/// With a user's keyspace in use, also which node has which end of the ring: this one has all.
fn cluster(node: &NodeState, session_keyspace: Option<&str>) -> DescribeAnswer {
    let mut columns = text_columns(&["cluster", "partitioner", "snitch"]);
    let partitioner = PARTITIONER.rsplit('.').next().unwrap_or(PARTITIONER);
    let mut row = [&*node.cluster_name, partitioner, SNITCH]
        .map(|text| text.as_bytes().to_vec())
        .to_vec();
    if session_keyspace.is_some_and(|keyspace| !is_system_keyspace(keyspace)) {
        let owners = CqlType::list(CqlType::Text, false);
        columns.push(DescribeColumn {
            name: "range_ownership",
            cql_type: CqlType::map(CqlType::Text, owners, false),
        });
        row.push(range_ownership(node));
    }
    DescribeAnswer {
        columns,
        rows: vec![row],
    }
}

fn range_ownership(node: &NodeState) -> Vec<u8> {
    let mut tokens: Vec<String> = node.tokens.iter().map(i64::to_string).collect();
    tokens.sort_unstable();
    let mut owners = Vec::new();
    let endpoint = format!("/{}:{}", node.address, node.storage_port);
    write_collection(&mut owners, 1, [endpoint.as_bytes()]);
    let mut ownership = Vec::new();
    write_collection(
        &mut ownership,
        2,
        tokens.iter().flat_map(|token| [token.as_bytes(), &owners]),
    );
    ownership
}
