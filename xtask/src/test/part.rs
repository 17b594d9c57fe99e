//! The parts of the test command, in the order they run: cheap and telling ones first.

use super::{drivers, rust};
use crate::node::{Node, Target};
use crate::program::Tally;
use crate::runtime::Runtime;
use crate::{TaskError, crash, differential};

/// What all parts share.
pub struct Context {
    pub target: Target,
}

/// One named part of the test command.
pub struct Part {
    pub name: &'static str,
    pub about: &'static str,
    pub runtimes: &'static [Runtime],
    pub run: fn(&Context) -> Result<Tally, TaskError>,
}

pub const ALL: &[Part] = &[
    Part {
        name: "format",
        about: "rustfmt leaves nothing to change",
        runtimes: &[],
        run: rust::format,
    },
    Part {
        name: "lints",
        about: "clippy finds nothing",
        runtimes: &[],
        run: rust::lints,
    },
    Part {
        name: "unit",
        about: "cargo test of the workspace",
        runtimes: &[],
        run: rust::unit,
    },
    Part {
        name: "build",
        about: "release build",
        runtimes: &[],
        run: rust::build,
    },
    Part {
        name: "differential",
        about: "recorded statements get Cassandra's answers",
        runtimes: &[Runtime::Python],
        run: replay,
    },
    Part {
        name: "crash",
        about: "acknowledged writes survive SIGKILL",
        runtimes: &[],
        run: crash::short,
    },
    Part {
        name: "python",
        about: "DataStax Python driver",
        runtimes: &[Runtime::Python],
        run: drivers::python,
    },
    Part {
        name: "java",
        about: "Apache Cassandra Java driver 4",
        runtimes: &[Runtime::Java],
        run: drivers::java,
    },
    Part {
        name: "go",
        about: "gocql 2",
        runtimes: &[Runtime::Go],
        run: drivers::go,
    },
    Part {
        name: "node",
        about: "DataStax Node.js driver",
        runtimes: &[Runtime::Node],
        run: drivers::node,
    },
];

fn replay(context: &Context) -> Result<Tally, TaskError> {
    let mut node = Node::start(&context.target, "differential", &[])?;
    let tally = differential::replay(&mut node)?;
    node.stop()?;
    Ok(tally)
}
