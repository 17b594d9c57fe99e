//! One request from the call to its result: a node, a turn, a connection, and again where nothing was lost by it.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use helenus_protocol::Opcode;
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use super::pool::{NodePool, Readiness};
use super::request::Request;
use super::{Cluster, Session, Shared};
use crate::connection::{Lost, NotTaken};
use crate::error::{RequestError, ServerError};
use crate::response::{Answer, Response};
use crate::retry::{Verdict, judge};
use crate::statement::ExecutionOptions;
use crate::throttle::{Ending, Permit};

/// The pause after a node has refused a request for want of room, doubling from the first to the last.
const REFUSED_PAUSE_MIN: Duration = Duration::from_millis(1);
const REFUSED_PAUSE_MAX: Duration = Duration::from_millis(100);

/// How long a busy connection is waited for before the nodes are looked at anew.
const BUSY_WAIT: Duration = Duration::from_millis(20);

/// A statement is prepared again this often for one request; a server that forgets it more often forgets all.
const PREPARES_MAX: u32 = 5;

/// The state of one request across its attempts.
struct Attempts<'a> {
    session: &'a Session,
    request: &'a Request<'a>,
    options: &'a ExecutionOptions,
    /// Ends the request, whatever it waits for.
    deadline: Pin<&'a mut Sleep>,
    was_sent: bool,
    retries: u32,
    prepares: u32,
    pause: Duration,
    /// Where the search for a node begins; moves on with every attempt.
    turn: u64,
}

/// Outcome of an attempt.
enum Attempt {
    Done(Answer),
    Again,
}

impl Attempt {
    fn answered(response: Response, address: SocketAddr) -> Self {
        Attempt::Done(Answer {
            response,
            address,
            shape: None,
        })
    }
}

impl Session {
    /// Runs a request to its answer or its deadline.
    pub(super) async fn run(
        &self,
        request: &Request<'_>,
        options: &ExecutionOptions,
    ) -> Result<Answer, RequestError> {
        let deadline = pin!(sleep(options.timeout));
        let mut attempts = Attempts {
            session: self,
            request,
            options,
            deadline,
            was_sent: false,
            retries: 0,
            prepares: 0,
            pause: REFUSED_PAUSE_MIN,
            turn: self.shared.turn.fetch_add(1, Ordering::Relaxed),
        };
        loop {
            match attempts.try_once().await? {
                Attempt::Done(answer) => return Ok(answer),
                Attempt::Again => attempts.turn = attempts.turn.wrapping_add(1),
            }
        }
    }
}

