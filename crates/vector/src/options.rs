//! Options of a vector index, given when it is made.

use std::collections::BTreeMap;
use std::fmt;

use crate::similarity::Similarity;

pub const MAXIMUM_NODE_CONNECTIONS: &str = "maximum_node_connections";
pub const CONSTRUCTION_BEAM_WIDTH: &str = "construction_beam_width";
pub const SEARCH_BEAM_WIDTH: &str = "search_beam_width";
pub const SIMILARITY_FUNCTION: &str = "similarity_function";
pub const OPTIMIZE_FOR: &str = "optimize_for";

/// Cassandra's bounds.
const CONNECTIONS_MAX: u32 = 512;
const BEAM_MAX: u32 = 3_200;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VectorOptions {
    pub similarity: Similarity,
    /// Neighbours of a vector on the upper layers of its graph; twice as many on the lowest.
    pub connections: u32,
    /// Vectors that are kept in sight where a new one looks for its neighbours.
    pub construction_beam: u32,
    /// As many at least where a query looks for its neighbours.
    pub search_beam: u32,
    /// True if the index names that width: it is no wider then than the rows need that a query compares.
    pub is_search_beam_named: bool,
}

/// An option that is not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionFault {
    Similarity(String),
    OptimizeFor(String),
    NoNumber {
        name: &'static str,
        value: String,
    },
    OutOfBounds {
        name: &'static str,
        max: u32,
        value: i64,
    },
}

impl Default for VectorOptions {
    fn default() -> Self {
        VectorOptions {
            similarity: Similarity::Cosine,
            connections: 16,
            construction_beam: 100,
            search_beam: 96,
            is_search_beam_named: false,
        }
    }
}

impl VectorOptions {
    /// Reads an index's options; those that are none of these are passed over.
    pub fn of(options: &BTreeMap<String, String>) -> Result<Self, OptionFault> {
        let mut result = VectorOptions::default();
        let number = |name: &'static str, max: u32, default: u32| match options.get(name) {
            None => Ok(default),
            Some(value) => match value.parse::<i64>() {
                Err(_) => Err(OptionFault::NoNumber {
                    name,
                    value: value.clone(),
                }),
                Ok(value) => u32::try_from(value)
                    .ok()
                    .filter(|value| (1..=max).contains(value))
                    .ok_or(OptionFault::OutOfBounds { name, max, value }),
            },
        };
        result.connections = number(MAXIMUM_NODE_CONNECTIONS, CONNECTIONS_MAX, result.connections)?;
        result.construction_beam = number(CONSTRUCTION_BEAM_WIDTH, BEAM_MAX, result.construction_beam)?;
        result.search_beam = number(SEARCH_BEAM_WIDTH, BEAM_MAX, result.search_beam)?;
        result.is_search_beam_named = options.contains_key(SEARCH_BEAM_WIDTH);
        if let Some(name) = options.get(SIMILARITY_FUNCTION) {
            let similarity = Similarity::of_name(name);
            result.similarity = similarity.ok_or_else(|| OptionFault::Similarity(name.to_uppercase()))?;
        }
        match options.get(OPTIMIZE_FOR).map(|goal| goal.to_uppercase()) {
            None => {}
            Some(goal) if goal == "LATENCY" => {}
            Some(goal) if goal == "RECALL" => result.search_beam *= 2,
            Some(goal) => return Err(OptionFault::OptimizeFor(goal)),
        }
        Ok(result)
    }
}

impl VectorOptions {
    /// How many rows a query for the nearest `count` compares by their vectors as they are: those in eight bits a component, by
    /// which it finds rows, change the order of what is almost equally near.
    pub fn compared(&self, count: u32) -> u32 {
        let most = count + count / 2 + 16;
        match self.is_search_beam_named {
            true => most.min(self.search_beam.max(count + count / 2)),
            false => most,
        }
    }

    /// The beam of a query that compares so many rows. What lies in the farther half of a beam is less likely to be the nearest
    /// that there is, so that only a narrow beam that was asked for is handed out whole.
    pub(crate) fn beam(&self, compared: usize) -> usize {
        let least = match self.is_search_beam_named {
            true => compared,
            false => compared.saturating_mul(2),
        };
        least.max(self.search_beam as usize)
    }
}

/// In Cassandra's words where it has some; it does not know the index's name yet.
impl fmt::Display for OptionFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptionFault::Similarity(name) => write!(
                f,
                "Similarity function {name} was not recognized for index null. Valid values are: EUCLIDEAN, \
                 DOT_PRODUCT, COSINE"
            ),
            OptionFault::OptimizeFor(goal) => write!(
                f,
                "optimize_for '{goal}' was not recognized for index null. Valid values are: LATENCY, RECALL"
            ),
            OptionFault::NoNumber { name, value } => {
                write!(f, "{} {value} is not a valid integer for index null", title(name))
            }
            OptionFault::OutOfBounds { name, max, value } => write!(
                f,
                "{} for index null cannot be <= 0 or > {max}, was {value}",
                title(name)
            ),
        }
    }
}

fn title(option: &str) -> &'static str {
    match option {
        MAXIMUM_NODE_CONNECTIONS => "Maximum number of connections",
        CONSTRUCTION_BEAM_WIDTH => "Construction beam width",
        _ => "Search beam width",
    }
}
