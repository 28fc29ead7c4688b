//! Query answers as JSON: the envelope of XML, absent members and empty lists as null, maps as
//! lists of pairs.

use super::json::JsonWriter;
use super::{Answer, ListNames, MapNames, Writer, describe};

pub(super) fn encode(answer: &Answer, action: &str, request_id: &str, out: &mut Vec<u8>) {
    let mut writer = QueryJsonWriter(JsonWriter { out, has_members: false });
    writer.object(|writer| {
        writer.suffixed_name(action, "Response");
        writer.object(|writer| {
            if !matches!(answer, Answer::Void) {
                writer.suffixed_name(action, "Result");
                writer.object(|writer| describe(writer, answer));
            }
            writer.0.name("ResponseMetadata");
            writer.object(|writer| writer.text("RequestId", request_id.as_bytes()));
        });
    });
}

struct QueryJsonWriter<'o>(JsonWriter<'o>);

impl QueryJsonWriter<'_> {
    fn object(&mut self, members: impl FnOnce(&mut Self)) {
        self.0.out.push(b'{');
        self.0.has_members = false;
        members(self);
        self.0.out.push(b'}');
        self.0.has_members = true;
    }

    fn array<T>(&mut self, name: &str, items: &[T], item: impl Fn(&mut Self, &T)) {
        self.0.name(name);
        self.0.out.push(b'[');
        self.0.has_members = false;
        for each in items {
            self.0.separate();
            item(self, each);
        }
        self.0.out.push(b']');
        self.0.has_members = true;
    }

    fn suffixed_name(&mut self, action: &str, suffix: &str) {
        self.0.separate();
        self.0.out.push(b'"');
        self.0.out.extend_from_slice(action.as_bytes());
        self.0.out.extend_from_slice(suffix.as_bytes());
        self.0.out.extend_from_slice(b"\":");
    }
}

impl Writer for QueryJsonWriter<'_> {
    fn text(&mut self, name: &'static str, value: &[u8]) {
        self.0.text(name, value);
    }

    fn plain(&mut self, name: &'static str, value: &[u8]) {
        self.0.plain(name, value);
    }

    fn number(&mut self, name: &'static str, value: u64) {
        self.0.number(name, value);
    }

    fn truth(&mut self, name: &'static str, value: bool) {
        self.0.truth(name, value);
    }

    fn base64(&mut self, name: &'static str, value: &[u8]) {
        self.0.base64(name, value);
    }

    fn absent(&mut self, name: &'static str) {
        self.0.name(name);
        self.0.out.extend_from_slice(b"null");
    }

    fn texts(&mut self, names: ListNames, values: &[String]) {
        self.array(names.query_json, values, |writer, value| writer.0.string(value.as_bytes()));
    }

    fn empty_list(&mut self, names: ListNames) {
        self.absent(names.query_json);
    }

    fn objects<T>(&mut self, names: ListNames, items: &[T], members: impl Fn(&mut Self, &T)) {
        if items.is_empty() {
            self.absent(names.query_json);
            return;
        }
        self.array(names.query_json, items, |writer, item| {
            writer.object(|writer| members(writer, item));
        });
    }

    fn map<K: AsRef<[u8]>, V: AsRef<str>>(&mut self, names: MapNames, pairs: &[(K, V)]) {
        if pairs.is_empty() {
            self.absent(names.json);
            return;
        }
        self.array(names.json, pairs, |writer, (key, value)| {
            writer.object(|writer| {
                writer.text(names.key, key.as_ref());
                writer.text("Value", value.as_ref().as_bytes());
            });
        });
    }

    fn object_map<T>(
        &mut self,
        names: MapNames,
        items: &[T],
        key: impl Fn(&T) -> &[u8],
        members: impl Fn(&mut Self, &T),
    ) {
        if items.is_empty() {
            self.absent(names.json);
            return;
        }
        self.array(names.json, items, |writer, item| {
            writer.object(|writer| {
                writer.text(names.key, key(item));
                writer.0.name("Value");
                writer.object(|writer| members(writer, item));
            });
        });
    }
}
