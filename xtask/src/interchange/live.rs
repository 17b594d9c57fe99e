//! A running Cassandra: our files streamed into it by `sstableloader`, and its files, as they were flushed and as they
//! were compacted, read by us. Each table is also served by a Helenus node that imported the same files; both answer
//! the same statements with the same rows.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use helenus_schema::{ClusteringOrder, TableMetadata};
use helenus_sstable::{Component, SsTable, SsTableFormat, SsTableId, finished_sstables, table_folder};
use helenus_storage::store::Transfer;
use helenus_storage_model::{
    BoundStatement, Case, CaseKind, Chance, Era, RandomWrites, answer, dump, key_with_token, scan,
    schema_statements, write,
};
use helenus_test_node::{Answer, Execution, TestNode};
use helenus_tools::host::{Incumbents, TableChoice};
use helenus_tools::import::{ImportOptions, import};
use helenus_tools::progress::Silent;
use helenus_types::partition_key::partition_key_components;
use helenus_types::{Token, quoted_identifier};
use helenus_vfs::{Disk, RealDisk, SystemClock};

use super::format;
use super::outcome::{Outcome, Progress, Proof};
use super::tools::{CREATE_KEYSPACE, compare, copy, now_s, remove};
use crate::TaskError;
use crate::native::{Connection, NativeError};
use crate::node::{free_address, own_loopback_address};
use crate::peer::{self, Peer, PeerOptions, ProofProgram};
use crate::workspace;

/// Longest answer that is waited for; statements come one at a time.
const ANSWER_WAIT: Duration = Duration::from_secs(60);
/// The protocol's code for a statement that was understood and refused, such as a null in a collection.
const CODE_INVALID: i32 = 0x2200;
/// And for one that it failed at: 5.0.5 does on some nulls inside tuples.
const CODE_SERVER_ERROR: i32 = 0x0000;

/// Longer than the shortest TTL that is written.
const SHORT_LIFE_PASSES: Duration = Duration::from_secs(2);

/// Tables that are streamed are others than those that are written to.
const SEEDS_LOADED: u64 = 1 << 20;

/// The cache would go on from the count that a counter had before its row was deleted; what it does not know goes on from 0.
const PEER_SETTINGS: [&str; 1] = ["counter_cache_size: 0MiB"];

/// Partitions of a file that are counted in, beside new ones.
const COUNTED_PARTITIONS_MAX: usize = 6;
const COUNTED_ON_BOTH: usize = 120;

/// Everything that runs for one version.
struct Live {
    folder: PathBuf,
    format: SsTableFormat,
    cassandra: Peer,
    connection: Connection,
    jmx_port: u16,
    node: TestNode,
    loader: ProofProgram,
    dumper: ProofProgram,
    disk: Arc<dyn Disk>,
}

pub fn prove(format: SsTableFormat, seeds: &[u64], outcome: &mut Outcome) -> Result<(), TaskError> {
    let mut live = Live::start(format)?;
    let name = format.name();
    // Cassandra itself cannot write what it only reads.
    if format != SsTableFormat::Me {
        let cases: Vec<Case> = seeds.iter().map(|&seed| live_case(seed, format)).collect();
        live.create(&cases)?;
        let mut progress = Progress::new(format!("{name} from Cassandra"), cases.len());
        live.prove_foreign(&cases, outcome, &mut progress)?;
        live.execute("DROP KEYSPACE interchange")?;
        live.execute(CREATE_KEYSPACE)?;
    }
    // As many as were asked for, from as many seeds as that takes.
    let first_seed = seeds.first().copied().unwrap_or_default() + SEEDS_LOADED;
    let cases: Vec<Case> = (first_seed..)
        .map(|seed| live_case(seed, format))
        .filter(is_loadable)
        .take(seeds.len())
        .collect();
    live.create(&cases)?;
    let mut progress = Progress::new(format!("{name} streamed into Cassandra"), cases.len());
    let failed_before = outcome.failed();
    for (index, case) in cases.iter().enumerate() {
        let result = live.prove_loaded(case)?;
        outcome.note(Proof::Loaded, format, case, &result);
        progress.show(index + 1, outcome.failed() - failed_before);
    }
    Ok(())
}

/// The driver that `sstableloader` brings knows no vectors, and then no table of the keyspace.
fn is_loadable(case: &Case) -> bool {
    !schema_statements(&case.table_now)
        .iter()
        .any(|statement| statement.contains("vector<"))
}

