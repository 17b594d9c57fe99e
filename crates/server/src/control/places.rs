//! Places of requests at the operator's door. A request takes as long as the disk needs, and some never end: those that only
//! look, or end others, have places of their own.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use helenus_tools::control::Request;

/// Requests of each kind at the same time: an operator, a script and a monitor, with room to spare.
pub const PLACES_PER_KIND: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Ends by itself, whatever the node does.
    Quick,
    Long,
}

impl Kind {
    fn of(request: &Request) -> Kind {
        // Stopping is said, and not waited for.
        let is_quick = request.only_looks() || matches!(request, Request::CompactionStop { .. });
        if is_quick { Kind::Quick } else { Kind::Long }
    }
}

/// The requests under way, oldest first.
#[derive(Clone, Default)]
pub struct Places {
    taken: Arc<Mutex<Taken>>,
}

#[derive(Default)]
struct Taken {
    last_number: u64,
    requests: Vec<UnderWay>,
}

struct UnderWay {
    number: u64,
    kind: Kind,
    name: String,
    since: Instant,
}

/// A request's place; given back however it ends.
pub struct Place {
    places: Places,
    number: u64,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the node is busy with {PLACES_PER_KIND} such requests, of which {name} has been under way for {seconds} s; try again \
     when one has ended (`helenus compaction status` shows what compactions do, `helenus compaction stop` ends them)"
)]
pub struct Busy {
    name: String,
    seconds: u64,
}

impl Places {
    pub fn take(&self, request: &Request) -> Result<Place, Busy> {
        let kind = Kind::of(request);
        let mut taken = self.taken();
        let same_kind = || taken.requests.iter().filter(|other| other.kind == kind);
        if same_kind().count() >= PLACES_PER_KIND
            && let Some(oldest) = same_kind().next()
        {
            return Err(Busy {
                name: oldest.name.clone(),
                seconds: oldest.since.elapsed().as_secs(),
            });
        }
        taken.last_number += 1;
        let number = taken.last_number;
        taken.requests.push(UnderWay {
            number,
            kind,
            name: name(request),
            since: Instant::now(),
        });
        Ok(Place {
            places: self.clone(),
            number,
        })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        taken.requests.retain(|request| request.number != self.number);
    }
}

/// As it is written on the wire.
fn name(request: &Request) -> String {
    let written = serde_json::to_value(request).unwrap_or_default();
    written["request"].as_str().unwrap_or_default().replace('_', " ")
}

#[cfg(test)]
mod tests {
    use helenus_tools::host::TableChoice;

    use super::*;

    /// 16 requests that hung, and nobody could see what the node did or stop it.
    #[test]
    fn requests_that_never_end_leave_room_for_those_that_look() {
        let places = Places::default();
        let major = Request::CompactionMajor {
            tables: TableChoice::default(),
            split_output: false,
        };
        let stop = Request::CompactionStop {
            tables: TableChoice::default(),
        };
        let hung: Vec<_> = (0..PLACES_PER_KIND)
            .map(|_| places.take(&major).ok().unwrap())
            .collect();
        let flush = Request::Flush {
            tables: TableChoice::default(),
        };
        let busy = places.take(&flush).err().unwrap().to_string();
        assert!(
            busy.contains("16 such requests, of which compaction major has been"),
            "{busy}"
        );
        assert!(places.take(&stop).is_ok());
        assert!(places.take(&Request::CompactionStatus {}).is_ok());
        drop(hung);
        assert!(places.take(&flush).is_ok());
    }
}
