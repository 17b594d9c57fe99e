//! Building materialized views: the rows of what was in a table before its view was made.
//!
//! Writes feed a view from the instant that it is there; what the builder adds are rows that they would have written, under the
//! turns of their partitions, so that both may come in any order. Each shard builds from the partitions that it owns. How far it
//! came is written with the rows themselves, as one write set: after a crash it goes on from there. The tables are Cassandra's
//! (`system.built_views`, `system.view_builds_in_progress`, `system_distributed.view_build_status`); which shard does what is
//! decided by the owner of the schema.

use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use helenus_engine::CqlError;
use helenus_engine::read_failure;
use helenus_engine::views::{BaseViews, ViewDelta, ViewPlan};
use helenus_rows::clustering::Side;
use helenus_rows::deletion::DeletionTime;
use helenus_rows::partition_range::{PartitionBound, PartitionRange};
use helenus_rows::update::PackedUpdate;
use helenus_schema::{Schema, TableId, ViewMetadata};
use helenus_sstable::source::Unfiltered;
use helenus_storage::read::{ReadCommand, Stored, StoredSink};
use helenus_storage::read_state::{ReadProgress, ReadState};
use helenus_types::token::shard_range;
use helenus_types::{Token, token_of};

use crate::built_updates::{by_owner, packed_all};
use crate::deadline::Deadline;
use crate::panic_boundary::catch_async;
use crate::schema_change::SCHEMA_OWNER;
use crate::shard::Shard;
use crate::truncation::TableTurn;
use crate::view_names::UsedName;
use crate::view_progress::{DoneTokens, IN_PROGRESS};
use crate::viewed_writes::turns::Chunks;
use crate::write_set::{InTurn, RequiredTables};

/// Partitions whose rows are written as one set: enough to share a sync of the log, few enough that nobody waits long for the
/// turn of one.
const PARTITIONS_PER_SET: usize = 256;

/// Bytes of the view's rows that such a set may have before it is written early.
const SET_BYTES: usize = 4 << 20;

/// Until a build that failed is tried again: logs and disks that fail do not get well sooner.
const TRIED_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// For so long a schema change tries to read and write what is known of a name: longer than a disk hangs that is well again. A log that has
/// failed resolves nothing any more.
const FORGETTING_TRIED_FOR: Duration = Duration::from_secs(60);

const FORGETTING_PAUSE: Duration = Duration::from_millis(100);

/// A log that has failed resolves nothing any more, and nobody may write to the table meanwhile.
const EMPTIED_WITHIN: Duration = Duration::from_secs(30);

/// A view to be built, as its owner names it.
#[derive(Clone)]
struct ViewToBuild {
    keyspace: Arc<str>,
    name: Arc<str>,
    id: TableId,
    base: TableId,
}

impl ViewToBuild {
    fn of(schema: &Schema, keyspace: &str, view: &ViewMetadata) -> Option<Self> {
        let table = schema.table(keyspace, &view.name)?;
        Some(ViewToBuild {
            keyspace: Arc::clone(&table.keyspace),
            name: Arc::clone(&table.name),
            id: table.id,
            base: view.base_id,
        })
    }

    fn all_of(schema: &Schema) -> Vec<ViewToBuild> {
        let views = schema
            .keyspaces
            .values()
            .flat_map(|keyspace| keyspace.views.values().map(|view| (&*keyspace.name, view)));
        views
            .filter_map(|(keyspace, view)| Self::of(schema, keyspace, view))
            .collect()
    }

    fn is_in(&self, schema: &Schema) -> bool {
        let table = schema.table(&self.keyspace, &self.name);
        table.is_some_and(|table| table.id == self.id)
    }
}

impl Shard {
    /// Builds the views that the node starts with and that are not built yet.
    pub(crate) fn build_views_at_start(self: &Rc<Self>) {
        for view in ViewToBuild::all_of(&self.schema()) {
            self.build_later(view, false);
        }
    }

