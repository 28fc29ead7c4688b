//! Select: the tables parse and answer queries.

use millrace_tables::select::{Bounds, Found, Query, run};
use millrace_wire::ApiError;
use millrace_wire::simpledb::{BoxUsage, Select};

use super::answer::Answer;
use super::{Owner, SimpleDb, check, error};

impl SimpleDb {
    pub(super) async fn select(
        &self,
        Owner { region, account }: Owner<'_>,
        input: &Select,
    ) -> Result<Answer, ApiError> {
        check::flag("ConsistentRead", input.consistent_read.as_deref())?;
        let expression = input.select_expression.clone();
        let expression = expression.ok_or_else(|| error::missing("SelectExpression"))?;
        let (token, region, owner) =
            (input.next_token.clone(), region.to_owned(), account.to_owned());
        let page = self.tables.read(account, move |connection| {
            let (token, expression) = (token.as_deref(), &*expression);
            let query = Query { region: &region, account: &owner, expression, token };
            run(connection, &query, &Bounds::default())
        });
        let page = page.await.map_err(error::of_read)?.map_err(error::of_select)?;
        Ok(match page.found {
            Found::Items(items) => {
                let usage = BoxUsage::select(items.len());
                Answer::Items { items, next_token: page.token, usage }
            }
            Found::Count(count) => Answer::Count { count, next_token: page.token },
        })
    }
}
