//! A node's doors beside CQL: HTTP with JSON, gRPC and the console, all on one listener.
//!
//! A connection says what it speaks with its first bytes (`socket`): HTTP/1.1, or HTTP/2 without TLS. What it asks for is looked up in
//! `routes`, and becomes requests of the native protocol that go through `helenus_node::Handle`: admission, deadlines, rate limits,
//! accounts and metrics are those of CQL.
//!
//! All of it runs on one thread of its own, so that no flood at a door takes more than that thread's share of the processor, and
//! shards see a door's requests only as messages in their inboxes. What clients can make the doors hold is in `bounds`.

#![deny(missing_docs)]

mod body;
mod bounds;
mod buffers;
mod caller;
mod connection;
mod console;
mod drain;
mod executor;
mod failure;
mod grpc;
mod handover;
mod http2;
mod http_door;
mod listener;
mod memory;
mod origin;
mod routes;
mod socket;
mod state;
mod statements;
mod tokens;
mod underway;

use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use helenus_node::Handle;
use helenus_vfs::{Clock, Random};
use tokio::runtime::{LocalOptions, LocalRuntime};
use tokio::sync::watch;

use drain::Stage;
use handover::Departures;
use state::State;

pub use grpc::proto;
pub use handover::{HandedOver, HandedOverConnection};
pub use http_door::operations::{Operation, Operations};
pub use tokens::HandedOverToken;

/// A page of metrics that is being made.
pub type MetricsPage = Pin<Box<dyn Future<Output = String> + Send>>;

/// Listener, node and settings that the doors are opened with.
pub struct DoorOptions {
    /// Where clients connect.
    pub listener: TcpListener,
    /// Connections that another process has served until now, and its clients' tokens.
    pub handed_over: HandedOver,
    /// The node; each client is given a handle of its own.
    pub node: Handle,
    /// The memory that the node has; what the doors' clients may take beside it depends on that.
    pub node_memory_bytes: u64,
    /// True if clients have to say who they are.
    pub asks_for_passwords: bool,
    /// True if only statements that read are taken.
    pub is_read_only: bool,
    /// True if gRPC's `TestService` is there, which interop clients call.
    pub serves_tests: bool,
    /// True if buffers of requests and answers are used again.
    pub buffer_pool: bool,
    /// Carries out what operators ask of the node.
    pub operations: Arc<dyn Operations>,
    /// Makes the page that Prometheus reads.
    pub metrics: Arc<dyn Fn() -> MetricsPage + Send + Sync>,
    /// The node's.
    pub clock: Arc<dyn Clock>,
    /// Tokens are made of it.
    pub random: Arc<dyn Random>,
}

/// The open doors, until they are closed.
pub struct Doors {
    /// Where clients connect.
    pub address: SocketAddr,
    stage: watch::Sender<Stage>,
    answered: watch::Receiver<bool>,
    departures: Departures,
    /// Closed once nobody is served any more.
    ended: watch::Receiver<()>,
    thread: JoinHandle<()>,
}

impl Doors {
    /// Opens them, on a thread of their own.
    pub fn open(options: DoorOptions) -> io::Result<Doors> {
        let address = options.listener.local_addr()?;
        options.listener.set_nonblocking(true)?;
        let (stage, stages) = watch::channel(Stage::Open);
        let (ending, ended) = watch::channel(());
        let (answering, answered) = watch::channel(false);
        let departures = Departures::default();
        let departing = departures.clone();
        let (begun, beginning) = std::sync::mpsc::channel();
        let serve = move || {
            let _ends_with_the_thread = ending;
            let runtime = match runtime() {
                Ok(runtime) => runtime,
                Err(error) => {
                    let _opener_gone = begun.send(error);
                    return;
                }
            };
            drop(begun);
            runtime.block_on(async move {
                let (beginning, state) = State::new(options, stages, departing);
                listener::serve(beginning, Rc::new(state), answering).await;
            });
        };
        let thread = std::thread::Builder::new()
            .name("helenus-doors".to_owned())
            .spawn(serve)?;
        if let Ok(error) = beginning.recv() {
            return Err(error);
        }
        Ok(Doors {
            address,
            stage,
            answered,
            departures,
            ended,
            thread,
        })
    }

    /// Takes no new connections, tells clients to go elsewhere, and answers what is under way.
    pub fn begin_drain(&self) {
        self.stage.send_replace(Stage::Draining);
    }

    /// Takes no new connections, for another process to do so. It goes on with connections that are at rest, once
    /// [`Doors::answered`]; those of HTTP/2 are told to connect again, which that process answers.
    pub fn begin_hand_over(&self) {
        self.stage.send_replace(Stage::HandingOver);
    }

    /// Waits until nothing is asked that was not answered. Clients may still be there, to be told the last.
    pub async fn answered(&self) {
        let mut answered = self.answered.clone();
        // Who has no thread any more has answered everything that it will.
        let _ended = answered.wait_for(|answered| *answered).await.is_ok();
    }

    /// The connections that were given up so far, and, once all is [answered](Doors::answered), the tokens.
    pub fn handed_over(&self) -> HandedOver {
        self.departures.take()
    }

    /// Waits until all clients have gone.
    pub async fn drained(&self) {
        let mut ended = self.ended.clone();
        // Nothing is ever sent; it is closed.
        while ended.changed().await.is_ok() {}
    }

    /// Closes what is left and ends the thread.
    pub fn close(self) {
        self.stage.send_replace(Stage::Closed);
        let _panicked = self.thread.join();
    }
}

/// The executor of the doors' thread. What another thread has woken comes first, which is whoever waits for a shard's answer: so that the
/// connections, which those wake, find the answers of a turn of the shard and write them in one piece.
fn runtime() -> io::Result<LocalRuntime> {
    const WOKEN_BY_OTHERS_FIRST: u32 = 1;
    tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .global_queue_interval(WOKEN_BY_OTHERS_FIRST)
        .build_local(LocalOptions::default())
}

/// How long a drain takes at most, from its beginning.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(8);
