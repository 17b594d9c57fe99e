//! Rows whose time is over, as a read of what is stored finds them.

use std::ops::ControlFlow;

use helenus_rows::clustering::Slice;
use helenus_rows::deletion::DeletionTime;
use helenus_rows::row::{Liveness, RowShape};
use helenus_rows::update::UpdateBuilder;
use helenus_schema::TableId;
use helenus_sstable::source::Unfiltered;
use helenus_storage::read::StoredSink;
use helenus_types::Token;

/// Takes the rows of a read that have expired and are not deleted.
pub(super) struct ExpiredRows<'s> {
    shape: &'s RowShape,
    now_s: u32,
    found: Vec<ExpiredPartition>,
    token: Token,
    key: Vec<u8>,
    deletion: DeletionTime,
    /// The range deletion over the place of the read.
    in_force: DeletionTime,
}

/// A partition with rows that have expired, in their order.
pub(super) struct ExpiredPartition {
    pub token: Token,
    pub key: Vec<u8>,
    pub rows: Vec<ExpiredRow>,
}

pub(super) struct ExpiredRow {
    pub clustering: Vec<u8>,
    /// As which it is read.
    pub deletion: DeletionTime,
    /// How large it is.
    pub bytes: usize,
}

impl<'s> ExpiredRows<'s> {
    pub fn new(shape: &'s RowShape, now_s: u32) -> Self {
        ExpiredRows {
            shape,
            now_s,
            found: Vec::new(),
            token: Token::MINIMUM,
            key: Vec::new(),
            deletion: DeletionTime::LIVE,
            in_force: DeletionTime::LIVE,
        }
    }

    pub fn take(&mut self) -> Vec<ExpiredPartition> {
        std::mem::take(&mut self.found)
    }
}

impl StoredSink for ExpiredRows<'_> {
    fn partition(&mut self, token: Token, key: &[u8], deletion: DeletionTime) -> ControlFlow<()> {
        self.token = token;
        self.key.clear();
        self.key.extend_from_slice(key);
        self.deletion = deletion;
        self.in_force = DeletionTime::LIVE;
        ControlFlow::Continue(())
    }

    fn element(&mut self, element: Unfiltered<'_>) -> ControlFlow<()> {
        let (clustering, row) = match element {
            Unfiltered::Marker { deletion, .. } => {
                self.in_force = deletion;
                return ControlFlow::Continue(());
            }
            Unfiltered::Row { clustering, row } => (clustering, row),
        };
        let outer = self.deletion.max(self.in_force);
        let deletion = self.shape.deletion_of_expired(row, outer, self.now_s);
        if deletion.is_live() {
            return ControlFlow::Continue(());
        }
        let expired = ExpiredRow {
            clustering: clustering.to_vec(),
            deletion,
            bytes: row.as_bytes().len(),
        };
        match self.found.last_mut().filter(|last| last.key == self.key) {
            Some(partition) => partition.rows.push(expired),
            None => self.found.push(ExpiredPartition {
                token: self.token,
                key: self.key.clone(),
                rows: vec![expired],
            }),
        }
        ControlFlow::Continue(())
    }
}

impl ExpiredPartition {
    /// The places of the rows.
    pub fn slices(&self) -> Vec<Slice> {
        let clusterings = self.rows.iter().map(|row| &row.clustering);
        clusterings
            .map(|clustering| Slice::covering(clustering))
            .collect()
    }

    /// An update that deletes the rows.
    pub fn deletion_of(&self, table: TableId) -> Vec<u8> {
        let mut update = Vec::new();
        let mut builder = UpdateBuilder::new(&mut update, table, &self.key, DeletionTime::LIVE);
        for row in &self.rows {
            builder.row(&row.clustering, Liveness::NONE, row.deletion, |_| {});
        }
        update
    }
}
