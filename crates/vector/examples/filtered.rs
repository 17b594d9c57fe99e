//! Searches for some of the vectors, beside searches of all that go on until enough of what they find is wanted:
//! `filtered [VECTORS] [DIMENSION] [SEED]`. Costs are nodes that were compared, or whose neighbours were looked at.

use std::time::Instant;

use helenus_vector::sample::Sample;
use helenus_vector::{Graph, Insertion, Near, NodeSet, Search, Similarity, VectorOptions};

const CLUSTERS: usize = 1_000;
const SIMILARITY: Similarity = Similarity::Euclidean;
/// How many are wanted, and how many are compared whole for that.
const WANTED: usize = 10;
const COMPARED: usize = 31;

/// Which vectors a search is for, as seen from the query's cluster.
const KINDS: [&str; 3] = ["anywhere", "around the query", "elsewhere"];

struct Sampled {
    graph: Graph,
    vectors: Vec<Vec<f32>>,
    clusters: Vec<usize>,
}

#[derive(Default)]
struct Total {
    found: usize,
    cost: u64,
    seconds: f64,
}

fn main() {
    let number = |place: usize, default: usize| {
        std::env::args()
            .nth(place)
            .and_then(|text| text.parse().ok())
            .unwrap_or(default)
    };
    let (count, dimension, seed) = (number(1, 100_000), number(2, 128), number(3, 1) as u64);
    let mut sample = Sample::descriptors(dimension, CLUSTERS, seed);
    let (vectors, clusters) = (0..count).map(|_| sample.vector_and_cluster()).unzip();
    let queries: Vec<(Vec<f32>, usize)> = (0..200).map(|_| sample.vector_and_cluster()).collect();
    let sampled = Sampled::new(vectors, clusters, dimension);
    for percent in [100, 50, 10, 1] {
        for kind in KINDS {
            if percent == 100 && kind != KINDS[0] {
                continue;
            }
            let (mut steered, mut filtered) = (Total::default(), Total::default());
            for (index, (query, cluster)) in queries.iter().enumerate() {
                let nodes = sampled.set(kind, percent, *cluster);
                let exact = sampled.nearest(query, (0..count as u32).filter(|node| nodes.contains(*node)));
                let search = |is_steered: bool, total: &mut Total| {
                    sampled.search(query, &nodes, &exact, is_steered && percent < 100, total);
                };
                // In turns, and in both orders: what the first has brought into caches the second one finds there.
                if index % 2 == 0 {
                    search(true, &mut steered);
                    search(false, &mut filtered);
                } else {
                    search(false, &mut filtered);
                    search(true, &mut steered);
                }
            }
            println!(
                "{percent} % {kind}: {}; filtered afterwards: {}",
                steered.line(&queries),
                filtered.line(&queries)
            );
        }
    }
}

impl Total {
    fn line(&self, queries: &[(Vec<f32>, usize)]) -> String {
        let count = queries.len() as f64;
        format!(
            "recall@{WANTED} {:.3}, cost {:.0}, {:.0} queries/s",
            self.found as f64 / (count * WANTED as f64),
            self.cost as f64 / count,
            count / self.seconds
        )
    }
}

impl Sampled {
    fn new(vectors: Vec<Vec<f32>>, clusters: Vec<usize>, dimension: usize) -> Self {
        let options = VectorOptions {
            similarity: SIMILARITY,
            ..VectorOptions::default()
        };
        let mut graph = Graph::new(&options, dimension);
        let mut insertion = Insertion::default();
        for vector in &vectors {
            let code = graph.encode(vector);
            graph.add(&code);
            while !insertion.step(&mut graph, &mut { 4_096 }) {}
        }
        Sampled {
            graph,
            vectors,
            clusters,
        }
    }

    fn set(&self, kind: &str, percent: usize, query_cluster: usize) -> NodeSet {
        let mut nodes = NodeSet::of(self.graph.len());
        for (node, cluster) in (0..).zip(&self.clusters) {
            let ahead = (cluster + CLUSTERS - query_cluster) % CLUSTERS;
            let is_in = match KINDS.iter().position(|other| *other == kind) {
                Some(0) => node as usize * 61 % 100 < percent,
                Some(1) => ahead * 100 < percent * CLUSTERS,
                _ => (1..=percent * CLUSTERS / 100).contains(&ahead),
            };
            if is_in {
                nodes.set(node);
            }
        }
        nodes
    }

    fn nearest(&self, query: &[f32], nodes: impl Iterator<Item = u32>) -> Vec<u32> {
        let mut near: Vec<Near> = nodes
            .map(|node| Near {
                distance: -SIMILARITY.closeness(query, &self.vectors[node as usize]),
                node,
            })
            .collect();
        near.sort_unstable();
        near.iter().take(WANTED).map(|near| near.node).collect()
    }

    fn search(&self, query: &[f32], nodes: &NodeSet, exact: &[u32], is_steered: bool, total: &mut Total) {
        let begun = Instant::now();
        let among = is_steered.then(|| nodes.clone());
        let (code, beam) = (self.graph.encode(query), self.graph.search_beam(0));
        let mut search = Search::new(&self.graph, code, beam, among);
        let mut wanted = Vec::new();
        loop {
            while !search.step(&self.graph, &mut { 4_096 }) {}
            let found = search.take_found(&self.graph, 0);
            wanted.extend(
                found
                    .iter()
                    .map(|near| near.node)
                    .filter(|node| nodes.contains(*node)),
            );
            if found.is_empty() || wanted.len() >= COMPARED {
                break;
            }
            search.widen(&self.graph);
        }
        wanted.truncate(COMPARED);
        let nearest = self.nearest(query, wanted.into_iter());
        total.seconds += begun.elapsed().as_secs_f64();
        total.cost += search.cost();
        total.found += exact.iter().filter(|node| nearest.contains(node)).count();
    }
}
