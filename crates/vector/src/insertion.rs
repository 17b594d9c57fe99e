//! Linking a vector that was added to a graph, in steps.

use crate::graph::Graph;
use crate::near::Near;
use crate::walk::{Walk, nearer};

/// Links the nodes of one graph one after the other, and keeps the room that it takes.
#[derive(Debug, Default)]
pub struct Insertion {
    node: u32,
    code: Vec<u8>,
    stage: Stage,
    walk: Walk,
}

#[derive(Debug, Default)]
enum Stage {
    /// Between two nodes.
    #[default]
    Idle,
    Descent {
        at: Near,
        layer: u8,
    },
    Walk {
        layer: u8,
    },
    /// The neighbours that are still to be linked back to it.
    Back {
        layer: u8,
        neighbours: Vec<u32>,
        from: Vec<u32>,
    },
}

impl Insertion {
    /// Links for as many units; whether there is nothing left to link.
    pub fn step(&mut self, graph: &mut Graph, units_left: &mut u32) -> bool {
        while *units_left > 0 {
            match std::mem::take(&mut self.stage) {
                Stage::Idle => {
                    if graph.linked == graph.len() {
                        return true;
                    }
                    self.begin(graph);
                    *units_left -= 1;
                }
                Stage::Descent { at, layer } => self.descend(graph, at, layer, units_left),
                Stage::Walk { layer } => {
                    if self.walk.step(graph, &self.code, units_left) {
                        self.link(graph, layer, units_left);
                    } else {
                        self.stage = Stage::Walk { layer };
                    }
                }
                Stage::Back {
                    layer,
                    mut neighbours,
                    from,
                } => match neighbours.pop() {
                    Some(neighbour) => {
                        link_back(graph, layer, neighbour, self.node, units_left);
                        self.stage = Stage::Back {
                            layer,
                            neighbours,
                            from,
                        };
                    }
                    None if layer == 0 => self.end(graph),
                    None => self.walk_on(graph, layer - 1, &from),
                },
            }
        }
        false
    }

    fn begin(&mut self, graph: &mut Graph) {
        self.node = graph.linked;
        self.code.clear();
        self.code.extend_from_slice(graph.codes.get(self.node));
        if !graph.is_live(self.node) {
            graph.linked += 1;
            return;
        }
        match graph.entry {
            None => self.end(graph),
            Some(entry) => {
                let at = graph.near(&self.code, entry);
                let layer = graph.layer_of(entry);
                self.stage = Stage::Descent { at, layer };
            }
        }
    }

    fn descend(&mut self, graph: &Graph, at: Near, layer: u8, units_left: &mut u32) {
        if layer <= graph.layer_of(self.node) {
            return self.walk_on(graph, layer, &[at.node]);
        }
        self.stage = match nearer(graph, &self.code, layer, at, units_left) {
            Some(at) => Stage::Descent { at, layer },
            None => Stage::Descent { at, layer: layer - 1 },
        };
    }

    fn walk_on(&mut self, graph: &Graph, layer: u8, from: &[u32]) {
        let beam = graph.construction_beam;
        self.walk.begin(graph, &self.code, layer, beam, from);
        self.stage = Stage::Walk { layer };
    }

    /// Gives the node its neighbours on a layer.
    fn link(&mut self, graph: &mut Graph, layer: u8, units_left: &mut u32) {
        let mut found = std::mem::take(&mut self.walk.nearest).into_sorted_vec();
        // Twins may be all that there is of an upper layer: the way down leads over them.
        let mut from: Vec<u32> = found.iter().map(|near| near.node).collect();
        found.retain(|near| !graph.twins.contains(near.node));
        if found.is_empty() {
            // Whoever comes after it finds it over those that were removed, or never.
            found = self.walk.nearest_compared();
            from.extend(found.iter().map(|near| near.node));
            found.retain(|near| !graph.twins.contains(near.node));
        }
        let nearest = found.first().map(|near| near.node);
        if layer == 0
            && let Some(first) = nearest.filter(|node| graph.codes.get(*node) == self.code)
        {
            let next = graph.twins.add(first, self.node);
            graph.links.set(layer, self.node, &[next]);
            return self.end(graph);
        }
        // Half the room, so that others may link back to it before it has to choose.
        let neighbours = select(graph, &found, graph.links.max(layer).div_ceil(2), units_left);
        graph.links.set(layer, self.node, &neighbours);
        self.stage = Stage::Back {
            layer,
            neighbours,
            from,
        };
    }

    fn end(&mut self, graph: &mut Graph) {
        let is_topmost = graph
            .entry
            .is_none_or(|entry| graph.layer_of(entry) < graph.layer_of(self.node));
        if is_topmost {
            graph.entry = Some(self.node);
        }
        graph.linked += 1;
        self.stage = Stage::Idle;
    }
}

/// Selects, of nodes that are near, the nearest first, those that are nearer than to any that was chosen before: they lead into
/// all directions.
fn select(graph: &Graph, near: &[Near], count_max: usize, units_left: &mut u32) -> Vec<u32> {
    let mut selected: Vec<u32> = Vec::with_capacity(count_max);
    let mut compared = 0;
    for candidate in near {
        if selected.len() >= count_max {
            break;
        }
        let code = graph.codes.get(candidate.node);
        let is_apart = selected.iter().all(|other| {
            compared += 1;
            graph.codes.distance(code, graph.codes.get(*other)) > candidate.distance
        });
        if is_apart {
            selected.push(candidate.node);
        }
    }
    *units_left = units_left.saturating_sub(compared * graph.comparison_units());
    selected
}

fn link_back(graph: &mut Graph, layer: u8, of: u32, to: u32, units_left: &mut u32) {
    let max = graph.links.max(layer);
    let mut links: Vec<u32> = graph.links.of(layer, of).collect();
    if links.contains(&to) {
        return;
    }
    links.push(to);
    if links.len() > max {
        let code = graph.codes.get(of);
        let mut near: Vec<Near> = links
            .iter()
            .filter(|node| graph.is_live(**node))
            .map(|node| graph.near(code, *node))
            .collect();
        *units_left = units_left.saturating_sub(near.len() as u32 * graph.comparison_units());
        near.sort_unstable();
        links = select(graph, &near, max, units_left);
    }
    graph.links.set(layer, of, &links);
}
