//! Attacks by statements that anybody may send.

use std::time::Duration;

use helenus_protocol::request::write_prepare;
use helenus_protocol::{Opcode, ProtocolVersion};

use super::arena::Arena;
use super::{Attack, Progress};
use crate::wire::query;

pub const FILTERS: Attack = Attack {
    name: "filters",
    about: "an IN of 500,000 values as a filter on every row",
    run: |arena, progress| {
        let values = numbers(500_000);
        repeat(arena, progress, |_| {
            format!("SELECT c FROM attack.small WHERE p = 1 AND v IN ({values}) ALLOW FILTERING")
        });
    },
};

pub const SELECTORS: Attack = Attack {
    name: "selectors",
    about: "a select list of a million columns",
    run: |arena, progress| {
        let list = vec!["v"; 1_000_000].join(",");
        repeat(arena, progress, |_| {
            format!("SELECT {list} FROM attack.small WHERE p = 1 AND c = 1")
        });
    },
};

pub const DEEP: Attack = Attack {
    name: "deep-terms",
    about: "literals, types and parentheses that nest by thousands",
    run: |arena, progress| {
        repeat(arena, progress, |round| {
            let deep = |open: &str, close: &str| format!("{}1{}", open.repeat(5_000), close.repeat(5_000));
            match round % 5 {
                0 => format!(
                    "INSERT INTO attack.small (p, c, v) VALUES (1, 1, {})",
                    deep("(int)(", ")")
                ),
                1 => format!("SELECT p FROM attack.small WHERE p = {}", deep("[", "]")),
                2 => format!("SELECT p FROM attack.small WHERE p = {}", deep("{1: ", "}")),
                3 => format!(
                    "CREATE TABLE attack.deep (p int PRIMARY KEY, v {}int{})",
                    "frozen<list<".repeat(2_000),
                    ">>".repeat(2_000)
                ),
                _ => format!("SELECT v{} FROM attack.small WHERE p = 1", " + 1".repeat(100_000)),
            }
        });
    },
};

pub const NUMBERS: Attack = Attack {
    name: "numbers",
    about: "casts and divisions of numbers with a million digits",
    run: |arena, progress| {
        let digits = "7".repeat(1_000_000);
        if let Ok(mut client) = arena.connect() {
            let _refused = client.query(&format!("INSERT INTO attack.numbers (p, v) VALUES (1, {digits})"));
            let _refused = client.query(&format!(
                "INSERT INTO attack.numbers (p, d) VALUES (2, {digits}.5)"
            ));
        }
        repeat(arena, progress, |round| {
            let selected = [
                "CAST(v AS text)",
                "CAST(v AS double)",
                "v * v",
                "d / 3.7",
                "CAST(d AS text)",
                "exp(d)",
            ];
            format!(
                "SELECT {} FROM attack.numbers WHERE p IN (1, 2)",
                selected[round % selected.len()]
            )
        });
    },
};

pub const PRODUCTS: Attack = Attack {
    name: "products",
    about: "IN on several columns, whose product is millions of rows",
    run: |arena, progress| {
        let keys = numbers(3_000);
        repeat(arena, progress, |round| match round % 2 {
            0 => format!("SELECT v FROM attack.small WHERE p IN ({keys}) AND c IN ({keys})"),
            _ => format!("DELETE FROM attack.small WHERE p IN ({keys}) AND c IN ({keys})"),
        });
    },
};

pub const UNPAGED: Attack = Attack {
    name: "unpaged",
    about: "everything there is, in one answer",
    run: |arena, progress| repeat(arena, progress, |_| "SELECT * FROM attack.large".to_owned()),
};

pub const SCANS: Attack = Attack {
    name: "scans",
    about: "aggregates, groups and filters over whole tables, a hundred at a time",
    run: |arena, progress| {
        let statements = [
            "SELECT count(*) FROM attack.small",
            "SELECT p, max(v), avg(v) FROM attack.small GROUP BY p, c",
            "SELECT p FROM attack.small WHERE v = -1 ALLOW FILTERING",
            "SELECT count(v) FROM attack.large",
        ];
        let bodies: Vec<Vec<u8>> = statements.iter().map(|text| body(text)).collect();
        pipeline(arena, progress, 100, |round| {
            (Opcode::Query, &bodies[round % bodies.len()])
        });
    },
};

pub const BATCHES: Attack = Attack {
    name: "batches",
    about: "batches of 20,000 statements",
    run: |arena, progress| {
        let inserts: String = (0..20_000)
            .map(|c| format!("INSERT INTO attack.small (p, c, v) VALUES (7, {c}, {c});"))
            .collect();
        repeat(arena, progress, |_| {
            format!("BEGIN UNLOGGED BATCH {inserts} APPLY BATCH")
        });
    },
};

pub const COLLECTIONS: Attack = Attack {
    name: "collections",
    about: "one element at a time into a map of 50,000",
    run: |arena, progress| {
        if let Ok(mut client) = arena.connect() {
            for part in 0..50 {
                let pairs: Vec<String> = (0..1_000).map(|k| format!("{}: 1", part * 1_000 + k)).collect();
                let _refused = client.query(&format!(
                    "UPDATE attack.numbers SET m = m + {{{}}} WHERE p = 3",
                    pairs.join(",")
                ));
            }
        }
        let bodies: Vec<Vec<u8>> = (0..64)
            .map(|k| {
                body(&format!(
                    "UPDATE attack.numbers SET m[{}] = {k} WHERE p = 3",
                    k * 700
                ))
            })
            .collect();
        pipeline(arena, progress, 200, |round| {
            (Opcode::Query, &bodies[round % bodies.len()])
        });
    },
};

