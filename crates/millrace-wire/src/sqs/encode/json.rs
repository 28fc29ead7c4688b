//! Both forms of JSON: AWS JSON 1.0, in which empty lists and maps and absent members are left out,
//! and Query answers as JSON, with the envelope of XML, null for what is absent or empty, and maps
//! as lists of pairs.

use super::{Answer, ListNames, MapNames, Writer, describe};
use crate::base64_text;
use crate::escape::json_string;
use millrace_core::text::json_clean_bytes;

pub(super) fn encode(answer: &Answer, out: &mut Vec<u8>) {
    let mut writer = JsonWriter::<false> { out, has_members: false };
    writer.object(|writer| describe(writer, answer));
}

pub(super) fn encode_of_query(answer: &Answer, action: &str, request_id: &str, out: &mut Vec<u8>) {
    let mut writer = JsonWriter::<true> { out, has_members: false };
    writer.object(|writer| {
        writer.key(format!("{action}Response").as_bytes());
        writer.object(|writer| {
            if !matches!(answer, Answer::Void) {
                writer.key(format!("{action}Result").as_bytes());
                writer.object(|writer| describe(writer, answer));
            }
            writer.name("ResponseMetadata");
            writer.object(|writer| writer.text("RequestId", request_id.as_bytes()));
        });
    });
}

struct JsonWriter<'o, const OF_QUERY: bool> {
    out: &'o mut Vec<u8>,
    /// Whether the object being written has a member already.
    has_members: bool,
}

impl<const OF_QUERY: bool> JsonWriter<'_, OF_QUERY> {
    /// Starts a member. Inlined, like `text`, `plain` and `absent`, so that each name is copied as
    /// a constant.
    #[inline(always)]
    fn name(&mut self, name: &str) {
        self.separate();
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    /// Starts a member whose name may need escapes.
    fn key(&mut self, key: &[u8]) {
        self.separate();
        self.string(key);
        self.out.push(b':');
    }

    /// A comma unless this is the first member or item.
    #[inline(always)]
    fn separate(&mut self) {
        if self.has_members {
            self.out.push(b',');
        }
        self.has_members = true;
    }

    /// Writes an object around `members`.
    fn object(&mut self, members: impl FnOnce(&mut Self)) {
        self.out.push(b'{');
        self.has_members = false;
        members(self);
        self.out.push(b'}');
        self.has_members = true;
    }

    fn list<T>(&mut self, name: &str, items: &[T], item: impl Fn(&mut Self, &T)) {
        self.name(name);
        self.out.push(b'[');
        self.has_members = false;
        for each in items {
            self.separate();
            item(self, each);
        }
        self.out.push(b']');
        self.has_members = true;
    }

    fn list_name(names: ListNames) -> &'static str {
        if OF_QUERY { names.query_json } else { names.json }
    }

    fn string(&mut self, value: &[u8]) {
        json_string(self.out, value);
    }
}

impl<const OF_QUERY: bool> Writer for JsonWriter<'_, OF_QUERY> {
    #[inline(always)]
    fn text(&mut self, name: &'static str, value: &[u8]) {
        self.name(name);
        self.string(value);
    }

    #[inline(always)]
    fn plain(&mut self, name: &'static str, value: &[u8]) {
        debug_assert_eq!(json_clean_bytes(value), value.len(), "{name} needs an escape");
        self.name(name);
        self.out.push(b'"');
        self.out.extend_from_slice(value);
        self.out.push(b'"');
    }

    fn number(&mut self, name: &'static str, value: u64) {
        self.name(name);
        self.out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
    }

    fn truth(&mut self, name: &'static str, value: bool) {
        self.name(name);
        self.out.extend_from_slice(if value { b"true" } else { b"false" });
    }

    fn base64(&mut self, name: &'static str, value: &[u8]) {
        self.name(name);
        self.out.push(b'"');
        base64_text::append(self.out, value);
        self.out.push(b'"');
    }

    #[inline(always)]
    fn absent(&mut self, name: &'static str) {
        if OF_QUERY {
            self.name(name);
            self.out.extend_from_slice(b"null");
        }
    }

    fn texts(&mut self, names: ListNames, values: &[String]) {
        self.list(Self::list_name(names), values, |writer, text| writer.string(text.as_bytes()));
    }

    fn objects<T>(&mut self, names: ListNames, items: &[T], members: impl Fn(&mut Self, &T)) {
        let name = Self::list_name(names);
        if items.is_empty() {
            return self.absent(name);
        }
        self.list(name, items, |writer, item| writer.object(|writer| members(writer, item)));
    }

    fn map<K: AsRef<[u8]>, V: AsRef<str>>(&mut self, names: MapNames, pairs: &[(K, V)]) {
        if pairs.is_empty() {
            return self.absent(names.json);
        }
        if OF_QUERY {
            return self.list(names.json, pairs, |writer, (key, value)| {
                writer.object(|writer| {
                    writer.text(names.key, key.as_ref());
                    writer.text("Value", value.as_ref().as_bytes());
                });
            });
        }
        self.name(names.json);
        self.object(|writer| {
            for (key, value) in pairs {
                writer.key(key.as_ref());
                writer.string(value.as_ref().as_bytes());
            }
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
            return self.absent(names.json);
        }
        if OF_QUERY {
            return self.list(names.json, items, |writer, item| {
                writer.object(|writer| {
                    writer.text(names.key, key(item));
                    writer.name("Value");
                    writer.object(|writer| members(writer, item));
                });
            });
        }
        self.name(names.json);
        self.object(|writer| {
            for item in items {
                writer.key(key(item));
                writer.object(|writer| members(writer, item));
            }
        });
    }
}
