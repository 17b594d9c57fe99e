//! Writes to tables with views that are one turn of the shard: what they change in the views is known at once, and is this shard's.

use helenus_engine::CqlError;
use helenus_engine::views::{PointWrite, ViewDelta};
use helenus_rows::update::{PackedUpdate, Update, merge_by_partition};
use helenus_storage::commitlog::{LogAppendError, LogPosition};
use helenus_storage::error::WriteError;
use helenus_storage::read_state::{ReadProgress, ReadState};
use helenus_types::{Token, token_of};

use super::logged::LogTried;
use super::turns::decode;
use crate::built_updates::{malformed, packed, packed_all};
use crate::shard::Shard;
use crate::viewed_writes::ViewScratch;
use crate::write::write_failure;

/// Outcome of the short way.
enum PointTried {
    Applied(LogPosition),
    /// Nothing was done: it has to wait for something, or takes other shards.
    HasToWait,
    /// Nothing was done: it is not one row alone, or not in memory.
    IsMore,
}

impl Shard {
    /// As [`Shard::apply_viewed_now`], of one update, of which the caller has taken its sample.
    pub(crate) fn apply_viewed(&self, token: Token, update: &[u8]) -> Result<Option<LogPosition>, CqlError> {
        match self.apply_viewed_row(token, update)? {
            PointTried::Applied(position) => Ok(Some(position)),
            PointTried::HasToWait => Ok(None),
            PointTried::IsMore => self.apply_viewed_several(&[packed(token, update.to_vec())?], true),
        }
    }

    /// Applies updates of which some are of tables with views, and what the views become, as one record of the log. All of the
    /// updates are this shard's. `None`, with nothing done, where that has to wait for something or takes other shards.
    pub(crate) fn apply_viewed_now(&self, updates: &[PackedUpdate]) -> Result<Option<LogPosition>, CqlError> {
        if let [update] = updates
            && !update.is_of_expiry()
        {
            match self.apply_viewed_row(update.token(), update.bytes())? {
                PointTried::Applied(position) => {
                    if self.hot_partitions.is_sampled() {
                        self.sample_write(update.token(), update.bytes());
                    }
                    return Ok(Some(position));
                }
                PointTried::HasToWait => return Ok(None),
                PointTried::IsMore => {}
            }
        }
        self.apply_viewed_several(updates, false)
    }

    /// The short way: what is written is one row, and what is stored of it lies in the memtable.
    fn apply_viewed_row(&self, token: Token, update: &[u8]) -> Result<PointTried, CqlError> {
        let decoded = decode(update)?;
        if self.views.is_taken((decoded.table, token)) {
            return Ok(PointTried::HasToWait);
        }
        let views = self.views.of_table(decoded.table);
        let write = views.as_ref().zip(PointWrite::of(&decoded));
        let Some((views, write)) = write else {
            return Ok(PointTried::IsMore);
        };
        if !views.know(&decoded) {
            return Ok(PointTried::HasToWait);
        }
        if !views.log_without_reading() {
            return Ok(PointTried::IsMore);
        }
        let ViewScratch { point, tokens } = &mut *self.views.scratch.borrow_mut();
        point.begin_again();
        if views.are_concerned_by(&write) {
            if !self.write_sets.unresolved_of(&[token]).is_empty() {
                return Ok(PointTried::HasToWait);
            }
            let store = self.store.borrow();
            let place = (token, decoded.partition_key);
            let Some(stored) = store.row_in_memory(decoded.table, place, write.clustering) else {
                return Ok(PointTried::IsMore);
            };
            views.change(&write, &stored, self.context.now_s(), point)?;
        }
        views.log_change(token, &decoded, self.context.now_s(), point);
        let changes = &point.changes;
        if !changes.are_of_partitions_of_their_own(&decoded) {
            return Ok(PointTried::IsMore);
        }
        let decoded_changes = || changes.iter().filter_map(Update::decode_trusted);
        tokens.clear();
        tokens.extend(decoded_changes().map(|change| token_of(change.partition_key)));
        if tokens
            .iter()
            .any(|token| self.context.owner_of(*token) != self.context.id)
        {
            return Ok(PointTried::HasToWait);
        }
        // Nobody is asked about nothing: what is chosen then is taken of the next.
        if changes.count() > 0 && self.hot_partitions.is_sampled() {
            let of_views = tokens.iter().copied().zip(changes.iter());
            of_views.for_each(|(token, change)| self.sample_write(token, change));
        }
        let all = std::iter::once((token, decoded)).chain(tokens.iter().copied().zip(decoded_changes()));
        let applied = match changes.count() {
            0 => self.store.borrow_mut().apply_at(token, &decoded),
            _ => self.store.borrow_mut().apply_each(all),
        };
        Ok(self
            .view_write_applied(applied)?
            .map_or(PointTried::HasToWait, PointTried::Applied))
    }

