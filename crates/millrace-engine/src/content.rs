//! A message's immutable content as stored in a record's payload.
//!
//! ```text
//! md5 of body (16) | body length u32 | body
//! | attributes u8 | { name length u16 | type length u16 | value length u32 | name | type | value }
//! | trace header length u16 | trace header | sender length u16 | sender
//! | deduplication id length u16 | deduplication id
//! ```
//! Integers are little-endian. The layout is part of the journal's format, and of version 0: a
//! record says of which version its content is, so that others may be stored in another way.

use std::ops::Range;

use bytes::{Buf, Bytes};

/// One message attribute; `data_type` includes the custom label, `value` is raw for Binary types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute<'a> {
    pub name: &'a str,
    pub data_type: &'a str,
    pub value: &'a [u8],
}

/// The format of a stored content: part of the record that holds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContentVersion {
    /// The layout above, as it is.
    #[default]
    Plain = 0,
}

impl ContentVersion {
    /// The version that a record names; `None` if only later versions of the server know it.
    pub fn known(version: u8) -> Option<ContentVersion> {
        (version == ContentVersion::Plain as u8).then_some(ContentVersion::Plain)
    }
}

/// A content in its stored form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredContent<'a> {
    pub version: ContentVersion,
    /// The record's payload.
    pub bytes: &'a [u8],
}

impl<'a> StoredContent<'a> {
    /// What [`NewContent::encode`] has written.
    pub fn plain(bytes: &'a [u8]) -> StoredContent<'a> {
        StoredContent { version: ContentVersion::Plain, bytes }
    }
}

/// The content of a message about to be sent.
#[derive(Clone, Debug, Default)]
pub struct NewContent<'a> {
    /// UTF-8.
    pub body: &'a [u8],
    pub body_md5: [u8; 16],
    /// In ascending order of name.
    pub attributes: Vec<Attribute<'a>>,
    /// AWSTraceHeader, empty if none.
    pub trace_header: &'a str,
    /// SenderId.
    pub sender: &'a str,
    /// MessageDeduplicationId as given or computed, empty on standard queues.
    pub deduplication_id: &'a str,
}

impl NewContent<'_> {
    /// Bytes of the stored form.
    pub fn encoded_bytes(&self) -> usize {
        let attributes = self.attributes.iter();
        let attributes = attributes.map(|a| 8 + a.name.len() + a.data_type.len() + a.value.len());
        let texts = [self.trace_header, self.sender, self.deduplication_id];
        let texts: usize = texts.iter().map(|text| 2 + text.len()).sum();
        16 + 4 + self.body.len() + 1 + attributes.sum::<usize>() + texts
    }

    /// Appends the stored form to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.reserve(self.encoded_bytes());
        out.extend_from_slice(&self.body_md5);
        out.extend_from_slice(&(self.body.len() as u32).to_le_bytes());
        out.extend_from_slice(self.body);
        out.push(self.attributes.len() as u8);
        for attribute in &self.attributes {
            out.extend_from_slice(&(attribute.name.len() as u16).to_le_bytes());
            out.extend_from_slice(&(attribute.data_type.len() as u16).to_le_bytes());
            out.extend_from_slice(&(attribute.value.len() as u32).to_le_bytes());
            out.extend_from_slice(attribute.name.as_bytes());
            out.extend_from_slice(attribute.data_type.as_bytes());
            out.extend_from_slice(attribute.value);
        }
        for text in [self.trace_header, self.sender, self.deduplication_id] {
            out.extend_from_slice(&(text.len() as u16).to_le_bytes());
            out.extend_from_slice(text.as_bytes());
        }
    }
}

/// A stored message's content: the record's payload, and where its parts are in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    stored: Bytes,
    body_md5: [u8; 16],
    body: Part,
    /// Name, data type, value.
    attributes: Vec<[Part; 3]>,
    trace_header: Part,
    sender: Part,
    deduplication_id: Part,
}

type Part = Range<usize>;

impl Content {
    /// Reads the stored form; `None` if it is not whole.
    pub fn decode(version: ContentVersion, stored: Bytes) -> Option<Content> {
        match version {
            ContentVersion::Plain => Content::decode_plain(stored),
        }
    }

    fn decode_plain(stored: Bytes) -> Option<Content> {
        let mut rest = Rest { bytes: &stored, at: 0 };
        let body_md5 = rest.array::<16>()?;
        let body_len = u32::from_le_bytes(rest.array()?);
        let body = rest.take(body_len as usize)?;
        let [count] = rest.array::<1>()?;
        let mut attributes = Vec::with_capacity(usize::from(count));
        for _ in 0..count {
            let name = u16::from_le_bytes(rest.array()?);
            let data_type = u16::from_le_bytes(rest.array()?);
            let value = u32::from_le_bytes(rest.array()?);
            attributes.push([
                rest.take(usize::from(name))?,
                rest.take(usize::from(data_type))?,
                rest.take(value as usize)?,
            ]);
        }
        let (trace_header, sender, deduplication_id) = (rest.text()?, rest.text()?, rest.text()?);
        Some(Content { stored, body_md5, body, attributes, trace_header, sender, deduplication_id })
    }

