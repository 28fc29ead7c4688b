//! Requests as forms of the Query protocol: structures and lists are flat names with numbers.
//!
//! ```text
//! Action=DeleteMessageBatch&Version=2012-11-05&QueueUrl=…
//!   &DeleteMessageBatchRequestEntry.1.Id=0&DeleteMessageBatchRequestEntry.1.ReceiptHandle=…
//! ```

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use percent_encoding::percent_encode;

use super::Writer;
use crate::encoding::RESERVED;
use crate::message::{AttributeValue, MessageAttribute};

/// A form under construction.
pub(super) struct Form {
    out: Vec<u8>,
    action: &'static str,
    /// Of the structure being written, with a dot at its end.
    prefix: String,
}

impl Form {
    pub(super) fn new(action: &'static str, capacity: usize) -> Form {
        let mut out = Vec::with_capacity(capacity);
        for part in ["Action=", action, "&Version=2012-11-05"] {
            out.extend_from_slice(part.as_bytes());
        }
        Form { out, action, prefix: String::new() }
    }

    pub(super) fn end(self) -> Bytes {
        self.out.into()
    }

    fn put(&mut self, name: &str, value: &[u8]) {
        self.out.push(b'&');
        self.out.extend_from_slice(self.prefix.as_bytes());
        self.out.extend_from_slice(name.as_bytes());
        self.out.push(b'=');
        for part in percent_encode(value, RESERVED) {
            self.out.extend_from_slice(part.as_bytes());
        }
    }

    /// What `members` writes belongs to the structure `name`; numbers begin with 1.
    fn nested(&mut self, name: &str, index: usize, members: impl FnOnce(&mut Form)) {
        let outer = self.prefix.len();
        for part in [name, ".", itoa::Buffer::new().format(index + 1), "."] {
            self.prefix.push_str(part);
        }
        members(self);
        self.prefix.truncate(outer);
    }
}

impl Writer for Form {
    fn text(&mut self, name: &'static str, value: &str) {
        self.put(name, value.as_bytes());
    }

    fn number(&mut self, name: &'static str, value: u64) {
        self.put(name, itoa::Buffer::new().format(value).as_bytes());
    }

    fn texts(&mut self, name: &'static str, values: &[&str]) {
        for (index, value) in values.iter().enumerate() {
            self.put(&format!("{name}.{}", index + 1), value.as_bytes());
        }
    }

    fn attributes(&mut self, name: &'static str, attributes: &[MessageAttribute]) {
        for (index, attribute) in attributes.iter().enumerate() {
            self.nested(name, index, |form| {
                form.text("Name", &attribute.name);
                form.text("Value.DataType", &attribute.data_type);
                match &attribute.value {
                    AttributeValue::Text(text) => form.text("Value.StringValue", text),
                    AttributeValue::Binary(bytes) => {
                        form.text("Value.BinaryValue", &STANDARD.encode(bytes));
                    }
                }
            });
        }
    }

    fn entries(&mut self, count: usize, members: &dyn Fn(&mut dyn Writer, usize)) {
        let name = format!("{}RequestEntry", self.action);
        for index in 0..count {
            self.nested(&name, index, |form| {
                form.put("Id", itoa::Buffer::new().format(index).as_bytes());
                members(form, index);
            });
        }
    }
}
