//! Snapshots and imports on a node that runs: what they keep, and that all of a table comes back or none.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use helenus_sstable::Component;
use helenus_storage::store::Transfer;
use helenus_test_node::{TestNode, options};
use helenus_tools::control::{Answer, Request, execute};
use helenus_tools::host::{Host, Incumbents, TableChoice};
use helenus_tools::import::{ImportError, ImportOptions, SchemaSource, import};
use helenus_tools::progress::Silent;
use helenus_tools::snapshot::{self, SnapshotError};
use helenus_tools::stopped_node::StoppedNode;
use helenus_vfs::{Disk, ManualClock, MemoryDisk, SystemClock};

const KEYSPACE: &str =
    "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";

struct Bench {
    disk: Arc<MemoryDisk>,
    node: TestNode,
}

impl Bench {
    fn new(shard_count: u16) -> Bench {
        let disk = Arc::new(MemoryDisk::new());
        let node = TestNode::start(options(
            shard_count,
            Arc::clone(&disk) as Arc<dyn Disk>,
            Arc::new(SystemClock::new()),
        ))
        .unwrap();
        node.run(KEYSPACE);
        Bench { disk, node }
    }

    fn with_table(shard_count: u16) -> Bench {
        let bench = Bench::new(shard_count);
        bench
            .node
            .run("CREATE TABLE k.t (p int, c int, v text, gone int, PRIMARY KEY (p, c))");
        bench.insert(0..30);
        bench
    }

    fn insert(&self, keys: std::ops::Range<i32>) {
        for key in keys {
            self.node
                .run(&format!("INSERT INTO k.t (p, c, v) VALUES ({key}, 1, 'v{key}')"));
        }
    }

    fn count(&self) -> usize {
        self.node.rows("SELECT p FROM k.t").len()
    }

    fn create(&self, name: &str) -> Result<Vec<snapshot::Created>, SnapshotError> {
        snapshot::create(&self.node.operator(), &tables(), name, None, &Silent)
    }

    fn restore(&self, name: &str, incumbents: Incumbents) {
        let restored =
            snapshot::restore(&self.node.operator(), &tables(), name, incumbents, &Silent).unwrap();
        assert_eq!(restored.len(), 1);
    }

    fn list(&self) -> Vec<snapshot::SnapshotInfo> {
        let data = self.node.operator().data_folder().unwrap();
        snapshot::list(&*self.disk, &data.data_folder(), &TableChoice::default(), None).unwrap()
    }
}

/// Rows that a statement took can be brought back, and Cassandra's names say which it was.
#[test]
fn truncate_and_drop_leave_snapshots_of_what_they_take() {
    let disk = Arc::new(MemoryDisk::new());
    let mut options = options(
        2,
        Arc::clone(&disk) as Arc<dyn Disk>,
        Arc::new(SystemClock::new()),
    );
    options.auto_snapshot = true;
    let node = TestNode::start(options).unwrap();
    node.run(KEYSPACE);
    node.run("CREATE TABLE k.t (p int, c int, v text, gone int, PRIMARY KEY (p, c))");
    let mut bench = Bench { disk, node };
    bench.node.run("TRUNCATE k.t");
    assert!(bench.list().is_empty(), "there was nothing to keep");

    bench.insert(0..30);
    bench.node.run("TRUNCATE k.t");
    assert_eq!(bench.count(), 0);
    let truncated = bench.list().remove(0);
    let middle = truncated
        .name
        .strip_prefix("truncated-")
        .and_then(|rest| rest.strip_suffix("-t"));
    assert!(
        middle.is_some_and(|ms| ms.parse::<u64>().is_ok()),
        "{}",
        truncated.name
    );
    bench.restore(&truncated.name, Incumbents::Stay);
    assert_eq!(bench.count(), 30);

    bench.node.run("DROP TABLE k.t");
    let names: Vec<String> = bench.list().into_iter().map(|info| info.name).collect();
    let dropped = names
        .iter()
        .find(|name| name.starts_with("dropped-") && name.ends_with("-t"));
    let dropped = dropped.unwrap_or_else(|| panic!("{names:?}")).clone();
    bench.node.restart().unwrap();
    bench.restore(&dropped, Incumbents::Stay);
    assert_eq!(bench.count(), 30, "also the table is back");

    bench.node.run("DROP KEYSPACE k");
    assert_eq!(bench.list().len(), 3);
}

