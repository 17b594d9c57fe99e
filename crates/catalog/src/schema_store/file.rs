//! The file: a header with the format's version and a checksum, then the stored schema.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use helenus_engine::CqlError;
use helenus_schema::Schema;
use helenus_vfs::Disk;

use super::stored_schema::{StoredSchema, encode_schema};
use crate::system::add_system_keyspaces;

const FILE_NAME: &str = "schema";
const NEXT_FILE_NAME: &str = "schema.next";

/// The first word of the file.
const MAGIC: &str = "helenus-schema";
const FORMAT_VERSION: u32 = 1;

/// The largest file that is read, in bytes: a thousand times what 10,000 tables need would still fit, but a damaged
/// length cannot exhaust memory.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// The header is four words and a line feed.
const HEADER_BYTES_MAX: usize = 64;

/// Reads and replaces the schema file of one data folder.
#[derive(Debug)]
pub struct SchemaStore {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaStoreError {
    #[error("{}: {source}", file.display())]
    Io { file: PathBuf, source: io::Error },
    #[error("{} is corrupt at byte {offset}: wanted {wanted}, found {found}", file.display())]
    Corrupt {
        file: PathBuf,
        offset: u64,
        wanted: &'static str,
        found: String,
    },
    #[error(
        "{} has format version {version}, but this program reads version {FORMAT_VERSION} only; use the release that \
         wrote it",
        file.display()
    )]
    UnknownVersion { file: PathBuf, version: u32 },
    /// The program's own definitions of the system keyspaces are wrong.
    #[error("system keyspaces: {0}")]
    SystemKeyspaces(CqlError),
}

impl SchemaStore {
    pub fn new(disk: Arc<dyn Disk>, directory: PathBuf) -> Self {
        SchemaStore { disk, directory }
    }

    /// The schema last saved, or that of an empty node; system keyspaces included.
    pub fn load(&self) -> Result<Schema, SchemaStoreError> {
        let mut schema = Schema::default();
        add_system_keyspaces(&mut schema).map_err(SchemaStoreError::SystemKeyspaces)?;
        let path = self.directory.join(FILE_NAME);
        if !self
            .disk
            .exists(&path)
            .map_err(|source| io_error(&path, source))?
        {
            return Ok(schema);
        }
        let bytes = self.read(&path).map_err(|source| io_error(&path, source))?;
        let stored = decode_file(&path, &bytes)?;
        stored
            .add_to(&mut schema)
            .map_err(|reason| SchemaStoreError::Corrupt {
                file: path,
                offset: 0,
                wanted: "a schema that adds up",
                found: reason,
            })?;
        Ok(schema)
    }

    /// Makes `schema` the one that [`SchemaStore::load`] finds.
    pub fn save(&self, schema: &Schema) -> Result<(), SchemaStoreError> {
        let next = self.directory.join(NEXT_FILE_NAME);
        self.replace(&next, &encode_file(schema))
            .map_err(|source| io_error(&next, source))
    }

    fn replace(&self, next: &Path, content: &[u8]) -> io::Result<()> {
        // Left behind by a node that died while saving.
        if self.disk.exists(next)? {
            self.disk.remove(next)?;
        }
        let file = self.disk.create(next)?;
        file.append(content)?;
        file.sync_data()?;
        self.disk.rename(next, &self.directory.join(FILE_NAME))?;
        self.disk.sync_directory(&self.directory)
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let file = self.disk.open(path)?;
        let length = file.length()?;
        if length > FILE_BYTES_MAX {
            return Err(io::Error::other(format!(
                "{length} bytes are more than a schema can have"
            )));
        }
        let mut bytes = vec![0; length as usize];
        file.read_exact_at(0, &mut bytes)?;
        Ok(bytes)
    }
}

fn io_error(file: &Path, source: io::Error) -> SchemaStoreError {
    SchemaStoreError::Io {
        file: file.to_owned(),
        source,
    }
}

fn encode_file(schema: &Schema) -> Vec<u8> {
    let content = encode_schema(schema);
    let checksum = crc32fast::hash(content.as_bytes());
    format!(
        "{MAGIC} {FORMAT_VERSION} {checksum:08x} {}\n{content}",
        content.len()
    )
    .into_bytes()
}

fn decode_file(path: &Path, bytes: &[u8]) -> Result<StoredSchema, SchemaStoreError> {
    let corrupt = |offset: usize, wanted: &'static str, found: String| SchemaStoreError::Corrupt {
        file: path.to_owned(),
        offset: offset as u64,
        wanted,
        found,
    };
    let head = &bytes[..bytes.len().min(HEADER_BYTES_MAX)];
    let header_end = head.iter().position(|&byte| byte == b'\n');
    let header = header_end.and_then(|end| std::str::from_utf8(&head[..end]).ok());
    let words: Vec<&str> = header.unwrap_or_default().split(' ').collect();
    let (Some(header_end), [MAGIC, version, checksum, length]) = (header_end, words.as_slice()) else {
        return Err(corrupt(
            0,
            "a header of four words",
            String::from_utf8_lossy(head).into_owned(),
        ));
    };
    let version: u32 = version
        .parse()
        .map_err(|_| corrupt(MAGIC.len() + 1, "a version number", (*version).to_owned()))?;
    if version != FORMAT_VERSION {
        return Err(SchemaStoreError::UnknownVersion {
            file: path.to_owned(),
            version,
        });
    }
    let content = &bytes[header_end + 1..];
    if *length != content.len().to_string() {
        return Err(corrupt(
            header_end + 1,
            "as many bytes as the header says",
            format!("{} bytes", content.len()),
        ));
    }
    let actual = format!("{:08x}", crc32fast::hash(content));
    if *checksum != actual {
        return Err(corrupt(
            header_end + 1,
            "content of the header's checksum",
            actual,
        ));
    }
    serde_json::from_slice(content)
        .map_err(|error| corrupt(header_end + 1, "a stored schema", error.to_string()))
}

#[cfg(test)]
mod tests;
