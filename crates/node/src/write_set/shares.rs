//! Shares of a write set: promised, taken, acknowledged and resolved.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use helenus_engine::CqlError;
use helenus_rows::update::{PackedUpdate, Update};
use helenus_storage::commitlog::{WriteSetId, WriteSetPart};
use helenus_storage::error::WriteError;
use helenus_types::{ShardId, Token};
use tokio::sync::oneshot;

use super::{InTurn, PartOfSet, Share, Turns, UnderWay};
use crate::built_updates::{UpdatesByShard, malformed};
use crate::calls::PendingAnswer;
use crate::deadline::{Deadline, not_begun_in_time};
use crate::panic_boundary::catch;
use crate::shard::{Acknowledgement, Shard};
use crate::unavailable::node_is_stopping;
use crate::write::write_failure;
use crate::written_partitions::{partitions_in, partitions_of};

impl Shard {
    /// Writes all of it or nothing. The error of a batch that was refused says so; any other leaves open what is stored.
    pub(crate) async fn write_whole(
        self: &Rc<Self>,
        updates: UpdatesByShard,
        deadline: Deadline,
    ) -> Result<(), CqlError> {
        if self.rates.has_limits() {
            self.check_rates_everywhere(partitions_of(&updates)).await?;
        }
        if updates.len() < 2 {
            let Some((owner, updates)) = updates.into_iter().next() else {
                return Ok(());
            };
            let written = self.ask(owner, move |shard| async move {
                match shard.views.concern_any_of(updates.iter()) {
                    true => shard.write_viewed(updates, deadline).await,
                    false => shard.write_whole_here(updates, None, deadline).await,
                }
            });
            return written.await;
        }
        loop {
            if self.views.concern_any_of(updates.values().flatten()) {
                return self.write_whole_viewed(updates, deadline).await;
            }
            let turns = Turns::Awaited {
                views_epoch: self.views_epoch(),
            };
            if self.write_shares(updates.clone(), turns, deadline).await? {
                return Ok(());
            }
        }
    }

    /// As [`Shard::write_whole`], of what one shard owns, and whatever views its tables have.
    pub(crate) async fn write_on_one_shard(
        self: &Rc<Self>,
        updates: UpdatesByShard,
        in_turn: InTurn,
        deadline: Deadline,
    ) -> Result<(), CqlError> {
        let Some((owner, updates)) = updates.into_iter().next() else {
            return Ok(());
        };
        let written = self.ask(owner, move |shard| async move {
            shard.write_whole_here(updates, Some(in_turn), deadline).await
        });
        written.await
    }

    /// Writes the shares of several shards. False if nothing was done because this shard's views are not those of the epoch any
    /// more.
    pub(crate) async fn write_shares(
        self: &Rc<Self>,
        updates: UpdatesByShard,
        turns: Turns,
        deadline: Deadline,
    ) -> Result<bool, CqlError> {
        let shares: Vec<(ShardId, Arc<Vec<PackedUpdate>>)> = updates
            .into_iter()
            .map(|(owner, updates)| (owner, Arc::new(updates)))
            .collect();
        let (in_turn, views_epoch) = match turns {
            Turns::Awaited { views_epoch } => (None, Some(views_epoch)),
            Turns::Had(in_turn) => (Some(in_turn), None),
        };
        let has_turns = in_turn.is_some();
        let are_logged = self.promises(&shares, in_turn, deadline).await?;
        if deadline.is_over(self.context.clock.monotonic_ns()) {
            return Err(not_begun_in_time());
        }
        if views_epoch.is_some_and(|epoch| epoch != self.views_epoch()) {
            return Ok(false);
        }
        // From here on nothing can be refused any more; no `await` until all shares are on their way.
        let acknowledged = self.send_shares(shares, &are_logged, has_turns);
        let written = acknowledged.await.unwrap_or_else(|_| Err(node_is_stopping()));
        written.map(|()| true)
    }

    /// Applies updates of several partitions that this shard owns as one record of its log, waiting for memory.
    async fn write_whole_here(
        self: &Rc<Self>,
        updates: Vec<PackedUpdate>,
        in_turn: Option<InTurn>,
        deadline: Deadline,
    ) -> Result<(), CqlError> {
        self.note_ballot(in_turn.as_ref());
        let decoded = self.decode_sampled(&updates)?;
        let position = loop {
            if deadline.is_over(self.context.clock.monotonic_ns()) {
                return Err(not_begun_in_time());
            }
            let decoded = self.without_unknown(&decoded, in_turn.as_ref());
            let applied = self.store.borrow_mut().apply_all(&decoded);
            match applied {
                Ok(position) => break position,
                Err(error @ WriteError::MemtablesFull { .. }) => {
                    if !self.persistence.wait_for_room(deadline).await {
                        return Err(write_failure(&error));
                    }
                    if in_turn.is_none() {
                        self.wait_for_turns(&partitions_in(&updates), deadline).await?;
                    }
                }
                Err(error) => return Err(write_failure(&error)),
            }
        };
        self.persistence.note_write();
        self.persistence.durable(position, deadline).await
    }

