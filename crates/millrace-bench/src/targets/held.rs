//! What a queue holds, by its own count, and what it must hold after a run.
//!
//! The ledger sees what came back; a message that is still there although its delete was answered,
//! or not there although its send was, only shows in the queue's counts. Millrace's are exact,
//! which other services' need not be.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::load::{Count, Endpoint, Report};

/// Messages of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) ready: u64,
    pub(crate) in_flight: u64,
    pub(crate) delayed: u64,
}

impl Held {
    pub(crate) fn ready(count: u64) -> Held {
        Held { ready: count, ..Held::default() }
    }

    /// What a queue of its own holds after a run: all that was acknowledged if nobody received,
    /// else only what was kept on purpose.
    pub(crate) fn after(report: &Report) -> Held {
        match report.headline() {
            Count::Sent => Held::ready(report.verdict.acknowledged),
            _ => Held { in_flight: report.count_in_all(Count::Kept), ..Held::default() },
        }
    }

    pub(crate) fn by(endpoint: &Endpoint, queue_url: &str) -> Result<Held> {
        let request = json!({ "QueueUrl": queue_url, "AttributeNames": ["All"] }).to_string();
        let answer = endpoint.call_sqs("GetQueueAttributes", request.as_bytes())?;
        Held::parse(&answer)
    }

    fn parse(answer: &[u8]) -> Result<Held> {
        let answer: Value = serde_json::from_slice(answer).context("a queue's attributes")?;
        let count = |rest: &str| {
            let name = format!("ApproximateNumberOfMessages{rest}");
            let text = answer["Attributes"][&name].as_str();
            text.and_then(|text| text.parse().ok()).with_context(|| format!("no {name}"))
        };
        Ok(Held { ready: count("")?, in_flight: count("NotVisible")?, delayed: count("Delayed")? })
    }

    /// What is wrong with it, if anything is.
    pub(crate) fn fault(self, wanted: Held) -> Option<String> {
        (self != wanted).then(|| format!("the queue holds {self} messages instead of {wanted}"))
    }
}

impl std::fmt::Display for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Held { ready, in_flight, delayed } = self;
        write!(f, "{ready} ready, {in_flight} in flight, {delayed} delayed")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_and_told_apart() {
        let answer = br#"{"Attributes":{"ApproximateNumberOfMessages":"3",
            "ApproximateNumberOfMessagesNotVisible":"2","ApproximateNumberOfMessagesDelayed":"1"}}"#;

        let held = Held::parse(answer).unwrap();

        assert_eq!(held, Held { ready: 3, in_flight: 2, delayed: 1 });
        assert_eq!(held.fault(held), None);
        let fault = held.fault(Held::ready(3)).unwrap();
        assert!(fault.contains("3 ready, 2 in flight, 1 delayed messages instead of 3 ready, 0"));
    }

    #[test]
    fn a_count_that_is_not_there_is_not_zero() {
        let error = Held::parse(br#"{"Attributes":{}}"#).unwrap_err();

        assert_eq!(error.to_string(), "no ApproximateNumberOfMessages");
    }
}
