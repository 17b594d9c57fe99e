//! Attacks by indexes: on what they keep, how they are built, and what is asked of them.

use helenus_protocol::Opcode;

use super::arena::Arena;
use super::statements::{body, pipeline, repeat};
use super::{Attack, Progress};
use crate::wire::Client;

pub const LARGE_TERMS: Attack = Attack {
    name: "large-terms",
    about: "indexed texts of 64 KiB, and searches for them",
    run: |arena, progress| {
        let indexes = [
            "CREATE INDEX IF NOT EXISTS terms_v ON attack.terms (v)",
            "CREATE INDEX IF NOT EXISTS terms_m ON attack.terms (keys(m))",
            "CREATE INDEX IF NOT EXISTS terms_s ON attack.terms (s) USING 'sai'",
        ];
        let table = "attack.terms (p int PRIMARY KEY, v text, s text, m map<text, text>)";
        on_table(arena, progress, table, &indexes, || {
            let long = "t".repeat(64 << 10);
            repeat(arena, progress, |round| {
                let (p, term) = (round / 6 % 64, format!("{long}{}", round / 6));
                match round % 6 {
                    0 => format!("INSERT INTO attack.terms (p, v) VALUES ({p}, '{term}')"),
                    1 => format!("INSERT INTO attack.terms (p, s) VALUES ({p}, '{term}')"),
                    2 => format!("UPDATE attack.terms SET m['{term}'] = '{term}' WHERE p = {p}"),
                    3 => format!("SELECT p FROM attack.terms WHERE v = '{term}'"),
                    4 => format!("SELECT p FROM attack.terms WHERE s = '{term}'"),
                    _ => format!("SELECT p FROM attack.terms WHERE m CONTAINS KEY '{term}'"),
                }
            });
        });
    },
};

pub const DISTINCT_TERMS: Attack = Attack {
    name: "distinct-terms",
    about: "a new term with each write, as fast as they go, and ranges over all of them",
    run: |arena, progress| {
        let indexes = [
            "CREATE INDEX IF NOT EXISTS distinct_v ON attack.distinct_terms (v) USING 'sai'",
            "CREATE INDEX IF NOT EXISTS distinct_t ON attack.distinct_terms (t)",
        ];
        let table = "attack.distinct_terms (p int PRIMARY KEY, v int, t text)";
        on_table(arena, progress, table, &indexes, || {
            let bodies: Vec<Vec<u8>> = (0..20_000)
                .map(|term| match term % 50 {
                    0 => body("SELECT p FROM attack.distinct_terms WHERE v > 0"),
                    _ => body(&format!(
                        "INSERT INTO attack.distinct_terms (p, v, t) VALUES ({}, {term}, 't{term}')",
                        term % 5_000
                    )),
                })
                .collect();
            pipeline(arena, progress, 100, |round| {
                (Opcode::Query, &bodies[round % bodies.len()])
            });
        });
    },
};

pub const ONE_TERM: Attack = Attack {
    name: "one-term",
    about: "rows that all have the same term, all asked for again and again",
    run: |arena, progress| {
        let indexes = [
            "CREATE INDEX IF NOT EXISTS one_v ON attack.one_term (v)",
            "CREATE INDEX IF NOT EXISTS one_w ON attack.one_term (w) USING 'sai'",
        ];
        let table = "attack.one_term (p int, c int, v int, w int, PRIMARY KEY (p, c))";
        on_table(arena, progress, table, &indexes, || {
            let inserts: Vec<Vec<u8>> = (0..4_000)
                .map(|row| {
                    let (p, c) = (row % 40, row / 40);
                    body(&format!(
                        "INSERT INTO attack.one_term (p, c, v, w) VALUES ({p}, {c}, 1, 1)"
                    ))
                })
                .collect();
            let asked = [
                "SELECT * FROM attack.one_term WHERE v = 1",
                "SELECT count(*) FROM attack.one_term WHERE w = 1",
                "SELECT c FROM attack.one_term WHERE v = 1 AND w = 1 ALLOW FILTERING",
            ]
            .map(body);
            pipeline(arena, progress, 50, |round| match round % 10 {
                0 => (Opcode::Query, &asked[round / 10 % asked.len()]),
                _ => (Opcode::Query, &inserts[round % inserts.len()]),
            });
        });
    },
};

