//! Searches of indexes of vectors that are narrowed by other indexes: none of the rows that match is missing from what they hand
//! out, whatever has happened to the rows before, meanwhile and after what is known of them was gathered.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use helenus_index::{IndexPredicate, IndexedColumn, TermQuery};
use helenus_rows::clustering::Slice;
use helenus_rows::partition_range::PartitionRange;
use helenus_schema::ColumnId;
use helenus_storage::read::ReadCommand;
use helenus_storage::read_state::{ReadProgress, ReadState};
use helenus_storage::store::{FilterGathering, StoreOptions, Tended};
use helenus_storage::vectors::{NearestSearch, NextNearest};
use helenus_vector::random::Random;
use helenus_vector::sample::Sample;

use super::check::Collected;
use super::table::{C1, NUMBER, TEXT, packed};
use super::vectors::{DIMENSION, Indexed, Row, key_of, number_cell, request};

const EVERYTHING: u32 = u32::MAX;

impl Indexed {
    fn predicate(&self, column: ColumnId, value: i32) -> IndexPredicate {
        let index = self.table.indexes_of(column).next().unwrap();
        let column = IndexedColumn::of(&self.table, index).unwrap();
        IndexPredicate {
            index: index.id,
            query: TermQuery::equal(&column, &value.to_be_bytes()),
        }
    }

    fn range(&self, (from, to): (i32, i32)) -> IndexPredicate {
        let index = self.table.indexes_of(NUMBER).next().unwrap();
        let column = IndexedColumn::of(&self.table, index).unwrap();
        let (from, to) = (from.to_be_bytes(), to.to_be_bytes());
        IndexPredicate {
            index: index.id,
            query: TermQuery::range(&column, Bound::Included(&from), Bound::Included(&to)),
        }
    }

    fn gather(&mut self, predicates: &[IndexPredicate], places_max: u32) {
        let table = Arc::clone(&self.table);
        let request = request(&table, &[0.0; DIMENSION], predicates).unwrap();
        let (mut gathering, mut state) = (FilterGathering::of(places_max), ReadState::suspending());
        let store = self.store();
        loop {
            let progress = store.gather_nearest_filters(&request, &mut gathering, &mut state);
            match progress.unwrap() {
                ReadProgress::Done => return,
                ReadProgress::Yield => {}
                ReadProgress::Absent(absent) => {
                    let stored = absent.read().unwrap();
                    store.deliver(&state, &absent, &stored).unwrap();
                }
            }
        }
    }

    fn begin(&mut self, query: &[f32], predicates: &[IndexPredicate]) -> Option<NearestSearch> {
        let table = Arc::clone(&self.table);
        let request = request(&table, query, predicates)?;
        self.store().begin_nearest(&request)
    }

    /// Returns what a search hands out to its end.
    fn search_among(&mut self, query: &[f32], predicates: &[IndexPredicate]) -> Option<Vec<Row>> {
        let mut search = self.begin(query, predicates)?;
        let now_s = self.now_s;
        let mut rows = Vec::new();
        loop {
            match self.store().next_nearest(&mut search, now_s, &mut { 500 }) {
                NextNearest::Row { key, clustering, .. } => rows.push((key, clustering)),
                NextNearest::Paused => {}
                NextNearest::End { is_everything } => {
                    assert!(is_everything, "all that may match is linked or compared");
                    return Some(rows);
                }
                NextNearest::Lost => return None,
            }
        }
    }

    /// The next rows that a search hands out.
    fn hand_out(&mut self, search: &mut NearestSearch, count_max: usize) -> Vec<Row> {
        let (mut rows, now_s) = (Vec::new(), self.now_s);
        while rows.len() < count_max {
            match self.store().next_nearest(search, now_s, &mut { 1_000 }) {
                NextNearest::Row { key, clustering, .. } => rows.push((key, clustering)),
                NextNearest::Paused => {}
                NextNearest::End { .. } => break,
                NextNearest::Lost => panic!("the index is there"),
            }
        }
        rows
    }

