//! SQS, in both its protocols.
//!
//! Sends are patched templates, see `template`. Deletes differ in length, so their body is put
//! together from raw receipt handles. Signing, when asked for, adds headers.

use std::io::Write;

use anyhow::{Context, Result};
use millrace_wire::sigv4::{SignRequest, Signer};

use super::{NewQueue, Places, put};
use crate::{
    access::{Keys, Protocol},
    load::response::{failed_entries, find_values},
    process,
};

#[derive(Clone, Debug)]
pub(crate) struct Sqs {
    pub(crate) protocol: Protocol,
    pub(crate) host: String,
    pub(crate) path: String,
    pub(crate) keys: Option<Keys>,
}

impl Sqs {
    /// The whole request: head and body.
    pub(crate) fn write(&self, action: &str, body: &[u8], out: &mut Vec<u8>) {
        let content_type = match self.protocol {
            Protocol::Json => "application/x-amz-json-1.0",
            Protocol::Query => "application/x-www-form-urlencoded",
        };
        out.clear();
        put(out, &["POST ", &self.path, " HTTP/1.1\r\nHost: ", &self.host]);
        put(out, &["\r\nContent-Type: ", content_type]);
        if self.protocol == Protocol::Json {
            put(out, &["\r\nX-Amz-Target: AmazonSQS.", action]);
        }
        if let Some(keys) = &self.keys {
            self.sign(keys, action, content_type, body, out);
        }
        // Writing to a vector cannot fail.
        let _ = write!(out, "\r\nContent-Length: {}\r\n\r\n", body.len());
        out.extend_from_slice(body);
    }

    /// The beginning of a body: which action, and on which queue.
    pub(crate) fn open(&self, action: &str, queue_url: &str) -> Vec<u8> {
        let mut body = Vec::new();
        self.open_in(action, queue_url, &mut body);
        body
    }

    fn open_in(&self, action: &str, queue_url: &str, body: &mut Vec<u8>) {
        match self.protocol {
            Protocol::Json => put(body, &["{\"QueueUrl\":\"", queue_url, "\""]),
            Protocol::Query => {
                let url = percent(queue_url.as_bytes());
                put(body, &["Action=", action, "&Version=2012-11-05&QueueUrl=", &url]);
            }
        }
    }

    pub(super) fn create_queue(&self, queue: &NewQueue<'_>, out: &mut Vec<u8>) {
        let timeout = queue.visibility_timeout_s.map(|timeout_s| timeout_s.to_string());
        let timeout = timeout.as_deref().map(|timeout| ("VisibilityTimeout", timeout));
        let fifo = queue.is_fifo.then_some(("FifoQueue", "true"));
        let name = queue.name;
        let mut body = match self.protocol {
            Protocol::Json => format!("{{\"QueueName\":\"{name}\",\"Attributes\":{{"),
            Protocol::Query => format!("Action=CreateQueue&Version=2012-11-05&QueueName={name}"),
        };
        for (index, (key, value)) in timeout.into_iter().chain(fifo).enumerate() {
            match self.protocol {
                Protocol::Json => {
                    let comma = if index > 0 { "," } else { "" };
                    body += &format!("{comma}\"{key}\":\"{value}\"");
                }
                Protocol::Query => {
                    let place = format!("&Attribute.{}", index + 1);
                    body += &format!("{place}.Name={key}{place}.Value={value}");
                }
            }
        }
        if self.protocol == Protocol::Json {
            body += "}}";
        }
        self.write("CreateQueue", body.as_bytes(), out);
    }

    /// The queue's URL, raw as it stands in the answer.
    pub(super) fn created(&self, queue: &NewQueue<'_>, answer: &[u8]) -> Result<String> {
        let mut found = Vec::new();
        find_values(answer, "QueueUrl", self.protocol, &mut found);
        let url = found.into_iter().next().and_then(|at| answer.get(at));
        let url = url.with_context(|| format!("creating {} gave no queue URL", queue.name))?;
        Ok(String::from_utf8_lossy(url).into_owned())
    }

