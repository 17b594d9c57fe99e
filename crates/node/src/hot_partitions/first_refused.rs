//! Partitions and tables that take most of what a shard can do: their requests are refused first where there are more than
//! can be served.
//!
//! A partition's are refused where they have waited, so that it has what the others leave. Those of a table are refused as they
//! come, beyond a rate that is raised until requests wait, and lowered while they do. A table, which may be all that an
//! application lives by, keeps an equal part of what is let in (max-min fairness, with the table as the flow).

use std::cell::Cell;

use helenus_schema::TableId;
use helenus_transport::admission::Pressure;
use helenus_types::Token;

use super::{RECENT_HALF_LIFE, Samples, TICK_NS, per_second};

/// A partition or a table with this share of its shard's requests is refused first where requests wait ...
pub(crate) const SHED_SHARE_MIN: f32 = 0.25;

/// ... together with others like it: no more of them fit the largest share of all that is refused first.
const SHED_MAX: usize = 3;

/// ... unless hardly anybody else is there to be kept: refusing by age costs less.
pub(crate) const SHED_SHARE_MAX: f32 = 0.95;

/// A table takes part if it has this share of its shard's requests.
const ACTIVE_SHARE_MIN: f32 = 0.002;

/// A table is refused first if it has so many times an equal part of the requests: no two tables take turns in it by chance.
const PARTS_OF_CROWDING_TABLE: f32 = 1.5;

/// So much of a table's rate that was not taken may be taken at once.
const BURST_NS: u64 = 1_000_000;

/// Every tick a rate is lowered to this part of it where a queue stands ...
const LOWERED_BY_QUEUE: f32 = 0.7;

/// ... to this one where requests wait half as long as they should at most ...
const LOWERED_BY_LONG_WAITS: f32 = 0.9;

/// ... and raised by this one where they do not: slowly, so that what is too much for a tick or two makes nothing late.
const RAISED: f32 = 1.05;

/// A rate that refused nobody for so many ticks, a second, is one no more.
const IDLE_TICKS_MAX: u32 = 10;

/// Nor is one that nobody has looked at for so long: there is no such load any more that would have it looked at every tick.
pub(super) const RATE_IN_FORCE_NS: u64 = 5 * TICK_NS;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Refused {
    Partition(TableId, Token),
    /// All of its partitions.
    Table(TableId),
}

/// All that is refused first; few enough to be copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FirstRefused([Option<Refused>; SHED_MAX]);

impl FirstRefused {
    /// Adds one, if there is room.
    fn add(&mut self, refused: Refused) -> bool {
        let room = self.0.iter_mut().find(|place| place.is_none());
        room.map(|place| *place = Some(refused)).is_some()
    }

    #[inline]
    pub fn has_partitions(&self) -> bool {
        let mut all = self.0.iter().flatten();
        all.any(|refused| matches!(refused, Refused::Partition(..)))
    }

    pub fn has_partitions_of(&self, table: TableId) -> bool {
        let mut all = self.0.iter().flatten();
        all.any(|refused| matches!(refused, Refused::Partition(of, _) if *of == table))
    }

    pub fn has_partition(&self, table: TableId, token: Token) -> bool {
        self.0.contains(&Some(Refused::Partition(table, token)))
    }

    pub fn has_table(&self, table: TableId) -> bool {
        self.0.contains(&Some(Refused::Table(table)))
    }

    fn tables(&self) -> usize {
        let is_table = |refused: &&Refused| matches!(refused, Refused::Table(_));
        self.0.iter().flatten().filter(is_table).count()
    }
}

/// How many requests of the tables that are refused first are served: so many a second, evenly.
#[derive(Default)]
pub(super) struct TableRate {
    /// Time for each request; 0 if all are served.
    interval_ns: Cell<u64>,
    in_force_until_ns: Cell<u64>,
    next_ns: Cell<u64>,
    refused: Cell<u64>,
}

impl TableRate {
    #[inline]
    pub fn is_limited(&self) -> bool {
        self.interval_ns.get() > 0
    }

    pub fn limit(&self, per_second: Option<f32>, now_ns: u64) {
        self.in_force_until_ns.set(now_ns + RATE_IN_FORCE_NS);
        let interval_ns = per_second.map_or(0.0, |per_second| 1e9 / per_second.max(1.0));
        self.interval_ns.set(interval_ns as u64);
    }

