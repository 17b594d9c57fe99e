//! Lists of names.

use std::collections::HashSet;

/// The first name that stood in the list before.
pub fn first_repeated<'a>(mut names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut seen = HashSet::new();
    names.find(|&name| !seen.insert(name))
}
