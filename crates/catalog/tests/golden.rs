//! Replays the statements of `testdata/*.golden` against a schema and compares with what Cassandra 5.0.5 answered.
//!
//! `record.py` records the answers; a difference is therefore one from Cassandra. SELECT is answered here by a small
//! filter over the generated rows, so that the rows of `system_schema` are compared as well.

use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::sync::Arc;

use helenus_catalog::ddl::{DdlContext, SchemaChangeTarget, apply};
use helenus_catalog::describe::describe;
use helenus_catalog::system::{NodeState, NodeUsage, add_system_keyspaces, read_system_table};
use helenus_cql::ast::{
    LiteralKind, Operator, Relation, SchemaStatement, Select, Selection, Selector, Statement, Term,
};
use helenus_cql::parse_statement;
use helenus_engine::CqlError;
use helenus_rows::clustering::{Side, Slice};
use helenus_rows::partition_range::{PartitionBound, PartitionRange};
use helenus_rows::row::{Entry, RowRef};
use helenus_schema::{ColumnMetadata, Schema, TableId, TableMetadata};
use helenus_storage::read::{ReadCommand, RowSink};
use helenus_types::partition_key::partition_key_components;
use helenus_types::value::collection::{CollectionElements, MapEntries, write_collection};
use helenus_types::{CqlType, Token};
use uuid::Uuid;

/// The tokens of the node that answered.
const PEER_TOKENS: [i64; 16] = [
    -2495971059273751625,
    -2519484059048863237,
    -4111214587669075135,
    -4929921680753085073,
    -5231820384043983322,
    -715429380292859095,
    -8882253360555054169,
    138683992903982654,
    1686272000039530816,
    2702207696675622896,
    566112423714223564,
    5745979999179383378,
    6173187529329401232,
    6309648557446205897,
    8466171236592345088,
    8511499176139501549,
];

#[test]
fn keyspaces() {
    replay(include_str!("../testdata/keyspace.golden"));
}

#[test]
fn tables() {
    replay(include_str!("../testdata/table.golden"));
}

#[test]
fn table_options() {
    replay(include_str!("../testdata/table_options.golden"));
}

#[test]
fn sstable_formats() {
    replay(include_str!("../testdata/sstable_format.golden"));
}

#[test]
fn rate_limits() {
    replay(include_str!("../testdata/rate_limit.golden"));
}

#[test]
fn expiration() {
    replay(include_str!("../testdata/expiration.golden"));
}

#[test]
fn user_types() {
    replay(include_str!("../testdata/user_type.golden"));
}

#[test]
fn column_types() {
    replay(include_str!("../testdata/column_type.golden"));
}

#[test]
fn absent_things() {
    replay(include_str!("../testdata/absent.golden"));
}

#[test]
fn system_tables() {
    replay(include_str!("../testdata/system.golden"));
}

#[test]
fn descriptions() {
    replay(include_str!("../testdata/describe.golden"));
}

/// Runs every block and collects all differences, so that one run shows them together.
#[test]
fn views() {
    replay(include_str!("../testdata/view.golden"));
}

fn replay(golden: &str) {
    let mut session = Session::new();
    let mut differences = String::new();
    let mut count = 0;
    for block in golden
        .trim()
        .split("\n\n")
        .filter(|block| !block.starts_with('#'))
    {
        let (statement, expected) = block.split_once('\n').expect("a statement and its answer");
        let statement = statement.strip_prefix("> ").expect("a statement");
        let actual = without_own_tables(&session.answer(statement));
        count += 1;
        if actual != without_paxos_index(expected) {
            writeln!(differences, "> {statement}").unwrap();
            write_difference(&mut differences, &without_paxos_index(expected), &actual);
        }
    }
    assert!(count > 5, "the golden file has {count} statements");
    assert!(differences.is_empty(), "{differences}");
}

