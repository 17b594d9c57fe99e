//! Replication strategies: from a ring to the nodes of each of its positions.

use std::collections::{BTreeMap, HashSet};

use helenus_types::Token;

use super::Node;

/// A keyspace's replication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replication {
    /// The next nodes of the ring.
    Simple {
        /// Replicas of each partition in the whole cluster; all nodes if there are fewer.
        factor: usize,
    },
    /// For each datacenter the next of its nodes, on different racks as far as there are any.
    NetworkTopology {
        /// Replicas of each partition by datacenter's name, transient ones included; all its nodes if there
        /// are fewer.
        factors: BTreeMap<String, usize>,
    },
    /// Every node, or a strategy that is not known here.
    Everywhere,
}

impl Replication {
    /// Reads the options of a row of `system_schema.keyspaces`.
    pub fn of_options(options: &BTreeMap<String, String>) -> Self {
        let class = options
            .get("class")
            .map_or("", |class| class.rsplit('.').next().unwrap_or(""));
        // Transient replicas (`3/1`) hold data, too.
        let number = |text: &String| text.split('/').next().and_then(|count| count.parse().ok());
        match class {
            "SimpleStrategy" => match options.get("replication_factor").and_then(number) {
                Some(factor) => Replication::Simple { factor },
                None => Replication::Everywhere,
            },
            "NetworkTopologyStrategy" => Replication::NetworkTopology {
                factors: options
                    .iter()
                    .filter(|(name, _)| *name != "class")
                    .filter_map(|(name, factor)| Some((name.clone(), number(factor)?)))
                    .collect(),
            },
            _ => Replication::Everywhere,
        }
    }
}

/// The nodes of each position of the ring, walking on from it.
pub(super) fn replicas_by_position(
    nodes: &[Node],
    ring: &[(Token, u16)],
    replication: &Replication,
) -> Vec<Box<[u16]>> {
    let walk = |start: usize| (0..ring.len()).map(move |step| ring[(start + step) % ring.len()].1);
    (0..ring.len())
        .map(|start| match replication {
            Replication::Everywhere => Box::default(),
            Replication::Simple { factor } => simple(walk(start), *factor),
            Replication::NetworkTopology { factors } => network(nodes, walk(start), factors),
        })
        .collect()
}

fn simple(walk: impl Iterator<Item = u16>, factor: usize) -> Box<[u16]> {
    let mut found = Vec::new();
    for node in walk {
        if found.len() == factor {
            break;
        }
        if !found.contains(&node) {
            found.push(node);
        }
    }
    found.into()
}

/// Finds each datacenter's replicas: nodes on racks that have none yet come first; those passed over fill up what is missing.
fn network(nodes: &[Node], walk: impl Iterator<Item = u16>, factors: &BTreeMap<String, usize>) -> Box<[u16]> {
    struct Datacenter<'a> {
        wanted: usize,
        racks: usize,
        taken: Vec<u16>,
        racks_taken: HashSet<&'a str>,
        passed_over: Vec<u16>,
    }
    let mut datacenters: BTreeMap<&str, Datacenter<'_>> = BTreeMap::new();
    for (name, factor) in factors {
        let of_datacenter = || nodes.iter().filter(|node| node.datacenter == *name);
        datacenters.insert(
            name,
            Datacenter {
                wanted: (*factor).min(of_datacenter().count()),
                racks: of_datacenter()
                    .map(|node| &node.rack)
                    .collect::<HashSet<_>>()
                    .len(),
                taken: Vec::new(),
                racks_taken: HashSet::new(),
                passed_over: Vec::new(),
            },
        );
    }
    let mut order = Vec::new();
    for index in walk {
        let node = &nodes[usize::from(index)];
        let Some(datacenter) = datacenters.get_mut(&*node.datacenter) else {
            continue;
        };
        let is_known = datacenter.taken.contains(&index) || datacenter.passed_over.contains(&index);
        if datacenter.taken.len() == datacenter.wanted || is_known {
            continue;
        }
        let is_new_rack = datacenter.racks_taken.insert(&node.rack);
        if !is_new_rack && datacenter.racks_taken.len() < datacenter.racks {
            datacenter.passed_over.push(index);
            continue;
        }
        datacenter.taken.push(index);
        order.push(index);
        if datacenter.racks_taken.len() == datacenter.racks {
            let missing = datacenter.wanted - datacenter.taken.len();
            for index in datacenter.passed_over.drain(..).take(missing) {
                datacenter.taken.push(index);
                order.push(index);
            }
        }
    }
    order.into()
}

#[cfg(test)]
mod tests {
    use super::super::Topology;
    use super::*;

    fn node(number: u8, datacenter: &str, rack: &str, tokens: &[i64]) -> Node {
        Node {
            address: ([127, 0, 0, number], 9042).into(),
            datacenter: datacenter.to_owned(),
            rack: rack.to_owned(),
            tokens: tokens.to_vec(),
        }
    }

    #[test]
    fn a_token_belongs_to_the_next_position_of_the_ring() {
        let nodes = vec![
            node(1, "a", "r1", &[-100, 50]),
            node(2, "a", "r1", &[0]),
            node(3, "a", "r1", &[100]),
        ];
        let keyspaces = [("k".to_owned(), Replication::Simple { factor: 2 })];
        let topology = Topology::new(nodes, &keyspaces);
        let replicas = |token| topology.replicas("k", Token(token)).to_vec();
        assert_eq!(replicas(-100), [0, 1]);
        assert_eq!(replicas(-99), [1, 0]);
        assert_eq!(replicas(50), [0, 2]);
        assert_eq!(replicas(51), [2, 0]);
        assert_eq!(
            replicas(101),
            [0, 1],
            "behind the last token the ring begins again"
        );
        assert!(topology.replicas("other", Token(1)).is_empty());
    }

    #[test]
    fn racks_are_spread_before_they_repeat() {
        let nodes = vec![
            node(1, "a", "r1", &[0]),
            node(2, "a", "r1", &[10]),
            node(3, "a", "r2", &[20]),
            node(4, "b", "r1", &[30]),
        ];
        let factors = BTreeMap::from([("a".to_owned(), 3), ("b".to_owned(), 1)]);
        let keyspaces = [("k".to_owned(), Replication::NetworkTopology { factors })];
        let topology = Topology::new(nodes, &keyspaces);
        assert_eq!(topology.replicas("k", Token(0)), [0, 2, 1, 3]);
        assert_eq!(topology.replicas("k", Token(25)), [3, 0, 2, 1]);
    }

    #[test]
    fn options_are_read_as_servers_write_them() {
        let options = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
            Replication::of_options(&pairs.collect())
        };
        assert_eq!(
            options(&[
                ("class", "org.apache.cassandra.locator.SimpleStrategy"),
                ("replication_factor", "3/1"),
            ]),
            Replication::Simple { factor: 3 }
        );
        assert_eq!(options(&[("class", "LocalStrategy")]), Replication::Everywhere);
    }
}