    /// `are_sampled`: the caller has taken the updates' sample.
    fn apply_viewed_several(
        &self,
        updates: &[PackedUpdate],
        are_sampled: bool,
    ) -> Result<Option<LogPosition>, CqlError> {
        let mut all_changes = Vec::with_capacity(updates.len());
        for update in updates {
            let decoded = update.decode().ok_or_else(malformed)?;
            let token = update.token();
            if self.views.is_taken(update.partition()) {
                return Ok(None);
            }
            let Some(views) = self.views.of_table(decoded.table) else {
                continue;
            };
            if !self.write_sets.unresolved_of(&[token]).is_empty() || !views.know(&decoded) {
                return Ok(None);
            }
            let mut delta = ViewDelta::new(&views, &decoded, self.context.now_s());
            let mut state = ReadState::suspending();
            let slices = delta.slices();
            let progress =
                self.delta_step((token, decoded.partition_key), &slices, &mut delta, &mut state)?;
            self.store.borrow().end_read(&mut state);
            if !matches!(progress, ReadProgress::Done) {
                return Ok(None);
            }
            let mut changes = packed_all(delta.finish()?)?;
            match self.log_at_once(&views, update, &decoded)? {
                LogTried::Logged(logged) => changes.extend(logged),
                LogTried::HasToWait => return Ok(None),
            }
            if changes
                .iter()
                .any(|change| self.context.owner_of(change.token()) != self.context.id)
            {
                return Ok(None);
            }
            all_changes.extend(changes);
        }
        // Nothing is of a table and of a view.
        let (own, of_views) = (
            merge_by_partition(updates.to_vec()),
            merge_by_partition(all_changes),
        );
        let decoded: Result<Vec<(Token, Update<'_>)>, CqlError> = own
            .iter()
            .chain(&of_views)
            .map(|update| Ok((update.token(), update.decode().ok_or_else(malformed)?)))
            .collect();
        let decoded = decoded?;
        let sampled = decoded.get(if are_sampled { own.len() } else { 0 }..);
        let sampled = sampled.unwrap_or_default();
        if !sampled.is_empty() && self.hot_partitions.is_sampled() {
            for (token, update) in sampled {
                self.sample_write(*token, update.as_bytes());
            }
        }
        let applied = self.store.borrow_mut().apply_all(&decoded);
        self.view_write_applied(applied)
    }

    /// `None` where that takes memory that is not there, or more than one record.
    fn view_write_applied(
        &self,
        applied: Result<LogPosition, WriteError>,
    ) -> Result<Option<LogPosition>, CqlError> {
        match applied {
            Ok(position) => {
                self.persistence.note_write();
                Ok(Some(position))
            }
            Err(
                WriteError::MemtablesFull { .. } | WriteError::Log(LogAppendError::RecordTooLarge { .. }),
            ) => Ok(None),
            Err(error) => Err(write_failure(&error)),
        }
    }
}
