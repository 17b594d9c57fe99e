//! Compressed messages of many calls at once, of which many are cancelled: what somebody else's call was in the middle of says nothing
//! about how mine is read.

use bytes::{BufMut, Bytes, BytesMut};
use helenus_doors::proto::stargate::value::Inner;
use helenus_doors::proto::stargate::{Response, Value};
use http::Request;

use crate::support::Served;
use crate::support::grpc::{Client, ended, framed, int, messages, query, rows, run, value};

const METHOD: &str = "stargate.Stargate/ExecuteQuery";

/// Rows with texts of their own, long enough to be compressed.
const ROWS: u64 = 16;
const ROW_BYTES: usize = 3_000;

/// Calls under way at a time, and how many there are in all.
const CALLS_AT_A_TIME: usize = 32;
const ROUNDS: usize = 30;

/// How a call's message is packed, and what the call says of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packed {
    Not,
    Gzip,
    Zstd,
    /// Flagged, and no header says how.
    Unsaid,
}

/// When its client has had enough of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cancelled {
    Never,
    WithinTheMessage,
    AfterTheMessage,
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

fn row(key: u64) -> String {
    let mut random = Random(key + 1);
    let letter = |_| char::from(b'a' + random.below(4) as u8);
    (0..ROW_BYTES).map(letter).collect()
}

/// A read of the row, with a comment that compresses.
fn frame(key: u64, packed: Packed) -> Bytes {
    let cql = format!("SELECT v FROM k.t WHERE k = ? /* {} */", row(key));
    let plain = framed(&query(&cql, vec![int(key as i64)]));
    let message = &plain[5..];
    let bytes = match packed {
        Packed::Not => return plain,
        Packed::Gzip | Packed::Unsaid => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            std::io::Write::write_all(&mut encoder, message).unwrap();
            encoder.finish().unwrap()
        }
        Packed::Zstd => zstd::encode_all(message, 1).unwrap(),
    };
    let mut out = BytesMut::new();
    out.put_u8(1);
    out.put_u32(bytes.len() as u32);
    out.put(&*bytes);
    out.freeze()
}

fn request(packed: Packed, accepted: &str) -> Request<()> {
    let mut request = Request::post(format!("http://localhost/{METHOD}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("grpc-accept-encoding", accepted);
    match packed {
        Packed::Gzip => request = request.header("grpc-encoding", "gzip"),
        Packed::Zstd => request = request.header("grpc-encoding", "zstd"),
        Packed::Not | Packed::Unsaid => {}
    }
    request.body(()).unwrap()
}

fn unpacked(data: &Bytes, encoding: Option<&str>) -> Vec<u8> {
    let message = &data[5..];
    let plain = match (data[0], encoding) {
        (1, Some("gzip")) => {
            let mut plain = Vec::new();
            std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(message), &mut plain).unwrap();
            plain
        }
        (1, Some("zstd")) => zstd::decode_all(message).unwrap(),
        other => panic!("an answer of {ROW_BYTES} bytes has {other:?}"),
    };
    [vec![0], (plain.len() as u32).to_be_bytes().to_vec(), plain].concat()
}

/// One call to its end, whichever that is.
async fn call(mut client: Client, key: u64, packed: Packed, accepted: &'static str, cancelled: Cancelled) {
    let frame = frame(key, packed);
    client.requests = client.requests.ready().await.unwrap();
    let (response, mut body) = client
        .requests
        .send_request(request(packed, accepted), false)
        .unwrap();
    match cancelled {
        Cancelled::WithinTheMessage => {
            body.send_data(frame.slice(..frame.len() / 2), false).unwrap();
            tokio::task::yield_now().await;
            return body.send_reset(h2::Reason::CANCEL);
        }
        Cancelled::AfterTheMessage => {
            body.send_data(frame, false).unwrap();
            tokio::task::yield_now().await;
            return body.send_reset(h2::Reason::CANCEL);
        }
        Cancelled::Never => body.send_data(frame, true).unwrap(),
    }
    let ended = ended(response.await.unwrap()).await;
    if packed == Packed::Unsaid {
        let is_named = ended
            .message
            .contains("the header grpc-encoding does not say how");
        assert_eq!((ended.code, is_named), (13, true), "{}", ended.message);
        return;
    }
    assert_eq!(ended.code, 0, "{packed:?}: {}", ended.message);
    let encoding = ended
        .headers
        .get("grpc-encoding")
        .map(|value| value.to_str().unwrap());
    assert_eq!(encoding, Some(accepted));
    let response = messages::<Response>(&unpacked(&ended.data, encoding)).remove(0);
    let wanted: Value = value(Inner::String(row(key)));
    assert_eq!(rows(response).rows[0].values, [wanted], "the row of another call");
}

#[test]
fn calls_that_are_cancelled_leave_nothing_behind_that_others_are_read_with() {
    let served = Served::start();
    served
        .execute("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    served.execute("CREATE TABLE k.t (k int PRIMARY KEY, v text)");
    for key in 0..ROWS {
        served.execute(&format!("INSERT INTO k.t (k, v) VALUES ({key}, '{}')", row(key)));
    }
    run(async {
        let client = Client::connect(&served).await;
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        for _ in 0..ROUNDS {
            let mut calls = tokio::task::JoinSet::new();
            for _ in 0..CALLS_AT_A_TIME {
                let packed =
                    [Packed::Not, Packed::Gzip, Packed::Zstd, Packed::Unsaid][random.below(4) as usize];
                let accepted = ["gzip", "zstd"][random.below(2) as usize];
                let cancelled = match random.below(4) {
                    0 => Cancelled::WithinTheMessage,
                    1 => Cancelled::AfterTheMessage,
                    _ => Cancelled::Never,
                };
                calls.spawn(call(
                    client.clone(),
                    random.below(ROWS),
                    packed,
                    accepted,
                    cancelled,
                ));
            }
            while let Some(called) = calls.join_next().await {
                called.unwrap();
            }
        }
    });
}
