//! Bytes to typed values and back, digests, signatures.

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::Arc;

use bytes::Bytes;
use millrace_core::{md5, md5_of_each};
use millrace_wire::protocol::Protocol;
use millrace_wire::query::Parameters;
use millrace_wire::sigv4::{Credential, SignRequest, Signer, Verifier};
use millrace_wire::sqs::{
    Answer, BatchAnswer, ReceivedMessage, SentMessage, decode_json, decode_query, encode,
};
use millrace_wire::{Header, Request};

use crate::Result;

pub(crate) const URL: &str = "http://localhost:4566/000000000000/queue";
const MESSAGE_ID: &str = "5e0b2a53-8f2c-4d8e-9a55-0c2f3d1e6b7a";
/// 2026-01-02 03:04:05 UTC.
const NOW_S: u64 = 1_767_323_045;

/// 1 KB of text in which a few characters have to be escaped, as in most bodies.
pub(crate) fn body() -> String {
    r#"{"order": 4711, "note": "two lines\n"} "#.chars().cycle().take(1024).collect()
}

pub(crate) fn send_request() -> String {
    serde_json::json!({ "QueueUrl": URL, "MessageBody": body() }).to_string()
}

pub(crate) fn send_batch_request() -> String {
    let entry = |index: u32| serde_json::json!({ "Id": index.to_string(), "MessageBody": body() });
    let entries: Vec<_> = (0..10).map(entry).collect();
    serde_json::json!({ "QueueUrl": URL, "Entries": entries }).to_string()
}

pub(crate) fn decode_send(operations: u32) -> Result<()> {
    decode("SendMessage", &send_request(), operations)
}

pub(crate) fn decode_send_batch(operations: u32) -> Result<()> {
    decode("SendMessageBatch", &send_batch_request(), operations)
}

pub(crate) fn decode_send_query(operations: u32) -> Result<()> {
    let text = body().replace(' ', "+").replace('"', "%22").replace('\n', "%0A");
    let form = format!("Action=SendMessage&Version=2012-11-05&QueueUrl={URL}&MessageBody={text}");
    for _ in 0..operations {
        let parameters = Parameters::parse("", black_box(form.as_bytes()));
        let parameters = parameters.map_err(|_| "parameters were refused")?;
        let decoded = decode_query("SendMessage", &parameters);
        black_box(decoded).map_err(|_| "the request was refused")?;
    }
    Ok(())
}

pub(crate) fn encode_sent_batch(operations: u32) -> Result<()> {
    let sent = |index: u32| SentMessage {
        id: Some(index.to_string()),
        message_id: [b'a'; 36],
        md5_of_message_body: [0xab; 16],
        md5_of_message_attributes: None,
        md5_of_message_system_attributes: None,
        sequence_number: None,
    };
    let batch = BatchAnswer { successful: (0..10).map(sent).collect(), failed: Vec::new() };
    encode_answer("SendMessageBatch", &Answer::SendMessageBatch(batch), operations)
}

pub(crate) fn encode_received(operations: u32) -> Result<()> {
    let text = body();
    let message = |_| ReceivedMessage {
        message_id: [b'a'; 36],
        receipt_handle: "A".repeat(54),
        md5_of_body: [0xab; 16],
        body: Bytes::copy_from_slice(text.as_bytes()),
        attributes: Vec::new(),
        md5_of_message_attributes: None,
        message_attributes: Vec::new(),
    };
    let answer = Answer::ReceiveMessage { messages: (0..10).map(message).collect() };
    encode_answer("ReceiveMessage", &answer, operations)
}

pub(crate) fn md5_of_one(operations: u32) -> Result<()> {
    let text = body();
    for _ in 0..operations {
        black_box(md5(black_box(text.as_bytes())));
    }
    Ok(())
}

pub(crate) fn md5_of_ten(operations: u32) -> Result<()> {
    let text = body();
    let messages = [text.as_bytes(); 10];
    for _ in 0..operations {
        black_box(md5_of_each(black_box(&messages)));
    }
    Ok(())
}

pub(crate) fn verify_signature(operations: u32) -> Result<()> {
    let (access_key, secret) = ("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY");
    let credential = Credential {
        secret: secret.to_owned(),
        account: "000000000000".to_owned(),
        user: String::new(),
    };
    let verifier = Verifier::new(HashMap::from([(access_key.to_owned(), Arc::new(credential))]));
    let body = send_request();
    let given = [
        ("host", "localhost:4566"),
        ("content-type", "application/x-amz-json-1.0"),
        ("x-amz-target", "AmazonSQS.SendMessage"),
    ];
    let signer =
        Signer { access_key, secret, session_token: None, region: "us-east-1", service: "sqs" };
    let (method, path, query) = ("POST", "/", "");
    let unsigned = SignRequest { method, path, query, headers: &given, body: body.as_bytes() };
    let added = signer.sign(&unsigned, NOW_S);
    let added = added.iter().map(|(name, value)| (*name, value.as_str()));
    let header = |(name, value): (&'static str, &'_ str)| (name, value.to_owned());
    let owned: Vec<_> = given.into_iter().chain(added).map(header).collect();
    let headers: Vec<_> = owned.iter().map(|(name, value)| Header::new(name, value)).collect();
    let request = Request::post(&headers, body.as_bytes());
    for _ in 0..operations {
        let verified = verifier.verify(black_box(&request), Some("sqs"), NOW_S);
        black_box(verified).map_err(|_| "the signature was refused")?;
    }
    Ok(())
}

fn decode(action: &str, request: &str, operations: u32) -> Result<()> {
    for _ in 0..operations {
        let decoded = decode_json(action, black_box(request.as_bytes()));
        black_box(decoded).map_err(|_| "the request was refused")?;
    }
    Ok(())
}

fn encode_answer(action: &str, answer: &Answer, operations: u32) -> Result<()> {
    let mut out = Vec::new();
    for _ in 0..operations {
        out.clear();
        encode(black_box(answer), action, Protocol::Json, MESSAGE_ID, &mut out);
        black_box(out.len());
    }
    Ok(())
}
