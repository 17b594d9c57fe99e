use helenus_schema::{
    ClusteringOrder, ColumnId, ColumnKind, ColumnMetadata, TableId, TableKind, TableParams,
};
use helenus_transport::admission::{Admission, is_time_to_shed};
use helenus_transport::request_memory::RequestMemory;
use helenus_types::{CqlType, token_of};
use uuid::Uuid;

use super::*;

const SECOND_NS: u64 = 1_000_000_000;

fn table(number: u128) -> Arc<TableMetadata> {
    let mut table = TableMetadata {
        keyspace: "k".into(),
        name: format!("t{number}").into(),
        id: TableId(Uuid::from_u128(number)),
        kind: TableKind::Regular,
        columns: Vec::new(),
        partition_key_count: 0,
        clustering_count: 0,
        static_count: 0,
        next_column_id: ColumnId(1),
        dropped_columns: Vec::new(),
        indexes: Vec::new(),
        expiration_column: None,
        params: TableParams::default(),
    };
    table.set_columns(vec![ColumnMetadata {
        id: ColumnId(0),
        name: "p".into(),
        kind: ColumnKind::PartitionKey,
        position: 0,
        cql_type: CqlType::Text,
        order: ClusteringOrder::Ascending,
    }]);
    Arc::new(table)
}

/// A shard's requests in simulated time.
struct Load {
    hot: HotPartitions,
    now_ns: u64,
    random: u64,
    samples: u64,
    reports: Vec<String>,
    pressure: Pressure,
}

impl Load {
    fn new() -> Self {
        Load {
            hot: HotPartitions::new(5),
            now_ns: 1_000 * SECOND_NS,
            random: 3,
            samples: 0,
            reports: Vec::new(),
            pressure: Pressure::None,
        }
    }

    fn random_below(&mut self, bound: u64) -> u64 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % bound
    }

    fn request(&mut self, table: &Arc<TableMetadata>, operation: Operation, key: &str) {
        if self.hot.is_sampled() {
            self.samples += 1;
            let token = token_of(key.as_bytes());
            let report = self.hot.sample(
                table,
                operation,
                Some((token, key.as_bytes())),
                self.now_ns,
                self.pressure,
            );
            self.reports.extend(report);
        }
    }

    /// Requests evenly in time; `choose` gives each a key from a random number below 1,000.
    fn run(
        &mut self,
        per_second: u64,
        seconds: u64,
        table: &Arc<TableMetadata>,
        choose: impl Fn(u64) -> Option<String>,
    ) {
        for _ in 0..per_second * seconds {
            self.now_ns += SECOND_NS / per_second;
            let dice = self.random_below(1_000);
            let key = choose(dice).unwrap_or_else(|| format!("cold {}", self.random_below(100_000)));
            let operation = if dice.is_multiple_of(2) {
                Operation::Read
            } else {
                Operation::Write
            };
            self.request(table, operation, &key);
        }
    }

    fn activity(&self) -> Activity {
        self.hot.activity(self.now_ns)
    }
}

fn is_near(value: f64, wanted: f64) -> bool {
    (value - wanted).abs() <= 0.2 * wanted
}

#[test]
fn the_hottest_partitions_are_found_among_a_hundred_thousand() {
    let (mut load, table) = (Load::new(), table(1));
    load.run(100_000, 8, &table, |dice| match dice {
        0..50 => Some("five percent".to_owned()),
        50..70 => Some("two percent".to_owned()),
        70..80 => Some("one percent".to_owned()),
        _ => None,
    });
    let activity = load.activity();
    let keys: Vec<&str> = activity.partitions[..3]
        .iter()
        .map(|hot| hot.key.as_str())
        .collect();
    assert_eq!(keys, ["'five percent'", "'two percent'", "'one percent'"]);
    let hottest = &activity.partitions[0];
    assert!(is_near(hottest.reads_per_second, 2_500.0), "{hottest:?}");
    assert!(is_near(hottest.writes_per_second, 2_500.0), "{hottest:?}");
    assert!(is_near(hottest.share, 0.05), "{hottest:?}");
    assert!(activity.partitions.len() <= REPORTED_PER_TABLE_MAX);
    assert!(
        activity.partitions[3..].iter().all(|cold| cold.share < 0.005),
        "{activity:?}"
    );
    let of_table = &activity.tables[0];
    assert!(
        is_near(of_table.reads_per_second + of_table.writes_per_second, 100_000.0),
        "{of_table:?}"
    );
    // A twentieth is not worth a line in the log.
    assert_eq!(load.reports, Vec::<String>::new());
}

