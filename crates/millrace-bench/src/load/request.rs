//! How requests are written, in both protocols.
//!
//! Sends are patched templates, see `template`. Deletes differ in length, so their body is put
//! together from raw receipt handles. Signing, when asked for, adds headers.

use std::{
    io::Write,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, bail};
use millrace_wire::sigv4::{SignRequest, Signer};

/// Which of SQS's two protocols is spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Protocol {
    #[default]
    Json,
    Query,
}

/// Keys to sign with.
#[derive(Clone)]
pub(crate) struct Keys {
    pub(crate) access_key: String,
    pub(crate) secret_key: String,
    /// Of temporary credentials.
    pub(crate) session_token: Option<String>,
    pub(crate) region: String,
}

pub(crate) const DEFAULT_REGION: &str = "us-east-1";

impl Keys {
    pub(crate) fn new(access_key: &str, secret_key: &str) -> Keys {
        Keys {
            access_key: access_key.to_owned(),
            secret_key: secret_key.to_owned(),
            session_token: None,
            region: DEFAULT_REGION.to_owned(),
        }
    }

    /// Parses `ACCESS:SECRET`, or takes the environment's if the text is `env`.
    pub(crate) fn parse(text: &str) -> Result<Keys> {
        if text == "env" {
            let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
            let needed = |name| variable(name).with_context(|| format!("{name} is not set"));
            let region = variable("AWS_REGION").or_else(|| variable("AWS_DEFAULT_REGION"));
            return Ok(Keys {
                session_token: variable("AWS_SESSION_TOKEN"),
                region: region.unwrap_or_else(|| DEFAULT_REGION.to_owned()),
                ..Keys::new(&needed("AWS_ACCESS_KEY_ID")?, &needed("AWS_SECRET_ACCESS_KEY")?)
            });
        }
        match text.split_once(':') {
            Some((access_key, secret_key)) => Ok(Keys::new(access_key, secret_key)),
            None => bail!("--sign takes ACCESS:SECRET, or env for the environment's keys"),
        }
    }
}

/// Without the secrets.
impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keys").field("access_key", &self.access_key).finish_non_exhaustive()
    }
}

/// How requests to one endpoint are written.
#[derive(Clone, Debug)]
pub(crate) struct Dialect {
    pub(crate) protocol: Protocol,
    pub(crate) host: String,
    pub(crate) path: String,
    pub(crate) keys: Option<Keys>,
}

impl Dialect {
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
        match self.protocol {
            Protocol::Json => format!("{{\"QueueUrl\":\"{queue_url}\"").into_bytes(),
            Protocol::Query => {
                let url = percent(queue_url.as_bytes());
                format!("Action={action}&Version=2012-11-05&QueueUrl={url}").into_bytes()
            }
        }
    }

    pub(crate) fn create_queue(&self, name: &str, attributes: &[(&str, &str)]) -> Vec<u8> {
        let mut body = match self.protocol {
            Protocol::Json => format!("{{\"QueueName\":\"{name}\",\"Attributes\":{{"),
            Protocol::Query => format!("Action=CreateQueue&Version=2012-11-05&QueueName={name}"),
        };
        for (index, (key, value)) in attributes.iter().enumerate() {
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
        body.into_bytes()
    }

    pub(crate) fn receive(&self, queue_url: &str, max: u64, wait_s: u32) -> Vec<u8> {
        let mut body = self.open("ReceiveMessage", queue_url);
        let rest = match self.protocol {
            Protocol::Json => {
                format!(",\"MaxNumberOfMessages\":{max},\"WaitTimeSeconds\":{wait_s}}}")
            }
            Protocol::Query => format!("&MaxNumberOfMessages={max}&WaitTimeSeconds={wait_s}"),
        };
        body.extend_from_slice(rest.as_bytes());
        body
    }

    /// Appends the rest of a delete to `body`, which [`Dialect::open`] began. `handles` are raw,
    /// as they stood in the answer.
    pub(crate) fn delete<'h>(
        &self,
        handles: impl Iterator<Item = &'h [u8]>,
        batch: u64,
        body: &mut Vec<u8>,
    ) {
        for (index, handle) in handles.enumerate() {
            self.open_entry("DeleteMessageBatch", batch, index, body);
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
    }

    pub(super) fn open_entry(&self, action: &str, batch: u64, index: usize, body: &mut Vec<u8>) {
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

    pub(super) fn member(
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

    pub(super) fn close_entry(&self, batch: u64, body: &mut Vec<u8>) {
        if batch > 1 && self.protocol == Protocol::Json {
            body.push(b'}');
        }
    }

    pub(super) fn close(&self, batch: u64, body: &mut Vec<u8>) {
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
        let (path, headers) = (self.path.as_str(), headers.get(..count).unwrap_or_default());
        let request = SignRequest { method: "POST", path, query: "", headers, body };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        for (name, value) in signer.sign(&request, now) {
            put(out, &["\r\n", name, ": ", &value]);
        }
    }
}

fn put(out: &mut Vec<u8>, parts: &[&str]) {
    for part in parts {
        out.extend_from_slice(part.as_bytes());
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

    fn dialect(protocol: Protocol) -> Dialect {
        Dialect { protocol, host: "h".to_owned(), path: "/".to_owned(), keys: None }
    }

    #[test]
    fn deletes_carry_handles_back() {
        let (json, query) = (dialect(Protocol::Json), dialect(Protocol::Query));
        let mut body = json.open("DeleteMessageBatch", "u");
        json.delete([&b"a\\/b"[..], b"c"].into_iter(), 10, &mut body);
        assert_eq!(
            String::from_utf8(body).unwrap(),
            r#"{"QueueUrl":"u","Entries":[{"Id":"0","ReceiptHandle":"a\/b"},{"Id":"1","ReceiptHandle":"c"}]}"#
        );

        let mut body = query.open("DeleteMessage", "u");
        query.delete([&b"a&amp;b"[..]].into_iter(), 1, &mut body);
        assert!(body.ends_with(b"&ReceiptHandle=a%26b"));
    }

    #[test]
    fn keys_are_two_words_and_the_secret_is_not_shown() {
        let keys = Keys::parse("access:sec:ret").unwrap();

        assert_eq!((keys.access_key.as_str(), keys.secret_key.as_str()), ("access", "sec:ret"));
        assert!(!format!("{keys:?}").contains("sec:ret"));
        assert!(Keys::parse("access").is_err());
    }

    #[test]
    fn requests_say_how_long_they_are() {
        let mut out = Vec::new();
        let mut dialect = dialect(Protocol::Json);
        dialect.write("SendMessage", b"{}", &mut out);
        assert!(
            out.ends_with(
                b"\r\nX-Amz-Target: AmazonSQS.SendMessage\r\nContent-Length: 2\r\n\r\n{}"
            )
        );

        dialect.keys = Some(Keys::new("k", "k"));
        dialect.write("SendMessage", b"{}", &mut out);
        assert!(String::from_utf8(out).unwrap().contains("\r\nauthorization: AWS4-HMAC-SHA256 "));
    }
}