/// Without kinds that only cost time over a connection.
fn live_case(seed: u64, format: SsTableFormat) -> Case {
    let name = format!("live{seed}");
    let case = Case::new(seed, &name, format::era(format));
    match case.kind {
        CaseKind::Many | CaseKind::Huge | CaseKind::Dropped => {
            Case::of_kind(seed, CaseKind::Small, &name, format::era(format))
        }
        _ => case,
    }
}

impl Live {
    fn start(format: SsTableFormat) -> Result<Live, TaskError> {
        let folder = workspace::scratch("interchange").join(format!("live-{}", format.name()));
        remove(&folder)?;
        let settings = format::settings(format);
        let jmx_port = free_address()?.port();
        let cassandra = Peer::start(PeerOptions {
            home: folder.clone(),
            address: IpAddr::V4(own_loopback_address()),
            port: 9042,
            jmx_port,
            heap: "1g".to_owned(),
            fresh: true,
            settings: settings
                .iter()
                .chain(&PEER_SETTINGS)
                .map(|line| (*line).to_owned())
                .collect(),
        })?;
        let connection = Connection::open(cassandra.address(), ANSWER_WAIT)?;
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
        let mut options = helenus_test_node::options(2, Arc::clone(&disk), Arc::new(SystemClock::new()));
        options.data_folder = folder.join("helenus");
        let node = TestNode::start(options).map_err(|error| TaskError::Interchange {
            reason: error.to_string(),
        })?;
        let mut live = Live {
            loader: ProofProgram::start(&folder.join("loader"), &[], "loader")?,
            dumper: ProofProgram::start(&folder.join("dumper"), settings, "tools")?,
            folder,
            format,
            cassandra,
            connection,
            jmx_port,
            node,
            disk,
        };
        live.execute(CREATE_KEYSPACE)?;
        Ok(live)
    }

    /// On both nodes.
    fn execute(&mut self, statement: &str) -> Result<(), TaskError> {
        self.connection.query(statement)?;
        match self.node.execute(statement) {
            Answer::Error { message, .. } => Err(TaskError::Interchange {
                reason: format!("{statement}: {message}"),
            }),
            _ => Ok(()),
        }
    }

    fn create(&mut self, cases: &[Case]) -> Result<(), TaskError> {
        for case in cases {
            for statement in schema_statements(&case.table_now) {
                self.execute(&statement)?;
            }
        }
        Ok(())
    }

    /// Random writes, flushed in two halves and then compacted.
    fn prove_foreign(
        &mut self,
        cases: &[Case],
        outcome: &mut Outcome,
        progress: &mut Progress,
    ) -> Result<(), TaskError> {
        let mut results: Vec<Result<(), String>> = cases.iter().map(|_| Ok(())).collect();
        let chances: Vec<Chance> = cases.iter().map(|case| Chance::new(case.seed)).collect();
        let writes: Vec<RandomWrites<'_>> = cases
            .iter()
            .zip(&chances)
            .map(|(case, chance)| writes(case, chance))
            .collect();
        for action in ["flush", "flush", "compact"] {
            for writes in writes.iter().filter(|_| action == "flush") {
                self.write_some(writes)?;
            }
            self.nodetool(action)?;
            // What lives a second is to be gone for both who look at it.
            std::thread::sleep(SHORT_LIFE_PASSES);
            for ((case, writes), result) in cases.iter().zip(&writes).zip(&mut results) {
                if result.is_ok() {
                    *result = self
                        .compare_foreign(case, writes)
                        .map_err(|reason| format!("{action}: {reason}"));
                }
            }
        }
        for (index, (case, result)) in cases.iter().zip(&results).enumerate() {
            outcome.note(Proof::Foreign, self.format, case, result);
            progress.show(index + 1, outcome.failed());
        }
        Ok(())
    }

