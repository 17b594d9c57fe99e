//! A result, page by page.

use helenus_values::BoundValues;

use super::Handle;
use super::answer::Answer;
use super::error::RequestError;
use super::options::RequestOptions;
use super::statement::Prepared;

/// The pages of one execution of a statement; see [`Handle::pages`].
pub struct Pages {
    handle: Handle,
    statement: Prepared,
    values: BoundValues,
    options: RequestOptions,
    is_over: bool,
}

impl Pages {
    pub(super) fn new(
        handle: Handle,
        statement: Prepared,
        values: BoundValues,
        options: RequestOptions,
    ) -> Self {
        Pages {
            handle,
            statement,
            values,
            options,
            is_over: false,
        }
    }

    /// The next page; `None` behind the last one. After an error the same page is fetched again.
    pub async fn next(&mut self) -> Result<Option<Answer>, RequestError> {
        if self.is_over {
            return Ok(None);
        }
        let answer = self
            .handle
            .execute_with(&self.statement, &self.values, &self.options)
            .await?;
        let place = answer.rows().and_then(|rows| rows.paging_state());
        self.is_over = place.is_none();
        self.options.paging_state = place.map(<[u8]>::to_vec);
        Ok(Some(answer))
    }
}
