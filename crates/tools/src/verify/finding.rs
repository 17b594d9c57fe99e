//! Something that is not as it has to be.

use std::fmt;

use helenus_sstable::OpenError;
use helenus_sstable::error::ReadError;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    pub file: String,
    /// In the file; in the uncompressed data where the file is compressed. Absent where the whole file is meant.
    pub offset: Option<u64>,
    pub wanted: String,
    pub found: String,
}

impl Finding {
    pub fn of_file(file: String, wanted: &str, found: String) -> Self {
        Finding {
            file,
            offset: None,
            wanted: wanted.to_owned(),
            found,
        }
    }

    pub fn at(file: String, offset: u64, wanted: &str, found: String) -> Self {
        Finding {
            offset: Some(offset),
            ..Self::of_file(file, wanted, found)
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.file.is_empty() {
            write!(out, "{}", self.file)?;
            if let Some(offset) = self.offset {
                write!(out, ", offset {offset}")?;
            }
            out.write_str(": ")?;
        }
        write!(out, "wanted {}, found {}", self.wanted, self.found)
    }
}

impl From<ReadError> for Finding {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Corrupt {
                file,
                offset,
                wanted,
                found,
            } => Finding::at(file.display().to_string(), offset, wanted, found),
            ReadError::Io { file, source } => Finding::of_file(
                file.display().to_string(),
                "a file that can be read",
                source.to_string(),
            ),
            other => Finding::of_file(String::new(), "data that can be read", other.to_string()),
        }
    }
}

impl From<OpenError> for Finding {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Read(error) => error.into(),
            other => Finding::of_file(String::new(), "an SSTable that can be opened", other.to_string()),
        }
    }
}
