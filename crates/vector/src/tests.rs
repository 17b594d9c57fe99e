//! How many of the nearest are found, on vectors from a seed.

use crate::filter::{Filter, Way};
use crate::random::Random;
use crate::sample::Sample;
use crate::{Graph, Insertion, Near, NodeSet, Search, Similarity, VectorOptions};

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
        let beam = self.graph.search_beam(0);
        let search = Search::walk(&self.graph, self.graph.encode(query), beam);
        self.nearest_found(search, query, accepts, count)
    }

    fn set_of(&self, accepts: impl Fn(u32) -> bool) -> NodeSet {
        let mut nodes = NodeSet::of(self.graph.len());
        (0..self.graph.len())
            .filter(|node| accepts(*node))
            .for_each(|node| {
                nodes.set(node);
            });
        nodes
    }

    /// By a search for some nodes only, on one way or on the one that is chosen.
    fn search_among(&self, query: &[f32], nodes: NodeSet, way: Option<Way>, count: usize) -> Vec<u32> {
        let (code, beam) = (self.graph.encode(query), self.graph.search_beam(0));
        let search = match way {
            None => Search::new(&self.graph, code, beam, Some(nodes)),
            Some(way) => {
                // As wide as it is chosen for a tenth.
                let beam = if way == Way::Detours { beam * 5 / 2 } else { beam };
                let filter = Filter::by(&self.graph, nodes, way);
                Search::by(&self.graph, code, beam, Some(filter))
            }
        };
        self.nearest_found(search, query, |_| true, count)
    }

    fn nearest_found(
        &self,
        mut search: Search,
        query: &[f32],
        accepts: impl Fn(u32) -> bool,
        count: usize,
    ) -> Vec<u32> {
        let mut accepted = Vec::new();
        loop {
            while !search.step(&self.graph, &mut { UNITS }) {}
            let found = search.take_found(&self.graph, 0);
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

/// The share of the nearest that searches for some nodes find.
fn recall_among(
    indexed: &Indexed,
    queries: &[Vec<f32>],
    way: Option<Way>,
    accepts: impl Fn(usize, u32) -> bool,
) -> f64 {
    let (mut found, mut wanted) = (0, 0);
    for (index, query) in queries.iter().enumerate() {
        let accepts = |node| accepts(index, node);
        let exact = indexed.exact(query, accepts, 10);
        let nearest = indexed.search_among(query, indexed.set_of(accepts), way, 10);
        assert!(nearest.iter().all(|node| accepts(*node)), "{way:?}");
        assert_eq!(nearest.len(), exact.len(), "{way:?}: as many as there are");
        wanted += exact.len();
        found += exact.iter().filter(|node| nearest.contains(node)).count();
    }
    f64::from(found as u32) / f64::from(wanted as u32)
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

fn is_of(node: u32, percent: u32) -> bool {
    node.wrapping_mul(2_654_435_761) % 100 < percent
}

#[test]
fn searches_for_some_find_the_nearest_of_them_on_every_way() {
    let mut sample = Sample::descriptors(32, 30, 4);
    let indexed = filled(Similarity::Euclidean, &mut sample, 32, 6_000);
    let queries = queries(&mut sample);
    for percent in [1, 10, 50, 100] {
        for way in [None, Some(Way::Scan), Some(Way::Routes), Some(Way::Detours)] {
            let recall = recall_among(&indexed, &queries, way, |_, node| is_of(node, percent));
            assert!(recall >= 0.95, "{percent} % {way:?}: {recall}");
        }
    }
}

/// Those that match are all around a query, or nowhere near it.
#[test]
fn neighbourhoods_with_and_without_what_is_looked_for_are_searched_alike() {
    const CLUSTERS: usize = 40;
    let mut sample = Sample::descriptors(32, CLUSTERS, 9);
    let mut indexed = Indexed::new(Similarity::Euclidean, 32);
    let mut clusters = Vec::new();
    for _ in 0..6_000 {
        let (vector, cluster) = sample.vector_and_cluster();
        indexed.add(vector);
        clusters.push(cluster);
    }
    indexed.link();
    let (queries, own): (Vec<_>, Vec<_>) = (0..50).map(|_| sample.vector_and_cluster()).unzip();
    for percent in [10, 50] {
        // The cluster of the query is the first that matches, or the last of those that do not.
        for ahead in [0, 1] {
            let accepts = |query: usize, node: u32| {
                let distance =
                    (clusters[node as usize] + CLUSTERS - own[query] + CLUSTERS - ahead) % CLUSTERS;
                distance * 100 < CLUSTERS * percent
            };
            for way in [None, Some(Way::Routes), Some(Way::Detours)] {
                let recall = recall_among(&indexed, &queries, way, accepts);
                assert!(recall >= 0.95, "{percent} %, {ahead} ahead, {way:?}: {recall}");
            }
        }
    }
}

#[test]
fn searches_for_few_or_none_or_gone_ones_end_with_all_that_there_are() {
    let mut sample = Sample::descriptors(16, 5, 10);
    let mut indexed = filled(Similarity::Euclidean, &mut sample, 16, 2_000);
    let unlinked = indexed.add(sample.vector());
    (0..200).for_each(|node| indexed.graph.remove(node));
    let query = sample.vector();
    for way in [Way::Scan, Way::Routes, Way::Detours] {
        let found_among = |nodes: &[u32]| {
            let filter = Filter::by(&indexed.graph, indexed.set_of(|node| nodes.contains(&node)), way);
            let mut search = Search::by(&indexed.graph, indexed.graph.encode(&query), 4, Some(filter));
            let mut all = Vec::new();
            loop {
                while !search.step(&indexed.graph, &mut { UNITS }) {}
                let found = search.take_found(&indexed.graph, 0);
                if found.is_empty() {
                    assert!(search.has_taken_all(&indexed.graph), "{way:?}");
                    all.sort_unstable();
                    return all;
                }
                all.extend(found.iter().map(|near| near.node));
                search.widen(&indexed.graph);
            }
        };
        assert_eq!(found_among(&[]), [], "{way:?}");
        assert_eq!(found_among(&[7]), [], "{way:?}: removed");
        assert_eq!(found_among(&[100, 900, unlinked]), [900, unlinked], "{way:?}");
        let some: Vec<u32> = (150..1_500).step_by(9).collect();
        assert_eq!(found_among(&some), some[6..], "{way:?}");
    }
    // The nearest is gone.
    let code = indexed.graph.encode(&indexed.vectors[150]);
    let filter = Filter::by(&indexed.graph, indexed.set_of(|node| node >= 150), Way::Scan);
    let mut search = Search::by(&indexed.graph, code, 4, Some(filter));
    while !search.step(&indexed.graph, &mut { UNITS }) {}
    assert_eq!(
        search.take_found(&indexed.graph, 0).len(),
        4,
        "as many as the beam is wide"
    );
}

/// Chains of equal vectors lead on only from one to the next.
#[test]
fn of_equal_vectors_all_that_are_looked_for_are_found() {
    let mut indexed = Indexed::new(Similarity::Cosine, 4);
    for _ in 0..500 {
        indexed.add(vec![1.0, 2.0, 3.0, 4.0]);
    }
    indexed.link();
    for way in [Way::Scan, Way::Routes, Way::Detours] {
        let nodes = indexed.set_of(|node| node % 7 == 3);
        let found = indexed.search_among(&[1.0, 2.0, 3.0, 4.0], nodes, Some(way), 71);
        assert_eq!(found.len(), 71, "{way:?}");
    }
}

/// The first of the equal ones, which alone others lead to, is not looked for.
#[test]
fn chains_of_equal_vectors_are_entered_over_one_that_is_not_looked_for() {
    let mut sample = Sample::descriptors(16, 5, 12);
    let mut indexed = filled(Similarity::Euclidean, &mut sample, 16, 1_500);
    let query = sample.vector();
    let first = indexed.add(query.clone());
    (0..30).for_each(|_| {
        indexed.add(query.clone());
    });
    indexed.link();
    let twins: Vec<u32> = (first + 1..first + 31).step_by(3).collect();
    let nodes = indexed.set_of(|node| node % 10 == 0 && node < first || twins.contains(&node));
    for way in [Way::Routes, Way::Detours] {
        let filter = Filter::by(&indexed.graph, nodes.clone(), way);
        let mut search = Search::by(&indexed.graph, indexed.graph.encode(&query), 20, Some(filter));
        while !search.step(&indexed.graph, &mut { UNITS }) {}
        let found = search.take_found(&indexed.graph, 0);
        let mut found: Vec<u32> = found.iter().map(|near| near.node).collect();
        found.sort_unstable();
        assert_eq!(found, twins, "{way:?}");
    }
}

/// Recall does not tell: a scan in their place would find as much.
#[test]
fn walks_are_taken_where_they_cost_less() {
    let mut sample = Sample::descriptors(16, 20, 11);
    let indexed = filled(Similarity::Euclidean, &mut sample, 16, 12_000);
    let query = sample.vector();
    let cost = |percent: u32, beam: usize| {
        let nodes = indexed.set_of(|node| is_of(node, percent));
        let count = u64::from(nodes.count());
        let mut search = Search::new(&indexed.graph, indexed.graph.encode(&query), beam, Some(nodes));
        while !search.step(&indexed.graph, &mut { UNITS }) {}
        (search.cost(), count)
    };
    for (percent, beam) in [(50, 16), (10, 3)] {
        let (cost, count) = cost(percent, beam);
        assert!(cost < count / 2, "{percent} %: {cost} of {count}");
    }
    let (cost, count) = cost(1, 16);
    assert_eq!(cost, count, "each is compared");
}

/// A filter and a query that are about the same, and the set is too large to compare each: the walk from one that is looked for to the
/// next, with its wider beam, took six times as long as one over all nodes, and was given up for a scan then.
#[test]
fn neighbourhoods_of_what_is_looked_for_are_walked_as_if_there_were_no_filter() {
    const BEAM: usize = 4;
    let mut sample = Sample::descriptors(16, 20, 15);
    let mut indexed = Indexed::new(Similarity::Euclidean, 16);
    let mut clusters = Vec::new();
    for _ in 0..30_000 {
        let (vector, cluster) = sample.vector_and_cluster();
        indexed.add(vector);
        clusters.push(cluster);
    }
    indexed.link();
    let cost = |query: &[f32], among: Option<NodeSet>| {
        let mut search = Search::new(&indexed.graph, indexed.graph.encode(query), BEAM, among);
        while !search.step(&indexed.graph, &mut { UNITS }) {}
        assert!(!search.is_scanned);
        search.cost()
    };
    // With a beam as narrow as that a probe is now and then mistaken.
    let as_cheap = (0..20).filter(|_| {
        let (query, own) = sample.vector_and_cluster();
        let around = indexed.set_of(|node| (clusters[node as usize] + 20 - own) % 20 < 2);
        cost(&query, Some(around)) * 5 <= cost(&query, None) * 6
    });
    let as_cheap = as_cheap.count();
    assert!(as_cheap >= 12, "{as_cheap} of 20");
}

/// Where the walk begins there is nothing of what is looked for, nor among the neighbours of the neighbours there. Recall does
/// not tell: a walk that has ended early is followed by a scan.
#[test]
fn walks_with_detours_leave_neighbourhoods_of_others() {
    let mut sample = Sample::descriptors(16, 20, 13);
    let mut indexed = Indexed::new(Similarity::Euclidean, 16);
    let mut clusters = Vec::new();
    for _ in 0..12_000 {
        let (vector, cluster) = sample.vector_and_cluster();
        indexed.add(vector);
        clusters.push(cluster);
    }
    indexed.link();
    for _ in 0..20 {
        let (query, own) = sample.vector_and_cluster();
        let nodes = indexed.set_of(|node| (clusters[node as usize] + 20 - own) % 20 == 1);
        let count = u64::from(nodes.count());
        let filter = Filter::by(&indexed.graph, nodes, Way::Detours);
        let mut search = Search::by(&indexed.graph, indexed.graph.encode(&query), 4, Some(filter));
        while !search.step(&indexed.graph, &mut { UNITS }) {}
        assert!(!search.is_scanned, "{} for {count}", search.cost());
    }
}

/// Half of all match, but none in the query's cluster: a beam that is wide enough for others stops too early.
#[test]
fn beams_are_widened_where_what_is_looked_for_is_far() {
    let mut sample = Sample::descriptors(32, 100, 14);
    let mut indexed = Indexed::new(Similarity::Euclidean, 32);
    let mut clusters = Vec::new();
    for _ in 0..10_000 {
        let (vector, cluster) = sample.vector_and_cluster();
        indexed.add(vector);
        clusters.push(cluster);
    }
    indexed.link();
    let (queries, own): (Vec<_>, Vec<_>) = (0..50).map(|_| sample.vector_and_cluster()).unzip();
    let cost = |query: usize, accepts: &dyn Fn(usize) -> bool| {
        let nodes = indexed.set_of(|node| accepts((clusters[node as usize] + 100 - own[query]) % 100));
        let filter = Filter::by(&indexed.graph, nodes, Way::Routes);
        let code = indexed.graph.encode(&queries[query]);
        let mut search = Search::by(&indexed.graph, code, 24, Some(filter));
        while !search.step(&indexed.graph, &mut { UNITS }) {}
        search.cost()
    };
    let near: u64 = (0..50).map(|query| cost(query, &|cluster| cluster < 50)).sum();
    let far: u64 = (0..50)
        .map(|query| cost(query, &|cluster| (1..51).contains(&cluster)))
        .sum();
    assert!(far > 3 * near, "{far} {near}");
}

#[test]
fn sets_of_nodes_are_gone_through_filled_and_intersected() {
    for (first, end) in [
        (0, 0),
        (0, 64),
        (5, 6),
        (63, 65),
        (60, 200),
        (64, 128),
        (130, 131),
    ] {
        let mut nodes = NodeSet::of(100);
        nodes.add_from(first, end);
        let all = |nodes: &NodeSet| {
            let mut next = nodes.next_from(0);
            std::iter::from_fn(|| {
                let node = next?;
                next = nodes.next_from(node + 1);
                Some(node)
            })
            .collect::<Vec<u32>>()
        };
        assert_eq!(all(&nodes), (first..end).collect::<Vec<_>>());
        assert_eq!(nodes.count(), end - first);
        let mut others = NodeSet::of(70);
        (0..70).step_by(3).for_each(|node| {
            others.set(node);
        });
        nodes.intersect(&others);
        let expected = (first..end.min(70)).filter(|node| node % 3 == 0);
        assert_eq!(all(&nodes), expected.collect::<Vec<_>>());
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
    let mut search = Search::walk(&indexed.graph, indexed.graph.encode(&sample.vector()), 64);
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
        let mut search = Search::walk(&indexed.graph, indexed.graph.encode(&query), 1_000);
        while !search.step(&indexed.graph, &mut { UNITS }) {}
        assert_eq!(search.take_found(&indexed.graph, 0).len(), 20, "round {round}");
        assert!(search.has_taken_all(&indexed.graph));
        let late = indexed.add(sample.vector());
        assert!(!search.has_taken_all(&indexed.graph), "added after it began");
        indexed.graph.remove(late);
        assert!(search.has_taken_all(&indexed.graph));
    }
}

/// Where many vectors are equal, others were linked to nobody and never found: those that came when all that a walk met that was not
/// removed was twins of another, or when an upper layer held nothing but twins.
#[test]
fn no_vector_is_lost_among_twins() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let mut indexed = Indexed::new(Similarity::Euclidean, 3);
        for _ in 0..120 {
            let vector = (0..3).map(|_| random.below(3) as f32).collect();
            let node = indexed.add(vector);
            indexed.link();
            if seed % 2 == 0 && random.below(2) == 0 {
                indexed.graph.remove(node);
            }
        }
        if seed % 2 == 1 {
            (0..120)
                .filter(|_| random.below(2) == 0)
                .for_each(|node| indexed.graph.remove(node));
        }
        let code = indexed.graph.encode(&[1.0; 3]);
        let mut search = Search::walk(&indexed.graph, code, 1_000);
        while !search.step(&indexed.graph, &mut { UNITS }) {}
        let found = search.take_found(&indexed.graph, 0).len();
        assert_eq!(found, indexed.graph.live_count() as usize, "seed {seed}");
    }
}

#[test]
fn of_few_vectors_each_is_compared() {
    let mut sample = Sample::descriptors(16, 50, 11);
    let mut indexed = filled(Similarity::Euclidean, &mut sample, 16, 2_000);
    (0..2_000).step_by(3).for_each(|node| indexed.graph.remove(node));
    // Not linked yet.
    indexed.add(sample.vector());
    let beam = indexed.graph.search_beam(0);
    for _ in 0..20 {
        let query = sample.vector();
        let mut search = Search::new(&indexed.graph, indexed.graph.encode(&query), beam, None);
        assert!(search.is_scanned);
        while !search.step(&indexed.graph, &mut { UNITS }) {}
        let found: Vec<u32> = search
            .take_found(&indexed.graph, 0)
            .iter()
            .map(|near| near.node)
            .collect();
        assert_eq!(found.len(), beam);
        let nearest = indexed.exact(&query, |_| true, 10);
        assert!(nearest.iter().all(|node| found.contains(node)));
        search.widen(&indexed.graph);
        while !search.step(&indexed.graph, &mut { UNITS }) {}
        let more = search.take_found(&indexed.graph, 0);
        assert_eq!(more.len(), 2 * beam, "of those that come next");
        assert!(more.iter().all(|near| !found.contains(&near.node)));
    }
    assert!(!Search::new(&indexed.graph, indexed.graph.encode(&sample.vector()), 8, None).is_scanned);
}

#[test]
fn a_query_is_given_as_many_as_it_compares() {
    let usual = VectorOptions::default();
    let named = VectorOptions {
        search_beam: 24,
        is_search_beam_named: true,
        ..usual
    };
    assert_eq!((usual.compared(10), usual.beam(31)), (31, 96));
    assert_eq!((usual.compared(100), usual.beam(166)), (166, 332));
    assert_eq!((named.compared(10), named.beam(24)), (24, 24));
    assert_eq!((named.compared(100), named.beam(150)), (150, 150));
    let mut sample = Sample::descriptors(16, 50, 12);
    let indexed = filled(Similarity::Euclidean, &mut sample, 16, 2_000);
    for (least, expected) in [(0, 12), (20, 20), (24, 24), (30, 24)] {
        let mut search = Search::walk(&indexed.graph, indexed.graph.encode(&sample.vector()), 24);
        while !search.step(&indexed.graph, &mut { UNITS }) {}
        assert_eq!(search.take_found(&indexed.graph, least).len(), expected);
    }
}
