//! Types that the calls of one statement were found to have, so that each is resolved once.
//!
//! Choosing among the overloads of a call asks for each of them whether the arguments fit, and an argument that is a call
//! asks the same of its own: without a memory, `c + c + c + c + c + c + c` takes 81 to the power of its operators.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};

use helenus_types::CqlType;

use super::{Assignability, RawTerm};

#[derive(Debug, Default)]
pub struct CallTypes {
    /// In terms and in the select clause, where some have other types.
    exact: [HashMap<RawTerm, Option<CqlType>>; 2],
    /// In terms, by receiver.
    assignable: HashMap<CqlType, HashMap<RawTerm, Assignability>>,
}

impl CallTypes {
    pub fn exact(&self, call: &RawTerm, is_selection: bool) -> Option<Option<CqlType>> {
        self.exact[usize::from(is_selection)].get(call).cloned()
    }

    pub(crate) fn found_exact(&mut self, call: &RawTerm, is_selection: bool, cql_type: Option<CqlType>) {
        self.exact[usize::from(is_selection)].insert(call.clone(), cql_type);
    }

    pub(crate) fn assignability(&self, call: &RawTerm, receiver: &CqlType) -> Option<Assignability> {
        self.assignable.get(receiver)?.get(call).copied()
    }

    pub(crate) fn found_assignability(&mut self, call: &RawTerm, receiver: &CqlType, found: Assignability) {
        let of_receiver = self.assignable.entry(receiver.clone()).or_default();
        of_receiver.insert(call.clone(), found);
    }
}

/// How much of a literal goes into a hash, in bytes: it may be of megabytes.
const HASHED_BYTES_MAX: usize = 1 << 12;

/// Hash of the parts that terms mostly differ in.
impl Hash for RawTerm {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        match self {
            RawTerm::Literal(literal) => {
                let text = literal.text.as_bytes();
                literal.kind.hash(state);
                text.len().hash(state);
                state.write(&text[..text.len().min(HASHED_BYTES_MAX)]);
            }
            RawTerm::Marker(marker) => marker.index.hash(state),
            RawTerm::Function { name, .. } => name.hash(state),
            RawTerm::Arithmetic { operator, .. } => operator.hash(state),
            RawTerm::Cast { target, .. } => target.hash(state),
            RawTerm::Column(name) => name.hash(state),
            RawTerm::Field { field, .. } => field.hash(state),
            _ => {}
        }
        for part in self.parts() {
            part.hash(state);
        }
    }
}
