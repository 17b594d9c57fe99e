//! Statements as large as a request may be: of many tokens, of many bytes, or of many of whatever counts.

use std::fmt::Write;

use helenus_storage_model::Chance;

/// The most tokens and bytes that are written: beyond what is accepted.
const ITEMS_MAX: usize = 130_000;
const BYTES_MAX: usize = 4 << 20;

/// Each form grows with its number of items.
const FORMS: [fn(usize) -> String; 28] = [
    |count| {
        format!(
            "INSERT INTO fuzz.b (k, c, d, l) VALUES ('a', 1, now(), [{}])",
            list(count, "1")
        )
    },
    |count| {
        format!(
            "INSERT INTO fuzz.b (k, c, d, m) VALUES ('a', 1, now(), {{{}}})",
            numbered(count, "'{}': 1")
        )
    },
    |count| {
        format!(
            "INSERT INTO fuzz.b (k, c, d, e) VALUES ('a', 1, now(), {{{}}})",
            numbered(count, "'{}'")
        )
    },
    |count| format!("SELECT {} FROM fuzz.a", list(count, "v")),
    |count| format!("SELECT {} FROM fuzz.a", list(count, "CAST(k AS text)")),
    |count| format!("SELECT * FROM fuzz.a WHERE k IN ({})", numbered(count, "{}")),
    |count| format!("SELECT * FROM fuzz.a WHERE k IN ({})", list(count, "?")),
    |count| {
        format!(
            "SELECT * FROM fuzz.b WHERE k = 'a' AND (c, d) IN ({})",
            list(count, "(1, now())")
        )
    },
    |count| {
        format!(
            "SELECT * FROM fuzz.b WHERE v IN ({}) ALLOW FILTERING",
            list(count, "0xcafe")
        )
    },
    |count| {
        format!(
            "SELECT * FROM fuzz.a WHERE {} ALLOW FILTERING",
            joined(count, " AND ", "v >= 'a'")
        )
    },
    |count| {
        format!(
            "UPDATE fuzz.b SET {} WHERE k = 'a' AND c = 1 AND d = now()",
            list(count, "m['a'] = 1")
        )
    },
    |count| {
        format!(
            "UPDATE fuzz.b SET {} WHERE k = 'a' AND c = 1 AND d = now()",
            list(count, "e = e + {'a'}")
        )
    },
    |count| {
        format!(
            "BEGIN UNLOGGED BATCH {} APPLY BATCH",
            numbered(count / 6, "INSERT INTO fuzz.a (k, v) VALUES ({}, 'b');")
        )
    },
    |count| {
        format!(
            "BEGIN BATCH {} APPLY BATCH",
            joined(count / 6, " ", "INSERT INTO fuzz.a (k, v) VALUES (?, ?);")
        )
    },
    |count| {
        format!(
            "INSERT INTO fuzz.a (k, v) VALUES (1, '{}')",
            "x".repeat(bytes(count))
        )
    },
    |count| {
        format!(
            "INSERT INTO fuzz.a (k, v) VALUES (1, '{}')",
            "é€𝛑".repeat(bytes(count) / 9)
        )
    },
    |count| {
        format!(
            "SELECT * FROM fuzz.a WHERE v IN ({}) ALLOW FILTERING",
            list(count, "'é€𝛑'")
        )
    },
    |count| {
        format!(
            "INSERT INTO fuzz.b (k, c, d, v) VALUES ('a', 1, now(), 0x{})",
            "ab".repeat(bytes(count) / 2)
        )
    },
    |count| {
        format!(
            "INSERT INTO fuzz.b JSON '{{\"k\": \"a\", \"c\": 1, \"l\": [{}]}}'",
            list(count, "1")
        )
    },
    |count| {
        format!(
            "INSERT INTO fuzz_b.d JSON '{{\"k\": \"0xab\", \"v\": {{{}}}}}'",
            numbered(count, "\"{}\": [\"a\"]")
        )
    },
    |count| {
        format!(
            "CREATE TABLE fuzz.large ({}, PRIMARY KEY (c0))",
            numbered(count, "c{} int")
        )
    },
    |count| {
        format!(
            "CREATE TYPE fuzz.large ({})",
            numbered(count, "f{} frozen<list<int>>")
        )
    },
    |count| format!("ALTER TABLE fuzz.a ADD {}", numbered(count, "x{} text")),
    |count| format!("/*{}*/ SELECT * FROM fuzz.a", "*".repeat(bytes(count))),
    |count| {
        format!(
            "{}SELECT * FROM fuzz.a{}",
            " ".repeat(count),
            "\n".repeat(bytes(count))
        )
    },
    |count| format!("SELECT {} FROM fuzz.a", "(".repeat(count)),
    |count| format!("SELECT a FROM \"{}\"", "\"\"".repeat(bytes(count) / 2)),
    |count| format!("SELECT * FROM fuzz.a WHERE k = {}", "9".repeat(count)),
];

/// A large statement; most are far from the largest.
pub fn large(chance: &Chance) -> String {
    let form = *chance.pick(&FORMS);
    // As many from 1 to 2 thousand as from 64 to 128.
    let magnitude = chance.count(8);
    let count = (1_000 << magnitude) + chance.count(1_000 << magnitude);
    form(count.min(ITEMS_MAX))
}

fn bytes(count: usize) -> usize {
    (count * 32).min(BYTES_MAX)
}

fn list(count: usize, item: &str) -> String {
    joined(count, ", ", item)
}

fn joined(count: usize, separator: &str, item: &str) -> String {
    let mut text = item.to_owned();
    for _ in 1..count {
        text.push_str(separator);
        text.push_str(item);
    }
    text
}

/// `{}` in the item is its number. Statements of a batch bring their own separator.
fn numbered(count: usize, item: &str) -> String {
    let (before, after) = item.split_once("{}").unwrap_or((item, ""));
    let separator = if item.ends_with(';') { " " } else { ", " };
    let mut text = String::new();
    for number in 0..count {
        let separator = if number == 0 { "" } else { separator };
        // Writing to a string cannot fail.
        let _written = write!(text, "{separator}{before}{number}{after}");
    }
    text
}
