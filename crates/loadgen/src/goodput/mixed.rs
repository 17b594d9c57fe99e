//! Loads that share a server: what one keeps of its goodput beside another that asks for more than there is.

use std::collections::BTreeSet;
use std::ops::Range;

use super::load::{Load, Part};
use super::measure::{Measurement, closed, median, offer_round};
use super::report::{Mix, MixKind};
use super::statements::{OTHER_TABLE, PARTITION, TABLE};
use super::wire::{Login, WireClient, WireError};
use super::workload::{GoodputWorkload, Preparation, Requests, prepare};
use super::{Doing, GoodputOptions};

/// Shares of what is offered by those that behave: each a sixteenth of [`LOAD`].
const SHARES: f64 = 16.0;

/// Load as a share of the capacity, if all sixteen behaved.
const LOAD: f64 = 0.8;

/// Shares that the greedy one asks for.
const GREEDY_SHARES: f64 = 100.0;

/// Load of aggregates, as a multiple of their capacity.
const AGGREGATES_LOAD: f64 = 10.0;

/// Point reads for each aggregate.
const READS_PER_AGGREGATE: f64 = 9.0;

/// The name and password of a user that the greedy one logs in as.
const GREEDY_USER: &str = "greedy";

/// Partitions that a greedy load of a table goes to: none of them is the hot one.
const GREEDY_PARTITIONS: Range<u32> = 20..28;

/// The two loads of a mix.
struct Plan {
    workload: GoodputWorkload,
    other_workload: GoodputWorkload,
    tables: Vec<String>,
    other_table: &'static str,
    other_partitions: Vec<u32>,
    logins: Vec<Option<Login>>,
    lines: Range<usize>,
    other_lines: Range<usize>,
}

impl Plan {
    fn of(kind: MixKind, workload: GoodputWorkload, options: &GoodputOptions) -> Plan {
        let count = options.connections.max(2);
        let everyone = Plan {
            workload,
            other_workload: workload,
            tables: vec![TABLE.to_owned()],
            other_table: TABLE,
            other_partitions: vec![PARTITION],
            logins: vec![options.login.clone(); count],
            lines: 0..count,
            other_lines: 0..count,
        };
        match kind {
            MixKind::Aggregates => Plan {
                workload: GoodputWorkload::PointRead,
                other_workload: GoodputWorkload::Count,
                ..everyone
            },
            MixKind::GreedyConnection => Plan {
                lines: 0..count - 1,
                other_lines: count - 1..count,
                ..everyone
            },
            MixKind::GreedyTable => Plan {
                tables: (1..SHARES as u32)
                    .map(|number| format!("{TABLE}{number}"))
                    .collect(),
                other_table: OTHER_TABLE,
                other_partitions: GREEDY_PARTITIONS.collect(),
                ..everyone
            },
            MixKind::GreedyUser => {
                let others = count - 1;
                let mut logins: Vec<_> = (0..others).map(|user| Some(login(&other_user(user)))).collect();
                logins.extend(vec![Some(login(GREEDY_USER)); count]);
                Plan {
                    logins,
                    lines: 0..others,
                    other_lines: others..others + count,
                    ..everyone
                }
            }
        }
    }
}

/// Name of one of the users that behave.
fn other_user(number: usize) -> String {
    format!("other_{number}")
}

/// The password of a user is its name.
fn login(user: &str) -> Login {
    Login {
        user: user.to_owned(),
        password: user.to_owned(),
    }
}

/// Requests a second of the load that behaves and of the other one, by what can be done of each.
fn rates(kind: MixKind, capacity_per_s: f64, other_capacity_per_s: f64) -> [f64; 2] {
    if kind == MixKind::Aggregates {
        let aggregates = AGGREGATES_LOAD * other_capacity_per_s;
        return [
            (READS_PER_AGGREGATE * aggregates).min(LOAD * capacity_per_s),
            aggregates,
        ];
    }
    let share = LOAD * capacity_per_s / SHARES;
    [(SHARES - 1.0) * share, GREEDY_SHARES * share]
}

