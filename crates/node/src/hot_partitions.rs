//! Which partitions a shard's requests are for: the most asked for of each table, always on, in fixed memory.
//!
//! One of every so many requests is looked at; the number is moved so that some thousands are in a second, however many
//! requests there are, so what is seen costs the same at any load and every request is seen at a low one. Each table has
//! a Space-Saving summary: a place for each of the heaviest partitions, of which the lightest is handed on, with its
//! count as the newcomer's possible error. Counts fade with a half-life, so that they are rates of the last seconds.
//! Decision 15 has the reasons and the measurements.

mod first_refused;
mod shed_requests;
mod shedding;

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use helenus_protocol::extensions::RateLimitedOperation as Operation;
use helenus_schema::{TableId, TableMetadata};
use helenus_transport::admission::Pressure;
use helenus_types::Token;
use helenus_types::partition_key::partition_key_components;

use first_refused::{FirstRefused, TableRate, TableRateControl};
use shed_requests::ShedRequests;

/// How many of a table's partitions are reported at most.
pub(crate) const REPORTED_PER_TABLE_MAX: usize = 10;

/// Partitions of a table that are followed: what has a hundredth of its requests is found.
const PLACES: usize = SETS * PLACES_OF_SET;

/// A partition's token says which places it may have, so that a sample looks at few of them: with all of them in one
/// set, it cost 2,400 instructions. Of what is asked for often, more than so many in one set are not to be expected.
const SETS: usize = 16;
const PLACES_OF_SET: usize = 8;

/// Tables that are followed; the one with the fewest requests makes room for another. With short keys some 12 KiB each,
/// at most 24.
const TABLES_MAX: usize = 64;

/// Longest prefix of a key that is kept, in bytes; most keys are shorter. A longer one is shown as the start of its bytes.
const KEY_BYTES_MAX: usize = 128;

/// How often counts fade, and the number of requests for a sample is looked at.
const TICK: Duration = Duration::from_millis(100);
const TICK_NS: u64 = TICK.as_nanos() as u64;

/// The half-life of what is shown: a human's few seconds.
const HALF_LIFE: Duration = Duration::from_secs(2);

/// The half-life of what is decided by: a partition that has become hot is known to be in a quarter of a second.
const RECENT_HALF_LIFE: Duration = Duration::from_millis(250);

/// Samples between two ticks above which fewer requests are sampled, and below which more. A sample takes some 200 ns:
/// at most 0.1 % of the shard's time.
const SAMPLES_PER_TICK_MAX: u32 = 400;
const SAMPLES_PER_TICK_MIN: u32 = 100;

/// One of 1,024: a shard that serves eight million requests a second would still be sampled often enough.
const INTERVAL_MAX: u32 = 1_024;

/// The smallest share of its shard's requests with which a partition is reported; less is chance.
const REPORTED_SHARE_MIN: f32 = 0.001;

/// A partition with this share of its shard's requests is written to the log ...
pub(crate) const LOGGED_SHARE: f32 = 0.25;

/// ... if these are at least so many in a second: a quiet node has nothing to tell ...
pub(crate) const LOGGED_PER_SECOND_MIN: f32 = 1_000.0;

/// ... and once in so long, whichever partition it is.
pub(crate) const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// One shard's view of its partitions.
pub struct HotPartitions {
    /// Partitions and tables that are refused first.
    shed: Cell<FirstRefused>,
    /// Rate of those tables.
    table_rate: TableRate,
    /// Where a key is put together to see whether its request is for one of them.
    shed_key: RefCell<Vec<u8>>,
    shed_requests: Cell<u64>,
    /// How requests for the partitions begin.
    known: RefCell<ShedRequests>,
    /// Requests up to and including the next sample.
    until_sample: Cell<u32>,
    samples: RefCell<Samples>,
}

struct Samples {
    /// One of so many requests is sampled, and counts as so many: a power of two.
    interval: u32,
    random: u64,
    taken_in_tick: u32,
    ticked_ns: u64,
    logged_ns: Option<u64>,
    tables: Vec<TableSamples>,
    /// Recent requests for all tables, fading by [`RECENT_HALF_LIFE`].
    recent: f32,
    /// Those of them that were refused first.
    recent_shed: f32,
    /// As of the last tick, of all time.
    shed_requests: u64,
    heaviest: Option<Heaviest>,
    shed: FirstRefused,
    table_rate: TableRateControl,
}

struct TableSamples {
    table: Arc<TableMetadata>,
    reads: f32,
    writes: f32,
    recent: f32,
    /// Apart from the places, so that they are searched in one sweep.
    tokens: Vec<Token>,
    places: Vec<Place>,
}

