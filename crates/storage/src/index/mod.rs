//! Secondary indexes: which rows may match a predicate, in the order of a scan.
//!
//! An index narrows a read and never decides. What it has of a memtable is fed where writes are applied (`memtable::MemtableIndexes`),
//! what it has of an SSTable lies in a file of terms beside it (`build`). A read goes through the `Candidates` of
//! its predicates and reads these rows as any other; whoever takes them looks at the predicates again. So entries of rows
//! that are overwritten, deleted or expired do no harm, and nothing is read before it is written.

mod build;
mod candidates;
mod head;
mod memtable;
mod range;
mod stream;

pub(crate) use build::{BuildError, BuiltTerms, IndexBuild, TermsWriter, build_terms, write_memtable_terms};
pub(crate) use candidates::{Candidate, Candidates, PlaceBound, Search};
pub use memtable::MemtableIndexes;
pub(crate) use memtable::MemtableTerms;
pub(crate) use range::{RANGE_PLACES_MAX, RangePlaces};
pub(crate) use stream::{IndexSources, TermStream};

use helenus_sstable::terms;

const _: () = assert!(helenus_index::TERM_BYTES_MAX <= terms::TERM_BYTES_MAX);
