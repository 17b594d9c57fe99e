//! TRUNCATE: one of a table at a time, in the order in which the owner of the schema hears of them.

mod truncate;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use helenus_engine::CqlError;
use helenus_schema::TableId;
use tokio::sync::{Mutex, OwnedMutexGuard};

/// Truncations of one table that may wait for the one under way: who sends more has lost track.
const WAITING_PER_TABLE_MAX: usize = 16;

/// The turns of the tables that are being truncated. Each is there while somebody has or waits for it.
#[derive(Default)]
pub(crate) struct Truncations {
    turns: Rc<RefCell<HashMap<TableId, Turn>>>,
}

#[derive(Clone, Default)]
struct Turn {
    mutex: Arc<Mutex<()>>,
    wanted: Rc<Cell<usize>>,
}

/// A table's turn: no truncation of the table is under way until this is dropped.
pub(crate) struct TableTurn {
    _guard: OwnedMutexGuard<()>,
    _wanted: Wanted,
}

/// Somebody who has the table's turn, or waits for it.
struct Wanted {
    turns: Rc<RefCell<HashMap<TableId, Turn>>>,
    table: TableId,
    turn: Turn,
}

impl Truncations {
    /// Waits until no truncation of the table is under way.
    pub async fn turn(&self, table: TableId) -> Result<TableTurn, CqlError> {
        let wanted = self.want(table)?;
        Ok(TableTurn {
            _guard: wanted.turn.mutex.clone().lock_owned().await,
            _wanted: wanted,
        })
    }

    fn want(&self, table: TableId) -> Result<Wanted, CqlError> {
        let turn = self.turns.borrow_mut().entry(table).or_default().clone();
        if turn.wanted.get() > WAITING_PER_TABLE_MAX {
            return Err(CqlError::overloaded(format_args!(
                "The table is being truncated, and {WAITING_PER_TABLE_MAX} more truncations of it wait"
            )));
        }
        turn.wanted.set(turn.wanted.get() + 1);
        Ok(Wanted {
            turns: self.turns.clone(),
            table,
            turn,
        })
    }
}

impl Drop for Wanted {
    fn drop(&mut self) {
        let left = self.turn.wanted.get() - 1;
        self.turn.wanted.set(left);
        if left == 0 {
            self.turns.borrow_mut().remove(&self.table);
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
