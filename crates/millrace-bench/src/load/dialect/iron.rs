//! IronMQ, versions 3 and 1. Facts: a request is `Authorization: OAuth TOKEN`, a batch is deleted
//! whole or not at all, version 1 deletes by message id alone.

use std::io::Write;

use millrace_client::iron::IronVersion;
use millrace_core::Url;

use super::{NewQueue, Places, percent, put};
use crate::{
    access::{Interface, Project},
    load::response::find_json,
};

/// Longer than a run: a message that comes again was given out twice. IronMQ: one day at most.
const TIMEOUT_S: u32 = 3600;
/// Between message id and reservation id; in neither.
pub(super) const SEPARATOR: u8 = b' ';

/// A project of IronMQ at one endpoint.
#[derive(Clone, Debug)]
pub(crate) struct Iron {
    version: IronVersion,
    /// From the version of the protocol to the project.
    base: String,
    /// The endpoint's, for all requests; or empty.
    query: String,
    /// All that stands between the first line of a request and the length of its body.
    headers: String,
}

impl Iron {
    pub(super) fn new(project: &Project, url: &Url) -> Iron {
        let number = if project.version == IronVersion::V3 { 3 } else { 1 };
        let (front, id) = (url.path().trim_end_matches('/'), percent(project.id.as_bytes()));
        let host = url.authority();
        Iron {
            version: project.version,
            base: format!("{front}/{number}/projects/{id}"),
            query: url.query().unwrap_or_default().to_owned(),
            headers: format!(
                "Host: {host}\r\nAuthorization: OAuth {}\r\nContent-Type: application/json",
                project.token
            ),
        }
    }

    pub(super) fn path_of(&self, name: &str) -> String {
        format!("{}/queues/{}", self.base, percent(name.as_bytes()))
    }

    pub(super) fn create_queue(&self, queue: &NewQueue<'_>, out: &mut Vec<u8>) {
        let path = self.path_of(queue.name);
        match self.version {
            IronVersion::V3 => {
                let timeout = queue.visibility_timeout_s.unwrap_or(TIMEOUT_S);
                let body = format!("{{\"queue\":{{\"message_timeout\":{timeout}}}}}");
                self.write("PUT", &[&path], body.as_bytes(), out);
            }
            // Time-outs are given with each reserve.
            IronVersion::V1 => self.write("POST", &[&path], b"{\"push_type\":\"pull\"}", out),
        }
    }

    pub(super) fn interface(&self) -> Interface {
        match self.version {
            IronVersion::V3 => Interface::Ironmq,
            IronVersion::V1 => Interface::IronmqV1,
        }
    }

    pub(super) fn delete_queue(&self, queue: &str, out: &mut Vec<u8>) {
        self.write("DELETE", &[queue], b"", out);
    }

    /// A post as `SendTemplate` patches it: everything, and where the body begins.
    pub(crate) fn post(&self, queue: &str, body: &[u8], out: &mut Vec<u8>) {
        self.write("POST", &[queue, "/messages"], body, out);
    }

    pub(super) fn receive(&self, queue: &str, max: u64, wait_s: u32, out: &mut Vec<u8>) {
        match self.version {
            IronVersion::V3 => {
                let body = format!("{{\"n\":{max},\"timeout\":{TIMEOUT_S},\"wait\":{wait_s}}}");
                self.write("POST", &[queue, "/reservations"], body.as_bytes(), out);
            }
            IronVersion::V1 => {
                let query = format!("/messages?n={max}&timeout={TIMEOUT_S}&wait={wait_s}");
                self.write("GET", &[queue, &query], b"", out);
            }
        }
    }

    pub(super) fn find(&self, answer: &[u8], places: &mut Places) {
        find_json(answer, "id", &mut places.handles);
        if places.handles.is_empty() {
            return;
        }
        find_json(answer, "body", &mut places.bodies);
        if self.version == IronVersion::V3 {
            find_json(answer, "reservation_id", &mut places.reservations);
        }
    }

    pub(super) fn delete<'h>(
        &self,
        queue: &str,
        mut handles: impl Iterator<Item = &'h [u8]>,
        batch: u64,
        body: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) {
        body.clear();
        if batch == 1 {
            let (id, reservation) = split(handles.next().unwrap_or_default());
            if self.version == IronVersion::V3 {
                put(body, &["{\"reservation_id\":\"", reservation, "\"}"]);
            }
            return self.write("DELETE", &[queue, "/messages/", id], body, out);
        }
        body.extend_from_slice(b"{\"ids\":[");
        for (index, handle) in handles.enumerate() {
            let (id, reservation) = split(handle);
            put(body, &[if index > 0 { "," } else { "" }]);
            match self.version {
                IronVersion::V3 => {
                    put(body, &["{\"id\":\"", id, "\",\"reservation_id\":\"", reservation, "\"}"]);
                }
                IronVersion::V1 => put(body, &["\"", id, "\""]),
            }
        }
        body.extend_from_slice(b"]}");
        self.write("DELETE", &[queue, "/messages"], body, out);
    }

    fn write(&self, method: &str, target: &[&str], body: &[u8], out: &mut Vec<u8>) {
        out.clear();
        put(out, &[method, " "]);
        put(out, target);
        if !self.query.is_empty() {
            let has_query = target.iter().any(|part| part.contains('?'));
            put(out, &[if has_query { "&" } else { "?" }, &self.query]);
        }
        put(out, &[" HTTP/1.1\r\n", &self.headers]);
        // Writing to a vector cannot fail.
        let _ = write!(out, "\r\nContent-Length: {}\r\n\r\n", body.len());
        out.extend_from_slice(body);
    }
}

