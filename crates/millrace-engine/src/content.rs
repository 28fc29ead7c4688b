//! A message's immutable content as stored in a record's payload.
//!
//! ```text
//! md5 of body (16) | body length u32 | body
//! | attributes u8 | { name length u16 | type length u16 | value length u32 | name | type | value }
//! | trace header length u16 | trace header | sender length u16 | sender
//! | deduplication id length u16 | deduplication id
//! ```
//! Integers are little-endian. The layout is part of the journal's format.

use bytes::Bytes;

/// One message attribute; `data_type` includes the custom label, `value` is raw for Binary types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute<'a> {
    pub name: &'a str,
    pub data_type: &'a str,
    pub value: &'a [u8],
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
    /// Appends the stored form to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.reserve(self.body.len() + 64);
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

/// A stored message's content; all parts share the record's buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    pub body: Bytes,
    pub body_md5: [u8; 16],
    /// Name, data type, value.
    pub attributes: Vec<(Bytes, Bytes, Bytes)>,
    pub trace_header: Bytes,
    pub sender: Bytes,
    pub deduplication_id: Bytes,
}

impl Content {
    /// Body, attribute names, types and values, as the message size limit counts them.
    pub fn size_bytes(&self) -> usize {
        let attributes = self.attributes.iter();
        let bytes = attributes.map(|(name, kind, value)| name.len() + kind.len() + value.len());
        self.body.len() + bytes.sum::<usize>()
    }

    /// Reads the stored form; `None` if it is not whole.
    pub fn decode(payload: &Bytes) -> Option<Content> {
        let mut rest = Rest { bytes: payload, at: 0 };
        let body_md5 = rest.array::<16>()?;
        let body_len = u32::from_le_bytes(rest.array()?) as usize;
        let body = rest.take(body_len)?;
        let [count] = rest.array::<1>()?;
        let mut attributes = Vec::with_capacity(usize::from(count));
        for _ in 0..count {
            let name = u16::from_le_bytes(rest.array()?);
            let data_type = u16::from_le_bytes(rest.array()?);
            let value = u32::from_le_bytes(rest.array()?);
            attributes.push((
                rest.take(usize::from(name))?,
                rest.take(usize::from(data_type))?,
                rest.take(value as usize)?,
            ));
        }
        Some(Content {
            body,
            body_md5,
            attributes,
            trace_header: rest.text()?,
            sender: rest.text()?,
            deduplication_id: rest.text()?,
        })
    }
}

struct Rest<'a> {
    bytes: &'a Bytes,
    at: usize,
}

impl Rest<'_> {
    fn take(&mut self, len: usize) -> Option<Bytes> {
        let end = self.at.checked_add(len).filter(|end| *end <= self.bytes.len())?;
        let part = if len == 0 { Bytes::new() } else { self.bytes.slice(self.at..end) };
        self.at = end;
        Some(part)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let part = self.bytes.get(self.at..)?.first_chunk::<N>()?;
        self.at += N;
        Some(*part)
    }

    fn text(&mut self) -> Option<Bytes> {
        let len = u16::from_le_bytes(self.array()?);
        self.take(usize::from(len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<u8> {
        let mut out = Vec::new();
        NewContent {
            body: "hé".as_bytes(),
            body_md5: [7; 16],
            attributes: vec![
                Attribute { name: "a", data_type: "String.x", value: b"v" },
                Attribute { name: "b", data_type: "Binary", value: &[0, 255] },
            ],
            trace_header: "Root=1",
            sender: "AIDA",
            deduplication_id: "d",
        }
        .encode(&mut out);
        out
    }

    #[test]
    fn content_round_trips() {
        let content = Content::decode(&Bytes::from(sample())).unwrap();

        assert_eq!(content.body, "hé".as_bytes());
        assert_eq!(content.attributes[1].2, &[0u8, 255][..]);
        assert_eq!(content.deduplication_id, "d");
        assert_eq!(content.attributes[0].1, "String.x");
        assert_eq!(
            (&content.trace_header[..], &content.sender[..]),
            (&b"Root=1"[..], &b"AIDA"[..])
        );
    }

    #[test]
    fn truncated_content_is_refused_at_every_length() {
        let whole = sample();
        for len in 0..whole.len() {
            assert_eq!(Content::decode(&Bytes::copy_from_slice(&whole[..len])), None, "{len}");
        }
    }
}