#[test]
fn what_is_looked_at_does_not_grow_with_the_load() {
    let (mut load, table) = (Load::new(), table(1));
    load.run(20, 10, &table, |_| Some("rare".to_owned()));
    assert_eq!(load.samples, 200, "at a low load each request is seen");
    let rare = &load.activity().partitions[0];
    assert!(
        is_near(rare.reads_per_second + rare.writes_per_second, 20.0),
        "{rare:?}"
    );
    let before = load.samples;
    load.run(1_000_000, 1, &table, |_| None);
    let samples = load.samples - before;
    assert!(
        (1_000..30_000).contains(&samples),
        "{samples} samples of a million"
    );
}

#[test]
fn what_is_over_is_forgotten() {
    let (mut load, table) = (Load::new(), table(1));
    load.run(10_000, 2, &table, |_| Some("hot".to_owned()));
    assert_eq!(load.activity().partitions.len(), 1);
    load.now_ns += 120 * SECOND_NS;
    assert_eq!(load.activity(), Activity::default());
}

#[test]
fn a_partition_that_becomes_hot_is_known_at_once_and_told_of_once_a_minute() {
    let (mut load, table) = (Load::new(), table(1));
    load.run(50_000, 2, &table, |_| None);
    assert!(
        load.hot
            .samples
            .borrow()
            .heaviest
            .clone()
            .is_some_and(|heaviest| heaviest.share < 0.05)
    );
    let choose = |dice| (dice < 900).then(|| "celebrity".to_owned());
    load.run(50_000, 1, &table, choose);
    let heaviest = load.hot.samples.borrow().heaviest.clone().unwrap();
    assert_eq!(heaviest.token, token_of(b"celebrity"));
    assert!(heaviest.share > 0.7, "{heaviest:?}");
    assert_eq!(load.reports.len(), 1, "{:?}", load.reports);
    assert!(
        load.reports[0].starts_with("partition 'celebrity' of k.t1 takes "),
        "{:?}",
        load.reports
    );
    load.run(5_000, 65, &table, choose);
    assert_eq!(load.reports.len(), 2, "{:?}", load.reports);
}

#[test]
fn one_tables_hot_partitions_do_not_hide_anothers_and_tables_are_bounded() {
    let (mut load, busy, quiet) = (Load::new(), table(1), table(2));
    for round in 0..200_000 {
        load.now_ns += 20_000;
        load.request(&busy, Operation::Read, &format!("busy {}", round % 8));
        if round % 100 == 0 {
            load.request(&quiet, Operation::Write, "quiet");
        }
    }
    let activity = load.activity();
    let quiet = activity
        .partitions
        .iter()
        .find(|hot| hot.key == "'quiet'")
        .unwrap();
    assert!((250.0..750.0).contains(&quiet.writes_per_second), "{quiet:?}");
    for number in 10..1_000 {
        load.request(&table(number), Operation::Read, "one");
    }
    load.now_ns += 2 * SECOND_NS;
    let tables = load.activity().tables;
    assert!(tables.len() <= TABLES_MAX);
    assert!(tables.iter().any(|known| &*known.table == "t1"));
}

