//! `micro`: what codecs, signatures and digests cost on one core, the best of several runs.
//!
//! What group commits cost is measured by the example `group_commit` of `millrace-journal`.

use std::{
    collections::HashMap,
    hint::black_box,
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
    time::Instant,
};

use anyhow::Result;
use bytes::Bytes;
use millrace_core::{md5, md5_of_each, sha256_hex};
use millrace_wire::{
    Header, Request,
    protocol::{Protocol, detect},
    query::Parameters,
    sigv4::{Credential, SignRequest, Signer, Verifier},
    sqs::{
        self, Answer, BatchAnswer, ReceivedMessage, SentMessage, decode_json, decode_query, encode,
    },
};

use crate::{load::percent, output, process};

const BODY_BYTES: usize = 1024;
const MESSAGE_ID: &str = "5e0b2a53-8f2c-4d8e-9a55-0c2f3d1e6b7a";
const URL: &str = "http://localhost:4566/000000000000/queue";

/// Prints nanoseconds per operation.
pub(crate) fn run() -> Result<()> {
    let text = "x".repeat(BODY_BYTES);
    // Each quote has to be escaped.
    let json: String = r#"{"id":12,"name":"x"},"#.chars().cycle().take(BODY_BYTES).collect();
    decode(&text, &json)?;
    encode_answers(&text, &json)?;
    requests(&text)?;
    digests(&text)
}

fn send(text: &str) -> String {
    serde_json::json!({ "QueueUrl": URL, "MessageBody": text }).to_string()
}

fn decode(text: &str, json: &str) -> Result<()> {
    let single = send(text);
    report("decode JSON SendMessage, 1 KB", || {
        black_box(decode_json("SendMessage", black_box(single.as_bytes())).is_ok());
    })?;
    let escaped = send(json);
    report("decode JSON SendMessage, 1 KB of JSON", || {
        black_box(decode_json("SendMessage", black_box(escaped.as_bytes())).is_ok());
    })?;
    let entries: Vec<_> = (0..10)
        .map(|index| serde_json::json!({ "Id": index.to_string(), "MessageBody": text }))
        .collect();
    let batch = serde_json::json!({ "QueueUrl": URL, "Entries": entries }).to_string();
    report("decode JSON SendMessageBatch, 10 x 1 KB", || {
        black_box(decode_json("SendMessageBatch", black_box(batch.as_bytes())).is_ok());
    })?;
    for (name, body) in
        [("decode Query SendMessage, 1 KB", text), ("decode Query SendMessage, 1 KB of JSON", json)]
    {
        let form = format!(
            "Action=SendMessage&Version=2012-11-05&QueueUrl={}&MessageBody={}",
            percent(URL.as_bytes()),
            percent(body.as_bytes())
        );
        report(name, || {
            let parameters = Parameters::parse("", black_box(form.as_bytes())).unwrap_or_default();
            black_box(decode_query("SendMessage", &parameters).is_ok());
        })?;
    }
    Ok(())
}

fn encode_answers(text: &str, json: &str) -> Result<()> {
    let message = |text: &str| ReceivedMessage {
        message_id: [b'a'; 36],
        receipt_handle: "A".repeat(54),
        md5_of_body: [0xab; 16],
        body: Bytes::copy_from_slice(text.as_bytes()),
        attributes: Vec::new(),
        md5_of_message_attributes: None,
        message_attributes: Vec::new(),
    };
    let sent = |index: u32| SentMessage {
        id: Some(index.to_string()),
        message_id: [b'a'; 36],
        md5_of_message_body: [0xab; 16],
        md5_of_message_attributes: None,
        md5_of_message_system_attributes: None,
        sequence_number: None,
    };
    let received = |text| {
        let messages = (0..10).map(|_| message(text)).collect();
        Answer::ReceiveMessage { messages }
    };
    let (plain, of_json) = (received(text), received(json));
    let single = Answer::SendMessage(SentMessage { id: None, ..sent(0) });
    let batch = BatchAnswer { successful: (0..10).map(sent).collect(), failed: Vec::new() };
    let batch = Answer::SendMessageBatch(batch);
    let mut out = Vec::new();
    for (name, answer, action, protocol) in [
        ("encode JSON SendMessage", &single, "SendMessage", Protocol::Json),
        ("encode JSON SendMessageBatch, 10 entries", &batch, "SendMessageBatch", Protocol::Json),
        ("encode JSON ReceiveMessage, 10 x 1 KB", &plain, "ReceiveMessage", Protocol::Json),
        ("the same, of JSON", &of_json, "ReceiveMessage", Protocol::Json),
        ("encode XML ReceiveMessage, 10 x 1 KB", &plain, "ReceiveMessage", Protocol::Query),
        ("the same, of JSON", &of_json, "ReceiveMessage", Protocol::Query),
    ] {
        report(name, || {
            out.clear();
            encode(black_box(answer), action, protocol, MESSAGE_ID, &mut out);
            black_box(out.len());
        })?;
    }
    Ok(())
}

/// A signed request: what it takes to know its action, and who sent it.
fn requests(text: &str) -> Result<()> {
    let (access_key, secret) = ("AKIDEXAMPLE", "example-secret");
    let signer =
        Signer { access_key, secret, session_token: None, region: "us-east-1", service: "sqs" };
    let (method, path, query, body) = ("POST", "/", "", send(text));
    let given = [
        ("host", "localhost:4566"),
        ("content-type", "application/x-amz-json-1.0"),
        ("x-amz-target", "AmazonSQS.SendMessage"),
    ];
    let now_s = process::now_s();
    let unsigned = SignRequest { method, path, query, headers: &given, body: body.as_bytes() };
    let added = signer.sign(&unsigned, now_s);
    let added = added.iter().map(|(name, value)| (*name, value.as_str()));
    let headers: Vec<_> = given
        .into_iter()
        .chain(added)
        .map(|(name, value)| Header { name, value: value.as_bytes() })
        .collect();
    let (headers, body) = (headers.as_slice(), body.as_bytes());
    let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let request = Request { method, path, query, headers, body, peer, is_tls: false };
    let credential = Credential {
        secret: secret.to_owned(),
        account: "000000000000".to_owned(),
        user: String::new(),
    };
    let verifier = Verifier::new(HashMap::from([(access_key.to_owned(), Arc::new(credential))]));
    report("find the action of a JSON request", || {
        black_box(detect(black_box(&request), &[&sqs::SERVICE]).is_ok());
    })?;
    report("verify Signature Version 4, 1 KB", || {
        black_box(verifier.verify(black_box(&request), Some("sqs"), now_s).is_ok());
    })?;
    report("SHA-256 of 1 KB", || {
        black_box(sha256_hex(black_box(text.as_bytes())));
    })
}

fn digests(text: &str) -> Result<()> {
    let messages = [text.as_bytes(); 10];
    report("MD5 of 1 KB", || {
        black_box(md5(black_box(text.as_bytes())));
    })?;
    report("MD5 of each of 10 x 1 KB", || {
        black_box(md5_of_each(black_box(&messages)));
    })
}

fn report(name: &str, mut operation: impl FnMut()) -> Result<()> {
    const OPERATIONS: u32 = 1000;
    const RUNS: u32 = 30;

    let mut best_ns = f64::INFINITY;
    for _ in 0..RUNS {
        let start = Instant::now();
        for _ in 0..OPERATIONS {
            operation();
        }
        best_ns = best_ns.min(start.elapsed().as_nanos() as f64 / f64::from(OPERATIONS));
    }
    output::print(&format!("{name:<44} {best_ns:>9.0} ns\n"))
}
