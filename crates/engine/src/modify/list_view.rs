//! A list as a statement sees it: as it is stored, with what the statement has changed in it so far.

use std::cell::{Cell, OnceCell};
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use helenus_types::CqlType;

/// A full chunk of changes is cut: with as many changes as a statement can name, some 80,000, a look goes over 600 chunks and
/// one of them.
const CHUNK_CHANGES_MAX: usize = 256;

/// A list before the statement. Statements of a batch share it.
#[derive(Debug, Default)]
pub struct StoredList {
    /// Each cell's path and value, in order.
    cells: Vec<(Vec<u8>, Vec<u8>)>,
    /// Positions by value, once values were looked for twice.
    by_value: OnceCell<Vec<u32>>,
    was_searched: Cell<bool>,
}

/// Answers what is where, however many operations of a statement ask, without going through the list each time.
#[derive(Debug)]
pub struct ListView {
    stored: Rc<StoredList>,
    /// Changes of the statement, in the order of paths; no chunk is empty.
    chunks: Vec<Chunk>,
    /// How many of the statement's cells are among the changes.
    taken: usize,
    /// By how many elements the list has grown.
    growth: isize,
    /// The paths that were written with a value; it may have changed since.
    paths_by_value: HashMap<Vec<u8>, Vec<Vec<u8>>>,
    /// Values of which no stored element is left.
    discarded: HashSet<Vec<u8>>,
}

#[derive(Debug, Default)]
struct Chunk {
    changes: Vec<Change>,
    /// By how many elements they let the list grow.
    growth: isize,
}

#[derive(Debug)]
struct Change {
    path: Vec<u8>,
    /// `None` where the element goes.
    value: Option<Vec<u8>>,
    /// How many stored elements stand in front of it, and whether it is one itself.
    stored_before: usize,
    is_stored: bool,
}

impl StoredList {
    pub fn new(cells: Vec<(Vec<u8>, Vec<u8>)>) -> Self {
        StoredList {
            cells,
            ..StoredList::default()
        }
    }

    /// The positions of elements with one of some values.
    fn positions_of<'v>(&'v self, values: &'v HashSet<&[u8]>) -> Box<dyn Iterator<Item = usize> + 'v> {
        if !self.was_searched.replace(true) {
            let is_one = |value: &Vec<u8>| values.contains(value.as_slice());
            let positions = self.cells.iter().enumerate();
            return Box::new(positions.filter_map(move |(at, (_, value))| is_one(value).then_some(at)));
        }
        let value_at = |at: u32| self.cells[at as usize].1.as_slice();
        let index = self.by_value.get_or_init(|| {
            let mut index: Vec<u32> = (0..self.cells.len() as u32).collect();
            index.sort_by(|left, right| value_at(*left).cmp(value_at(*right)));
            index
        });
        let positions = values.iter().flat_map(move |value| {
            let start = index.partition_point(|at| value_at(*at) < *value);
            let of_value = move |at: &&u32| value_at(**at) == *value;
            index[start..].iter().take_while(of_value)
        });
        Box::new(positions.map(|at| *at as usize))
    }
}

impl ListView {
    pub fn new(stored: Rc<StoredList>) -> Self {
        ListView {
            stored,
            chunks: Vec::new(),
            taken: 0,
            growth: 0,
            paths_by_value: HashMap::new(),
            discarded: HashSet::new(),
        }
    }

    /// Takes in what the statement has written since the last call: `cells` only grow.
    pub fn take(&mut self, cells: &[(Vec<u8>, Option<Vec<u8>>)]) {
        for (path, value) in cells.get(self.taken..).unwrap_or_default() {
            self.put(path, value.as_deref());
        }
        self.taken = cells.len();
    }

    pub fn len(&self) -> usize {
        self.stored.cells.len().saturating_add_signed(self.growth)
    }

