//! Just enough SNS to publish to a topic, and SQS to send the same without it: one connection, one
//! request at a time.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use millrace_wire::sigv4::{SignRequest, Signer};

use crate::{
    access::Keys,
    load::{Connection, Endpoint, Sqs, percent, put, refusal},
    process,
};

pub(super) struct Publisher {
    /// Host, path, protocol and keys are those that SQS has here.
    site: Sqs,
    connection: Connection,
    request: Vec<u8>,
}

impl Publisher {
    pub(super) fn new(endpoint: &Endpoint) -> Result<Publisher> {
        Ok(Publisher {
            site: endpoint.dialect.sqs()?.clone(),
            connection: Connection::new(endpoint),
            request: Vec::new(),
        })
    }

    /// Opens the connection, so that no request that is timed has to.
    pub(super) async fn connect(&mut self) -> Result<()> {
        self.connection.connect().await
    }

    /// Creates a topic and returns its ARN.
    pub(super) async fn create_topic(&mut self, name: &str) -> Result<String> {
        let (_, answer) = self.sns("CreateTopic", &[("Name", name)]).await?;
        arn_in(&answer).context("CreateTopic answered no ARN")
    }

    pub(super) async fn delete_topic(&mut self, topic: &str) -> Result<()> {
        self.sns("DeleteTopic", &[("TopicArn", topic)]).await.map(drop)
    }

    /// Subscribes a queue; `is_raw` delivers the bare message, not the document around it.
    pub(super) async fn subscribe(&mut self, topic: &str, queue: &str, is_raw: bool) -> Result<()> {
        let parameters = [
            ("TopicArn", topic),
            ("Protocol", "sqs"),
            ("Endpoint", queue),
            ("Attributes.entry.1.key", "RawMessageDelivery"),
            ("Attributes.entry.1.value", if is_raw { "true" } else { "false" }),
        ];
        self.sns("Subscribe", &parameters).await.map(drop)
    }

    /// Publishes messages in one request, and returns how long it took. One alone goes by Publish,
    /// 2 to 10 by PublishBatch.
    pub(super) async fn publish(&mut self, topic: &str, messages: &[String]) -> Result<Duration> {
        if let [message] = messages {
            let parameters = [("TopicArn", topic), ("Message", message)];
            return Ok(self.sns("Publish", &parameters).await?.0);
        }
        let mut names = Vec::new();
        for number in 1..=messages.len() {
            let front = format!("PublishBatchRequestEntries.member.{number}");
            names.push((format!("{front}.Id"), number.to_string(), format!("{front}.Message")));
        }
        let mut parameters = vec![("TopicArn", topic)];
        for ((id_name, id, name), message) in names.iter().zip(messages) {
            parameters.extend([(id_name.as_str(), id.as_str()), (name, message)]);
        }
        let (taken, answer) = self.sns("PublishBatch", &parameters).await?;
        if memchr::memmem::find_iter(&answer, b"<MessageId>").count() != messages.len() {
            bail!("PublishBatch: {}", refusal(200, &answer));
        }
        Ok(taken)
    }

    /// Sends messages to a queue in one request, and returns how long it took. One alone goes by
    /// SendMessage, 2 to 10 by SendMessageBatch.
    pub(super) async fn send(&mut self, queue_url: &str, messages: &[String]) -> Result<Duration> {
        let batch = messages.len() as u64;
        let action = if batch == 1 { "SendMessage" } else { "SendMessageBatch" };
        let mut body = self.site.open(action, queue_url);
        for (index, message) in messages.iter().enumerate() {
            self.site.open_entry(action, batch, index, &mut body);
            self.site.member(batch, index, "MessageBody", message.as_bytes(), &mut body);
            self.site.close_entry(batch, &mut body);
        }
        self.site.close(batch, &mut body);
        let mut request = std::mem::take(&mut self.request);
        self.site.write(action, &body, &mut request);
        let outcome = self.exchange(action, &request).await;
        self.request = request;
        let (taken, answer) = outcome?;
        if batch > 1 && !self.site.failed(&answer, messages.len()).is_empty() {
            bail!("{action}: {}", refusal(200, &answer));
        }
        Ok(taken)
    }

