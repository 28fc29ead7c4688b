//! Signed requests that somebody altered on their way: they are refused, or do what they did.

use super::presigned::presigned;
use super::*;
use crate::protocol::{Protocol, detect};
use crate::sqs;

/// What separates and encodes in URLs and headers, and what does not.
const EDITS: &[u8] = b"%&=+/. A";

#[derive(Clone)]
struct Signed {
    method: &'static str,
    path: String,
    query: String,
    headers: Vec<(&'static str, String)>,
    body: &'static [u8],
}

impl Signed {
    fn post(
        path: &str,
        query: &str,
        headers: &[(&'static str, &str)],
        body: &'static [u8],
    ) -> Signed {
        let (access_key, secret, session_token) = (KEY, SECRET, None);
        let signer =
            Signer { access_key, secret, session_token, region: "us-east-1", service: "sqs" };
        let method = "POST";
        let added = signer.sign(&SignRequest { method, path, query, headers, body }, NOW);
        let mut headers: Vec<_> =
            headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        headers.extend(added);
        Signed { method, path: path.to_owned(), query: query.to_owned(), headers, body }
    }

    /// What it does and in whose name, if it is let in. How the answer is written does not matter.
    fn effect(&self) -> Option<String> {
        let headers: Vec<_> =
            self.headers.iter().map(|(name, value)| Header::new(name, value.trim())).collect();
        let request = request(self.method, &self.path, &self.query, &headers, self.body);
        verifier().verify(&request, Some("sqs"), NOW).ok()?;
        let mut target = detect(&request, &[&sqs::SERVICE]).unwrap();
        target.protocol = Protocol::Query;
        (!target.action.is_empty()).then(|| format!("{target:?}"))
    }

    /// With one byte of the URL or of a header more, fewer or changed.
    fn edited(&self) -> Vec<Signed> {
        let mut all = Vec::new();
        all.extend(edits(&self.path).map(|path| Signed { path, ..self.clone() }));
        all.extend(edits(&self.query).map(|query| Signed { query, ..self.clone() }));
        for (index, (name, value)) in self.headers.iter().enumerate() {
            for value in edits(value).filter(|_| *name != "authorization") {
                let mut edited = self.clone();
                edited.headers[index].1 = value;
                all.push(edited);
            }
        }
        all.retain(|edited| edited.path.starts_with('/'));
        all
    }

    /// With one header more, before or behind the others.
    fn with_another(&self, name: &'static str, value: &str) -> [Signed; 2] {
        [0, self.headers.len()].map(|at| {
            let mut longer = self.clone();
            longer.headers.insert(at, (name, value.to_owned()));
            longer
        })
    }
}

fn edits(text: &str) -> impl Iterator<Item = String> {
    (0..=text.len()).flat_map(move |at| {
        let (before, behind) = text.split_at(at);
        let rest = behind.get(1..).unwrap_or_default();
        let edited = EDITS.iter().map(|byte| char::from(*byte));
        edited
            .flat_map(move |byte| [behind, rest].map(|behind| format!("{before}{byte}{behind}")))
            .chain([format!("{before}{rest}")])
    })
}

#[test]
fn what_is_signed_is_what_is_done() {
    let form = b"Action=SendMessage&MessageBody=a+b%2Bc&Version=2012-11-05";
    let of_query = [("host", "h"), ("content-type", "application/x-www-form-urlencoded")];
    let of_json = [
        ("host", "h"),
        ("content-type", "application/x-amz-json-1.0"),
        ("x-amz-target", "AmazonSQS.SendMessage"),
    ];
    let url = presigned("X-Amz-Expires=60&Action=SendMessage&MessageBody=a+b%2Bc%20d");
    let presigned = Signed {
        method: "GET",
        path: "/".to_owned(),
        query: url,
        headers: vec![("host", "h".to_owned())],
        body: b"",
    };
    for signed in [
        Signed::post("/000000000000/q1", "a=b+c", &of_query, form),
        Signed::post("/", "", &of_json, b"{}"),
        presigned,
    ] {
        let effect = signed.effect().unwrap();
        let mut altered = signed.edited();
        for (name, value) in [
            ("accept", "application/json"),
            ("authorization", "AWS4-HMAC-SHA256 Credential=x"),
            ("content-type", "application/x-amz-json-1.0"),
            ("content-type", "text/plain"),
            ("date", "20260102T030406Z"),
            ("host", "sns.us-east-2.amazonaws.com"),
            ("smithy-protocol", "rpc-v2-cbor"),
            ("x-amz-content-sha256", UNSIGNED),
            ("x-amz-date", "20260102T030406Z"),
            ("x-amz-security-token", "x"),
            ("x-amz-target", "AmazonSQS.DeleteQueue"),
        ] {
            altered.extend(signed.with_another(name, value));
        }

        let effects: Vec<_> = altered.iter().filter_map(Signed::effect).collect();
        // Spaces around values, empty parameters, other spellings of the same.
        assert!(effects.len() > 10 && effects.len() < altered.len() / 4, "{}", effects.len());
        assert!(effects.iter().all(|other| *other == effect), "{effect}\n{effects:#?}");
    }
}
