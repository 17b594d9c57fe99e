//! The page: a pure function of a snapshot.

use helenus_terminal::{Line, Style};

use super::snapshot::Snapshot;
use crate::terminal::bytes_text;

/// Rows of tables and of partitions that are shown: the page fits a terminal of 40 lines.
const TABLES_MAX: usize = 8;
const PARTITIONS_MAX: usize = 15;

/// The columns that names may take.
const NAME_WIDTH: usize = 52;

/// Lays the lines out for a terminal: headings, which follow an empty line, are bold.
pub fn page(snapshot: &Snapshot) -> Vec<Line> {
    let mut is_heading = true;
    lines(snapshot)
        .into_iter()
        .map(|line| {
            let style = if is_heading { Style::Bold } else { Style::Plain };
            is_heading = line.is_empty();
            Line::new(style, line)
        })
        .collect()
}

pub fn lines(snapshot: &Snapshot) -> Vec<String> {
    let mut lines = vec![
        format!(
            "helenus top   {}   {} shards   {} connections   {:.1} s",
            snapshot.node, snapshot.shards, snapshot.connections, snapshot.interval_s
        ),
        String::new(),
    ];
    lines.extend(requests(snapshot));
    lines.extend(state(snapshot));
    lines.extend(tables(snapshot));
    lines.extend(partitions(snapshot));
    lines
}

fn requests(snapshot: &Snapshot) -> Vec<String> {
    let total: f64 = snapshot.requests_per_second.iter().map(|(_, rate)| rate).sum();
    let kinds = snapshot
        .requests_per_second
        .iter()
        .map(|(kind, rate)| format!("{kind} {}", number(*rate)));
    let errors = snapshot
        .errors_per_second
        .iter()
        .map(|(kind, rate)| format!("{kind} {}", number(*rate)));
    let errors: Vec<String> = errors.collect();
    let errors = if errors.is_empty() {
        "none".to_owned()
    } else {
        errors.join("   ")
    };
    vec![
        line(
            "requests/s",
            &format!("{}   {}", number(total), kinds.collect::<Vec<_>>().join("   ")),
        ),
        line("latency", &latencies(snapshot)),
        line("errors/s", &errors),
        line(
            "admission",
            &format!(
                "refused {}/s   queue delay {:.1} ms   requests hold {}",
                number(snapshot.refused_per_second),
                snapshot.queue_delay_us / 1_000.0,
                bytes_text(snapshot.request_bytes as u64)
            ),
        ),
    ]
}

fn latencies(snapshot: &Snapshot) -> String {
    let texts = snapshot.latencies.iter().map(|latency| {
        format!(
            "{} p50 {:.2} ms p99 {:.2} ms",
            latency.kind, latency.p50_ms, latency.p99_ms
        )
    });
    let texts: Vec<String> = texts.collect();
    if texts.is_empty() {
        "-".to_owned()
    } else {
        texts.join("   ")
    }
}

fn state(snapshot: &Snapshot) -> Vec<String> {
    vec![
        line(
            "cache hits",
            &format!(
                "rows {}   index pages {}   data pages {}   disk reads {}/s",
                percent(snapshot.row_cache_hit_ratio),
                percent(snapshot.index_page_hit_ratio),
                percent(snapshot.data_page_hit_ratio),
                number(snapshot.disk_reads_per_second)
            ),
        ),
        line(
            "memory",
            &format!(
                "memtables {}   row cache {}   SSTables {}",
                bytes_text(snapshot.memtable_bytes as u64),
                bytes_text(snapshot.row_cache_bytes as u64),
                snapshot.sstables
            ),
        ),
        line(
            "compactions",
            &format!(
                "running {}   pending {}   writing {}/s",
                snapshot.compactions_running,
                snapshot.compactions_pending,
                bytes_text(snapshot.compaction_written_bytes_per_second as u64)
            ),
        ),
    ]
}

fn tables(snapshot: &Snapshot) -> Vec<String> {
    let mut lines = vec![
        String::new(),
        format!("{:NAME_WIDTH$}{:>11}{:>11}", "table", "reads/s", "writes/s"),
    ];
    for table in snapshot.tables.iter().take(TABLES_MAX) {
        lines.push(format!(
            "{}{:>11}{:>11}",
            name(&format!("{}.{}", table.keyspace, table.table)),
            number(table.reads_per_second),
            number(table.writes_per_second)
        ));
    }
    lines
}

fn partitions(snapshot: &Snapshot) -> Vec<String> {
    let mut lines = vec![
        String::new(),
        format!(
            "{:NAME_WIDTH$}{:>11}{:>11}{:>9}{:>7}",
            "hottest partition", "reads/s", "writes/s", "share", "shard"
        ),
    ];
    for partition in snapshot.partitions.iter().take(PARTITIONS_MAX) {
        lines.push(format!(
            "{}{:>11}{:>11}{:>9}{:>7}",
            name(&format!(
                "{}.{}  {}",
                partition.keyspace, partition.table, partition.key
            )),
            number(partition.reads_per_second),
            number(partition.writes_per_second),
            percent(Some(partition.share)),
            partition.shard
        ));
    }
    lines
}

fn line(name: &str, text: &str) -> String {
    format!("{name:14}{text}")
}

