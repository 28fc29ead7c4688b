//! An OTLP collector that keeps what it gets.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use millrace_client::testing::{FaultServer, Reply, Request};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tokio::runtime::Builder;

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
        let received = Arc::new((Mutex::new(Received::default()), Condvar::new()));
        let keeping = Arc::clone(&received);
        let handler = move |request: Request| {
            keep(&request, &keeping);
            async { Reply::json(200, "") }
        };
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let server = FaultServer::start(handler).await.unwrap();
                tell.send(server.url()).unwrap();
                std::future::pending::<()>().await;
            });
        });
        Collector { endpoint: told.recv().unwrap(), received }
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

fn keep(request: &Request, (received, more): &(Mutex<Received>, Condvar)) {
    assert_eq!((request.method.as_str(), request.target.as_str()), ("POST", "/v1/traces"));
    assert_eq!(request.header("content-type"), Some("application/x-protobuf"));
    let request = ExportTraceServiceRequest::decode(&*request.body).unwrap();
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
