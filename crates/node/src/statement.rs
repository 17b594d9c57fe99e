//! Statements that are neither reads nor writes: PREPARE, USE, TRUNCATE, schema changes, DESCRIBE.

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use helenus_catalog::ddl::DdlOutcome;
use helenus_catalog::describe::{DescribeAnswer, describe, page_offset, page_state};
use helenus_catalog::system::{NodeState, NodeUsage};
use helenus_cql::ast::{self, DescribeStatement};
use helenus_engine::{CqlError, Plan, Prepared, QueryOptions};
use helenus_protocol::Opcode;
use helenus_protocol::extensions::CQL_VERSION_SPOKEN;
use helenus_protocol::frame::EnvelopeFlags;
use helenus_protocol::request::Prepare;
use helenus_protocol::response::{
    ColumnSpec, MetadataForm, ResultMetadata, RowsWriter, write_prepared, write_schema_change,
    write_set_keyspace, write_void,
};
use helenus_schema::{TableMetadata, is_made_from_code};

use crate::execution::Statement;
use crate::metrics::RequestKind;
use crate::roles::not_anonymous;
use crate::schema_change::{DATA_CENTER, SchemaStatement};
use crate::session::{RequestContext, Session};
use crate::shard::{Shard, is_valid};

/// The release whose behaviour drivers and tools may expect.
pub const RELEASE_VERSION: &str = "5.0.5";

/// SimpleSnitch's rack.
const RACK: &str = "rack1";

/// Cassandra's port between nodes: reported, because tools print it, although nothing listens there.
const STORAGE_PORT: u16 = 7000;

/// Id by which v5 clients know the metadata of statements without rows, and of conditional ones, whose columns change from
/// execution to execution: the MD5 sum of nothing.
const EMPTY_METADATA_ID: [u8; 16] = [
    0xd4, 0x1d, 0x8c, 0xd9, 0x8f, 0x00, 0xb2, 0x04, 0xe9, 0x80, 0x09, 0x98, 0xec, 0xf8, 0x42, 0x7e,
];

/// How often a statement is handed to the other shards while the schema changes. A change is on its way to them for some
/// milliseconds.
const PLANNINGS_MAX: u32 = 16;

/// Between two of those.
const SCHEMA_CHANGE_PAUSE: Duration = Duration::from_millis(1);

impl Shard {
    /// Plans a statement and hands the plan to every shard before the client learns its id.
    pub(crate) fn prepare(
        self: &Rc<Self>,
        context: RequestContext<'_>,
        prepare: &Prepare<'_>,
    ) -> Result<(), CqlError> {
        let keyspace = context.session.conversation.keyspace();
        let keyspace = prepare.keyspace.or(keyspace.as_deref());
        self.context
            .trace(context.session, || format!("Parsing {}", prepare.text));
        let prepared =
            helenus_engine::prepare(&self.schema(), keyspace, self.context.now(), prepare.text).map(Arc::new);
        self.context
            .trace(context.session, || "Preparing statement".to_owned());
        self.prepare_planned(context, prepared)
    }

    pub(crate) fn prepare_planned(
        self: &Rc<Self>,
        context: RequestContext<'_>,
        planned: Result<Arc<Prepared>, CqlError>,
    ) -> Result<(), CqlError> {
        let RequestContext { session, stream, .. } = context;
        self.context.metrics.count_request(RequestKind::Prepare, &context);
        let prepared = planned?;
        if matches!(prepared.plan, Plan::Role(_)) {
            not_anonymous(session.user().as_deref())?;
        }
        let bytes = self.prepared.borrow().weigh(&prepared)?;
        self.keep_plan(&prepared, bytes);
        let shard = self.clone();
        let answered = session.clone();
        self.context.answer_later(session, stream, async move {
            let prepared = match shard.keep_plan_everywhere(&answered, prepared, bytes).await {
                Ok(prepared) => prepared,
                Err(error) => {
                    shard.context.metrics.count_error(error.code());
                    return answered
                        .respond_later(stream, EnvelopeFlags::NONE, Opcode::Error, |_| Err(error));
                }
            };
            let warning = use_keyspace_warning(&answered, &prepared);
            answered.respond_later_warning(stream, Opcode::Result, warning.as_deref().as_slice(), |out| {
                write_prepared_result(&answered, &prepared, out);
                Ok(())
            });
        });
        Ok(())
    }

    /// False if the plan was made for another schema than this shard has: it would be executed under it for ever.
    fn keep_plan(&self, prepared: &Arc<Prepared>, bytes: usize) -> bool {
        let is_current = self.is_current(prepared);
        if is_current {
            self.prepared.borrow_mut().insert(prepared.clone(), bytes);
        }
        is_current
    }

