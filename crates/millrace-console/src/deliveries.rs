//! What became of the messages of subscriptions that a page shows.

use millrace_services::Services;
use millrace_wire::ApiError;
use serde::Deserialize;
use serde_json::{Value, json};

/// Subscriptions of one request: a page of SNS's lists.
const MAX_SUBSCRIPTIONS: usize = 100;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    /// ARNs.
    subscriptions: Vec<String>,
}

/// For each subscription `{"delivered", "failed"}` since the start; null if there is none, or the
/// topic is of an account that `is_visible` refuses.
pub(crate) fn counts(
    services: &Services,
    body: &[u8],
    is_visible: impl Fn(&str) -> bool,
) -> Result<Value, ApiError> {
    let asked: Asked = serde_json::from_slice(body)
        .map_err(|_| ApiError::invalid_parameter_value("Subscriptions by ARN."))?;
    if asked.subscriptions.len() > MAX_SUBSCRIPTIONS {
        let text = format!("At most {MAX_SUBSCRIPTIONS} subscriptions at a time.");
        return Err(ApiError::invalid_parameter_value(text));
    }
    let counts = asked.subscriptions.iter().map(|arn| {
        let account = arn.split(':').nth(4).unwrap_or_default();
        let counts = services.deliveries(arn).filter(|_| is_visible(account));
        counts.map(|it| json!({ "delivered": it.delivered, "failed": it.failed }))
    });
    Ok(json!({ "counts": counts.collect::<Vec<_>>() }))
}
