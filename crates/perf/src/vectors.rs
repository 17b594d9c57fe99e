//! `helenus-perf vectors`: how fast vectors are taken in, linked and searched by a shard, and how much searches find.
//!
//! Frames in, frames out, on the shard's own thread, one query after the other: planning, the graph, the rows that it leads to
//! and their comparison are all in it. The vectors are those of [`Sample`].

use std::fmt;
use std::io;
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use helenus_node::{Node, NodeOptions, Shard};
use helenus_protocol::frame::{FrameLimits, FrameReader, ReceiveBuffer};
use helenus_protocol::request::{BindValues, QueryParameters, Value, write_execute, write_query};
use helenus_protocol::response::{ReceivedResult, Response};
use helenus_protocol::{Consistency, Direction, Opcode};
use helenus_types::ShardId;
use helenus_vector::Similarity;
use helenus_vector::sample::Sample;
use serde::Serialize;

use crate::simple_query::{Line, SimpleQueryOptions, VERSION, frame, node_options};

const LIMIT: usize = 10;
/// Clusters of the sample.
const CLUSTERS: usize = 1_000;
const SIMILARITY: Similarity = Similarity::Euclidean;
/// Which rows match: by the column that says so, how many of a hundred.
const SHARES: [(&str, u32); 3] = [("one", 1), ("ten", 10), ("half", 50)];
/// Rows of clusters whose numbers have the same last digit are a group.
const GROUPS: usize = 10;

/// Rows that a search is for.
#[derive(Clone, Copy, Debug)]
enum Filter {
    All,
    /// Wherever they are.
    Share(&'static str, u32),
    /// Those of the query's group, or of the next, so many numbers ahead.
    Group(usize),
}

const FILTERS: [Filter; 6] = [
    Filter::All,
    Filter::Share("half", 50),
    Filter::Share("ten", 10),
    Filter::Share("one", 1),
    Filter::Group(0),
    Filter::Group(1),
];

#[derive(Clone, Copy, Debug)]
pub struct VectorsOptions {
    pub count: u32,
    pub dimension: u32,
    pub queries: u32,
    pub seed: u64,
    /// For so long it is asked for tenths of the rows, before the searches are measured once more.
    pub asked_s: u32,
}

#[derive(Clone, Debug, Serialize)]
pub struct VectorsReport {
    /// Written, searchable, and not linked yet.
    pub written_per_s: f64,
    /// Linked, after they were written.
    pub linked_per_s: f64,
    pub bytes_per_vector: f64,
    /// Bytes as a share of those of the same vectors as floats.
    pub share_of_floats: f64,
    pub searches: Vec<SearchReport>,
    /// The same, once it was asked for some of them often.
    pub searches_again: Vec<SearchReport>,
    pub filter_graphs: usize,
    pub bytes_per_vector_again: f64,
}

#[derive(Clone, Debug, Serialize)]
pub struct SearchReport {
    /// Rows that match.
    pub rows: String,
    pub queries_per_s: f64,
    pub recall: f64,
}

pub fn run(options: &VectorsOptions) -> io::Result<VectorsReport> {
    let node_options = NodeOptions {
        memory_bytes: 12 << 30,
        in_memory: true,
        ..node_options(&SimpleQueryOptions::default())
    };
    let node = Node::start(node_options, Arc::new(|_| {})).map_err(io::Error::other)?;
    let (sender, receiver) = mpsc::channel();
    let options = *options;
    node.mailbox(ShardId(0)).run(move |shard| {
        let shard = shard.clone();
        tokio::task::spawn_local(async move {
            let report = measure(&shard, &options).await;
            // The caller waits below.
            let _waiting = sender.send(report);
        });
    });
    let report = receiver.recv().map_err(io::Error::other)?;
    node.abandon();
    report
}

fn bytes_of(vector: &[f32]) -> Vec<u8> {
    vector
        .iter()
        .flat_map(|component| component.to_be_bytes())
        .collect()
}

fn is_of_share(row: u32, percent: u32) -> bool {
    row % 100 < percent
}

/// A vector, and the cluster that it is of.
type Clustered = (Vec<f32>, usize);

impl Filter {
    fn condition(self) -> String {
        match self {
            Filter::All => String::new(),
            Filter::Share(column, _) => format!("WHERE {column} = 1 "),
            Filter::Group(_) => "WHERE cluster_group = ? ".to_owned(),
        }
    }

