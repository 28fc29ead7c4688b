//! The table of services: one row per service, with its names, actions, codec and handler. Dispatch,
//! counters, health, the labels of `/metrics` and errors about unknown actions read it; nothing else
//! lists services.
//!
//! Beside the rows it has branches: what is answered by method and path alone.

use std::sync::Arc;

use millrace_wire::protocol::{ServiceMetadata, Target, UNKNOWN, UNSERVED};
use millrace_wire::query::Parameters;
use millrace_wire::{ApiError, Judgement, Request, Response};

use crate::dispatch::serve;
use crate::service::{AwsService, Boxed, Call, unknown_action};
use crate::simpledb::SimpleDb;
use crate::sqs::Sqs;

/// A service that is served.
pub(crate) struct Row {
    pub metadata: &'static ServiceMetadata,
    pub actions: Box<[&'static str]>,
    /// Those of them that need no signature.
    pub unsigned: Box<[&'static str]>,
    pub body_bytes_max: Option<usize>,
    pub service: Server,
}

/// The service of a row.
pub(crate) enum Server {
    /// The one whose requests are hot: it answers without an allocation.
    Sqs(Arc<Sqs>),
    Any(Arc<dyn Handler>),
}

/// An action in the table.
#[derive(Clone, Copy)]
pub(crate) struct Found<'t> {
    pub row: &'t Row,
    pub name: &'static str,
    /// Its place among all actions of all services.
    pub number: usize,
    /// Its place in the row.
    pub index: usize,
}

/// Requests that are for no service of AWS.
pub(crate) trait Branch: Send + Sync {
    /// Returns true if a request is answered here, by its method and path.
    fn takes(&self, request: &Request<'_>) -> bool;

    /// Answers one, whose path is in its normal form.
    fn answer<'a>(&'a self, request: &'a Request<'a>, request_id: &'a str) -> Boxed<'a, Response>;

    /// Judges a request by its head; `None` judges it as those of AWS.
    fn judge(&self, _head: &Request<'_>) -> Option<Judgement> {
        None
    }
}

/// All services, and what branches off before them.
pub(crate) struct Table {
    /// With the number of the first action of each.
    rows: Vec<(usize, Row)>,
    recognised: Arc<[&'static ServiceMetadata]>,
    branches: Vec<Arc<dyn Branch>>,
}

/// A service whose types are erased.
pub(crate) trait Handler: Send + Sync {
    fn call<'a>(
        &'a self,
        index: usize,
        call: &'a Call<'a>,
        parameters: Parameters<'a>,
    ) -> Boxed<'a, Result<Response, ApiError>>;

    fn unknown_action(&self, target: &Target<'_>, parameters: &Parameters<'_>) -> ApiError;
}

impl Found<'_> {
    /// Returns true if the action needs no signature.
    pub(crate) fn is_unsigned_allowed(&self) -> bool {
        self.row.unsigned.contains(&self.name)
    }
}

impl Row {
    pub(crate) fn of<S: AwsService>(service: Arc<S>) -> Row {
        Row::with::<S>(Server::Any(Arc::new(service)))
    }

    pub(crate) fn of_sqs(sqs: Arc<Sqs>) -> Row {
        Row::with::<Sqs>(Server::Sqs(sqs))
    }

    fn with<S: AwsService>(service: Server) -> Row {
        Row {
            metadata: S::METADATA,
            actions: S::ACTIONS.iter().map(|action| action.name).collect(),
            unsigned: S::ACTIONS
                .iter()
                .filter(|action| action.is_unsigned_allowed)
                .map(|action| action.name)
                .collect(),
            body_bytes_max: S::BODY_BYTES_MAX,
            service,
        }
    }

    fn unknown_action(&self, target: &Target<'_>, parameters: &Parameters<'_>) -> ApiError {
        match &self.service {
            Server::Sqs(sqs) => Handler::unknown_action(sqs, target, parameters),
            Server::Any(service) => service.unknown_action(target, parameters),
        }
    }
}

impl Table {
    /// A request that shows no service is for the first row.
    pub(crate) fn new(services: Vec<Row>, branches: Vec<Arc<dyn Branch>>) -> Table {
        let recognised = recognised(&services);
        let mut next = 0;
        let numbered = |row: Row| {
            let first = next;
            next += row.actions.len();
            (first, row)
        };
        Table { rows: services.into_iter().map(numbered).collect(), recognised, branches }
    }

    /// All services that a request may be for.
    pub(crate) fn recognised(&self) -> &[&'static ServiceMetadata] {
        &self.recognised
    }

    /// The branch that takes a request, if any does.
    pub(crate) fn branch(&self, request: &Request<'_>) -> Option<&dyn Branch> {
        self.branches.iter().find(|branch| branch.takes(request)).map(|branch| &**branch)
    }

