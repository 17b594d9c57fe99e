//! Vectors that lie as descriptors of images do, for tests and measurements: in many clusters, each of which has far fewer
//! directions than the vectors have components. Vectors without such order mislead: none is near to any other.

use crate::random::Random;

/// Directions within a cluster.
const LATENT_DIMENSION: usize = 14;

pub struct Sample {
    dimension: usize,
    random: Random,
    clusters: Vec<Cluster>,
    is_whole: bool,
}

struct Cluster {
    centre: Vec<f32>,
    /// One after the other.
    directions: Vec<f32>,
}

impl Sample {
    /// Components between 0 and 255, without fractions.
    pub fn descriptors(dimension: usize, clusters: usize, seed: u64) -> Self {
        Self::new(dimension, clusters, seed, true)
    }

    /// Components around 0.
    #[cfg(test)]
    pub(crate) fn embeddings(dimension: usize, clusters: usize, seed: u64) -> Self {
        Self::new(dimension, clusters, seed, false)
    }

    fn new(dimension: usize, clusters: usize, seed: u64, is_whole: bool) -> Self {
        let mut random = Random::new(seed);
        let clusters = (0..clusters).map(|_| Cluster {
            centre: (0..dimension).map(|_| random.normal() * 30.0).collect(),
            directions: (0..dimension * LATENT_DIMENSION)
                .map(|_| random.normal() * 8.0)
                .collect(),
        });
        Sample {
            dimension,
            clusters: clusters.collect(),
            random,
            is_whole,
        }
    }

    pub fn vector(&mut self) -> Vec<f32> {
        self.vector_and_cluster().0
    }

    /// A vector, and the number of the cluster that it is in.
    pub fn vector_and_cluster(&mut self) -> (Vec<f32>, usize) {
        let number = self.random.below(self.clusters.len() as u64) as usize;
        let cluster = &self.clusters[number];
        let mut vector = cluster.centre.clone();
        for direction in cluster.directions.chunks_exact(self.dimension) {
            let extent = self.random.normal();
            for (component, along) in vector.iter_mut().zip(direction) {
                *component += extent * along;
            }
        }
        for component in &mut vector {
            *component += self.random.normal() * 3.0;
            if self.is_whole {
                *component = (component.abs()).min(255.0).round();
            }
        }
        (vector, number)
    }
}
