//! Entry points for fuzzing: any bytes go in, nothing may panic but what shows a defect.

use std::collections::HashMap;
use std::sync::Arc;

use crate::cloudwatch;
use crate::codec::toy::Toy;
use crate::codec::{self, Envelope, Structure};
use crate::http::{Header, Request};
use crate::protocol::{Protocol, Target, detect, parse_queue_url};
use crate::query::Parameters;
use crate::sigv4::{Credential, Verifier};
use crate::simpledb;
use crate::sqs::{self, ACTIONS, decode_json, decode_query, decode_twice};

/// The first byte chooses the action, the rest is a JSON body.
pub fn json(input: &[u8]) {
    let Some((first, body)) = input.split_first() else { return };
    let action = ACTIONS.get(usize::from(*first) % ACTIONS.len()).copied().unwrap_or_default();
    if let Err(error) = decode_json(action, body) {
        let _ = error.response(&sqs::SERVICE, Protocol::Json, "id");
    }
    match decode_twice(action, body) {
        Some((quick, Ok(general))) => assert_eq!(quick, general, "decoders differ"),
        // Where the general decoder counts nesting from is the one difference.
        Some((_, Err(error))) => {
            assert!(error.message.contains("recursion limit"), "{}", error.message)
        }
        None => {}
    }
}

/// The first byte chooses the action, the rest is a form body.
pub fn query(input: &[u8]) {
    let Some((first, body)) = input.split_first() else { return };
    let action = ACTIONS.get(usize::from(*first) % ACTIONS.len()).copied().unwrap_or_default();
    let decoded = Parameters::parse("", body)
        .and_then(|parameters| decode_query(action, &parameters).map(drop));
    if let Err(error) = decoded {
        let _ = error.response(&sqs::SERVICE, Protocol::Query, "id");
        let _ = error.response(&sqs::SERVICE, Protocol::QueryAsJson, "id");
    }
    let names = simpledb::Action::NAMES;
    let action = names.get(usize::from(*first) % names.len()).copied().unwrap_or_default();
    let decoded = Parameters::parse("", body)
        .and_then(|parameters| simpledb::decode(action, &parameters).map(drop));
    if let Err(error) = decoded {
        let _ = error.response(&simpledb::SERVICE, Protocol::Query, "id");
    }
}

/// Lines: method, path, query, then headers as `name: value` up to an empty line, then the body.
/// The request is dispatched, too.
pub fn sigv4(input: &[u8]) {
    let (head, body) = split_head(input);
    let Ok(head) = str::from_utf8(head) else { return };
    let mut lines = head.split('\n');
    let mut line = || lines.next().unwrap_or_default();
    let (method, path, query) = (line(), line(), line());
    let headers: Vec<_> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| Header::new(name, value.trim()))
        .collect();
    let request = Request { method, path, query, ..Request::post(&headers, body) };

    let _ = detect(&request, &[&sqs::SERVICE, &cloudwatch::SERVICE]);
    let _ = parse_queue_url(path);
    let credential = Credential {
        secret: "secret".to_owned(),
        account: "000000000000".to_owned(),
        user: String::new(),
    };
    let verifier = Verifier::new(HashMap::from([("key".to_owned(), Arc::new(credential))]))
        .with_alternative_hosts(vec!["other".to_owned()]);
    // 2026-01-02T03:04:05Z.
    if let Err(error) = verifier.verify(&request, Some("sqs"), 1_767_323_045) {
        let _ = crate::ApiError::from(error).response(&sqs::SERVICE, Protocol::Json, "id");
    }
}

/// The first byte chooses the protocol, the second the action, the rest is the body. It is read as
/// a structure with members of all kinds, too.
pub fn cloudwatch(input: &[u8]) {
    let [first, second, body @ ..] = input else { return };
    let protocol = match first % 3 {
        0 => Protocol::Json,
        1 => Protocol::Cbor,
        _ => Protocol::Query,
    };
    let actions = cloudwatch::ACTIONS;
    let action = actions.get(usize::from(*second) % actions.len()).copied().unwrap_or_default();
    let parameters = match protocol {
        Protocol::Query => Parameters::parse("", body),
        _ => Ok(Parameters::default()),
    };
    let decoded = parameters.and_then(|parameters| {
        let target = Target {
            service: &cloudwatch::SERVICE,
            protocol,
            action: action.into(),
            region: None,
            access_key: None,
            is_region_signed: false,
            path_queue: None,
            parameters,
        };
        cloudwatch::decode(&target, &target.parameters, body).map(drop)
    });
    if let Err(error) = decoded {
        let _ = error.response(&cloudwatch::SERVICE, protocol, "id");
    }
    structure(protocol, body);
}