    /// The row that a request's service has; none if the service is only recognised.
    pub(crate) fn row(&self, service: &'static ServiceMetadata) -> Option<&(usize, Row)> {
        match std::ptr::eq(service, &raw const UNKNOWN) {
            true => self.rows.first(),
            false => self.rows.iter().find(|(_, row)| std::ptr::eq(row.metadata, service)),
        }
    }

    /// The action that a request asks for.
    pub(crate) fn find(&self, target: &Target<'_>) -> Option<Found<'_>> {
        let (first, row) = self.row(target.service)?;
        let action = &*target.action;
        // One after the other: most differ in their length already.
        let index = row.actions.iter().position(|name| *name == action)?;
        let name = row.actions.get(index)?;
        Some(Found { row, name, number: first + index, index })
    }

    /// The error for a request whose action is not in the table.
    pub(crate) fn unknown_action(
        &self,
        target: &Target<'_>,
        parameters: &Parameters<'_>,
    ) -> ApiError {
        match self.row(target.service) {
            Some((_, row)) => row.unknown_action(target, parameters),
            None => unknown_action(target),
        }
    }
}

/// All services that are recognised in requests: those of the rows, and some that nothing serves.
pub(crate) fn recognised(rows: &[Row]) -> Arc<[&'static ServiceMetadata]> {
    let is_served =
        |other: &ServiceMetadata| rows.iter().any(|row| row.metadata.name == other.name);
    let unserved = UNSERVED.into_iter().chain([SimpleDb::METADATA]).filter(|it| !is_served(it));
    rows.iter().map(|row| row.metadata).chain(unserved).collect()
}

impl<S: AwsService> Handler for Arc<S> {
    fn call<'a>(
        &'a self,
        index: usize,
        call: &'a Call<'a>,
        parameters: Parameters<'a>,
    ) -> Boxed<'a, Result<Response, ApiError>> {
        Box::pin(serve(&**self, index, call, parameters))
    }

    fn unknown_action(&self, target: &Target<'_>, parameters: &Parameters<'_>) -> ApiError {
        S::unknown_action(target, parameters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sts::Sts;

    fn services() -> Vec<&'static ServiceMetadata> {
        let served = [
            <crate::sqs::Sqs as AwsService>::METADATA,
            <crate::cloudwatch::CloudWatch as AwsService>::METADATA,
            Sts::METADATA,
            <crate::sns::Sns as AwsService>::METADATA,
            SimpleDb::METADATA,
        ];
        served.into_iter().chain(UNSERVED).collect()
    }

    /// A service without a scope of its own could be asked with a signature for any.
    #[test]
    fn a_clue_points_to_one_service() {
        let services = services();
        let mut shown: Vec<&str> = Vec::new();
        for service in &services {
            assert!(!service.scope.is_empty() && !service.title.is_empty(), "{service:?}");
            shown.extend(service.versions);
            shown.extend(service.clue_parameters);
            shown.extend(service.target_prefix);
            if let Some(version) = service.versions.first() {
                assert!(service.xml_namespace.contains(version), "{service:?}");
            }
        }
        for names in [
            services.iter().map(|service| service.name).collect(),
            services.iter().map(|service| service.scope).collect(),
            shown,
        ] {
            let mut sorted = names.clone();
            sorted.sort_unstable();
            sorted.dedup();
            assert_eq!(sorted.len(), names.len(), "{names:?}");
        }
    }

    #[test]
    fn every_action_is_documented() {
        for (page, row) in [
            (include_str!("../../../docs/compatibility/sqs.md"), actions::<crate::sqs::Sqs>()),
            (
                include_str!("../../../docs/compatibility/cloudwatch.md"),
                actions::<crate::cloudwatch::CloudWatch>(),
            ),
            (include_str!("../../../docs/compatibility/sts.md"), actions::<Sts>()),
            (include_str!("../../../docs/compatibility/sns.md"), actions::<crate::sns::Sns>()),
            (include_str!("../../../docs/compatibility/simpledb.md"), actions::<SimpleDb>()),
        ] {
            let is_letter = |c: char| c.is_ascii_alphanumeric();
            let words: Vec<&str> = page.split(|c| !is_letter(c)).collect();
            for action in row {
                assert!(words.contains(&action), "{action}");
            }
        }
    }

    fn actions<S: AwsService>() -> Vec<&'static str> {
        S::ACTIONS.iter().map(|action| action.name).collect()
    }

    #[test]
    fn actions_are_numbered_through_and_what_shows_no_service_is_for_the_first() {
        let table = Table::new(vec![Row::of(Arc::new(Sts)), Row::of(Arc::new(Sts))], Vec::new());
        let numbers: Vec<usize> = table.rows.iter().map(|(first, _)| *first).collect();
        assert_eq!(numbers, [0, 1]);
        assert!(table.row(&UNKNOWN).is_some_and(|(_, row)| row.metadata.name == "sts"));
        assert!(table.row(UNSERVED[0]).is_none());
    }
}
