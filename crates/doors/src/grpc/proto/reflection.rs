#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ServerReflectionRequest {
    #[prost(string, tag = "1")]
    pub host: ::prost::alloc::string::String,
    #[prost(oneof = "server_reflection_request::MessageRequest", tags = "3, 4, 5, 6, 7")]
    pub message_request: ::core::option::Option<server_reflection_request::MessageRequest>,
}
/// Nested message and enum types in `ServerReflectionRequest`.
pub mod server_reflection_request {
    #[derive(Clone, PartialEq, Eq, Hash, ::prost::Oneof)]
    pub enum MessageRequest {
        #[prost(string, tag = "3")]
        FileByFilename(::prost::alloc::string::String),
        #[prost(string, tag = "4")]
        FileContainingSymbol(::prost::alloc::string::String),
        #[prost(message, tag = "5")]
        FileContainingExtension(super::ExtensionRequest),
        #[prost(string, tag = "6")]
        AllExtensionNumbersOfType(::prost::alloc::string::String),
        #[prost(string, tag = "7")]
        ListServices(::prost::alloc::string::String),
    }
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ExtensionRequest {
    #[prost(string, tag = "1")]
    pub containing_type: ::prost::alloc::string::String,
    #[prost(int32, tag = "2")]
    pub extension_number: i32,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ServerReflectionResponse {
    #[prost(string, tag = "1")]
    pub valid_host: ::prost::alloc::string::String,
    #[prost(message, optional, tag = "2")]
    pub original_request: ::core::option::Option<ServerReflectionRequest>,
    #[prost(oneof = "server_reflection_response::MessageResponse", tags = "4, 5, 6, 7")]
    pub message_response: ::core::option::Option<server_reflection_response::MessageResponse>,
}
/// Nested message and enum types in `ServerReflectionResponse`.
pub mod server_reflection_response {
    #[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum MessageResponse {
        #[prost(message, tag = "4")]
        FileDescriptorResponse(super::FileDescriptorResponse),
        #[prost(message, tag = "5")]
        AllExtensionNumbersResponse(super::ExtensionNumberResponse),
        #[prost(message, tag = "6")]
        ListServicesResponse(super::ListServiceResponse),
        #[prost(message, tag = "7")]
        ErrorResponse(super::ErrorResponse),
    }
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct FileDescriptorResponse {
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub file_descriptor_proto: ::prost::alloc::vec::Vec<::prost::alloc::vec::Vec<u8>>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ExtensionNumberResponse {
    #[prost(string, tag = "1")]
    pub base_type_name: ::prost::alloc::string::String,
    #[prost(int32, repeated, tag = "2")]
    pub extension_number: ::prost::alloc::vec::Vec<i32>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ListServiceResponse {
    #[prost(message, repeated, tag = "1")]
    pub service: ::prost::alloc::vec::Vec<ServiceResponse>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ServiceResponse {
    #[prost(string, tag = "1")]
    pub name: ::prost::alloc::string::String,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ErrorResponse {
    #[prost(int32, tag = "1")]
    pub error_code: i32,
    #[prost(string, tag = "2")]
    pub error_message: ::prost::alloc::string::String,
}
