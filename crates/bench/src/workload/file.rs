//! Workloads from a YAML file.
//!
//! ```yaml
//! name: orders
//! schema:
//!   - CREATE KEYSPACE IF NOT EXISTS shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}
//!   - CREATE TABLE IF NOT EXISTS shop.orders (id bigint PRIMARY KEY, item text)
//! populate:
//!   rows: 100000
//!   statement:
//!     cql: INSERT INTO shop.orders (id, item) VALUES (?, ?)
//!     values: [{sequence: {}}, {text: {bytes: 20}}]
//! statements:
//!   read:
//!     weight: 9
//!     cql: SELECT item FROM shop.orders WHERE id = ?
//!     values: [{zipf: {of: 100000}}]
//!   write:
//!     cql: INSERT INTO shop.orders (id, item) VALUES (?, ?)
//!     values: [{uniform: {of: 100000}}, {text: {bytes: 20}}]
//! ```

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::generator::Zipf;
use super::{Generator, Populate, Workload, WorkloadStatement};

/// A workload file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkloadError {
    #[error("{}: {source}", file.display())]
    Io { file: PathBuf, source: io::Error },
    #[error("{}: {source}", file.display())]
    Yaml {
        file: PathBuf,
        source: Box<serde_saphyr::Error>,
    },
    #[error("{}: a workload needs at least one statement with a weight above 0", file.display())]
    NoStatements { file: PathBuf },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WorkloadFile {
    name: Option<String>,
    #[serde(default)]
    schema: Vec<String>,
    populate: Option<PopulateEntry>,
    statements: BTreeMap<String, StatementEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PopulateEntry {
    rows: u64,
    statement: StatementEntry,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StatementEntry {
    cql: String,
    #[serde(default = "one")]
    weight: u32,
    #[serde(default)]
    values: Vec<GeneratorEntry>,
    #[serde(default = "yes")]
    idempotent: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum GeneratorEntry {
    Sequence {
        #[serde(default)]
        of: u64,
    },
    Uniform {
        of: u64,
    },
    Zipf {
        of: u64,
        #[serde(default = "customary_exponent")]
        exponent: f64,
    },
    Hotspot {
        of: u64,
        hot: u64,
        #[serde(default = "most")]
        share: f64,
    },
    Constant {
        number: u64,
    },
    Text {
        bytes: usize,
    },
    Blob {
        bytes: usize,
    },
    Collection {
        count: usize,
        element: Box<GeneratorEntry>,
    },
    TimeSeries {
        step_ms: u64,
        of: u64,
    },
}

fn one() -> u32 {
    1
}

fn yes() -> bool {
    true
}

fn customary_exponent() -> f64 {
    0.99
}

fn most() -> f64 {
    0.9
}

impl Workload {
    /// Reads a workload file.
    pub fn load(file: &Path) -> Result<Workload, WorkloadError> {
        let text = std::fs::read_to_string(file).map_err(|source| WorkloadError::Io {
            file: file.to_owned(),
            source,
        })?;
        let parsed: WorkloadFile = serde_saphyr::from_str(&text).map_err(|source| WorkloadError::Yaml {
            file: file.to_owned(),
            source: Box::new(source),
        })?;
        let stem = file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let workload = Workload {
            name: parsed.name.or(stem).unwrap_or_default(),
            schema: parsed.schema,
            populate: parsed.populate.map(|entry| Populate {
                rows: entry.rows,
                statement: statement("populate", entry.statement),
            }),
            statements: parsed
                .statements
                .into_iter()
                .map(|(name, entry)| statement(&name, entry))
                .collect(),
        };
        if workload.statements.iter().all(|statement| statement.weight == 0) {
            return Err(WorkloadError::NoStatements {
                file: file.to_owned(),
            });
        }
        Ok(workload)
    }
}

fn statement(name: &str, entry: StatementEntry) -> WorkloadStatement {
    WorkloadStatement {
        name: name.to_owned(),
        cql: entry.cql,
        weight: entry.weight,
        values: entry.values.into_iter().map(generator).collect(),
        is_idempotent: entry.idempotent,
    }
}

fn generator(entry: GeneratorEntry) -> Generator {
    match entry {
        GeneratorEntry::Sequence { of } => Generator::Sequence { of },
        GeneratorEntry::Uniform { of } => Generator::Uniform { of },
        GeneratorEntry::Zipf { of, exponent } => Generator::Zipf(Zipf::new(of, exponent)),
        GeneratorEntry::Hotspot { of, hot, share } => Generator::Hotspot { of, hot, share },
        GeneratorEntry::Constant { number } => Generator::Constant { number },
        GeneratorEntry::Text { bytes } => Generator::Text { bytes },
        GeneratorEntry::Blob { bytes } => Generator::Blob { bytes },
        GeneratorEntry::Collection { count, element } => Generator::Collection {
            count,
            element: Box::new(generator(*element)),
        },
        GeneratorEntry::TimeSeries { step_ms, of } => Generator::TimeSeries { step_ms, of },
    }
}