/// Tables that Cassandra 5.0 does not have.
const OWN_TABLES: [&str; 5] = [
    "cdc_generation_timestamps",
    "cdc_streams_descriptions_v2",
    "hot_partitions",
    "node_metrics",
    "slow_queries",
];

fn without_own_tables(actual: &str) -> String {
    let is_own = |line: &str| OWN_TABLES.iter().any(|name| line.contains(name));
    let (mut kept, mut dropped, mut is_dropping) = (Vec::new(), 0, false);
    for line in actual.lines() {
        if !line.starts_with("| ") {
            is_dropping = line.starts_with("row ") && is_own(line);
            dropped += usize::from(is_dropping);
        }
        if !is_dropping {
            kept.push(line);
        }
    }
    let kept = kept.join("\n");
    match kept.rsplit_once("rows ") {
        Some((rows, count)) if dropped > 0 => {
            format!("{rows}rows {}", count.parse::<usize>().unwrap() - dropped)
        }
        _ => kept,
    }
}

/// Cassandra's `system.paxos` has an index of its own; here nothing is stored in that table.
fn without_paxos_index(expected: &str) -> String {
    let (indexes, others): (Vec<&str>, Vec<&str>) = expected
        .lines()
        .partition(|line| line.starts_with("row keyspace_name system | type index | "));
    let others = others.join("\n");
    match others.rsplit_once("rows ") {
        Some((rows, count)) if !indexes.is_empty() => {
            format!("{rows}rows {}", count.parse::<usize>().unwrap() - indexes.len())
        }
        _ => others,
    }
}

/// The lines from the first to the last that differ.
fn write_difference(out: &mut String, expected: &str, actual: &str) {
    let (expected, actual): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), actual.lines().collect());
    let same = expected
        .iter()
        .zip(&actual)
        .take_while(|(left, right)| left == right)
        .count();
    let rest = (&expected[same..], &actual[same..]);
    let tail = rest
        .0
        .iter()
        .rev()
        .zip(rest.1.iter().rev())
        .take_while(|(left, right)| left == right)
        .count();
    for (sign, lines) in [('-', &expected), ('+', &actual)] {
        for line in &lines[same..lines.len() - tail] {
            writeln!(out, "{sign} {line}").unwrap();
        }
    }
}

struct Session {
    schema: Arc<Schema>,
    keyspace: Option<String>,
    node: NodeState,
    tables_made: u128,
}

impl Session {
    fn new() -> Self {
        let mut schema = Schema::default();
        add_system_keyspaces(&mut schema).unwrap();
        let node = NodeState {
            cluster_name: "peer".to_owned(),
            data_center: "datacenter1".to_owned(),
            rack: "rack1".to_owned(),
            host_id: Uuid::from_u128(1),
            address: [127, 0, 81, 1].into(),
            native_port: 9042,
            storage_port: 7000,
            tokens: PEER_TOKENS.to_vec(),
            release_version: "5.0.5".to_owned(),
            cql_version: "3.4.7".to_owned(),
            schema_version: Uuid::from_u128(2),
            gossip_generation: 0,
            now_us: 1,
            settings: Vec::new(),
            sstable_tasks: Vec::new(),
            hot_partitions: Vec::new(),
            metrics: Vec::new(),
            usage: NodeUsage::default(),
        };
        Session {
            schema: Arc::new(schema),
            keyspace: None,
            node,
            tables_made: 0,
        }
    }

    /// The answer as `record.py` writes it.
    fn answer(&mut self, text: &str) -> String {
        match self.execute(text) {
            Ok(answer) => answer,
            Err(error) => format!("error 0x{:04X} {error}", error.code().number()),
        }
    }