fn tables() -> TableChoice {
    TableChoice::of(Some("k"), Some("t"))
}

#[test]
fn a_snapshot_brings_back_what_a_truncation_took() {
    for shard_count in [1, 3] {
        let mut bench = Bench::with_table(shard_count);
        let created = bench.create("before").unwrap();
        assert_eq!(created[0].sstables, u64::from(shard_count));
        assert!(matches!(
            bench.create("before"),
            Err(SnapshotError::Exists { .. })
        ));
        assert_eq!(bench.list()[0].true_bytes, 0, "links cost nothing");

        bench.node.run("TRUNCATE k.t");
        assert_eq!(bench.count(), 0);
        let listed = bench.list();
        assert_eq!(
            listed[0].true_bytes, listed[0].bytes,
            "only the snapshot has the files now"
        );

        bench.insert(100..105);
        bench.restore("before", Incumbents::Stay);
        assert_eq!(bench.count(), 35, "merged");
        bench.restore("before", Incumbents::Go);
        assert_eq!(bench.count(), 30, "replaced");
        bench.node.restart().unwrap();
        assert_eq!(bench.count(), 30);

        let removed = snapshot::remove(&bench.node.operator(), &tables(), "before").unwrap();
        assert_eq!(removed.len(), 1);
        assert!(bench.list().is_empty());
        assert_eq!(bench.count(), 30, "the table keeps what it was given");
    }
}

#[test]
fn a_dropped_table_is_made_again_as_it_was() {
    let mut bench = Bench::with_table(2);
    bench.node.run("ALTER TABLE k.t DROP gone");
    bench.create("kept").unwrap();
    let id = bench.list()[0].table_id.clone();
    bench.node.run("DROP TABLE k.t");
    bench.restore("kept", Incumbents::Stay);
    assert_eq!(bench.count(), 30);
    let schema = bench.node.operator().schema().unwrap();
    let table = schema.table("k", "t").unwrap();
    assert_eq!(table.id.0.simple().to_string(), id);
    assert_eq!(table.dropped_columns.len(), 1);
    bench.node.restart().unwrap();
    assert_eq!(bench.count(), 30);
}

#[test]
fn names_that_leave_the_folder_are_refused() {
    let bench = Bench::with_table(1);
    for name in ["", ".", "..", "../x", "a/b"] {
        assert!(
            matches!(bench.create(name), Err(SnapshotError::BadName { .. })),
            "{name:?}"
        );
    }
}

/// The files that Cassandra flushed, copied to the disk of the node.
fn fixture(disk: &MemoryDisk, name: &str, to: &Path) {
    let from = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../sstable/tests/sstable/fixtures")
        .join(name);
    disk.create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let file = disk.create(&to.join(entry.file_name())).unwrap();
        file.append(&std::fs::read(entry.path()).unwrap()).unwrap();
    }
}

fn import_options(folder: PathBuf) -> ImportOptions {
    ImportOptions {
        folder,
        choice: TableChoice::default(),
        schema_file: None,
        skip_bad: false,
        may_be_empty: false,
        transfer: Transfer::Link,
        incumbents: Incumbents::Stay,
    }
}

