//! Select: the tables parse and answer queries.

use millrace_wire::ApiError;
use millrace_wire::simpledb::Select;

use super::answer::Answer;
use super::{Owner, SimpleDb, check, error};

impl SimpleDb {
    pub(super) async fn select(
        &self,
        _owner: Owner<'_>,
        input: &Select,
    ) -> Result<Answer, ApiError> {
        check::flag("ConsistentRead", input.consistent_read.as_deref())?;
        let expression = input.select_expression.as_deref();
        let _expression = expression.ok_or_else(|| error::missing("SelectExpression"))?;
        Err(error::invalid_next_token())
    }
}