    async fn sns(
        &mut self,
        action: &str,
        parameters: &[(&str, &str)],
    ) -> Result<(Duration, Vec<u8>)> {
        let mut body = format!("Action={action}&Version=2010-03-31");
        for (name, value) in parameters {
            body += &format!("&{name}={}", percent(value.as_bytes()));
        }
        let mut request = std::mem::take(&mut self.request);
        write(&self.site, body.as_bytes(), &mut request);
        let outcome = self.exchange(action, &request).await;
        self.request = request;
        outcome
    }

    async fn exchange(&mut self, action: &str, request: &[u8]) -> Result<(Duration, Vec<u8>)> {
        let start = Instant::now();
        let (status, answer) = self.connection.exchange(request).await?;
        let taken = start.elapsed();
        if status != 200 {
            bail!("{action}: {}", refusal(status, answer));
        }
        Ok((taken, answer.to_vec()))
    }
}

/// The ARN that an answer has, if there is one.
pub(super) fn arn_in(answer: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(answer);
    let rest = text.get(text.find("arn:")?..)?;
    Some(rest.split(['<', '"']).next()?.to_owned())
}

/// The whole request of an action of SNS: head and body, signed if there are keys.
fn write(site: &Sqs, body: &[u8], out: &mut Vec<u8>) {
    const FORM: &str = "application/x-www-form-urlencoded";
    out.clear();
    put(out, &["POST ", &site.path, " HTTP/1.1\r\nHost: ", &site.host, "\r\nContent-Type: ", FORM]);
    for (name, value) in site.keys.iter().flat_map(|keys| signature(site, keys, FORM, body)) {
        put(out, &["\r\n", name, ": ", &value]);
    }
    put(out, &["\r\nContent-Length: ", &body.len().to_string(), "\r\n\r\n"]);
    out.extend_from_slice(body);
}

fn signature(
    site: &Sqs,
    keys: &Keys,
    content_type: &str,
    body: &[u8],
) -> Vec<(&'static str, String)> {
    let signer = Signer {
        access_key: &keys.access_key,
        secret: &keys.secret_key,
        session_token: keys.session_token.as_deref(),
        region: &keys.region,
        service: "sns",
    };
    let headers = [("host", site.host.as_str()), ("content-type", content_type)];
    let (path, query) = site.path.split_once('?').unwrap_or((&site.path, ""));
    let request = SignRequest { method: "POST", path, query, headers: &headers, body };
    signer.sign(&request, process::now_s()).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Protocol;

    #[test]
    fn an_arn_is_found_in_both_protocols() {
        let xml = b"<TopicArn>arn:aws:sns:us-east-1:1:t</TopicArn>";
        let json = br#"{"Attributes":{"QueueArn":"arn:aws:sqs:us-east-1:1:q"}}"#;

        assert_eq!(arn_in(xml).as_deref(), Some("arn:aws:sns:us-east-1:1:t"));
        assert_eq!(arn_in(json).as_deref(), Some("arn:aws:sqs:us-east-1:1:q"));
        assert_eq!(arn_in(b"{}"), None);
    }

    #[test]
    fn requests_are_signed_for_sns_if_there_are_keys() {
        let mut site = Sqs {
            protocol: Protocol::Json,
            host: "h".to_owned(),
            path: "/".to_owned(),
            keys: None,
        };
        let mut out = Vec::new();
        write(&site, b"a=b", &mut out);
        assert!(out.ends_with(b"urlencoded\r\nContent-Length: 3\r\n\r\na=b"));

        site.keys = Some(Keys::new("k", "s"));
        write(&site, b"a=b", &mut out);
        assert!(String::from_utf8(out).unwrap().contains("/sns/aws4_request"));
    }
}
