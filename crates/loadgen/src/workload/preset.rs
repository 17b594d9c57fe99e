//! Workloads that need no file.

use super::{Generator, Populate, Workload, WorkloadStatement};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// Point reads, all keys alike.
    Read,
    /// Point writes, all keys alike.
    Write,
    /// Nine reads to a write, keys by Zipf's law.
    Mixed,
    /// Conditional updates of rows that are there, all keys alike: nearly all are applied.
    Lwt,
    /// Increments of five counters of one row, all keys alike.
    Counter,
    /// Writes that move their rows in a materialized view, all keys alike.
    Mv,
    /// Rows of one partition of a million.
    LargePartition,
    /// Very many workers that read one row each, over and over.
    ConcurrentClient,
}

/// Bytes of each of the value's columns, five of them: the table of ScyllaDB's and Cassandra's stress tools.
const COLUMN_BYTES: usize = 34;

const LARGE_PARTITION_ROWS: u64 = 1_000_000;

impl Preset {
    /// The workload over `keys` keys.
    pub fn workload(self, keys: u64) -> Workload {
        let key = Generator::Uniform { of: keys };
        match self {
            Preset::Read => standard("read", keys, vec![read(key, 1)]),
            Preset::Write => standard("write", 0, vec![write(key, 1)]),
            Preset::Mixed => {
                let zipf = Generator::Zipf(super::generator::Zipf::new(keys, 0.99));
                standard("mixed", keys, vec![read(zipf.clone(), 9), write(zipf, 1)])
            }
            Preset::Lwt => standard("lwt", keys, vec![conditional(key)]),
            Preset::Counter => counter(key),
            Preset::Mv => viewed(key, keys),
            Preset::LargePartition => large_partition(),
            Preset::ConcurrentClient => standard(
                "concurrent-client",
                1,
                vec![read(Generator::Constant { number: 0 }, 1)],
            ),
        }
    }
}

fn schema(table: &str) -> Vec<String> {
    let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
    vec![
        format!("CREATE KEYSPACE IF NOT EXISTS helenus_loadgen WITH replication = {replication}"),
        format!("CREATE TABLE IF NOT EXISTS helenus_loadgen.{table}"),
    ]
}

fn standard(name: &str, populated: u64, statements: Vec<WorkloadStatement>) -> Workload {
    Workload {
        name: name.to_owned(),
        schema: schema("standard (key blob PRIMARY KEY, c0 blob, c1 blob, c2 blob, c3 blob, c4 blob)"),
        populate: (populated > 0).then(|| Populate {
            statement: write(Generator::Sequence { of: 0 }, 1),
            rows: populated,
        }),
        statements,
    }
}

fn read(key: Generator, weight: u32) -> WorkloadStatement {
    WorkloadStatement {
        name: "read".to_owned(),
        cql: "SELECT c0, c1, c2, c3, c4 FROM helenus_loadgen.standard WHERE key = ?".to_owned(),
        weight,
        values: vec![key],
        is_idempotent: true,
    }
}

fn write(key: Generator, weight: u32) -> WorkloadStatement {
    write_to("standard", key, weight)
}

fn write_to(table: &str, key: Generator, weight: u32) -> WorkloadStatement {
    let mut values = vec![key];
    values.resize(6, Generator::Blob { bytes: COLUMN_BYTES });
    WorkloadStatement {
        name: "write".to_owned(),
        cql: format!(
            "INSERT INTO helenus_loadgen.{table} (key, c0, c1, c2, c3, c4) VALUES (?, ?, ?, ?, ?, ?)"
        ),
        weight,
        values,
        is_idempotent: true,
    }
}

fn conditional(key: Generator) -> WorkloadStatement {
    let mut values = vec![Generator::Blob { bytes: COLUMN_BYTES }; 5];
    values.push(key);
    WorkloadStatement {
        name: "lwt".to_owned(),
        cql: "UPDATE helenus_loadgen.standard SET c0 = ?, c1 = ?, c2 = ?, c3 = ?, c4 = ? WHERE key = ? IF c0 != null"
            .to_owned(),
        weight: 1,
        values,
        // One that may have run is not sent again: its second answer would not be that of the first.
        is_idempotent: false,
    }
}

fn counter(key: Generator) -> Workload {
    Workload {
        name: "counter".to_owned(),
        schema: schema(
            "counters (key blob PRIMARY KEY, c0 counter, c1 counter, c2 counter, c3 counter, c4 counter)",
        ),
        populate: None,
        statements: vec![WorkloadStatement {
            name: "count".to_owned(),
            cql: "UPDATE helenus_loadgen.counters SET c0 = c0 + 1, c1 = c1 + 2, c2 = c2 + 3, c3 = c3 + 4, c4 = c4 + 5 \
                  WHERE key = ?"
                .to_owned(),
            weight: 1,
            values: vec![key],
            // One that may have run is not sent again.
            is_idempotent: false,
        }],
    }
}

fn viewed(key: Generator, keys: u64) -> Workload {
    let mut schema = schema("viewed (key blob PRIMARY KEY, c0 blob, c1 blob, c2 blob, c3 blob, c4 blob)");
    schema.push(
        "CREATE MATERIALIZED VIEW IF NOT EXISTS helenus_loadgen.viewed_by_c0 AS SELECT * FROM helenus_loadgen.viewed \
         WHERE c0 IS NOT NULL AND key IS NOT NULL PRIMARY KEY (c0, key)"
            .to_owned(),
    );
    Workload {
        name: "mv".to_owned(),
        schema,
        populate: Some(Populate {
            statement: write_to("viewed", Generator::Sequence { of: 0 }, 1),
            rows: keys,
        }),
        statements: vec![write_to("viewed", key, 1)],
    }
}

fn large_partition() -> Workload {
    let statement = |name: &str, cql: &str, values| WorkloadStatement {
        name: name.to_owned(),
        cql: cql.to_owned(),
        weight: 1,
        values,
        is_idempotent: true,
    };
    let partition = Generator::Constant { number: 0 };
    Workload {
        name: "large-partition".to_owned(),
        schema: schema("large (pk int, ck int, value blob, PRIMARY KEY (pk, ck))"),
        populate: Some(Populate {
            statement: statement(
                "populate",
                "INSERT INTO helenus_loadgen.large (pk, ck, value) VALUES (?, ?, ?)",
                vec![
                    partition.clone(),
                    Generator::Sequence { of: 0 },
                    Generator::Blob { bytes: 100 },
                ],
            ),
            rows: LARGE_PARTITION_ROWS,
        }),
        statements: vec![statement(
            "read",
            "SELECT value FROM helenus_loadgen.large WHERE pk = ? AND ck = ?",
            vec![
                partition,
                Generator::Uniform {
                    of: LARGE_PARTITION_ROWS,
                },
            ],
        )],
    }
}
