//! Kinds of functions by family, as signatures name them.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaskKind {
    Null,
    Default,
    Replace,
    /// The characters between the first and last so many.
    Inner,
    /// The first and last so many characters.
    Outer,
    /// A digest of the serialized value.
    Hash,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MathKind {
    Absolute,
    Exponential,
    Logarithm,
    Logarithm10,
    Round,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationKind {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

impl OperationKind {
    pub fn symbol(self) -> char {
        match self {
            OperationKind::Add => '+',
            OperationKind::Subtract => '-',
            OperationKind::Multiply => '*',
            OperationKind::Divide => '/',
            OperationKind::Modulo => '%',
        }
    }

    pub(super) fn function_name(self) -> &'static str {
        match self {
            OperationKind::Add => "_add",
            OperationKind::Subtract => "_substract",
            OperationKind::Multiply => "_multiply",
            OperationKind::Divide => "_divide",
            OperationKind::Modulo => "_modulo",
        }
    }
}

/// The present moment, as a value of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    Timeuuid,
    Timestamp,
    Date,
    Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeKind {
    MinTimeuuid,
    MaxTimeuuid,
    /// From one type that holds a time to another.
    Convert,
    /// The start of the interval that a time falls into.
    Floor,
    FloorTime,
}
