//! Transactions: transfers between rows of a table that nothing else writes to.

use helenus_storage_model::Chance;

use super::KEYSPACE;
use super::text::Text;
use crate::value::Value;

/// In the history's keyspace, and quoted nowhere.
pub const TABLE: &str = "accounts";
/// So that most transactions are of several shards, and meet rows that others have written.
const PARTITIONS: u64 = 5;
const ROWS: u64 = 2;
/// Bound of a new row's balance, and the most that a transfer moves.
const BALANCE_MAX: u64 = 100;

pub fn create() -> String {
    format!("CREATE TABLE {KEYSPACE}.{TABLE} (p int, c int, n int, PRIMARY KEY (p, c))")
}

pub fn read_all() -> String {
    format!("SELECT * FROM {KEYSPACE}.{TABLE}")
}

type Place = (u64, u64);

fn place(chance: &Chance) -> Place {
    (chance.below(PARTITIONS), chance.below(ROWS))
}

fn int(value: u64) -> Option<Value> {
    Some(Value::literal((value as i32).to_be_bytes().to_vec()))
}

/// Reads two rows, and moves something from the one to the other, makes what is not there, or removes one, if what it has read
/// allows that.
pub fn transaction(chance: &Chance) -> Text {
    let from = place(chance);
    let mut to = place(chance);
    if to == from {
        to.0 = (to.0 + 1) % PARTITIONS;
    }
    let mut text = Text::of("BEGIN TRANSACTION ");
    for (name, place) in [("a", from), ("b", to)] {
        text.put(&format!("LET {name} = (SELECT n FROM {KEYSPACE}.{TABLE}"));
        at(&mut text, place).put("); ");
    }
    match chance.below(3) {
        0 => {}
        1 => {
            text.put("SELECT a.n, b.n; ");
        }
        _ => {
            text.put(&format!("SELECT * FROM {KEYSPACE}.{TABLE}"));
            at(&mut text, to).put("; ");
        }
    }
    match chance.below(8) {
        0 => make(chance, &mut text, [from, to]),
        1 => remove(&mut text, from, to),
        2 => {
            // Nothing is written.
            if !text.has("SELECT a.n") && !text.has("SELECT *") {
                text.put("SELECT a.n; ");
            }
        }
        3 => make_each(chance, &mut text, from),
        _ => transfer(chance, &mut text, from, to),
    }
    text.put("COMMIT TRANSACTION");
    text
}

fn at(text: &mut Text, (p, c): Place) -> &mut Text {
    text.put(" WHERE p = ").bind(int(p)).put(" AND c = ").bind(int(c))
}

fn insert(chance: &Chance, text: &mut Text, (p, c): Place) {
    text.put(&format!("INSERT INTO {KEYSPACE}.{TABLE} (p, c, n) VALUES ("));
    text.bind(int(p)).put(", ").bind(int(c)).put(", ");
    text.bind(int(chance.below(BALANCE_MAX))).put("); ");
}

fn make(chance: &Chance, text: &mut Text, places: [Place; 2]) {
    text.put("IF a IS NULL AND b IS NULL THEN ");
    for place in places {
        insert(chance, text, place);
    }
    text.put("END IF ");
}

fn make_each(chance: &Chance, text: &mut Text, place: Place) {
    text.put("IF a IS NULL THEN ");
    insert(chance, text, place);
    text.put("END IF ");
}

/// Deletes the one row and gives its balance to the other.
fn remove(text: &mut Text, from: Place, to: Place) {
    text.put("IF a IS NOT NULL AND b.n IS NOT NULL THEN ");
    text.put(&format!("DELETE FROM {KEYSPACE}.{TABLE}"));
    at(text, from).put("; ");
    text.put(&format!("UPDATE {KEYSPACE}.{TABLE} SET n = a.n"));
    at(text, to).put("; END IF ");
}

fn transfer(chance: &Chance, text: &mut Text, from: Place, to: Place) {
    let amount = 1 + chance.below(BALANCE_MAX);
    text.put("IF a.n >= ")
        .bind(int(amount))
        .put(" AND b.n IS NOT NULL THEN ");
    for (place, sign) in [(from, "-="), (to, "+=")] {
        text.put(&format!("UPDATE {KEYSPACE}.{TABLE} SET n {sign} "));
        text.bind(int(amount));
        at(text, place).put("; ");
    }
    text.put("END IF ");
}