#[derive(Default)]
struct Place {
    key: Vec<u8>,
    is_key_cut: bool,
    /// Counted while the partition had the place.
    reads: f32,
    writes: f32,
    /// Count of the partitions that had the place before: this one may have been asked for so often more.
    inherited: f32,
    recent: f32,
}

/// The partition with the most recent requests of a shard.
#[derive(Clone, Debug)]
struct Heaviest {
    table: Arc<TableMetadata>,
    token: Token,
    /// Share of the shard's requests, from 0 to 1.
    share: f32,
    per_second: f32,
}

/// A partition that is asked for more than others.
#[derive(Clone, Debug, PartialEq)]
pub struct HotPartition {
    pub keyspace: Arc<str>,
    pub table: Arc<str>,
    /// Its key's values as CQL literals, in order.
    pub key: String,
    pub token: Token,
    /// At least.
    pub reads_per_second: f64,
    pub writes_per_second: f64,
    /// Share of the shard's requests, from 0 to 1.
    pub share: f64,
}

/// How often a table's partitions are asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct TableActivity {
    pub keyspace: Arc<str>,
    pub table: Arc<str>,
    pub reads_per_second: f64,
    pub writes_per_second: f64,
}

/// Activity of a shard's tables and partitions, for system tables and metrics.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Activity {
    pub tables: Vec<TableActivity>,
    /// Those with the largest share first.
    pub partitions: Vec<HotPartition>,
}

impl HotPartitions {
    pub fn new(seed: u64) -> Self {
        HotPartitions {
            shed_key: RefCell::default(),
            shed: Cell::default(),
            table_rate: TableRate::default(),
            shed_requests: Cell::new(0),
            known: RefCell::default(),
            until_sample: Cell::new(1),
            samples: RefCell::new(Samples {
                interval: 1,
                random: seed | 1,
                taken_in_tick: 0,
                ticked_ns: 0,
                logged_ns: None,
                tables: Vec::new(),
                recent: 0.0,
                recent_shed: 0.0,
                shed_requests: 0,
                heaviest: None,
                shed: FirstRefused::default(),
                table_rate: TableRateControl::default(),
            }),
        }
    }

    /// Counts a request; whether it is one to be looked at, with [`HotPartitions::sample`].
    #[inline]
    pub fn is_sampled(&self) -> bool {
        let left = self.until_sample.get() - 1;
        // Never zero, also where a chosen request is not looked at after all.
        self.until_sample.set(left.max(1));
        left == 0
    }

    /// Looks at the request that [`HotPartitions::is_sampled`] chose; `partition` is its token and key, if they are known. Returns what is to be told of the heaviest partition now and then.
    #[cold]
    pub fn sample(
        &self,
        table: &Arc<TableMetadata>,
        operation: Operation,
        partition: Option<(Token, &[u8])>,
        now_ns: u64,
        pressure: Pressure,
    ) -> Option<String> {
        let samples = &mut *self.samples.borrow_mut();
        if samples.tick(now_ns, self.shed_requests.get()) {
            let refused = self.table_rate.take_refused();
            let rate = samples.find_table_rate(pressure, refused);
            self.table_rate.limit(rate, now_ns);
        }
        samples.add(table, operation, partition);
        self.until_sample.set(samples.next_sample());
        if self.shed.replace(samples.shed) != samples.shed {
            self.known.borrow_mut().forget();
        }
        samples.report(now_ns)
    }

    /// Returns whether a request for the partition is refused rather than let wait on, while requests wait longer than they
    /// should.
    #[inline]
    pub(crate) fn is_to_be_shed(&self, table: TableId, token: Token) -> bool {
        self.shed.get().has_partition(table, token)
    }

    /// Returns whether a request for the table is refused at once, as more than the table is left. Counts one that is not.
    fn is_beyond_rate_of(&self, table: TableId, now_ns: u64) -> bool {
        self.shed.get().has_table(table) && !self.table_rate.takes(now_ns)
    }

    pub(crate) fn shed_requests(&self) -> u64 {
        self.shed_requests.get()
    }

    pub fn activity(&self, now_ns: u64) -> Activity {
        let samples = &mut *self.samples.borrow_mut();
        samples.tick(now_ns, self.shed_requests.get());
        samples.activity()
    }
}

