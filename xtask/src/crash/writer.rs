//! One connection that inserts, overwrites, deletes and batches as fast as it is acknowledged.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;

use super::ledger::{Ledger, Place, Value};
use super::{REQUEST_TIMEOUT, Random, unless_killed};
use crate::native::{Cell, Connection, NativeError};

/// Each writer owns this many partitions, so that its rows spread over the shards.
const PARTITIONS: u32 = 8;
/// Rows of the register per partition; few, so that most writes overwrite something.
const KEYS: u32 = 64;
/// Fills the journal's rows, so that memtables grow and commit log segments change.
const BODY_BYTES: usize = 400;

pub struct Writer {
    id: u32,
    random: Random,
    register: Ledger,
    /// Totals of the counters.
    counts: Ledger,
    journal_acknowledged: i64,
}

impl Writer {
    pub fn new(id: u32, seed: u64) -> Self {
        Self {
            id,
            random: Random::new(seed),
            register: Ledger::default(),
            counts: Ledger::default(),
            journal_acknowledged: 0,
        }
    }

    pub fn id(&self) -> u32 {
        self.id
    }

    pub fn acknowledged(&self) -> u64 {
        self.register.acknowledged_count()
            + self.counts.acknowledged_count()
            + self.journal_acknowledged as u64
    }

    /// Writes until the connection breaks; an error counts only while the server was not killed.
    pub fn write_until(&mut self, address: SocketAddr, killed: &AtomicBool) -> Result<(), NativeError> {
        let outcome = self.write(address);
        unless_killed(outcome, killed)
    }

    fn write(&mut self, address: SocketAddr) -> Result<(), NativeError> {
        let mut connection = Connection::open(address, REQUEST_TIMEOUT)?;
        loop {
            match self.random.below(10) {
                0 => self.delete(&mut connection)?,
                1 => self.batch_of_partition(&mut connection)?,
                2 => self.batch_of_partitions(&mut connection)?,
                3 | 4 => self.append(&mut connection)?,
                5 => self.count(&mut connection)?,
                _ => self.put(&mut connection)?,
            }
        }
    }

    fn put(&mut self, connection: &mut Connection) -> Result<(), NativeError> {
        let change = (self.place(), self.value());
        self.register.sending(vec![change]);
        connection.query(&insert(change))?;
        self.register.acknowledge();
        Ok(())
    }

    fn delete(&mut self, connection: &mut Connection) -> Result<(), NativeError> {
        let (part, key) = self.place();
        self.register.sending(vec![((part, key), None)]);
        connection.query(&format!(
            "DELETE FROM crash.register WHERE part = {part} AND key = {key}"
        ))?;
        self.register.acknowledge();
        Ok(())
    }

    /// Rows of several partitions, and so of several shards, in one LOGGED batch: all or none may be there after a kill.
    fn batch_of_partitions(&mut self, connection: &mut Connection) -> Result<(), NativeError> {
        let (part, key) = self.place();
        let count = 2 + self.random.below(PARTITIONS - 1);
        let base = self.id * PARTITIONS;
        let changes: Vec<(Place, Value)> = (0..count)
            .map(|index| {
                let part = base + (part - base + index) % PARTITIONS;
                ((part, key), self.value())
            })
            .collect();
        self.register.sending(changes.clone());
        let inserts: Vec<String> = changes.into_iter().map(|change| insert(change) + ";").collect();
        connection.query(&format!("BEGIN BATCH {} APPLY BATCH", inserts.join(" ")))?;
        self.register.acknowledge();
        Ok(())
    }

    /// Two rows of one partition in one batch: both or neither may be there after a kill.
    fn batch_of_partition(&mut self, connection: &mut Connection) -> Result<(), NativeError> {
        let (part, key) = self.place();
        let first = ((part, key), self.value());
        let second = ((part, (key + 1) % KEYS), self.value());
        self.register.sending(vec![first, second]);
        connection.query(&format!(
            "BEGIN UNLOGGED BATCH {}; {}; APPLY BATCH",
            insert(first),
            insert(second)
        ))?;
        self.register.acknowledge();
        Ok(())
    }

