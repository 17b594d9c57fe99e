//! State that all connections share.

use std::cell::{Cell, RefCell};
use std::net::TcpListener;
use std::rc::Rc;
use std::sync::Arc;

use helenus_node::Handle;
use helenus_transport::descriptors::DescriptorReserve;
use helenus_vfs::{Clock, Random};
use tokio::sync::watch;

use crate::bounds::{CONNECTIONS_MAX, DESCRIPTORS_SHARE, LOOK, READY_TIMEOUT};
use crate::buffers::Buffers;
use crate::drain::Stage;
use crate::handover::{Departures, HandedOverConnection};
use crate::memory::Memory;
use crate::statements::Statements;
use crate::tokens::Tokens;
use crate::{DoorOptions, MetricsPage, Operations};

/// The doors' own; it lives on their thread.
pub struct State {
    /// Nobody's client: whoever asks gets one of its own.
    pub node: Handle,
    pub asks_for_passwords: bool,
    pub is_read_only: bool,
    pub serves_tests: bool,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    pub memory: Arc<Memory>,
    pub statements: Statements,
    pub tokens: RefCell<Tokens>,
    pub connections: Cell<usize>,
    pub descriptors: DescriptorReserve,
    pub departures: Departures,
    /// Connections with something to be answered, or that may ask something still.
    serving: Rc<Cell<usize>>,
    stages: watch::Receiver<Stage>,
    pub operations: Arc<dyn Operations>,
    metrics: Arc<dyn Fn() -> MetricsPage + Send + Sync>,
}

/// A connection that is waited for.
pub struct Serving(Rc<Cell<usize>>);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// Sockets that the doors have at their beginning.
pub struct Beginning {
    pub listener: TcpListener,
    pub handed_over: Vec<HandedOverConnection>,
}

impl State {
    pub fn new(
        options: DoorOptions,
        stages: watch::Receiver<Stage>,
        departures: Departures,
    ) -> (Beginning, State) {
        let mut tokens = Tokens::default();
        tokens.go_on_with(options.handed_over.tokens, options.clock.monotonic_ns());
        let state = State {
            node: options.node,
            asks_for_passwords: options.asks_for_passwords,
            is_read_only: options.is_read_only,
            serves_tests: options.serves_tests,
            clock: options.clock,
            random: options.random,
            memory: Memory::beside(
                options.node_memory_bytes,
                match options.buffer_pool {
                    true => Buffers::default(),
                    false => Buffers::keeping_nothing(),
                },
            ),
            statements: Statements::default(),
            tokens: RefCell::new(tokens),
            connections: Cell::new(0),
            descriptors: DescriptorReserve::of_this_process(),
            departures,
            serving: Rc::default(),
            stages,
            operations: options.operations,
            metrics: options.metrics,
        };
        let beginning = Beginning {
            listener: options.listener,
            handed_over: options.handed_over.connections,
        };
        (beginning, state)
    }

    /// A connection is waited for until this is dropped.
    pub fn serving(&self) -> Serving {
        self.serving.set(self.serving.get() + 1);
        Serving(self.serving.clone())
    }

    /// Waits until no connection is waited for.
    pub async fn all_answered(&self) {
        while self.serving.get() > 0 {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Connections at a time.
    pub fn connections_max(&self) -> usize {
        let share = self.descriptors.limit / DESCRIPTORS_SHARE;
        usize::try_from(share).map_or(CONNECTIONS_MAX, |share| share.min(CONNECTIONS_MAX))
    }

    /// How far the doors are on their way out.
    pub fn stage(&self) -> Stage {
        *self.stages.borrow()
    }

    /// Waits until they are at least that far.
    pub async fn reached(&self, stage: Stage) {
        let mut stages = self.stages.clone();
        // Whoever opened the doors has gone without closing them: as good as closed.
        let _gone = stages.wait_for(|now| *now >= stage).await;
    }

    /// Gives another process what is left to be given once everything is answered.
    pub fn depart(&self) {
        if self.stage() == Stage::HandingOver {
            let tokens = self.tokens.borrow().to_hand_over(self.clock.monotonic_ns());
            self.departures.set_tokens(tokens);
        }
    }

    /// Makes the page that Prometheus reads.
    pub async fn metrics_page(&self) -> String {
        (self.metrics)().await
    }

    /// Returns whether the node answers, and will for a while.
    pub async fn is_ready(&self) -> bool {
        let asked = self.node.query("SELECT key FROM system.local", ());
        let answered = tokio::time::timeout(READY_TIMEOUT, asked).await;
        self.stage() == Stage::Open && matches!(answered, Ok(Ok(_)))
    }
}
