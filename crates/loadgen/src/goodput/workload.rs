//! What is asked for: four loads, each of small requests or of heavy ones.

use helenus_protocol::frame::{EnvelopeFlags, FrameWriter};
use helenus_protocol::request::{BindValues, QueryParameters, Value, write_execute};
use helenus_protocol::{Consistency, Opcode};
use serde::{Deserialize, Serialize};

use super::wire::{VERSION, WireClient, WireError};

/// Which partitions are read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GoodputWorkload {
    /// Rows of one partition are written.
    SinglePartition,
    /// Partitions are written, all alike.
    UniformWrites,
    /// Partitions are read, all alike; all of them are in memory.
    UniformReads,
    /// Nine of ten requests go to one partition, one to any; half are reads.
    HotPartition,
}

impl GoodputWorkload {
    pub const ALL: [GoodputWorkload; 4] = [
        GoodputWorkload::SinglePartition,
        GoodputWorkload::UniformWrites,
        GoodputWorkload::UniformReads,
        GoodputWorkload::HotPartition,
    ];

    pub fn name(self) -> &'static str {
        match self {
            GoodputWorkload::SinglePartition => "single partition writes",
            GoodputWorkload::UniformWrites => "uniform writes",
            GoodputWorkload::UniformReads => "uniform cached reads",
            GoodputWorkload::HotPartition => "90/10 hot/uniform",
        }
    }
}

/// How much work a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RequestSize {
    /// Five values of 34 bytes.
    Small,
    /// Writes of 100 values of 34 bytes, which the prepared statement holds; reads of 100 rows. Small on the wire, so
    /// that one core offers ten times what another core serves.
    Heavy,
}

/// Partitions (rows of the single one) that are read or written.
const KEYS: u64 = 10_000;

/// Of a heavy request's table; each holds 100 rows.
const HEAVY_KEYS: u64 = 500;

const HEAVY_ROWS: u64 = 100;
const HEAVY_COLUMNS: usize = 100;
const SMALL_COLUMNS: usize = 5;
const VALUE: [u8; 34] = [0xa5; 34];

/// A whole EXECUTE frame: what is sent, but for the stream and the key.
#[derive(Clone, Debug)]
pub struct Template {
    pub frame: Vec<u8>,
    /// Where the eight bytes of the key are.
    pub key_at: usize,
}

/// What a load sends.
#[derive(Clone, Debug)]
pub struct Requests {
    templates: Vec<Template>,
    keys: u64,
    /// Of ten requests, those to key 0.
    hot_tenths: u64,
}

impl Requests {
    /// Which template and which key, from 64 random bits.
    #[inline]
    pub fn choose(&self, random: u64) -> (&Template, u64) {
        let template = &self.templates[(random >> 60) as usize % self.templates.len()];
        if self.hot_tenths > 0 && (random >> 32) % 10 < self.hot_tenths {
            return (template, 0);
        }
        // Multiplication instead of a remainder: 32 random bits over some thousands of keys.
        (template, ((random & 0xffff_ffff) * self.keys) >> 32)
    }
}

