//! Faults of a client, by what they end.

/// Reason for the end of a stream or of the connection (RFC 9113, section 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[allow(missing_docs, reason = "the names are the RFC's")]
pub enum ErrorCode {
    NoError = 0x0,
    ProtocolError = 0x1,
    InternalError = 0x2,
    FlowControlError = 0x3,
    StreamClosed = 0x5,
    FrameSizeError = 0x6,
    RefusedStream = 0x7,
    Cancel = 0x8,
    CompressionError = 0x9,
    EnhanceYourCalm = 0xb,
}

/// Extent of what ends by a frame that is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// One stream.
    Stream(u32, ErrorCode),
    /// Everything: both sides may not agree any more on what was sent.
    Connection(ErrorCode),
}

impl From<ErrorCode> for Fault {
    fn from(code: ErrorCode) -> Self {
        Fault::Connection(code)
    }
}
