//! Binding the vector that rows are ordered by.

use helenus_protocol::Consistency;

use super::limit::limit_value;
use super::nearest::{BoundNearest, LIMIT_MAX, NEEDS_INDEX};
use super::plan::SelectPlan;
use crate::CqlError;
use crate::execute::QueryOptions;
use crate::term::EvaluationContext;

impl SelectPlan {
    /// Binds the ordering, and says what the client is to be told of what it asked for.
    pub(super) fn bind_nearest(
        &self,
        context: &EvaluationContext<'_>,
        options: &QueryOptions<'_>,
    ) -> Result<Option<(BoundNearest, Vec<String>)>, CqlError> {
        let Some(nearest) = &self.nearest else {
            return Ok(None);
        };
        let Some((index, vector_options)) = nearest.index else {
            return Err(invalid!("{NEEDS_INDEX}"));
        };
        let mut warnings = Vec::new();
        let rows_max = limit_value(self.limit.as_ref(), context)?;
        let similarity = vector_options.similarity;
        let vector = nearest.bound_vector(similarity, context)?;
        warnings.extend(check_consistency(options.consistency)?);
        if self.grouping.is_some() || self.has_aggregates() {
            return Err(invalid!("Top-K queries can not be run with aggregation"));
        }
        if self.per_partition_limit.is_some()
            && limit_value(self.per_partition_limit.as_ref(), context)? != u32::MAX
        {
            return Err(invalid!("Top-K queries do not support per-partition limits"));
        }
        if rows_max == u32::MAX {
            return Err(invalid!(
                "Top-K queries must have a limit specified and the limit must be less than the query page size"
            ));
        }
        if rows_max > LIMIT_MAX {
            return Err(invalid!(
                "Use of ANN OF in an ORDER BY clause requires a LIMIT that is not greater than {LIMIT_MAX}. LIMIT was \
                 {rows_max}"
            ));
        }
        if let Some(page_rows) = options.page_rows().filter(|page_rows| *page_rows < rows_max) {
            warnings.push(format!(
                "Top-K queries do not support paging and the page size is set to {page_rows}, which is less than LIMIT \
                 {rows_max}. The page size has been set to {rows_max} to match the LIMIT."
            ));
        }
        let bound = BoundNearest {
            index,
            similarity,
            vector,
            rows_max,
            compared: vector_options.compared(rows_max),
        };
        Ok(Some((bound, warnings)))
    }

    /// Returns whether rows of several reads are put into another order before they are returned.
    pub(super) fn is_sorted_later(&self) -> bool {
        !self.ordering.is_empty() || self.nearest.is_some()
    }
}

fn check_consistency(consistency: Consistency) -> Result<Option<String>, CqlError> {
    let lowered = match consistency {
        Consistency::One | Consistency::LocalOne | Consistency::NodeLocal | Consistency::Any => {
            return Ok(None);
        }
        Consistency::Serial | Consistency::LocalSerial => {
            return Err(invalid!(
                "Top-K queries can only be run with consistency level ONE/LOCAL_ONE. Consistency level {consistency} was \
                 used."
            ));
        }
        Consistency::LocalQuorum => Consistency::LocalOne,
        _ => Consistency::One,
    };
    Ok(Some(format!(
        "Top-K queries can only be run with consistency level ONE / LOCAL_ONE / NODE_LOCAL. Consistency level \
         {consistency} was requested. Downgrading the consistency level to {lowered}."
    )))
}