#[test]
fn a_long_key_is_shown_by_its_first_bytes() {
    let (mut load, table) = (Load::new(), table(1));
    load.request(&table, Operation::Read, &"x".repeat(10_000));
    let key = &load.activity().partitions[0].key;
    assert_eq!(key.len(), 2 + 2 * KEY_BYTES_MAX + 3);
    assert!(key.starts_with("0x7878") && key.ends_with("78..."));
}

/// One shard in simulated time: a queue, served oldest first, and what each kind of answer costs.
struct Overload {
    load: Load,
    table: Arc<TableMetadata>,
    sheds: bool,
    /// Partitions that share the hot requests evenly.
    hot_partitions: u64,
    served: [u64; 2],
    offered: [u64; 2],
}

/// Time of a served request, in ns; the others are the parts of it that a refusal by its header and one by its key take.
const SERVED_NS: u64 = 10_000;
const REFUSED_NS: u64 = SERVED_NS / 20;
const SHED_NS: u64 = SERVED_NS / 10;

/// As of a client that asked for errors.
const WAIT_NS_MAX: u64 = 5_000_000;
const DEADLINE_NS: u64 = 10_000_000;

impl Overload {
    /// `hot_permille` of the requests are for one partition; so many times the capacity is offered for three seconds, of
    /// which the last two are counted.
    fn run(&mut self, times: u64, hot_permille: u64) {
        let began_ns = self.load.now_ns;
        let gap_ns = SERVED_NS / times;
        let count = 3 * SECOND_NS / gap_ns;
        for request in 0..count {
            let arrived_ns = began_ns + request * gap_ns;
            let is_hot = self.load.random_below(1_000) < hot_permille;
            let key = if is_hot {
                format!("celebrity {}", self.load.random_below(self.hot_partitions))
            } else {
                format!("cold {}", request % 10_000)
            };
            self.load.now_ns = self.load.now_ns.max(arrived_ns);
            let is_counted = request > count / 3;
            self.offered[usize::from(is_hot)] += u64::from(is_counted);
            let is_in_time = self.answer(arrived_ns, &key);
            self.served[usize::from(is_hot)] += u64::from(is_counted && is_in_time);
        }
    }

    /// Answers the oldest request; true if it is served before its deadline.
    fn answer(&mut self, arrived_ns: u64, key: &str) -> bool {
        let delay_ns = self.load.now_ns - arrived_ns;
        if delay_ns > WAIT_NS_MAX {
            self.load.now_ns += REFUSED_NS;
            return false;
        }
        let token = token_of(key.as_bytes());
        let table = self.table.clone();
        self.load.request(&table, Operation::Write, key);
        if self.sheds
            && is_time_to_shed(delay_ns, WAIT_NS_MAX)
            && self.load.hot.is_to_be_shed(table.id, token)
        {
            self.load.now_ns += SHED_NS;
            return false;
        }
        self.load.now_ns += SERVED_NS;
        self.load.now_ns - arrived_ns <= DEADLINE_NS
    }

    fn share_served(&self, is_hot: bool) -> f64 {
        self.served[usize::from(is_hot)] as f64 / self.offered[usize::from(is_hot)] as f64
    }
}

fn overload(sheds: bool, times: u64, hot_permille: u64) -> Overload {
    overload_of(1, sheds, times, hot_permille)
}

fn overload_of(hot_partitions: u64, sheds: bool, times: u64, hot_permille: u64) -> Overload {
    let mut overload = Overload {
        load: Load::new(),
        table: table(1),
        sheds,
        hot_partitions,
        served: [0; 2],
        offered: [0; 2],
    };
    overload.run(times, hot_permille);
    overload
}

#[test]
fn at_five_times_the_capacity_those_beside_a_hot_partition_are_served() {
    let with = overload(true, 5, 900);
    assert!(with.share_served(false) >= 0.95, "{}", with.share_served(false));
    // Without shedding everybody is refused alike.
    let without = overload(false, 5, 900);
    assert!(
        without.share_served(false) < 0.5,
        "{}",
        without.share_served(false)
    );
}

