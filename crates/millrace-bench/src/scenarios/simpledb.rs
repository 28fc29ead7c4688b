//! Just enough SimpleDB to write rows and find them: form requests, Signature Version 2, one
//! connection.

use std::{sync::Arc, time::Instant};

use anyhow::{Result, bail};
use base64::{Engine, engine::general_purpose::STANDARD};
use millrace_wire::date::format_iso8601;
use ring::hmac::{self, HMAC_SHA256};

use crate::{
    access::Keys,
    latency::{Latencies, Verb},
    live::Live,
    load::{Connection, Endpoint, Sqs, percent, refusal},
    process,
};

/// A row: the item's name, and its attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) name: String,
    pub(super) attributes: Vec<(String, String)>,
}

/// One connection, one request at a time.
pub(super) struct SimpleDb {
    /// Host, path and keys are those that SQS would have here.
    site: Sqs,
    connection: Connection,
    pub(super) requests: u64,
    /// Latencies: a write counts as a send, a query as a receive.
    pub(super) latencies: Latencies,
    live: Option<Arc<Live>>,
}

type Parameters = Vec<(String, String)>;

impl SimpleDb {
    pub(super) fn new(endpoint: &Endpoint, live: Option<Arc<Live>>) -> Result<SimpleDb> {
        Ok(SimpleDb {
            site: endpoint.dialect.sqs()?.clone(),
            connection: Connection::new(endpoint),
            requests: 0,
            latencies: Latencies::new(),
            live,
        })
    }

    /// Opens the connection, so that no request that is timed has to.
    pub(super) async fn connect(&mut self) -> Result<()> {
        self.connection.connect().await
    }

    pub(super) async fn create_domain(&mut self, domain: &str) -> Result<()> {
        let parameters = vec![("DomainName".to_owned(), domain.to_owned())];
        self.call("CreateDomain", parameters).await.map(drop)
    }

    pub(super) async fn delete_domain(&mut self, domain: &str) -> Result<()> {
        let parameters = vec![("DomainName".to_owned(), domain.to_owned())];
        self.call("DeleteDomain", parameters).await.map(drop)
    }

    pub(super) async fn put(&mut self, domain: &str, item: &Item) -> Result<()> {
        let mut parameters = vec![
            ("DomainName".to_owned(), domain.to_owned()),
            ("ItemName".to_owned(), item.name.clone()),
        ];
        attributes("", item, &mut parameters);
        self.call("PutAttributes", parameters).await.map(drop)
    }

    /// At most 25 items.
    pub(super) async fn put_batch(&mut self, domain: &str, items: &[Item]) -> Result<()> {
        let mut parameters = vec![("DomainName".to_owned(), domain.to_owned())];
        for (item, number) in items.iter().zip(1..) {
            parameters.push((format!("Item.{number}.ItemName"), item.name.clone()));
            attributes(&format!("Item.{number}."), item, &mut parameters);
        }
        self.call("BatchPutAttributes", parameters).await.map(drop)
    }

    /// The number of items that the first page of an answer has.
    pub(super) async fn select(&mut self, expression: &str) -> Result<usize> {
        let parameters = vec![("SelectExpression".to_owned(), expression.to_owned())];
        let answer = self.call("Select", parameters).await?;
        Ok(memchr::memmem::find_iter(&answer, b"<Item>").count())
    }

    /// The syncs of the server's journal since its start; none if this server does not say.
    pub(super) async fn journal_syncs(&mut self) -> Option<u64> {
        let request = format!("GET /metrics HTTP/1.1\r\nHost: {}\r\n\r\n", self.site.host);
        let (status, body) = self.connection.exchange(request.as_bytes()).await.ok()?;
        let text = std::str::from_utf8(body).ok().filter(|_| status == 200)?;
        syncs(text)
    }

