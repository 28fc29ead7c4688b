//! Requests: built once, patched in place, one write each.
//!
//! A send is the same bytes every time but for the ids in it. Deletes differ in length, so their
//! body is put together from raw receipt handles. Signing, when asked for, adds headers to a copy.

use std::{
    io::Write,
    time::{SystemTime, UNIX_EPOCH},
};

use millrace_wire::sigv4::{SignRequest, Signer};

use super::ledger::{ID_BYTES, Id};

/// Which of SQS's two protocols is spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Protocol {
    #[default]
    Json,
    Query,
}

/// Keys to sign with.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    pub(crate) access_key: String,
    pub(crate) secret_key: String,
}

/// How requests to one endpoint are written.
#[derive(Clone, Debug)]
pub(crate) struct Dialect {
    pub(crate) protocol: Protocol,
    pub(crate) host: String,
    pub(crate) path: String,
    pub(crate) keys: Option<Keys>,
}

/// What the messages of a send look like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Entries of a request; one means SendMessage.
    pub(crate) batch: u64,
    pub(crate) size_bytes: usize,
    pub(crate) grouping: Grouping,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grouping {
    None,
    /// A standard queue whose messages name groups.
    Fair,
    /// Group and deduplication id.
    Fifo,
}

/// A whole send request, ready but for the ids in it.
pub(crate) struct SendTemplate {
    action: &'static str,
    request: Vec<u8>,
    body_at: usize,
    /// Where the ids of entry 0, 1, … stand: body and, on FIFO queues, deduplication id.
    id_places: Vec<Vec<usize>>,
    group_places: Vec<usize>,
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

    /// A send with places for ids. The filler needs no escaping in either protocol.
    pub(crate) fn send(&self, queue_url: &str, shape: Shape) -> SendTemplate {
        let action = if shape.batch == 1 { "SendMessage" } else { "SendMessageBatch" };
        let mut text = vec![b'0'; ID_BYTES];
        let filler = b"Through-the-millrace-runs-the-water-that-turns-the-wheel-";
        text.extend(filler.iter().cycle().take(shape.size_bytes.saturating_sub(ID_BYTES)));
        let (mut id_places, mut group_places) = (Vec::new(), Vec::new());
        let mut body = self.open(action, queue_url);
        for index in 0..shape.batch as usize {
            self.open_entry(action, shape.batch, index, &mut body);
            let mut put = |name: &str, value: &[u8]| {
                self.member(shape.batch, index, name, value, &mut body);
                body.len() - value.len() - usize::from(self.protocol == Protocol::Json)
            };
            let mut places = vec![put("MessageBody", &text)];
            if shape.grouping == Grouping::Fifo {
                places.push(put("MessageDeduplicationId", &[b'0'; ID_BYTES]));
            }
            if shape.grouping != Grouping::None {
                group_places.push(put("MessageGroupId", &[b'0'; 8]));
            }
            id_places.push(places);
            self.close_entry(shape.batch, &mut body);
        }
        self.close(shape.batch, &mut body);
        let mut request = Vec::new();
        Dialect { keys: None, ..self.clone() }.write(action, &body, &mut request);
        let body_at = request.len() - body.len();
        id_places.iter_mut().flatten().chain(&mut group_places).for_each(|place| *place += body_at);
        SendTemplate { action, request, body_at, id_places, group_places }
    }