    /// The first rows that a search hands out.
    fn first_among(&mut self, query: &[f32], predicates: &[IndexPredicate], count: usize) -> Vec<Row> {
        let mut search = self.begin(query, predicates).unwrap();
        self.hand_out(&mut search, count)
    }

    /// Units that it takes to hand out the first ten rows of searches.
    fn units_of(&mut self, queries: &[Vec<f32>], predicates: &[IndexPredicate]) -> u64 {
        let mut units = 0;
        for query in queries {
            let mut search = self.begin(query, predicates).unwrap();
            let (mut rows, now_s) = (0, self.now_s);
            while rows < 10 {
                let mut left = 1_000;
                let next = self.store().next_nearest(&mut search, now_s, &mut left);
                rows += u32::from(matches!(next, NextNearest::Row { .. }));
                units += 1_000 - u64::from(left);
            }
        }
        units
    }

    /// The rows with a vector that have such numbers and such a first clustering column.
    fn matching(&mut self, accepts: impl Fn(i32, i32) -> bool) -> BTreeSet<Row> {
        let table = Arc::clone(&self.table);
        let command = ReadCommand {
            table: &table,
            partitions: PartitionRange::everything(),
            slices: &[Slice::all()],
            reversed: false,
            now_s: self.now_s,
            index: &[],
        };
        let mut rows = Collected::default();
        self.store().read(&command, &mut rows).unwrap();
        let mut matching = BTreeSet::new();
        for (key, answer) in rows.end() {
            for ((c1, c2), _, cells) in answer.rows {
                let number = cells.get(&(NUMBER.0, None)).map(|(value, _, _)| value);
                let number = number.and_then(|value| value.as_slice().try_into().ok());
                let number = number.map_or(-1, i32::from_be_bytes);
                if cells.contains_key(&(TEXT.0, None)) && accepts(number, c1) {
                    matching.insert((key.clone(), packed(&[c1, c2])));
                }
            }
        }
        matching
    }

    fn check_matching_found(
        &mut self,
        predicates: &[IndexPredicate],
        accepts: impl Fn(i32, i32) -> bool,
        when: &str,
    ) {
        let there = self.matching(accepts);
        let found = self.search_among(&[50.0; DIMENSION], predicates).unwrap();
        let found: BTreeSet<Row> = found.into_iter().collect();
        let missing: Vec<_> = there.difference(&found).collect();
        assert!(missing.is_empty(), "{when}: {} of {}", missing.len(), there.len());
    }
}

#[test]
fn no_row_that_matches_is_missing_through_everything_that_happens() {
    let mut by_own_graphs = 0;
    for seed in 0..16 {
        let mut random = Random::new(seed);
        let mut sample = Sample::descriptors(DIMENSION, 5, seed);
        let mut node = match seed % 4 {
            0 => Indexed::start_usual(&[]),
            _ => Indexed::start(true, StoreOptions::default()),
        };
        for round in 0..150 {
            let (key, row) = (key_of(random.below(12)), random.below(20) as i32);
            let number = random.below(4) as i32;
            // Not always the newest, and sometimes the same.
            let timestamp_us = round / 6 + random.below(5) as i64;
            match random.below(24) {
                0 => node.delete(&key, row, timestamp_us),
                1 => node.write(&key, row, None, timestamp_us, 0),
                2 => node.flush(),
                3 => node.compact(),
                4 => {
                    node.run_jobs();
                    node.open();
                }
                5 => node.tend(random.below(4) as usize),
                6..12 => node.write_cells(&key, row, vec![number_cell(number, timestamp_us)], timestamp_us),
                12..16 => {
                    let vector = node.vector_cell(Some(&sample.vector()), timestamp_us, 0);
                    node.write_cells(&key, row, vec![vector], timestamp_us);
                }
                16..18 => {
                    // As far as a query comes.
                    let predicate = node.predicate(NUMBER, number);
                    if node.begin(&[0.0; DIMENSION], &[]).is_some() {
                        node.gather(&[predicate], 1 + random.below(12) as u32);
                    }
                }
                _ => {
                    let vector = node.vector_cell(Some(&sample.vector()), timestamp_us, 0);
                    let cells = vec![number_cell(number, timestamp_us), vector];
                    node.write_cells(&key, row, cells, timestamp_us);
                }
            }
            if round % 3 != 2 {
                continue;
            }
            if node.begin(&[0.0; DIMENSION], &[]).is_none() {
                node.tend(10_000);
            }
            let when = format!("seed {seed}, round {round}");
            let of_number = node.predicate(NUMBER, number);
            let of_both = [of_number.clone(), node.predicate(C1, row)];
            let of_range = node.range((1, 2));
            if random.below(2) == 0 {
                node.gather(&of_both, EVERYTHING);
                node.gather(std::slice::from_ref(&of_range), EVERYTHING);
            }
            by_own_graphs += node.store().vector_filter_graphs();
            node.check_matching_found(&[of_number], |other, _| other == number, &when);
            node.check_matching_found(&of_both, |other, c1| other == number && c1 == row, &when);
            node.check_matching_found(&[of_range], |other, _| (1..3).contains(&other), &when);
        }
    }
    assert!(by_own_graphs > 100, "{by_own_graphs}");
}