    /// The group that a query asks for.
    fn group_of(self, cluster: usize) -> Option<u32> {
        match self {
            Filter::Group(ahead) => Some(((cluster + ahead) % GROUPS) as u32),
            Filter::All | Filter::Share(..) => None,
        }
    }

    /// Returns whether a row of a cluster matches for a query of another.
    fn accepts(self, row: u32, cluster: usize, query_cluster: usize) -> bool {
        match self {
            Filter::All => true,
            Filter::Share(_, percent) => is_of_share(row, percent),
            Filter::Group(ahead) => cluster % GROUPS == (query_cluster + ahead) % GROUPS,
        }
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Filter::All => formatter.write_str("all"),
            Filter::Share(_, percent) => write!(formatter, "{percent} %"),
            Filter::Group(0) => formatter.write_str("10 %, those of the query's cluster among them"),
            Filter::Group(_) => formatter.write_str("10 %, none of the query's cluster"),
        }
    }
}

async fn measure(shard: &Rc<Shard>, options: &VectorsOptions) -> io::Result<VectorsReport> {
    let mut line = Line::new(shard);
    for statement in create_statements(options.dimension) {
        let parameters = QueryParameters::new(Consistency::One);
        let query = frame(Opcode::Query, |out| {
            write_query(out, VERSION, &statement, &parameters, BindValues::NONE)
        })?;
        line.ask(shard, &query).await?;
    }
    let mut sample = Sample::descriptors(options.dimension as usize, CLUSTERS, options.seed);
    let vectors: Vec<Clustered> = (0..options.count).map(|_| sample.vector_and_cluster()).collect();
    let insert = line
        .prepare(
            shard,
            "INSERT INTO perf.vectors (p, v, one, ten, half, cluster_group) VALUES (?, ?, ?, ?, ?, ?)",
        )
        .await?;
    let begun = Instant::now();
    for (row, (vector, cluster)) in (0..).zip(&vectors) {
        let is_in = |percent| Vec::from(i32::from(is_of_share(row, percent)).to_be_bytes());
        let values = [
            row.to_be_bytes().to_vec(),
            bytes_of(vector),
            is_in(1),
            is_in(10),
            is_in(50),
            Vec::from(((cluster % GROUPS) as u32).to_be_bytes()),
        ];
        line.ask(shard, &execute(&insert, &values)?).await?;
    }
    let written_s = begun.elapsed().as_secs_f64();
    let unlinked = shard.unlinked_vectors();
    let begun = Instant::now();
    while shard.unlinked_vectors() > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let linked_s = begun.elapsed().as_secs_f64();
    let queries: Vec<Clustered> = (0..options.queries)
        .map(|_| sample.vector_and_cluster())
        .collect();
    let mut searches = Vec::new();
    for filter in FILTERS {
        searches.push(search(&mut line, shard, filter, &queries, &vectors).await?);
    }
    let bytes_per_vector = || shard.vector_bytes() as f64 / f64::from(options.count);
    let bytes_per_vector_before = bytes_per_vector();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(u64::from(options.asked_s)) {
        for filter in [Filter::Share("ten", 10), Filter::Group(0)] {
            answers(&mut line, shard, filter, &queries).await?;
        }
    }
    let mut searches_again = Vec::new();
    for filter in FILTERS.iter().filter(|_| options.asked_s > 0) {
        searches_again.push(search(&mut line, shard, *filter, &queries, &vectors).await?);
    }
    Ok(VectorsReport {
        written_per_s: f64::from(options.count) / written_s,
        linked_per_s: unlinked as f64 / linked_s,
        bytes_per_vector: bytes_per_vector_before,
        share_of_floats: bytes_per_vector_before / f64::from(options.dimension * 4),
        searches,
        searches_again,
        filter_graphs: shard.vector_filter_graphs(),
        bytes_per_vector_again: bytes_per_vector(),
    })
}

fn create_statements(dimension: u32) -> Vec<String> {
    let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
    let mut statements = vec![
        format!("CREATE KEYSPACE perf WITH replication = {replication}"),
        format!(
            "CREATE TABLE perf.vectors (p int PRIMARY KEY, v vector<float, {dimension}>, one int, ten int, half int, \
             cluster_group int)"
        ),
        "CREATE INDEX ON perf.vectors (v) USING 'sai' WITH OPTIONS = {'similarity_function': 'euclidean'}"
            .to_owned(),
    ];
    let columns = SHARES.iter().map(|(column, _)| *column).chain(["cluster_group"]);
    statements.extend(columns.map(|column| format!("CREATE INDEX ON perf.vectors ({column}) USING 'sai'")));
    statements
}

