//! `POST /_millrace/metrics/delete`: forgets series, which CloudWatch itself has no call for.
//!
//! The body is JSON: `account` (the caller's, and once credentials are configured no other),
//! `region`, `namespace`, `metric` and `dimensions` say which series; what is left out excludes
//! none. A body that says none of the last three must say `"all": true`. `"dry_run": true` only
//! counts. The answer is `{"series": 12}`, once that is durable.

use std::collections::BTreeMap;

use millrace_metrics::{MetricStore, RemoveFilter, StoreError};
use millrace_wire::{ApiError, Response};
use serde::Deserialize;
use serde_json::json;

use crate::cloudwatch::{Monitor, of_store};
use crate::principal::Caller;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Removal {
    account: Option<String>,
    region: Option<String>,
    namespace: Option<String>,
    metric: Option<String>,
    dimensions: BTreeMap<String, String>,
    all: bool,
    dry_run: bool,
}

pub(super) async fn remove_metrics(
    monitor: &Monitor,
    caller: &Caller<'_>,
    body: &[u8],
) -> Result<Response, ApiError> {
    let removal: Removal =
        serde_json::from_slice(body).map_err(|error| ApiError::serialization(error.to_string()))?;
    let account = removal.account.clone().unwrap_or_else(|| caller.principal.account.to_string());
    if caller.principal.is_foreign_to(&account) {
        return Err(ApiError::access_denied(format!(
            "The access key is of account {}, and deletes metrics of that account only: leave \
             \"account\" out, or sign with a key of account {account}.",
            caller.principal.account
        )));
    }
    let is_narrow =
        removal.namespace.is_some() || removal.metric.is_some() || !removal.dimensions.is_empty();
    if is_narrow == removal.all {
        return Err(ApiError::invalid_parameter_value(
            "Say which metrics: give \"namespace\", \"metric\" or \"dimensions\", or else \"all\": true.",
        ));
    }
    let store = monitor.store().clone();
    let (of, is_dry) = (account.clone(), removal.dry_run);
    let counted = if is_dry {
        let count = move |_: &_| removal.on(&of, |filter| Ok(store.count(filter)));
        monitor.run(&account, count).await?.map_err(|error: StoreError| of_store(&error))?
    } else {
        let remove = move || removal.remove(&of, &store).map_err(|error| of_store(&error));
        monitor.run_durably::<usize, ApiError>(&account, remove).await?
    };
    Ok(super::json(json!({ "series": counted }).to_string()))
}

impl Removal {
    fn remove(&self, account: &str, store: &MetricStore) -> Result<usize, StoreError> {
        let removed = self.on(account, |filter| store.remove(filter))?;
        tracing::info!(
            account,
            namespace = self.namespace,
            metric = self.metric,
            removed,
            "series of metrics removed"
        );
        Ok(removed)
    }

    fn on<T>(
        &self,
        account: &str,
        act: impl FnOnce(&RemoveFilter<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let dimensions: Vec<(String, String)> = self.dimensions.clone().into_iter().collect();
        act(&RemoveFilter {
            account: Some(account),
            region: self.region.as_deref(),
            namespace: self.namespace.as_deref(),
            metric: self.metric.as_deref(),
            dimensions: &dimensions,
        })
    }
}