/// The answer to a post names one id for each message, in their order.
pub(super) fn failed_posts(answer: &[u8], count: usize) -> Vec<usize> {
    let parsed: serde_json::Value = serde_json::from_slice(answer).unwrap_or_default();
    let posted = parsed["ids"].as_array().map_or(0, Vec::len);
    (posted.min(count)..count).collect()
}

fn split(handle: &[u8]) -> (&str, &str) {
    let text = std::str::from_utf8(handle).unwrap_or_default();
    text.split_once(char::from(SEPARATOR)).unwrap_or((text, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn iron(version: IronVersion) -> Iron {
        let project = Project { version, id: "p/1".to_owned(), token: "t".to_owned() };
        Iron::new(&project, &Url::parse("http://h").unwrap())
    }

    #[test]
    fn query_of_the_endpoint_comes_behind_what_is_added() {
        let project = |version| Project { version, id: "p".to_owned(), token: "t".to_owned() };
        let url = Url::parse("http://h/x?key=1").unwrap();
        let line = |version| {
            let mut out = Vec::new();
            let iron = Iron::new(&project(version), &url);
            iron.receive(&iron.path_of("q"), 1, 0, &mut out);
            String::from_utf8(out).unwrap().lines().next().unwrap().to_owned()
        };

        let path = "/projects/p/queues/q";
        let v3 = format!("POST /x/3{path}/reservations?key=1 HTTP/1.1");
        assert_eq!(line(IronVersion::V3), v3);
        let v1 = format!("GET /x/1{path}/messages?n=1&timeout=3600&wait=0&key=1 HTTP/1.1");
        assert_eq!(line(IronVersion::V1), v1);
    }

    fn deleted(iron: &Iron, answer: &str, batch: u64) -> String {
        let (mut places, mut handles, mut out) = (Places::default(), Vec::new(), Vec::new());
        iron.find(answer.as_bytes(), &mut places);
        for index in 0..places.handles.len() {
            let mut handle = Vec::new();
            places.put_handle(index, answer.as_bytes(), &mut handle);
            handles.push(handle);
        }
        let handles = handles.iter().map(Vec::as_slice);
        iron.delete("/q", handles, batch, &mut Vec::new(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn requests_carry_project_and_token() {
        let mut out = Vec::new();
        let iron = iron(IronVersion::V3);

        iron.receive(&iron.path_of("a b"), 30, 1, &mut out);

        assert_eq!(
            String::from_utf8(out).unwrap(),
            "POST /3/projects/p%2F1/queues/a%20b/reservations HTTP/1.1\r\nHost: h\r\n\
             Authorization: OAuth t\r\nContent-Type: application/json\r\nContent-Length: 32\r\n\r\n\
             {\"n\":30,\"timeout\":3600,\"wait\":1}"
        );
    }

    #[test]
    fn version_3_deletes_by_reservation() {
        let answer = r#"{"messages":[{"id":"1","body":"x","reserved_count":1,"reservation_id":"a"},
            {"reservation_id":"b","id":"2","body":"y"}]}"#;
        let iron = iron(IronVersion::V3);

        let batch = deleted(&iron, answer, 10);
        let body = r#"{"ids":[{"id":"1","reservation_id":"a"},{"id":"2","reservation_id":"b"}]}"#;
        assert!(batch.starts_with("DELETE /q/messages HTTP/1.1\r\n") && batch.ends_with(body));

        let single = deleted(&iron, answer, 1);
        assert!(single.starts_with("DELETE /q/messages/1 HTTP/1.1\r\n"));
        assert!(single.ends_with(r#"{"reservation_id":"a"}"#));
    }

    #[test]
    fn version_1_deletes_by_id() {
        let answer =
            r#"{"messages":[{"id":"1","body":"x","push_status":{}},{"id":"2","body":""}]}"#;
        let iron = iron(IronVersion::V1);

        assert!(deleted(&iron, answer, 10).ends_with(r#"{"ids":["1","2"]}"#));
        assert!(deleted(&iron, answer, 1).starts_with("DELETE /q/messages/1 "));
        assert!(deleted(&iron, answer, 1).ends_with("Content-Length: 0\r\n\r\n"));
    }

    #[test]
    fn posts_without_an_id_failed() {
        assert!(failed_posts(br#"{"ids":["1","2"],"msg":"x"}"#, 2).is_empty());
        assert_eq!(failed_posts(br#"{"ids":["1"]}"#, 3), [1, 2]);
        assert_eq!(failed_posts(b"", 1), [0]);
    }
}