pub(crate) fn execute(statement: &[u8], values: &[Vec<u8>]) -> io::Result<Vec<u8>> {
    let mut parameters = QueryParameters::new(Consistency::One);
    parameters.skip_metadata = true;
    let values: Vec<Value<'_>> = values.iter().map(|value| Value::Bytes(value)).collect();
    frame(Opcode::Execute, |out| {
        write_execute(
            out,
            VERSION,
            statement,
            &[],
            &parameters,
            BindValues::Positional(&values),
        );
    })
}

async fn search(
    line: &mut Line,
    shard: &Rc<Shard>,
    filter: Filter,
    queries: &[Clustered],
    vectors: &[Clustered],
) -> io::Result<SearchReport> {
    let begun = Instant::now();
    let answers = answers(line, shard, filter, queries).await?;
    let took_s = begun.elapsed().as_secs_f64();
    let (mut found, mut wanted) = (0, 0);
    for ((query, query_cluster), answer) in queries.iter().zip(&answers) {
        let rows = rows_of(answer)?;
        let mut exact: Vec<(f32, u32)> = (0..)
            .zip(vectors)
            .filter(|(row, (_, cluster))| filter.accepts(*row, *cluster, *query_cluster))
            .map(|(row, (vector, _))| (-SIMILARITY.closeness(query, vector), row))
            .collect();
        exact.sort_by(|left, right| left.0.total_cmp(&right.0));
        exact.truncate(LIMIT);
        wanted += exact.len();
        found += exact.iter().filter(|(_, row)| rows.contains(row)).count();
    }
    Ok(SearchReport {
        rows: filter.to_string(),
        queries_per_s: queries.len() as f64 / took_s,
        recall: found as f64 / wanted.max(1) as f64,
    })
}

/// Asks each of the queries once.
async fn answers(
    line: &mut Line,
    shard: &Rc<Shard>,
    filter: Filter,
    queries: &[Clustered],
) -> io::Result<Vec<Vec<u8>>> {
    let condition = filter.condition();
    let text = format!("SELECT p FROM perf.vectors {condition}ORDER BY v ANN OF ? LIMIT {LIMIT}");
    let statement = line.prepare(shard, &text).await?;
    let mut answers = Vec::new();
    for (query, cluster) in queries {
        let group = filter
            .group_of(*cluster)
            .map(|group| Vec::from(group.to_be_bytes()));
        let values: Vec<Vec<u8>> = group.into_iter().chain([bytes_of(query)]).collect();
        answers.push(line.ask(shard, &execute(&statement, &values)?).await?);
    }
    Ok(answers)
}

fn rows_of(answer: &[u8]) -> io::Result<Vec<u32>> {
    let mut received = ReceiveBuffer::new();
    received.feed(answer);
    let mut reader = FrameReader::new(Direction::Response, FrameLimits::default());
    let envelope = reader.next_envelope(&mut received).map_err(io::Error::other)?;
    let envelope = envelope.ok_or(io::ErrorKind::UnexpectedEof)?;
    match Response::decode(&envelope).map_err(io::Error::other)?.0 {
        Response::Result(ReceivedResult::Rows(rows)) => {
            let values = rows.iter().filter_map(|mut row| row.next().flatten());
            Ok(values
                .filter_map(|value| value.try_into().ok().map(u32::from_be_bytes))
                .collect())
        }
        other => Err(io::Error::other(format!("a query was answered with {other:?}"))),
    }
}

impl fmt::Display for VectorsReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{:.0} written/s, then {:.0} linked/s, {:.0} bytes a vector ({:.2} of floats)",
            self.written_per_s, self.linked_per_s, self.bytes_per_vector, self.share_of_floats
        )?;
        for search in &self.searches {
            write!(formatter, "\n{search}")?;
        }
        if self.searches_again.is_empty() {
            return Ok(());
        }
        write!(
            formatter,
            "\nasked for tenths again and again: {} graphs of filters, {:.0} bytes a vector",
            self.filter_graphs, self.bytes_per_vector_again
        )?;
        for search in &self.searches_again {
            write!(formatter, "\n{search}")?;
        }
        Ok(())
    }
}

impl fmt::Display for SearchReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{}: {:.0} queries/s, recall@{LIMIT} {:.4}",
            self.rows, self.queries_per_s, self.recall
        )
    }
}