    fn execute(&mut self, text: &str) -> Result<String, CqlError> {
        let statement = parse_statement(text)?;
        match &statement {
            Statement::Use(keyspace) => {
                self.keyspace = Some(keyspace.clone());
                Ok(format!("keyspace {keyspace}"))
            }
            Statement::Describe(statement) => {
                let answer = describe(&self.schema, &self.node, statement, self.keyspace.as_deref())?;
                let columns: Vec<(&str, &CqlType)> = answer
                    .columns
                    .iter()
                    .map(|column| (column.name, &column.cql_type))
                    .collect();
                let rows = answer
                    .rows
                    .iter()
                    .map(|row| row.iter().map(|value| Some(value.as_slice())).collect());
                Ok(rows_text(&columns, rows.collect()))
            }
            Statement::Select(select) => Ok(self.select(select)),
            Statement::Schema(statement) => self.change(statement),
            other => panic!("{} is not of the schema: {text}", other.name()),
        }
    }

    fn change(&mut self, statement: &SchemaStatement) -> Result<String, CqlError> {
        self.tables_made += 1;
        let context = DdlContext {
            session_keyspace: self.keyspace.as_deref(),
            now_us: 1_700_000_000_000_000,
            new_table_id: TableId(Uuid::from_u128(self.tables_made)),
            data_center: "datacenter1",
            materialized_views: true,
            default_index: helenus_schema::IndexKind::Legacy,
        };
        let outcome = apply(&self.schema, statement, &context)?;
        let mut lines: Vec<String> = outcome
            .warnings
            .iter()
            .map(|warning| format!("warning {warning}"))
            .collect();
        match outcome.transition {
            None => lines.push("void".to_owned()),
            Some(transition) => {
                assert!(transition.events.contains(&transition.change));
                let change = transition.change;
                let target = match &change.target {
                    SchemaChangeTarget::Keyspace => format!("KEYSPACE {}", change.keyspace),
                    SchemaChangeTarget::Table(name) => format!("TABLE {}.{name}", change.keyspace),
                    SchemaChangeTarget::Type(name) => format!("TYPE {}.{name}", change.keyspace),
                };
                lines.push(format!("{} {target}", change.kind.name()));
                self.schema = transition.schema;
            }
        }
        Ok(lines.join("\n"))
    }

    /// `SELECT columns FROM system table WHERE column = 'text' AND ...`
    fn select(&self, select: &Select) -> String {
        let keyspace = select.table.keyspace.as_deref().unwrap();
        let table = self.schema.table(keyspace, &select.table.name).unwrap();
        let mut collector = Collector {
            table: Arc::clone(table),
            key: Vec::new(),
            rows: Vec::new(),
        };
        self.read_all(table, &mut collector);
        let mut rows = collector.rows;
        for relation in &select.relations {
            let Relation::Column {
                column,
                operator: Operator::Equal,
                value: Term::Literal(value),
            } = relation
            else {
                panic!("{relation:?}")
            };
            assert_eq!(value.kind, LiteralKind::String);
            let index = table
                .columns
                .iter()
                .position(|found| &*found.name == column)
                .unwrap();
            rows.retain(|row| row[index].as_deref() == Some(value.text.as_bytes()));
        }
        let names: Vec<&str> = match &select.selection {
            Selection::Wildcard => table.columns.iter().map(|column| &*column.name).collect(),
            Selection::Items(items) => items
                .iter()
                .map(|item| match &item.selector {
                    Selector::Column(name) => name.as_str(),
                    other => panic!("{other:?}"),
                })
                .collect(),
        };
        let index_of = |name: &str| {
            table
                .columns
                .iter()
                .position(|column| &*column.name == name)
                .unwrap()
        };
        let columns: Vec<(&str, &CqlType)> = names
            .iter()
            .map(|name| (*name, &table.columns[index_of(name)].cql_type))
            .collect();
        let selected = rows
            .iter()
            .map(|row| names.iter().map(|name| row[index_of(name)].as_deref()).collect());
        rows_text(&columns, selected.collect())
    }

