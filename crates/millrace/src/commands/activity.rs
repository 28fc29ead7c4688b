//! The contents of queues and how fast they change: in one call where the server is a Millrace,
//! else from the attributes of each queue, which say nothing of rates.

use anyhow::Result;
use millrace_client::{CallError, CallErrorKind};
use serde::Deserialize;
use serde_json::json;

use super::connection::name_of;
use super::queue::{AVAILABLE, DELAYED, IN_FLIGHT, number, redrive_target, with_attributes};
use super::{Sqs, output};

/// A queue at one moment.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Activity {
    pub(super) name: String,
    pub(super) available: u64,
    pub(super) in_flight: u64,
    pub(super) delayed: u64,
    /// Since the server started; none if the server does not say.
    pub(super) sent: Option<u64>,
    pub(super) received: Option<u64>,
    /// Averages of the last one or two minutes.
    pub(super) sent_per_second: Option<f64>,
    pub(super) received_per_second: Option<f64>,
    pub(super) oldest_age_s: Option<u64>,
    pub(super) dead_letter_queue: Option<String>,
}

#[derive(Deserialize)]
struct Page {
    queues: Vec<Activity>,
    next: Option<String>,
}

impl Activity {
    /// Messages in every state.
    pub(super) fn held(&self) -> u64 {
        self.available + self.in_flight + self.delayed
    }

    /// The counts as cells of a table.
    pub(super) fn counts(&self) -> [String; 3] {
        [self.available, self.in_flight, self.delayed].map(output::thousands)
    }

    /// The age of the oldest message as a cell.
    pub(super) fn oldest(&self) -> String {
        self.oldest_age_s.map_or("-".to_owned(), output::seconds)
    }
}

/// All queues whose names begin so, by name.
pub(super) async fn activity(sqs: &Sqs, prefix: &str) -> Result<Vec<Activity>> {
    if !sqs.is_amazon() {
        match pages(sqs, prefix).await {
            Ok(queues) => return Ok(queues),
            Err(error) if is_missing(&error) => {}
            Err(error) => return Err(sqs.advised_own(error).await.into()),
        }
    }
    let mut queues = with_attributes(sqs, prefix).await?;
    queues.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(queues
        .iter()
        .map(|(url, attributes)| Activity {
            name: name_of(url).to_owned(),
            available: number(attributes, AVAILABLE),
            in_flight: number(attributes, IN_FLIGHT),
            delayed: number(attributes, DELAYED),
            dead_letter_queue: redrive_target(attributes),
            ..Activity::default()
        })
        .collect())
}

async fn pages(sqs: &Sqs, prefix: &str) -> Result<Vec<Activity>, CallError> {
    let mut queues = Vec::new();
    let mut asked = json!({ "prefix": prefix });
    loop {
        let answer = sqs.call_own_quietly("/_millrace/queues", &asked).await?;
        let page: Page = serde_json::from_value(answer).map_err(|error| {
            CallError::new(CallErrorKind::Malformed, "malformed", error.to_string())
        })?;
        queues.extend(page.queues);
        match page.next {
            // A server whose pages do not advance would never come to an end.
            Some(last) if asked["after"].as_str().is_some_and(|after| *last <= *after) => {
                let text = "the pages do not advance".to_owned();
                return Err(CallError::new(CallErrorKind::Malformed, "malformed", text));
            }
            Some(last) => asked["after"] = last.into(),
            None => return Ok(queues),
        }
    }
}

/// Returns whether the server has no such path: it is not a Millrace, or an older one.
fn is_missing(error: &CallError) -> bool {
    matches!(error.kind, CallErrorKind::Malformed | CallErrorKind::Refused)
}

/// Messages a second as a cell: with a decimal while there are few.
pub(super) fn rate(rate: Option<f64>) -> String {
    match rate {
        None => "-".to_owned(),
        Some(rate) if rate > 0.0 && rate < 10.0 => format!("{rate:.1}"),
        Some(rate) => output::thousands(rate.round() as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_rates_have_a_decimal() {
        let shown = [None, Some(0.0), Some(0.25), Some(9.96), Some(12_345.6)].map(rate);
        assert_eq!(shown, ["-", "0", "0.2", "10.0", "12,346"]);
    }
}
