//! Workloads: the statements that applications send, loads of small or heavy requests, and reads of more than memory holds.

use helenus_protocol::request::{BindValues, QueryParameters, Value, write_execute};
use helenus_protocol::{Consistency, Opcode};
use serde::{Deserialize, Serialize};

use super::wire::{VERSION, WireClient, WireError, frame};
use super::{cold, statements};

/// Kind of reads or writes that a load consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GoodputWorkload {
    PointRead,
    PointWrite,
    /// 50 rows behind a place.
    Slice,
    /// Ten rows by their clusterings.
    ClusteringIn,
    /// A row of each of nine partitions.
    PartitionIn,
    /// The first 100 rows of a table.
    Scan,
    /// Over 2,000 rows of a partition.
    Count,
    /// All rows of a table, of which two are wanted.
    Filtering,
    /// Rows of one partition are written.
    SinglePartition,
    /// Partitions are written, all alike.
    UniformWrites,
    /// Partitions are read, all alike; all of them are in memory.
    UniformReads,
    /// Nine of ten requests go to one partition, one to any; half are reads.
    HotPartition,
    /// Partitions are read, all alike; together they are a multiple of the server's memory.
    ColdReads,
}

impl GoodputWorkload {
    /// Those of `statements`.
    pub const STATEMENTS: [GoodputWorkload; 8] = [
        GoodputWorkload::PointRead,
        GoodputWorkload::PointWrite,
        GoodputWorkload::Slice,
        GoodputWorkload::ClusteringIn,
        GoodputWorkload::PartitionIn,
        GoodputWorkload::Scan,
        GoodputWorkload::Count,
        GoodputWorkload::Filtering,
    ];

    /// In the order of tables and charts.
    pub const ALL: [GoodputWorkload; 13] = [
        GoodputWorkload::PointRead,
        GoodputWorkload::PointWrite,
        GoodputWorkload::Slice,
        GoodputWorkload::ClusteringIn,
        GoodputWorkload::PartitionIn,
        GoodputWorkload::Scan,
        GoodputWorkload::Count,
        GoodputWorkload::Filtering,
        GoodputWorkload::SinglePartition,
        GoodputWorkload::UniformWrites,
        GoodputWorkload::UniformReads,
        GoodputWorkload::HotPartition,
        GoodputWorkload::ColdReads,
    ];

