#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ConsistencyValue {
    #[prost(enumeration = "Consistency", tag = "1")]
    pub value: i32,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Collection {
    #[prost(message, repeated, tag = "1")]
    pub elements: ::prost::alloc::vec::Vec<Value>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct UdtValue {
    #[prost(map = "string, message", tag = "1")]
    pub fields: ::std::collections::HashMap<::prost::alloc::string::String, Value>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Uuid {
    #[prost(bytes = "vec", tag = "1")]
    pub value: ::prost::alloc::vec::Vec<u8>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Inet {
    #[prost(bytes = "vec", tag = "1")]
    pub value: ::prost::alloc::vec::Vec<u8>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Varint {
    #[prost(bytes = "vec", tag = "1")]
    pub value: ::prost::alloc::vec::Vec<u8>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Decimal {
    #[prost(uint32, tag = "1")]
    pub scale: u32,
    #[prost(bytes = "vec", tag = "3")]
    pub value: ::prost::alloc::vec::Vec<u8>,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Duration {
    #[prost(sint32, tag = "1")]
    pub months: i32,
    #[prost(sint32, tag = "2")]
    pub days: i32,
    #[prost(sint64, tag = "3")]
    pub nanos: i64,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Value {
    #[prost(
        oneof = "value::Inner",
        tags = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17"
    )]
    pub inner: ::core::option::Option<value::Inner>,
}
/// Nested message and enum types in `Value`.
pub mod value {
    #[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
    pub struct Null {}
    #[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
    pub struct Unset {}
    #[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum Inner {
        #[prost(message, tag = "1")]
        Null(Null),
        #[prost(message, tag = "2")]
        Unset(Unset),
        #[prost(sint64, tag = "3")]
        Int(i64),
        #[prost(float, tag = "4")]
        Float(f32),
        #[prost(double, tag = "5")]
        Double(f64),
        #[prost(bool, tag = "6")]
        Boolean(bool),
        #[prost(string, tag = "7")]
        String(::prost::alloc::string::String),
        #[prost(bytes, tag = "8")]
        Bytes(::prost::alloc::vec::Vec<u8>),
        #[prost(message, tag = "9")]
        Inet(super::Inet),
        #[prost(message, tag = "10")]
        Uuid(super::Uuid),
        #[prost(uint32, tag = "11")]
        Date(u32),
        #[prost(uint64, tag = "12")]
        Time(u64),
        #[prost(message, tag = "13")]
        Collection(super::Collection),
        #[prost(message, tag = "14")]
        Udt(super::UdtValue),
        #[prost(message, tag = "15")]
        Varint(super::Varint),
        #[prost(message, tag = "16")]
        Decimal(super::Decimal),
        #[prost(message, tag = "17")]
        Duration(super::Duration),
    }
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Query {
    #[prost(string, tag = "1")]
    pub cql: ::prost::alloc::string::String,
    #[prost(message, optional, tag = "2")]
    pub values: ::core::option::Option<Values>,
    #[prost(message, optional, tag = "3")]
    pub parameters: ::core::option::Option<QueryParameters>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Values {
    #[prost(message, repeated, tag = "1")]
    pub values: ::prost::alloc::vec::Vec<Value>,
    #[prost(string, repeated, tag = "2")]
    pub value_names: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct QueryParameters {
    #[prost(message, optional, tag = "1")]
    pub keyspace: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(message, optional, tag = "2")]
    pub consistency: ::core::option::Option<ConsistencyValue>,
    #[prost(message, optional, tag = "3")]
    pub page_size: ::core::option::Option<i32>,
    #[prost(message, optional, tag = "4")]
    pub paging_state: ::core::option::Option<::prost::alloc::vec::Vec<u8>>,
    #[prost(bool, tag = "5")]
    pub tracing: bool,
    #[prost(bool, tag = "6")]
    pub skip_metadata: bool,
    #[prost(message, optional, tag = "7")]
    pub timestamp: ::core::option::Option<i64>,
    #[prost(message, optional, tag = "8")]
    pub serial_consistency: ::core::option::Option<ConsistencyValue>,
    #[prost(message, optional, tag = "9")]
    pub now_in_seconds: ::core::option::Option<i32>,
    #[prost(message, optional, tag = "10")]
    pub tracing_consistency: ::core::option::Option<ConsistencyValue>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct TypeSpec {
    #[prost(oneof = "type_spec::Spec", tags = "1, 2, 3, 4, 5, 6")]
    pub spec: ::core::option::Option<type_spec::Spec>,
}
/// Nested message and enum types in `TypeSpec`.
pub mod type_spec {
    #[derive(Clone, PartialEq, ::prost::Message)]
    pub struct Map {
        #[prost(message, optional, boxed, tag = "1")]
        pub key: ::core::option::Option<::prost::alloc::boxed::Box<super::TypeSpec>>,
        #[prost(message, optional, boxed, tag = "2")]
        pub value: ::core::option::Option<::prost::alloc::boxed::Box<super::TypeSpec>>,
        #[prost(bool, tag = "3")]
        pub frozen: bool,
    }
    #[derive(Clone, PartialEq, ::prost::Message)]
    pub struct List {
        #[prost(message, optional, boxed, tag = "1")]
        pub element: ::core::option::Option<::prost::alloc::boxed::Box<super::TypeSpec>>,
        #[prost(bool, tag = "2")]
        pub frozen: bool,
    }
    #[derive(Clone, PartialEq, ::prost::Message)]
    pub struct Set {
        #[prost(message, optional, boxed, tag = "1")]
        pub element: ::core::option::Option<::prost::alloc::boxed::Box<super::TypeSpec>>,
        #[prost(bool, tag = "2")]
        pub frozen: bool,
    }
    #[derive(Clone, PartialEq, ::prost::Message)]
    pub struct Udt {
        #[prost(map = "string, message", tag = "1")]
        pub fields: ::std::collections::HashMap<::prost::alloc::string::String, super::TypeSpec>,
        #[prost(string, tag = "2")]
        pub name: ::prost::alloc::string::String,
        #[prost(bool, tag = "3")]
        pub frozen: bool,
    }
    #[derive(Clone, PartialEq, ::prost::Message)]
    pub struct Tuple {
        #[prost(message, repeated, tag = "1")]
        pub elements: ::prost::alloc::vec::Vec<super::TypeSpec>,
    }
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
    #[repr(i32)]
    pub enum Basic {
        Custom = 0,
        Ascii = 1,
        Bigint = 2,
        Blob = 3,
        Boolean = 4,
        Counter = 5,
        Decimal = 6,
        Double = 7,
        Float = 8,
        Int = 9,
        #[deprecated]
        Text = 10,
        Timestamp = 11,
        Uuid = 12,
        Varchar = 13,
        Varint = 14,
        Timeuuid = 15,
        Inet = 16,
        Date = 17,
        Time = 18,
        Smallint = 19,
        Tinyint = 20,
        Duration = 21,
    }
    #[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum Spec {
        #[prost(enumeration = "Basic", tag = "1")]
        Basic(i32),
        #[prost(message, tag = "2")]
        Map(::prost::alloc::boxed::Box<Map>),
        #[prost(message, tag = "3")]
        List(::prost::alloc::boxed::Box<List>),
        #[prost(message, tag = "4")]
        Set(::prost::alloc::boxed::Box<Set>),
        #[prost(message, tag = "5")]
        Udt(Udt),
        #[prost(message, tag = "6")]
        Tuple(Tuple),
    }
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ColumnSpec {
    #[prost(message, optional, tag = "1")]
    pub r#type: ::core::option::Option<TypeSpec>,
    #[prost(string, tag = "2")]
    pub name: ::prost::alloc::string::String,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Traces {
    #[prost(string, tag = "1")]
    pub id: ::prost::alloc::string::String,
    #[prost(int64, tag = "2")]
    pub duration: i64,
    #[prost(int64, tag = "3")]
    pub started_at: i64,
    #[prost(message, repeated, tag = "4")]
    pub events: ::prost::alloc::vec::Vec<traces::Event>,
}
/// Nested message and enum types in `Traces`.
pub mod traces {
    #[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
    pub struct Event {
        #[prost(string, tag = "1")]
        pub activity: ::prost::alloc::string::String,
        #[prost(string, tag = "2")]
        pub source: ::prost::alloc::string::String,
        #[prost(int64, tag = "3")]
        pub source_elapsed: i64,
        #[prost(string, tag = "4")]
        pub thread: ::prost::alloc::string::String,
        #[prost(string, tag = "5")]
        pub event_id: ::prost::alloc::string::String,
    }
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct SchemaChange {
    #[prost(enumeration = "schema_change::Type", tag = "1")]
    pub change_type: i32,
    #[prost(enumeration = "schema_change::Target", tag = "2")]
    pub target: i32,
    #[prost(string, tag = "3")]
    pub keyspace: ::prost::alloc::string::String,
    #[prost(message, optional, tag = "4")]
    pub name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(string, repeated, tag = "5")]
    pub argument_types: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
}
/// Nested message and enum types in `SchemaChange`.
pub mod schema_change {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
    #[repr(i32)]
    pub enum Type {
        Created = 0,
        Updated = 1,
        Dropped = 2,
    }
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
    #[repr(i32)]
    pub enum Target {
        Keyspace = 0,
        Table = 1,
        Type = 2,
        Function = 3,
        Aggregate = 4,
    }
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Response {
    #[prost(string, repeated, tag = "2")]
    pub warnings: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    #[prost(message, optional, tag = "3")]
    pub traces: ::core::option::Option<Traces>,
    #[prost(oneof = "response::Result", tags = "1, 4")]
    pub result: ::core::option::Option<response::Result>,
}
/// Nested message and enum types in `Response`.
pub mod response {
    #[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum Result {
        #[prost(message, tag = "1")]
        ResultSet(super::ResultSet),
        #[prost(message, tag = "4")]
        SchemaChange(super::SchemaChange),
    }
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct StreamingResponse {
    #[prost(oneof = "streaming_response::Message", tags = "1, 2")]
    pub message: ::core::option::Option<streaming_response::Message>,
}
/// Nested message and enum types in `StreamingResponse`.
pub mod streaming_response {
    #[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum Message {
        #[prost(message, tag = "1")]
        Response(super::Response),
        #[prost(message, tag = "2")]
        Status(super::super::status::Status),
    }
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Unavailable {
    #[prost(enumeration = "Consistency", tag = "1")]
    pub consistency: i32,
    #[prost(int32, tag = "2")]
    pub required: i32,
    #[prost(int32, tag = "3")]
    pub alive: i32,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct WriteTimeout {
    #[prost(enumeration = "Consistency", tag = "1")]
    pub consistency: i32,
    #[prost(int32, tag = "2")]
    pub received: i32,
    #[prost(int32, tag = "3")]
    pub block_for: i32,
    #[prost(string, tag = "4")]
    pub write_type: ::prost::alloc::string::String,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ReadTimeout {
    #[prost(enumeration = "Consistency", tag = "1")]
    pub consistency: i32,
    #[prost(int32, tag = "2")]
    pub received: i32,
    #[prost(int32, tag = "3")]
    pub block_for: i32,
    #[prost(bool, tag = "4")]
    pub data_present: bool,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ReadFailure {
    #[prost(enumeration = "Consistency", tag = "1")]
    pub consistency: i32,
    #[prost(int32, tag = "2")]
    pub received: i32,
    #[prost(int32, tag = "3")]
    pub block_for: i32,
    #[prost(int32, tag = "4")]
    pub num_failures: i32,
    #[prost(bool, tag = "5")]
    pub data_present: bool,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct FunctionFailure {
    #[prost(string, tag = "1")]
    pub keyspace: ::prost::alloc::string::String,
    #[prost(string, tag = "2")]
    pub function: ::prost::alloc::string::String,
    #[prost(string, repeated, tag = "3")]
    pub arg_types: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct WriteFailure {
    #[prost(enumeration = "Consistency", tag = "1")]
    pub consistency: i32,
    #[prost(int32, tag = "2")]
    pub received: i32,
    #[prost(int32, tag = "3")]
    pub block_for: i32,
    #[prost(int32, tag = "4")]
    pub num_failures: i32,
    #[prost(string, tag = "5")]
    pub write_type: ::prost::alloc::string::String,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct AlreadyExists {
    #[prost(string, tag = "1")]
    pub keyspace: ::prost::alloc::string::String,
    #[prost(string, tag = "2")]
    pub table: ::prost::alloc::string::String,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct CasWriteUnknown {
    #[prost(enumeration = "Consistency", tag = "1")]
    pub consistency: i32,
    #[prost(int32, tag = "2")]
    pub received: i32,
    #[prost(int32, tag = "3")]
    pub block_for: i32,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Row {
    #[prost(message, repeated, tag = "1")]
    pub values: ::prost::alloc::vec::Vec<Value>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ResultSet {
    #[prost(message, repeated, tag = "1")]
    pub columns: ::prost::alloc::vec::Vec<ColumnSpec>,
    #[prost(message, repeated, tag = "2")]
    pub rows: ::prost::alloc::vec::Vec<Row>,
    #[prost(message, optional, tag = "3")]
    pub paging_state: ::core::option::Option<::prost::alloc::vec::Vec<u8>>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct BatchQuery {
    #[prost(string, tag = "1")]
    pub cql: ::prost::alloc::string::String,
    #[prost(message, optional, tag = "2")]
    pub values: ::core::option::Option<Values>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct BatchParameters {
    #[prost(message, optional, tag = "1")]
    pub keyspace: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(message, optional, tag = "2")]
    pub consistency: ::core::option::Option<ConsistencyValue>,
    #[prost(bool, tag = "3")]
    pub tracing: bool,
    #[prost(message, optional, tag = "4")]
    pub timestamp: ::core::option::Option<i64>,
    #[prost(message, optional, tag = "5")]
    pub serial_consistency: ::core::option::Option<ConsistencyValue>,
    #[prost(message, optional, tag = "6")]
    pub now_in_seconds: ::core::option::Option<i32>,
    #[prost(message, optional, tag = "7")]
    pub tracing_consistency: ::core::option::Option<ConsistencyValue>,
    #[prost(bool, tag = "8")]
    pub skip_metadata: bool,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Batch {
    #[prost(enumeration = "batch::Type", tag = "1")]
    pub r#type: i32,
    #[prost(message, repeated, tag = "2")]
    pub queries: ::prost::alloc::vec::Vec<BatchQuery>,
    #[prost(message, optional, tag = "3")]
    pub parameters: ::core::option::Option<BatchParameters>,
}
/// Nested message and enum types in `Batch`.
pub mod batch {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
    #[repr(i32)]
    pub enum Type {
        Logged = 0,
        Unlogged = 1,
        Counter = 2,
    }
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum Consistency {
    Any = 0,
    One = 1,
    Two = 2,
    Three = 3,
    Quorum = 4,
    All = 5,
    LocalQuorum = 6,
    EachQuorum = 7,
    Serial = 8,
    LocalSerial = 9,
    LocalOne = 10,
}
