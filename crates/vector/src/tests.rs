//! How many of the nearest are found, on vectors from a seed.

use crate::sample::Sample;
use crate::{Graph, Insertion, Near, Search, Similarity, VectorOptions};

const UNITS: u32 = 512;
/// How many candidates are compared whole for each that is wanted.
const CANDIDATES: usize = 2;

struct Indexed {
    graph: Graph,
    insertion: Insertion,
    /// By node.
    vectors: Vec<Vec<f32>>,
    similarity: Similarity,
}

impl Indexed {
    fn new(similarity: Similarity, dimension: usize) -> Self {
        let options = VectorOptions {
            similarity,
            ..VectorOptions::default()
        };
        Indexed {
            graph: Graph::new(&options, dimension),
            insertion: Insertion::default(),
            vectors: Vec::new(),
            similarity,
        }
    }

    fn add(&mut self, vector: Vec<f32>) -> u32 {
        let code = self.graph.encode(&vector);
        self.vectors.push(vector);
        self.graph.add(&code)
    }

    fn link(&mut self) {
        while !self.insertion.step(&mut self.graph, &mut { UNITS }) {}
    }

    fn nearest_of(&self, query: &[f32], nodes: impl Iterator<Item = u32>, count: usize) -> Vec<u32> {
        let mut near: Vec<Near> = nodes
            .map(|node| Near {
                distance: -self.similarity.closeness(query, &self.vectors[node as usize]),
                node,
            })
            .collect();
        near.sort_unstable();
        near.iter().take(count).map(|near| near.node).collect()
    }

    fn exact(&self, query: &[f32], accepts: impl Fn(u32) -> bool, count: usize) -> Vec<u32> {
        let live = (0..self.graph.len()).filter(|node| self.graph.is_live(*node) && accepts(*node));
        self.nearest_of(query, live, count)
    }

    fn search(&self, query: &[f32], accepts: impl Fn(u32) -> bool, count: usize) -> Vec<u32> {
        let beam = self.graph.search_beam();
        let mut search = Search::new(&self.graph, self.graph.encode(query), beam);
        let mut accepted = Vec::new();
        loop {
            while !search.step(&self.graph, &mut { UNITS }) {}
            let found = search.take_found(&self.graph);
            let is_all = found.is_empty();
            accepted.extend(found.iter().map(|near| near.node).filter(|node| accepts(*node)));
            if is_all || accepted.len() >= count * CANDIDATES {
                return self.nearest_of(query, accepted.into_iter(), count);
            }
            search.widen(&self.graph);
        }
    }

    fn recall(&self, queries: &[Vec<f32>], accepts: impl Fn(u32) -> bool + Copy) -> f64 {
        let mut found = 0;
        let mut wanted = 0;
        for query in queries {
            let exact = self.exact(query, accepts, 10);
            let nearest = self.search(query, accepts, 10);
            wanted += exact.len();
            found += exact.iter().filter(|node| nearest.contains(node)).count();
        }
        f64::from(found as u32) / f64::from(wanted as u32)
    }
}

fn filled(similarity: Similarity, sample: &mut Sample, dimension: usize, count: usize) -> Indexed {
    let mut indexed = Indexed::new(similarity, dimension);
    for _ in 0..count {
        indexed.add(sample.vector());
    }
    indexed.link();
    indexed
}

fn queries(sample: &mut Sample) -> Vec<Vec<f32>> {
    (0..50).map(|_| sample.vector()).collect()
}

#[test]
fn nineteen_of_twenty_nearest_are_found_by_every_similarity() {
    for (seed, similarity) in [
        (1, Similarity::Euclidean),
        (2, Similarity::Cosine),
        (3, Similarity::DotProduct),
    ] {
        let mut sample = match similarity {
            Similarity::Euclidean => Sample::descriptors(64, 40, seed),
            _ => Sample::embeddings(64, 40, seed),
        };
        let indexed = filled(similarity, &mut sample, 64, 6_000);
        let recall = indexed.recall(&queries(&mut sample), |_| true);
        assert!(recall >= 0.95, "{similarity:?}: {recall}");
    }
}