impl Attempts<'_> {
    /// Waits for `what`, but not beyond the deadline.
    async fn by_deadline<F: Future>(&mut self, what: F) -> Result<F::Output, RequestError> {
        tokio::select! {
            biased;
            output = what => Ok(output),
            () = &mut self.deadline => Err(self.deadline_passed()),
        }
    }

    fn deadline_passed(&self) -> RequestError {
        RequestError::DeadlinePassed {
            timeout_ms: self.options.timeout.as_millis() as u64,
            was_sent: self.was_sent,
        }
    }

    async fn try_once(&mut self) -> Result<Attempt, RequestError> {
        // Timers are rounded up to a millisecond, in which a near server answers.
        if self.deadline.deadline() <= Instant::now() {
            return Err(self.deadline_passed());
        }
        // What is rare waits in boxes: every caller that waits carries the room of this future.
        let pool = match self.ready_pool() {
            Some(pool) => pool,
            None => Box::pin(self.wait_for_pool()).await?,
        };
        if let Some(start) = pool.throttle.next_start() {
            Box::pin(self.by_deadline(sleep_until(start.into()))).await?;
        }
        let permit = self
            .by_deadline(pool.throttle.acquire(self.session.caller.0))
            .await?
            .map_err(|full| RequestError::QueueFull {
                waiting_max: full.waiting_max,
            })?;
        let mut address = pool.address;
        let mut overloaded_is_not_run = false;
        let token = || self.request.partition().map(|(_, token)| token);
        let exchange = pool.exchange(token, self.request.opcode(), |connection, out| {
            address = connection.peer.address;
            overloaded_is_not_run = connection.peer.overloaded_is_not_run;
            self.request.write(out, connection.peer.version);
        });
        let exchange = match exchange {
            Ok(exchange) => exchange,
            Err(NotTaken::TooBig { bytes }) => {
                return Err(crate::values::BindError::TooLong { bytes }.into());
            }
            Err(NotTaken::Leaving) => {
                // Nothing but the next look at the nodes, which may find another one ready, or waits until one is.
                drop(permit);
                pool.forget_leaving();
                return Ok(Attempt::Again);
            }
            Err(NotTaken::Busy) => {
                drop(permit);
                let room = tokio::time::timeout(BUSY_WAIT, pool.changed.notified());
                Box::pin(self.by_deadline(room)).await?.unwrap_or(());
                return Ok(Attempt::Again);
            }
        };
        let counters = &self.session.shared.counters;
        counters.sent.fetch_add(1, Ordering::Relaxed);
        let was_sent_before = std::mem::replace(&mut self.was_sent, true);
        match self.by_deadline(exchange).await {
            Err(deadline_passed) => {
                permit.end(Ending::TimedOut);
                Err(deadline_passed)
            }
            Ok(Ok(response)) if response.opcode != Opcode::Error => {
                permit.end(Ending::Answered);
                Ok(Attempt::answered(response, address))
            }
            Ok(Ok(response)) => {
                let error = response.server_error(pool.address);
                let verdict = judge(&error, overloaded_is_not_run);
                Box::pin(self.refused(&pool, permit, &response, verdict, error, was_sent_before)).await
            }
            Ok(Err(lost)) => {
                drop(permit);
                self.lost(lost, &pool, was_sent_before)
            }
        }
    }

    fn may_retry(&self) -> bool {
        let is_idempotent = self.options.is_idempotent && !self.request.is_transaction();
        let is_safe = is_idempotent || self.request.is_harmless();
        is_safe && self.retries < self.session.shared.options.retry.retries_max
    }

    fn retried(&mut self) -> Attempt {
        self.retries += 1;
        self.session
            .shared
            .counters
            .retried
            .fetch_add(1, Ordering::Relaxed);
        Attempt::Again
    }

    fn sent_again(&mut self, was_sent_before: bool) -> Attempt {
        self.was_sent = was_sent_before;
        self.session
            .shared
            .counters
            .sent_again
            .fetch_add(1, Ordering::Relaxed);
        Attempt::Again
    }

    fn lost(&mut self, lost: Lost, pool: &NodePool, was_sent_before: bool) -> Result<Attempt, RequestError> {
        if !lost.may_have_run {
            return Ok(self.sent_again(was_sent_before));
        }
        if self.may_retry() {
            return Ok(self.retried());
        }
        Err(RequestError::ConnectionLost {
            address: pool.address,
            reason: lost.reason,
        })
    }

    async fn refused(
        &mut self,
        pool: &NodePool,
        permit: Permit,
        response: &Response,
        verdict: Verdict,
        error: ServerError,
        was_sent_before: bool,
    ) -> Result<Attempt, RequestError> {
        if matches!(verdict, Verdict::NotRun | Verdict::Overloaded) {
            let refused = &self.session.shared.counters.refused;
            refused.fetch_add(1, Ordering::Relaxed);
        }
        match verdict {
            Verdict::NotRun => {
                permit.end(Ending::Refused);
                let attempt = self.sent_again(was_sent_before);
                self.pause_refused().await?;
                Ok(attempt)
            }
            Verdict::Overloaded => {
                permit.end(Ending::Refused);
                if !self.may_retry() {
                    return Err(error.into());
                }
                self.pause_refused().await?;
                Ok(self.retried())
            }
            Verdict::Unprepared if self.prepares < PREPARES_MAX => {
                permit.end(Ending::Answered);
                self.prepares += 1;
                self.prepare_again(pool, response, error).await?;
                Ok(self.sent_again(was_sent_before))
            }
            Verdict::MayHaveRun if self.may_retry() => {
                permit.end(Ending::TimedOut);
                Ok(self.retried())
            }
            Verdict::MayHaveRun => {
                permit.end(Ending::TimedOut);
                Err(error.into())
            }
            Verdict::Unprepared | Verdict::Final => {
                permit.end(Ending::Answered);
                Err(error.into())
            }
        }
    }

    /// Each time twice as long as the last.
    async fn pause_refused(&mut self) -> Result<(), RequestError> {
        let pause = self.pause;
        self.pause = (2 * pause).min(REFUSED_PAUSE_MAX);
        self.by_deadline(sleep(pause)).await
    }

    /// Teaches the node the statement that it says it does not know.
    async fn prepare_again(
        &mut self,
        pool: &NodePool,
        response: &Response,
        error: ServerError,
    ) -> Result<(), RequestError> {
        let id = unprepared_id(response);
        let Some(statement) = id.and_then(|id| self.request.prepared_with(&id)) else {
            return Err(error.into());
        };
        let prepare = Request::Prepare {
            text: &statement.text,
        };
        let exchange = pool.exchange(
            || None,
            Opcode::Prepare,
            |connection, out| {
                prepare.write(out, connection.peer.version);
            },
        );
        // Lost or refused, the statement is still unknown and the next attempt says so again.
        if let Ok(exchange) = exchange
            && let Ok(answer) = self.by_deadline(exchange).await?
            && answer.opcode == Opcode::Error
        {
            return Err(answer.server_error(pool.address).into());
        }
        Ok(())
    }

    /// A node that can be asked now: one that holds the partition if there is any.
    fn ready_pool(&self) -> Option<Arc<NodePool>> {
        let shared = &self.session.shared;
        if shared.is_closed.load(Ordering::Acquire) {
            return None;
        }
        shared.cluster().ready_pool(self.request, self.turn, shared)
    }

    /// The same, waiting while a node may become ready.
    async fn wait_for_pool(&mut self) -> Result<Arc<NodePool>, RequestError> {
        loop {
            let shared = &self.session.shared;
            if shared.is_closed.load(Ordering::Acquire) {
                return Err(RequestError::Closed);
            }
            // Before the look, so that no change between the look and the wait is missed.
            let changed = shared.changed.clone();
            let mut changed = pin!(changed.notified());
            changed.as_mut().enable();
            if let Some(pool) = self.ready_pool() {
                return Ok(pool);
            }
            let is_connecting = shared
                .cluster()
                .pools
                .iter()
                .any(|pool| matches!(pool.readiness(), Readiness::Connecting));
            if !is_connecting && !shared.options.waits_for_ready {
                return Err(RequestError::Unreachable(shared.last_error()));
            }
            self.by_deadline(changed).await?;
        }
    }
}