    /// Makes the builds follow a change of the schema, on its owner: after all shards have heard of it, and before anybody
    /// is told of it. What is written from then on is in the views.
    pub(crate) async fn follow_views(self: &Rc<Self>, before: &Schema, after: &Schema) {
        for view in ViewToBuild::all_of(after) {
            if !view.is_in(before) {
                let is_empty = self.empty(&view).await.is_ok();
                self.build_later(view, is_empty);
            }
        }
        let gone = ViewToBuild::all_of(before).into_iter();
        let gone: Vec<ViewToBuild> = gone.filter(|view| !view.is_in(after)).collect();
        if gone.is_empty() {
            return;
        }
        let shard = self.clone();
        let gone: Vec<_> = gone.into_iter().map(|view| (self.used(&view), view)).collect();
        self.context.spawn(async move {
            for (_used, view) in gone {
                // What is left of a name is forgotten before it is given again.
                let _left = shard.forget_build(&view.keyspace, &view.name).await;
            }
        });
    }

    /// Until it is dropped no other view is given the name. `None` on a shard that does not own the schema.
    fn used(&self, view: &ViewToBuild) -> Option<UsedName> {
        let owner = self.schema_owner().ok()?;
        Some(owner.view_names.take(&view.keyspace, &view.name))
    }

    /// Waits until all that was begun for an earlier view of the name has ended.
    async fn wait_until_unused(self: &Rc<Self>, view: &ViewToBuild) -> Result<(), CqlError> {
        let names = &self.schema_owner()?.view_names;
        loop {
            let unused = names.unused(&view.keyspace, &view.name);
            if tokio::time::timeout(FORGETTING_PAUSE, unused).await.is_ok() {
                return Ok(());
            }
            if self.any_log_has_failed().await {
                return Err(CqlError::server(format_args!(
                    "An earlier view of that name is still being built, and a log has failed: restart the node"
                )));
            }
        }
    }

    /// Nothing that is known of an earlier view may be taken for one that is about to be made.
    pub(crate) async fn forget_earlier_views(
        self: &Rc<Self>,
        before: &Schema,
        after: &Schema,
    ) -> Result<(), CqlError> {
        let new: Vec<ViewToBuild> = ViewToBuild::all_of(after)
            .into_iter()
            .filter(|view| !view.is_in(before))
            .collect();
        let forgotten = async {
            for view in &new {
                self.wait_until_unused(view).await?;
                while let Err(error) = self.forget_build(&view.keyspace, &view.name).await {
                    if self.any_log_has_failed().await {
                        return Err(error);
                    }
                    tokio::time::sleep(FORGETTING_PAUSE).await;
                }
            }
            Ok(())
        };
        let forgotten = tokio::time::timeout(FORGETTING_TRIED_FOR, forgotten).await;
        forgotten.unwrap_or_else(|_| {
            Err(CqlError::server(format_args!(
                "What is known of an earlier view of that name could not be removed in time"
            )))
        })
    }

    async fn any_log_has_failed(self: &Rc<Self>) -> bool {
        let failed = self.on_all_shards(|shard| shard.store.borrow().log_failure().is_some());
        failed.await.into_iter().flatten().any(|has_failed| has_failed)
    }

    fn build_later(self: &Rc<Self>, view: ViewToBuild, is_empty: bool) {
        let shard = self.clone();
        let used = self.used(&view);
        self.context.spawn(async move {
            let _used = used;
            while view.is_in(&shard.schema()) {
                let built = catch_async(shard.build(&view, is_empty)).await;
                if matches!(built, Ok(Ok(()))) {
                    return;
                }
                tokio::time::sleep(TRIED_AGAIN_AFTER).await;
            }
        });
    }