    /// Asks all owners at the same time. Whether the log of each will have a part, or the first refusal.
    async fn promises(
        self: &Rc<Self>,
        shares: &[(ShardId, Arc<Vec<PackedUpdate>>)],
        in_turn: Option<InTurn>,
        deadline: Deadline,
    ) -> Result<Vec<bool>, CqlError> {
        let asked: Vec<PendingAnswer<bool>> = shares
            .iter()
            .map(|(owner, updates)| {
                let (updates, in_turn) = (updates.clone(), in_turn.clone());
                self.begin_to_ask(*owner, move |shard| async move {
                    shard.promise_share(&updates, in_turn.as_ref(), deadline).await
                })
            })
            .collect();
        let mut promised = Vec::with_capacity(shares.len());
        for asked in asked {
            promised.push(asked.answer().await);
        }
        promised.into_iter().collect()
    }

    /// Promises to take a share, waiting for memory where there is none; true if this shard's log will have a part of it.
    async fn promise_share(
        &self,
        updates: &[PackedUpdate],
        in_turn: Option<&InTurn>,
        deadline: Deadline,
    ) -> Result<bool, CqlError> {
        self.note_ballot(in_turn);
        let decoded = self.decode_sampled(updates)?;
        loop {
            if in_turn.is_none() {
                self.wait_for_turns(&partitions_in(updates), deadline).await?;
            }
            if deadline.is_over(self.context.clock.monotonic_ns()) {
                return Err(not_begun_in_time());
            }
            let decoded = self.without_unknown(&decoded, in_turn);
            let promised = self.store.borrow().check_part(&decoded);
            match promised {
                Ok(is_logged) => return Ok(is_logged),
                Err(error @ WriteError::MemtablesFull { .. }) => {
                    if !self.persistence.wait_for_room(deadline).await {
                        return Err(write_failure(&error));
                    }
                }
                Err(error) => return Err(write_failure(&error)),
            }
        }
    }

    fn note_ballot(&self, in_turn: Option<&InTurn>) {
        if let Some(ballot_us) = in_turn.and_then(|in_turn| in_turn.ballot_us) {
            self.context.timestamps.note(ballot_us);
        }
    }

