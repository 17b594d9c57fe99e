//! A result, page by page.

use super::Session;
use crate::error::RequestError;
use crate::response::Answer;
use crate::statement::Prepared;
use crate::values::BoundValues;

/// Fetches the next page when it is asked for; holds one page's place, no rows.
#[derive(Debug)]
pub struct Pager<'a> {
    session: &'a Session,
    statement: &'a Prepared,
    values: BoundValues,
    place: Place,
}

#[derive(Debug)]
enum Place {
    Start,
    At(Vec<u8>),
    End,
}

impl<'a> Pager<'a> {
    pub(super) fn new(session: &'a Session, statement: &'a Prepared, values: BoundValues) -> Self {
        Pager {
            session,
            statement,
            values,
            place: Place::Start,
        }
    }

    /// The next page; `None` behind the last one. After an error the same page is fetched again.
    pub async fn next_page(&mut self) -> Result<Option<Answer>, RequestError> {
        let paging_state = match &self.place {
            Place::Start => None,
            Place::At(state) => Some(&state[..]),
            Place::End => return Ok(None),
        };
        let answer = self
            .session
            .execute_bound(self.statement, &self.values, paging_state)
            .await?;
        self.place = answer.paging_state()?.map_or(Place::End, Place::At);
        Ok(Some(answer))
    }
}
