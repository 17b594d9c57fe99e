//! Messages of a call as they come: each with a byte that says whether it is compressed, and its length.

use std::borrow::Cow;
use std::sync::Arc;

use prost::Message;

use super::compression::Compression;
use super::status::{Code, Status};
use crate::body::{Chunk, Incoming};
use crate::bounds::BODY_COST;
use crate::failure::Failure;
use crate::memory::{Memory, Taken};

/// In front of each message.
const PREFIX_BYTES: usize = 5;

/// Reads a call's messages.
pub struct Messages {
    incoming: Incoming,
    /// Bytes that have come,
    chunk: Option<Chunk>,
    /// of which so many were read.
    read: usize,
    compression: Option<Compression>,
    memory: Arc<Memory>,
}

/// A message with what it takes while it is worked on.
pub struct Charged<M> {
    pub message: M,
    pub is_compressed: bool,
    _taken: Taken,
}

impl Messages {
    pub fn new(incoming: Incoming, compression: Option<Compression>, memory: &Arc<Memory>) -> Self {
        Messages {
            incoming,
            chunk: None,
            read: 0,
            compression,
            memory: memory.clone(),
        }
    }

    /// The next message; `None` where the client has sent its last.
    pub async fn next<M: Message + Default>(&mut self) -> Result<Option<Charged<M>>, Status> {
        let Some((is_compressed, bytes)) = self.length_and_flag().await? else {
            return Ok(None);
        };
        let bytes_max = self.memory.body_bytes_max();
        if bytes > bytes_max {
            let bytes_max = Some(bytes_max);
            return Err(Failure::TooLarge { bytes_max }.into());
        }
        let mut taken = self.memory.take(BODY_COST * bytes).map_err(Failure::from)?;
        if !self.fill(PREFIX_BYTES + bytes).await {
            return Err(Status::new(Code::Internal, "The call ends within a message"));
        }
        let packed = self
            .rest()
            .get(PREFIX_BYTES..PREFIX_BYTES + bytes)
            .unwrap_or_default();
        let unpacked = self.unpacked(packed, is_compressed)?;
        taken
            .grow(BODY_COST * unpacked.len().saturating_sub(bytes))
            .map_err(Failure::from)?;
        let message = M::decode(&*unpacked)
            .map_err(|error| Status::new(Code::Internal, format!("A message cannot be read: {error}")))?;
        drop(unpacked);
        self.pass(PREFIX_BYTES + bytes);
        Ok(Some(Charged {
            message,
            is_compressed,
            _taken: taken,
        }))
    }

    fn unpacked<'b>(&self, bytes: &'b [u8], is_compressed: bool) -> Result<Cow<'b, [u8]>, Status> {
        match (is_compressed, self.compression) {
            (false, _) => Ok(Cow::Borrowed(bytes)),
            (true, Some(compression)) => {
                let unpacked = compression.decompress(bytes, self.memory.body_bytes_max())?;
                Ok(Cow::Owned(unpacked))
            }
            (true, None) => Err(Status::new(
                Code::Internal,
                "A message is flagged as compressed, but the header grpc-encoding does not say how",
            )),
        }
    }

    /// Bytes that have come and are not read.
    fn rest(&self) -> &[u8] {
        let chunk = self.chunk.as_deref().unwrap_or_default();
        chunk.get(self.read..).unwrap_or_default()
    }

    /// So many of them are read.
    fn pass(&mut self, bytes: usize) {
        self.read += bytes;
        if self.rest().is_empty() {
            (self.chunk, self.read) = (None, 0);
        }
    }

    async fn length_and_flag(&mut self) -> Result<Option<(bool, usize)>, Status> {
        if !self.fill(PREFIX_BYTES).await {
            return match self.rest().is_empty() {
                true => Ok(None),
                false => Err(Status::new(
                    Code::Internal,
                    "The call ends within a message's length",
                )),
            };
        }
        match *self.rest() {
            [flag @ (0 | 1), a, b, c, d, ..] => {
                Ok(Some((flag == 1, u32::from_be_bytes([a, b, c, d]) as usize)))
            }
            _ => Err(Status::new(
                Code::Internal,
                "A message's compression flag is neither 0 nor 1",
            )),
        }
    }

    /// Returns whether so many bytes are there, if need be after some more have come.
    async fn fill(&mut self, bytes: usize) -> bool {
        if self.chunk.is_none() {
            // Most messages come in one piece, and are read where it lies.
            self.chunk = self.incoming.next().await;
            self.read = 0;
        }
        if self.rest().len() >= bytes {
            return true;
        }
        let mut joined = self.memory.lend(bytes);
        joined.extend(self.rest());
        (self.chunk, self.read) = (None, 0);
        while joined.len() < bytes
            && let Some(data) = self.incoming.next().await
        {
            joined.extend(&data);
        }
        let is_whole = joined.len() >= bytes;
        if !joined.is_empty() {
            self.chunk = Some(Chunk::Lent(joined));
        }
        is_whole
    }
}
