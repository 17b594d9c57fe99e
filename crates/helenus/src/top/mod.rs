//! `helenus top`: what a node does right now, read over CQL from its virtual tables.

mod reading;
mod screen;
mod snapshot;

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use helenus_client::{ConnectError, RequestError, Session};
use helenus_terminal::{Place, Screen};

use crate::terminal::{fail, print_json};
use reading::Reading;
use snapshot::Snapshot;

pub const EXAMPLES: &str = "Examples:
  helenus top                               the node on 127.0.0.1:9042, drawn anew every second; q ends it
  helenus top db1:9042 --interval 5         rates over five seconds
  helenus top --once                        one page of plain text, for a ticket
  helenus top --json | jq .partitions       for scripts";

/// The shortest time over which a rate says anything.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// A node that does not answer so long is not worth waiting for.
const TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Args)]
pub struct TopArguments {
    /// The node.
    #[arg(value_name = "HOST:PORT", default_value = "127.0.0.1:9042")]
    node: String,
    /// Seconds between two readings; rates are of the time between them.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    interval: f64,
    /// Print one page and end.
    #[arg(long)]
    once: bool,
    /// Print one reading as JSON and end.
    #[arg(long)]
    json: bool,
    /// For a node that asks for a password; it is taken from HELENUS_PASSWORD.
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
}

pub fn run(arguments: &TopArguments) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let result = match runtime {
        Ok(runtime) => runtime.block_on(watch(arguments)),
        Err(error) => return fail("top", &error),
    };
    match result {
        Ok(code) => code,
        Err(error) => match asks_for_password(&error) {
            Some(address) => fail("top", &PasswordNeeded { address }),
            None => fail("top", &error),
        },
    }
}

/// The client library's words are for programs.
#[derive(Debug, thiserror::Error)]
#[error("{address} asks for a password; name a role with --user, and put its password into HELENUS_PASSWORD")]
struct PasswordNeeded {
    address: SocketAddr,
}

fn asks_for_password(error: &RequestError) -> Option<SocketAddr> {
    match error {
        RequestError::Unreachable(why) => match **why {
            ConnectError::CredentialsNeeded { address } => Some(address),
            _ => None,
        },
        _ => None,
    }
}

/// Two readings and the time between them.
struct Watch {
    session: Session,
    node: String,
    interval: Duration,
    last: Reading,
}

impl Watch {
    async fn begin(arguments: &TopArguments) -> Result<Self, RequestError> {
        let mut builder = Session::builder()
            .node(arguments.node.clone())
            .only_these_nodes()
            .connections_per_node(1)
            .connect_timeout(TIMEOUT)
            .timeout(TIMEOUT);
        if let Some(user) = &arguments.user {
            builder = builder.credentials(user, std::env::var("HELENUS_PASSWORD").unwrap_or_default());
        }
        let session = builder.connect().await?;
        let last = Reading::take(&session).await?;
        // What is no number of seconds ends up as the shortest time.
        let interval = Duration::try_from_secs_f64(arguments.interval).unwrap_or_default();
        Ok(Watch {
            session,
            node: arguments.node.clone(),
            interval: interval.max(INTERVAL_MIN),
            last,
        })
    }

    async fn next(&mut self) -> Result<Snapshot, RequestError> {
        tokio::time::sleep(self.interval).await;
        let reading = Reading::take(&self.session).await?;
        let snapshot = Snapshot::between(&self.node, &self.last, &reading);
        self.last = reading;
        Ok(snapshot)
    }
}

async fn watch(arguments: &TopArguments) -> Result<ExitCode, RequestError> {
    let mut watch = Watch::begin(arguments).await?;
    if arguments.json {
        return Ok(print_json(&watch.next().await?));
    }
    if arguments.once || !std::io::stdout().is_terminal() {
        let lines = screen::lines(&watch.next().await?);
        println!("{}", lines.join("\n"));
        return Ok(ExitCode::SUCCESS);
    }
    let mut terminal = match Screen::start(Place::Whole) {
        Ok(terminal) => terminal,
        Err(error) => return Ok(fail("top", &error)),
    };
    loop {
        let snapshot = watch.next().await?;
        terminal.draw(screen::page(&snapshot));
        if terminal.is_quit() {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// It told to give a password "with `credentials`", which is no option of the command.
    #[test]
    fn whoever_is_asked_for_a_password_is_told_the_options() {
        let address = SocketAddr::from(([127, 0, 0, 1], 9042));
        let why = ConnectError::CredentialsNeeded { address };
        let needed = asks_for_password(&RequestError::Unreachable(Arc::new(why)));
        let text = PasswordNeeded {
            address: needed.unwrap(),
        };
        assert!(text.to_string().contains("--user"), "{text}");
        assert_eq!(
            asks_for_password(&RequestError::QueueFull { waiting_max: 1 }),
            None
        );
    }
}
