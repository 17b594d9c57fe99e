//! How fast a graph is made and searched, and how much it finds: `recall [VECTORS] [DIMENSION] [SEED]`.

use std::time::Instant;

use helenus_vector::sample::Sample;
use helenus_vector::{Graph, Insertion, Near, Search, Similarity, VectorOptions};

fn main() {
    let number = |place: usize, default: usize| {
        std::env::args()
            .nth(place)
            .and_then(|text| text.parse().ok())
            .unwrap_or(default)
    };
    let (count, dimension, seed) = (number(1, 100_000), number(2, 128), number(3, 1) as u64);
    let similarity = Similarity::Euclidean;
    let mut sample = Sample::descriptors(dimension, 1_000, seed);
    let vectors: Vec<Vec<f32>> = (0..count).map(|_| sample.vector()).collect();
    let queries: Vec<Vec<f32>> = (0..500).map(|_| sample.vector()).collect();
    let options = VectorOptions {
        similarity,
        connections: number(4, 16) as u32,
        construction_beam: number(5, 100) as u32,
        ..VectorOptions::default()
    };
    let mut graph = Graph::new(&options, dimension);
    let begun = Instant::now();
    let mut insertion = Insertion::default();
    for vector in &vectors {
        let code = graph.encode(vector);
        graph.add(&code);
        while !insertion.step(&mut graph, &mut { 4_096 }) {}
    }
    let took = begun.elapsed().as_secs_f64();
    println!(
        "built: {:.0} vectors/s, {} bytes a vector ({:.2} of floats)",
        count as f64 / took,
        graph.memory_bytes() / count,
        graph.memory_bytes() as f64 / (count * dimension * 4) as f64
    );
    let exact: Vec<Vec<u32>> = queries
        .iter()
        .map(|query| nearest(similarity, query, &vectors, (0..count as u32).collect()))
        .collect();
    for beam in [16, 24, 32, 48, 64, 96, 128, 256] {
        let (mut found, mut took, mut units) = (0, 0.0, 0_u64);
        for (query, exact) in queries.iter().zip(&exact) {
            let begun = Instant::now();
            let mut search = Search::new(&graph, graph.encode(query), beam, None);
            let mut units_left = u32::MAX;
            search.step(&graph, &mut units_left);
            units += u64::from(u32::MAX - units_left);
            let candidates = search.take_found(&graph);
            let candidates = candidates.iter().take(24).map(|near| near.node).collect();
            let nearest = nearest(similarity, query, &vectors, candidates);
            took += begun.elapsed().as_secs_f64();
            found += exact.iter().filter(|node| nearest.contains(node)).count();
        }
        println!(
            "beam {beam}: recall@10 {:.4}, {:.0} queries/s, {} units a query",
            found as f64 / (queries.len() * 10) as f64,
            queries.len() as f64 / took,
            units / queries.len() as u64
        );
    }
}

fn nearest(similarity: Similarity, query: &[f32], vectors: &[Vec<f32>], nodes: Vec<u32>) -> Vec<u32> {
    let mut near: Vec<Near> = nodes
        .into_iter()
        .map(|node| Near {
            distance: -similarity.closeness(query, &vectors[node as usize]),
            node,
        })
        .collect();
    near.sort_unstable();
    near.iter().take(10).map(|near| near.node).collect()
}
