//! What a collector gets from `millrace work`, and what handlers are told.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use millrace_client::testing::{FaultServer, Reply, Request};
use opentelemetry_proto::tonic::trace::v1::{Span, span::SpanKind, status::StatusCode};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::collector::{Collector, hex};
use crate::{CLIENT_SPAN, Server, TRACE, millrace, named, of, serve};

/// What a sender without a trace of its own writes.
const XRAY: &str = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1";

fn queue(server: &Server, name: &str) {
    server.ok("CreateQueue", "", &json!({"QueueName": name}));
}

/// A message that belongs to `TRACE`.
fn send(server: &Server, body: &str) -> String {
    let header = json!({"AWSTraceHeader": {"DataType": "String", "StringValue": XRAY}});
    let message =
        json!({"QueueUrl": "orders", "MessageBody": body, "MessageSystemAttributes": header});
    server.ok("SendMessage", "", &message)["MessageId"].as_str().unwrap().to_owned()
}

fn work(server: &Server, collector: &str, flags: &[&str]) -> Command {
    let endpoint = format!("http://{}", server.address);
    let arguments = ["work", "--queue", "orders", "--wait", "0", "--endpoint", &endpoint];
    let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", collector)];
    let mut command = millrace(&arguments, &variables);
    command.args(flags);
    command
}

fn work_until_empty(server: &Server, collector: &Collector, flags: &[&str]) {
    let mut worker = work(server, &collector.endpoint, &[flags, &["--until-empty"]].concat());
    assert!(worker.status().unwrap().success());
}

/// `traceparent` of what hangs below a span.
fn below(span: &Span) -> String {
    format!("00-{}-{}-01", hex(&span.trace_id), hex(&span.span_id))
}

fn xray_below(span: &Span) -> String {
    let trace = hex(&span.trace_id);
    let (epoch, rest) = trace.split_at(8);
    format!("Root=1-{epoch}-{rest};Parent={};Sampled=1", hex(&span.span_id))
}

fn is_error(span: &Span) -> bool {
    span.status.as_ref().is_some_and(|status| status.code == StatusCode::Error as i32)
}

#[test]
fn the_work_on_a_message_stands_between_its_sender_and_the_command() {
    let (servers, workers) = (Collector::start(), Collector::start());
    let server = serve(&[("OTEL_EXPORTER_OTLP_ENDPOINT", &servers.endpoint)]);
    queue(&server, "orders");
    let traceparent = format!("traceparent: 00-{TRACE}-{CLIENT_SPAN}-01\r\n");
    let message = json!({"QueueUrl": "orders", "MessageBody": "1"});
    let sent = server.ok("SendMessage", &traceparent, &message);
    let told = TempDir::new().unwrap();
    let file = told.path().join("told");

    let command = format!("echo $TRACEPARENT $_X_AMZN_TRACE_ID > {}", file.display());
    work_until_empty(&server, &workers, &["--exec", &command]);
    server.stop();
    let (of_server, of_worker) = (servers.wait(4), workers.wait(1));

    assert_eq!(of_worker.resource["service.name"], "millrace-work");
    let send = named(&of_server.spans, "SendMessage orders");
    let process = named(&of_worker.spans, "process orders");
    assert_eq!(process.kind, SpanKind::Consumer as i32);
    assert_eq!(hex(&process.trace_id), TRACE);
    assert_eq!(process.parent_span_id, send.span_id);
    let links: Vec<_> = process.links.iter().map(|link| &link.span_id).collect();
    assert_eq!(links, [&send.span_id]);
    let facts = of(process);
    for (key, value) in [
        ("messaging.system", "aws_sqs"),
        ("messaging.operation.name", "process"),
        ("messaging.operation.type", "process"),
        ("messaging.destination.name", "orders"),
        ("messaging.message.id", sent["MessageId"].as_str().unwrap()),
        ("millrace.message.receive_count", "1"),
    ] {
        assert_eq!(facts[key], value, "{key}");
    }
    assert!(!facts.contains_key("error.type") && !is_error(process));
    let told = fs::read_to_string(file).unwrap();
    assert_eq!(told.trim_end(), format!("{} {}", below(process), xray_below(process)));
}