impl Samples {
    /// Lets counts fade for the time that has passed. Returns whether some has.
    fn tick(&mut self, now_ns: u64, shed_requests: u64) -> bool {
        if self.taken_in_tick > SAMPLES_PER_TICK_MAX {
            self.interval = (self.interval * 2).min(INTERVAL_MAX);
            self.taken_in_tick = 0;
        }
        let ticks = now_ns.saturating_sub(self.ticked_ns) / TICK_NS;
        if ticks == 0 {
            return false;
        }
        if self.taken_in_tick < SAMPLES_PER_TICK_MIN {
            self.interval = (self.interval / 2).max(1);
        }
        self.taken_in_tick = 0;
        self.ticked_ns = now_ns - now_ns % TICK_NS;
        // Before the counts fade: what is left of the last tick's is all that a long pause leaves.
        self.heaviest = self.find_heaviest();
        self.shed = self.find_first_refused();
        self.recent_shed += (shed_requests - self.shed_requests) as f32;
        self.shed_requests = shed_requests;
        // Beyond a minute nothing is left.
        let ticks = ticks.min(1_000) as f32;
        let (faded, recent_faded) = (fade(ticks, HALF_LIFE), fade(ticks, RECENT_HALF_LIFE));
        self.recent *= recent_faded;
        self.recent_shed *= recent_faded;
        for table in &mut self.tables {
            table.reads *= faded;
            table.writes *= faded;
            table.recent *= recent_faded;
            for place in &mut table.places {
                place.reads *= faded;
                place.writes *= faded;
                place.inherited *= faded;
                place.recent *= recent_faded;
            }
        }
        true
    }

    fn add(&mut self, table: &Arc<TableMetadata>, operation: Operation, partition: Option<(Token, &[u8])>) {
        let weight = self.interval as f32;
        self.taken_in_tick += 1;
        self.recent += weight;
        let known = self.tables.iter().position(|known| known.table.id == table.id);
        let index = known.unwrap_or_else(|| self.make_room_for(table));
        let Some(samples) = self.tables.get_mut(index) else {
            return;
        };
        // An altered table's columns may have other names.
        if !Arc::ptr_eq(&samples.table, table) {
            samples.table = table.clone();
        }
        samples.recent += weight;
        let (reads, writes) = match operation {
            Operation::Read => (weight, 0.0),
            Operation::Write => (0.0, weight),
        };
        samples.reads += reads;
        samples.writes += writes;
        if let Some((token, key)) = partition {
            let place = samples.place_of(token, key);
            place.recent += weight;
            place.reads += reads;
            place.writes += writes;
        }
    }

    fn make_room_for(&mut self, table: &Arc<TableMetadata>) -> usize {
        let new = TableSamples {
            table: table.clone(),
            reads: 0.0,
            writes: 0.0,
            recent: 0.0,
            // A place that nobody has had is the lightest of its set.
            tokens: vec![Token(i64::MIN); PLACES],
            places: (0..PLACES).map(|_| Place::default()).collect(),
        };
        if self.tables.len() < TABLES_MAX {
            self.tables.push(new);
            return self.tables.len() - 1;
        }
        let quietest = (0..self.tables.len())
            .min_by(|&left, &right| {
                let requests = |index: usize| self.tables[index].reads + self.tables[index].writes;
                requests(left).total_cmp(&requests(right))
            })
            .unwrap_or(0);
        self.tables[quietest] = new;
        quietest
    }

    /// Requests to the next sample: any number up to twice the interval, so that no pattern of requests is missed.
    fn next_sample(&mut self) -> u32 {
        if self.interval == 1 {
            return 1;
        }
        // Xorshift: never zero.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        1 + (self.random >> 32) as u32 % (2 * self.interval - 1)
    }

    fn find_heaviest(&self) -> Option<Heaviest> {
        let places = self.tables.iter().flat_map(|table| {
            let places = table.tokens.iter().zip(&table.places);
            places.map(move |(token, place)| (table, *token, place.recent))
        });
        let (table, token, recent) = places.max_by(|left, right| left.2.total_cmp(&right.2))?;
        if recent <= 0.0 {
            return None;
        }
        Some(Heaviest {
            table: table.table.clone(),
            token,
            share: recent / self.recent,
            per_second: per_second(recent, RECENT_HALF_LIFE),
        })
    }

    /// The line for the log, if there is something to tell that was not told a moment ago.
    fn report(&mut self, now_ns: u64) -> Option<String> {
        let is_recent = |logged_ns| now_ns.saturating_sub(logged_ns) < LOG_INTERVAL.as_nanos() as u64;
        let heaviest = self.heaviest.as_ref()?;
        if heaviest.share < LOGGED_SHARE
            || heaviest.per_second < LOGGED_PER_SECOND_MIN
            || self.logged_ns.is_some_and(is_recent)
        {
            return None;
        }
        self.logged_ns = Some(now_ns);
        let table = self
            .tables
            .iter()
            .find(|known| known.table.id == heaviest.table.id)?;
        let place = table.tokens.iter().position(|token| *token == heaviest.token)?;
        Some(format!(
            "partition {} of {}.{} takes {:.0} % of the requests: {:.0} a second",
            key_text(&table.table, &table.places[place]),
            table.table.keyspace,
            table.table.name,
            heaviest.share * 100.0,
            heaviest.per_second
        ))
    }

