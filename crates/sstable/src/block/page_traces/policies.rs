//! Orders of eviction beside which the cache's is measured, of pages one by one: what their bookkeeping and copies cost is left out.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use super::{CACHE_PAGES, rate};

pub fn least_recently_used(trace: &[u64]) -> f64 {
    let (mut used, mut order) = (HashMap::new(), BTreeMap::new());
    rate(trace, |at, page| {
        let before = used.insert(page, at);
        before.map(|before| order.remove(&before));
        order.insert(at, page);
        if order.len() > CACHE_PAGES
            && let Some((_, oldest)) = order.pop_first()
        {
            used.remove(&oldest);
        }
        before.is_some()
    })
}

/// Three first-in-first-out queues (Yang et al., SOSP 2023): a tenth for what is new, the rest for what was asked for again, and the names
/// of what was let go.
pub fn s3_fifo(trace: &[u64]) -> f64 {
    const SMALL_PAGES: usize = CACHE_PAGES / 10;
    const COUNT_MAX: u8 = 3;
    let mut counts: HashMap<u64, u8> = HashMap::new();
    let (mut small, mut main) = (VecDeque::new(), VecDeque::new());
    let (mut ghosts, mut ghost_order) = (HashSet::new(), VecDeque::new());
    rate(trace, |_, page| {
        if let Some(count) = counts.get_mut(&page) {
            *count = (*count + 1).min(COUNT_MAX);
            return true;
        }
        while small.len() + main.len() >= CACHE_PAGES {
            if small.len() >= SMALL_PAGES
                && let Some(oldest) = small.pop_front()
            {
                if counts.get(&oldest).is_some_and(|count| *count > 1) {
                    main.push_back(oldest);
                } else {
                    counts.remove(&oldest);
                    ghosts.insert(oldest);
                    ghost_order.push_back(oldest);
                    if ghost_order.len() > CACHE_PAGES {
                        ghost_order.pop_front().map(|forgotten| ghosts.remove(&forgotten));
                    }
                }
            } else if let Some(oldest) = main.pop_front() {
                match counts.get_mut(&oldest).filter(|count| **count > 0) {
                    Some(count) => {
                        *count -= 1;
                        main.push_back(oldest);
                    }
                    None => {
                        counts.remove(&oldest);
                    }
                }
            }
        }
        counts.insert(page, 0);
        match ghosts.remove(&page) {
            true => main.push_back(page),
            false => small.push_back(page),
        }
        false
    })
}

/// Among those held and the one that came, the one goes that was asked for least often (TinyLFU; Einziger et al., 2017), by exact counts
/// that are halved every ten times as many requests as there are pages held.
pub fn least_frequently_used(trace: &[u64]) -> f64 {
    let mut counts: HashMap<u64, u32> = HashMap::new();
    // By count, then by when they were asked for last.
    let (mut held, mut order) = (HashMap::new(), BTreeSet::new());
    rate(trace, |at, page| {
        *counts.entry(page).or_default() += 1;
        if at % (10 * CACHE_PAGES) == 0 {
            counts.values_mut().for_each(|count| *count /= 2);
            let halved = held
                .iter()
                .map(|(page, (_, last))| (*page, (counts[page], *last)));
            held = halved.collect();
            order = held
                .iter()
                .map(|(page, (count, last))| (*count, *last, *page))
                .collect();
        }
        let count = counts[&page];
        let before = held.insert(page, (count, at));
        before.map(|(count, last)| order.remove(&(count, last, page)));
        order.insert((count, at, page));
        if order.len() > CACHE_PAGES
            && let Some((_, _, least)) = order.pop_first()
        {
            held.remove(&least);
        }
        before.is_some()
    })
}

/// Those pages are held, from the beginning, that will be asked for most often.
pub fn best_fixed(trace: &[u64]) -> f64 {
    let mut counts: HashMap<u64, u32> = HashMap::new();
    trace
        .iter()
        .for_each(|page| *counts.entry(*page).or_default() += 1);
    let mut by_count: Vec<(u32, u64)> = counts.into_iter().map(|(page, count)| (count, page)).collect();
    by_count.sort_unstable_by(|left, right| right.cmp(left));
    let held: HashSet<u64> = by_count.iter().take(CACHE_PAGES).map(|(_, page)| *page).collect();
    rate(trace, |_, page| held.contains(&page))
}

/// The page goes that will be asked for last (Belady, 1966).
pub fn best(trace: &[u64]) -> f64 {
    let mut next_of = vec![usize::MAX; trace.len()];
    let mut later = HashMap::new();
    for (at, page) in trace.iter().enumerate().rev() {
        next_of[at] = later.insert(*page, at).unwrap_or(usize::MAX - at);
    }
    // By when they are asked for next.
    let mut held: BTreeSet<(usize, u64)> = BTreeSet::new();
    rate(trace, |at, page| {
        let is_hit = held.remove(&(at, page));
        held.insert((next_of[at], page));
        if held.len() > CACHE_PAGES {
            held.pop_last();
        }
        is_hit
    })
}
