//! A connection of HTTP/2 as its client sees it.

mod histories;
mod rules;
mod support;
