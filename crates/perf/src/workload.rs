//! The workload that in-process and wire benchmarks share: five 34-byte blobs per row, one row per partition.

pub const COLUMNS: usize = 5;
pub const VALUE_BYTES: usize = 34;

pub fn create_statements() -> [String; 3] {
    let counters: Vec<String> = (0..COLUMNS).map(|column| format!("c{column} counter")).collect();
    let columns: Vec<String> = (0..COLUMNS).map(|column| format!("c{column} blob")).collect();
    [
        "CREATE KEYSPACE IF NOT EXISTS perf \
         WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
            .to_owned(),
        format!(
            "CREATE TABLE IF NOT EXISTS perf.cf (key bigint PRIMARY KEY, {})",
            columns.join(", ")
        ),
        format!(
            "CREATE TABLE IF NOT EXISTS perf.counters (key bigint PRIMARY KEY, {})",
            counters.join(", ")
        ),
    ]
}

/// One key's counters, all of them.
pub fn count_statement() -> String {
    let increments: Vec<String> = (0..COLUMNS)
        .map(|column| format!("c{column} = c{column} + {}", column + 1))
        .collect();
    format!("UPDATE perf.counters SET {} WHERE key = ?", increments.join(", "))
}

pub fn insert_statement() -> String {
    format!(
        "INSERT INTO perf.cf (key, {}) VALUES (?{})",
        column_names(),
        ", ?".repeat(COLUMNS)
    )
}

pub fn select_statement() -> String {
    format!("SELECT {} FROM perf.cf WHERE key = ?", column_names())
}

/// Writes what is there already, under the condition that it is, or that it is not.
pub fn conditional_statement(is_met: bool) -> String {
    let value = "a5".repeat(VALUE_BYTES);
    let expected = if is_met { &value } else { "5a" };
    let assignments: Vec<String> = (0..COLUMNS)
        .map(|column| format!("c{column} = 0x{value}"))
        .collect();
    format!(
        "UPDATE perf.cf SET {} WHERE key = ? IF c0 = 0x{expected}",
        assignments.join(", ")
    )
}

fn column_names() -> String {
    let names: Vec<String> = (0..COLUMNS).map(|column| format!("c{column}")).collect();
    names.join(", ")
}
