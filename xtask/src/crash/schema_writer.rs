//! One connection that creates and drops tables: acknowledged schema changes survive as well.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::REQUEST_TIMEOUT;
use crate::native::{Connection, NativeError};

/// Schema changes come in this rhythm, so that they meet the kill without being all of the load.
const PAUSE: Duration = Duration::from_millis(50);
/// Beyond this many tables each further one replaces the oldest.
const TABLES_MAX: usize = 8;

#[derive(Default)]
pub struct SchemaWriter {
    tables: BTreeSet<u32>,
    next: u32,
    /// The table that is being created or dropped: there or not there are both right.
    in_doubt: Option<u32>,
}

impl SchemaWriter {
    /// Changes the schema until the connection breaks.
    pub fn write_until(&mut self, address: SocketAddr, killed: &AtomicBool) -> Result<(), NativeError> {
        let mut connection = Connection::open(address, REQUEST_TIMEOUT)?;
        while !killed.load(Ordering::SeqCst) {
            match self.change(&mut connection) {
                Ok(()) => {}
                Err(NativeError::Broken(_)) => break,
                Err(error) => return Err(error),
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    fn change(&mut self, connection: &mut Connection) -> Result<(), NativeError> {
        if self.tables.len() >= TABLES_MAX
            && let Some(oldest) = self.tables.pop_first()
        {
            self.in_doubt = Some(oldest);
            connection.query(&format!("DROP TABLE crash.made_{oldest}"))?;
        } else {
            let number = self.next;
            self.next += 1;
            self.in_doubt = Some(number);
            connection.query(&format!("CREATE TABLE crash.made_{number} (key int PRIMARY KEY)"))?;
            self.tables.insert(number);
        }
        self.in_doubt = None;
        Ok(())
    }

    /// Compares the tables that the server lists with those that it acknowledged.
    pub fn verify(&mut self, connection: &mut Connection) -> Result<Vec<String>, NativeError> {
        let rows =
            connection.query("SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'crash'")?;
        let found: BTreeSet<u32> = rows
            .iter()
            .filter_map(|row| String::from_utf8(row.first()?.clone()?).ok())
            .filter_map(|name| name.strip_prefix("made_")?.parse().ok())
            .collect();
        let mut wrong: Vec<String> = self
            .tables
            .symmetric_difference(&found)
            .filter(|table| Some(**table) != self.in_doubt)
            .map(|table| format!("table made_{table} is there: {}", found.contains(table)))
            .collect();
        // A table that was acknowledged must not only be listed. (Cassandra itself may list the one in
        // doubt for a while without being able to read it.)
        for table in found.iter().filter(|table| Some(**table) != self.in_doubt) {
            if let Err(error) = connection.query(&format!("SELECT key FROM crash.made_{table}")) {
                wrong.push(format!(
                    "table made_{table} is listed but cannot be read: {error}"
                ));
            }
        }
        self.tables = found;
        self.in_doubt = None;
        Ok(wrong)
    }
}
