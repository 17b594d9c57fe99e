//! Acknowledgement of writes, by what has become of them in the log.

use std::rc::Rc;

use helenus_engine::CqlError;
use helenus_events::Event;
use helenus_storage::commitlog::{LogBatch, LogError, LogPosition, SegmentNotRemoved};

use super::Shard;
use super::durability::Acknowledgement;

impl Shard {
    pub(crate) fn log_persisted(self: &Rc<Self>, batch: LogBatch, result: &Result<LogPosition, LogError>) {
        self.persistence.log_handed_back(batch, result);
        let log = &self.persistence.log;
        match result {
            Ok(durable) => {
                while let Some(next) = log.pop_durable(*durable) {
                    self.acknowledge(next, Ok(()));
                }
            }
            Err(error) if error.is_final() => {
                for acknowledgement in log.take_all() {
                    self.acknowledge(acknowledgement, Err(CqlError::server(format_args!("{error}"))));
                }
            }
            // It is tried again.
            Err(_) => {}
        }
        self.persistence.log_went_on();
    }

    pub(crate) fn log_segment_not_removed(&self, error: &SegmentNotRemoved) {
        self.context.options.events.event(&Event::LogSegmentNotRemoved {
            shard: self.context.id.0,
            error,
        });
    }

    pub(crate) fn acknowledge(
        self: &Rc<Self>,
        acknowledgement: Acknowledgement,
        result: Result<(), CqlError>,
    ) {
        match acknowledgement {
            Acknowledgement::Session { session, stream } => {
                self.context.answer_write_later(&session, stream, result)
            }
            Acknowledgement::Answer {
                session,
                stream,
                answer,
            } => self
                .context
                .answer_read(&session, stream, result.map(|()| answer)),
            Acknowledgement::Forwarded { from, ticket } => {
                self.context.answer_forwarded_write(from, ticket, result)
            }
            Acknowledgement::Task(sender) => {
                let _gone = sender.send(result);
            }
            Acknowledgement::Part(part) => self.part_persisted(part, result),
        }
    }
}
