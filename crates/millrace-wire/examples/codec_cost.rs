//! What the codecs cost: nanoseconds per operation on one core, the best of several runs.
//!
//! `cargo run -p millrace-wire --example codec_cost --profile fast`

use std::collections::HashMap;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use millrace_wire::protocol::{Protocol, detect};
use millrace_wire::query::Parameters;
use millrace_wire::sigv4::{Credential, SignRequest, Signer, Verifier};
use millrace_wire::sqs::{
    Answer, BatchAnswer, ReceivedMessage, SentMessage, decode_json, decode_query, encode,
};
use millrace_wire::{Header, Request};

const BODY_BYTES: usize = 1024;
const URL: &str = "http://localhost:9324/000000000000/queue";
const ID: &str = "11111111-2222-3333-4444-555555555555";
const NOW: u64 = 1_767_323_045;

#[expect(clippy::print_stdout, reason = "the result of the program")]
fn report(name: &str, mut operation: impl FnMut()) {
    const OPERATIONS: u32 = 2000;
    const RUNS: u32 = 30;

    let mut best_ns = f64::INFINITY;
    for _ in 0..RUNS {
        let start = Instant::now();
        for _ in 0..OPERATIONS {
            operation();
        }
        best_ns = best_ns.min(start.elapsed().as_nanos() as f64 / f64::from(OPERATIONS));
    }
    println!("{name:<44} {best_ns:>9.0} ns");
}

fn main() {
    let text: String =
        "The quick brown fox jumps over it. ".chars().cycle().take(BODY_BYTES).collect();
    let quoted: String =
        r#"{"id":12,"name":"fox","x":[1]},"#.chars().cycle().take(BODY_BYTES).collect();

    decode(&text, &quoted);
    encode_answers(&text, &quoted);
    verify(&text);
}

fn decode(text: &str, quoted: &str) {
    let send = |body: &str| serde_json::json!({ "QueueUrl": URL, "MessageBody": body }).to_string();
    let (plain, escaped) = (send(text), send(quoted));
    report("decode json SendMessage, 1 KB", || {
        black_box(decode_json("SendMessage", black_box(plain.as_bytes())).is_ok());
    });
    report("decode json SendMessage, 1 KB of JSON", || {
        black_box(decode_json("SendMessage", black_box(escaped.as_bytes())).is_ok());
    });
    let entries: Vec<_> = (0..10)
        .map(|number| serde_json::json!({ "Id": number.to_string(), "MessageBody": text }))
        .collect();
    let batch = serde_json::json!({ "QueueUrl": URL, "Entries": entries }).to_string();
    report("decode json SendMessageBatch, 10 x 1 KB", || {
        black_box(decode_json("SendMessageBatch", black_box(batch.as_bytes())).is_ok());
    });
    let form = format!(
        "Action=SendMessage&Version=2012-11-05&QueueUrl=http%3A%2F%2Fh%2F000000000000%2Fq&MessageBody={}",
        text.replace(' ', "+")
    );
    report("decode query SendMessage, 1 KB", || {
        let parameters = Parameters::parse("", black_box(form.as_bytes())).unwrap_or_default();
        black_box(decode_query("SendMessage", &parameters).is_ok());
    });
}

fn encode_answers(text: &str, quoted: &str) {
    let message = |body: &str| ReceivedMessage {
        message_id: [b'a'; 36],
        receipt_handle: "A".repeat(120),
        md5_of_body: [0xab; 16],
        body: Bytes::copy_from_slice(body.as_bytes()),
        attributes: Vec::new(),
        md5_of_message_attributes: None,
        message_attributes: Vec::new(),
    };
    let receive =
        |body: &str| Answer::ReceiveMessage { messages: (0..10).map(|_| message(body)).collect() };
    let sent = |id: &str| SentMessage {
        id: Some(id.to_owned()),
        message_id: [b'a'; 36],
        md5_of_message_body: [0xab; 16],
        md5_of_message_attributes: None,
        md5_of_message_system_attributes: None,
        sequence_number: None,
    };
    let (plain, escaped) = (receive(text), receive(quoted));
    let send = Answer::SendMessage(SentMessage { id: None, ..sent("") });
    let batch = Answer::SendMessageBatch(BatchAnswer {
        successful: (0..10).map(|number| sent(&number.to_string())).collect(),
        failed: Vec::new(),
    });
    let mut out = Vec::new();
    let mut each = |name: &str, answer: &Answer, action: &str, protocol| {
        report(name, || {
            out.clear();
            encode(black_box(answer), action, protocol, ID, &mut out);
            black_box(out.len());
        });
    };
    each("encode json ReceiveMessage, 10 x 1 KB", &plain, "ReceiveMessage", Protocol::Json);
    each(
        "encode json ReceiveMessage, 10 x 1 KB of JSON",
        &escaped,
        "ReceiveMessage",
        Protocol::Json,
    );
    each("encode xml ReceiveMessage, 10 x 1 KB", &plain, "ReceiveMessage", Protocol::Query);
    each("encode json SendMessage", &send, "SendMessage", Protocol::Json);
    each("encode json SendMessageBatch, 10 entries", &batch, "SendMessageBatch", Protocol::Json);
}

fn verify(text: &str) {
    let (access_key, secret) = ("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY");
    let credential = Credential {
        secret: secret.to_owned(),
        account: "000000000000".to_owned(),
        principal: "arn:aws:iam::000000000000:root".to_owned(),
        session_token: None,
        expires_at: None,
    };
    let verifier = Verifier::new(HashMap::from([(access_key.to_owned(), Arc::new(credential))]));
    let body = serde_json::json!({ "QueueUrl": URL, "MessageBody": text }).to_string();
    let given = [
        ("host", "localhost:9324"),
        ("content-type", "application/x-amz-json-1.0"),
        ("x-amz-target", "AmazonSQS.SendMessage"),
        ("x-amzn-query-mode", "true"),
    ];
    let signer =
        Signer { access_key, secret, session_token: None, region: "us-east-1", service: "sqs" };
    let (method, path, query) = ("POST", "/", "");
    let plain = SignRequest { method, path, query, headers: &given, body: body.as_bytes() };
    let added = signer.sign(&plain, NOW);
    let given = given.iter().copied();
    let headers: Vec<_> = given
        .chain(added.iter().map(|(name, value)| (*name, value.as_str())))
        .map(|(name, value)| Header { name, value: value.as_bytes() })
        .collect();
    let request = Request {
        method,
        path,
        query,
        headers: &headers,
        body: body.as_bytes(),
        peer: IpAddr::V4(Ipv4Addr::LOCALHOST),
        is_tls: false,
    };
    report("dispatch json SendMessage", || {
        black_box(detect(black_box(&request)).is_ok());
    });
    report("sigv4 verify, 1 KB", || {
        assert!(verifier.verify(black_box(&request), Some("sqs"), NOW).is_ok());
    });
    report("of which sha-256 of the body", || {
        black_box(millrace_core::sha256_hex(black_box(body.as_bytes())));
    });
}