    fn open_entry(&self, action: &str, batch: u64, index: usize, body: &mut Vec<u8>) {
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

    fn member(&self, batch: u64, index: usize, name: &str, value: &[u8], body: &mut Vec<u8>) {
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

    fn close_entry(&self, batch: u64, body: &mut Vec<u8>) {
        if batch > 1 && self.protocol == Protocol::Json {
            body.push(b'}');
        }
    }

    fn close(&self, batch: u64, body: &mut Vec<u8>) {
        if self.protocol == Protocol::Json {
            body.extend_from_slice(if batch > 1 { b"]}" } else { b"}" });
        }
    }

    fn sign(&self, keys: &Keys, action: &str, content_type: &str, body: &[u8], out: &mut Vec<u8>) {
        let signer = Signer {
            access_key: &keys.access_key,
            secret: &keys.secret_key,
            session_token: None,
            region: "us-east-1",
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

impl SendTemplate {
    /// Puts an id and its group into entry `index`.
    pub(crate) fn patch(&mut self, index: usize, id: Id) {
        let digits = id.digits();
        for place in self.id_places.get(index).into_iter().flatten() {
            self.request[*place..*place + ID_BYTES].copy_from_slice(&digits);
        }
        if let Some(place) = self.group_places.get(index) {
            self.request[*place..*place + 8].copy_from_slice(&digits[12..20]);
        }
    }

    /// The request as it goes out: itself, or a signed copy in `scratch`.
    pub(crate) fn bytes<'a>(&'a self, dialect: &Dialect, scratch: &'a mut Vec<u8>) -> &'a [u8] {
        if dialect.keys.is_none() {
            return &self.request;
        }
        dialect.write(self.action, self.body(), scratch);
        scratch
    }

    fn body(&self) -> &[u8] {
        &self.request[self.body_at..]
    }
}

fn put(out: &mut Vec<u8>, parts: &[&str]) {
    for part in parts {
        out.extend_from_slice(part.as_bytes());
    }
}

fn percent(bytes: &[u8]) -> String {
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

    const ID: Id = Id { run: 1, producer: 2, group: 3, sequence: 4 };

    fn dialect(protocol: Protocol) -> Dialect {
        Dialect { protocol, host: "h".to_owned(), path: "/".to_owned(), keys: None }
    }

    fn sent(protocol: Protocol, grouping: Grouping, batch: u64) -> String {
        let shape = Shape { batch, size_bytes: 40, grouping };
        let mut template = dialect(protocol).send("http://h/1/q", shape);
        (0..batch).for_each(|index| {
            template.patch(index as usize, Id { sequence: ID.sequence + index, ..ID });
        });
        String::from_utf8(template.body().to_vec()).unwrap()
    }

    #[test]
    fn a_patched_json_send_holds_id_and_filler() {
        let body: serde_json::Value =
            serde_json::from_str(&sent(Protocol::Json, Grouping::None, 1)).unwrap();

        assert_eq!(body["QueueUrl"], "http://h/1/q");
        assert_eq!(body["MessageBody"], "00000001000200000003000000000004Through-");
        assert!(body["MessageGroupId"].is_null());
    }

    #[test]
    fn a_patched_fifo_batch_holds_every_id_twice() {
        let body: serde_json::Value =
            serde_json::from_str(&sent(Protocol::Json, Grouping::Fifo, 3)).unwrap();

        for (index, entry) in body["Entries"].as_array().unwrap().iter().enumerate() {
            let id = entry["MessageDeduplicationId"].as_str().unwrap();
            assert_eq!(Id::parse(id.as_bytes()).unwrap().sequence, 4 + index as u64);
            assert!(entry["MessageBody"].as_str().unwrap().starts_with(id));
            assert_eq!(
                (&entry["MessageGroupId"], &entry["Id"]),
                (&"00000003".into(), &index.to_string().into())
            );
        }
    }

    #[test]
    fn query_sends_number_their_entries() {
        let body = sent(Protocol::Query, Grouping::Fair, 2);

        assert!(
            body.starts_with("Action=SendMessageBatch&Version=2012-11-05&QueueUrl=http%3A%2F%2F")
        );
        assert!(body.contains("&SendMessageBatchRequestEntry.2.Id=1&"));
        assert!(body.ends_with("&SendMessageBatchRequestEntry.2.MessageGroupId=00000003"));
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
    fn requests_say_how_long_they_are() {
        let mut out = Vec::new();
        let mut dialect = dialect(Protocol::Json);
        dialect.write("SendMessage", b"{}", &mut out);
        assert!(
            out.ends_with(
                b"\r\nX-Amz-Target: AmazonSQS.SendMessage\r\nContent-Length: 2\r\n\r\n{}"
            )
        );

        let key = || "k".to_owned();
        dialect.keys = Some(Keys { access_key: key(), secret_key: key() });
        dialect.write("SendMessage", b"{}", &mut out);
        assert!(String::from_utf8(out).unwrap().contains("\r\nauthorization: AWS4-HMAC-SHA256 "));
    }
}
