//! Requests as JSON.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use millrace_wire::json_string;

use super::Writer;
use crate::message::{AttributeValue, MessageAttribute};

/// An object under construction.
pub(super) struct Object {
    out: Vec<u8>,
    /// Whether the object being written has a member already.
    has_members: bool,
}

impl Object {
    pub(super) fn new(capacity: usize) -> Object {
        let mut out = Vec::with_capacity(capacity);
        out.push(b'{');
        Object { out, has_members: false }
    }

    pub(super) fn end(mut self) -> Bytes {
        self.out.push(b'}');
        self.out.into()
    }

    fn name(&mut self, name: &str, plural: &str) {
        if self.has_members {
            self.out.push(b',');
        }
        self.has_members = true;
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(plural.as_bytes());
        self.out.extend_from_slice(b"\":");
    }
}

impl Writer for Object {
    fn text(&mut self, name: &'static str, value: &str) {
        self.name(name, "");
        json_string(&mut self.out, value.as_bytes());
    }

    fn number(&mut self, name: &'static str, value: u64) {
        self.name(name, "");
        self.out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
    }

    fn texts(&mut self, name: &'static str, values: &[&str]) {
        self.name(name, "s");
        self.out.push(b'[');
        for (index, value) in values.iter().enumerate() {
            if index > 0 {
                self.out.push(b',');
            }
            json_string(&mut self.out, value.as_bytes());
        }
        self.out.push(b']');
    }

    fn attributes(&mut self, name: &'static str, attributes: &[MessageAttribute]) {
        self.name(name, "s");
        self.out.push(b'{');
        for (index, attribute) in attributes.iter().enumerate() {
            if index > 0 {
                self.out.push(b',');
            }
            json_string(&mut self.out, attribute.name.as_bytes());
            self.out.extend_from_slice(b":{");
            self.has_members = false;
            self.text("DataType", &attribute.data_type);
            match &attribute.value {
                AttributeValue::Text(text) => self.text("StringValue", text),
                AttributeValue::Binary(bytes) => self.text("BinaryValue", &STANDARD.encode(bytes)),
            }
            self.out.push(b'}');
        }
        self.out.push(b'}');
        self.has_members = true;
    }

    fn entries(&mut self, count: usize, members: &dyn Fn(&mut dyn Writer, usize)) {
        self.name("Entries", "");
        self.out.push(b'[');
        for index in 0..count {
            if index > 0 {
                self.out.push(b',');
            }
            self.out.extend_from_slice(b"{\"Id\":\"");
            self.out.extend_from_slice(itoa::Buffer::new().format(index).as_bytes());
            self.out.push(b'"');
            self.has_members = true;
            members(self, index);
            self.out.push(b'}');
        }
        self.out.push(b']');
        self.has_members = true;
    }
}
