//! Pages that a command draws on its terminal, each over the last one, until a key ends it.

mod boxes;
mod keys;
mod line;
mod screen;

pub use boxes::{beside, boxed, columns, gauge};
pub use line::{Line, Style};
pub use screen::{Place, Screen};
