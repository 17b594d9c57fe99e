//! Random writes, flushes, compactions, restarts, crashes and disk errors against a model that keeps every write:
//! what was acknowledged is never lost, and what was not is there from the start up to some write, or not at all.

use helenus_storage::store::CompactionKind;
use helenus_vfs::{Fault, FaultKind, Operation, SeededRandom};

use super::compaction::params;
use super::node::Node;
use super::table::{indexed_schema, plain_schema, schema};
use super::writes::Writer;

/// Events allowed in a run, besides writing, reading and restarting.
#[derive(Clone, Copy)]
struct Rules {
    crashes: bool,
    faults: bool,
    /// Deletions go as soon as nothing needs them; writes then come in the order of their timestamps.
    purges: bool,
}

fn run(seed: u64, rules: Rules) {
    let gc_grace_seconds = if rules.purges { 0 } else { 864_000 };
    let params = params(seed as usize, gc_grace_seconds);
    let mut writer = Writer {
        random: SeededRandom::new(seed),
        key_bound: [3, 8][seed as usize % 2],
        timestamp_from_us: 1,
        timestamp_spread_us: if rules.purges { 1 } else { 60 },
        is_plain: seed.is_multiple_of(3),
    };
    let schema = if writer.is_plain {
        plain_schema(params)
    } else if seed.is_multiple_of(2) {
        indexed_schema(params)
    } else {
        schema(params)
    };
    let mut node = Node::start(seed, schema);
    for _ in 0..400 {
        match writer.below(100) {
            0..70 => {
                writer.timestamp_from_us += i64::from(rules.purges);
                let key = vec![writer.below(5) as u8; 3];
                node.write(key, writer.write());
            }
            70..84 => node.persist(writer.below(64) as usize, writer.below(3) != 0),
            84..90 => node.flush(),
            90..95 => node.run_jobs(1 + writer.below(4) as usize),
            95 => node.check(&writer),
            96 => {
                let split_output = writer.below(2) == 0;
                // Refused where too many wait already.
                let _ = node.request(CompactionKind::Major { split_output });
            }
            97 => node.restart(1 + writer.below(3) as u16),
            98 if rules.crashes => {
                node.crash(1 + writer.below(3) as u16);
                node.check(&writer);
            }
            99 if rules.faults => {
                let operations = [
                    Operation::Write,
                    Operation::Sync,
                    Operation::Create,
                    Operation::Rename,
                    Operation::Remove,
                    Operation::SyncDirectory,
                    Operation::Read,
                ];
                let kinds = [FaultKind::Error, FaultKind::NoSpace, FaultKind::Short];
                let operation = operations[writer.below(operations.len() as u64) as usize];
                let kind = match operation {
                    Operation::Write => kinds[writer.below(3) as usize],
                    _ => FaultKind::Error,
                };
                node.inject(Fault {
                    operation,
                    after: writer.below(20),
                    kind,
                });
            }
            _ => {}
        }
    }
    node.restart(1);
    node.check(&writer);
}

#[test]
fn restarts_keep_everything() {
    for seed in 0..10 {
        run(
            seed,
            Rules {
                crashes: false,
                faults: false,
                purges: false,
            },
        );
    }
}

#[test]
fn crashes_lose_nothing_acknowledged() {
    for seed in 100..115 {
        run(
            seed,
            Rules {
                crashes: true,
                faults: false,
                purges: false,
            },
        );
    }
}

#[test]
fn purged_deletions_stay_deleted() {
    for seed in 200..215 {
        run(
            seed,
            Rules {
                crashes: true,
                faults: false,
                purges: true,
            },
        );
    }
}

#[test]
fn disk_errors_lose_nothing_acknowledged() {
    for seed in 300..320 {
        run(
            seed,
            Rules {
                crashes: true,
                faults: true,
                purges: seed.is_multiple_of(2),
            },
        );
    }
}