#[test]
fn a_folder_that_cassandra_flushed_is_adopted_by_its_statistics() {
    for shard_count in [1, 4] {
        let mut bench = Bench::new(shard_count);
        let folder = PathBuf::from("/elsewhere/adopted/types");
        fixture(&bench.disk, "types", &folder);
        let imported = import(&bench.node.operator(), &import_options(folder.clone()), &Silent).unwrap();
        assert_eq!((&*imported.keyspace, &*imported.table), ("adopted", "types"));
        assert_eq!(imported.schema, SchemaSource::Statistics);
        assert!(imported.refused.is_empty());
        let rows = || bench_rows(&bench.node);
        let before = rows();
        assert!(before > 0);
        bench.node.restart().unwrap();
        assert_eq!(bench_rows(&bench.node), before);
    }
}

fn bench_rows(node: &TestNode) -> usize {
    node.rows("SELECT * FROM adopted.types").len()
}

#[test]
fn a_bad_file_stops_an_import_unless_it_may_be_skipped() {
    let bench = Bench::new(2);
    let folder = PathBuf::from("/elsewhere/adopted/types");
    fixture(&bench.disk, "types", &folder);
    for (from, to) in [("nb-1-big-", "nb-2-big-"), ("nb-1-big-", "lb-3-big-")] {
        for entry in bench.disk.list(&folder).unwrap() {
            if let Some(component) = entry.name.strip_prefix(from) {
                bench
                    .disk
                    .hard_link(
                        &folder.join(&entry.name),
                        &folder.join(format!("{to}{component}")),
                    )
                    .unwrap();
            }
        }
    }
    bench.disk.remove(&folder.join("nb-2-big-Index.db")).unwrap();
    let mut options = import_options(folder);
    let error = import(&bench.node.operator(), &options, &Silent).unwrap_err();
    let ImportError::Bad { count: 2, first } = &error else {
        panic!("{error}")
    };
    assert!(first.contains("lb-3-big-Data.db"), "{first}");
    let schema = bench.node.operator().schema().unwrap();
    assert!(
        schema.keyspace("adopted").is_none(),
        "none was taken, and nothing is left"
    );
    options.skip_bad = true;
    let imported = import(&bench.node.operator(), &options, &Silent).unwrap();
    assert_eq!((imported.sstables, imported.refused.len()), (1, 2));
    assert!(
        imported.refused[1].reason.contains("Index.db is missing"),
        "{imported:?}"
    );
    assert!(bench_rows(&bench.node) > 0);
}

#[test]
fn a_table_is_served_without_a_file_that_is_refused() {
    let mut bench = Bench::with_table(1);
    bench.node.operator().flush(None).unwrap();
    bench.insert(100..110);
    bench.node.operator().flush(None).unwrap();
    let host = bench.node.operator();
    let schema = host.schema().unwrap();
    let table = schema.table("k", "t").unwrap();
    let newest = *host.sstables(table).unwrap().iter().max().unwrap();
    let folder = host.data_folder().unwrap().table_folder(table);
    let statistics = newest.path(&folder, Component::Statistics);
    drop(host);
    bench.node.crash();
    let file = bench.disk.open_writable(&statistics).unwrap();
    file.set_length(5).unwrap();
    bench.node.start_again().unwrap();

    assert_eq!(bench.count(), 30, "the other file's rows");
    bench.insert(200..203);
    assert_eq!(bench.count(), 33);
    let answer = execute(&bench.node.operator(), &Request::RefusedSsTables {}, &Silent).unwrap();
    let Answer::RefusedSsTables(refused) = answer else {
        panic!("{answer:?}");
    };
    assert_eq!(refused.len(), 1);
    let name = statistics.display().to_string();
    assert!(refused[0].reason.contains(&name), "{refused:?}");
    assert!(bench.disk.exists(&statistics).unwrap(), "what is refused stays");
}