    /// `is_empty` where nothing has reached the view that all shards did not know of.
    async fn build(self: &Rc<Self>, view: &ViewToBuild, is_empty: bool) -> Result<(), CqlError> {
        let truncations = self.views.truncations_of(view.base);
        if self.is_built(&view.keyspace, &view.name).await? {
            return Ok(());
        }
        let done = self.done_of(&view.keyspace, &view.name).await?;
        if done.is_empty() {
            self.write_status((&view.keyspace, &view.name), "STARTED").await?;
            if !is_empty {
                self.empty(view).await?;
            }
        }
        let to_build = view.clone();
        let build = move |shard: Rc<Shard>| async move {
            let built = catch_async(shard.build_here(&to_build, &done, truncations)).await;
            built.unwrap_or_else(|panicked| Err(panicked.error()))
        };
        self.on_each_of(self.context.shards(), build).await?;
        self.base_is_decided(view).await?;
        // A truncation that ends in between has emptied the view, and if it failed perhaps not its base table.
        let _turn = self.schema_owner()?.truncations.turn(view.base).await?;
        self.is_not_truncated(view.base, truncations)?;
        if !view.is_in(&self.schema()) {
            return Ok(());
        }
        self.write_status((&view.keyspace, &view.name), "SUCCESS").await?;
        self.mark_built(&view.keyspace, &view.name).await
    }

    /// Else the view is built anew.
    fn is_not_truncated(&self, base: TableId, truncations: u64) -> Result<(), CqlError> {
        match self.views.truncations_of(base) == truncations {
            true => Ok(()),
            false => Err(CqlError::server(format_args!(
                "The table was truncated while a view of it was built"
            ))),
        }
    }

    /// Waits while a disk that failed leaves open what the next start finds of the base table: the view is built anew then.
    async fn base_is_decided(self: &Rc<Self>, view: &ViewToBuild) -> Result<(), CqlError> {
        let base = view.base;
        loop {
            let undecided = self.on_each_with(
                self.context.shards().map(|shard| (shard, ())),
                move |shard, ()| std::future::ready(Ok(shard.store.borrow().is_undecided(base))),
            );
            let is_decided = !undecided.await?.contains(&true);
            if is_decided || !view.is_in(&self.schema()) {
                return Ok(());
            }
            tokio::time::sleep(TRIED_AGAIN_AFTER).await;
        }
    }

    /// Takes away what reached the view while not all shards knew of it: writers that did not may have changed the same rows.
    async fn empty(self: &Rc<Self>, view: &ViewToBuild) -> Result<(), CqlError> {
        let (base, view) = (view.base, view.id);
        let emptied = async {
            let turn = self.schema_owner()?.truncations.turn(base).await?;
            let alone = self.hold_table(base, Held::ForOneView).await?;
            self.empty_to_its_end(view, (alone, turn)).await
        };
        let emptied = tokio::time::timeout(EMPTIED_WITHIN, emptied);
        emptied.await.unwrap_or_else(|_| {
            Err(CqlError::server(format_args!(
                "The view could not be emptied in time"
            )))
        })
    }

    async fn build_here(
        self: &Rc<Self>,
        view: &ViewToBuild,
        done: &[DoneTokens],
        truncations: u64,
    ) -> Result<(), CqlError> {
        let (first, last) = shard_range(self.context.id, self.context.options.shard_count);
        let mut place = (first, None);
        for of_earlier in done {
            if of_earlier.first <= place.0 && place.0 < of_earlier.last {
                // The last partition again: others may have the same token.
                place.0 = of_earlier.last;
            }
        }
        let mut written_us = self
            .progress_timestamp_us(IN_PROGRESS, &view.keyspace, &view.name)
            .await?;
        loop {
            let Some(views) = self.plan_of(view) else {
                return Ok(());
            };
            let keys = self
                .next_keys(&views, (place.0, place.1.as_deref()), last)
                .await?;
            let Some((reached, key)) = keys.last().cloned() else {
                return Ok(());
            };
            let keys = keys.into_iter().map(|(_, key)| key).collect();
            written_us = self.context.clock.wall_us().max(written_us.saturating_add(1));
            let progress =
                self.progress_update((&view.keyspace, &view.name), (first, last), reached, written_us);
            self.build_partitions(&views, keys, progress, truncations).await?;
            place = (reached, Some(key));
        }
    }