#[test]
fn failures_are_told_apart_and_a_dead_letter_keeps_its_trace() {
    let collector = Collector::start();
    let server = serve(&[]);
    queue(&server, "orders");
    queue(&server, "dead");
    let [rejected, retried] = ["65", "75"].map(|code| send(&server, code));

    let flags = ["--exec", "exit $(cat)", "--dead-letter-queue", "dead"];
    work_until_empty(&server, &collector, &flags);
    let spans = collector.wait(2).spans;

    assert_eq!(spans.len(), 2);
    for (id, error_type, status) in
        [(rejected, "reject", "the command ended with exit status: 65"), (retried, "retry", "")]
    {
        let span = spans.iter().find(|span| of(span)["messaging.message.id"] == id).unwrap();
        assert_eq!(of(span)["error.type"], error_type);
        assert!(is_error(span) && hex(&span.parent_span_id) == CLIENT_SPAN);
        assert_eq!(span.status.as_ref().unwrap().message, status);
    }
    let asked = json!({"QueueUrl": "dead", "MessageSystemAttributeNames": ["AWSTraceHeader"]});
    let letter = server.ok("ReceiveMessage", "", &asked);
    assert_eq!(letter["Messages"][0]["Attributes"]["AWSTraceHeader"], XRAY);
}

#[tokio::test]
async fn the_work_on_an_event_links_to_all_senders_and_a_post_carries_its_span() {
    let collector = Collector::start();
    let server = serve(&[]);
    queue(&server, "orders");
    let answering = |_: Request| async { Reply::json(200, "null") };
    let handler = FaultServer::start(answering).await.unwrap();

    for (flag, messages) in [("--lambda", 3), ("--post", 1)] {
        for _ in 0..messages {
            send(&server, "1");
        }
        let worker = work(&server, &collector.endpoint, &[flag, &handler.url(), "--until-empty"]);
        // The server of this test answers meanwhile.
        assert!(tokio::process::Command::from(worker).status().await.unwrap().success());
    }
    let spans = collector.wait(2).spans;

    let requests = handler.requests();
    assert_eq!((spans.len(), requests.len()), (2, 2));
    for (span, request) in spans.iter().zip(&requests) {
        assert_eq!(request.header("traceparent"), Some(&*below(span)));
        assert_eq!(request.header("x-amzn-trace-id"), Some(&*xray_below(span)));
    }
    let [event, post] = spans.try_into().unwrap();
    assert_eq!(of(&event)["messaging.batch.message_count"], "3");
    assert!(!of(&event).contains_key("messaging.message.id"));
    // Of several senders none is the parent.
    assert!(event.parent_span_id.is_empty() && hex(&event.trace_id) != TRACE);
    let links: Vec<_> = event.links.iter().map(|link| hex(&link.span_id)).collect();
    assert_eq!(links, [CLIENT_SPAN; 3]);
    assert_eq!(
        (hex(&post.trace_id).as_str(), hex(&post.parent_span_id).as_str()),
        (TRACE, CLIENT_SPAN)
    );
    // What the sender wrote stays what it was.
    let event: Value = serde_json::from_slice(&requests[0].body).unwrap();
    assert_eq!(event["Records"][0]["attributes"]["AWSTraceHeader"], XRAY);
}

#[test]
fn work_that_is_cut_off_says_so() {
    let collector = Collector::start();
    let server = serve(&[]);
    queue(&server, "orders");
    send(&server, "1");
    let told = TempDir::new().unwrap();
    let begun = told.path().join("begun");

    let command = format!("trap '' TERM; touch {}; sleep 60 & wait; sleep 60", begun.display());
    let flags = ["--exec", &command, "--kill-after", "0"];
    let mut worker = work(&server, &collector.endpoint, &flags).spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(30);
    while !begun.exists() {
        assert!(Instant::now() < until, "the command does not run");
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = Pid::from_child(&worker);
    kill_process(pid, Signal::TERM).unwrap();
    while worker.try_wait().unwrap().is_none() {
        assert!(Instant::now() < until, "the worker does not end");
        // The second signal gives everything back.
        let _ = kill_process(pid, Signal::TERM);
        std::thread::sleep(Duration::from_millis(20));
    }
    let spans = collector.wait(1).spans;

    assert_eq!(worker.wait().unwrap().code(), Some(4));
    assert_eq!(of(named(&spans, "process orders"))["error.type"], "cut_off");
}

#[test]
fn a_collector_that_cannot_be_reached_changes_nothing() {
    let server = serve(&[]);
    queue(&server, "orders");
    send(&server, "1");
    let began = Instant::now();

    let collector = "http://127.0.0.1:1";
    let mut worker = work(&server, collector, &["--exec", "cat", "--until-empty"]);
    let status = worker.status().unwrap();

    assert!(status.success());
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    let left = json!({"QueueUrl": "orders", "AttributeNames": ["All"]});
    let left = server.ok("GetQueueAttributes", "", &left);
    assert_eq!(left["Attributes"]["ApproximateNumberOfMessages"], "0");
}
