//! Messages of `grpc/testing/messages.proto`, as far as the test cases without a cloud have them.

#[derive(Clone, PartialEq, prost::Message)]
pub struct Empty {}

#[derive(Clone, PartialEq, prost::Message)]
pub struct BoolValue {
    #[prost(bool, tag = "1")]
    pub value: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Payload {
    #[prost(int32, tag = "1")]
    pub r#type: i32,
    #[prost(bytes = "vec", tag = "2")]
    pub body: Vec<u8>,
}

/// Status that the client wants to get instead of an answer.
#[derive(Clone, PartialEq, prost::Message)]
pub struct EchoStatus {
    #[prost(int32, tag = "1")]
    pub code: i32,
    #[prost(string, tag = "2")]
    pub message: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct SimpleRequest {
    #[prost(int32, tag = "2")]
    pub response_size: i32,
    #[prost(message, optional, tag = "3")]
    pub payload: Option<Payload>,
    #[prost(message, optional, tag = "6")]
    pub response_compressed: Option<BoolValue>,
    #[prost(message, optional, tag = "7")]
    pub response_status: Option<EchoStatus>,
    #[prost(message, optional, tag = "8")]
    pub expect_compressed: Option<BoolValue>,
    #[prost(bool, tag = "9")]
    pub fill_server_id: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct SimpleResponse {
    #[prost(message, optional, tag = "1")]
    pub payload: Option<Payload>,
    #[prost(string, tag = "4")]
    pub server_id: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct StreamingInputCallRequest {
    #[prost(message, optional, tag = "1")]
    pub payload: Option<Payload>,
    #[prost(message, optional, tag = "2")]
    pub expect_compressed: Option<BoolValue>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct StreamingInputCallResponse {
    #[prost(int32, tag = "1")]
    pub aggregated_payload_size: i32,
}

/// One message of a stream of answers.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ResponseParameters {
    #[prost(int32, tag = "1")]
    pub size: i32,
    #[prost(int32, tag = "2")]
    pub interval_us: i32,
    #[prost(message, optional, tag = "3")]
    pub compressed: Option<BoolValue>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct StreamingOutputCallRequest {
    #[prost(message, repeated, tag = "2")]
    pub response_parameters: Vec<ResponseParameters>,
    #[prost(message, optional, tag = "3")]
    pub payload: Option<Payload>,
    #[prost(message, optional, tag = "7")]
    pub response_status: Option<EchoStatus>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct StreamingOutputCallResponse {
    #[prost(message, optional, tag = "1")]
    pub payload: Option<Payload>,
}