fn numbered(rows: i32) -> (Indexed, Sample) {
    numbered_on(Indexed::start(true, StoreOptions::default()), rows)
}

fn numbered_on(mut node: Indexed, rows: i32) -> (Indexed, Sample) {
    let mut sample = Sample::descriptors(DIMENSION, 5, 7);
    for row in 0..rows {
        let vector = node.vector_cell(Some(&sample.vector()), 1, 0);
        let cells = vec![number_cell(row % 10, 1), vector];
        node.write_cells(&key_of((row / 50) as u64), row % 50, cells, 1);
    }
    node.tend(usize::MAX);
    (node, sample)
}

/// Else rows that do not match would be read for nothing.
#[test]
fn searches_hand_out_little_but_what_matches() {
    let (mut node, sample) = numbered(1_000);
    let query = { sample }.vector();
    let number = node.predicate(NUMBER, 3);
    assert_eq!(
        node.search_among(&query, std::slice::from_ref(&number))
            .unwrap()
            .len(),
        1_000
    );
    node.gather(std::slice::from_ref(&number), 60);
    let found = node
        .search_among(&query, std::slice::from_ref(&number))
        .unwrap()
        .len();
    assert_eq!(found, 1_000, "it is not known of all of them");
    node.gather(std::slice::from_ref(&number), 60);
    let when = "gathered by two queries";
    assert_eq!(
        node.search_among(&query, std::slice::from_ref(&number))
            .unwrap()
            .len(),
        100,
        "{when}"
    );
    let both = [number, node.predicate(C1, 13)];
    node.gather(&both, EVERYTHING);
    assert_eq!(node.search_among(&query, &both).unwrap().len(), 20, "both");
    let none = [node.predicate(NUMBER, 77)];
    node.gather(&none, EVERYTHING);
    assert_eq!(node.search_among(&query, &none).unwrap().len(), 0, "none");
    let range = [node.range((2, 4))];
    node.gather(&range, EVERYTHING);
    assert_eq!(node.search_among(&query, &range).unwrap().len(), 300, "a range");
    node.flush();
    let flushed = [node.predicate(NUMBER, 5)];
    node.gather(&flushed, EVERYTHING);
    assert_eq!(node.search_among(&query, &flushed).unwrap().len(), 100, "flushed");
}

