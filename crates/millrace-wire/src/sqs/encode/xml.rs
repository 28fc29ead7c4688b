//! Query answers as XML: flat lists, maps as repeated pairs. Answers without output have no
//! Result element, empty results an empty one.

use super::{Answer, ListNames, MapNames, Writer, describe};
use crate::base64_text;
use crate::escape::xml_text;
use crate::protocol::ServiceName;

struct XmlWriter<'o> {
    out: &'o mut Vec<u8>,
}

pub(super) fn encode(answer: &Answer, action: &str, request_id: &str, out: &mut Vec<u8>) {
    let mut writer = XmlWriter { out };
    writer.raw("<?xml version=\"1.0\"?><");
    writer.raw(action);
    writer.raw("Response xmlns=\"");
    writer.raw(ServiceName::Sqs.xml_namespace());
    writer.raw("\">");
    if !matches!(answer, Answer::Void) {
        writer.result(answer, action);
    }
    writer.raw("<ResponseMetadata>");
    writer.text("RequestId", request_id.as_bytes());
    writer.raw("</ResponseMetadata></");
    writer.raw(action);
    writer.raw("Response>");
}

impl XmlWriter<'_> {
    fn result(&mut self, answer: &Answer, action: &str) {
        self.raw("<");
        self.raw(action);
        self.raw("Result>");
        let start = self.out.len();
        describe(self, answer);
        if self.out.len() == start {
            // Nothing inside: the open tag becomes an empty element.
            self.out.pop();
            self.raw("/>");
            return;
        }
        self.raw("</");
        self.raw(action);
        self.raw("Result>");
    }

    fn raw(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    fn element(&mut self, name: &str, content: impl FnOnce(&mut Self)) {
        self.out.push(b'<');
        self.raw(name);
        self.out.push(b'>');
        content(self);
        self.raw("</");
        self.raw(name);
        self.out.push(b'>');
    }
}

impl Writer for XmlWriter<'_> {
    fn text(&mut self, name: &'static str, value: &[u8]) {
        self.element(name, |writer| xml_text(writer.out, value));
    }

    fn plain(&mut self, name: &'static str, value: &[u8]) {
        self.element(name, |writer| writer.out.extend_from_slice(value));
    }

    fn number(&mut self, name: &'static str, value: u64) {
        self.plain(name, itoa::Buffer::new().format(value).as_bytes());
    }

    fn truth(&mut self, name: &'static str, value: bool) {
        self.plain(name, if value { b"true" } else { b"false" });
    }

    fn base64(&mut self, name: &'static str, value: &[u8]) {
        self.element(name, |writer| base64_text::append(writer.out, value));
    }

    fn absent(&mut self, _name: &'static str) {}

    fn texts(&mut self, names: ListNames, values: &[String]) {
        for value in values {
            self.text(names.xml, value.as_bytes());
        }
    }

    fn objects<T>(&mut self, names: ListNames, items: &[T], members: impl Fn(&mut Self, &T)) {
        for item in items {
            self.element(names.xml, |writer| members(writer, item));
        }
    }

    fn map<K: AsRef<[u8]>, V: AsRef<str>>(&mut self, names: MapNames, pairs: &[(K, V)]) {
        for (key, value) in pairs {
            self.element(names.xml, |writer| {
                writer.text(names.key, key.as_ref());
                writer.text("Value", value.as_ref().as_bytes());
            });
        }
    }

    fn object_map<T>(
        &mut self,
        names: MapNames,
        items: &[T],
        key: impl Fn(&T) -> &[u8],
        members: impl Fn(&mut Self, &T),
    ) {
        for item in items {
            self.element(names.xml, |writer| {
                writer.text(names.key, key(item));
                writer.element("Value", |writer| members(writer, item));
            });
        }
    }
}