    /// The path of the element at a position.
    pub fn path_at(&self, position: usize) -> Option<Vec<u8>> {
        if position >= self.len() {
            return None;
        }
        // The elements in front of a change: the stored ones, and what the changes before it add.
        let before = |change: &Change, growth: isize| change.stored_before.saturating_add_signed(growth);
        let mut growth = 0;
        let mut chunks = self.chunks.iter().peekable();
        while let Some(chunk) = chunks.next() {
            let is_in_later = chunks
                .peek()
                .and_then(|next| next.changes.first())
                .is_some_and(|first| before(first, growth + chunk.growth) <= position);
            if is_in_later {
                growth += chunk.growth;
                continue;
            }
            for change in &chunk.changes {
                match before(change, growth).cmp(&position) {
                    Ordering::Greater => break,
                    Ordering::Equal if change.value.is_some() => return Some(change.path.clone()),
                    _ => growth += change.growth(),
                }
            }
            break;
        }
        let at = position.checked_add_signed(-growth)?;
        self.stored.cells.get(at).map(|(path, _)| path.clone())
    }

    /// The paths of all elements with one of these values, which the caller deletes.
    pub fn discard(&mut self, values: &[&[u8]]) -> Vec<Vec<u8>> {
        let new: HashSet<&[u8]> = values
            .iter()
            .copied()
            .filter(|value| self.discarded.insert(value.to_vec()))
            .collect();
        let mut gone = Vec::new();
        if !new.is_empty() {
            let paths = self.stored.positions_of(&new).map(|at| &self.stored.cells[at].0);
            gone.extend(paths.filter(|path| self.change(path).is_none()).cloned());
        }
        for value in values {
            let paths = self.paths_by_value.remove(*value).unwrap_or_default();
            let has_value = |path: &Vec<u8>| {
                let change = self.change(path);
                change.is_some_and(|change| change.value.as_deref() == Some(*value))
            };
            gone.extend(paths.into_iter().filter(has_value));
        }
        gone
    }

    fn chunk_of(&self, path: &[u8]) -> usize {
        let begins_before = |chunk: &Chunk| {
            let first = chunk.changes.first();
            first.is_some_and(|first| compare(&first.path, path) != Ordering::Greater)
        };
        self.chunks.partition_point(begins_before).saturating_sub(1)
    }

    fn change(&self, path: &[u8]) -> Option<&Change> {
        let chunk = self.chunks.get(self.chunk_of(path))?;
        let found = chunk.find(path).ok()?;
        chunk.changes.get(found)
    }

    /// Adds a change. Of two writes of one statement to a place a tombstone counts, else the greater value: they have the same
    /// time.
    fn put(&mut self, path: &[u8], value: Option<&[u8]>) {
        let at = self.chunk_of(path);
        if self.chunks.is_empty() {
            self.chunks.push(Chunk::default());
        }
        let chunk = &mut self.chunks[at];
        let growth_before = chunk.growth;
        let is_written = match chunk.find(path) {
            Ok(found) => chunk.change(found, value),
            Err(place) => {
                let stored = &self.stored.cells;
                let found = stored.binary_search_by(|(other, _)| compare(other, path));
                let (Ok(stored_before) | Err(stored_before)) = found;
                let change = Change {
                    path: path.to_vec(),
                    value: value.map(<[u8]>::to_vec),
                    stored_before,
                    is_stored: found.is_ok(),
                };
                chunk.growth += change.growth();
                chunk.changes.insert(place, change);
                true
            }
        };
        self.growth += chunk.growth - growth_before;
        if chunk.changes.len() > CHUNK_CHANGES_MAX {
            let upper = chunk.split();
            self.chunks.insert(at + 1, upper);
        }
        if let (true, Some(value)) = (is_written, value) {
            let paths = self.paths_by_value.entry(value.to_vec()).or_default();
            paths.push(path.to_vec());
        }
    }
}

impl Chunk {
    fn find(&self, path: &[u8]) -> Result<usize, usize> {
        self.changes
            .binary_search_by(|change| compare(&change.path, path))
    }

    /// Makes the value that of a change if it counts, and returns whether it does.
    fn change(&mut self, index: usize, value: Option<&[u8]>) -> bool {
        let change = &mut self.changes[index];
        let is_newer = match (&change.value, value) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(old), Some(new)) => new > old.as_slice(),
        };
        if is_newer {
            self.growth -= change.growth();
            change.value = value.map(<[u8]>::to_vec);
            self.growth += change.growth();
        }
        is_newer
    }

    fn split(&mut self) -> Chunk {
        let changes = self.changes.split_off(self.changes.len() / 2);
        let growth = changes.iter().map(Change::growth).sum();
        self.growth -= growth;
        Chunk { changes, growth }
    }
}