    pub(super) fn delete_queue(&self, queue_url: &str, out: &mut Vec<u8>) {
        let mut body = self.open("DeleteQueue", queue_url);
        self.close(1, &mut body);
        self.write("DeleteQueue", &body, out);
    }

    pub(super) fn receive(&self, queue_url: &str, max: u64, wait_s: u32, out: &mut Vec<u8>) {
        let mut body = self.open("ReceiveMessage", queue_url);
        let rest = match self.protocol {
            Protocol::Json => {
                format!(",\"MaxNumberOfMessages\":{max},\"WaitTimeSeconds\":{wait_s}}}")
            }
            Protocol::Query => format!("&MaxNumberOfMessages={max}&WaitTimeSeconds={wait_s}"),
        };
        body.extend_from_slice(rest.as_bytes());
        self.write("ReceiveMessage", &body, out);
    }

    pub(super) fn find(&self, answer: &[u8], places: &mut Places) {
        find_values(answer, "ReceiptHandle", self.protocol, &mut places.handles);
        if !places.handles.is_empty() {
            find_values(answer, "Body", self.protocol, &mut places.bodies);
        }
    }

    pub(crate) fn failed(&self, answer: &[u8], count: usize) -> Vec<usize> {
        failed_entries(answer, count, self.protocol)
    }

    /// `handles` are raw, as they stood in the answer.
    pub(super) fn delete<'h>(
        &self,
        queue_url: &str,
        handles: impl Iterator<Item = &'h [u8]>,
        batch: u64,
        body: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) {
        let action = if batch == 1 { "DeleteMessage" } else { "DeleteMessageBatch" };
        body.clear();
        self.open_in(action, queue_url, body);
        for (index, handle) in handles.enumerate() {
            self.open_entry(action, batch, index, body);
            match self.protocol {
                Protocol::Json => self.member(batch, index, "ReceiptHandle", handle, body),
                Protocol::Query => {
                    let value = percent(&unescape_xml(handle));
                    self.member(batch, index, "ReceiptHandle", value.as_bytes(), body);
                }
            }
            self.close_entry(batch, body);
        }
        self.close(batch, body);
        self.write(action, body, out);
    }

    pub(crate) fn open_entry(&self, action: &str, batch: u64, index: usize, body: &mut Vec<u8>) {
        if batch == 1 {
            return;
        }
        // Writing to a vector cannot fail.
        let _ = match self.protocol {
            Protocol::Json => {
                let before = if index == 0 { ",\"Entries\":[" } else { "," };
                write!(body, "{before}{{\"Id\":\"{index}\"")
            }
            Protocol::Query => write!(body, "&{action}RequestEntry.{}.Id={index}", index + 1),
        };
    }

    pub(crate) fn member(
        &self,
        batch: u64,
        index: usize,
        name: &str,
        value: &[u8],
        body: &mut Vec<u8>,
    ) {
        match self.protocol {
            Protocol::Json => put(body, &[",\"", name, "\":\""]),
            Protocol::Query if batch == 1 => put(body, &["&", name, "="]),
            Protocol::Query => {
                let action =
                    if name == "ReceiptHandle" { "DeleteMessageBatch" } else { "SendMessageBatch" };
                let _ = write!(body, "&{action}RequestEntry.{}.{name}=", index + 1);
            }
        }
        body.extend_from_slice(value);
        if self.protocol == Protocol::Json {
            body.push(b'"');
        }
    }

    pub(crate) fn close_entry(&self, batch: u64, body: &mut Vec<u8>) {
        if batch > 1 && self.protocol == Protocol::Json {
            body.push(b'}');
        }
    }

    pub(crate) fn close(&self, batch: u64, body: &mut Vec<u8>) {
        if self.protocol == Protocol::Json {
            body.extend_from_slice(if batch > 1 { b"]}" } else { b"}" });
        }
    }

    fn sign(&self, keys: &Keys, action: &str, content_type: &str, body: &[u8], out: &mut Vec<u8>) {
        let signer = Signer {
            access_key: &keys.access_key,
            secret: &keys.secret_key,
            session_token: keys.session_token.as_deref(),
            region: &keys.region,
            service: "sqs",
        };
        let target = format!("AmazonSQS.{action}");
        let headers = [
            ("host", self.host.as_str()),
            ("content-type", content_type),
            ("x-amz-target", target.as_str()),
        ];
        let count = if self.protocol == Protocol::Json { 3 } else { 2 };
        let (path, query) = self.path.split_once('?').unwrap_or((&self.path, ""));
        let headers = headers.get(..count).unwrap_or_default();
        let request = SignRequest { method: "POST", path, query, headers, body };
        for (name, value) in signer.sign(&request, process::now_s()) {
            put(out, &["\r\n", name, ": ", &value]);
        }
    }
}