    /// The view alone; none once it is gone.
    fn plan_of(&self, view: &ViewToBuild) -> Option<BaseViews> {
        let all = self.views.of_table(view.base)?;
        let plan: &ViewPlan = all.views.iter().find(|plan| plan.table.id == view.id)?;
        Some(BaseViews {
            layout: all.layout.clone(),
            views: vec![plan.clone()],
            log: None,
        })
    }

    async fn build_partitions(
        self: &Rc<Self>,
        views: &BaseViews,
        keys: Vec<Vec<u8>>,
        progress: Option<PackedUpdate>,
        truncations: u64,
    ) -> Result<(), CqlError> {
        let table = views.layout.metadata.id;
        let partitions = keys.iter().map(|key| (table, token_of(key))).collect();
        let turns = self.take_turns(partitions, Deadline::ENDLESS).await?;
        // A truncation waits for these turns, or has had its own.
        self.is_not_truncated(table, truncations)?;
        let mut all = Vec::new();
        let mut bytes = 0;
        let mut chunks = Chunks {
            are_allowed: true,
            is_begun: false,
        };
        for key in &keys {
            let mut delta = ViewDelta::of_build(views, key, self.context.now_s());
            let place = (table, token_of(key));
            self.read_delta(place, key, &mut delta, &mut chunks, Deadline::ENDLESS)
                .await?;
            let rows = packed_all(delta.finish()?)?;
            bytes += rows.iter().map(|row| row.bytes().len()).sum::<usize>();
            all.extend(rows);
            if bytes > SET_BYTES {
                bytes = 0;
                self.write_rows(std::mem::take(&mut all)).await?;
            }
        }
        all.extend(progress);
        self.write_rows(all).await?;
        drop(turns);
        Ok(())
    }

    /// Rows of the view must not outlive base rows that a crash takes: these are in this shard's log.
    async fn write_rows(self: &Rc<Self>, updates: Vec<PackedUpdate>) -> Result<(), CqlError> {
        self.persistence.log_durable().await?;
        let in_turn = InTurn::new(RequiredTables::none());
        self.write_computed(
            by_owner(updates, self.context.options.shard_count),
            in_turn,
            Deadline::ENDLESS,
        )
        .await
    }

    /// The next partitions of this shard behind a place.
    async fn next_keys(
        self: &Rc<Self>,
        views: &BaseViews,
        (token, key): (Token, Option<&[u8]>),
        last: Token,
    ) -> Result<Vec<(Token, Vec<u8>)>, CqlError> {
        let start = PartitionBound {
            token,
            key,
            side: if key.is_some() { Side::After } else { Side::Before },
        };
        let end = PartitionBound {
            token: last,
            key: None,
            side: Side::After,
        };
        let mut state = ReadState::suspending();
        let mut sink = KeySink::default();
        loop {
            let command = ReadCommand {
                table: &views.layout.metadata,
                partitions: PartitionRange::Many { start, end },
                slices: &[],
                reversed: false,
                now_s: self.context.now_s(),
                index: &[],
            };
            let progress = self
                .store
                .borrow_mut()
                .read_step(&command, &mut state, &mut Stored(&mut sink));
            match progress.map_err(read_failure)? {
                ReadProgress::Done => return Ok(sink.keys),
                ReadProgress::Yield => tokio::task::yield_now().await,
                ReadProgress::Absent(absent) => self.reader.bring(&state, &absent).await?,
            }
        }
    }

    /// Truncates a table with its views; nobody writes to it meanwhile. A crash or a failure on the way leaves views that are built
    /// again from what is left.
    pub(crate) async fn truncate_with_views(
        self: &Rc<Self>,
        table: TableId,
        turn: TableTurn,
    ) -> Result<(), CqlError> {
        let views = self.schema();
        let views = ViewToBuild::all_of(&views).into_iter();
        let views: Vec<ViewToBuild> = views.filter(|view| view.base == table).collect();
        let used: Vec<_> = views.iter().map(|view| self.used(view)).collect();
        let alone = self.hold_table(table, Held::ForTruncation).await?;
        let shard = self.clone();
        self.to_its_end(async move {
            let _held = (alone, turn, used);
            let mut unmarked = Vec::new();
            let truncated = shard.truncate_held(table, views, &mut unmarked).await;
            for view in unmarked {
                shard.build_later(view, false);
            }
            truncated
        })
        .await
    }

