//! `helenus-perf recall`: how fast a graph of vectors is made and searched, and how much it finds, by how wide it is searched.
//!
//! The graph alone, on one thread: no rows, no requests. The vectors are those of [`Sample`].

use std::fmt;
use std::time::Instant;

use helenus_vector::sample::Sample;
use helenus_vector::{Graph, Insertion, Near, Search, Similarity, VectorOptions};
use serde::Serialize;

const CLUSTERS: usize = 1_000;
const SIMILARITY: Similarity = Similarity::Euclidean;
const NEAREST: usize = 10;
/// Nodes found that are compared by their whole vectors, as a read of ten rows does.
const COMPARED: usize = 24;
/// Units of linking that a step may take.
const UNITS_PER_STEP: u32 = 4_096;
const BEAMS: [usize; 8] = [16, 24, 32, 48, 64, 96, 128, 256];

#[derive(Clone, Copy, Debug)]
pub struct RecallOptions {
    pub count: u32,
    pub dimension: u32,
    pub queries: u32,
    pub seed: u64,
    pub connections: u32,
    pub construction_beam: u32,
}

#[derive(Clone, Debug, Serialize)]
pub struct RecallReport {
    pub linked_per_s: f64,
    pub graph_bytes_per_vector: f64,
    pub beams: Vec<BeamReport>,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub struct BeamReport {
    pub beam: usize,
    pub recall: f64,
    pub queries_per_s: f64,
}

pub fn run(options: &RecallOptions) -> RecallReport {
    let dimension = options.dimension as usize;
    let mut sample = Sample::descriptors(dimension, CLUSTERS, options.seed);
    let vectors: Vec<Vec<f32>> = (0..options.count).map(|_| sample.vector()).collect();
    let queries: Vec<Vec<f32>> = (0..options.queries).map(|_| sample.vector()).collect();
    let vector_options = VectorOptions {
        similarity: SIMILARITY,
        connections: options.connections,
        construction_beam: options.construction_beam,
        ..VectorOptions::default()
    };
    let mut graph = Graph::new(&vector_options, dimension);
    let begun = Instant::now();
    let mut insertion = Insertion::default();
    for vector in &vectors {
        let code = graph.encode(vector);
        graph.add(&code);
        while !insertion.step(&mut graph, &mut { UNITS_PER_STEP }) {}
    }
    let linked_s = begun.elapsed().as_secs_f64();
    let exact: Vec<Vec<u32>> = queries
        .iter()
        .map(|query| nearest(query, &vectors, 0..options.count))
        .collect();
    let beams = BEAMS.map(|beam| search(&graph, beam, &vectors, &queries, &exact));
    RecallReport {
        linked_per_s: f64::from(options.count) / linked_s,
        graph_bytes_per_vector: graph.memory_bytes() as f64 / f64::from(options.count),
        beams: beams.to_vec(),
    }
}

fn search(
    graph: &Graph,
    beam: usize,
    vectors: &[Vec<f32>],
    queries: &[Vec<f32>],
    exact: &[Vec<u32>],
) -> BeamReport {
    let mut found = 0;
    let begun = Instant::now();
    for (query, exact) in queries.iter().zip(exact) {
        let mut search = Search::new(graph, graph.encode(query), beam, None);
        while !search.step(graph, &mut { UNITS_PER_STEP }) {}
        let candidates = search.take_found(graph, COMPARED).into_iter().take(COMPARED);
        let nearest = nearest(query, vectors, candidates.map(|near| near.node));
        found += exact.iter().filter(|node| nearest.contains(node)).count();
    }
    let wanted: usize = exact.iter().map(Vec::len).sum();
    BeamReport {
        beam,
        recall: found as f64 / wanted.max(1) as f64,
        queries_per_s: queries.len() as f64 / begun.elapsed().as_secs_f64(),
    }
}

fn nearest(query: &[f32], vectors: &[Vec<f32>], nodes: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut near: Vec<Near> = nodes
        .map(|node| Near {
            distance: -SIMILARITY.closeness(query, &vectors[node as usize]),
            node,
        })
        .collect();
    near.sort_unstable();
    near.iter().take(NEAREST).map(|near| near.node).collect()
}

impl fmt::Display for RecallReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{:.0} vectors/s linked, {:.0} bytes of graph a vector",
            self.linked_per_s, self.graph_bytes_per_vector
        )?;
        self.beams.iter().try_for_each(|beam| {
            write!(
                formatter,
                "\nbeam {}: recall@10 {:.4}, {:.0} queries/s",
                beam.beam, beam.recall, beam.queries_per_s
            )
        })
    }
}