fn unprepared_id(response: &Response) -> Option<Vec<u8>> {
    use helenus_protocol::response::{ErrorBody, Response as Message};
    match response.decode() {
        Ok((Message::Error(error), _)) => match error.body {
            ErrorBody::Unprepared { statement_id } => Some(statement_id.to_vec()),
            _ => None,
        },
        _ => None,
    }
}

impl Cluster {
    /// The partition's replicas in turns, then the other nodes; those of the session's datacenter first.
    fn ready_pool(&self, request: &Request<'_>, turn: u64, shared: &Shared) -> Option<Arc<NodePool>> {
        if let [only] = &self.pools[..] {
            return only.is_ready().then(|| only.clone());
        }
        let replicas = request.partition().map_or(&[][..], |(keyspace, token)| {
            self.topology.replicas(keyspace, token)
        });
        let wanted = shared.options.datacenter.as_deref();
        let is_near = |node: usize| {
            wanted.is_none_or(|name| {
                self.topology
                    .nodes()
                    .get(node)
                    .is_none_or(|node| node.datacenter == name)
            })
        };
        let of_replicas = (0..replicas.len())
            .map(|step| usize::from(replicas[(turn as usize + step) % replicas.len()]))
            .filter(|node| is_near(*node))
            .filter_map(|node| self.pools.get(*self.pool_of_node.get(node)?));
        let all = self.pools.len();
        let others = (0..all).map(|step| &self.pools[(turn as usize + step) % all]);
        let near_others = others.clone().filter(|pool| {
            wanted.is_none()
                || self
                    .topology
                    .nodes()
                    .iter()
                    .enumerate()
                    .any(|(index, node)| node.address == pool.address && is_near(index))
        });
        of_replicas
            .chain(near_others)
            .chain(others)
            .find(|pool| pool.is_ready())
            .cloned()
    }
}
