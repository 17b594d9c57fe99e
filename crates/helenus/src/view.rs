//! `helenus view`: how far materialized views are built.

use std::process::ExitCode;
use std::time::Duration;

use clap::Subcommand;
use helenus_tools::control::{Answer, Request};
use helenus_tools::host::ViewBuild;
use helenus_tools::progress::{Progress, Silent, Unit};

use crate::operation::{NodeArguments, OperationError, TableArguments, perform};
use crate::snapshot::answer;
use crate::terminal::{Bar, fail};

/// Between two looks while views are built.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

#[derive(Subcommand)]
#[command(after_help = EXAMPLES)]
pub enum ViewCommand {
    /// Which views have all that their base tables make, and how far the others came.
    Status {
        /// Return when all of them are built.
        #[arg(long)]
        wait: bool,
        #[command(flatten)]
        views: TableArguments,
        #[command(flatten)]
        node: NodeArguments,
    },
}

const EXAMPLES: &str = "Examples:
  helenus view status
  helenus view status --table shop.carts_by_day --wait";

pub fn run(command: &ViewCommand) -> ExitCode {
    let ViewCommand::Status { wait, views, node } = command;
    let request = Request::ViewStatus {
        tables: views.choice(),
    };
    if *wait && let Err(error) = wait_built(node, &request) {
        return fail("view", &error);
    }
    answer("view", node, &request)
}

/// Views that are dropped meanwhile are not waited for.
fn wait_built(node: &NodeArguments, request: &Request) -> Result<(), OperationError> {
    let bar = Bar::new();
    let mut shown = 0;
    loop {
        let Answer::Views(views) = perform(&node.data, request, &Silent)? else {
            return Ok(());
        };
        if views.iter().all(|view| view.is_built) {
            return Ok(());
        }
        if shown != views.len() {
            shown = views.len();
            bar.begin("building views", Unit::PerMille, 1_000 * shown as u64);
        }
        bar.at(views.iter().map(|view| u64::from(view.per_mille)).sum());
        std::thread::sleep(LOOK_AGAIN);
    }
}

pub fn print_views(views: &[ViewBuild]) {
    if views.is_empty() {
        println!("none");
        return;
    }
    let lines = views.iter().map(|view| {
        let state = match view.is_built {
            true => "built".to_owned(),
            false => format!("building, {}.{}%", view.per_mille / 10, view.per_mille % 10),
        };
        [
            format!("{}.{}", view.keyspace, view.view),
            format!("{}.{}", view.keyspace, view.base),
            state,
        ]
    });
    let head = ["VIEW", "BASE TABLE", "STATE"].map(str::to_owned);
    let lines: Vec<[String; 3]> = std::iter::once(head).chain(lines).collect();
    let width = |column: usize| {
        let widths = lines.iter().map(|line| line[column].chars().count());
        widths.max().unwrap_or_default()
    };
    let (view_width, base_width) = (width(0), width(1));
    for [view, base, state] in &lines {
        println!("{view:view_width$}  {base:base_width$}  {state}");
    }
}
