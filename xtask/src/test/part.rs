//! The parts of the test command, in the order they run: cheap and telling ones first.

use super::{drivers, grpcurl, interop, load, operator, refusal, rust, temporal, vector_stores};
use crate::node::{Node, Target};
use crate::program::Tally;
use crate::runtime::Runtime;
use crate::{
    TaskError, attack, compare, crash, differential, interchange, metamorphic, mutate_doors, mutate_frames,
    simulate, statements, tidy,
};

/// Context shared by all parts.
pub struct Context {
    pub target: Target,
}

/// One named part of the test command.
pub struct Part {
    pub name: &'static str,
    pub about: &'static str,
    pub runtimes: &'static [Runtime],
    /// Parts that must have ended, well or not: they build what this one runs, or hold the same lock of cargo.
    pub after: &'static [&'static str],
    /// Nothing runs beside it: it looks at how soon a node answers while others want its processor.
    pub is_alone: bool,
    pub run: fn(&Context) -> Result<Tally, TaskError>,
}

/// Predecessor of parts that run in the build that the unit tests have made.
const AFTER_UNIT: &[&str] = &["unit"];
/// Predecessor of parts that run the optimised build.
const AFTER_BUILD: &[&str] = &["build"];

pub const ALL: &[Part] = &[
    Part {
        name: "format",
        about: "rustfmt leaves nothing to change",
        runtimes: &[],
        after: &[],
        is_alone: false,
        run: rust::format,
    },
    Part {
        name: "lints",
        about: "clippy and rustdoc find nothing",
        runtimes: &[],
        after: &["format"],
        is_alone: false,
        run: rust::lints,
    },
    Part {
        name: "tidy",
        about: "the rules of STYLE.md that a program can look after are kept",
        runtimes: &[],
        after: &[],
        is_alone: false,
        run: |_| tidy::all(),
    },
    Part {
        name: "unit",
        about: "cargo test of the workspace",
        runtimes: &[],
        after: &["lints"],
        is_alone: false,
        run: rust::unit,
    },
    Part {
        name: "simulation",
        about: "a simulated node keeps its promises on a disk that fails",
        runtimes: &[],
        after: &["unit", "build"],
        is_alone: false,
        run: |_| simulate::short(),
    },
    Part {
        name: "statements",
        about: "random statements of every kind make a node neither panic nor hang",
        runtimes: &[],
        after: AFTER_UNIT,
        is_alone: false,
        run: |_| statements::short(),
    },
    Part {
        name: "build",
        about: "the optimised build that the parts below run",
        runtimes: &[],
        after: &["format"],
        is_alone: false,
        run: rust::build,
    },
    Part {
        name: "differential",
        about: "recorded statements get Cassandra's answers",
        runtimes: &[Runtime::Python],
        after: AFTER_BUILD,
        is_alone: false,
        run: replay,
    },
    Part {
        name: "metamorphic",
        about: "random histories have the same answers on nodes of many kinds",
        runtimes: &[],
        after: &["unit", "build"],
        is_alone: false,
        run: |_| metamorphic::short(),
    },
    Part {
        name: "sstable-tools",
        about: "Cassandra's tools read our SSTables",
        runtimes: &[Runtime::Java],
        after: AFTER_UNIT,
        is_alone: false,
        run: rust::sstable_tools,
    },
    Part {
        name: "interchange",
        about: "SSTables of random tables go to Cassandra and come from it",
        runtimes: &[Runtime::Java],
        after: AFTER_BUILD,
        is_alone: false,
        run: |_| interchange::short(),
    },
    Part {
        name: "operator",
        about: "the operator's commands on files and on a running node",
        runtimes: &[],
        after: AFTER_BUILD,
        is_alone: false,
        run: operator::run,
    },
    Part {
        name: "load",
        about: "`helenus bench` loads a node and says so in JSON",
        runtimes: &[],
        after: AFTER_BUILD,
        is_alone: false,
        run: load::run,
    },
    Part {
        name: "mutations",
        about: "damaged messages do a live node no harm",
        runtimes: &[],
        after: AFTER_BUILD,
        is_alone: false,
        run: |_| mutate_frames::short(),
    },
    Part {
        name: "door-mutations",
        about: "damaged frames of HTTP/2 and gRPC do a live node no harm (2 s)",
        runtimes: &[],
        after: AFTER_BUILD,
        is_alone: false,
        run: |_| mutate_doors::short(),
    },
    Part {
        name: "refusal",
        about: "a refusal costs a fraction of a served write, counted in instructions",
        runtimes: &[],
        after: AFTER_BUILD,
        is_alone: false,
        run: refusal::run,
    },
    Part {
        name: "crash",
        about: "acknowledged writes survive SIGKILL",
        runtimes: &[],
        after: AFTER_BUILD,
        is_alone: false,
        run: crash::short,
    },
    driver(
        "python",
        "DataStax Python driver",
        &[Runtime::Python],
        drivers::python,
    ),
    driver(
        "scylla-python",
        "ScyllaDB Python driver",
        &[Runtime::Python],
        drivers::scylla_python,
    ),
    driver("java", "Java driver 4", &[Runtime::Java], drivers::java),
    driver("go", "gocql", &[Runtime::Go], drivers::go),
    driver("node", "Node.js driver", &[Runtime::Node], drivers::node),
    driver(
        "console",
        "the console in Chromium",
        &[Runtime::Node],
        drivers::console,
    ),
    driver(
        "arrow",
        "pyarrow reads what the HTTP door streams",
        &[Runtime::Python],
        drivers::arrow,
    ),
    driver(
        "grpcurl",
        "grpcurl at the gRPC door (1 s)",
        &[Runtime::Go],
        grpcurl::run,
    ),
    driver(
        "grpc-interop",
        "grpc-go's interop client at the gRPC door (1 s)",
        &[Runtime::Go],
        interop::go,
    ),
    driver(
        "grpc-java",
        "grpc-java's interop tests at the gRPC door (5 s)",
        &[Runtime::Java],
        interop::java,
    ),
    driver(
        "stargate-node",
        "Stargate's gRPC client for Node.js",
        &[Runtime::Node],
        drivers::stargate_node,
    ),
    driver(
        "stargate-go",
        "Stargate's gRPC client for Go (1 s)",
        &[Runtime::Go],
        drivers::stargate_go,
    ),
    driver(
        "stargate-java",
        "Stargate's gRPC client for Java (5 s)",
        &[Runtime::Java],
        drivers::stargate_java,
    ),
    driver(
        "stargate-rust",
        "Stargate's gRPC client for Rust (1 s)",
        &[],
        drivers::stargate_rust,
    ),
    driver("rust", "ScyllaDB Rust driver", &[], drivers::rust),
    driver(
        "cqlsh",
        "cqlsh, its commands and COPY",
        &[Runtime::Python],
        drivers::cqlsh,
    ),
    driver(
        "temporal",
        "Temporal's schema, and its tests of its Cassandra persistence",
        &[Runtime::Go],
        temporal::run,
    ),
    driver(
        "vector-stores",
        "LangChain's and LlamaIndex's vector stores for Cassandra (40 s)",
        &[Runtime::Python],
        vector_stores::run,
    ),
    Part {
        name: "replacements",
        about: "drivers of three languages and grpc-go notice nothing of `helenus serve --replace` (40 s)",
        runtimes: &[Runtime::Python, Runtime::Node, Runtime::Go],
        after: AFTER_BUILD,
        is_alone: false,
        run: |context| compare::restarts::replacements::short(&context.target),
    },
    Part {
        name: "attack",
        about: "hostile clients do no harm to a polite one, nor to the node",
        runtimes: &[],
        after: AFTER_BUILD,
        is_alone: true,
        run: |_| attack::short(),
    },
];

const fn driver(
    name: &'static str,
    about: &'static str,
    runtimes: &'static [Runtime],
    run: fn(&Context) -> Result<Tally, TaskError>,
) -> Part {
    Part {
        name,
        about,
        runtimes,
        after: AFTER_BUILD,
        is_alone: false,
        run,
    }
}

fn replay(context: &Context) -> Result<Tally, TaskError> {
    let mut node = Node::start(&context.target, "differential", &[])?;
    let tally = differential::replay(&mut node)?;
    node.stop()?;
    Ok(tally)
}