#[test]
fn a_hot_partition_has_what_the_others_leave() {
    let with = overload(true, 2, 900);
    assert!(with.share_served(false) >= 0.95, "{}", with.share_served(false));
    let goodput = (with.served[0] + with.served[1]) as f64 / (2 * SECOND_NS / SERVED_NS) as f64;
    assert!(goodput > 0.85, "{goodput}");
    // Where it is alone nobody gains by a dearer refusal.
    let alone = overload(true, 5, 1_000);
    let without = overload(false, 5, 1_000);
    assert_eq!(alone.served, without.served);
}

/// Reads and writes of one key are of two partitions where they are of two tables: only one of them was refused first, the
/// other crowded everybody out.
#[test]
fn all_heavy_partitions_are_refused_before_the_others() {
    for partitions in [2, 3] {
        let with = overload_of(partitions, true, 5, 900);
        let share = with.share_served(false);
        assert!(share >= 0.95, "{partitions}: {share}");
    }
}

/// One shard in simulated time, asked for many partitions of several tables.
struct TableOverload {
    load: Load,
    admission: Admission,
    tables: Vec<Arc<TableMetadata>>,
    /// By table.
    served: Vec<u64>,
    offered: Vec<u64>,
}

impl TableOverload {
    fn new(tables: u128) -> Self {
        let memory = RequestMemory::of_shard(1 << 30, true);
        TableOverload {
            load: Load::new(),
            admission: Admission::new(true, Duration::from_secs(2), memory, Arc::default()),
            tables: (1..=tables).map(table).collect(),
            served: vec![0; tables as usize],
            offered: vec![0; tables as usize],
        }
    }

    /// Offers so many thousandths of the capacity to each table, for `seconds`, of which the last two are counted.
    fn run(&mut self, permille: &[u64], seconds: u64) {
        self.served.fill(0);
        self.offered.fill(0);
        let (began_ns, all) = (self.load.now_ns, permille.iter().sum::<u64>());
        let count = seconds * SECOND_NS / SERVED_NS * all / 1_000;
        for request in 0..count {
            let arrived_ns = began_ns + request * 1_000 * SERVED_NS / all;
            let mut dice = self.load.random_below(all);
            let of_dice = permille.iter().position(|share| match dice < *share {
                true => true,
                false => {
                    dice -= share;
                    false
                }
            });
            let number = of_dice.unwrap();
            self.load.now_ns = self.load.now_ns.max(arrived_ns);
            let is_counted = arrived_ns >= began_ns + (seconds - 2) * SECOND_NS;
            self.offered[number] += u64::from(is_counted);
            let is_in_time = self.answer(arrived_ns, number, request % 10_000);
            self.served[number] += u64::from(is_counted && is_in_time);
        }
    }

    fn answer(&mut self, arrived_ns: u64, number: usize, partition: u64) -> bool {
        let now_ns = self.load.now_ns;
        let delay_ns = now_ns - arrived_ns;
        let table = self.tables[number].clone();
        let hot = &self.load.hot;
        let is_beyond_rate = hot.table_rate.is_limited() && hot.is_beyond_rate_of(table.id, now_ns);
        if is_beyond_rate {
            hot.shed_requests.set(hot.shed_requests.get() + 1);
        }
        if !is_beyond_rate {
            self.admission.saw_delay(delay_ns, now_ns);
            if delay_ns > self.admission.wait_ns_max(true) {
                self.load.now_ns += REFUSED_NS;
                return false;
            }
        }
        self.load.pressure = self.admission.pressure();
        if self.load.hot.table_rate.is_limited() {
            let until_ns = now_ns + first_refused::RATE_IN_FORCE_NS;
            self.admission.refuses_at_once_until(until_ns);
        }
        self.load
            .request(&table, Operation::Read, &format!("key {partition}"));
        self.load.now_ns += if is_beyond_rate { REFUSED_NS } else { SERVED_NS };
        !is_beyond_rate && self.load.now_ns - arrived_ns <= DEADLINE_NS
    }