#[test]
fn sets_are_gathered_anew_once_much_of_them_is_not_known_to_match() {
    let (mut node, mut sample) = numbered(1_000);
    let number = [node.predicate(NUMBER, 3)];
    node.gather(&number, EVERYTHING);
    let mut write = |node: &mut Indexed, row: i32| {
        let vector = node.vector_cell(Some(&sample.vector()), 2, 0);
        node.write_cells(&key_of(1_000), row, vec![number_cell(5, 2), vector], 2);
    };
    (0..100).for_each(|row| write(&mut node, row));
    node.gather(&number, EVERYTHING);
    let query = [1.0; DIMENSION];
    assert_eq!(
        node.search_among(&query, &number).unwrap().len(),
        200,
        "a few may match"
    );
    (100..400).for_each(|row| write(&mut node, row));
    node.gather(&number, EVERYTHING);
    assert_eq!(
        node.search_among(&query, &number).unwrap().len(),
        100,
        "it is known of all"
    );
}

/// Which of them the row has is known to who reads it.
#[test]
fn of_two_vectors_of_one_timestamp_either_leads_to_the_row() {
    for gathers_before in [false, true] {
        let (mut node, mut sample) = numbered(300);
        let (key, vectors) = (key_of(1_000), [sample.vector(), sample.vector()]);
        let predicates = [node.predicate(NUMBER, 3)];
        for (round, vector) in vectors.iter().enumerate() {
            let cells = vec![number_cell(5, 2), node.vector_cell(Some(vector), 2, 0)];
            node.write_cells(&key, 7, cells, 2);
            if gathers_before && round == 0 {
                node.gather(&predicates, EVERYTHING);
            }
        }
        node.write_cells(&key, 7, vec![number_cell(3, 3)], 3);
        node.gather(&predicates, EVERYTHING);
        for vector in &vectors {
            let found = node.search_among(vector, &predicates).unwrap();
            assert_eq!(
                found[0],
                (key.clone(), packed(&[7, 0])),
                "gathered before: {gathers_before}"
            );
            assert!(found.len() < 40, "{}", found.len());
        }
    }
}

/// A tenth of a million vectors took six times the comparisons of all, again and again.
#[test]
fn filters_by_which_one_searches_often_have_graphs_of_their_own() {
    // Two changes each: no more than a graph may have that are not linked.
    const COUNT: u64 = 100;
    let node = Indexed::start_usual(&[
        ("maximum_node_connections", "6"),
        ("construction_beam_width", "12"),
        ("search_beam_width", "15"),
    ]);
    let (mut node, mut sample) = numbered_on(node, 50_000);
    let predicate = [node.predicate(NUMBER, 3)];
    node.gather(&predicate, EVERYTHING);
    let queries: Vec<_> = (0..COUNT).map(|_| sample.vector()).collect();
    let before = node.units_of(&queries, &predicate);
    assert_eq!(
        node.store().vector_filter_graphs(),
        0,
        "it would cost more than it saved"
    );
    let mut asked = queries.len();
    while node.store().vector_filter_graphs() == 0 {
        node.units_of(&queries, &predicate);
        node.tend(1);
        asked += queries.len();
        assert!(asked < 20_000);
    }
    assert!(asked > 1_000, "{asked}");
    node.tend(usize::MAX);
    let after = node.units_of(&queries, &predicate);
    assert!(after < before / 2, "{before} before, {after} after");
    // A row of 3, one of 5 that becomes one of 3, and one of 3 that is deleted.
    let row_of = |number: u64, c1: i32| (key_of(number), packed(&[c1, 0]));
    let mut again = Sample::descriptors(DIMENSION, 5, 7);
    let there: Vec<_> = (0..COUNT as usize * 50).map(|_| again.vector()).collect();
    for number in 0..COUNT {
        let cells = vec![
            number_cell(3, 2),
            node.vector_cell(Some(&queries[number as usize]), 2, 0),
        ];
        node.write_cells(&key_of(2_000 + number), 0, cells, 2);
        node.write_cells(&key_of(number), 5, vec![number_cell(3, 2)], 2);
        node.delete(&key_of(number), 3, 2);
    }
    for (number, query) in queries.iter().enumerate() {
        let found = node.first_among(query, &predicate, 10);
        assert!(
            found.contains(&row_of(2_000 + number as u64, 0)),
            "written: {number}"
        );
        let is_deleted = |row: &Row| (0..COUNT).any(|number| *row == row_of(number, 3));
        assert!(!found.iter().any(is_deleted));
        let found = node.first_among(&there[number * 50 + 5], &predicate, 10);
        assert!(found.contains(&row_of(number as u64, 5)), "now of 3: {number}");
    }
    node.tend(usize::MAX);
    assert!(node.units_of(&queries, &predicate) < before / 2);
    assert_eq!(node.store().vector_filter_graphs(), 1);
}

