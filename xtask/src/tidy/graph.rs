//! Imports between crates, and between the modules of a crate, as layers: what stands further down uses only what stands
//! above it, or with it in a circle.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::sources::{Crate, Sources};

/// From each node to what it uses.
pub type Graph = BTreeMap<String, BTreeSet<String>>;

pub fn crate_graph(sources: &Sources) -> Graph {
    let edges = |found: &Crate| found.dependencies.iter().cloned().collect();
    sources
        .crates
        .iter()
        .map(|(name, found)| (name.clone(), edges(found)))
        .collect()
}

/// Between the files of a crate, by `use` and by full paths.
pub fn module_graph(found: &Crate) -> Graph {
    let modules: BTreeSet<Vec<String>> = found
        .files
        .iter()
        .filter(|file| !file.is_test)
        .map(|file| file.module.clone())
        .collect();
    let reexports: Reexports = found
        .files
        .iter()
        .filter(|file| !file.is_test)
        .flat_map(|file| {
            let offered = file.items.reexports.iter();
            offered.map(|(name, path)| ((file.module.clone(), name.clone()), path.clone()))
        })
        .collect();
    let mut graph = Graph::new();
    for file in found.files.iter().filter(|file| !file.is_test) {
        let used = graph.entry(name_of(&file.module)).or_default();
        for path in &file.items.paths {
            let target = target_of(&path.segments, &file.module, &modules, &reexports);
            // A module is a part of those around it: that it uses what they declare is no arrow between rooms.
            if let Some(target) = target.filter(|target| !file.module.starts_with(target)) {
                used.insert(name_of(&target));
            }
        }
    }
    graph
}

/// Paths behind the names that modules offer by `pub use`, as they are written there.
type Reexports = BTreeMap<(Vec<String>, String), Vec<String>>;

/// More `pub use` of one name after the other than anybody writes.
const REEXPORTS_MAX: usize = 8;

/// The module that a path written in `module` leads to: the one that declares what it names, whatever modules offer that as well.
fn target_of(
    segments: &[String],
    module: &[String],
    modules: &BTreeSet<Vec<String>>,
    reexports: &Reexports,
) -> Option<Vec<String>> {
    let mut path = absolute(segments, module)?;
    for _ in 0..REEXPORTS_MAX {
        let length = (0..=path.len())
            .rev()
            .find(|length| modules.contains(&path[..*length]))?;
        let (found, rest) = path.split_at(length);
        let offered = rest
            .first()
            .and_then(|name| reexports.get(&(found.to_vec(), name.clone())));
        let Some(offered) = offered else {
            return (!found.is_empty() && found != module).then(|| found.to_vec());
        };
        path = [absolute(offered, found)?.as_slice(), &rest[1..]].concat();
    }
    None
}

/// A path of this crate from its root. What is no module of it leads to the root.
fn absolute(segments: &[String], module: &[String]) -> Option<Vec<String>> {
    Some(match segments.first()?.as_str() {
        "crate" => segments[1..].to_vec(),
        "self" => module.iter().chain(&segments[1..]).cloned().collect(),
        "super" => {
            let ups = segments.iter().take_while(|segment| *segment == "super").count();
            let kept = module.len().checked_sub(ups)?;
            module[..kept].iter().chain(&segments[ups..]).cloned().collect()
        }
        // A child by its name.
        _ => module.iter().chain(segments).cloned().collect(),
    })
}

fn name_of(module: &[String]) -> String {
    match module {
        [] => "(root)".to_owned(),
        module => module.join("::"),
    }
}

/// The circles of a graph: sets of at least two nodes that all reach each other.
pub fn circles(graph: &Graph) -> Vec<BTreeSet<String>> {
    let reach: BTreeMap<&String, BTreeSet<&String>> =
        graph.keys().map(|node| (node, reached(graph, node))).collect();
    let mut circles: Vec<BTreeSet<String>> = Vec::new();
    for node in graph.keys() {
        if circles.iter().any(|circle| circle.contains(node)) {
            continue;
        }
        let circle: BTreeSet<String> = reach[node]
            .iter()
            .filter(|other| reach.get(**other).is_some_and(|back| back.contains(node)))
            .map(|other| (*other).clone())
            .collect();
        if circle.len() > 1 {
            circles.push(circle);
        }
    }
    circles
}

