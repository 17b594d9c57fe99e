//! How well types fit each other.

use helenus_types::CqlType;

/// How well a term fits a type; overloads of functions are chosen by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assignability {
    Exact,
    Weak,
    None,
}

impl Assignability {
    pub(crate) fn is_assignable(self) -> bool {
        self != Assignability::None
    }

    pub(super) fn all(results: impl IntoIterator<Item = Assignability>) -> Assignability {
        let mut all = Assignability::Exact;
        for result in results {
            match result {
                Assignability::None => return Assignability::None,
                Assignability::Weak => all = Assignability::Weak,
                Assignability::Exact => {}
            }
        }
        all
    }
}

/// How a value of type `given` fits where `receiver` is wanted. Frozen or not makes no difference to values.
pub fn type_assignment(given: &CqlType, receiver: &CqlType) -> Assignability {
    let (given, receiver) = (given.freeze(), receiver.freeze());
    if given == receiver {
        Assignability::Exact
    } else if receiver.is_value_compatible_with(&given) {
        Assignability::Weak
    } else {
        Assignability::None
    }
}
