//! Flush and compaction alone, on a real disk: overlapping SSTables of a table are flushed, then merged into one. Both run on
//! the calling thread, so its processor time is theirs.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use helenus_rows::clustering::push_component;
use helenus_rows::deletion::{DeletionTime, NEVER_S};
use helenus_rows::row::{CellRef, Liveness};
use helenus_rows::update::{Update, UpdateBuilder};
use helenus_schema::{
    ClusteringOrder, ColumnId, ColumnKind, ColumnMetadata, IndexId, IndexKind, IndexMetadata, IndexTarget,
    KeyspaceMetadata, Replication, Schema, TableId, TableKind, TableMetadata, TableParams,
};
use helenus_storage::ShardStore;
use helenus_storage::compaction::CompactionLimits;
use helenus_storage::store::{CompactionKind, CompactionRequest, DataFolder, JobKind, StoreOptions};
use helenus_types::CqlType;
use helenus_vfs::{RealDisk, SystemClock};
use serde::Serialize;
use uuid::Uuid;

use crate::compaction_rows::{GeneratedRow, each_row};
use crate::cpu_time::thread_cpu_seconds;

/// Layout of a table's partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Shape {
    /// `(pk bigint, ck bigint, value blob, PRIMARY KEY (pk, ck))`, 16 rows a partition.
    Clustered,
    /// `(pk bigint PRIMARY KEY, c0 blob, ..., c4 blob)`: one row a partition.
    SingleRow,
    /// As it, with `c0 int` and `c1 text`: what may have indexes.
    Indexable,
}

/// Values in each row of a table without clustering columns.
const SINGLE_ROW_VALUES: usize = 5;

pub struct CompactionOptions {
    /// Made for the run; must not exist.
    pub folder: PathBuf,
    /// SSTables that are flushed, then merged.
    pub sstables: u32,
    /// In each SSTable.
    pub rows: u64,
    /// Length of each value.
    pub value_bytes: usize,
    pub shape: Shape,
    /// The two columns of [`Shape::Indexable`] that may have indexes have them.
    pub indexed: bool,
}

#[derive(Clone, Debug, Serialize)]
pub struct CompactionReport {
    pub rows_written: u64,
    pub value_bytes: usize,
    pub flush: Phase,
    pub compaction: Phase,
    /// Bytes on the disk before and after the compaction.
    pub disk_bytes_before: u64,
    pub disk_bytes_after: u64,
    /// Everything written to SSTables over what a single flush of it all would have written.
    pub write_amplification: f64,
}

/// One kind of work.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Phase {
    /// Uncompressed bytes of what went in.
    pub megabytes: f64,
    pub seconds: f64,
    pub cpu_seconds: f64,
    pub megabytes_per_s: f64,
    pub megabytes_per_cpu_s: f64,
}

pub fn run(options: &CompactionOptions) -> io::Result<CompactionReport> {
    if options.folder.exists() {
        return Err(io::Error::other(format!("{} exists", options.folder.display())));
    }
    let schema = schema(options.shape, options.indexed);
    let mut store = open(&options.folder, &schema)?;
    let table = schema.tables().next().map(|table| table.id);
    let table = table.ok_or_else(|| io::Error::other("no table"))?;
    let mut flush = Phase::default();
    for number in 0..options.sstables {
        fill(&mut store, table, number, options)?;
        store.flush(Some(table));
        run_jobs(&mut store, JobKind::Flush, &mut flush)?;
    }
    let before = store.compactions().totals;
    let disk_bytes_before = disk_bytes(&options.folder)?;
    let request = CompactionRequest {
        table,
        kind: CompactionKind::Major { split_output: false },
    };
    store.compact(request).map_err(io::Error::other)?;
    let mut compaction = Phase::default();
    run_jobs(&mut store, JobKind::MajorCompaction, &mut compaction)?;
    let written = store.compactions().totals.bytes_written - before.bytes_written;
    // A memtable's bytes are no measure: what it writes is.
    flush.megabytes = compaction.megabytes;
    Ok(CompactionReport {
        rows_written: options.rows * u64::from(options.sstables),
        value_bytes: options.value_bytes,
        flush: flush.finished(),
        compaction: compaction.finished(),
        disk_bytes_before,
        disk_bytes_after: disk_bytes(&options.folder)?,
        write_amplification: (disk_bytes_before + written) as f64 / disk_bytes_before.max(1) as f64,
    })
}