    fn share_served(&self, tables: Range<usize>) -> f64 {
        let of = |counts: &[u64]| counts[tables.clone()].iter().sum::<u64>() as f64;
        of(&self.served) / of(&self.offered)
    }

    /// As a part of the capacity.
    fn goodput(&self, tables: Range<usize>) -> f64 {
        self.served[tables].iter().sum::<u64>() as f64 / (2 * SECOND_NS / SERVED_NS) as f64
    }
}

/// One table of sixteen that was sent a hundred times what each of the others was sent left these 19 % of what they asked for, over the same
/// connections.
#[test]
fn tables_beside_a_greedy_one_are_served_and_it_has_what_they_leave() {
    let mut overload = TableOverload::new(16);
    let mut permille = [50; 16];
    permille[0] = 4_000;
    overload.run(&permille, 6);
    let others = overload.share_served(1..16);
    assert!(others >= 0.95, "{others}");
    let greedy = overload.goodput(0..1);
    // Refusing takes a fifth of the time.
    assert!(greedy >= 0.03, "{greedy}");
    // Once it is no longer greedy nobody is refused, after a second.
    permille[0] = 50;
    overload.run(&permille, 4);
    assert_eq!(overload.share_served(0..16), 1.0);
}

#[test]
fn of_two_tables_that_both_want_more_than_half_neither_is_left_with_little() {
    let mut overload = TableOverload::new(2);
    overload.run(&[2_400, 800], 6);
    assert!(overload.goodput(0..1) >= 0.20, "{}", overload.goodput(0..1));
    assert!(overload.goodput(1..2) >= 0.50, "{}", overload.goodput(1..2));
    // What the others do not want is the greedy one's.
    overload.run(&[2_400, 200], 6);
    assert!(
        overload.share_served(1..2) >= 0.95,
        "{}",
        overload.share_served(1..2)
    );
    assert!(overload.goodput(0..1) >= 0.55, "{}", overload.goodput(0..1));
}

#[test]
fn a_table_with_most_requests_has_no_rate_any_more_once_all_can_be_served() {
    let mut overload = TableOverload::new(2);
    overload.run(&[4_000, 400], 4);
    assert!(overload.load.hot.table_rate.is_limited());
    overload.run(&[700, 70], 6);
    assert!(!overload.load.hot.table_rate.is_limited());
    assert_eq!(overload.share_served(0..2), 1.0);
}

/// The rate of an overload was in force until the next sample, 2,000 requests later at the most, on a node that had nothing to do.
#[test]
fn a_rate_does_not_outlive_the_load_that_it_was_found_for() {
    let mut overload = TableOverload::new(16);
    let mut permille = [50; 16];
    permille[0] = 4_000;
    overload.run(&permille, 4);
    let (hot, greedy) = (&overload.load.hot, overload.tables[0].id);
    let refused_of_burst = |now_ns: u64| {
        let refused = (0..500).filter(|_| hot.is_beyond_rate_of(greedy, now_ns));
        refused.count()
    };
    assert!(refused_of_burst(overload.load.now_ns) > 300);
    assert_eq!(refused_of_burst(overload.load.now_ns + SECOND_NS), 0);
    assert!(!hot.table_rate.is_limited());
}

#[test]
fn a_table_that_is_alone_or_like_the_others_is_not_refused_first() {
    let alike: [&[u64]; 4] = [
        &[3_000],
        &[1_000, 1_000, 1_000],
        &[1_900, 1_100],
        &[900, 900, 900, 300],
    ];
    for permille in alike {
        let mut overload = TableOverload::new(permille.len() as u128);
        overload.run(permille, 4);
        assert_eq!(overload.load.hot.shed_requests(), 0, "{permille:?}");
    }
    // Nor where everything can be served.
    let mut overload = TableOverload::new(2);
    overload.run(&[700, 100], 4);
    assert_eq!(overload.load.hot.shed_requests(), 0);
    assert_eq!(overload.share_served(0..2), 1.0);
}