    pub fn name(self) -> &'static str {
        match self {
            GoodputWorkload::PointRead => "point read",
            GoodputWorkload::PointWrite => "point write",
            GoodputWorkload::Slice => "slice of 50 rows",
            GoodputWorkload::ClusteringIn => "IN of 10 clusterings",
            GoodputWorkload::PartitionIn => "IN of 9 partitions",
            GoodputWorkload::Scan => "first page of a scan, LIMIT 100",
            GoodputWorkload::Count => "count over a partition of 2,000 rows",
            GoodputWorkload::Filtering => "filtering",
            GoodputWorkload::SinglePartition => "single partition writes",
            GoodputWorkload::UniformWrites => "uniform writes",
            GoodputWorkload::UniformReads => "uniform cached reads",
            GoodputWorkload::HotPartition => "90/10 hot/uniform",
            GoodputWorkload::ColdReads => "cold reads",
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

/// Partitions of a heavy request's table; each holds 100 rows.
const HEAVY_KEYS: u64 = 500;

const HEAVY_ROWS: u64 = 100;
const HEAVY_COLUMNS: usize = 100;
const SMALL_COLUMNS: usize = 5;
const VALUE: [u8; 34] = [0xa5; 34];

/// A whole EXECUTE frame: what is sent, but for the stream and the key.
#[derive(Clone, Debug)]
pub struct Template {
    pub frame: Vec<u8>,
    /// Where the eight bytes of the key are, if it has one.
    pub key_at: Option<usize>,
}

/// Requests of a load.
#[derive(Clone, Debug)]
pub struct Requests {
    templates: Vec<Template>,
    keys: u64,
    /// Tenths of the requests that go to key 0.
    hot_tenths: u64,
}

impl Requests {
    /// Which template and which key, from 64 random bits.
    #[inline]
    pub fn choose(&self, random: u64) -> (&Template, u64) {
        let template = &self.templates[((random >> 48) as usize * self.templates.len()) >> 16];
        if self.hot_tenths > 0 && (random >> 32) % 10 < self.hot_tenths {
            return (template, 0);
        }
        // Multiplication instead of a remainder: 32 random bits over some thousands of keys.
        (template, ((random & 0xffff_ffff) * self.keys) >> 32)
    }
}

impl Requests {
    /// The same statements again and again, all alike.
    pub fn unbound(templates: Vec<Template>) -> Self {
        Requests {
            templates,
            keys: 1,
            hot_tenths: 0,
        }
    }

    /// Those of several tables, all alike.
    pub fn of_all(tables: impl IntoIterator<Item = Requests>) -> Self {
        Requests::unbound(tables.into_iter().flat_map(|table| table.templates).collect())
    }
}

/// How tables are made.
#[derive(Clone, Debug)]
pub struct Preparation {
    /// Request size of the four loads that have one.
    pub size: RequestSize,
    /// Bytes of the table that cold reads go to.
    pub cold_bytes: u64,
    /// Name of the table that statements go to.
    pub table: String,
    /// Those of its partitions that statements go to, all alike.
    pub partitions: Vec<u32>,
}

/// Makes tables and rows and prepares what is asked for.
pub fn prepare(
    client: &mut WireClient,
    workload: GoodputWorkload,
    preparation: &Preparation,
) -> Result<Requests, WireError> {
    let size = preparation.size;
    let (table, partitions) = (&preparation.table, &preparation.partitions);
    let texts: Option<Vec<String>> = partitions
        .iter()
        .map(|partition| statements::text(workload, table, *partition))
        .collect();
    if let Some(texts) = texts {
        statements::fill(client, table, partitions)?;
        let mut template = |text: &String| unbound_template(&client.prepare(text)?);
        let templates: Result<_, WireError> = texts.iter().map(&mut template).collect();
        return Ok(Requests::unbound(templates?));
    }
    client.query(
        "CREATE KEYSPACE IF NOT EXISTS goodput \
         WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    )?;
    if workload == GoodputWorkload::ColdReads {
        let keys = cold::fill(client, preparation.cold_bytes)?;
        let id = client.prepare(cold::SELECT)?;
        return Ok(Requests {
            templates: vec![template(&id, 0)?],
            keys,
            hot_tenths: 0,
        });
    }
    let write = prepare_write(client, workload, size)?;
    let templates = match workload {
        GoodputWorkload::SinglePartition | GoodputWorkload::UniformWrites => vec![write],
        GoodputWorkload::HotPartition => vec![write, prepare_read(client, size)?],
        _ => vec![prepare_read(client, size)?],
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
    let frame = frame(Opcode::Execute, |out| {
        write_execute(out, VERSION, id, &[], &parameters, BindValues::Positional(&bound));
    })?;
    let key_at = frame.windows(MARK.len()).position(|window| window == MARK);
    Ok(Template { frame, key_at })
}

/// The frame that executes `id`, which has no markers.
fn unbound_template(id: &[u8]) -> Result<Template, WireError> {
    let mut parameters = QueryParameters::new(Consistency::One);
    parameters.skip_metadata = true;
    let frame = frame(Opcode::Execute, |out| {
        write_execute(out, VERSION, id, &[], &parameters, BindValues::NONE);
    })?;
    Ok(Template { frame, key_at: None })
}

fn with_key(template: &Template, key: u64) -> Vec<u8> {
    let mut frame = template.frame.clone();
    if let Some(key_at) = template.key_at {
        frame[key_at..key_at + 8].copy_from_slice(&key.to_be_bytes());
    }
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_an_execute_whose_key_can_be_written_into_it() {
        let keyed = template(&[1; 16], 0).unwrap();
        assert_eq!(keyed.frame[4], Opcode::Execute as u8);
        let other = with_key(&keyed, 0x0102_0304_0506_0708);
        assert_eq!(other.len(), keyed.frame.len());
        assert!(other.windows(8).any(|bytes| bytes == [1, 2, 3, 4, 5, 6, 7, 8]));
        // Header, id, consistency and flags (skip_metadata): what the other generator sends, byte for byte.
        let unbound = unbound_template(&[7; 16]).unwrap();
        let mut wanted = vec![4, 0, 0, 0, 10, 0, 0, 0, 21, 0, 16];
        wanted.extend([7; 16]);
        wanted.extend([0, 1, 2]);
        assert_eq!((unbound.frame, unbound.key_at), (wanted, None));
    }

    #[test]
    fn every_workload_has_its_place_and_its_name() {
        let mut names: Vec<&str> = GoodputWorkload::ALL
            .iter()
            .map(|workload| workload.name())
            .collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), GoodputWorkload::ALL.len());
        assert_eq!(GoodputWorkload::ALL[..8], GoodputWorkload::STATEMENTS);
    }

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