impl Change {
    fn growth(&self) -> isize {
        match (self.is_stored, self.value.is_some()) {
            (true, false) => -1,
            (false, true) => 1,
            _ => 0,
        }
    }
}

fn compare(left: &[u8], right: &[u8]) -> Ordering {
    CqlType::Timeuuid.compare(left, right)
}

#[cfg(test)]
mod tests {
    use super::*;
    use helenus_vfs::{Random, SeededRandom};

    fn path(number: u64) -> Vec<u8> {
        let mut path = vec![0; 16];
        path[..8].copy_from_slice(&number.to_be_bytes());
        path.rotate_left(4);
        path
    }

    /// Computes what the view must say, from the stored cells and all that was written.
    fn present(
        stored: &[(Vec<u8>, Vec<u8>)],
        written: &[(Vec<u8>, Option<Vec<u8>>)],
    ) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut present = Vec::new();
        let mut paths: Vec<&Vec<u8>> = stored.iter().map(|(path, _)| path).collect();
        paths.extend(written.iter().map(|(path, _)| path));
        paths.sort_by(|left, right| compare(left, right));
        paths.dedup();
        for path in paths {
            let of_path: Vec<_> = written.iter().filter(|(other, _)| other == path).collect();
            let old = stored.iter().find(|(other, _)| other == path);
            let value = match of_path.is_empty() {
                true => old.map(|(_, value)| value.clone()),
                false if of_path.iter().any(|(_, value)| value.is_none()) => None,
                false => of_path.iter().filter_map(|(_, value)| value.clone()).max(),
            };
            present.extend(value.map(|value| (path.clone(), value)));
        }
        present
    }

    #[test]
    fn a_view_is_the_list_with_all_that_was_written() {
        let random = SeededRandom::new(31);
        let below = |bound: u64| random.below(bound);
        for _ in 0..150 {
            let mut paths: Vec<Vec<u8>> = (0..below(40)).map(|_| path(below(80))).collect();
            paths.sort_by(|left, right| compare(left, right));
            paths.dedup();
            let value = || vec![below(6) as u8];
            let stored: Vec<_> = paths.into_iter().map(|path| (path, value())).collect();
            let mut view = ListView::new(Rc::new(StoredList::new(stored.clone())));
            let mut written: Vec<(Vec<u8>, Option<Vec<u8>>)> = Vec::new();
            for _ in 0..40 {
                let wanted = present(&stored, &written);
                view.take(&written);
                assert_eq!(view.len(), wanted.len());
                for position in 0..wanted.len() + 1 {
                    let path = wanted.get(position).map(|(path, _)| path.clone());
                    assert_eq!(view.path_at(position), path);
                }
                match below(3) {
                    0 => {
                        let values = [value(), value()];
                        let values = [values[0].as_slice(), values[1].as_slice()];
                        let mut gone = view.discard(&values);
                        gone.sort_by(|left, right| compare(left, right));
                        let wanted = wanted.into_iter();
                        let wanted = wanted.filter(|(_, value)| values.contains(&value.as_slice()));
                        assert_eq!(gone, wanted.map(|(path, _)| path).collect::<Vec<_>>());
                        written.extend(gone.into_iter().map(|path| (path, None)));
                    }
                    1 => written.push((path(below(80)), None)),
                    _ => written.push((path(below(80)), Some(value()))),
                }
            }
        }
    }

    /// Symptom: each operation of a statement went through the whole list, and through all operations before it.
    #[test]
    fn operations_do_not_go_through_the_list_each() {
        let stored = (0..10_000)
            .map(|number| (path(number), vec![number as u8]))
            .collect();
        let mut view = ListView::new(Rc::new(StoredList::new(stored)));
        let mut written = Vec::new();
        let before = helenus_test_heap::of_thread().allocated_bytes;
        for number in 0..10_000 {
            view.take(&written);
            let path = view.path_at(number).unwrap();
            written.push((path, Some(vec![0])));
        }
        let bytes = helenus_test_heap::of_thread().allocated_bytes - before;
        assert!(bytes < 16 << 20, "{bytes} bytes");
        assert!(
            view.chunks
                .iter()
                .all(|chunk| chunk.changes.len() <= CHUNK_CHANGES_MAX)
        );
    }
}