fn reached<'g>(graph: &'g Graph, from: &String) -> BTreeSet<&'g String> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&String> = graph.get(from).into_iter().flatten().collect();
    while let Some(node) = open.pop() {
        if reached.insert(node) {
            open.extend(graph.get(node).into_iter().flatten());
        }
    }
    reached
}

pub fn crates(sources: &Sources) -> String {
    layers(&crate_graph(sources))
}

pub fn modules(sources: &Sources, name: &str) -> String {
    match sources.crates.get(name) {
        Some(found) => layers(&module_graph(found)),
        None => format!("there is no crate {name:?}\n"),
    }
}

/// A line for each node with what it uses, lowest first; circles are said.
fn layers(graph: &Graph) -> String {
    let mut text = String::new();
    let circles = circles(graph);
    for circle in &circles {
        let members: Vec<&str> = circle.iter().map(String::as_str).collect();
        let _infallible = writeln!(text, "CIRCLE of {}: {}", members.len(), members.join(", "));
    }
    let in_circle = |node: &String, other: &String| {
        circles
            .iter()
            .any(|circle| circle.contains(node) && circle.contains(other))
    };
    let mut left: BTreeSet<&String> = graph.keys().collect();
    let mut layer = 0;
    while !left.is_empty() {
        let ready: Vec<&String> = left
            .iter()
            .copied()
            .filter(|node| {
                let used = graph.get(*node).into_iter().flatten();
                used.filter(|used| left.contains(used))
                    .all(|used| in_circle(node, used))
            })
            .collect();
        // Behind a circle others may wait for its members only.
        let ready = if ready.is_empty() {
            left.iter().copied().collect()
        } else {
            ready
        };
        let _infallible = writeln!(text, "-- layer {layer}");
        for node in &ready {
            let used: Vec<&str> = graph
                .get(*node)
                .into_iter()
                .flatten()
                .map(String::as_str)
                .collect();
            let _infallible = writeln!(text, "{node:<28} {}", used.join(", "));
        }
        left.retain(|node| !ready.contains(node));
        layer += 1;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(&str, &[&str])]) -> Graph {
        edges
            .iter()
            .map(|(node, used)| {
                let used = used.iter().map(|used| (*used).to_owned());
                ((*node).to_owned(), used.collect())
            })
            .collect()
    }

    #[test]
    fn circles_are_found_and_chains_are_none() {
        let chain = graph(&[("a", &["b"]), ("b", &["c"]), ("c", &[])]);
        assert!(circles(&chain).is_empty());
        let circle = graph(&[("a", &["b"]), ("b", &["c"]), ("c", &["a"]), ("d", &["a"])]);
        let found = circles(&circle);
        assert_eq!(found.len(), 1);
        assert_eq!(Vec::from_iter(&found[0]), ["a", "b", "c"]);
    }

    #[test]
    fn paths_lead_to_files() {
        let module = |path: &str| -> Vec<String> { path.split("::").map(str::to_owned).collect() };
        let modules = BTreeSet::from([Vec::new(), module("a"), module("a::b"), module("c")]);
        let reexports = Reexports::from([((module("a"), "Thing".to_owned()), module("super::c::Other"))]);
        let target = |path: &str| target_of(&module(path), &module("a::b"), &modules, &reexports);
        assert_eq!(target("super::Thing"), Some(module("c")));
        assert_eq!(target("crate::c::Thing"), Some(module("c")));
        assert_eq!(target("super::Declared"), Some(module("a")));
        assert_eq!(target("self::Thing"), None);
        assert_eq!(target("std::io::Error"), None);
    }
}
