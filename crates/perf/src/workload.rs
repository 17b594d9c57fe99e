//! The workload that in-process and wire benchmarks share: five 34-byte blobs per row, one row per partition.

pub const COLUMNS: usize = 5;
pub const VALUE_BYTES: usize = 34;

/// Effect of a write on the view of its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum View {
    /// Its row moves to another key.
    Moved,
    /// Its row, which has the base row's key, changes.
    SameKey,
    /// The column that is written is not in it.
    OtherColumn,
}

/// Content of a log of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Logged {
    /// The write.
    Delta,
    /// Also the row before it and after it.
    Images,
}

impl Logged {
    /// Gives the table a log.
    pub fn statement(self) -> String {
        let images = match self {
            Logged::Delta => "",
            Logged::Images => ", 'preimage': 'full', 'postimage': 'true'",
        };
        format!("ALTER TABLE perf.cf WITH cdc = {{'enabled': 'true'{images}}}")
    }
}

pub fn create_statements(view: Option<View>) -> Vec<String> {
    let counters: Vec<String> = (0..COLUMNS).map(|column| format!("c{column} counter")).collect();
    let columns: Vec<String> = (0..COLUMNS).map(|column| format!("c{column} blob")).collect();
    let mut statements = vec![
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
        "CREATE TABLE IF NOT EXISTS perf.accounts (key bigint PRIMARY KEY, amount int)".to_owned(),
    ];
    let (selected, key) = match view {
        None => return statements,
        Some(View::Moved) => ("*", "c0, key"),
        Some(View::SameKey) => ("*", "key"),
        Some(View::OtherColumn) => ("key, c0", "c0, key"),
    };
    let conditions: Vec<String> = key
        .split(", ")
        .map(|name| format!("{name} IS NOT NULL"))
        .collect();
    statements.push(format!(
        "CREATE MATERIALIZED VIEW perf.viewed AS SELECT {selected} FROM perf.cf WHERE {} PRIMARY KEY ({key})",
        conditions.join(" AND ")
    ));
    statements
}

/// INSERT of an account that has more than any run moves.
pub const INSERT_ACCOUNT: &str = "INSERT INTO perf.accounts (key, amount) VALUES (?, 1000000000)";

/// The keys of the two accounts, twice.
pub const TRANSFER: &str = "BEGIN TRANSACTION \
     LET sender = (SELECT amount FROM perf.accounts WHERE key = ?); \
     LET receiver = (SELECT amount FROM perf.accounts WHERE key = ?); \
     IF sender.amount >= 1 THEN \
     UPDATE perf.accounts SET amount = sender.amount - 1 WHERE key = ?; \
     UPDATE perf.accounts SET amount = receiver.amount + 1 WHERE key = ?; \
     END IF COMMIT TRANSACTION";

/// Writes a column that the view of [`View::OtherColumn`] does not have.
pub fn other_column_statement() -> String {
    format!(
        "UPDATE perf.cf SET c4 = 0x{} WHERE key = ?",
        "a5".repeat(VALUE_BYTES)
    )
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
