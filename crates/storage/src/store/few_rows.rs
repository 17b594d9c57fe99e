//! The shortest way by an index: few rows under one term, where the memtable that takes the writes has all of the table.
//!
//! Nothing is copied on the way from the entries to the rows, nor are there candidates to intersect or sources to merge.

use helenus_index::{IndexPredicate, TermQuery};
use helenus_rows::partition_range::PartitionRange;
use helenus_types::Token;

use super::answer::{Answer, ReadScratch, Walk, row_units};
use super::shard::ShardStore;
use super::table::Table;
use crate::memtable::Partition;
use crate::read::{ReadCommand, ReadSink};
use crate::read_state::{PARTITION_UNITS, PartitionPlace, ReadPosition, ReadProgress, ReadState};

/// Entries that are looked at before the first of them is answered: of more, the walk over candidates is the shorter way.
const ENTRIES_MAX: usize = 16;

/// A row that an entry leads to.
#[derive(Clone, Copy)]
struct FoundRow<'t> {
    token: Token,
    partition: &'t Partition,
    clustering: &'t [u8],
}

impl ShardStore {
    /// A step on the shortest way by an index; `None` where that is closed. By itself, so that reads without an index do not pay for its
    /// place on the stack.
    #[inline(never)]
    pub(super) fn read_few_rows<S: ReadSink>(
        &mut self,
        command: &ReadCommand<'_>,
        state: &mut ReadState,
        sink: &mut S,
    ) -> Option<ReadProgress> {
        let table = self.tables.get(&command.table.id)?;
        let few = FewRows::find(table, command, state, &mut self.read_scratch)?;
        let mut answer = Answer::new(table, command, sink, &mut self.read_scratch, state);
        Some(match answer.few_rows(&few) {
            Walk::Over | Walk::Enough => ReadProgress::Done,
            Walk::Paused => ReadProgress::Yield,
        })
    }
}

/// Rows that may match, each alone in its partition, in the order of a scan.
pub(super) struct FewRows<'t> {
    found: [Option<FoundRow<'t>>; ENTRIES_MAX],
}

impl<'t> FewRows<'t> {
    /// `None` where the read asks for more than this way can do, or has begun on another.
    pub fn find(
        table: &'t Table,
        command: &ReadCommand<'_>,
        state: &ReadState,
        scratch: &mut ReadScratch,
    ) -> Option<Self> {
        let [
            IndexPredicate {
                index,
                query: TermQuery::Equal(term),
            },
        ] = command.index
        else {
            return None;
        };
        let ([slice], None, None) = (command.slices, &state.position, state.searched_to) else {
            return None;
        };
        if !table.is_in_active() || !slice.is_all() {
            return None;
        }
        let terms = table.active_terms(*index)?;
        let flags = terms.flags();
        if flags.has_any || flags.has_tokens {
            return None;
        }
        let has_clustering = table.layout.comparator.component_count() > 0;
        let (start, end) = match command.partitions {
            PartitionRange::Parts(_) => return None,
            partitions => partitions.bounds(),
        };
        let mut found = [None; ENTRIES_MAX];
        let mut places = found.iter_mut();
        for (place, rows) in terms.places_of(term, &mut scratch.head) {
            // Entries before the part that is asked for count, too: each page of a long answer comes by here.
            let found = places.next()?;
            let clustering: &[u8] = match has_clustering {
                true => rows.only()?.clustering(),
                false => &[],
            };
            if start.is_behind(place.token, place.key) {
                continue;
            }
            if !end.is_behind(place.token, place.key) {
                break;
            }
            let Some(partition) = table.active.partition(place.token, place.key) else {
                continue;
            };
            if !partition.has_whole_rows() {
                return None;
            }
            *found = Some(FoundRow {
                token: place.token,
                partition,
                clustering,
            });
        }
        Some(FewRows { found })
    }
}

impl<S: ReadSink> Answer<'_, S> {
    pub fn few_rows(&mut self, few: &FewRows<'_>) -> Walk {
        self.state.statistics.by_index = true;
        let mut passed: Option<FoundRow<'_>> = None;
        for row in few.found.iter().flatten() {
            if let (Some(passed), 0) = (&passed, self.state.units_left) {
                self.state.position = Some(Box::new(ReadPosition {
                    token: passed.token,
                    key: passed.partition.key().to_vec(),
                    place: PartitionPlace::End,
                }));
                return Walk::Paused;
            }
            let stored = row.partition.row(self.layout, row.clustering);
            let units = stored.map_or(0, |(packed, _)| row_units(packed.row()));
            self.state.spend(PARTITION_UNITS + units);
            if self.packed_point(row.token, row.partition, stored).is_break() {
                return Walk::Enough;
            }
            passed = Some(*row);
        }
        Walk::Over
    }
}