    fn write_some(&mut self, writes: &RandomWrites<'_>) -> Result<(), TaskError> {
        for _ in 0..120 {
            let BoundStatement { text, values } = writes.statement();
            match self.connection.query_with(&text, &values) {
                Ok(_)
                | Err(NativeError::Server {
                    code: CODE_INVALID | CODE_SERVER_ERROR,
                    ..
                }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn nodetool(&self, action: &str) -> Result<(), TaskError> {
        let words = [
            "-h",
            "127.0.0.1",
            "-p",
            &self.jmx_port.to_string(),
            action,
            "interchange",
        ];
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        Ok(peer::run_tool(&self.folder, "nodetool", &words)?)
    }

    /// Compares what Cassandra has on disk now: each file through `sstabledump` and through us, and all of them served.
    fn compare_foreign(&mut self, case: &Case, writes: &RandomWrites<'_>) -> Result<(), String> {
        let table = &case.table_now.metadata;
        let live = table_folder(&self.cassandra.folder().join("data"), table);
        let copied = self
            .folder
            .join("copied")
            .join("interchange")
            .join(table_folder_name(&live));
        copy(&live, &copied).map_err(|error| error.to_string())?;
        let sstables = finished_sstables(&*self.disk, &copied).map_err(|error| error.to_string())?;
        for descriptor in sstables {
            // sstabledump removes a summary that was not sampled as by default.
            let dumped_folder = self.folder.join("dumped");
            copy(&copied, &dumped_folder).map_err(|error| error.to_string())?;
            let data_file = descriptor.path(&dumped_folder, Component::Data);
            let json = self.folder.join("dump.json");
            let words = ["dump", &data_file.to_string_lossy(), &json.to_string_lossy()];
            self.dumper.run(&words).map_err(|error| error.to_string())??;
            let sstable =
                SsTable::open(&*self.disk, &copied, descriptor, table).map_err(|error| error.to_string())?;
            let partitions = scan(&sstable, false).map_err(|error| error.to_string())?;
            compare(&dump(table, &partitions, now_s()), &json, "sstabledump")?;
        }
        self.import(&copied)?;
        self.compare_answers(table, writes.partition_keys())
    }

    /// The case's file through `sstableloader`, and imported by Helenus.
    fn prove_loaded(&mut self, case: &Case) -> Result<Result<(), String>, TaskError> {
        let table = &case.table.metadata;
        // The name of the folder is how the loader tells files of a table.
        let load = table_folder(&self.folder.join("load"), table);
        remove(&load)?;
        let mut options = case.writer_options();
        options.format = self.format;
        let id = SsTableId::Number(1 << 20);
        let written = write(&self.disk, &load, id, table, &case.partitions, options);
        if let Err(error) = written {
            return Ok(Err(error.to_string()));
        }
        // Before the loader opens the file, and removes a summary that was sampled otherwise than by default.
        let copied = table_folder(&self.folder.join("copied"), table);
        copy(&load, &copied)?;
        let address = self.cassandra.address().ip().to_string();
        if let Err(fault) = self.loader.run(&["load", &address, &load.to_string_lossy()])? {
            return Ok(Err(fault));
        }
        if let Err(fault) = self.import(&copied) {
            return Ok(Err(fault));
        }
        let rows = self
            .connection
            .query(&format!("SELECT * FROM {}", qualified(table)))?;
        // What is stored expired long ago or in years.
        let wanted = answer(table, &case.partitions, now_s());
        if rows.len() != wanted.len() {
            return Ok(Err(format!(
                "Cassandra has {} rows of {} that were streamed to it",
                rows.len(),
                wanted.len()
            )));
        }
        if let Some(at) = rows
            .iter()
            .zip(&wanted)
            .position(|(found, wanted)| found != wanted)
        {
            return Ok(Err(format!(
                "row {at} that was streamed to Cassandra: wanted {:02x?}, found {:02x?}",
                wanted.get(at),
                rows.get(at)
            )));
        }
        let mut result = self.compare_answers(table, &[]);
        if result.is_ok() && table.is_counter() {
            result = self.count_on(case)?;
        }
        Ok(result)
    }

    /// Cassandra counts on what was streamed to it. Helenus takes its files over, and both count on from there.
    fn count_on(&mut self, case: &Case) -> Result<Result<(), String>, TaskError> {
        let table = &case.table.metadata;
        let chance = Chance::new(case.seed);
        let keys = case.partitions.iter().take(COUNTED_PARTITIONS_MAX);
        let keys = keys
            .map(|((_, key), _)| partition_key_components(key, usize::from(table.partition_key_count)))
            .map(|components| components.map(<[u8]>::to_vec).collect());
        let writes = RandomWrites::new(&chance, table, Era::SIGNED, keys.collect());
        self.write_some(&writes)?;
        // The file that was streamed lacks a list of its components; what a compaction writes has one.
        self.nodetool("flush")?;
        self.nodetool("compact")?;
        let live = table_folder(&self.cassandra.folder().join("data"), table);
        let name = table_folder_name(&live);
        let copied = self.folder.join("counted").join("interchange").join(name);
        copy(&live, &copied)?;
        if let Err(fault) = self.execute_here(&format!("TRUNCATE {}", qualified(table))) {
            return Ok(Err(fault));
        }
        if let Err(fault) = self
            .import(&copied)
            .and_then(|()| self.compare_answers(table, writes.partition_keys()))
        {
            return Ok(Err(format!("Cassandra has counted on: {fault}")));
        }
        for _ in 0..COUNTED_ON_BOTH {
            let BoundStatement { text, values } = writes.statement();
            self.connection.query_with(&text, &values)?;
            let execution = Execution {
                values: values.into_iter().map(Some).collect(),
                ..Execution::default()
            };
            if let Answer::Error { message, .. } = self.node.execute_with(&text, &execution) {
                return Ok(Err(format!("{text}: {message}")));
            }
        }
        let compared = self.compare_answers(table, writes.partition_keys());
        Ok(compared.map_err(|fault| format!("both have counted on: {fault}")))
    }

    fn execute_here(&self, statement: &str) -> Result<(), String> {
        match self.node.execute(statement) {
            Answer::Error { message, .. } => Err(format!("{statement}: {message}")),
            _ => Ok(()),
        }
    }

    fn import(&self, folder: &Path) -> Result<(), String> {
        let options = ImportOptions {
            folder: folder.to_path_buf(),
            choice: TableChoice::default(),
            schema_file: None,
            skip_bad: false,
            may_be_empty: false,
            transfer: Transfer::Copy,
            incumbents: Incumbents::Stay,
        };
        match import(&self.node.operator(), &options, &Silent) {
            Ok(_) => Ok(()),
            Err(error) => Err(format!("import: {error}")),
        }
    }

    /// The whole table, and a few partitions in both directions.
    fn compare_answers(&mut self, table: &TableMetadata, keys: &[Vec<Vec<u8>>]) -> Result<(), String> {
        let name = qualified(table);
        self.compare_answer(&format!("SELECT * FROM {name}"), &[])?;
        let columns = table.partition_key().iter();
        let restrictions: Vec<_> = columns
            .map(|column| format!("{} = ?", quoted_identifier(&column.name)))
            .collect();
        let of_partition = format!("SELECT * FROM {name} WHERE {}", restrictions.join(" AND "));
        for key in keys.iter().take(3) {
            self.compare_answer(&of_partition, key)?;
            if let Some(first) = table.clustering().first() {
                let against = match first.order {
                    ClusteringOrder::Ascending => "DESC",
                    ClusteringOrder::Descending => "ASC",
                };
                let reversed = format!(
                    "{of_partition} ORDER BY {} {against}",
                    quoted_identifier(&first.name)
                );
                self.compare_answer(&reversed, key)?;
            }
        }
        Ok(())
    }

    fn compare_answer(&mut self, statement: &str, values: &[Vec<u8>]) -> Result<(), String> {
        let wanted = self
            .connection
            .query_with(statement, values)
            .map_err(|error| format!("{statement}: {error}"))?;
        let execution = Execution {
            values: values.iter().cloned().map(Some).collect(),
            ..Execution::default()
        };
        match self.node.execute_with(statement, &execution) {
            Answer::Rows(found) if found.rows == wanted => Ok(()),
            Answer::Rows(found) => {
                let at = found
                    .rows
                    .iter()
                    .zip(&wanted)
                    .position(|(found, wanted)| found != wanted);
                let at = at.unwrap_or(found.rows.len().min(wanted.len()));
                Err(format!(
                    "{statement} {values:02x?}: Helenus has {} rows, Cassandra {}; row {at}: {:02x?} and {:02x?}",
                    found.rows.len(),
                    wanted.len(),
                    found.rows.get(at),
                    wanted.get(at)
                ))
            }
            other => Err(format!("{statement}: {other:?}")),
        }
    }
}

/// Writes to the case's table; to keys of equal token where the whole key is a blob.
fn writes<'a>(case: &'a Case, chance: &'a Chance) -> RandomWrites<'a> {
    let table = &case.table_now.metadata;
    let mut keys = Vec::new();
    if case.kind == CaseKind::Collisions {
        let token = Token(chance.bits().cast_signed());
        keys.extend((0..6).map(|_| vec![key_with_token(token, chance.bits()).to_vec()]));
    }
    RandomWrites::new(chance, table, Era::SIGNED, keys)
}

fn qualified(table: &TableMetadata) -> String {
    format!(
        "{}.{}",
        quoted_identifier(&table.keyspace),
        quoted_identifier(&table.name)
    )
}

fn table_folder_name(folder: &Path) -> String {
    folder
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}
