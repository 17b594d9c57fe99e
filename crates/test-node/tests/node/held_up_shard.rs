//! A shard that does not answer, and the operator who asks it.

use std::sync::mpsc;
use std::time::Duration;

use helenus_test_node::TestNode;
use helenus_tools::control::{Request, execute};
use helenus_tools::host::TableChoice;
use helenus_tools::progress::Silent;

/// However long it is, the shard answers later.
const LOOK_TIME_MAX: Duration = Duration::from_millis(10);

/// Each request waited for ever and kept its place at the door; nobody was told why.
#[test]
fn a_request_to_a_shard_that_is_held_up_is_given_up() {
    let node = TestNode::with_shards(2);
    let (open, gate) = mpsc::channel::<()>();
    let held_up = node.prepare_behind(0, gate, "SELECT key FROM system.local");
    let flush = || Request::Flush {
        tables: TableChoice::default(),
    };
    let impatient = node.operator().with_look_time_max(LOOK_TIME_MAX);
    for request in [flush(), Request::CompactionStatus {}, Request::RefusedSsTables {}] {
        let error = execute(&impatient, &request, &Silent).err().unwrap().to_string();
        assert!(
            error.starts_with("shard 0 has not answered for 0 s, so the request was given up"),
            "{error}"
        );
    }
    open.send(()).unwrap();
    assert!(held_up.wait().is_some());
    // What was asked in vain does no harm.
    assert!(execute(&node.operator(), &Request::CompactionStatus {}, &Silent).is_ok());
}