    async fn call(&mut self, action: &str, mut parameters: Parameters) -> Result<Vec<u8>> {
        let site = &self.site;
        parameters.push(("Action".to_owned(), action.to_owned()));
        parameters.push(("Version".to_owned(), "2009-04-15".to_owned()));
        if let Some(keys) = &site.keys {
            sign(keys, &site.host, &site.path, process::now_s(), &mut parameters);
        }
        let body = form(&parameters);
        let request = format!(
            "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/x-www-form-urlencoded\r\n\
             Content-Length: {}\r\n\r\n{body}",
            site.path,
            site.host,
            body.len()
        );
        self.requests += 1;
        let start = Instant::now();
        let (status, answer) = self.connection.exchange(request.as_bytes()).await?;
        let taken = start.elapsed();
        if status != 200 {
            bail!("{action}: {}", refusal(status, answer));
        }
        let answer = answer.to_vec();
        let verb = match action {
            "PutAttributes" | "BatchPutAttributes" => Some(Verb::Send),
            "Select" => Some(Verb::Receive),
            _ => None,
        };
        let events = self.connection.take_events();
        if let Some(verb) = verb {
            self.latencies.record(verb, taken);
            self.live.iter().for_each(|live| live.answered(verb, taken, events));
        }
        Ok(answer)
    }
}

/// The sum over all journals.
fn syncs(exposition: &str) -> Option<u64> {
    let counts = exposition.lines().filter_map(|line| {
        let rest = line.strip_prefix("millrace_journal_sync_duration_seconds_count")?;
        rest.rsplit(' ').next()?.parse::<u64>().ok()
    });
    counts.reduce(u64::saturating_add)
}

fn attributes(front: &str, item: &Item, parameters: &mut Parameters) {
    for ((name, value), number) in item.attributes.iter().zip(1..) {
        parameters.push((format!("{front}Attribute.{number}.Name"), name.clone()));
        parameters.push((format!("{front}Attribute.{number}.Value"), value.clone()));
    }
}

/// Signature Version 2: every parameter, sorted by name, below method, host and path.
fn sign(keys: &Keys, host: &str, path: &str, now_s: u64, parameters: &mut Parameters) {
    let mut add = |name: &str, value: String| parameters.push((name.to_owned(), value));
    add("AWSAccessKeyId", keys.access_key.clone());
    add("SignatureVersion", "2".to_owned());
    add("SignatureMethod", "HmacSHA256".to_owned());
    add("Timestamp", format_iso8601(now_s));
    if let Some(token) = &keys.session_token {
        add("SecurityToken", token.clone());
    }
    parameters.sort();
    let host = host.to_lowercase();
    let text = format!("POST\n{host}\n{path}\n{}", form(parameters));
    let key = hmac::Key::new(HMAC_SHA256, keys.secret_key.as_bytes());
    let signature = hmac::sign(&key, text.as_bytes());
    parameters.push(("Signature".to_owned(), STANDARD.encode(signature)));
}

fn form(parameters: &Parameters) -> String {
    let pairs: Vec<String> = parameters
        .iter()
        .map(|(name, value)| format!("{}={}", percent(name.as_bytes()), percent(value.as_bytes())))
        .collect();
    pairs.join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_numbered_from_one() {
        let item = Item {
            name: "2009-07-09_JAVA".to_owned(),
            attributes: vec![("Close".to_owned(), "9.20".to_owned())],
        };
        let mut parameters = Vec::new();

        attributes("Item.1.", &item, &mut parameters);

        assert_eq!(
            form(&parameters),
            "Item.1.Attribute.1.Name=Close&Item.1.Attribute.1.Value=9.20"
        );
    }

    #[test]
    fn syncs_of_all_journals_are_added_up() {
        let count = "millrace_journal_sync_duration_seconds_count";
        let text = format!("# HELP x\n{count} 7\n{count}{{shard=\"1\"}} 5\nother_count 9\n");

        assert_eq!((syncs(&text), syncs("other_count 9\n")), (Some(12), None));
    }

    /// The signature was computed by Python's hmac and hashlib.
    #[test]
    fn requests_are_signed_by_version_2() {
        let mut parameters = vec![
            ("Action".to_owned(), "ListDomains".to_owned()),
            ("B".to_owned(), "a b*~".to_owned()),
        ];

        sign(&Keys::new("key", "secret"), "H:8080", "/", 0, &mut parameters);

        // POST\nh:8080\n/\nAWSAccessKeyId=key&Action=ListDomains&B=a%20b%2A~&SignatureMethod=
        // HmacSHA256&SignatureVersion=2&Timestamp=1970-01-01T00%3A00%3A00Z
        let (name, value) = parameters.last().unwrap();
        assert_eq!(
            (name.as_str(), value.as_str()),
            ("Signature", "WZZYryythOtXt2HAQ28eAZ3+FbIZdM5RmwY0VsAcZjE=")
        );
    }
}