/// Makes tables and rows and prepares what is asked for.
pub fn prepare(
    client: &mut WireClient,
    workload: GoodputWorkload,
    size: RequestSize,
) -> Result<Requests, WireError> {
    client.query(
        "CREATE KEYSPACE IF NOT EXISTS goodput \
         WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    )?;
    let write = prepare_write(client, workload, size)?;
    let templates = match workload {
        GoodputWorkload::SinglePartition | GoodputWorkload::UniformWrites => vec![write],
        GoodputWorkload::UniformReads => vec![prepare_read(client, size)?],
        GoodputWorkload::HotPartition => vec![write, prepare_read(client, size)?],
    };
    let reads = workload == GoodputWorkload::UniformReads || workload == GoodputWorkload::HotPartition;
    Ok(Requests {
        templates,
        keys: if reads && size == RequestSize::Heavy {
            HEAVY_KEYS
        } else {
            KEYS
        },
        hot_tenths: if workload == GoodputWorkload::HotPartition {
            9
        } else {
            0
        },
    })
}

fn columns(count: usize, suffix: &str) -> String {
    let names: Vec<String> = (0..count).map(|column| format!("v{column}{suffix}")).collect();
    names.join(", ")
}

fn prepare_write(
    client: &mut WireClient,
    workload: GoodputWorkload,
    size: RequestSize,
) -> Result<Template, WireError> {
    let (table, count) = match size {
        RequestSize::Small => ("goodput.small", SMALL_COLUMNS),
        RequestSize::Heavy => ("goodput.wide", HEAVY_COLUMNS),
    };
    client.query(&format!(
        "CREATE TABLE IF NOT EXISTS {table} (p bigint, c bigint, {}, PRIMARY KEY (p, c))",
        columns(count, " blob")
    ))?;
    // The other part of the key is always 0.
    let keys = match workload {
        GoodputWorkload::SinglePartition => "0, ?",
        _ => "?, 0",
    };
    let literal = format!(", 0x{}", "a5".repeat(VALUE.len()));
    let (values, bound) = match size {
        RequestSize::Small => (", ?".repeat(count), count),
        RequestSize::Heavy => (literal.repeat(count), 0),
    };
    let id = client.prepare(&format!(
        "INSERT INTO {table} (p, c, {}) VALUES ({keys}{values})",
        columns(count, "")
    ))?;
    let template = template(&id, bound)?;
    if workload == GoodputWorkload::HotPartition || workload == GoodputWorkload::UniformReads {
        client.fill((0..KEYS).map(|key| with_key(&template, key)))?;
    }
    Ok(template)
}

fn prepare_read(client: &mut WireClient, size: RequestSize) -> Result<Template, WireError> {
    let text = match size {
        RequestSize::Small => format!(
            "SELECT {} FROM goodput.small WHERE p = ? AND c = 0",
            columns(SMALL_COLUMNS, "")
        ),
        RequestSize::Heavy => {
            client.query(
                "CREATE TABLE IF NOT EXISTS goodput.rows (p bigint, c bigint, v blob, PRIMARY KEY (p, c))",
            )?;
            for row in 0..HEAVY_ROWS {
                let id = client.prepare(&format!(
                    "INSERT INTO goodput.rows (p, c, v) VALUES (?, {row}, 0x{})",
                    "a5".repeat(VALUE.len())
                ))?;
                let row = template(&id, 0)?;
                client.fill((0..HEAVY_KEYS).map(|key| with_key(&row, key)))?;
            }
            "SELECT c, v FROM goodput.rows WHERE p = ?".to_owned()
        }
    };
    let id = client.prepare(&text)?;
    template(&id, 0)
}

/// The frame that executes `id` with a key and `values` further values.
fn template(id: &[u8], values: usize) -> Result<Template, WireError> {
    const MARK: [u8; 8] = *b"the key!";
    let mut parameters = QueryParameters::new(Consistency::One);
    parameters.skip_metadata = true;
    let mut bound = vec![Value::Bytes(&MARK)];
    bound.resize(values + 1, Value::Bytes(&VALUE));
    let (mut writer, mut frame) = (FrameWriter::new(), Vec::new());
    let mark = writer.begin(&mut frame, VERSION, EnvelopeFlags::NONE, 0, Opcode::Execute);
    write_execute(
        &mut frame,
        VERSION,
        id,
        &[],
        &parameters,
        BindValues::Positional(&bound),
    );
    writer.finish(&mut frame, mark).map_err(WireError::protocol)?;
    let key_at = frame.windows(MARK.len()).position(|window| window == MARK);
    Ok(Template {
        key_at: key_at.ok_or(WireError::Answer("a request without its key".to_owned()))?,
        frame,
    })
}

fn with_key(template: &Template, key: u64) -> Vec<u8> {
    let mut frame = template.frame.clone();
    frame[template.key_at..template.key_at + 8].copy_from_slice(&key.to_be_bytes());
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nine_of_ten_requests_go_to_the_hot_key_and_the_others_anywhere() {
        let requests = Requests {
            templates: vec![template(&[1; 16], 0).unwrap(), template(&[2; 16], 5).unwrap()],
            keys: 10_000,
            hot_tenths: 9,
        };
        let mut random = super::super::line::Random::new(7);
        let (mut hot, mut first, mut largest) = (0, 0, 0);
        for _ in 0..100_000 {
            let (template, key) = requests.choose(random.next());
            hot += u32::from(key == 0);
            first += u32::from(template.frame.len() < 100);
            largest = largest.max(key);
        }
        assert!((89_000..91_500).contains(&hot), "{hot}");
        assert!((49_000..51_000).contains(&first), "{first}");
        assert!((9_000..10_000).contains(&largest), "{largest}");
    }
}