    /// Returns whether one more request is within the rate, and counts it.
    pub fn takes(&self, now_ns: u64) -> bool {
        if now_ns > self.in_force_until_ns.get() {
            self.interval_ns.set(0);
            return true;
        }
        let due_ns = self.next_ns.get().max(now_ns.saturating_sub(BURST_NS));
        let takes = due_ns <= now_ns;
        match takes {
            true => self.next_ns.set(due_ns + self.interval_ns.get()),
            false => self.refused.set(self.refused.get() + 1),
        }
        takes
    }

    pub fn take_refused(&self) -> u64 {
        self.refused.take()
    }
}

/// How the rate of the tables that are refused first is found.
#[derive(Default)]
pub(super) struct TableRateControl {
    per_second: Option<f32>,
    idle_ticks: u32,
}

impl Samples {
    /// Finds those with a large share each, if they leave others to be kept.
    pub(super) fn find_first_refused(&self) -> FirstRefused {
        let (partitions, share_of_partitions) = self.find_refused_partitions();
        let (all, share) = self.with_refused_tables(partitions, share_of_partitions);
        let mut refused = match (share > SHED_SHARE_MAX, share_of_partitions > SHED_SHARE_MAX) {
            (false, _) => all,
            (true, false) => partitions,
            (true, true) => FirstRefused::default(),
        };
        // In an order that does not depend on whose table was asked for first.
        refused.0.sort_unstable();
        refused
    }

    fn find_refused_partitions(&self) -> (FirstRefused, f32) {
        let (mut refused, mut share) = (FirstRefused::default(), 0.0);
        for table in &self.tables {
            for (token, place) in table.tokens.iter().zip(&table.places) {
                let of_all = place.recent / self.recent;
                if of_all >= SHED_SHARE_MIN && refused.add(Refused::Partition(table.table.id, *token)) {
                    share += of_all;
                }
            }
        }
        (refused, share)
    }

    /// Adds the tables that are more than a fair part without the partitions that are refused first already.
    fn with_refused_tables(&self, mut refused: FirstRefused, mut share: f32) -> (FirstRefused, f32) {
        let fair_share = 1.0 / self.active_tables().max(1) as f32;
        let crowding_share = (PARTS_OF_CROWDING_TABLE * fair_share).max(SHED_SHARE_MIN);
        for table in &self.tables {
            let id = table.table.id;
            let places = table.tokens.iter().zip(&table.places);
            let of_partitions: f32 = places
                .filter(|(token, _)| refused.has_partition(id, **token))
                .map(|(_, place)| place.recent)
                .sum();
            let of_all = (table.recent - of_partitions) / self.recent;
            if of_all >= crowding_share && refused.add(Refused::Table(id)) {
                share += of_all;
            }
        }
        (refused, share)
    }

    fn active_tables(&self) -> usize {
        let is_active = |table: &&super::TableSamples| table.recent >= ACTIVE_SHARE_MIN * self.recent;
        self.tables.iter().filter(is_active).count()
    }

    /// Finds the rate of the tables that are refused first, at a tick: `refused` were for their table since the last tick.
    pub(super) fn find_table_rate(&mut self, pressure: Pressure, refused: u64) -> Option<f32> {
        let tables = self.shed.tables() as f32;
        if tables == 0.0 {
            self.table_rate = TableRateControl::default();
            return None;
        }
        let served = per_second((self.recent - self.recent_shed).max(0.0), RECENT_HALF_LIFE);
        let fair = served * tables / self.active_tables().max(1) as f32;
        let control = &mut self.table_rate;
        control.idle_ticks = if refused > 0 { 0 } else { control.idle_ticks + 1 };
        control.per_second = match (control.per_second, pressure) {
            (None, Pressure::QueueStands) => Some(served),
            (None, _) => None,
            (Some(rate), Pressure::QueueStands) => Some((rate * LOWERED_BY_QUEUE).max(fair)),
            (Some(rate), Pressure::LongWaits) => Some((rate * LOWERED_BY_LONG_WAITS).max(fair)),
            (Some(_), Pressure::None) if control.idle_ticks >= IDLE_TICKS_MAX => None,
            (Some(rate), Pressure::None) => Some((rate * RAISED).max(fair)),
        };
        control.per_second
    }
}
