//! A history from a seed: tables, what is written to them and read of them, and what happens in between.

mod change_logs;
mod counters;
mod expressions;
mod index_queries;
mod indexes;
mod shape;
mod subject;
mod timestamps;
mod values;

mod reads;
mod schema_changes;
mod text;
mod transactions;
mod vectors;
mod views;
mod writes;

use helenus_node::SsTableFormat;
use helenus_storage::read_state::STEP_UNITS_MAX;
use helenus_storage_model::Chance;
use helenus_types::quoted_identifier;

use crate::configuration::{Configuration, Home, SEGMENT_MIB};
use crate::script::{Event, Script, Statement, Step};
pub use index_queries::{generate_index_queries, without_indexes};
use subject::Subject;
use timestamps::Timestamps;

/// Everything that a history writes is in here.
pub const KEYSPACE: &str = "interchange";
/// Statements between two events, on average.
const STATEMENTS_PER_EVENT: u64 = 12;
/// So that there is much in one SSTable.
const STATEMENTS_PER_EVENT_DEEP: u64 = 50;
const STATEMENTS_PER_SCHEMA_CHANGE: u64 = 50;
const HISTORIES_PER_TRANSACTIONS: u64 = 3;
/// In those histories.
const STATEMENTS_PER_TRANSACTION: u64 = 4;
/// Cassandra's default, of tables that do not keep their tombstones for ever.
const GC_GRACE_SECONDS: i64 = 864_000;
/// A day more.
const SECONDS_PAST_GC_GRACE: i64 = GC_GRACE_SECONDS + 86_400;
/// That a table begins with.
const INDEXES_MAX: usize = 3;

/// Pages of one row are rare: each is a statement of its own.
const PAGES_ROWS: [Option<i32>; 6] = [None, None, Some(1), Some(3), Some(7), Some(100)];

/// Tables of histories are small: of a step as long as usual there is seldom a second one.
const STEPS_UNITS: [u32; 6] = [STEP_UNITS_MAX, STEP_UNITS_MAX, STEP_UNITS_MAX, 40, 5, 1];

/// The one with tries is the one that has most of its own.
const FORMATS: [SsTableFormat; 5] = [
    SsTableFormat::Me,
    SsTableFormat::Nb,
    SsTableFormat::Oa,
    SsTableFormat::Da,
    SsTableFormat::Da,
];

/// Emphasis of a history: it has much of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flavour {
    /// Tables, columns, kinds of statements.
    Broad,
    /// Rows of one table: partitions with an index, indexes of many pages.
    Deep,
}

impl Flavour {
    fn of(chance: &Chance) -> Flavour {
        match chance.below(3) {
            0 => Flavour::Deep,
            _ => Flavour::Broad,
        }
    }
}

/// Servers that a history is told to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Nodes whose clocks the history sets.
    Nodes,
    /// A Cassandra as well: nothing that it does not know, and nothing that shows what time it is.
    Cassandra,
}