    fn is_current(&self, prepared: &Prepared) -> bool {
        is_valid(&prepared.plan, &self.schema.borrow())
    }

    /// Hands a plan that this shard keeps to all others. While the schema changes, they may have heard of it and this
    /// shard not, or the other way round: the statement is planned again then. Who executes it where it could not be
    /// kept is told to prepare it again.
    async fn keep_plan_everywhere(
        self: &Rc<Self>,
        session: &Rc<Session>,
        mut prepared: Arc<Prepared>,
        mut bytes: usize,
    ) -> Result<Arc<Prepared>, CqlError> {
        for _ in 0..PLANNINGS_MAX {
            let (plan, keeper) = (prepared.clone(), self.context.id);
            let kept =
                self.on_all_shards(move |shard| shard.context.id == keeper || shard.keep_plan(&plan, bytes));
            let is_kept = kept.await.into_iter().flatten().all(|is_kept| is_kept);
            if is_kept && self.is_current(&prepared) {
                break;
            }
            tokio::time::sleep(SCHEMA_CHANGE_PAUSE).await;
            if !self.is_current(&prepared) {
                prepared = Arc::new(self.plan_again(session, &prepared).await?);
                bytes = self.prepared.borrow().weigh(&prepared)?;
            }
            self.keep_plan(&prepared, bytes);
        }
        Ok(prepared)
    }

    pub(crate) fn use_keyspace(
        &self,
        session: &Rc<Session>,
        stream: i16,
        keyspace: &str,
    ) -> Result<(), CqlError> {
        let schema = self.schema();
        let Some(found) = schema.keyspace(keyspace) else {
            return Err(CqlError::invalid(format_args!(
                "Keyspace '{keyspace}' does not exist"
            )));
        };
        session.conversation.set_keyspace(found.name.clone());
        session.respond(stream, EnvelopeFlags::NONE, Opcode::Result, |out| {
            write_set_keyspace(out, keyspace);
            Ok(())
        });
        Ok(())
    }

    pub(crate) fn truncate_table(
        self: &Rc<Self>,
        session: &Rc<Session>,
        stream: i16,
        table: &Arc<TableMetadata>,
        options: &QueryOptions<'_>,
    ) -> Result<(), CqlError> {
        if is_made_from_code(&table.keyspace) {
            return Err(CqlError::invalid(format_args!(
                "Truncation is not supported by table {}.{}",
                table.keyspace, table.name
            )));
        }
        if self.schema().view(&table.keyspace, &table.name).is_some() {
            return Err(CqlError::invalid(format_args!(
                "Cannot TRUNCATE materialized view directly; must truncate base table instead"
            )));
        }
        self.truncate(session, stream, table.clone(), options.deadline_ns);
        Ok(())
    }

    pub(crate) fn change_schema_later(
        self: &Rc<Self>,
        statement: &Statement<'_>,
        change: &Arc<ast::SchemaStatement>,
    ) {
        let RequestContext { session, stream, .. } = statement.request;
        let session_keyspace = statement
            .parameters
            .keyspace
            .map(Arc::from)
            .or_else(|| session.conversation.keyspace());
        let statement = SchemaStatement {
            statement: change.clone(),
            session_keyspace,
        };
        let shard = self.clone();
        let answered = session.clone();
        self.context.answer_later(session, stream, async move {
            let outcome = shard.change_schema(statement).await;
            shard.context.count_failure(&outcome);
            match outcome {
                Ok(outcome) => answer_schema_change(&answered, stream, &outcome),
                Err(error) => {
                    answered.respond_later(stream, EnvelopeFlags::NONE, Opcode::Error, |_| Err(error))
                }
            }
        });
    }

    /// Answers DESCRIBE with a text made beside the shard: that takes time in proportion to the schema.
    pub(crate) fn describe_later(
        self: &Rc<Self>,
        session: &Rc<Session>,
        stream: i16,
        description: &DescribeStatement,
        options: &QueryOptions<'_>,
    ) {
        let (schema, node, keyspace) = (self.schema(), self.node_state(), session.conversation.keyspace());
        let description = description.clone();
        let schema_version = node.schema_version;
        let work = move || describe(&schema, &node, &description, keyspace.as_deref());
        let metadata_form = match options.metadata_form {
            MetadataForm::Skipped => MetadataForm::Skipped,
            _ => MetadataForm::Full,
        };
        let (page_rows, paging_state) = (options.page_rows(), options.paging_state.map(<[u8]>::to_vec));
        let (shard, answered) = (self.clone(), session.clone());
        self.context.answer_later(session, stream, async move {
            let asker = shard.context.account_of_session(&answered);
            let described = match shard.planner.run(&asker, work).await {
                Ok(described) => described.unwrap_or_else(|| Err(shard.no_plan())),
                Err(refused) => Err(refused),
            };
            let page = described.and_then(|answer| {
                let offset = match &paging_state {
                    Some(state) => page_offset(state, schema_version)?,
                    None => 0,
                };
                let start = usize::try_from(offset)
                    .unwrap_or(usize::MAX)
                    .min(answer.rows.len());
                Ok((answer, start))
            });
            shard.context.count_failure(&page);
            match page {
                Ok((answer, start)) => {
                    let page_rows = page_rows.map_or(usize::MAX, |rows| rows as usize);
                    let end = start.saturating_add(page_rows).min(answer.rows.len());
                    // As in Cassandra, a full page announces another one, even if that will be empty.
                    let next = (end - start == page_rows).then(|| page_state(end as u64, schema_version));
                    answer_description(&answered, stream, &answer, start..end, metadata_form, next);
                }
                Err(error) => {
                    answered.respond_later(stream, EnvelopeFlags::NONE, Opcode::Error, |_| Err(error))
                }
            }
        });
    }