fn open(folder: &Path, schema: &Schema) -> io::Result<ShardStore> {
    let folder = DataFolder::open(Arc::new(RealDisk::new()), Arc::new(SystemClock::new()), folder)
        .map_err(io::Error::other)?;
    let options = StoreOptions {
        memtable_bytes_max: usize::MAX / 8,
        compaction: CompactionLimits::new(0, 2, CompactionLimits::READ_BYTES_MAX),
        ..StoreOptions::default()
    };
    let opened = folder
        .open_shards(&options, 1, schema)
        .map_err(io::Error::other)?;
    let shard = opened.shards.into_iter().next();
    shard
        .map(|(store, _)| store)
        .ok_or_else(|| io::Error::other("no shard"))
}

/// Writes the rows of one SSTable to the memtable.
fn fill(store: &mut ShardStore, table: TableId, number: u32, options: &CompactionOptions) -> io::Result<()> {
    let mut bytes = Vec::new();
    let value_bytes = match options.shape {
        Shape::Clustered => options.value_bytes,
        Shape::SingleRow | Shape::Indexable => options.value_bytes * SINGLE_ROW_VALUES,
    };
    let mut row_number = 0;
    each_row(number, options.rows, value_bytes, |row| {
        bytes.clear();
        match options.shape {
            Shape::Clustered => clustered_update(&mut bytes, table, row),
            Shape::SingleRow | Shape::Indexable => {
                // Every second row of an SSTable is in the next one, too.
                let key = u64::from(number) * (options.rows / 2) + row_number;
                row_number += 1;
                let mut values: Vec<&[u8]> = row.value.chunks(options.value_bytes.max(1)).collect();
                let (number, text) = ((row_number as u32).to_be_bytes(), format!("value of {key:08}"));
                if options.shape == Shape::Indexable
                    && let [first, second, ..] = &mut values[..]
                {
                    (*first, *second) = (&number, text.as_bytes());
                }
                single_row_update(&mut bytes, table, key, row, &values);
            }
        }
        let update = Update::decode(&bytes).map_err(io::Error::other)?;
        store.apply(&update).map(drop).map_err(io::Error::other)
    })
}

fn clustered_update(bytes: &mut Vec<u8>, table: TableId, row: GeneratedRow<'_>) {
    let mut clustering = Vec::new();
    push_component(&mut clustering, &row.clustering.to_be_bytes());
    let key = row.key.to_be_bytes();
    let mut update = UpdateBuilder::new(bytes, table, &key, DeletionTime::LIVE);
    update.row(&clustering, liveness(row), DeletionTime::LIVE, |builder| {
        builder.cell(cell(ColumnId(2), row, row.value));
    });
}

fn single_row_update(bytes: &mut Vec<u8>, table: TableId, key: u64, row: GeneratedRow<'_>, values: &[&[u8]]) {
    let key = key.to_be_bytes();
    let mut update = UpdateBuilder::new(bytes, table, &key, DeletionTime::LIVE);
    update.row(&[], liveness(row), DeletionTime::LIVE, |builder| {
        for (column, value) in (1..).zip(values) {
            builder.cell(cell(ColumnId(column), row, value));
        }
    });
}

fn liveness(row: GeneratedRow<'_>) -> Liveness {
    Liveness {
        timestamp_us: row.timestamp_us,
        ttl_s: 0,
        expires_at_s: NEVER_S,
    }
}

fn cell<'a>(column: ColumnId, row: GeneratedRow<'_>, value: &'a [u8]) -> CellRef<'a> {
    CellRef {
        column,
        timestamp_us: row.timestamp_us,
        ttl_s: 0,
        local_deletion_s: NEVER_S,
        path: None,
        value,
    }
}

/// Runs what there is to do; counts the kind that is measured.
fn run_jobs(store: &mut ShardStore, measured: JobKind, phase: &mut Phase) -> io::Result<()> {
    while let Some(job) = store.next_job() {
        let progress = Arc::clone(job.progress());
        let (cpu_before, started) = (thread_cpu_seconds()?, std::time::Instant::now());
        let result = job.run();
        if progress.kind == measured {
            phase.seconds += started.elapsed().as_secs_f64();
            phase.cpu_seconds += thread_cpu_seconds()? - cpu_before;
            phase.megabytes += progress.bytes_total as f64 / 1e6;
        }
        store.complete(result).result.map_err(io::Error::other)?;
    }
    Ok(())
}

/// Returns the bytes of all SSTables.
fn disk_bytes(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        if metadata.is_dir() {
            bytes += disk_bytes(&entry.path())?;
        } else if entry.file_name().to_string_lossy().ends_with(".db") {
            bytes += metadata.len();
        }
    }
    Ok(bytes)
}