/// The history of `steps` steps of a seed, besides those that make its tables.
pub fn generate(seed: u64, steps: usize, audience: Audience) -> Script {
    let chance = Chance::new(seed).filling_lists(audience == Audience::Cassandra);
    let mut script = Script {
        comment: vec![format!("Seed {seed}.")],
        configurations: configurations(&chance, audience),
        steps: Vec::new(),
    };
    script.steps.push(statement(format!(
        "CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
    )));
    let flavour = Flavour::of(&chance);
    let mut subjects = Vec::new();
    let tables = match flavour {
        Flavour::Broad => 1 + chance.count(3),
        Flavour::Deep => 1,
    };
    for number in 0..tables {
        let (table, mut texts) = shape::table(&chance, flavour, &format!("t{number}"));
        if audience == Audience::Cassandra {
            texts
                .iter_mut()
                .for_each(|text| *text = shape::for_cassandra(text));
        }
        let create = texts.last().cloned().unwrap_or_default();
        let types = texts
            .iter()
            .filter_map(|text| text.strip_prefix("CREATE TYPE ")?.split(" (").next());
        let types: Vec<String> = types.map(str::to_owned).collect();
        script.steps.extend(texts.into_iter().map(statement));
        let name = format!("{KEYSPACE}.{}", quoted_identifier(&table.name));
        let vector_indexes = match audience {
            Audience::Nodes => vectors::create(&chance, &table, &name),
            // It fails where a vector has a part that is no number, and refuses nothing.
            Audience::Cassandra => Vec::new(),
        };
        script.steps.extend(vector_indexes.iter().cloned().map(statement));
        let view = views::view(&chance, &table);
        let mut subject = Subject::new(&chance, (flavour, audience), table, create);
        subject.vector_indexes = vector_indexes;
        subject.types = types;
        let moves_view_rows = view.as_ref().is_some_and(|view| view.moves_rows);
        if let Some(view) = view {
            script.steps.push(statement(view.create));
            subject.view = Some(view.name);
        }
        if audience == Audience::Nodes && !subject.shows_clock() {
            subject.change_log = change_logs::log(&chance, &subject.table);
            let alter = subject.change_log.as_ref().map(|log| log.alter.clone());
            script.steps.extend(alter.map(statement));
        }
        // A deleted counter comes back with the next increment once its tombstone is gone, which a compaction decides; and so does
        // what a row of a view once had, when the row comes back to where it was (decision 21).
        let keeps_tombstones =
            subject.is_conditional || (subject.counts() && subject.deletes_counters) || moves_view_rows;
        if audience == Audience::Nodes && !keeps_tombstones && chance.one_in(2) {
            script.steps.push(statement(format!(
                "ALTER TABLE {} WITH gc_grace_seconds = {GC_GRACE_SECONDS}",
                subject.name
            )));
        }
        for _ in 0..chance.count(INDEXES_MAX + 1) {
            let created = indexes::create(&chance, &mut subject);
            script.steps.extend(created.into_iter().map(statement));
        }
        subjects.push(subject);
    }
    let has_transactions = audience == Audience::Nodes && chance.one_in(HISTORIES_PER_TRANSACTIONS);
    if has_transactions {
        script.steps.push(statement(transactions::create()));
    }
    let mut timestamps = Timestamps::default();
    let clock_goes_back = chance.one_in(3) && !has_transactions && !subjects.iter().any(Subject::shows_clock);
    if clock_goes_back || audience == Audience::Cassandra {
        subjects.iter_mut().for_each(|subject| subject.expires = false);
    }
    for _ in 0..steps {
        timestamps.advance();
        if has_transactions && chance.one_in(STATEMENTS_PER_TRANSACTION) {
            let transaction = transactions::transaction(&chance).finish();
            script.steps.push(Step::Statement(transaction));
            continue;
        }
        let place = chance.count(subjects.len());
        let subject = &mut subjects[place];
        if chance.one_in(STATEMENTS_PER_SCHEMA_CHANGE) {
            let changes = schema_changes::change(&chance, subject, &mut timestamps);
            script.steps.extend(changes.into_iter().map(statement));
            continue;
        }
        let statements_per_event = match flavour {
            Flavour::Broad => STATEMENTS_PER_EVENT,
            Flavour::Deep => STATEMENTS_PER_EVENT_DEEP,
        };
        let step = match chance.below(100) {
            _ if chance.one_in(statements_per_event) => {
                let event = match audience {
                    Audience::Nodes => event(&chance, clock_goes_back),
                    Audience::Cassandra => timeless_event(&chance),
                };
                if matches!(
                    event,
                    Event::Clock {
                        seconds: SECONDS_PAST_GC_GRACE..
                    }
                ) {
                    // What is written with times from before finds deletions gone on some nodes and not on others.
                    timestamps.boundary();
                }
                Step::Event(event)
            }
            0..60 if subject.counts() => Step::Statement(counters::write(&chance, subject).finish()),
            0..60 => Step::Statement(writes::write(&chance, flavour, subject, &timestamps).finish()),
            60..70 if let Some(view) = &subject.view => statement(match chance.below(8) {
                0 if audience == Audience::Nodes => format!("PRUNE MATERIALIZED VIEW {view}"),
                _ => format!("SELECT * FROM {view}"),
            }),
            70..74 if let Some(log) = &subject.change_log => statement(log.select.clone()),
            _ => Step::Statement(reads::read(&chance, subject).finish()),
        };
        script.steps.push(step);
    }
    // Whatever the last events did is seen.
    for subject in &subjects {
        script
            .steps
            .push(statement(format!("SELECT * FROM {}", subject.name)));
        if let Some(view) = &subject.view {
            script.steps.push(statement(format!("SELECT * FROM {view}")));
        }
        if let Some(log) = &subject.change_log {
            script.steps.push(statement(log.select.clone()));
        }
    }
    if has_transactions {
        script.steps.push(statement(transactions::read_all()));
    }
    if audience == Audience::Cassandra {
        // Nodes among themselves differ in their indexes.
        script.steps.extend(schema_reads());
    }
    script
}

