//! Workloads from a YAML file.
//!
//! ```yaml
//! name: orders
//! schema:
//!   - "CREATE KEYSPACE IF NOT EXISTS shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
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
    #[error("{}: zipf's exponent is between 0 and 1, not {exponent}", file.display())]
    Exponent { file: PathBuf, exponent: f64 },
    #[error("{}: values of {bytes} bytes are beyond {VALUE_BYTES_MAX}", file.display())]
    TooLong { file: PathBuf, bytes: usize },
}

/// The largest generated value: servers take frames of 16 MiB by default.
const VALUE_BYTES_MAX: usize = 16 << 20;

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

impl GeneratorEntry {
    /// Refuses what would fill the memory or draw nonsense.
    fn check(&self, file: &Path) -> Result<(), WorkloadError> {
        let file = || file.to_owned();
        match self {
            GeneratorEntry::Zipf { exponent, .. } if !(*exponent > 0.0 && *exponent < 1.0) => {
                Err(WorkloadError::Exponent {
                    file: file(),
                    exponent: *exponent,
                })
            }
            GeneratorEntry::Text { bytes } | GeneratorEntry::Blob { bytes } if *bytes > VALUE_BYTES_MAX => {
                Err(WorkloadError::TooLong {
                    file: file(),
                    bytes: *bytes,
                })
            }
            GeneratorEntry::Collection { count, element } => {
                let bytes = count.saturating_mul(element.bytes_about());
                if bytes > VALUE_BYTES_MAX {
                    return Err(WorkloadError::TooLong { file: file(), bytes });
                }
                element.check(&file())
            }
            _ => Ok(()),
        }
    }

    /// The size of a value, near enough to refuse an enormous one.
    fn bytes_about(&self) -> usize {
        match self {
            GeneratorEntry::Text { bytes } | GeneratorEntry::Blob { bytes } => *bytes,
            GeneratorEntry::Collection { count, element } => count.saturating_mul(element.bytes_about()),
            _ => 8,
        }
    }
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
        Workload::parse(&text, file)
    }

    fn parse(text: &str, file: &Path) -> Result<Workload, WorkloadError> {
        let parsed: WorkloadFile = serde_saphyr::from_str(text).map_err(|source| WorkloadError::Yaml {
            file: file.to_owned(),
            source: Box::new(source),
        })?;
        let statements = parsed.statements.values();
        let populate = parsed.populate.iter().map(|entry| &entry.statement);
        for entry in statements.chain(populate).flat_map(|entry| &entry.values) {
            entry.check(file)?;
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Workload, WorkloadError> {
        Workload::parse(text, Path::new("loads/orders.yaml"))
    }

    /// The file that this module's description shows.
    fn shown() -> String {
        let lines = include_str!("file.rs").lines();
        lines
            .skip_while(|line| *line != "//! ```yaml")
            .skip(1)
            .take_while(|line| *line != "//! ```")
            .map(|line| {
                format!(
                    "{}\n",
                    line.trim_start_matches("//!").strip_prefix(' ').unwrap_or("")
                )
            })
            .collect()
    }

    #[test]
    fn the_file_that_the_description_shows_is_read() {
        let workload = parse(&shown()).unwrap();
        assert_eq!((workload.name.as_str(), workload.schema.len()), ("orders", 2));
        let populate = workload.populate.unwrap();
        assert_eq!((populate.rows, populate.statement.values.len()), (100_000, 2));
        let statements: Vec<_> = workload
            .statements
            .iter()
            .map(|statement| (statement.name.as_str(), statement.weight, statement.values.len()))
            .collect();
        assert_eq!(statements, [("read", 9, 1), ("write", 1, 2)]);
        assert!(
            matches!(&workload.statements[0].values[0], Generator::Zipf(zipf) if zipf.exponent() == 0.99)
        );
        assert!(
            workload
                .statements
                .iter()
                .all(|statement| statement.is_idempotent)
        );
    }

    #[test]
    fn every_generator_has_its_entry() {
        let entries = [
            "sequence: {}",
            "sequence: {of: 5}",
            "uniform: {of: 5}",
            "zipf: {of: 5, exponent: 0.8}",
            "hotspot: {of: 10, hot: 2, share: 0.8}",
            "constant: {number: 7}",
            "text: {bytes: 3}",
            "blob: {bytes: 3}",
            "collection: {count: 2, element: {text: {bytes: 3}}}",
            "time_series: {step_ms: 10, of: 5}",
        ];
        for entry in entries {
            let workload = parse(&format!("statements: {{one: {{cql: X, values: [{{{entry}}}]}}}}"));
            let workload = workload.unwrap_or_else(|error| panic!("{entry}: {error}"));
            assert_eq!(workload.statements[0].values.len(), 1, "{entry}");
        }
    }

    #[test]
    fn a_workload_without_a_name_is_called_by_its_file() {
        assert_eq!(parse("statements: {one: {cql: X}}").unwrap().name, "orders");
    }

    #[test]
    fn what_is_misspelled_or_missing_is_named_with_its_file() {
        let cases = [
            ("statement: {one: {cql: X}}", "statement"),
            ("statements: {one: {cql: X, wieght: 2}}", "wieght"),
            ("statements: {one: {cql: X, values: [{zip: {of: 2}}]}}", "zip"),
            ("statements: {one: {weight: 2}}", "cql"),
            ("statements: {one: {cql: X, weight: 0}}", "weight above 0"),
            (
                "statements: {one: {cql: X, values: [{zipf: {of: 2, exponent: 1}}]}}",
                "exponent",
            ),
            (
                "statements: {one: {cql: X, values: [{blob: {bytes: 99999999999}}]}}",
                "99999999999",
            ),
            (
                "statements: {one: {cql: X, values: [{collection: {count: 99999999, element: {uniform: {of: 2}}}}]}}",
                "beyond",
            ),
            ("statements: {}", "at least one statement"),
        ];
        for (text, wanted) in cases {
            let error = parse(text).unwrap_err().to_string();
            assert!(
                error.contains(wanted) && error.starts_with("loads/orders.yaml"),
                "{error}"
            );
        }
    }
}