    fn read_all(&self, table: &Arc<TableMetadata>, collector: &mut Collector) {
        let bound = |token, side| PartitionBound {
            token,
            key: None,
            side,
        };
        let command = ReadCommand {
            table,
            partitions: PartitionRange::Many {
                start: bound(Token(i64::MIN), Side::Before),
                end: bound(Token(i64::MAX), Side::After),
            },
            slices: &[Slice::all()],
            reversed: false,
            now_s: 10,
            index: &[],
        };
        read_system_table(&command, &self.schema, &self.node, collector).unwrap();
    }
}

/// Gathers rows as values in the order of the table's columns; of multi-cell columns, for tables that have sets only.
struct Collector {
    table: Arc<TableMetadata>,
    key: Vec<u8>,
    rows: Vec<Vec<Option<Vec<u8>>>>,
}

impl RowSink for Collector {
    fn partition(&mut self, _: Token, key: &[u8], _: RowRef<'_>) -> ControlFlow<()> {
        self.key = key.to_vec();
        ControlFlow::Continue(())
    }

    fn row(&mut self, clustering: &[u8], row: RowRef<'_>) -> ControlFlow<()> {
        let keys = partition_key_components(&self.key, self.table.partition_key().len());
        let clustering = helenus_rows::clustering::Components::new(clustering);
        let mut values: Vec<Option<Vec<u8>>> = keys
            .map(<[u8]>::to_vec)
            .chain(clustering.map(<[u8]>::to_vec))
            .map(Some)
            .collect();
        let value_of = |column: &ColumnMetadata| {
            let cells = row.entries().filter_map(|entry| match entry {
                Entry::Cell(cell) if cell.column == column.id => Some(cell),
                _ => None,
            });
            let cells: Vec<_> = cells.collect();
            let first = cells.first()?;
            if first.path.is_none() {
                return Some(first.value.to_vec());
            }
            let mut set = Vec::new();
            write_collection(&mut set, 1, cells.iter().filter_map(|cell| cell.path));
            Some(set)
        };
        values.extend(self.table.regulars().iter().map(value_of));
        self.rows.push(values);
        ControlFlow::Continue(())
    }

    fn partition_end(&mut self) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

fn rows_text(columns: &[(&str, &CqlType)], rows: Vec<Vec<Option<&[u8]>>>) -> String {
    let mut text = String::new();
    for row in &rows {
        let cells: Vec<String> = columns
            .iter()
            .zip(row)
            .map(|((name, cql_type), value)| format!("{name} {}", value_text(*value, cql_type)))
            .collect();
        writeln!(text, "row {}", cells.join(" | ")).unwrap();
    }
    write!(text, "rows {}", rows.len()).unwrap();
    text
}

fn value_text(value: Option<&[u8]>, cql_type: &CqlType) -> String {
    let Some(value) = value else {
        return "null".to_owned();
    };
    let elements = |element: &CqlType| {
        let elements = CollectionElements::new(value, 1).unwrap();
        elements
            .map(|part| value_text(part, element))
            .collect::<Vec<_>>()
            .join(", ")
    };
    match cql_type {
        CqlType::Text => {
            let text = std::str::from_utf8(value).unwrap();
            match text.contains('\n') {
                true => format!("\n| {}", text.replace('\n', "\n| ")),
                false => text.to_owned(),
            }
        }
        CqlType::Timestamp => i64::from_be_bytes(value.try_into().unwrap()).to_string(),
        CqlType::List { element, .. } => format!("[{}]", elements(element)),
        CqlType::Set { element, .. } => format!("{{{}}}", elements(element)),
        CqlType::Map {
            key, value: element, ..
        } => {
            let entries = MapEntries::new(value).unwrap();
            let entries = entries.map(|(found, value)| {
                format!(
                    "{}: {}",
                    value_text(Some(found), key),
                    value_text(Some(value), element)
                )
            });
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
        CqlType::Inet => cql_type.to_text(value).unwrap(),
        other => other.to_cql_literal(value),
    }
}
