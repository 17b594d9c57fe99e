//! Workloads: the statements that are executed, how often, and with which values.

mod file;
mod generator;
mod preset;
mod random;

pub use file::WorkloadError;
pub use generator::Generator;
pub use preset::Preset;
pub use random::Random;

use helenus_types::CqlType;

/// Everything that one run executes.
#[derive(Clone, Debug)]
pub struct Workload {
    pub name: String,
    /// Executed once, in order, before everything else.
    pub schema: Vec<String>,
    pub populate: Option<Populate>,
    pub statements: Vec<WorkloadStatement>,
}

/// Rows that are there before the measurement begins.
#[derive(Clone, Debug)]
pub struct Populate {
    pub statement: WorkloadStatement,
    pub rows: u64,
}

/// A prepared statement, its share of the requests, and a generator for each of its markers.
#[derive(Clone, Debug)]
pub struct WorkloadStatement {
    pub name: String,
    pub cql: String,
    /// Relative to the others'.
    pub weight: u32,
    pub values: Vec<Generator>,
    pub is_idempotent: bool,
}

impl WorkloadStatement {
    /// Appends the serialized value of each marker. `sequence` counts this statement's executions.
    pub fn bind(
        &self,
        types: &[CqlType],
        random: &mut Random,
        sequence: u64,
        out: &mut helenus_client::values::BoundValues,
    ) -> Result<(), helenus_client::values::BindError> {
        for (generator, data_type) in self.values.iter().zip(types) {
            out.push_written(|out| generator.write(data_type, random, sequence, out))?;
        }
        Ok(())
    }
}

impl Workload {
    /// The statement that comes next, by weight.
    pub fn pick(&self, random: &mut Random) -> usize {
        let total: u64 = self
            .statements
            .iter()
            .map(|statement| u64::from(statement.weight))
            .sum();
        let mut at = random.below(total.max(1));
        for (index, statement) in self.statements.iter().enumerate() {
            match at.checked_sub(u64::from(statement.weight)) {
                None => return index,
                Some(rest) => at = rest,
            }
        }
        0
    }
}