impl Phase {
    fn finished(self) -> Self {
        Phase {
            megabytes_per_s: self.megabytes / self.seconds.max(1e-9),
            megabytes_per_cpu_s: self.megabytes / self.cpu_seconds.max(1e-9),
            ..self
        }
    }
}

fn schema(shape: Shape, indexed: bool) -> Schema {
    let column = |id, name: &str, kind, position, cql_type| ColumnMetadata {
        id: ColumnId(id),
        name: name.into(),
        kind,
        position,
        cql_type,
        order: ClusteringOrder::Ascending,
    };
    let key = column(0, "pk", ColumnKind::PartitionKey, 0, CqlType::Bigint);
    let (columns, clustering_count) = match shape {
        Shape::Clustered => {
            let clustering = column(1, "ck", ColumnKind::Clustering, 0, CqlType::Bigint);
            let value = column(2, "value", ColumnKind::Regular, 0, CqlType::Blob);
            (vec![key, clustering, value], 1)
        }
        Shape::SingleRow | Shape::Indexable => {
            let names = ["c0", "c1", "c2", "c3", "c4"];
            let values = (1..).zip(names);
            let cql_type = |id| match (shape, id) {
                (Shape::Indexable, 1) => CqlType::Int,
                (Shape::Indexable, 2) => CqlType::Text,
                _ => CqlType::Blob,
            };
            let values = values.map(|(id, name)| column(id, name, ColumnKind::Regular, 0, cql_type(id)));
            ([key].into_iter().chain(values).collect(), 0)
        }
    };
    let next_column_id = ColumnId(columns.len() as u16);
    let table = Arc::new(TableMetadata {
        keyspace: "bench".into(),
        name: "t".into(),
        id: TableId(Uuid::from_u128(0x1234_5678_0000_1000_8000_0000_0000_0001)),
        kind: TableKind::Regular,
        columns,
        partition_key_count: 1,
        clustering_count,
        static_count: 0,
        next_column_id,
        dropped_columns: Vec::new(),
        indexes: indexes(indexed && shape == Shape::Indexable),
        expiration_column: None,
        params: TableParams {
            // What is measured is asked for.
            compaction: BTreeMap::from([
                ("class".to_owned(), "SizeTieredCompactionStrategy".to_owned()),
                ("enabled".to_owned(), "false".to_owned()),
            ]),
            ..TableParams::default()
        },
    });
    let keyspace = KeyspaceMetadata {
        name: "bench".into(),
        // Nothing here writes a log.
        durable_writes: false,
        replication: Replication {
            class: "SimpleStrategy".into(),
            options: BTreeMap::new(),
        },
        tables: BTreeMap::from([(Arc::clone(&table.name), table)]),
        types: BTreeMap::new(),
        views: BTreeMap::new(),
        is_virtual: false,
    };
    Schema {
        version: 1,
        keyspaces: BTreeMap::from([(Arc::clone(&keyspace.name), Arc::new(keyspace))]),
    }
}

fn indexes(indexed: bool) -> Vec<Arc<IndexMetadata>> {
    match indexed {
        true => vec![index(1, "c0"), index(2, "c1")],
        false => Vec::new(),
    }
}

fn index(column: u16, name: &str) -> Arc<IndexMetadata> {
    Arc::new(IndexMetadata {
        id: IndexId(Uuid::from_u128(u128::from(column))),
        name: format!("t_{name}").into(),
        kind: IndexKind::StorageAttached,
        column: ColumnId(column),
        target: IndexTarget::Simple,
        class_name: Some("sai".into()),
        options: BTreeMap::new(),
    })
}

impl fmt::Display for CompactionReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut phase = |name: &str, phase: &Phase| {
            writeln!(
                out,
                "{name}: {:.0} MB in {:.2} s, {:.2} CPU s: {:.0} MB/s, {:.0} MB per CPU second",
                phase.megabytes,
                phase.seconds,
                phase.cpu_seconds,
                phase.megabytes_per_s,
                phase.megabytes_per_cpu_s
            )
        };
        phase("flush", &self.flush)?;
        phase("compaction", &self.compaction)?;
        write!(
            out,
            "{} MB on the disk before, {} MB after; write amplification {:.2}",
            self.disk_bytes_before / 1_000_000,
            self.disk_bytes_after / 1_000_000,
            self.write_amplification
        )
    }
}