/// Everything that is the same on all servers of the schema, as drivers read it.
fn schema_reads() -> impl Iterator<Item = Step> {
    const COLUMNS: [(&str, &str); 6] = [
        (
            "tables",
            "table_name, additional_write_policy, allow_auto_snapshot, bloom_filter_fp_chance, caching, cdc, comment, compaction, \
             compression, crc_check_chance, dclocal_read_repair_chance, default_time_to_live, extensions, flags, gc_grace_seconds, \
             incremental_backups, max_index_interval, memtable, memtable_flush_period_in_ms, min_index_interval, read_repair, \
             read_repair_chance, speculative_retry",
        ),
        ("columns", "*"),
        ("types", "*"),
        ("indexes", "*"),
        ("dropped_columns", "table_name, column_name, kind, type"),
        (
            "views",
            "view_name, base_table_name, bloom_filter_fp_chance, compaction, compression, gc_grace_seconds, include_all_columns, \
             where_clause",
        ),
    ];
    COLUMNS
        .into_iter()
        .map(|(table, columns)| {
            format!("SELECT {columns} FROM system_schema.{table} WHERE keyspace_name = '{KEYSPACE}'")
        })
        .chain([format!("DESCRIBE KEYSPACE {KEYSPACE}")])
        .map(statement)
}

fn statement(text: String) -> Step {
    Step::Statement(Statement {
        text,
        values: Vec::new(),
    })
}

/// One that leaves the clock as it is.
fn timeless_event(chance: &Chance) -> Event {
    loop {
        let event = event(chance, false);
        if !matches!(event, Event::Clock { .. }) {
            return event;
        }
    }
}

/// `clock_goes_back`: nothing that a history writes expires or has the node's time.
fn event(chance: &Chance, clock_goes_back: bool) -> Event {
    match chance.below(28) {
        0..8 => Event::Flush,
        8..11 => Event::Compact,
        11..14 => Event::Restart,
        14..16 => Event::Kill,
        16 => Event::Reshard,
        17 => Event::Reformat,
        18 | 19 => Event::Restore,
        20 | 21 => Event::Interchange,
        22 => Event::FullDisk,
        23 => Event::FailedSync {
            after: chance.below(6),
        },
        24 | 25 => Event::Replace,
        _ if clock_goes_back => Event::Clock {
            seconds: *chance.pick(&[-1, -60, -86_400, -3 * 86_400, 61, SECONDS_PAST_GC_GRACE]),
        },
        _ => Event::Clock {
            seconds: *chance.pick(&[1, 1, 61, 3_601, 86_400, SECONDS_PAST_GC_GRACE]),
        },
    }
}

/// One that never saw a disk and three that differ from it and from each other. One of the four has no indexes.
fn configurations(chance: &Chance, audience: Audience) -> Vec<Configuration> {
    let memory: Configuration = Configuration {
        home: Home::Memory,
        shard_count: 1,
        row_cache: true,
        memory_mib: 256,
        format: SsTableFormat::DEFAULT,
        column_index_kib: 64,
        page_rows: None,
        indexes: true,
        filtering: false,
        prepared: false,
        walks: false,
        at_once: false,
        resident: false,
        step_units: STEP_UNITS_MAX,
        segment_mib: SEGMENT_MIB,
    };
    let mut all = vec![memory];
    let disks = match audience {
        Audience::Nodes => 1..=3,
        // What the nodes owe each other is found without it.
        Audience::Cassandra => 2..=2,
    };
    for shard_count in disks {
        all.push(Configuration {
            home: Home::Disk,
            shard_count,
            row_cache: chance.one_in(2),
            memory_mib: *chance.pick(&[16, 64, 256]),
            format: *chance.pick(&FORMATS),
            column_index_kib: *chance.pick(&[1, 1, 4, 64]),
            page_rows: *chance.pick(&PAGES_ROWS),
            indexes: true,
            filtering: false,
            prepared: chance.one_in(3),
            walks: chance.one_in(2),
            at_once: chance.one_in(2),
            resident: chance.one_in(2),
            step_units: *chance.pick(&STEPS_UNITS),
            // The largest value takes a mebibyte, a write with a view's row and three images five, and half a segment at most.
            segment_mib: *chance.pick(&[16, SEGMENT_MIB]),
        });
    }
    let bare = chance.count(all.len());
    if audience == Audience::Nodes
        && let Some(bare) = all.get_mut(bare)
    {
        bare.indexes = false;
    }
    all
}