    /// Two counters of one partition in one batch: each grew once, or both not at all.
    fn count(&mut self, connection: &mut Connection) -> Result<(), NativeError> {
        let (part, key) = self.place();
        let places = [(part, key), (part, (key + 1) % KEYS)];
        let by = i64::from(1 + self.random.below(9));
        let totals = places.map(|place| (place, Some(self.counts.value(place).unwrap_or(0) + by)));
        self.counts.sending(totals.to_vec());
        let updates = places.map(|(part, key)| {
            format!("UPDATE crash.counts SET value = value + {by} WHERE part = {part} AND key = {key};")
        });
        connection.query(&format!("BEGIN COUNTER BATCH {} APPLY BATCH", updates.join(" ")))?;
        self.counts.acknowledge();
        Ok(())
    }

    /// The next row of an ever-growing partition.
    fn append(&mut self, connection: &mut Connection) -> Result<(), NativeError> {
        let sequence = self.journal_acknowledged + 1;
        let body = "j".repeat(BODY_BYTES);
        connection.query(&format!(
            "INSERT INTO crash.journal (part, sequence, body) VALUES ({}, {sequence}, '{body}')",
            self.id
        ))?;
        self.journal_acknowledged = sequence;
        Ok(())
    }

    fn place(&mut self) -> Place {
        (
            self.id * PARTITIONS + self.random.below(PARTITIONS),
            self.random.below(KEYS),
        )
    }

    fn value(&mut self) -> Value {
        Some(self.random.next() as i64)
    }

    /// Reads everything back and names what is not as acknowledged.
    pub fn verify(&mut self, connection: &mut Connection) -> Result<Vec<String>, NativeError> {
        let found = self.rows(connection, "register")?;
        let mut wrong = self.register.compare(&found);
        let found = self.rows(connection, "counts")?;
        wrong.extend(self.counts.compare(&found));
        wrong.extend(self.verify_journal(connection)?);
        Ok(wrong)
    }

    fn rows(&self, connection: &mut Connection, table: &str) -> Result<BTreeMap<Place, i64>, NativeError> {
        let mut found = BTreeMap::new();
        for part in self.id * PARTITIONS..(self.id + 1) * PARTITIONS {
            let rows = connection.query(&format!(
                "SELECT key, value FROM crash.{table} WHERE part = {part}"
            ))?;
            for row in rows {
                let [key, value] = row.as_slice() else { continue };
                found.insert((part, number(key)? as u32), number(value)?);
            }
        }
        Ok(found)
    }

    fn verify_journal(&mut self, connection: &mut Connection) -> Result<Vec<String>, NativeError> {
        let statement = format!("SELECT sequence FROM crash.journal WHERE part = {}", self.id);
        let mut last = 0;
        for row in connection.query(&statement)? {
            let sequence = row.first().map(number).transpose()?.unwrap_or(0);
            if sequence != last + 1 {
                return Ok(vec![format!("the journal jumps from {last} to {sequence}")]);
            }
            last = sequence;
        }
        let acknowledged = self.journal_acknowledged;
        // The row in doubt may be there; it is expected from now on.
        self.journal_acknowledged = last;
        if last == acknowledged || last == acknowledged + 1 {
            Ok(Vec::new())
        } else {
            Ok(vec![format!(
                "the journal ends at {last}, acknowledged was {acknowledged}"
            )])
        }
    }
}

fn insert(((part, key), value): (Place, Value)) -> String {
    let value = value.map_or("null".to_owned(), |value| value.to_string());
    format!("INSERT INTO crash.register (part, key, value) VALUES ({part}, {key}, {value})")
}

/// A CQL int or bigint.
pub(super) fn number(cell: &Cell) -> Result<i64, NativeError> {
    match cell.as_deref() {
        Some(bytes) if bytes.len() == 4 || bytes.len() == 8 => {
            let negative = bytes.first().is_some_and(|byte| byte & 0x80 != 0);
            let start = if negative { -1 } else { 0 };
            Ok(bytes
                .iter()
                .fold(start, |value: i64, byte| value << 8 | i64::from(*byte)))
        }
        _ => Err(NativeError::Malformed("an integer of another length than 4 or 8")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_keep_their_sign() {
        assert_eq!(number(&Some(vec![0xff, 0xff, 0xff, 0xfe])).ok(), Some(-2));
        assert_eq!(number(&Some(vec![0, 0, 0, 0, 0, 0, 1, 0])).ok(), Some(256));
        assert!(number(&None).is_err());
    }
}
