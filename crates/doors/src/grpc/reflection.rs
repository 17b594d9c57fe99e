//! gRPC's reflection: what `grpcurl` and its like ask, to speak without files of ours.

use std::cell::OnceCell;
use std::rc::Rc;

use prost::Message;
use prost_types::{DescriptorProto, EnumDescriptorProto, FileDescriptorProto, FileDescriptorSet};

use super::answers::Answers;
use super::call::Context;
use super::messages::Messages;
use super::proto::DESCRIPTORS;
use super::proto::reflection::server_reflection_request::MessageRequest;
use super::proto::reflection::server_reflection_response::MessageResponse;
use super::proto::reflection::{
    ErrorResponse, ExtensionNumberResponse, FileDescriptorResponse, ListServiceResponse,
    ServerReflectionRequest, ServerReflectionResponse, ServiceResponse,
};
use super::status::{Code, Status};

thread_local! {
    static FILES: OnceCell<Rc<Files>> = const { OnceCell::new() };
}

/// The files that describe the services.
struct Files(Vec<File>);

struct File {
    descriptor: FileDescriptorProto,
    /// Everything that it declares, by its full name.
    symbols: Vec<String>,
}

/// Answers each request of a stream.
pub async fn answer(mut messages: Messages, _: Rc<Context>, answers: Rc<Answers>) -> Result<(), Status> {
    let files = FILES.with(|files| files.get_or_init(|| Rc::new(Files::load())).clone());
    while let Some(asked) = messages.next::<ServerReflectionRequest>().await? {
        let request = asked.message;
        let response = ServerReflectionResponse {
            valid_host: request.host.clone(),
            message_response: Some(files.answer(request.message_request.as_ref())),
            original_request: Some(request),
        };
        answers.send(&response).await?;
    }
    Ok(())
}

impl Files {
    fn load() -> Self {
        // A test reads the same bytes.
        let set = FileDescriptorSet::decode(DESCRIPTORS).unwrap_or_default();
        Files(set.file.into_iter().map(File::of).collect())
    }

    fn answer(&self, request: Option<&MessageRequest>) -> MessageResponse {
        let found = match request {
            Some(MessageRequest::ListServices(_)) => return self.services(),
            Some(MessageRequest::FileByFilename(name)) => {
                self.0.iter().find(|file| file.descriptor.name() == name)
            }
            Some(MessageRequest::FileContainingSymbol(symbol)) => self.with(symbol),
            // No message here may be extended.
            Some(MessageRequest::AllExtensionNumbersOfType(name)) if self.with(name).is_some() => {
                return MessageResponse::AllExtensionNumbersResponse(ExtensionNumberResponse {
                    base_type_name: name.clone(),
                    extension_number: Vec::new(),
                });
            }
            Some(
                MessageRequest::FileContainingExtension(_) | MessageRequest::AllExtensionNumbersOfType(_),
            ) => None,
            None => return error(Code::InvalidArgument, "The request asks for nothing"),
        };
        match found {
            Some(file) => {
                let mut files = Vec::new();
                self.add_with_imports(file, &mut files);
                let encoded = files.iter().map(|file| file.descriptor.encode_to_vec());
                MessageResponse::FileDescriptorResponse(FileDescriptorResponse {
                    file_descriptor_proto: encoded.collect(),
                })
            }
            None => error(Code::NotFound, "There is no such thing here"),
        }
    }

    fn with(&self, symbol: &str) -> Option<&File> {
        let declares = |file: &&File| file.symbols.iter().any(|known| known == symbol);
        self.0.iter().find(declares)
    }

    fn add_with_imports<'f>(&'f self, file: &'f File, files: &mut Vec<&'f File>) {
        if files
            .iter()
            .any(|known| known.descriptor.name() == file.descriptor.name())
        {
            return;
        }
        files.push(file);
        for name in &file.descriptor.dependency {
            if let Some(import) = self.0.iter().find(|file| file.descriptor.name() == name) {
                self.add_with_imports(import, files);
            }
        }
    }

    fn services(&self) -> MessageResponse {
        let services = self.0.iter().flat_map(|file| {
            let package = file.descriptor.package();
            file.descriptor
                .service
                .iter()
                .map(move |service| ServiceResponse {
                    name: format!("{package}.{}", service.name()),
                })
        });
        MessageResponse::ListServicesResponse(ListServiceResponse {
            service: services.collect(),
        })
    }
}

fn error(code: Code, message: &str) -> MessageResponse {
    MessageResponse::ErrorResponse(ErrorResponse {
        error_code: code as i32,
        error_message: message.to_owned(),
    })
}

impl File {
    fn of(descriptor: FileDescriptorProto) -> Self {
        let package = descriptor.package();
        let mut symbols = Vec::new();
        for message in &descriptor.message_type {
            add_message(package, message, &mut symbols);
        }
        for declared in &descriptor.enum_type {
            add_enum(package, declared, &mut symbols);
        }
        for service in &descriptor.service {
            let name = format!("{package}.{}", service.name());
            symbols.extend(
                service
                    .method
                    .iter()
                    .map(|method| format!("{name}.{}", method.name())),
            );
            symbols.push(name);
        }
        File { descriptor, symbols }
    }
}

fn add_message(scope: &str, message: &DescriptorProto, symbols: &mut Vec<String>) {
    let name = format!("{scope}.{}", message.name());
    for nested in &message.nested_type {
        add_message(&name, nested, symbols);
    }
    for declared in &message.enum_type {
        add_enum(&name, declared, symbols);
    }
    let fields = message.field.iter().map(|field| field.name());
    let choices = message.oneof_decl.iter().map(|choice| choice.name());
    symbols.extend(fields.chain(choices).map(|part| format!("{name}.{part}")));
    symbols.push(name);
}

/// Values of an enum are declared beside it and not within it.
fn add_enum(scope: &str, declared: &EnumDescriptorProto, symbols: &mut Vec<String>) {
    let values = declared.value.iter().map(|value| value.name());
    symbols.extend(
        values
            .chain([declared.name()])
            .map(|name| format!("{scope}.{name}")),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_and_symbol_is_found_with_what_it_imports() {
        let files = Files::load();
        let symbol =
            |name: &str| match files.answer(Some(&MessageRequest::FileContainingSymbol(name.to_owned()))) {
                MessageResponse::FileDescriptorResponse(found) => found.file_descriptor_proto.len(),
                _ => 0,
            };
        assert_eq!(symbol("stargate.Stargate"), 5);
        assert_eq!(symbol("stargate.Stargate.ExecuteQuery"), 5);
        assert_eq!(symbol("stargate.TypeSpec.Basic"), 4);
        for part in [
            "stargate.TypeSpec.TINYINT",
            "stargate.Query.cql",
            "stargate.Value.inner",
        ] {
            assert!(symbol(part) > 0, "{part}");
        }
        assert_eq!((symbol("grpc.health.v1.Health"), symbol("stargate.None")), (1, 0));
        let MessageResponse::ListServicesResponse(services) = files.services() else {
            panic!("no services");
        };
        let names: Vec<&str> = services
            .service
            .iter()
            .map(|service| service.name.as_str())
            .collect();
        let wanted = [
            "grpc.health.v1.Health",
            "grpc.reflection.v1.ServerReflection",
            "grpc.reflection.v1alpha.ServerReflection",
            "stargate.Stargate",
        ];
        assert_eq!(
            {
                let mut names = names;
                names.sort_unstable();
                names
            },
            wanted
        );
    }
}
