//! An OTLP collector that keeps what it gets.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;

/// Listens until the test ends.
pub(crate) struct Collector {
    pub(crate) endpoint: String,
    received: Arc<(Mutex<Received>, Condvar)>,
}

#[derive(Default)]
pub(crate) struct Received {
    pub(crate) spans: Vec<Span>,
    /// Of the process that sent them.
    pub(crate) resource: BTreeMap<String, String>,
}

impl Collector {
    pub(crate) fn start() -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let received = Arc::new((Mutex::new(Received::default()), Condvar::new()));
        let keeping = received.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let keeping = keeping.clone();
                thread::spawn(move || answer(stream, &keeping));
            }
        });
        Collector { endpoint, received }
    }

    /// What has come once there are that many spans.
    pub(crate) fn wait(&self, spans: usize) -> Received {
        let (received, more) = &*self.received;
        let guard = received.lock().unwrap();
        let is_less = |received: &mut Received| received.spans.len() < spans;
        let (mut guard, waited) =
            more.wait_timeout_while(guard, Duration::from_secs(60), is_less).unwrap();
        assert!(!waited.timed_out(), "{} spans of {spans}: {:#?}", guard.spans.len(), guard.spans);
        std::mem::take(&mut *guard)
    }
}

fn answer(stream: TcpStream, keeping: &(Mutex<Received>, Condvar)) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).unwrap_or(0) == 0 {
                return;
            }
        }
        let head = head.to_ascii_lowercase();
        assert!(head.starts_with("post /v1/traces http/1.1\r\n"), "{head}");
        assert!(head.contains("content-type: application/x-protobuf\r\n"), "{head}");
        let length = head.split("content-length: ").nth(1).unwrap().lines().next().unwrap();
        let mut body = vec![0; length.parse().unwrap()];
        reader.read_exact(&mut body).unwrap();
        keep(&body, keeping);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
    }
}

fn keep(body: &[u8], (received, more): &(Mutex<Received>, Condvar)) {
    let request = ExportTraceServiceRequest::decode(body).unwrap();
    let mut received = received.lock().unwrap();
    for of_resource in request.resource_spans {
        received.resource = attributes(&of_resource.resource.unwrap().attributes);
        let scopes = of_resource.scope_spans.into_iter();
        received.spans.extend(scopes.flat_map(|scope| scope.spans));
    }
    more.notify_all();
}

/// Attributes as texts.
pub(crate) fn attributes(pairs: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |value: &Value| match value {
        Value::StringValue(text) => text.clone(),
        Value::IntValue(number) => number.to_string(),
        other => format!("{other:?}"),
    };
    let value =
        |pair: &KeyValue| pair.value.as_ref().and_then(|value| value.value.as_ref()).map(text);
    pairs.iter().map(|pair| (pair.key.clone(), value(pair).unwrap_or_default())).collect()
}

pub(crate) fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}
