//! Reports of a run, for people and for scripts.

mod csv;
mod html;
mod json;
mod text;

pub use csv::to_csv;
pub use html::to_html;
pub use json::{Report, ReportLatencies, ReportSecond};
pub(crate) use text::duration;
pub use text::to_text;
