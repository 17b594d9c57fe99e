//! Histories that are mostly questions to secondary indexes: a node with indexes beside one that has none, and filters.
//!
//! Tables are small and their values few, so that most questions find rows, and that rows are written over, deleted and expire. What
//! the node without indexes answers comes from one memtable that is never flushed: it shares nothing with an index.

mod folding;
mod literals;
mod queries;
mod table;
mod writes;

use helenus_storage::read_state::STEP_UNITS_MAX;
use helenus_storage_model::Chance;

use super::timestamps::Timestamps;
use super::{FORMATS, GC_GRACE_SECONDS, KEYSPACE, SECONDS_PAST_GC_GRACE, STEPS_UNITS, statement};
use crate::configuration::{Configuration, Home, SEGMENT_MIB};
use crate::script::{Event, Script, Step};
pub use folding::without_indexes;
use table::Table;

/// Queries among the steps, in percent.
const QUERIES_PERCENT: u64 = 78;
const WRITES_PER_EVENT: u64 = 10;
const WRITES_PER_INDEX_CHANGE: u64 = 25;
const PAST_GC_GRACE: Event = Event::Clock {
    seconds: SECONDS_PAST_GC_GRACE,
};
/// Rows that there are before the first question.
const FIRST_WRITES_MAX: usize = 40;

/// The history of `steps` steps of a seed, besides those that make its table.
pub fn generate_index_queries(seed: u64, steps: usize) -> Script {
    let chance = Chance::new(seed);
    let mut script = Script {
        comment: vec![format!("Index queries of seed {seed}.")],
        configurations: configurations(&chance),
        steps: Vec::new(),
    };
    let mut table = Table::new(&chance);
    let mut put = |text: String| script.steps.push(statement(text));
    put(format!(
        "CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
    ));
    put(table.create());
    put(format!(
        "ALTER TABLE {} WITH gc_grace_seconds = {GC_GRACE_SECONDS}",
        table.name
    ));
    for _ in 0..1 + chance.count(table.columns.len()) {
        table.create_index(&chance).into_iter().for_each(&mut put);
    }
    let mut timestamps = Timestamps::default();
    for _ in 0..chance.count(FIRST_WRITES_MAX) {
        timestamps.advance();
        put(writes::write(&chance, &table, &timestamps));
    }
    for _ in 0..steps {
        timestamps.advance();
        if chance.below(100) < QUERIES_PERCENT {
            script.steps.push(statement(queries::query(&chance, &table)));
        } else if chance.one_in(WRITES_PER_INDEX_CHANGE) {
            let text = match chance.one_in(2) {
                true => table.create_index(&chance),
                false => table.drop_index(&chance),
            };
            script.steps.extend(text.map(statement));
        } else if chance.one_in(WRITES_PER_EVENT) {
            let event = event(&chance);
            if event == PAST_GC_GRACE {
                // What is written with times from before finds deletions gone on one node and not on the other.
                timestamps.boundary();
            }
            script.steps.push(Step::Event(event));
        } else {
            let text = writes::write(&chance, &table, &timestamps);
            script.steps.push(statement(text));
        }
    }
    script
}

fn event(chance: &Chance) -> Event {
    match chance.below(40) {
        0..16 => Event::Flush,
        16..22 => Event::Compact,
        22..25 => Event::Restart,
        25..28 => Event::Kill,
        28 => Event::Reshard,
        29 => Event::Reformat,
        30 => Event::Restore,
        31 => Event::Interchange,
        32 => Event::FlippedBit { place: chance.bits() },
        _ => Event::Clock {
            seconds: *chance.pick(&[1, 1, 61, 3_601, SECONDS_PAST_GC_GRACE]),
        },
    }
}

/// One that never saw a disk or an index, and one that saw both.
fn configurations(chance: &Chance) -> Vec<Configuration> {
    let filters: Configuration = Configuration {
        home: Home::Memory,
        shard_count: 1,
        row_cache: false,
        memory_mib: 256,
        format: *chance.pick(&FORMATS),
        column_index_kib: 64,
        page_rows: None,
        indexes: false,
        filtering: true,
        prepared: false,
        walks: false,
        at_once: false,
        resident: false,
        step_units: STEP_UNITS_MAX,
        segment_mib: SEGMENT_MIB,
    };
    let indexed = Configuration {
        home: Home::Disk,
        shard_count: *chance.pick(&[1, 1, 2, 3]),
        row_cache: chance.one_in(3),
        memory_mib: *chance.pick(&[16, 64]),
        column_index_kib: *chance.pick(&[1, 4, 64]),
        page_rows: *chance.pick(&[None, None, None, Some(1), Some(2), Some(7)]),
        indexes: true,
        filtering: false,
        prepared: chance.one_in(4),
        at_once: !chance.one_in(3),
        resident: chance.one_in(2),
        step_units: *chance.pick(&STEPS_UNITS),
        ..filters
    };
    vec![filters, indexed]
}