/// Writes of the log came back into a table that had been replaced while no node ran.
#[test]
fn a_stopped_nodes_table_is_not_replaced_under_its_log() {
    let mut bench = Bench::with_table(1);
    bench.create("before").unwrap();
    bench.insert(100..105);
    let folder = bench.node.data_folder().to_path_buf();
    bench.node.crash();
    let stopped = StoppedNode::open(
        Arc::clone(&bench.disk) as Arc<dyn Disk>,
        Arc::new(SystemClock::new()),
        &folder,
    )
    .unwrap();
    let error = snapshot::restore(&stopped, &tables(), "before", Incumbents::Go, &Silent).unwrap_err();
    assert!(error.to_string().contains("commit log"), "{error}");
    drop(stopped);
    bench.node.start_again().unwrap();
    assert_eq!(bench.count(), 35, "nothing was changed");
    bench.restore("before", Incumbents::Go);
    assert_eq!(bench.count(), 30);
}

/// A backup is what somebody sent: `ALTER TABLE prod.users DROP balance;` in front of its own table took the column.
#[test]
fn a_backups_schema_changes_nothing_but_its_own_table() {
    let bench = Bench::with_table(1);
    let folder = PathBuf::from("/elsewhere/adopted/types");
    fixture(&bench.disk, "types", &folder);
    let own = "CREATE TABLE adopted.types (id int PRIMARY KEY, v text)";
    for foreign in [
        "ALTER TABLE k.t DROP v",
        "CREATE TABLE k.other (p int PRIMARY KEY)",
        "CREATE TYPE k.u (f int)",
        "CREATE TABLE adopted.other (p int PRIMARY KEY)",
    ] {
        let text = format!("{foreign};\n{own};\n");
        let path = folder.join("schema.cql");
        if bench.disk.exists(&path).unwrap() {
            bench.disk.remove(&path).unwrap();
        }
        bench.disk.create(&path).unwrap().append(text.as_bytes()).unwrap();
        let error = import(&bench.node.operator(), &import_options(folder.clone()), &Silent).unwrap_err();
        assert!(
            matches!(&error, ImportError::ForeignStatement { .. }),
            "{foreign}: {error}"
        );
        let schema = bench.node.operator().schema().unwrap();
        assert!(schema.keyspace("adopted").is_none(), "{foreign}");
        assert_eq!(bench.count(), 30);
        assert_eq!(bench.node.rows("SELECT v FROM k.t").len(), 30);
    }
}

/// As `nodetool snapshot --ttl`: the manifest says when the snapshot may go.
#[test]
fn a_snapshot_with_a_ttl_goes_when_its_time_is_over() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let clock = Arc::new(ManualClock::starting_at(1_000_000_000_000_000));
    let node = TestNode::start(options(1, Arc::clone(&disk), clock.clone())).unwrap();
    node.run(KEYSPACE);
    node.run("CREATE TABLE k.t (p int PRIMARY KEY)");
    node.run("INSERT INTO k.t (p) VALUES (1)");
    let host = node.operator();
    let create = |name: &str, ttl_s| snapshot::create(&host, &tables(), name, ttl_s, &Silent);
    assert!(matches!(
        create("short", Some(59)),
        Err(SnapshotError::ShortTtl { ttl_s: 59 })
    ));
    create("passing", Some(3_600)).unwrap();
    create("lasting", None).unwrap();
    let data = host.data_folder().unwrap();
    let names = || {
        let found = snapshot::list(&*disk, &data.data_folder(), &tables(), None).unwrap();
        found
            .into_iter()
            .map(|found| (found.name, found.expires_at))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        names(),
        [
            ("lasting".to_owned(), None),
            ("passing".to_owned(), Some("2001-09-09T02:46:40Z".to_owned()))
        ]
    );
    clock.advance_s(3_599);
    assert_eq!(snapshot::remove_expired(&data).unwrap(), []);
    clock.advance_s(1);
    let gone = snapshot::remove_expired(&data).unwrap();
    assert_eq!(gone.len(), 1);
    assert_eq!(names(), [("lasting".to_owned(), None)]);
}