pub const LARGE_TEXTS: Attack = Attack {
    name: "large-texts",
    about: "statements of 15 MB, most of it one literal or one comment",
    run: |arena, progress| {
        let filler = "x".repeat(15 << 20);
        repeat(arena, progress, |round| match round % 3 {
            0 => format!("INSERT INTO polite.t (p, v) VALUES (2, '{filler}')"),
            1 => format!("SELECT v FROM polite.t WHERE p = 1 -- {filler}"),
            _ => format!("SELECT \"{filler}\" FROM polite.t WHERE p = 1"),
        });
    },
};

pub const PREPARES: Attack = Attack {
    name: "prepares",
    about: "statements that are prepared once and never executed, without end",
    run: |arena, progress| {
        let Ok(mut client) = arena.connect() else { return };
        let mut round = 0_u64;
        while progress.goes_on() {
            round += 1;
            let text = format!("SELECT v, (int){round} FROM attack.small WHERE p = ? AND c = {round}");
            if client.prepare(&text).is_ok() {
                progress.attempted();
            }
        }
    },
};

pub const LARGE_PREPARES: Attack = Attack {
    name: "large-prepares",
    about: "statements of 2 MB that are prepared, each another",
    run: |arena, progress| {
        let values = "1,".repeat(1 << 20);
        let mut bodies = Vec::new();
        for round in 0..64 {
            let mut body = Vec::new();
            let text = format!("SELECT v FROM attack.small WHERE p IN ({values}{round})");
            write_prepare(&mut body, ProtocolVersion::V4, &text, None);
            bodies.push(body);
        }
        let Ok(mut client) = arena.connect() else { return };
        for body in bodies.iter().cycle() {
            if !progress.goes_on() {
                return;
            }
            if client
                .send(Opcode::Prepare, body)
                .and_then(|()| client.answer())
                .is_err()
            {
                let Ok(another) = arena.connect() else { return };
                client = another;
            }
            progress.attempted();
        }
    },
};

pub const TRACES: Attack = Attack {
    name: "traces",
    about: "every request traced",
    run: |arena, progress| {
        const TRACING: u8 = 2;
        let Ok(mut client) = arena.connect() else { return };
        let statement = body("SELECT v FROM attack.small WHERE p = 1 AND c = 1");
        while progress.goes_on() {
            let Ok(mut frame) = client.framed(Opcode::Query, &statement) else {
                return;
            };
            frame[1] |= TRACING;
            let sent = std::io::Write::write_all(&mut client.stream, &frame);
            if sent.is_err() || client.answer().is_err() {
                return;
            }
            progress.attempted();
        }
    },
};

pub const FLOOD: Attack = Attack {
    name: "flood",
    about: "writes of 64 KiB as fast as they go",
    run: |arena, progress| {
        let value = "cd".repeat(64 << 10);
        let bodies: Vec<Vec<u8>> = (0..32)
            .map(|c| {
                body(&format!(
                    "INSERT INTO attack.large (p, c, v) VALUES ({c}, {c}, 0x{value})"
                ))
            })
            .collect();
        pipeline(arena, progress, 64, |round| {
            (Opcode::Query, &bodies[round % bodies.len()])
        });
    },
};

/// Executes statements one after the other on a connection of its own, whatever they are answered.
pub fn repeat(arena: &Arena, progress: &Progress, statement: impl Fn(usize) -> String) {
    let mut client = None;
    for round in 0.. {
        if !progress.goes_on() {
            return;
        }
        if client.is_none() {
            client = arena.connect().ok();
        }
        let Some(open) = &mut client else {
            progress.rest(Duration::from_millis(20));
            continue;
        };
        let sent = open.send(Opcode::Query, &body(&statement(round)));
        if sent.and_then(|()| open.answer()).is_err() {
            client = None;
        }
        progress.attempted();
    }
}

/// Keeps so many requests under way on one connection.
pub fn pipeline<'b>(
    arena: &Arena,
    progress: &Progress,
    in_flight: usize,
    message: impl Fn(usize) -> (Opcode, &'b [u8]),
) {
    let Ok(mut client) = arena.connect() else { return };
    let mut round = 0;
    while progress.goes_on() {
        for _ in 0..in_flight {
            let (opcode, body) = message(round);
            round += 1;
            if client.send(opcode, body).is_err() {
                return;
            }
        }
        for _ in 0..in_flight {
            if !progress.goes_on() || client.answer().is_err() {
                return;
            }
            progress.attempted();
        }
    }
}

pub fn body(text: &str) -> Vec<u8> {
    let mut body = Vec::new();
    query(&mut body, ProtocolVersion::V4, text);
    body
}

fn numbers(count: usize) -> String {
    let numbers: Vec<String> = (0..count).map(|number| number.to_string()).collect();
    numbers.join(",")
}
