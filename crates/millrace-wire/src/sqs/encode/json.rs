//! AWS JSON 1.0: empty lists and maps and absent members are left out.

use super::{Answer, ListNames, MapNames, Writer, append_base64, describe};
use crate::escape::json_string;
use millrace_core::text::json_clean_bytes;

pub(super) struct JsonWriter<'o> {
    pub(super) out: &'o mut Vec<u8>,
    /// Whether the object being written has a member already.
    pub(super) has_members: bool,
}

pub(super) fn encode(answer: &Answer, out: &mut Vec<u8>) {
    let mut writer = JsonWriter { out, has_members: false };
    writer.object(|writer| describe(writer, answer));
}

impl JsonWriter<'_> {
    /// Starts a member. Inlined, like `text` and `plain`, so that each name is copied as a constant.
    #[inline(always)]
    pub(super) fn name(&mut self, name: &str) {
        self.separate();
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    /// A comma unless this is the first member or item.
    #[inline(always)]
    pub(super) fn separate(&mut self) {
        if self.has_members {
            self.out.push(b',');
        }
        self.has_members = true;
    }

    /// Writes an object around `members`.
    pub(super) fn object(&mut self, members: impl FnOnce(&mut Self)) {
        self.out.push(b'{');
        self.has_members = false;
        members(self);
        self.out.push(b'}');
        self.has_members = true;
    }

    /// Writes an array around `items`.
    pub(super) fn array(&mut self, items: impl FnOnce(&mut Self)) {
        self.out.push(b'[');
        self.has_members = false;
        items(self);
        self.out.push(b']');
        self.has_members = true;
    }

    pub(super) fn string(&mut self, value: &[u8]) {
        json_string(self.out, value);
    }
}

impl Writer for JsonWriter<'_> {
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
        append_base64(self.out, value);
        self.out.push(b'"');
    }

    fn absent(&mut self, _name: &'static str) {}

    fn texts(&mut self, names: ListNames, values: &[String]) {
        self.name(names.json);
        self.array(|writer| {
            for value in values {
                writer.separate();
                writer.string(value.as_bytes());
            }
        });
    }

    fn empty_list(&mut self, _names: ListNames) {}

    fn objects<T>(&mut self, names: ListNames, items: &[T], members: impl Fn(&mut Self, &T)) {
        if items.is_empty() {
            return;
        }
        self.name(names.json);
        self.array(|writer| {
            for item in items {
                writer.separate();
                writer.object(|writer| members(writer, item));
            }
        });
    }

    fn map<K: AsRef<[u8]>, V: AsRef<str>>(&mut self, names: MapNames, pairs: &[(K, V)]) {
        if pairs.is_empty() {
            return;
        }
        self.name(names.json);
        self.object(|writer| {
            for (key, value) in pairs {
                writer.separate();
                writer.string(key.as_ref());
                writer.out.push(b':');
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
            return;
        }
        self.name(names.json);
        self.object(|writer| {
            for item in items {
                writer.separate();
                writer.string(key(item));
                writer.out.push(b':');
                writer.object(|writer| members(writer, item));
            }
        });
    }
}
