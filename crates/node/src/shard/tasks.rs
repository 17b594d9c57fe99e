//! Tasks of a shard.

use std::future::poll_fn;
use std::rc::Rc;

use helenus_transport::request_memory::Held;

use super::Shard;
use crate::panic_boundary::catch_async;
use crate::session::Session;

impl Shard {
    /// Starts the task that answers a request, charged to the client. If it panics, the request is answered with a server
    /// error.
    pub(crate) fn answer_later(
        self: &Rc<Self>,
        session: &Rc<Session>,
        stream: i16,
        task: impl Future<Output = ()> + 'static,
    ) {
        session.expect_answer();
        let held = Held::nothing_of(&self.account_of_session(session));
        held.set(size_of_val(&task));
        let (shard, session) = (self.clone(), session.clone());
        let begun_ns = self.clock.monotonic_ns();
        self.spawn(async move {
            let _charged_to_the_end = held;
            let outcome = catch_async(task).await;
            shard
                .foreground
                .request_took(shard.clock.monotonic_ns().saturating_sub(begun_ns));
            if let Err(panicked) = outcome {
                shard.answer_write_later(&session, stream, Err(panicked.error()));
            }
        });
    }

    /// Starts a task on this shard.
    pub fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.tasks_spawned.set(self.tasks_spawned.get() + 1);
        let stalls = self.stalls.clone();
        // In a box, because whatever wraps a future copies it.
        let mut task = Box::pin(task);
        tokio::task::spawn_local(poll_fn(move |context| {
            stalls.watch("a task", || task.as_mut().poll(context))
        }));
    }

    /// For work of others on this thread, where somebody looks for what holds it.
    pub fn watching_stalls<T>(&self, what: &'static str, work: impl FnOnce() -> T) -> T {
        self.stalls.watch(what, work)
    }

    pub fn tasks_spawned(&self) -> u64 {
        self.tasks_spawned.get()
    }
}