/// Percent-encodes all but the unreserved characters of RFC 3986.
pub(crate) fn percent(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() + 16);
    for byte in bytes {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                out.push(char::from(*byte));
            }
            _ => out += &format!("%{byte:02X}"),
        }
    }
    out
}

fn unescape_xml(raw: &[u8]) -> Vec<u8> {
    if memchr::memchr(b'&', raw).is_none() {
        return raw.to_vec();
    }
    let mut text = String::from_utf8_lossy(raw).into_owned();
    // The ampersand last: what it makes is text, not another entity.
    for (entity, character) in
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#34;", "\""), ("&amp;", "&")]
    {
        text = text.replace(entity, character);
    }
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sqs(protocol: Protocol) -> Sqs {
        Sqs { protocol, host: "h".to_owned(), path: "/".to_owned(), keys: None }
    }

    fn deleted(protocol: Protocol, handles: &[&[u8]], batch: u64) -> String {
        let mut out = Vec::new();
        let handles = handles.iter().copied();
        sqs(protocol).delete("u", handles, batch, &mut Vec::new(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn deletes_carry_handles_back() {
        let json = deleted(Protocol::Json, &[b"a\\/b", b"c"], 10);
        assert!(json.ends_with(
            r#"{"QueueUrl":"u","Entries":[{"Id":"0","ReceiptHandle":"a\/b"},{"Id":"1","ReceiptHandle":"c"}]}"#
        ));

        let query = deleted(Protocol::Query, &[b"a&amp;b"], 1);
        assert!(query.ends_with("&ReceiptHandle=a%26b"));
    }

    #[test]
    fn new_queues_have_attributes() {
        let queue = NewQueue { name: "q.fifo", visibility_timeout_s: Some(60), is_fifo: true };
        let mut out = Vec::new();

        sqs(Protocol::Json).create_queue(&queue, &mut out);
        let attributes = r#""Attributes":{"VisibilityTimeout":"60","FifoQueue":"true"}}"#;
        assert!(String::from_utf8(out.clone()).unwrap().ends_with(attributes));

        sqs(Protocol::Query).create_queue(&queue, &mut out);
        let second = b"&Attribute.2.Name=FifoQueue&Attribute.2.Value=true";
        assert!(out.ends_with(second));
    }

    #[test]
    fn requests_say_how_long_they_are() {
        let mut out = Vec::new();
        let mut sqs = sqs(Protocol::Json);
        sqs.write("SendMessage", b"{}", &mut out);
        assert!(
            out.ends_with(
                b"\r\nX-Amz-Target: AmazonSQS.SendMessage\r\nContent-Length: 2\r\n\r\n{}"
            )
        );

        sqs.keys = Some(Keys::new("k", "k"));
        sqs.write("SendMessage", b"{}", &mut out);
        assert!(String::from_utf8(out).unwrap().contains("\r\nauthorization: AWS4-HMAC-SHA256 "));
    }
}
