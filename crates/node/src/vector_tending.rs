//! Background work of a shard's indexes of vectors: taking in what was in a table before them, or before the start, and
//! linking what was written.
//!
//! Each step is a tenth of a millisecond; between two of them the shard does what else there is. Where searches spend their time on what is not
//! linked, linking has as much of the shard as a slice of them.

use std::rc::Rc;
use std::time::Duration;

use helenus_engine::CqlError;
use helenus_engine::read_failure;
use helenus_storage::read_state::ReadProgress;
use helenus_storage::store::Tended;

use crate::panic_boundary::catch_async;
use crate::shard::Shard;

/// How often it is looked whether something was written: until then searches go through it one by one.
const LOOKED_EVERY: Duration = Duration::from_millis(20);

/// Steps in a row where searches have spent more on vectors that are not linked than linking has had since: as long as a slice of long reads.
const STEPS_OWED_MAX: u32 = 8;

/// As [`LOOKED_EVERY`], where there is no index.
const LOOKED_WITHOUT_INDEX_EVERY: Duration = Duration::from_millis(500);

/// Until a step that failed is tried again: disks that fail do not get well sooner.
const TRIED_AGAIN_AFTER: Duration = Duration::from_secs(1);

impl Shard {
    pub(crate) async fn tend_vectors(self: Rc<Self>) {
        let mut steps = 0;
        loop {
            if !self.store.borrow().has_vectors() {
                tokio::time::sleep(LOOKED_WITHOUT_INDEX_EVERY).await;
                continue;
            }
            match catch_async(self.step_vectors()).await {
                Ok(Ok(Tended::Owing)) if steps < STEPS_OWED_MAX => {
                    steps += 1;
                    continue;
                }
                Ok(Ok(Tended::Some | Tended::Owing)) => tokio::task::yield_now().await,
                Ok(Ok(Tended::Nothing)) => tokio::time::sleep(LOOKED_EVERY).await,
                Ok(Err(_)) | Err(_) => tokio::time::sleep(TRIED_AGAIN_AFTER).await,
            }
            steps = 0;
        }
    }

    /// Memory that indexes of vectors hold.
    pub fn vector_bytes(&self) -> usize {
        self.store.borrow().vector_bytes()
    }

    /// Vectors that searches go through one by one.
    pub fn unlinked_vectors(&self) -> u64 {
        self.store.borrow().unlinked_vectors()
    }

    /// Graphs that indexes of vectors have for filters by which it is searched often.
    pub fn vector_filter_graphs(&self) -> usize {
        self.store.borrow().vector_filter_graphs()
    }

    async fn step_vectors(&self) -> Result<Tended, CqlError> {
        let fill = self.store.borrow().begin_vector_fill();
        let Some(mut fill) = fill else {
            return Ok(self.store.borrow_mut().tend_vectors());
        };
        loop {
            let progress = self.store.borrow_mut().step_vector_fill(&mut fill);
            match progress.map_err(read_failure)? {
                ReadProgress::Done => return Ok(self.store.borrow_mut().tend_vectors_between()),
                ReadProgress::Yield => tokio::task::yield_now().await,
                ReadProgress::Absent(absent) => self.reader.bring(fill.state(), &absent).await?,
            }
        }
    }
}
