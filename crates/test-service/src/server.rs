//! Threads that serve canned rows to whoever connects.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use helenus_protocol::frame::FrameLimits;
use helenus_transport::deadline::LATE_LOOK_INTERVAL;
use helenus_transport::{
    ConnectionLimits, ListenOptions, Listeners, RequestMemory, TransportContext, TransportOptions, listen,
};
use helenus_vfs::SystemClock;
use tokio::runtime::{Builder, LocalOptions};

use crate::PATIENCE;
use crate::canned::Canned;

/// Memory of one thread, for everything that a shard would have in it: its requests get 2 MiB.
const THREAD_BYTES: u64 = 32 << 20;

const THREADS: u16 = 2;

/// How a server of canned rows is started.
#[derive(Clone, Copy, Debug, Default)]
pub struct CannedOptions {
    pub connection_limits: ConnectionLimits,
    /// True if clients have to log in, with the password `cassandra`.
    pub asks_for_passwords: bool,
}

/// A running server, on a free port.
pub struct CannedServer {
    pub address: SocketAddr,
    listeners: Arc<Listeners>,
    threads: Vec<JoinHandle<()>>,
}

impl CannedServer {
    /// Accepts connections when it returns.
    pub fn start(options: CannedOptions) -> CannedServer {
        let plain = listen(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
        let address = plain.local_addr().expect("a bound socket");
        let listeners = Listeners::new(ListenOptions {
            plain,
            shard_aware: None,
            threads: usize::from(THREADS),
            frame_limits: FrameLimits::default(),
            connection_limits: options.connection_limits,
            advertised: address,
            handed_over: Vec::new(),
            events: helenus_events::silent(),
        });
        let threads = (0..THREADS)
            .map(|thread| {
                let listeners = listeners.clone();
                std::thread::spawn(move || serve(&listeners, thread, options.asks_for_passwords))
            })
            .collect();
        CannedServer {
            address,
            listeners,
            threads,
        }
    }

    /// Ends connections as a node does, and its threads.
    pub fn stop(self) {
        self.listeners.stop();
        for thread in self.threads {
            thread.join().expect("no panic");
        }
    }
}

/// Runs until the listeners are stopped and all connections have ended.
fn serve(listeners: &Arc<Listeners>, thread: u16, asks_for_passwords: bool) {
    let has_slept = Arc::new(AtomicBool::new(true));
    let woken = has_slept.clone();
    let runtime = Builder::new_current_thread()
        .enable_all()
        .on_thread_unpark(move || woken.store(true, Ordering::Relaxed))
        .build_local(LocalOptions::default())
        .expect("an event loop");
    let clock = Arc::new(SystemClock::new());
    runtime.block_on(async {
        let transport = TransportContext::new(
            TransportOptions {
                admission: true,
                request_timeout: PATIENCE,
                buffer_pool: true,
                memory: RequestMemory::of_shard(THREAD_BYTES, true),
                clock,
                events: helenus_events::silent(),
            },
            has_slept,
        );
        tokio::task::spawn_local(transport.clone().mark_rounds());
        tokio::task::spawn_local(advance(transport.clone()));
        let authenticator = asks_for_passwords.then_some("org.apache.cassandra.auth.PasswordAuthenticator");
        let canned = Canned::new(transport, thread, THREADS, authenticator);
        listeners.open(&canned, usize::from(thread));
        listeners.drained().await;
    });
}

/// Tells admission control of the time that passes, as a shard's timer does.
async fn advance(transport: Rc<TransportContext>) {
    loop {
        tokio::time::sleep(LATE_LOOK_INTERVAL).await;
        transport
            .admission
            .timer_went_off(transport.clock().monotonic_ns());
    }
}
