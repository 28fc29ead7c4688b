//! What a collector gets from the real binary, and what the binary does without one.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod collector;
mod work;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::trace::v1::{Span, span::SpanKind, status::StatusCode};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use collector::{Collector, attributes, hex};

const TRACE: &str = "5759e988bd862e3fe1be46a994272793";
const CLIENT_SPAN: &str = "53995c3f42cd8ad8";

struct Server {
    child: Child,
    address: String,
}

/// The binary, with none of our variables but those.
fn millrace(arguments: &[&str], variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if ["MILLRACE_", "OTEL_", "AWS_"].iter().any(|ours| name.starts_with(ours)) {
            command.env_remove(name);
        }
    }
    command.args(arguments).envs(variables.iter().copied());
    command
}

/// A server without a disk, with those variables; waits until it serves.
fn serve(variables: &[(&str, &str)]) -> Server {
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--console-listen", "off"];
    let child = millrace(&arguments, variables)
        .args(["--durability", "memory", "--log-format", "json"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Made before anything can go wrong: it ends the process.
    let mut server = Server { child, address: String::new() };
    let stderr = server.child.stderr.take().unwrap();
    let mut lines = BufReader::new(stderr).lines().map(Result::unwrap);
    let serving = lines.find(|line| line.contains("\"serving\"")).unwrap();
    let line: Value = serde_json::from_str(&serving).unwrap();
    let endpoint = line["endpoint"].as_str().unwrap();
    endpoint.trim_start_matches("http://").clone_into(&mut server.address);
    // Nobody reads the rest, which must not block the server.
    std::thread::spawn(move || lines.for_each(drop));
    server
}

impl Server {
    /// One request; status and answer.
    fn call(&self, action: &str, headers: &str, input: &Value) -> (u16, Value) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let body = input.to_string();
        let request = format!(
            "POST / HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nX-Amz-Target: AmazonSQS.{action}\r\n\
             Content-Type: application/x-amz-json-1.0\r\nContent-Length: {}\r\n{headers}\r\n{body}",
            self.address,
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or(Value::Null))
    }

    fn ok(&self, action: &str, headers: &str, input: &Value) -> Value {
        let (status, answer) = self.call(action, headers, input);
        assert_eq!(status, 200, "{action}: {answer}");
        answer
    }

    /// Ends as an operator ends it; returns how long that took.
    fn stop(mut self) -> Duration {
        let began = Instant::now();
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
        began.elapsed()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn named<'s>(spans: &'s [Span], name: &str) -> &'s Span {
    let mut found = spans.iter().filter(|span| span.name == name);
    match (found.next(), found.next()) {
        (Some(span), None) => span,
        _ => {
            panic!("not one {name}: {:?}", spans.iter().map(|span| &span.name).collect::<Vec<_>>())
        }
    }
}

fn of(span: &Span) -> BTreeMap<String, String> {
    attributes(&span.attributes)
}

#[test]
fn a_message_can_be_followed_from_its_sender_to_its_receiver() {
    let collector = Collector::start();
    let server = serve(&[("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.endpoint)]);
    server.ok("CreateQueue", "", &json!({"QueueName": "orders"}));
    let traceparent = format!("traceparent: 00-{TRACE}-{CLIENT_SPAN}-01\r\n");
    let sent = json!({"QueueUrl": "orders", "MessageBody": "1"});
    let sent = server.ok("SendMessage", &traceparent, &sent);
    let aws = "X-Amzn-Trace-Id: Root=1-11111111-222222222222222222222222;Parent=3333333333333333;\
               Sampled=1\r\n";
    let entries: Vec<Value> =
        (0..3).map(|id| json!({"Id": id.to_string(), "MessageBody": "2"})).collect();
    server.ok("SendMessageBatch", aws, &json!({"QueueUrl": "orders", "Entries": entries}));
    let receive = json!({"QueueUrl": "orders", "MaxNumberOfMessages": 10});
    let received = server.ok("ReceiveMessage", "", &receive);
    let handle = received["Messages"][0]["ReceiptHandle"].clone();
    server.ok("DeleteMessage", "", &json!({"QueueUrl": "orders", "ReceiptHandle": handle}));

    // Nothing is waited for: the end exports what is left.
    server.stop();
    let traces = collector.wait(5);
    let spans = traces.spans;

    assert_eq!(traces.resource["service.name"], "millrace");
    assert_eq!(traces.resource["service.version"], env!("CARGO_PKG_VERSION"));
    let send = named(&spans, "SendMessage orders");
    assert_eq!(send.kind, SpanKind::Server as i32);
    assert_eq!(
        (hex(&send.trace_id), hex(&send.parent_span_id)),
        (TRACE.into(), CLIENT_SPAN.into())
    );
    assert!(send.end_time_unix_nano > send.start_time_unix_nano);
    let facts = of(send);
    for (key, value) in [
        ("messaging.system", "aws_sqs"),
        ("messaging.operation.name", "SendMessage"),
        ("messaging.operation.type", "send"),
        ("messaging.destination.name", "orders"),
        ("messaging.message.id", sent["MessageId"].as_str().unwrap()),
        ("rpc.system", "aws-api"),
        ("rpc.service", "SQS"),
        ("rpc.method", "SendMessage"),
        ("http.response.status_code", "200"),
    ] {
        assert_eq!(facts[key], value, "{key}");
    }
    assert_eq!(facts["aws.request_id"].len(), 36);
    let batch = named(&spans, "SendMessageBatch orders");
    assert_eq!(hex(&batch.trace_id), "11111111222222222222222222222222");
    assert_eq!(hex(&batch.parent_span_id), "3333333333333333");
    assert_eq!(of(batch)["messaging.batch.message_count"], "3");

    let receive = named(&spans, "ReceiveMessage orders");
    assert_eq!(of(receive)["messaging.batch.message_count"], "4");
    assert_eq!(of(receive)["messaging.operation.type"], "receive");
    assert!(receive.parent_span_id.is_empty());
    let mut links: Vec<String> = receive.links.iter().map(|link| hex(&link.span_id)).collect();
    links.sort();
    let mut senders = vec!["3".repeat(16); 3];
    // The message that came without an X-Ray header names the span that sent it.
    senders.push(hex(&send.span_id));
    senders.sort();
    assert_eq!(links, senders);
    assert_eq!(of(named(&spans, "DeleteMessage orders"))["messaging.operation.type"], "settle");
}

#[test]
fn refused_requests_carry_the_error_code() {
    let collector = Collector::start();
    let server = serve(&[
        ("MILLRACE_TRACES__ENDPOINT", &collector.endpoint),
        ("MILLRACE_TRACES__SERVICE_NAME", "queues of a shop"),
        // The setting wins.
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1"),
    ]);

    let (status, _) =
        server.call("SendMessage", "", &json!({"QueueUrl": "absent", "MessageBody": "1"}));
    let (unknown, _) = server.call("MakeCoffee", "", &json!({}));
    server.stop();
    let traces = collector.wait(2);

    assert_eq!((status, unknown), (400, 404));
    assert_eq!(traces.resource["service.name"], "queues of a shop");
    let absent = named(&traces.spans, "SendMessage absent");
    let code = "AWS.SimpleQueueService.NonExistentQueue";
    assert_eq!(of(absent)["error.type"], code);
    // HTTP's rule: the client's mistake is not the server's error.
    assert_eq!(absent.status.as_ref().map_or(0, |status| status.code), StatusCode::Unset as i32);
    assert_eq!(of(named(&traces.spans, "other"))["error.type"], "UnknownOperationException");
}

#[test]
fn the_callers_sampling_decision_and_the_sampler_hold() {
    let collector = Collector::start();
    let server = serve(&[
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.endpoint),
        ("OTEL_TRACES_SAMPLER", "parentbased_always_off"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
    ]);
    let traceparent = |flags| format!("traceparent: 00-{TRACE}-{CLIENT_SPAN}-{flags}\r\n");

    server.ok("CreateQueue", "", &json!({"QueueName": "orders"}));
    server.ok("ListQueues", &traceparent("00"), &json!({}));
    server.ok("GetQueueUrl", &traceparent("01"), &json!({"QueueName": "orders"}));
    server.stop();
    let traces = collector.wait(1);

    assert_eq!(traces.spans.len(), 1);
    assert_eq!(of(&traces.spans[0])["rpc.method"], "GetQueueUrl");
}

#[test]
fn a_collector_that_never_answers_costs_nothing_but_its_traces() {
    // Accepts connections, by its backlog, and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let server = serve(&[
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "16"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "8"),
        ("OTEL_BSP_SCHEDULE_DELAY", "1"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
    ]);
    server.ok("CreateQueue", "", &json!({"QueueName": "orders"}));

    for _ in 0..200 {
        server.ok("SendMessage", "", &json!({"QueueUrl": "orders", "MessageBody": "1"}));
    }
    let took = server.stop();

    // Three seconds for the exporter, none of them before the data is closed.
    assert!(took < Duration::from_secs(10), "{took:?}");
}

#[test]
fn settings_that_mean_nothing_end_the_start() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--durability", "memory"]);
    command.env("MILLRACE_TRACES__ENDPOINT", "http://127.0.0.1:4318");
    command.env("MILLRACE_TRACES__SAMPLER", "sometimes");

    let output = command.output().unwrap();

    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("traces.sampler: \"sometimes\" is not always_on"), "{said}");
}
