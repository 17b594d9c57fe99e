//! `cargo xtask compare goodput disturbed`: a stop of the server, a burst, a minute to which nothing happens; and who has to live with
//! whom.

use std::fmt::Write as _;

use helenus_loadgen::goodput;

use super::server::{Clients, FOLDER, ServerArguments, store, stored, write_picture};
use crate::TaskError;
use crate::compare::{files, programs};

#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    server: ServerArguments,
    /// To which something happens, as of `helenus bench goodput`
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "point-read,point-write,slice,partition-in,count"
    )]
    workload: Vec<String>,
    /// Workload of the greedy clients
    #[arg(long, default_value = "slice")]
    greedy_workload: String,
    /// How often something happens
    #[arg(long, default_value_t = 5)]
    looks: u32,
    /// Seconds to which nothing happens
    #[arg(long, default_value_t = 60)]
    steady: u32,
    /// Seconds of each load of a mix
    #[arg(long, default_value_t = 4)]
    seconds: u32,
    /// Rounds in which the loads of a mix take turns
    #[arg(long, default_value_t = 4)]
    rounds: u32,
    /// Measure only this
    #[arg(long, value_enum)]
    only: Option<Half>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Half {
    /// Disturbances of the server
    Disturbances,
    /// Clients that have to live with each other
    Mixes,
}

const NAME: &str = "disturbed";

pub fn run(arguments: &Arguments) -> Result<(), TaskError> {
    if !arguments.server.draw {
        programs::build()?;
        for clients in &arguments.server.clients {
            if arguments.only != Some(Half::Mixes) {
                disturb(arguments, *clients)?;
            }
            if arguments.only != Some(Half::Disturbances) {
                mix(arguments, *clients)?;
            }
        }
    }
    draw()
}

fn report(clients: Clients) -> String {
    format!("{NAME}-{}", clients.name())
}

fn disturb(arguments: &Arguments, clients: Clients) -> Result<(), TaskError> {
    let node = arguments.server.start(&["--shards", "1"])?;
    let generator = [
        "--workload",
        &arguments.workload.join(","),
        "--disturb",
        "stall,burst,steady",
        "--looks",
        &arguments.looks.to_string(),
        "--steady",
        &format!("{}s", arguments.steady),
    ]
    .map(str::to_owned);
    let measured = arguments
        .server
        .measure(&node, clients, clients.about(), &generator)?;
    node.stop()?;
    store(&report(clients), measured)
}

fn mix(arguments: &Arguments, clients: Clients) -> Result<(), TaskError> {
    let generator = |mixes: &str| {
        [
            "--workload",
            &arguments.greedy_workload,
            "--mix",
            mixes,
            "--duration",
            &format!("{}s", arguments.seconds),
            "--rounds",
            &arguments.rounds.to_string(),
        ]
        .map(str::to_owned)
        .to_vec()
    };
    let server = &arguments.server;
    let node = server.start(&["--shards", "1"])?;
    let mixes = generator("aggregates,greedy-connection,greedy-table");
    let measured = server.measure(&node, clients, clients.about(), &mixes)?;
    node.stop()?;
    store(&report(clients), measured)?;
    // Users are only told apart where they log in.
    let node = server.start(&["--shards", "1", "--authenticator", "password"])?;
    let mut mixes = generator("greedy-user");
    mixes.extend(["--login", "cassandra:cassandra"].map(str::to_owned));
    let measured = server.measure(&node, clients, clients.about(), &mixes)?;
    node.stop()?;
    store(&report(clients), measured)
}

fn draw() -> Result<(), TaskError> {
    let mut reports = Vec::new();
    for clients in Clients::ALL {
        reports.extend(stored(&report(clients))?);
    }
    write_picture(NAME, &goodput::disturbances_to_svg(&reports))?;
    let mut page = String::from(
        "# Goodput when something happens\n\n\
         `cargo xtask compare goodput disturbed`: server on one core with one shard, generator on another.\n\n\
         **What happens.** At 0.8x of the capacity the server's process is stopped (SIGSTOP) for 200 ms; or 1.4x is offered for a second; or \
         nothing happens for a minute. Windows are of 100 ms by when requests were due, all looks together: what is due while the process is \
         stopped is answered after it.\n\n\
         **Who has to live with whom.** Point reads beside aggregates at ten times of what can be done of them, nine reads for each; and one that \
         sends 100 shares beside others that send 15, each a sixteenth of 0.8x: a connection of sixteen, a table of sixteen (over the same connections, eight of its partitions), or a \
         user of sixteen (with sixteen connections, where the others have one each). Kept is what the others' goodput is beside it, of what it is without, in the median of rounds in \
         which both take turns.\n\n![what became of requests](disturbed.svg)\n",
    );
    let _infallible = write!(page, "{}", goodput::to_markdown(&reports));
    files::write_page(&format!("{FOLDER}/{NAME}.md"), &page)
}
