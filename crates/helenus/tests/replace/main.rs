//! `helenus serve --replace`: another process takes the place of a running node, and its clients see nothing of it.

#![cfg(feature = "cli")]

mod program;
mod refusals;
mod seamless;
mod supervised;
