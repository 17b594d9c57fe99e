//! The program as people run it: its signals, what it draws on a terminal, and `helenus serve --replace`, which takes the place of a
//! running node without its clients seeing anything of it.

#![cfg(feature = "cli")]

mod memory;
mod node;
mod refusals;
mod rest;
mod seamless;
mod signals;
mod supervised;
mod terminal;