#[test]
fn graphs_of_filters_are_given_up_for_memory_that_an_index_needs() {
    let options = StoreOptions {
        vector_bytes_max: 3 << 19,
        ..StoreOptions::default()
    };
    let (mut node, mut sample) = numbered_on(Indexed::start(true, options), 1_000);
    let predicate = [node.predicate(NUMBER, 3)];
    node.gather(&predicate, EVERYTHING);
    node.tend(usize::MAX);
    assert_eq!(node.store().vector_filter_graphs(), 1);
    let query = sample.vector();
    let mut search = node.begin(&query, &predicate).unwrap();
    let first = node.hand_out(&mut search, 20);
    let mut number = 1_000;
    while node.store().vector_filter_graphs() == 1 {
        let vector = node.vector_cell(Some(&sample.vector()), 2, 0);
        node.write_cells(&key_of(number), 0, vec![number_cell(5, 2), vector], 2);
        node.tend(1);
        number += 1;
        assert!(number < 50_000);
    }
    let when = "given up";
    node.check_matching_found(&predicate, |number, _| number == 3, when);
    // A search that had begun goes on among all.
    let rest = node.hand_out(&mut search, usize::MAX);
    let handed: BTreeSet<&Row> = first.iter().chain(&rest).collect();
    assert_eq!(handed.len(), first.len() + rest.len(), "each once");
    let there = node.matching(|number, _| number == 3);
    assert!(there.iter().all(|row| handed.contains(row)), "{when}");
}

#[test]
fn graphs_of_filters_take_no_more_memory_than_the_index() {
    let (mut node, _) = numbered(1_000);
    let bytes = node.store().vector_bytes();
    let predicates: Vec<_> = (0..10).map(|number| node.predicate(NUMBER, number)).collect();
    let begins = |node: &mut Indexed, predicate: &IndexPredicate| {
        node.gather(std::slice::from_ref(predicate), EVERYTHING);
        let begins = !matches!(node.store().tend_vectors(), Tended::Nothing);
        node.tend(usize::MAX);
        // And a piece of memory of each kind, which even a graph of few has.
        assert!(node.store().vector_bytes() < 3 * bytes);
        begins
    };
    for predicate in &predicates {
        assert!(
            begins(&mut node, predicate),
            "those asked for longest ago make room"
        );
    }
    let count = node.store().vector_filter_graphs();
    assert!((2..5).contains(&count), "{count}");
    assert!(
        !begins(&mut node, &predicates[0]),
        "it has to be worth it once more"
    );
    assert!(!begins(&mut node, &predicates[9]), "it has one");
}

/// A shard without memory for the graph of a set made it and gave it up, again and again, and did nothing else.
#[test]
fn a_graph_that_took_too_much_memory_is_not_tried_again_at_once() {
    let bytes = numbered(100).0.store().vector_bytes();
    let options = StoreOptions {
        // Even a graph of few has room for as many as this one.
        vector_bytes_max: bytes * 21 / 20,
        ..StoreOptions::default()
    };
    let (mut node, mut sample) = numbered_on(Indexed::start(true, options), 100);
    let predicate = [node.predicate(C1, 13)];
    node.gather(&predicate, EVERYTHING);
    let mut begun = 0;
    for _ in 0..1_000 {
        let before = node.store().vector_filter_graphs();
        let _ = node.store().tend_vectors();
        begun += node.store().vector_filter_graphs().saturating_sub(before);
    }
    assert_eq!(begun, 1);
    assert_eq!(node.store().vector_filter_graphs(), 0);
    assert!(
        node.begin(&sample.vector(), &predicate).is_some(),
        "the index is kept"
    );
}
