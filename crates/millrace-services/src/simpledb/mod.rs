//! Amazon SimpleDB: domains of items, which have attributes with any number of values.
//!
//! [`check`] turns requests into changes and finds what is wrong with them by itself, [`error`]
//! assigns all codes, [`answer`] writes answers. What depends on what is stored is decided in the
//! tables below: they make each change as a whole, and check its condition with it.

mod answer;
mod changes;
mod check;
mod error;
mod exports;
mod figures;
mod lookups;
mod select;

use std::convert::Infallible;
use std::sync::Arc;

use millrace_broker::Shards;
use millrace_tables::Tables;
use millrace_wire::protocol::{Protocol, ServiceMetadata, Target};
use millrace_wire::query::Parameters;
use millrace_wire::simpledb::{self, Action as Input};
use millrace_wire::{ApiError, Response};

use crate::principal::Caller;
use crate::service::{Action, AwsService, Call, unknown_action};
use answer::Answer;
pub(crate) use changes::reset;
pub(crate) use exports::Exports;
pub(crate) use figures::TableFigures;
pub(crate) use lookups::scopes;

/// SimpleDB: 1 MB of a request.
pub(crate) const BODY_BYTES_MAX: usize = 1 << 20;

/// The service.
pub(crate) struct SimpleDb {
    tables: Arc<Tables>,
    /// For the time.
    shards: Arc<Shards>,
}

/// Whose domains a request is about.
#[derive(Clone, Copy)]
struct Owner<'a> {
    region: &'a str,
    account: &'a str,
}

/// The actions that are answered. Domains of other accounts cannot be named.
static ACTIONS: [Action<SimpleDb>; 10] = [
    Action::new("BatchDeleteAttributes", ()),
    Action::new("BatchPutAttributes", ()),
    Action::new("CreateDomain", ()),
    Action::new("DeleteAttributes", ()),
    Action::new("DeleteDomain", ()),
    Action::new("DomainMetadata", ()),
    Action::new("GetAttributes", ()),
    Action::new("ListDomains", ()),
    Action::new("PutAttributes", ()),
    Action::new("Select", ()),
];

impl SimpleDb {
    pub(crate) fn new(tables: Arc<Tables>, shards: Arc<Shards>) -> SimpleDb {
        SimpleDb { tables, shards }
    }
}

impl AwsService for SimpleDb {
    const METADATA: &'static ServiceMetadata = &simpledb::SERVICE;
    const ACTIONS: &'static [Action<SimpleDb>] = &ACTIONS;
    const BODY_BYTES_MAX: Option<usize> = Some(BODY_BYTES_MAX);

    type Input<'a> = Input;
    type Answer = Answer;
    type Names = ();
    type Resource = Infallible;

    fn decode<'a>(
        &self,
        call: &Call<'a>,
        parameters: &'a mut Parameters<'_>,
    ) -> Result<Input, ApiError> {
        check::version(parameters.get("Version"))?;
        let input = simpledb::decode(&call.target.action, parameters)?;
        // They may take ten times what they are written in, and the answer waits for a thread.
        *parameters = Parameters::default();
        Ok(input)
    }

    fn find(&self, (): (), _: &Call<'_>, _: &Input) -> Result<Option<Infallible>, ApiError> {
        Ok(None)
    }

    async fn act<'a>(
        &self,
        call: &Call<'a>,
        input: &Input,
        _: Option<Infallible>,
    ) -> Result<Answer, ApiError> {
        let Caller { principal, region, .. } = call.caller;
        let owner = Owner { region, account: &principal.account };
        match input {
            Input::BatchDeleteAttributes(input) => self.batch_delete(owner, input).await,
            Input::BatchPutAttributes(input) => self.batch_put(owner, input).await,
            Input::CreateDomain(input) => self.create_domain(owner, input).await,
            Input::DeleteAttributes(input) => self.delete(owner, input).await,
            Input::DeleteDomain(input) => self.delete_domain(owner, input).await,
            Input::DomainMetadata(input) => self.domain_metadata(owner, input).await,
            Input::GetAttributes(input) => self.get(owner, input).await,
            Input::ListDomains(input) => self.list_domains(owner, input).await,
            Input::PutAttributes(input) => self.put(owner, input).await,
            Input::Select(input) => self.select(owner, input).await,
        }
    }

    fn encode(&self, call: &Call<'_>, answer: Answer) -> Response {
        answer.response(&call.target.action, call.request_id)
    }

    fn unknown_action(target: &Target<'_>, _: &Parameters<'_>) -> ApiError {
        match target.protocol {
            Protocol::Json | Protocol::Cbor => unknown_action(target),
            Protocol::Query | Protocol::QueryAsJson => error::unknown_action(&target.action),
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_table_has_all_actions() {
        let names = millrace_wire::simpledb::Action::NAMES;
        assert!(super::ACTIONS.iter().map(|it| it.name).eq(names));
    }
}