pub fn mix(
    options: &GoodputOptions,
    kind: MixKind,
    workload: GoodputWorkload,
    doing: &mut Doing<'_>,
) -> Result<Mix, WireError> {
    let plan = Plan::of(kind, workload, options);
    let mut client = WireClient::connect(options.address, false, options.login.as_ref())?;
    if kind == MixKind::GreedyUser {
        create_users(&mut client, &plan, options)?;
    }
    let [requests, other] = prepare_both(&mut client, &plan, options)?;
    doing(&format!("{kind:?}: capacity"), 0.05);
    let capacity_per_s = capacity(options, &requests)?;
    let other_capacity_per_s = match plan.other_workload == plan.workload {
        true => capacity_per_s,
        false => capacity(options, &other)?,
    };
    let parts = vec![
        Part {
            requests,
            lines: plan.lines,
        },
        Part {
            requests: other,
            lines: plan.other_lines,
        },
    ];
    let connections = options.connections_of(plan.logins);
    let mut load = Load::new(options.address, parts, connections, options.deadline)?;
    let [per_s, other_per_s] = rates(kind, capacity_per_s, other_capacity_per_s);
    let mut alone = [Measurement::new()?, Measurement::new()?];
    let mut beside = [Measurement::new()?, Measurement::new()?];
    for round in 0..options.rounds.max(1) {
        let share = f64::from(round) / f64::from(options.rounds.max(1));
        doing(&format!("{kind:?}: round {}", round + 1), 0.1 + 0.9 * share);
        // In turns, so that both meet the machine's better and worse minutes.
        let mut offer = |is_alone: bool| match is_alone {
            true => offer_round(options, &mut load, &[per_s, 0.0], &mut alone),
            false => offer_round(options, &mut load, &[per_s, other_per_s], &mut beside),
        };
        offer(round % 2 == 0)?;
        offer(round % 2 == 1)?;
    }
    let kept_rounds = kept(alone[0].good_rounds_per_s(), beside[0].good_rounds_per_s());
    Ok(Mix {
        kind,
        workload: plan.workload,
        capacity_per_s,
        alone: alone[0].figures(per_s),
        beside: beside[0].figures(per_s),
        kept: median(&kept_rounds),
        kept_rounds,
        other_workload: plan.other_workload,
        other_capacity_per_s,
        other: beside[1].figures(other_per_s),
    })
}

/// Makes the tables of both loads.
fn prepare_both(
    client: &mut WireClient,
    plan: &Plan,
    options: &GoodputOptions,
) -> Result<[Requests; 2], WireError> {
    let preparation = |table: &str| Preparation {
        table: table.to_owned(),
        ..options.preparation()
    };
    let requests = match &plan.tables[..] {
        [table] => prepare(client, plan.workload, &preparation(table))?,
        tables => {
            let mut of_table = |table: &String| prepare(client, plan.workload, &preparation(table));
            let of_tables: Result<Vec<_>, _> = tables.iter().map(&mut of_table).collect();
            Requests::of_all(of_tables?)
        }
    };
    let preparation = Preparation {
        partitions: plan.other_partitions.clone(),
        ..preparation(plan.other_table)
    };
    Ok([requests, prepare(client, plan.other_workload, &preparation)?])
}

fn create_users(client: &mut WireClient, plan: &Plan, options: &GoodputOptions) -> Result<(), WireError> {
    if options.login.is_none() {
        return Err(WireError::NoLogin);
    }
    let users = plan.logins.iter().flatten().map(|login| login.user.as_str());
    for user in users.collect::<BTreeSet<_>>() {
        client.query(&format!(
            "CREATE ROLE IF NOT EXISTS {user} WITH PASSWORD = '{user}' AND LOGIN = true"
        ))?;
    }
    Ok(())
}

/// Computes the share of the goodput alone that is left beside the other load, round by round.
fn kept(alone: &[f64], beside: &[f64]) -> Vec<f64> {
    let rounds = beside.iter().zip(alone);
    rounds.map(|(beside, alone)| beside / alone.max(1e-3)).collect()
}

/// In a closed loop over all connections.
fn capacity(options: &GoodputOptions, requests: &Requests) -> Result<f64, WireError> {
    let connections = options.connections_of(vec![options.login.clone(); options.connections]);
    let parts = vec![Part {
        requests: requests.clone(),
        lines: 0..options.connections,
    }];
    let mut load = Load::new(options.address, parts, connections, options.deadline)?;
    closed(options, &mut load)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greedy_one_asks_for_a_hundred_shares_of_sixteen() {
        let [others, greedy] = rates(MixKind::GreedyConnection, 160_000.0, 160_000.0);
        assert!((others - 120_000.0).abs() < 1e-6 && (greedy - 800_000.0).abs() < 1e-6);
        assert!((greedy - 100.0 * others / 15.0).abs() < 1e-6);
    }

    #[test]
    fn nine_of_ten_requests_are_point_reads_unless_those_are_too_many() {
        assert_eq!(
            rates(MixKind::Aggregates, 1_000_000.0, 2_000.0),
            [180_000.0, 20_000.0]
        );
        assert_eq!(
            rates(MixKind::Aggregates, 100_000.0, 2_000.0),
            [80_000.0, 20_000.0]
        );
    }

    #[test]
    fn connections_are_divided_by_who_is_greedy() {
        let options = GoodputOptions::default();
        let of = |kind| Plan::of(kind, GoodputWorkload::Slice, &options);
        let connection = of(MixKind::GreedyConnection);
        assert_eq!((connection.lines, connection.other_lines), (0..15, 15..16));
        let table = of(MixKind::GreedyTable);
        assert_eq!((table.lines, table.other_table), (0..16, OTHER_TABLE));
        assert_eq!((table.tables.len(), table.other_partitions.len()), (15, 8));
        assert!(!table.tables.contains(&OTHER_TABLE.to_owned()));
        let user = of(MixKind::GreedyUser);
        assert_eq!((user.lines, user.other_lines), (0..15, 15..31));
        assert_eq!(user.logins[14], Some(login("other_14")));
        assert!(user.logins[15..].iter().all(|of| *of == Some(login(GREEDY_USER))));
        assert_eq!(of(MixKind::Aggregates).other_workload, GoodputWorkload::Count);
    }
}