/// A structure with members of all kinds: what was read can be written in every protocol, and what
/// JSON and CBOR have written can be read.
fn structure(protocol: Protocol, body: &[u8]) {
    let read = |protocol, body: &[u8]| {
        let parameters = match protocol {
            Protocol::Query => Parameters::parse("", body)?,
            _ => Parameters::default(),
        };
        codec::decode(protocol, &parameters, body, Toy::read)
    };
    let Ok(toy) = read(protocol, body) else { return };
    let node = toy.members().into_node();
    for protocol in [Protocol::Json, Protocol::Cbor, Protocol::Query, Protocol::QueryAsJson] {
        let service = &crate::cloudwatch::SERVICE;
        let envelope = Envelope { service, protocol, action: "Play", request_id: "id" };
        let written = envelope.response(Some(&node)).body;
        if matches!(protocol, Protocol::Json | Protocol::Cbor) {
            let again = read(protocol, &written);
            assert!(again.is_ok(), "what was written cannot be read: {again:?}");
        }
    }
}

fn split_head(input: &[u8]) -> (&[u8], &[u8]) {
    match input.windows(2).position(|pair| pair == b"\n\n") {
        Some(at) => (input.get(..at).unwrap_or_default(), input.get(at + 2..).unwrap_or_default()),
        None => (input, &[]),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    /// Requests that are nearly good: the pieces of good ones in any order.
    fn pieces(pieces: &'static [&'static str]) -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            4 => proptest::sample::select(pieces).prop_map(|piece| piece.as_bytes().to_vec()),
            1 => proptest::collection::vec(any::<u8>(), 0..4),
        ];
        (any::<u8>(), proptest::collection::vec(piece, 0..40)).prop_map(|(first, pieces)| {
            let mut input = vec![first];
            input.extend(pieces.concat());
            input
        })
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(input: Vec<u8>) {
            super::json(&input);
            super::query(&input);
            super::sigv4(&input);
            super::cloudwatch(&input);
        }

        #[test]
        fn nearly_good_json_never_panics(
            input in pieces(&[
                "{", "}", "[", "]", ":", ",", "null", "1", "-1.5e9", "true", "\"", "\\ud800",
                "\"Entries\":", "\"QueueUrl\":", "\"MessageBody\":", "\"MessageAttributes\":",
                "\"DelaySeconds\":", "\"BinaryValue\":", "\"AA==\"", "\"x\"", "{\"Entries\":[{",
            ]),
        ) {
            super::json(&input);
        }

        #[test]
        fn nearly_good_forms_never_panic(
            input in pieces(&[
                "&", "=", "%", "+", "%41", "1", "0", "99999999999", ".", "Name", "Value", "Key",
                "Attribute.", "Tag.1.", "SendMessageBatchRequestEntry.1.", "MessageAttribute.1.",
                "&MessageAttribute.2.Name=x", "Value.DataType", "Value.BinaryValue", "AA==",
                "Item.", "Attribute.0.name=a", "Expected.1.", "Exists=false", "ItemName=%ff",
            ]),
        ) {
            super::query(&input);
        }

        #[test]
        fn nearly_good_structures_never_panic(
            json in pieces(&[
                "{", "}", "[", "]", ":", ",", "null", "1", "-1.5e9", "true", "\"", "\"AA==\"",
                "{\"Inner\":", "\"Texts\":[", "\"Rows\":[[", "\"PartsByName\":{", "\"Time\":",
                "\"Blob\":", "\"Number\":\"NaN\"", "\"x\"",
            ]),
            form in pieces(&[
                "&", "=", "%", ".", "1", "0", "99999999999", "Inner.", "Texts.member.", "=a",
                "Rows.member.1.member.1", "FlatMap.1.Name=x&FlatMap.1.Value=true", "entry.1.key",
                "PartsByName.entry.1.", "Value.Values.member.1=1", "Time=2026-01-02T03:04:05Z",
            ]),
        ) {
            for (protocol, body) in [(0, json), (2, form)] {
                super::cloudwatch(&[&[protocol], &body[..]].concat());
            }
        }

        #[test]
        fn nearly_good_signed_requests_never_panic(
            input in pieces(&[
                "\n", "\n\n", "POST\n", "/", "/queue/r/a/n", "..", "?", "&", "=", "host:h\n",
                "authorization:AWS4-HMAC-SHA256 ", "Credential=key/20260102/r/sqs/aws4_request",
                "X-Amz-Credential=key%2F20260102%2Fr%2Fsqs%2Faws4_request&", "%", ",",
                "SignedHeaders=host", ";", "Signature=00", "x-amz-date:20260102T030405Z\n",
                "X-Amz-Algorithm=AWS4-HMAC-SHA256&", "X-Amz-Date=20260102T030405Z&",
                "X-Amz-Expires=9&", "X-Amz-SignedHeaders=host&", "X-Amz-Signature=0&",
                "x-amz-target:AmazonSQS.SendMessage\n",
            ]),
        ) {
            super::sigv4(&input);
        }
    }
}
