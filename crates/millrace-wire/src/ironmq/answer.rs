//! Answers. Clients compare headers and texts exactly: the content type is `application/json`
//! without more, nothing is compressed or without a length, lists are never null, ids are texts.

use crate::escape::json_string;
use crate::http::Response;

/// The only content type.
const CONTENT_TYPE: &str = "application/json";

/// A message as an answer shows it.
#[derive(Clone, Copy, Debug, Default)]
pub struct MessageShown<'a> {
    pub id: &'a str,
    /// UTF-8.
    pub body: &'a [u8],
    pub reserved_count: u32,
    pub reservation_id: Option<&'a str>,
    /// Version 1: seconds.
    pub timeout: Option<u32>,
    /// Version 1.
    pub status: Option<&'a str>,
}

/// A list of messages that is being written.
#[derive(Debug)]
pub struct Messages {
    out: Vec<u8>,
}

/// The answer of that status; `json` is a whole document.
pub fn answer(status: u16, json: impl Into<Vec<u8>>) -> Response {
    Response::new(status, CONTENT_TYPE, json)
}

/// `{"msg":"…"}`, which is also the form of every error.
pub fn text(status: u16, text: &str) -> Response {
    let mut out = br#"{"msg":"#.to_vec();
    json_string(&mut out, text.as_bytes());
    out.push(b'}');
    answer(status, out)
}

/// The answer to a post: the ids, in the order of the messages.
pub fn ids(status: u16, ids: impl Iterator<Item = String>) -> Response {
    let mut out = br#"{"ids":["#.to_vec();
    for (number, id) in ids.enumerate() {
        if number > 0 {
            out.push(b',');
        }
        json_string(&mut out, id.as_bytes());
    }
    out.extend_from_slice(br#"],"msg":"Messages put on queue."}"#);
    answer(status, out)
}

impl Messages {
    /// A list of about that many bytes.
    pub fn with_capacity(bytes: usize) -> Messages {
        let mut out = Vec::with_capacity(bytes + 64);
        out.extend_from_slice(br#"{"messages":["#);
        Messages { out }
    }

    /// Adds a message.
    pub fn add(&mut self, message: &MessageShown<'_>) {
        if self.out.last() == Some(&b'}') {
            self.out.push(b',');
        }
        message.write(&mut self.out);
    }

    /// The answer with the list.
    pub fn answer(mut self) -> Response {
        self.out.extend_from_slice(b"]}");
        answer(200, self.out)
    }
}

impl MessageShown<'_> {
    /// Appends the object.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(br#"{"id":"#);
        json_string(out, self.id.as_bytes());
        out.extend_from_slice(br#","body":"#);
        json_string(out, self.body);
        out.extend_from_slice(br#","reserved_count":"#);
        out.extend_from_slice(itoa::Buffer::new().format(self.reserved_count).as_bytes());
        if let Some(id) = self.reservation_id {
            out.extend_from_slice(br#","reservation_id":"#);
            json_string(out, id.as_bytes());
        }
        if let Some(timeout) = self.timeout {
            out.extend_from_slice(br#","timeout":"#);
            out.extend_from_slice(itoa::Buffer::new().format(timeout).as_bytes());
        }
        if let Some(status) = self.status {
            out.extend_from_slice(br#","status":"#);
            json_string(out, status.as_bytes());
        }
        out.push(b'}');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(response: Response) -> String {
        assert_eq!(response.content_type, "application/json");
        assert!(response.stream.is_none());
        String::from_utf8(response.body).unwrap()
    }

    #[test]
    fn lists_are_lists_and_ids_are_texts() {
        assert_eq!(body(Messages::with_capacity(0).answer()), r#"{"messages":[]}"#);
        let mut messages = Messages::with_capacity(9);
        let message = MessageShown {
            id: "12",
            body: br#"a"b"#,
            reserved_count: 3,
            reservation_id: Some("r"),
            ..MessageShown::default()
        };
        messages.add(&message);
        messages.add(&MessageShown { reservation_id: None, timeout: Some(60), ..message });

        assert_eq!(
            body(messages.answer()),
            r#"{"messages":[{"id":"12","body":"a\"b","reserved_count":3,"reservation_id":"r"},"#
                .to_owned()
                + r#"{"id":"12","body":"a\"b","reserved_count":3,"timeout":60}]}"#
        );
        assert_eq!(
            body(ids(201, ["1".to_owned(), "2".to_owned()].into_iter())),
            r#"{"ids":["1","2"],"msg":"Messages put on queue."}"#
        );
        assert_eq!(body(text(404, "Queue not found")), r#"{"msg":"Queue not found"}"#);
    }
}