    /// `unmarked` are the views that were built and are not said to be, now or after a crash.
    async fn truncate_held(
        self: &Rc<Self>,
        table: TableId,
        views: Vec<ViewToBuild>,
        unmarked: &mut Vec<ViewToBuild>,
    ) -> Result<(), CqlError> {
        for view in &views {
            if in_time(self.unmark_built(&view.keyspace, &view.name)).await? {
                unmarked.push(view.clone());
            }
        }
        for view in &views {
            self.truncate_on_all_shards(view.id).await?;
        }
        self.truncate_on_all_shards(table).await?;
        while let Some(view) = unmarked.last() {
            in_time(self.mark_built(&view.keyspace, &view.name)).await?;
            unmarked.pop();
        }
        Ok(())
    }

    /// Waits until nobody writes to a table with views on any shard, and nobody may until that is dropped. Shard after shard: a
    /// batch that has turns on one and waits for a later one must not be waited for by who holds the later one.
    async fn hold_table(self: &Rc<Self>, table: TableId, why: Held) -> Result<HeldBase, CqlError> {
        debug_assert_eq!(self.context.id, SCHEMA_OWNER);
        let truncation = (why == Held::ForTruncation).then(|| self.views.truncations_of(table) + 1);
        let held = HeldBase {
            shard: self.clone(),
            table,
            truncation,
        };
        for owner in self.context.shards() {
            let drained = self.ask(owner, move |shard| {
                // At once: who gives up lets go with a later message.
                shard.views.hold(table);
                shard.views.note_truncation(table, truncation);
                async move {
                    while shard.views.is_written_to(table) {
                        shard.views.given_back().await;
                    }
                    shard.write_sets_resolved().await
                }
            });
            drained.await?;
        }
        Ok(held)
    }
}

/// Waits while a truncation reads or writes the records of a view.
async fn in_time<T>(recorded: impl Future<Output = Result<T, CqlError>>) -> Result<T, CqlError> {
    let late = || Err(CqlError::truncate(format_args!("Truncate timed out")));
    let recorded = tokio::time::timeout(EMPTIED_WITHIN, recorded).await;
    recorded.map_or_else(
        |_| late(),
        |recorded| recorded.map_err(|error| CqlError::truncate(format_args!("{error}"))),
    )
}

/// Why nobody writes to a table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Held {
    ForOneView,
    ForTruncation,
}

/// A table that nobody writes to.
struct HeldBase {
    shard: Rc<Shard>,
    table: TableId,
    /// Number of the truncation that it is held for. All shards know it in the end, also where not all were held.
    truncation: Option<u64>,
}

impl Drop for HeldBase {
    fn drop(&mut self) {
        let (table, truncation, here) = (self.table, self.truncation, self.shard.context.id);
        for owner in self.shard.context.shards().filter(|owner| *owner != here) {
            self.shard.context.mailbox(owner).run(move |shard| {
                shard.views.note_truncation(table, truncation);
                shard.views.let_go(table);
            });
        }
        // Not by a message: the next one to hold it does so here at once, and would lose it again.
        self.shard.views.let_go(table);
    }
}

/// Takes the keys of the next partitions.
#[derive(Default)]
struct KeySink {
    /// Under the tokens by which they are stored: only those are sure to ascend.
    keys: Vec<(Token, Vec<u8>)>,
}

impl StoredSink for KeySink {
    fn partition(&mut self, token: Token, key: &[u8], _: DeletionTime) -> ControlFlow<()> {
        if self.keys.last().is_none_or(|(_, last)| last != key) {
            self.keys.push((token, key.to_vec()));
        }
        match self.keys.len() < PARTITIONS_PER_SET {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    }

    fn element(&mut self, _: Unfiltered<'_>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}