    pub(crate) fn node_state(&self) -> NodeState {
        let address = self.context.options.advertised_address;
        NodeState {
            cluster_name: self.context.options.cluster_name.clone(),
            data_center: DATA_CENTER.to_owned(),
            rack: RACK.to_owned(),
            host_id: self.context.host_id,
            address: address.ip(),
            native_port: address.port(),
            storage_port: STORAGE_PORT,
            tokens: vec![i64::MIN],
            release_version: RELEASE_VERSION.to_owned(),
            cql_version: CQL_VERSION_SPOKEN.to_owned(),
            schema_version: self.schema_version.get(),
            gossip_generation: self.context.options.started_at_s.cast_signed(),
            now_us: self.context.clock.wall_us(),
            settings: Vec::new(),
            sstable_tasks: self.sstable_tasks(),
            hot_partitions: Vec::new(),
            metrics: Vec::new(),
            usage: NodeUsage::default(),
        }
    }
}

fn write_prepared_result(session: &Session, prepared: &Prepared, out: &mut Vec<u8>) {
    let version = session.version();
    let none = ResultMetadata::none();
    let (metadata, metadata_id) = match &prepared.result {
        Some(result) => (result.for_version(version), result.id),
        None => (&none, EMPTY_METADATA_ID),
    };
    write_prepared(
        out,
        version,
        &prepared.id.0,
        &metadata_id,
        &prepared.bind_metadata(version),
        metadata,
    );
}

fn answer_description(
    session: &Session,
    stream: i16,
    answer: &DescribeAnswer,
    page: Range<usize>,
    metadata_form: MetadataForm<'_>,
    next: Option<Vec<u8>>,
) {
    let columns: Vec<ColumnSpec<'_>> = answer
        .columns
        .iter()
        .map(|column| ColumnSpec {
            keyspace: DescribeAnswer::KEYSPACE,
            table: DescribeAnswer::TABLE,
            name: column.name,
            data_type: &column.cql_type,
        })
        .collect();
    let metadata = ResultMetadata::new(session.version(), &columns);
    session.respond_later(stream, EnvelopeFlags::NONE, Opcode::Result, |out| {
        let mut writer = RowsWriter::begin(out, &metadata, metadata_form);
        for row in &answer.rows[page] {
            row.iter().for_each(|value| writer.value(out, Some(value)));
            writer.end_row();
        }
        writer.finish(out, next.as_deref());
        Ok(())
    });
}

fn answer_schema_change(session: &Session, stream: i16, outcome: &DdlOutcome) {
    let warnings: Vec<&str> = outcome.warnings.iter().map(String::as_str).collect();
    let version = session.version();
    session.respond_later_warning(stream, Opcode::Result, &warnings, |out| {
        match &outcome.transition {
            Some(transition) => write_schema_change(out, version, &transition.change.to_protocol()),
            None => write_void(out),
        }
        Ok(())
    });
}

/// Cassandra's words, once per connection, where a statement means what `USE` last said.
fn use_keyspace_warning(session: &Session, prepared: &Prepared) -> Option<String> {
    let (statement, used) = (prepared.keyspace.as_deref()?, session.conversation.keyspace()?);
    session.conversation.take_use_keyspace_warning().then(|| {
        format!(
            "`USE <keyspace>` with prepared statements is considered to be an anti-pattern due to ambiguity in \
             non-qualified table names. Please consider removing instances of `Session#setKeyspace(<keyspace>)`, \
             `Session#execute(\"USE <keyspace>\")` and `cluster.newSession(<keyspace>)` from your code, and always use \
             fully qualified table names (e.g. <keyspace>.<table>). Keyspace used: {used}, statement keyspace: \
             {statement}, statement id: {}",
            prepared.id
        )
    })
}
