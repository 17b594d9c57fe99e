//! A server's answer: its bytes, and what they say.

use std::marker::PhantomData;
use std::net::SocketAddr;
use std::sync::Arc;

use helenus_protocol::frame::{Envelope, EnvelopeFlags, EnvelopeHeader};
use helenus_protocol::response::{
    ReceivedPrelude, ReceivedResult, ReceivedRow, ReceivedRows, Response as Message,
};
use helenus_protocol::wire::{DecodeError, WireReader};
use helenus_protocol::{ErrorCode, Opcode, ProtocolVersion};
use helenus_types::CqlType;

use crate::buffer_pool::PooledBytes;
use crate::error::{RequestError, ServerError};
use crate::statement::ResultShape;
use crate::values::{FromRow, Row, RowError};

/// One response as it arrived, decompressed; decoded when somebody looks.
#[derive(Debug)]
pub(crate) struct Response {
    pub version: ProtocolVersion,
    pub flags: EnvelopeFlags,
    pub opcode: Opcode,
    pub body: PooledBytes,
}

impl Response {
    pub fn decode(&self) -> Result<(Message<'_>, ReceivedPrelude<'_>), DecodeError> {
        Message::decode(&Envelope {
            header: EnvelopeHeader {
                version: self.version,
                flags: self.flags.without(EnvelopeFlags::COMPRESSED),
                stream: 0,
                opcode: self.opcode,
                body_bytes: self.body.len() as u32,
            },
            body: &self.body,
        })
    }

    /// The ERROR that this is.
    pub fn server_error(&self, address: SocketAddr) -> ServerError {
        match self.decode() {
            Ok((Message::Error(error), _)) => ServerError {
                address,
                code: Some(error.body.code()),
                number: error.body.code().number(),
                message: error.message.to_owned(),
            },
            // A code of an extension, or a broken body: the number and the words are all there is.
            _ => {
                let mut reader = WireReader::new(&self.body);
                let number = reader.int("an error code").unwrap_or_default().cast_unsigned();
                ServerError {
                    address,
                    code: ErrorCode::from_number(number),
                    number,
                    message: reader.string().unwrap_or_default().to_owned(),
                }
            }
        }
    }
}

/// Answer to a statement.
#[derive(Debug)]
pub struct Answer {
    pub(crate) response: Response,
    pub(crate) address: SocketAddr,
    /// Columns of a prepared statement's rows, which come without them.
    pub(crate) shape: Option<Arc<ResultShape>>,
}

/// The rows of one page, read as `T` one by one.
pub struct Rows<'a, T> {
    rows: Box<dyn Iterator<Item = ReceivedRow<'a>> + 'a>,
    types: Vec<CqlType>,
    names: Vec<String>,
    row: PhantomData<T>,
}

impl Answer {
    /// The node that answered.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Bytes of the answer's body.
    pub fn body_bytes(&self) -> usize {
        self.response.body.len()
    }

    fn unreadable(&self, source: DecodeError) -> RequestError {
        RequestError::Unreadable {
            address: self.address,
            source,
        }
    }

    fn received_rows(&self) -> Result<Option<ReceivedRows<'_>>, RequestError> {
        match self.response.decode().map_err(|error| self.unreadable(error))? {
            (Message::Result(ReceivedResult::Rows(rows)), _) => Ok(Some(rows)),
            _ => Ok(None),
        }
    }

    /// Returns the number of rows in this page; 0 for a statement without rows.
    pub fn row_count(&self) -> Result<usize, RequestError> {
        Ok(self.received_rows()?.map_or(0, |rows| rows.len()))
    }

    /// Reads the page's rows as tuples of Rust values.
    pub fn rows<T: FromRow>(&self) -> Result<Rows<'_, T>, RequestError> {
        let Some(rows) = self.received_rows()? else {
            return Err(RowError::NoRows.into());
        };
        let (types, names) = match &self.shape {
            Some(shape) if rows.metadata.columns.is_empty() => (shape.types.clone(), shape.names.clone()),
            _ => rows
                .metadata
                .columns
                .iter()
                .map(|column| (column.data_type.clone(), column.name.to_owned()))
                .unzip(),
        };
        if types.len() != rows.metadata.column_count {
            return Err(RowError::ColumnCount {
                wanted: types.len(),
                found: rows.metadata.column_count,
            }
            .into());
        }
        Ok(Rows {
            rows: Box::new(rows.iter()),
            types,
            names,
            row: PhantomData,
        })
    }

    /// The only row that is wanted: the first.
    pub fn first_row<T: FromRow>(&self) -> Result<T, RequestError> {
        self.rows::<T>()?.next().ok_or(RowError::Empty)?
    }

    /// Where the next page starts; `None` on the last one.
    pub fn paging_state(&self) -> Result<Option<Vec<u8>>, RequestError> {
        let rows = self.received_rows()?;
        Ok(rows.and_then(|rows| rows.metadata.paging_state.map(<[u8]>::to_vec)))
    }

    /// The server's warnings.
    pub fn warnings(&self) -> Result<Vec<String>, RequestError> {
        let (_, prelude) = self.response.decode().map_err(|error| self.unreadable(error))?;
        Ok(prelude.warnings.iter().map(str::to_owned).collect())
    }
}

impl<T> Rows<'_, T> {
    /// Names of the columns, in the order of a row's values; also of a page without rows.
    pub fn column_names(&self) -> &[String] {
        &self.names
    }

    /// Types of the columns, one for each of [`Rows::column_names`].
    pub fn column_types(&self) -> &[CqlType] {
        &self.types
    }
}

impl<T: FromRow> Iterator for Rows<'_, T> {
    type Item = Result<T, RequestError>;

    fn next(&mut self) -> Option<Self::Item> {
        let values: Vec<Option<&[u8]>> = self.rows.next()?.collect();
        let row = Row {
            types: &self.types,
            values: &values,
        };
        Some(T::from_row(row).map_err(RequestError::from))
    }
}