#[test]
fn filters_do_not_hide_what_is_near() {
    let mut sample = Sample::descriptors(32, 30, 4);
    let indexed = filled(Similarity::Euclidean, &mut sample, 32, 6_000);
    let queries = queries(&mut sample);
    for percent in [1, 10, 50] {
        let recall = indexed.recall(&queries, |node| node.wrapping_mul(2_654_435_761) % 100 < percent);
        assert!(recall >= 0.95, "{percent} %: {recall}");
    }
}

#[test]
fn recall_stays_after_three_tenths_are_removed_and_three_tenths_replaced() {
    let mut sample = Sample::descriptors(32, 30, 5);
    let mut indexed = filled(Similarity::Euclidean, &mut sample, 32, 6_000);
    for node in 0..6_000 {
        match node % 10 {
            0..3 => indexed.graph.remove(node),
            3..6 => {
                indexed.graph.remove(node);
                indexed.add(sample.vector());
            }
            _ => {}
        }
    }
    let queries = queries(&mut sample);
    let before = indexed.recall(&queries, |_| true);
    assert!(before >= 0.94, "not linked yet: {before}");
    indexed.link();
    let after = indexed.recall(&queries, |_| true);
    assert!(after >= 0.94, "{after}");
}

#[test]
fn what_was_just_added_is_found_and_what_was_removed_is_not() {
    let mut sample = Sample::embeddings(8, 3, 6);
    let mut indexed = Indexed::new(Similarity::Euclidean, 8);
    for round in 0..400 {
        let vector = sample.vector();
        let node = indexed.add(vector.clone());
        assert_eq!(indexed.search(&vector, |_| true, 1), [node], "round {round}");
        if round % 3 == 0 {
            indexed.graph.remove(node);
            assert!(
                !indexed.search(&vector, |_| true, 5).contains(&node),
                "round {round}"
            );
        }
        if round % 50 == 49 {
            indexed.link();
        }
    }
    assert_eq!(indexed.graph.live_count(), 266);
}

#[test]
fn a_step_does_as_much_as_it_may() {
    let mut sample = Sample::descriptors(16, 5, 7);
    let indexed = filled(Similarity::Euclidean, &mut sample, 16, 3_000);
    let mut search = Search::new(&indexed.graph, indexed.graph.encode(&sample.vector()), 64);
    let mut steps = 0;
    loop {
        let mut units_left = 64;
        let is_over = search.step(&indexed.graph, &mut units_left);
        steps += 1;
        if is_over {
            break;
        }
        assert_eq!(units_left, 0);
    }
    assert!((4..400).contains(&steps), "{steps}");
}

#[test]
fn equal_vectors_are_all_found() {
    let mut indexed = Indexed::new(Similarity::Cosine, 4);
    for _ in 0..500 {
        indexed.add(vec![1.0, 2.0, 3.0, 4.0]);
    }
    indexed.link();
    assert_eq!(indexed.search(&[1.0, 2.0, 3.0, 4.0], |_| true, 300).len(), 300);
}

/// Whatever was linked while all that a walk met had been removed was found by nobody, nor was anything behind it.
#[test]
fn paths_lead_over_what_was_removed() {
    let mut sample = Sample::descriptors(8, 3, 8);
    let mut indexed = Indexed::new(Similarity::Euclidean, 8);
    for round in 0..5 {
        let first = indexed.add(sample.vector());
        indexed.link();
        (0..=first).for_each(|node| indexed.graph.remove(node));
        for _ in 0..20 {
            indexed.add(sample.vector());
        }
        indexed.link();
        let query = sample.vector();
        let mut search = Search::new(&indexed.graph, indexed.graph.encode(&query), 1_000);
        while !search.step(&indexed.graph, &mut { UNITS }) {}
        assert_eq!(search.take_found(&indexed.graph).len(), 20, "round {round}");
        assert!(search.has_taken_all(&indexed.graph));
        let late = indexed.add(sample.vector());
        assert!(!search.has_taken_all(&indexed.graph), "added after it began");
        indexed.graph.remove(late);
        assert!(search.has_taken_all(&indexed.graph));
    }
}
