//! TRUNCATE: one of a table at a time, in the order in which the owner of the schema hears of them.

mod truncate;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use helenus_engine::CqlError;
use helenus_schema::TableId;
use tokio::sync::Mutex;

/// Truncations of one table that may wait for the one under way: who sends more has lost track.
const WAITING_PER_TABLE_MAX: usize = 16;

/// The turns of the tables that are being truncated. Each is there while somebody has or waits for it.
#[derive(Default)]
pub(crate) struct Truncations {
    turns: RefCell<HashMap<TableId, Rc<Turn>>>,
}

#[derive(Default)]
struct Turn {
    mutex: Mutex<()>,
    wanted: Cell<usize>,
}

/// Somebody who has the table's turn, or waits for it.
struct Wanted<'a> {
    truncations: &'a Truncations,
    table: TableId,
    turn: Rc<Turn>,
}

impl Truncations {
    /// Does `work` while no truncation of the table is under way.
    pub async fn in_turn<T>(
        &self,
        table: TableId,
        work: impl Future<Output = Result<T, CqlError>>,
    ) -> Result<T, CqlError> {
        let wanted = self.want(table)?;
        let _turn = wanted.turn.mutex.lock().await;
        work.await
    }

    fn want(&self, table: TableId) -> Result<Wanted<'_>, CqlError> {
        let turn = self.turns.borrow_mut().entry(table).or_default().clone();
        if turn.wanted.get() > WAITING_PER_TABLE_MAX {
            return Err(CqlError::overloaded(format_args!(
                "The table is being truncated, and {WAITING_PER_TABLE_MAX} more truncations of it wait"
            )));
        }
        turn.wanted.set(turn.wanted.get() + 1);
        Ok(Wanted {
            truncations: self,
            table,
            turn,
        })
    }
}

impl Drop for Wanted<'_> {
    fn drop(&mut self) {
        let left = self.turn.wanted.get() - 1;
        self.turn.wanted.set(left);
        if left == 0 {
            self.truncations.turns.borrow_mut().remove(&self.table);
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_tables_turn_is_wanted_by_so_many_and_then_forgotten() {
        let truncations = Truncations::default();
        let (one, other) = (TableId(Uuid::from_u128(1)), TableId(Uuid::from_u128(2)));
        let wanted: Vec<_> = (0..=WAITING_PER_TABLE_MAX)
            .map(|_| truncations.want(one).unwrap())
            .collect();
        assert!(matches!(truncations.want(one), Err(CqlError::Overloaded(_))));
        assert!(truncations.want(other).is_ok());
        drop(wanted);
        assert!(truncations.turns.borrow().is_empty());
    }
}