/// As wide as its column: filled up, or cut. Control characters would move the cursor.
fn name(text: &str) -> String {
    let printable = text
        .chars()
        .map(|character| if character.is_control() { '?' } else { character });
    let mut name: String = printable.collect();
    if name.chars().count() > NAME_WIDTH - 1 {
        name = name.chars().take(NAME_WIDTH - 4).collect();
        name.push_str("...");
    }
    format!("{name:NAME_WIDTH$}")
}

fn percent(ratio: Option<f64>) -> String {
    ratio.map_or("-".to_owned(), |ratio| format!("{:.1} %", ratio * 100.0))
}

/// Whole numbers with commas; one decimal where it matters.
fn number(value: f64) -> String {
    if value > 0.0 && value < 9.95 {
        return format!("{value:.1}");
    }
    // A sum of nothing is a negative zero.
    let digits = format!("{:.0}", value + 0.0);
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::reading::{HotPartition, Reading, Sample};
    use super::*;

    fn reading(at_s: f64, counters: &[(&str, &str, f64)]) -> Reading {
        let samples = counters.iter().map(|&(name, labels, value)| Sample {
            name: name.to_owned(),
            labels: labels.to_owned(),
            value,
        });
        Reading {
            at_s,
            samples: samples.collect(),
            partitions: Vec::new(),
        }
    }

    fn partition(key: &str, reads_per_second: f64, share: f64, shard: i32) -> HotPartition {
        HotPartition {
            keyspace: "shop".to_owned(),
            table: "orders".to_owned(),
            key: key.to_owned(),
            reads_per_second,
            writes_per_second: 12.4,
            share,
            shard,
        }
    }

    const LATENCY: &str = "helenus_cql_request_duration_seconds_bucket";

    fn snapshot() -> Snapshot {
        let before = reading(
            10.0,
            &[
                ("helenus_cql_requests_total", "shard=\"0\",kind=\"read\"", 5_000.0),
                ("helenus_cql_requests_total", "shard=\"1\",kind=\"read\"", 7_000.0),
                ("helenus_row_cache_hits_total", "shard=\"0\"", 100.0),
                (LATENCY, "kind=\"read\",le=\"0.001\"", 1_000.0),
                (LATENCY, "kind=\"read\",le=\"0.002\"", 1_000.0),
                (LATENCY, "kind=\"read\",le=\"+Inf\"", 1_000.0),
            ],
        );
        let mut after = reading(
            12.0,
            &[
                (
                    "helenus_cql_requests_total",
                    "shard=\"0\",kind=\"read\"",
                    25_000.0,
                ),
                ("helenus_cql_requests_total", "shard=\"1\",kind=\"read\"", 9_000.0),
                ("helenus_cql_requests_total", "shard=\"0\",kind=\"write\"", 10.0),
                (LATENCY, "kind=\"read\",le=\"0.001\"", 1_090.0),
                (LATENCY, "kind=\"read\",le=\"0.002\"", 1_198.0),
                (LATENCY, "kind=\"read\",le=\"+Inf\"", 1_200.0),
                (LATENCY, "kind=\"write\",le=\"0.001\"", 0.0),
                (LATENCY, "kind=\"write\",le=\"0.002\"", 0.0),
                (LATENCY, "kind=\"write\",le=\"+Inf\"", 10.0),
                (
                    "helenus_cql_errors_total",
                    "shard=\"1\",type=\"RateLimited\"",
                    2_468.0,
                ),
                ("helenus_cql_requests_refused_total", "shard=\"0\"", 50.0),
                ("helenus_queue_delay_seconds", "shard=\"0\"", 0.000_3),
                ("helenus_queue_delay_seconds", "shard=\"1\"", 0.005_25),
                ("helenus_connections", "shard=\"0\"", 3.0),
                ("helenus_connections", "shard=\"1\"", 4.0),
                ("helenus_row_cache_hits_total", "shard=\"0\"", 1_000.0),
                ("helenus_row_cache_misses_total", "shard=\"0\"", 100.0),
                ("helenus_memtable_bytes", "shard=\"0\"", 1_048_576.0),
                ("helenus_sstables", "shard=\"0\"", 4.0),
                ("helenus_compaction_running", "shard=\"0\"", 1.0),
                (
                    "helenus_table_requests_per_second",
                    "shard=\"0\",keyspace=\"shop\",table=\"orders\",kind=\"read\"",
                    11_000.0,
                ),
                (
                    "helenus_table_requests_per_second",
                    "shard=\"1\",keyspace=\"shop\",table=\"orders\",kind=\"write\"",
                    5.0,
                ),
            ],
        );
        after.partitions = vec![
            partition("'second'", 10.0, 0.004, 1),
            partition("'celebrity\u{1b}[2J'", 9_876.0, 0.8765, 0),
            partition(&format!("'{}'", "long ".repeat(20)), 5.0, 0.002, 1),
        ];
        Snapshot::between("127.0.0.1:9042", &before, &after)
    }

    #[test]
    fn the_page_of_a_snapshot() {
        let page = lines(&snapshot()).join("\n") + "\n";
        assert_eq!(page, include_str!("screen.golden"));
    }

    #[test]
    fn an_idle_node_has_a_page_too() {
        let idle = Reading::default();
        let page = lines(&Snapshot::between("n:1", &idle, &idle)).join("\n");
        assert!(page.contains("errors/s      none"), "{page}");
        assert!(page.contains("rows -   index pages -"), "{page}");
    }
}