    /// The stored form.
    pub fn stored(&self) -> StoredContent<'_> {
        StoredContent::plain(&self.stored)
    }

    /// UTF-8.
    pub fn body(&self) -> &[u8] {
        self.part(&self.body)
    }

    /// The body alone, in the same buffer.
    pub fn into_body(mut self) -> Bytes {
        self.stored.truncate(self.body.end);
        self.stored.advance(self.body.start);
        self.stored
    }

    pub fn body_md5(&self) -> [u8; 16] {
        self.body_md5
    }

    /// Name, data type and value, in ascending order of name; UTF-8 but for Binary values.
    pub fn attributes(&self) -> impl Iterator<Item = [&[u8]; 3]> {
        self.attributes.iter().map(|parts| parts.each_ref().map(|part| self.part(part)))
    }

    /// AWSTraceHeader, empty if there is none.
    pub fn trace_header(&self) -> &[u8] {
        self.part(&self.trace_header)
    }

    /// SenderId.
    pub fn sender(&self) -> &[u8] {
        self.part(&self.sender)
    }

    /// MessageDeduplicationId as given or computed, empty on standard queues.
    pub fn deduplication_id(&self) -> &[u8] {
        self.part(&self.deduplication_id)
    }

    /// The attributes whose names are wanted, as parts of the stored buffer.
    pub fn shared_attributes(
        &self,
        is_wanted: impl Fn(&[u8]) -> bool,
    ) -> impl Iterator<Item = [Bytes; 3]> {
        let wanted = self.attributes.iter().filter(move |[name, ..]| is_wanted(self.part(name)));
        wanted.map(|parts| parts.each_ref().map(|part| self.stored.slice(part.clone())))
    }

    /// Body, attribute names, types and values, as the message size limit counts them.
    pub fn size_bytes(&self) -> usize {
        let attributes = self.attributes.iter().flatten();
        self.body.len() + attributes.map(ExactSizeIterator::len).sum::<usize>()
    }

    fn part(&self, part: &Part) -> &[u8] {
        &self.stored[part.clone()]
    }
}

struct Rest<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Rest<'_> {
    fn take(&mut self, len: usize) -> Option<Part> {
        let start = self.at;
        self.at = start.checked_add(len).filter(|end| *end <= self.bytes.len())?;
        Some(start..self.at)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let part = self.bytes.get(self.at..)?.first_chunk::<N>()?;
        self.at += N;
        Some(*part)
    }

    fn text(&mut self) -> Option<Part> {
        let len = u16::from_le_bytes(self.array()?);
        self.take(usize::from(len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<u8> {
        let mut out = Vec::new();
        let new = NewContent {
            body: "hé".as_bytes(),
            body_md5: [7; 16],
            attributes: vec![
                Attribute { name: "a", data_type: "String.x", value: b"v" },
                Attribute { name: "b", data_type: "Binary", value: &[0, 255] },
            ],
            trace_header: "Root=1",
            sender: "AIDA",
            deduplication_id: "d",
        };
        new.encode(&mut out);
        assert_eq!(out.len(), new.encoded_bytes());
        out
    }

    #[test]
    fn content_round_trips() {
        let content = Content::decode(ContentVersion::Plain, Bytes::from(sample())).unwrap();

        assert_eq!((content.body(), content.body_md5()), ("hé".as_bytes(), [7; 16]));
        let expected: [[&[u8]; 3]; 2] = [[b"a", b"String.x", b"v"], [b"b", b"Binary", &[0, 255]]];
        assert_eq!(content.attributes().collect::<Vec<_>>(), expected);
        let mut shared = content.shared_attributes(|name| name == b"b");
        assert_eq!(shared.next().unwrap(), [&b"b"[..], b"Binary", &[0, 255]]);
        assert_eq!(shared.next(), None);
        drop(shared);
        assert_eq!((content.trace_header(), content.sender()), (&b"Root=1"[..], &b"AIDA"[..]));
        assert_eq!(content.deduplication_id(), b"d");
        assert_eq!(content.size_bytes(), 3 + 10 + 9);
        assert_eq!(content.into_body(), "hé".as_bytes());
    }

    #[test]
    fn truncated_content_is_refused_at_every_length() {
        let whole = sample();
        for len in 0..whole.len() {
            let part = Bytes::copy_from_slice(&whole[..len]);
            assert_eq!(Content::decode(ContentVersion::Plain, part), None, "{len}");
        }
    }
}
