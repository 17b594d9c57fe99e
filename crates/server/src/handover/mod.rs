//! A node's place is taken by another process: the listening sockets and the connections go from one to the other, and clients see
//! nothing of it but one slower answer.
//!
//! `offer` is the running node's side, `succession` its successor's; what they say to each other is `helenus-handover`.

mod connections;
mod door;
mod offer;
mod succession;

pub(crate) use door::{DoorKind, Kept, ListeningSockets};
pub use offer::Takeover;
pub(crate) use offer::{Offer, OfferParts, Released};
pub use succession::ReplaceError;
pub(crate) use succession::Succession;

pub(crate) use connections::Connections;