    fn activity(&self) -> Activity {
        let requests: f32 = self.tables.iter().map(|table| table.reads + table.writes).sum();
        let mut activity = Activity::default();
        for samples in &self.tables {
            if samples.reads + samples.writes < 1e-3 {
                continue;
            }
            activity.tables.push(TableActivity {
                keyspace: samples.table.keyspace.clone(),
                table: samples.table.name.clone(),
                reads_per_second: f64::from(per_second(samples.reads, HALF_LIFE)),
                writes_per_second: f64::from(per_second(samples.writes, HALF_LIFE)),
            });
            let places = samples.tokens.iter().zip(&samples.places);
            let mut heavy: Vec<_> = places
                .map(|(token, place)| (*token, place, place.reads + place.writes))
                .filter(|(_, _, counted)| *counted > 1e-3 && *counted >= REPORTED_SHARE_MIN * requests)
                .collect();
            heavy.sort_by(|left, right| right.2.total_cmp(&left.2));
            heavy.truncate(REPORTED_PER_TABLE_MAX);
            let partitions = heavy.into_iter().map(|(token, place, counted)| HotPartition {
                keyspace: samples.table.keyspace.clone(),
                table: samples.table.name.clone(),
                key: key_text(&samples.table, place),
                token,
                reads_per_second: f64::from(per_second(place.reads, HALF_LIFE)),
                writes_per_second: f64::from(per_second(place.writes, HALF_LIFE)),
                share: f64::from(counted / requests),
            });
            activity.partitions.extend(partitions);
        }
        activity
            .partitions
            .sort_by(|left, right| right.share.total_cmp(&left.share));
        activity
    }
}

impl TableSamples {
    /// The partition's place, or that of the lightest partition of its set, which is handed on.
    fn place_of(&mut self, token: Token, key: &[u8]) -> &mut Place {
        let first = (token.0 as usize % SETS) * PLACES_OF_SET;
        let set = first..first + PLACES_OF_SET;
        let known = self.tokens[set.clone()].iter().position(|known| *known == token);
        let index = known.map_or_else(|| self.hand_on(set, token, key), |known| first + known);
        &mut self.places[index]
    }

    fn hand_on(&mut self, set: Range<usize>, token: Token, key: &[u8]) -> usize {
        let mut lightest = (set.start, f32::INFINITY);
        for index in set {
            let place = &self.places[index];
            let counted = place.reads + place.writes + place.inherited;
            if counted < lightest.1 {
                lightest = (index, counted);
            }
        }
        let (index, counted) = lightest;
        self.tokens[index] = token;
        let place = &mut self.places[index];
        place.inherited = counted;
        (place.reads, place.writes, place.recent) = (0.0, 0.0, 0.0);
        let kept = key.len().min(KEY_BYTES_MAX);
        place.is_key_cut = kept < key.len();
        place.key.clear();
        place.key.extend_from_slice(&key[..kept]);
        index
    }
}

/// Computes the part of a count that is left after so many ticks.
fn fade(ticks: f32, half_life: Duration) -> f32 {
    (-ticks * TICK.as_secs_f32() / half_life.as_secs_f32()).exp2()
}

/// The rate that keeps a fading count where it is, between two ticks.
fn per_second(count: f32, half_life: Duration) -> f32 {
    let left = fade(1.0, half_life);
    // Just before a tick the count is 1 / (1 - left) times what a tick adds, and just after it `left` times that.
    let middle = (1.0 + left) / 2.0 / (1.0 - left);
    count / middle / TICK.as_secs_f32()
}

fn key_text(table: &TableMetadata, place: &Place) -> String {
    if place.is_key_cut {
        let mut text = String::from("0x");
        for byte in &place.key {
            text.push_str(&format!("{byte:02x}"));
        }
        text.push_str("...");
        return text;
    }
    let columns = table.partition_key();
    let components = partition_key_components(&place.key, columns.len());
    let literals: Vec<String> = columns
        .iter()
        .zip(components)
        .map(|(column, component)| column.cql_type.to_cql_literal(component))
        .collect();
    literals.join(", ")
}

#[cfg(test)]
mod tests;
