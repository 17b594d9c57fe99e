//! Statements that change files do so on threads of their own: a shard that waited for the disk would keep all its clients waiting.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use helenus_node::handle::ClientOptions;
use helenus_node::{Authenticator, Node, NodeOptions, block_on};
use helenus_test_node::{HookedDisk, TestNode, options};
use helenus_tools::host::Host;
use helenus_vfs::{Disk, Operation, SimulatedDisk, SystemClock};

/// Disk calls of the shards' threads while somebody watches.
#[derive(Clone, Default)]
struct Watched {
    is_watching: Arc<AtomicBool>,
    calls: Arc<Mutex<Vec<String>>>,
}

struct Bench {
    node: TestNode,
    watched: Watched,
}

impl Watched {
    /// Returns the options of a node of two shards.
    fn options(&self) -> NodeOptions {
        let watched = self.clone();
        let hook = move |operation: Operation, path: &Path| {
            let thread = thread::current();
            let of_shard = thread.name().filter(|name| name.starts_with("shard-"));
            if let (Some(name), true) = (of_shard, watched.is_watching.load(Ordering::SeqCst)) {
                let call = format!("{name}: {operation:?} {}", path.display());
                watched.calls.lock().unwrap().push(call);
            }
            Ok(())
        };
        let disk: Arc<dyn Disk> = Arc::new(SimulatedDisk::new(1));
        let hooked = HookedDisk::new(disk, hook).telling_looks();
        options(2, Arc::new(hooked), Arc::new(SystemClock::new()))
    }

    fn calls_of(&self, work: impl FnOnce()) -> Vec<String> {
        self.is_watching.store(true, Ordering::SeqCst);
        work();
        self.is_watching.store(false, Ordering::SeqCst);
        std::mem::take(&mut self.calls.lock().unwrap())
    }
}

impl Bench {
    fn new(auto_snapshot: bool) -> Bench {
        let watched = Watched::default();
        let options = NodeOptions {
            auto_snapshot,
            ..watched.options()
        };
        let node = TestNode::start(options).unwrap();
        node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
        Bench { node, watched }
    }

    fn calls_of(&self, statement: &str) -> Vec<String> {
        self.watched.calls_of(|| self.node.run(statement))
    }

    fn fill(&self) {
        for key in 0..40 {
            self.node
                .run(&format!("INSERT INTO k.t (p, v) VALUES ({key}, 'v')"));
        }
        self.node.operator().flush(None).unwrap();
        for key in 20..60 {
            self.node
                .run(&format!("INSERT INTO k.t (p, v) VALUES ({key}, 'w')"));
        }
    }
}

#[test]
fn truncate_and_drop_ask_nothing_of_the_disk_on_the_shards_threads() {
    for auto_snapshot in [false, true] {
        let bench = Bench::new(auto_snapshot);
        let none: [String; 0] = [];
        assert_eq!(
            bench.calls_of("CREATE TABLE k.t (p int PRIMARY KEY, v text)"),
            none
        );
        bench.fill();
        assert_eq!(bench.calls_of("TRUNCATE k.t"), none);
        assert!(bench.node.rows("SELECT p FROM k.t").is_empty());
        bench.fill();
        assert_eq!(bench.calls_of("CREATE INDEX by_value ON k.t (v)"), none);
        assert_eq!(bench.calls_of("TRUNCATE k.t"), none);
        bench.fill();
        assert_eq!(bench.calls_of("ALTER TABLE k.t ADD w int"), none);
        assert_eq!(bench.calls_of("DROP TABLE k.t"), none);
        assert_eq!(bench.calls_of("DROP KEYSPACE k"), none);
    }
}

/// The default role is made when somebody first logs in, and its mark is made durable.
#[test]
fn the_first_login_asks_nothing_of_the_disk_on_the_shards_threads() {
    let watched = Watched::default();
    let options = NodeOptions {
        authenticator: Authenticator::Password,
        ..watched.options()
    };
    let node = Node::start(options, Arc::new(|_| {})).unwrap();
    let client = node.handle().client(&ClientOptions::default());
    let none: [String; 0] = [];
    let calls = watched.calls_of(|| block_on(client.log_in("cassandra", "cassandra")).unwrap());
    assert_eq!(calls, none);
    node.stop();
}

#[test]
fn a_call_on_a_shards_thread_is_noticed() {
    let bench = Bench::new(false);
    let disk = bench.node.on_shard(0, |shard| {
        let store = shard.store.borrow();
        store.data_folder().map(|folder| folder.disk().clone())
    });
    let disk = disk.unwrap();
    let look = || bench.node.on_shard(1, move |_| drop(disk.exists(Path::new("/"))));
    assert_eq!(bench.watched.calls_of(look), ["shard-1: Open /"]);
}
