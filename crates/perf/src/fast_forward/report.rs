//! Results of a run, as data.

use serde::Serialize;

use super::Group;
use super::measurement::Columns;
use super::options::Population;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FastForwardReport {
    pub population: Population,
    pub enable_cache: bool,
    pub keep_cache_across_test_cases: bool,
    pub groups: Vec<GroupReport>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupReport {
    pub group: &'static str,
    pub data_set: &'static str,
    pub description: &'static str,
    /// Their names; each case has a value for each.
    pub parameters: &'static [&'static str],
    pub cases: Vec<CaseReport>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CaseReport {
    pub parameters: Vec<String>,
    #[serde(flatten)]
    pub columns: Columns,
}

impl GroupReport {
    pub fn new(group: Group, cases: Vec<CaseReport>) -> Self {
        GroupReport {
            group: group.name(),
            data_set: group.data_set().name(),
            description: group.description(),
            parameters: group.parameters(),
            cases,
        }
    }
}
