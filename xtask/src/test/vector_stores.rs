//! Clients that others wrote: the vector stores of LangChain and LlamaIndex, as their documentation uses them.

use std::process::Command;

use super::Context;
use crate::node::Node;
use crate::program::{self, Tally};
use crate::{TaskError, runtime, workspace};

const PROGRAMS: [(&str, &str); 2] = [
    ("langchain", "langchain_test.py"),
    ("llama-index", "llama_index_test.py"),
];

pub fn run(context: &Context) -> Result<Tally, TaskError> {
    let folder = workspace::path("tests/applications/vector-stores");
    let bin = runtime::python_environment("vector-stores", &folder.join("requirements.txt"))?;
    let mut node = Node::start(&context.target, "vector-stores", &[])?;
    let mut tally = Tally::default();
    for (name, file) in PROGRAMS {
        let mut command = Command::new(bin.join("python"));
        // LangChain and what it stands on may send traces of what they did, where they are told to.
        command
            .arg("-u")
            .arg(folder.join(file))
            .env("LANGSMITH_TRACING", "false")
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .current_dir(workspace::root());
        tally.add(&program::run(name, command, &mut node, &program::log_path(name))?);
    }
    tally.check("vector-stores: the server stops cleanly", node.stop());
    Ok(tally)
}