const CHURNED: [&str; 2] = [
    "CREATE INDEX IF NOT EXISTS churned ON attack.small (v)",
    "CREATE INDEX IF NOT EXISTS churned_sai ON attack.small (c) USING 'sai'",
];
const CHURNED_AWAY: [&str; 2] = [
    "DROP INDEX IF EXISTS attack.churned",
    "DROP INDEX IF EXISTS attack.churned_sai",
];

pub const INDEX_CHURN: Attack = Attack {
    name: "index-churn",
    about: "indexes of 20,000 rows, made, asked and dropped without a pause",
    run: |arena, progress| {
        let Some(mut client) = client_that_made(arena, progress, &CHURNED) else {
            return;
        };
        repeat(arena, progress, |round| {
            let text = match round % 4 {
                0 | 1 => CHURNED[round % 4],
                2 => "SELECT p FROM attack.small WHERE v = 7",
                _ => CHURNED_AWAY[round / 4 % 2],
            };
            text.to_owned()
        });
        for drop in CHURNED_AWAY {
            let _gone = client.query(drop);
        }
    },
};

/// Dimensions of the long vectors.
const DIMENSIONS: usize = 8_192;

pub const VECTORS: Attack = Attack {
    name: "vectors",
    about: "vectors of 8,192 dimensions: of no length, of NaN and infinities, and the nearest of all of them",
    run: |arena, progress| {
        let indexes = [
            "CREATE INDEX IF NOT EXISTS vectors_v ON attack.vectors (v) USING 'sai' \
             WITH OPTIONS = {'similarity_function': 'euclidean'}",
            "CREATE INDEX IF NOT EXISTS vectors_w ON attack.vectors (w) USING 'sai'",
        ];
        let table =
            format!("attack.vectors (p int PRIMARY KEY, v vector<float, {DIMENSIONS}>, w vector<float, 3>)");
        on_table(arena, progress, &table, &indexes, || {
            let vector = |first: &str, others: &str| {
                let mut elements = vec![others; DIMENSIONS];
                elements[0] = first;
                format!("[{}]", elements.join(","))
            };
            repeat(arena, progress, |round| {
                let p = round / 8 % 200;
                match round % 8 {
                    0 => insert(p, &vector(&p.to_string(), "0.5"), "[1, 2, 3]"),
                    1 => insert(p, &vector("NaN", "1"), "[NaN, NaN, NaN]"),
                    2 => insert(p, &vector("Infinity", "-Infinity"), "[-Infinity, 0, Infinity]"),
                    3 => insert(p, &vector("0", "0"), "[0, 0, 0]"),
                    4 => insert(p, &vector("1e17", "-1e17"), "[1e17, 1e17, 1e17]"),
                    5 => nearest("v", &vector("NaN", "1e17")),
                    6 => nearest("v", &vector(&p.to_string(), "0.5")),
                    _ => nearest("w", "[0, 0, 0.1]"),
                }
            });
        });
    },
};

fn insert(p: usize, v: &str, w: &str) -> String {
    // Apart, so that one that is refused does not keep the other from the index.
    match p % 2 {
        0 => format!("INSERT INTO attack.vectors (p, v) VALUES ({p}, {v})"),
        _ => format!("INSERT INTO attack.vectors (p, w) VALUES ({p}, {w})"),
    }
}

fn nearest(column: &str, vector: &str) -> String {
    format!("SELECT p FROM attack.vectors ORDER BY {column} ANN OF {vector} LIMIT 1000")
}

/// Does `work` with a table and its indexes, which are gone afterwards with the files that they had.
fn on_table(arena: &Arena, progress: &Progress, table: &str, indexes: &[&str], work: impl FnOnce()) {
    let name = table.split_whitespace().next().unwrap_or_default();
    let create = format!("CREATE TABLE IF NOT EXISTS {table}");
    let statements: Vec<&str> = std::iter::once(&*create).chain(indexes.iter().copied()).collect();
    if let Some(mut client) = client_that_made(arena, progress, &statements) {
        work();
        let _gone = client.query(&format!("DROP TABLE IF EXISTS {name}"));
    }
}

/// Without what these make the attack would be none, and pass.
fn client_that_made(arena: &Arena, progress: &Progress, statements: &[&str]) -> Option<Client> {
    let mut client = arena.connect().ok()?;
    for statement in statements {
        if let Err(error) = client.query(statement) {
            progress.owes(format!("{statement}: {error}"));
            return None;
        }
    }
    Some(client)
}
