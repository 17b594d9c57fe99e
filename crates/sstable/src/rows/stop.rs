//! Where the cursors of one step of a read stopped, so that those of the next step go on there: without it each step
//! would decode the block that it begins in up to its place again.

use crate::rows::stored_block::Backward;
use helenus_rows::clustering::ClusteringBound;
use helenus_rows::deletion::DeletionTime;

/// One cursor's place in one partition. Everything before it, in the direction of the read, was handed out or is hidden
/// under what other sources announced; files do not change, so the place stays right.
#[derive(Debug)]
pub(crate) struct Stop {
    /// Id of Data.db, as the page cache tells files apart.
    pub file: u64,
    /// Position of the partition in Data.db.
    pub partition: u64,
    /// Where the slice ends that the cursor stands in, which tells the same slice in the next step: others may have gone
    /// from before and behind it, where the row cache knows them.
    pub far: ClusteringBound,
    /// The range deletion in force at the place.
    pub open: DeletionTime,
    pub at: StopPlace,
}

#[derive(Debug)]
pub(crate) enum StopPlace {
    /// An item begins here, counted from the partition's start.
    Offset(u64),
    /// Within a block that is decoded already.
    Block(Box<Backward>),
}

/// Where the index of an SSTable was left by a scan.
#[derive(Debug)]
pub(crate) struct IndexStop {
    pub file: u64,
    /// Where an entry begins that the scan has not done with.
    pub offset: u64,
}

/// The stops of one read. One for each SSTable and each index at most.
#[derive(Debug, Default)]
pub(crate) struct Stops {
    /// Those that the step began with and has not used yet.
    past: Vec<Stop>,
    /// Those of this step.
    noted: Vec<Stop>,
    indexes: Vec<IndexStop>,
}

impl Stops {
    /// Before a run that begins anew, or another read.
    pub fn forget(&mut self) {
        self.past.clear();
        self.noted.clear();
        self.indexes.clear();
    }

    /// Before a run that goes on behind the last one. A stop that no cursor came to use stays.
    pub fn resume(&mut self) {
        let noted = &self.noted;
        self.past
            .retain(|stop| noted.iter().all(|newer| newer.file != stop.file));
        self.past.append(&mut self.noted);
    }

    pub fn note(&mut self, stop: Stop) {
        self.noted.retain(|earlier| earlier.file != stop.file);
        self.noted.push(stop);
    }

    /// The stop of the cursor that this one follows.
    pub fn take(&mut self, file: u64, partition: u64, far: &ClusteringBound) -> Option<Stop> {
        let index = self
            .past
            .iter()
            .position(|stop| (stop.file, stop.partition) == (file, partition) && stop.far == *far)?;
        Some(self.past.swap_remove(index))
    }

    pub fn note_index(&mut self, stop: IndexStop) {
        self.indexes.retain(|earlier| earlier.file != stop.file);
        self.indexes.push(stop);
    }

    pub fn index(&self, file: u64) -> Option<u64> {
        let stop = self.indexes.iter().find(|stop| stop.file == file)?;
        Some(stop.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stop(file: u64, offset: u64) -> Stop {
        Stop {
            file,
            partition: 7,
            far: ClusteringBound::top(),
            open: DeletionTime::LIVE,
            at: StopPlace::Offset(offset),
        }
    }

    fn offset(stop: Option<Stop>) -> Option<u64> {
        match stop?.at {
            StopPlace::Offset(offset) => Some(offset),
            StopPlace::Block(_) => None,
        }
    }

    #[test]
    fn a_stop_is_used_once_by_a_cursor_of_the_same_place_in_a_later_run() {
        let mut stops = Stops::default();
        stops.note(stop(1, 10));
        stops.note(stop(2, 20));
        assert_eq!(offset(stops.take(1, 7, &ClusteringBound::top())), None);
        stops.resume();
        assert_eq!(offset(stops.take(1, 8, &ClusteringBound::top())), None);
        assert_eq!(offset(stops.take(1, 7, &ClusteringBound::bottom())), None);
        assert_eq!(offset(stops.take(1, 7, &ClusteringBound::top())), Some(10));
        assert_eq!(offset(stops.take(1, 7, &ClusteringBound::top())), None);
        // Nobody asked for the other one; a newer one of the same file takes the place of an older.
        stops.note(stop(1, 11));
        stops.resume();
        stops.note(stop(1, 12));
        stops.resume();
        assert_eq!(offset(stops.take(2, 7, &ClusteringBound::top())), Some(20));
        assert_eq!(offset(stops.take(1, 7, &ClusteringBound::top())), Some(12));
        stops.note(stop(1, 13));
        stops.forget();
        stops.resume();
        assert_eq!(offset(stops.take(1, 7, &ClusteringBound::top())), None);
    }
}
