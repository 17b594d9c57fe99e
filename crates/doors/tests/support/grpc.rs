//! A client of gRPC that says exactly what it is told to.

use std::future::Future;

use bytes::{BufMut, Bytes, BytesMut};
use h2::client::SendRequest;
use h2::{RecvStream, SendStream};
use helenus_doors::proto::stargate::value::Inner;
use helenus_doors::proto::stargate::{Collection, Query, Response, ResultSet, Value, Values, response};
use http::{HeaderMap, Request};
use prost::Message;
use tokio::net::TcpStream;

use super::{PATIENCE, Served};

pub fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async { tokio::time::timeout(PATIENCE, test).await.expect("in time") })
}

/// A connection of HTTP/2.
#[derive(Clone)]
pub struct Client {
    pub requests: SendRequest<Bytes>,
    pub headers: Vec<(&'static str, String)>,
}

/// How a call ended.
#[derive(Debug)]
pub struct Ended {
    pub code: i32,
    pub message: String,
    pub headers: HeaderMap,
    pub trailers: HeaderMap,
    pub data: Bytes,
}

impl Client {
    pub async fn connect(served: &Served) -> Client {
        let stream = TcpStream::connect(served.address).await.unwrap();
        let (requests, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(async move {
            let _ended = connection.await;
        });
        Client {
            requests,
            headers: Vec::new(),
        }
    }

    pub async fn begin(&mut self, method: &str) -> (h2::client::ResponseFuture, SendStream<Bytes>) {
        let mut request = Request::post(format!("http://localhost/{method}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        self.requests
            .clone()
            .ready()
            .await
            .unwrap()
            .send_request(request.body(()).unwrap(), false)
            .unwrap()
    }

    pub async fn call_with(&mut self, method: &str, frames: Bytes) -> Ended {
        let (response, mut body) = self.begin(method).await;
        body.send_data(frames, true).unwrap();
        ended(response.await.unwrap()).await
    }

    pub async fn call<A: Message + Default>(
        &mut self,
        method: &str,
        message: &impl Message,
    ) -> Result<A, Ended> {
        let ended = self.call_with(method, framed(message)).await;
        match ended.code {
            0 => Ok(messages::<A>(&ended.data).remove(0)),
            _ => Err(ended),
        }
    }

    pub async fn query(&mut self, cql: &str, values: Vec<Value>) -> Result<Response, Ended> {
        self.call("stargate.Stargate/ExecuteQuery", &query(cql, values))
            .await
    }
}

pub async fn ended(response: http::Response<RecvStream>) -> Ended {
    let (parts, mut body) = response.into_parts();
    let mut data = BytesMut::new();
    while let Some(bytes) = body.data().await {
        let bytes = bytes.unwrap();
        body.flow_control().release_capacity(bytes.len()).unwrap();
        data.put(bytes);
    }
    let trailers = body
        .trailers()
        .await
        .unwrap()
        .unwrap_or_else(|| parts.headers.clone());
    let text = |name: &str| trailers.get(name).map(|value| value.to_str().unwrap().to_owned());
    Ended {
        code: text("grpc-status").unwrap().parse().unwrap(),
        message: text("grpc-message").unwrap_or_default(),
        headers: parts.headers,
        trailers,
        data: data.freeze(),
    }
}

pub fn framed(message: &impl Message) -> Bytes {
    let mut out = BytesMut::new();
    out.put_u8(0);
    out.put_u32(message.encoded_len() as u32);
    message.encode(&mut out).unwrap();
    out.freeze()
}

pub fn messages<M: Message + Default>(mut data: &[u8]) -> Vec<M> {
    let mut found = Vec::new();
    while let Some((prefix, rest)) = data.split_first_chunk::<5>() {
        let length = u32::from_be_bytes(prefix[1..].try_into().unwrap()) as usize;
        found.push(M::decode(&rest[..length]).unwrap());
        data = &rest[length..];
    }
    found
}

pub fn query(cql: &str, values: Vec<Value>) -> Query {
    Query {
        cql: cql.to_owned(),
        values: (!values.is_empty()).then(|| Values {
            values,
            value_names: Vec::new(),
        }),
        parameters: None,
    }
}

pub fn value(inner: Inner) -> Value {
    Value { inner: Some(inner) }
}

pub fn int(number: i64) -> Value {
    value(Inner::Int(number))
}

pub fn text(text: &str) -> Value {
    value(Inner::String(text.to_owned()))
}

pub fn list(elements: Vec<Value>) -> Value {
    value(Inner::Collection(Collection { elements }))
}

pub fn rows(response: Response) -> ResultSet {
    match response.result {
        Some(response::Result::ResultSet(rows)) => rows,
        other => panic!("no rows: {other:?}"),
    }
}
