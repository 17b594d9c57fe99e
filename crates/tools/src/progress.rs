//! How far a long piece of work is.

/// Display of progress. Work tells it now and then; it must be cheap.
pub trait Progress {
    /// A new task begins, of so many units; 0 where nobody knows.
    fn begin(&self, task: &str, unit: Unit, total: u64);

    /// So many units of the task are done.
    fn at(&self, done: u64);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    Bytes,
    Files,
    Partitions,
    /// Thousandths of the task.
    PerMille,
}

/// Shows nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn begin(&self, _task: &str, _unit: Unit, _total: u64) {}

    fn at(&self, _done: u64) {}
}
