//! Memory reservations: for large messages of which only the beginning has arrived.
//!
//! What has arrived is charged for itself; a reservation is of what is still to come. It is kept from other large messages
//! only, not from statements that are whole, and only for the time that a request has: a client that announces much and
//! sends nothing keeps nobody out for longer.

/// One shard's reservations, at most one of each connection.
#[derive(Debug, Default)]
pub(crate) struct MemoryReservations {
    kept: Vec<Reservation>,
}

#[derive(Debug)]
struct Reservation {
    connection: u64,
    bytes: usize,
    until_ns: u64,
}

impl MemoryReservations {
    /// Returns whether `bytes` more fit into `free_bytes` beside what is reserved for others. A reservation that was made is
    /// kept: it becomes smaller as its message arrives, and its time does not begin again.
    pub fn reserve(
        &mut self,
        connection: u64,
        bytes: usize,
        free_bytes: usize,
        until_ns: u64,
        now_ns: u64,
    ) -> bool {
        let known = self
            .kept
            .iter()
            .position(|reservation| reservation.connection == connection);
        if bytes == 0 {
            self.forget(connection);
            return true;
        }
        if let Some(place) = known {
            self.kept[place].bytes = bytes;
            return true;
        }
        let reserved = self
            .kept
            .iter()
            .filter(|reservation| now_ns < reservation.until_ns);
        let reserved_bytes: usize = reserved.map(|reservation| reservation.bytes).sum();
        if reserved_bytes.saturating_add(bytes) > free_bytes {
            return false;
        }
        self.kept.push(Reservation {
            connection,
            bytes,
            until_ns,
        });
        true
    }

    pub fn forget(&mut self, connection: u64) {
        self.kept
            .retain(|reservation| reservation.connection != connection);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const FREE_BYTES: usize = 1_000;

    fn asked(reservations: &mut MemoryReservations, connection: u64, bytes: usize, now_ns: u64) -> bool {
        reservations.reserve(connection, bytes, FREE_BYTES, now_ns + 5 * MS, now_ns)
    }

    #[test]
    fn no_more_is_promised_than_is_free() {
        let mut reservations = MemoryReservations::default();
        assert!(asked(&mut reservations, 1, 600, 0));
        assert!(!asked(&mut reservations, 2, 600, 0));
        assert!(asked(&mut reservations, 3, 400, 0));
        // The first message arrives, and then the second has room.
        assert!(asked(&mut reservations, 1, 100, 0));
        assert!(asked(&mut reservations, 2, 500, 0));
        assert!(asked(&mut reservations, 1, 0, 0));
        assert!(asked(&mut reservations, 4, 100, 0));
        reservations.forget(2);
        assert!(asked(&mut reservations, 5, 500, 0));
    }

    /// A client that announces much and sends nothing would keep all others out.
    #[test]
    fn a_promise_is_over_with_the_time_of_its_request() {
        let mut reservations = MemoryReservations::default();
        assert!(asked(&mut reservations, 1, FREE_BYTES, 0));
        assert!(asked(&mut reservations, 1, FREE_BYTES, 4 * MS));
        assert!(!asked(&mut reservations, 2, 1, 4 * MS));
        assert!(asked(&mut reservations, 2, 1, 5 * MS));
    }
}