    /// Without what is for views that this shard does not know.
    fn without_unknown<'d, 'u>(
        &self,
        updates: &'d [(Token, Update<'u>)],
        in_turn: Option<&InTurn>,
    ) -> Cow<'d, [(Token, Update<'u>)]> {
        let Some(InTurn { required, .. }) = in_turn else {
            return Cow::Borrowed(updates);
        };
        let store = self.store.borrow();
        let is_taken = |update: &Update<'_>| required.has(update.table) || store.has_table(update.table);
        match updates.iter().all(|(_, update)| is_taken(update)) {
            true => Cow::Borrowed(updates),
            false => {
                let taken = updates.iter().filter(|(_, update)| is_taken(update));
                Cow::Owned(taken.cloned().collect())
            }
        }
    }

    /// With tokens, for the store; the samples of hot partitions learn of them.
    pub(crate) fn decode_sampled<'u>(
        &self,
        updates: &'u [PackedUpdate],
    ) -> Result<Vec<(Token, Update<'u>)>, CqlError> {
        if self.hot_partitions.is_sampled() {
            for update in updates {
                self.sample_write(update.token(), update.bytes());
            }
        }
        decode(updates).ok_or_else(malformed)
    }

    fn send_shares(
        self: &Rc<Self>,
        shares: Vec<(ShardId, Arc<Vec<PackedUpdate>>)>,
        are_logged: &[bool],
        has_turns: bool,
    ) -> oneshot::Receiver<Result<(), CqlError>> {
        let id = self.write_sets.numbers.borrow_mut().begin();
        let parts = are_logged.iter().filter(|is_logged| **is_logged).count();
        let (sender, receiver) = oneshot::channel();
        self.write_sets.under_way.borrow_mut().insert(
            id.number,
            UnderWay {
                shares_left: shares.len(),
                parts_left: parts,
                first_error: Ok(()),
                acknowledged: Some(sender),
            },
        );
        let mut part = 0;
        for ((owner, updates), is_logged) in shares.into_iter().zip(are_logged) {
            let part = is_logged.then(|| {
                part += 1;
                WriteSetPart {
                    id,
                    part: part - 1,
                    // One a shard at most, whose number is a `u16`.
                    parts: parts as u16,
                }
            });
            let share = Share {
                coordinator: self.context.id,
                number: id.number,
                part,
                updates,
                has_turns,
            };
            let (number, is_part) = (id.number, part.is_some());
            // Here at once: whoever looks at the partition next knows of the set.
            if !self.tell(owner, move |shard| shard.take_share(share)) {
                self.share_failed(number, is_part, node_is_stopping());
            }
        }
        receiver
    }

    /// Applies what this shard has promised to take.
    pub(crate) fn take_share(self: &Rc<Self>, share: Share) {
        let Some(share) = self.sealed.keep(share) else {
            return;
        };
        let Share {
            coordinator,
            number,
            part,
            updates,
            ..
        } = share;
        let applied = catch(|| {
            let updates = decode(&updates).ok_or(WriteError::Malformed)?;
            if let Some(part) = part {
                let tokens = updates.iter().map(|(token, _)| *token);
                self.write_sets.note_changed(part.id, tokens);
            }
            self.store.borrow_mut().apply_part(part, &updates)
        });
        self.persistence.note_write();
        let applied = applied
            .map_err(|panicked| panicked.error())
            .and_then(|applied| applied.map_err(|error| write_failure(&error)));
        let position = match applied {
            Ok(position) => position,
            Err(error) => {
                let is_part = part.is_some();
                self.tell(coordinator, move |shard| {
                    shard.share_failed(number, is_part, error)
                });
                return;
            }
        };
        let acknowledges = self.persistence.waits_for_log(position);
        if !acknowledges {
            self.tell(coordinator, move |shard| {
                shard.write_sets.share_acknowledged(number, Ok(()))
            });
        }
        if part.is_some() {
            let part = PartOfSet {
                coordinator,
                number,
                acknowledges,
            };
            self.persistence
                .acknowledge_at(position, Deadline::ENDLESS, Acknowledgement::Part(part));
        }
    }

    /// A log of this shard's has come to an end with a part: it is durable, or will never be.
    pub(crate) fn part_persisted(self: &Rc<Self>, part: PartOfSet, result: Result<(), CqlError>) {
        let number = part.number;
        self.tell(part.coordinator, move |shard| match result {
            Ok(()) => {
                if part.acknowledges {
                    shard.write_sets.share_acknowledged(number, Ok(()));
                }
                shard.write_sets.part_durable(number);
            }
            Err(error) => shard.share_failed(number, true, error),
        });
    }

    /// A share was not taken although it was promised: its shard's log has failed, or it panicked. A set that lacks a
    /// part stays unresolved, so that nothing of it reaches an SSTable, and the next start undoes it; until then it is
    /// there by half, and nothing may be acknowledged on top of it.
    fn share_failed(&self, number: u64, is_part: bool, error: CqlError) {
        if is_part {
            let reason = format!("an atomic batch could not be written everywhere ({error})");
            for shard in self.context.shards() {
                let reason = reason.clone();
                self.context
                    .mailbox(shard)
                    .run(move |shard| shard.store.borrow_mut().refuse_writes(&reason));
            }
        }
        // Drivers send again what was overloaded; some of this may be stored.
        let error = match error {
            error if error.promises_nothing_was_done() => CqlError::server(format_args!("{error}")),
            error => error,
        };
        self.write_sets.share_acknowledged(number, Err(error));
    }

    /// Waits until whatever this shard has of write sets now counts also after a crash: what is decided on it must not
    /// outlive it.
    pub(crate) async fn write_sets_resolved(self: &Rc<Self>) -> Result<(), CqlError> {
        let unresolved = self.store.borrow().unresolved_write_sets();
        self.wait_resolved(unresolved).await
    }

    /// Fails where a coordinator has stopped: nobody resolves its sets any more, and the next start may undo them.
    pub(crate) async fn wait_resolved(self: &Rc<Self>, unresolved: Vec<WriteSetId>) -> Result<(), CqlError> {
        if !unresolved.is_empty() {
            self.persistence.sync_logs_soon();
        }
        for id in unresolved {
            let resolved = self.call_async(id.coordinator, move |shard| async move {
                while !shard.write_sets.numbers.borrow().is_resolved(id.number) {
                    shard.write_sets.resolved.notified().await;
                }
            });
            resolved.await.ok_or_else(node_is_stopping)?;
        }
        Ok(())
    }
}

fn decode(updates: &[PackedUpdate]) -> Option<Vec<(Token, Update<'_>)>> {
    let decoded = updates
        .iter()
        .map(|update| Some((update.token(), update.decode()?)));
    decoded.collect()
}
