//! Attacks by what changes the schema or takes data away.

use std::time::Duration;

use helenus_protocol::Opcode;

use super::arena::Arena;
use super::statements::{body, pipeline, repeat};
use super::{Attack, Progress};

pub const NESTED_TYPES: Attack = Attack {
    name: "nested-types",
    about: "user types that nest deeply, and that double at each level",
    run: |arena, progress| {
        let Ok(mut client) = arena.connect() else { return };
        let _exists = client.query("CREATE TYPE attack.d0 (a int)");
        let _exists = client.query("CREATE TYPE attack.w0 (a int)");
        for level in 1..=70 {
            if !progress.goes_on() {
                return;
            }
            let below = level - 1;
            let deep = format!("CREATE TYPE attack.d{level} (a frozen<d{below}>)");
            let wide = format!("CREATE TYPE attack.w{level} (a frozen<w{below}>, b frozen<w{below}>)");
            for statement in [deep, wide] {
                let _refused = client.query(&statement);
                progress.attempted();
            }
            if level % 10 == 0 {
                use_type(&mut client, &format!("d{level}"), progress);
                use_type(&mut client, &format!("w{level}"), progress);
            }
        }
    },
};

fn use_type(client: &mut crate::wire::Client, name: &str, progress: &Progress) {
    for statement in [
        format!("CREATE TABLE attack.of_{name} (p int PRIMARY KEY, v frozen<{name}>)"),
        format!("INSERT INTO attack.of_{name} (p) VALUES (1)"),
        format!("SELECT v FROM attack.of_{name}"),
        format!("DROP TABLE attack.of_{name}"),
    ] {
        let _refused = client.query(&statement);
        progress.attempted();
    }
}

pub const LARGE_ROWS: Attack = Attack {
    name: "large-rows",
    about: "large values in a table without clustering columns, flushed again and again",
    run: |arena, progress| {
        let Ok(mut client) = arena.connect() else { return };
        let _exists = client.query("CREATE TABLE attack.rows (p int PRIMARY KEY, v blob)");
        let value = "ef".repeat(200_000);
        for p in 0..64 {
            if !progress.goes_on() {
                break;
            }
            let _refused = client.query(&format!("INSERT INTO attack.rows (p, v) VALUES ({p}, 0x{value})"));
            progress.attempted();
        }
        // Takes a snapshot, and so flushes.
        let _refused = client.query("TRUNCATE attack.rows");
        progress.attempted();
    },
};

pub const TRUNCATES: Attack = Attack {
    name: "truncates",
    about: "a thousand TRUNCATEs at a time, of one table",
    run: |arena, progress| {
        let Ok(mut client) = arena.connect() else { return };
        let _exists = client.query("CREATE TABLE attack.gone (p int PRIMARY KEY, v int)");
        let insert = body("INSERT INTO attack.gone (p, v) VALUES (1, 1)");
        let truncate = body("TRUNCATE attack.gone");
        pipeline(arena, progress, 1_000, |round| match round % 2 {
            0 => (Opcode::Query, &insert),
            _ => (Opcode::Query, &truncate),
        });
    },
};

pub const TABLES: Attack = Attack {
    name: "tables",
    about: "tables made and dropped without a pause",
    run: |arena, progress| {
        repeat(arena, progress, |round| match round % 3 {
            0 => "CREATE TABLE IF NOT EXISTS attack.short_lived (p int PRIMARY KEY, v int)".to_owned(),
            1 => "INSERT INTO attack.short_lived (p, v) VALUES (1, 1)".to_owned(),
            _ => "DROP TABLE IF EXISTS attack.short_lived".to_owned(),
        });
    },
};

pub const STALE_PLANS: Attack = Attack {
    name: "stale-plans",
    about: "PREPARE beside ALTER, on connections of both shards",
    run: |arena, progress| {
        let Ok(mut client) = arena.connect() else { return };
        let _exists = client.query("CREATE TABLE attack.altered (p int PRIMARY KEY, v int)");
        std::thread::scope(|scope| {
            scope.spawn(|| alter(arena, progress));
            let mut round = 0;
            while progress.goes_on() {
                round += 1;
                let text = format!("SELECT * FROM attack.altered WHERE p = {}", round % 50);
                if client.prepare(&text).is_ok() {
                    progress.attempted();
                }
            }
        });
    },
};

fn alter(arena: &Arena, progress: &Progress) {
    let Ok(mut client) = arena.connect() else { return };
    for round in 0.. {
        if !progress.goes_on() {
            return;
        }
        let change = if round % 2 == 0 { "ADD" } else { "DROP" };
        let column = if round % 2 == 0 { "x int" } else { "x" };
        let _refused = client.query(&format!("ALTER TABLE attack.altered {change} {column}"));
        progress.rest(Duration::from_millis(2));
    }
}
