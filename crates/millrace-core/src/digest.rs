//! Digests exactly as SQS computes them.

use md5::{Digest, Md5};
use ring::digest::{SHA256, digest};

use crate::md5_lanes::{self, LANES};

/// MD5 of `bytes`.
pub fn md5(bytes: &[u8]) -> [u8; 16] {
    Md5::digest(bytes).into()
}

/// MD5 of each of `messages`, side by side where that is faster.
pub fn md5_of_each(messages: &[&[u8]]) -> Vec<[u8; 16]> {
    let mut digests = vec![[0; 16]; messages.len()];
    for (messages, digests) in messages.chunks(LANES).zip(digests.chunks_mut(LANES)) {
        let total: usize = messages.iter().map(|message| message.len() + 64).sum();
        let longest = messages.iter().map(|message| message.len() + 64).max().unwrap_or_default();
        if total > md5_lanes::break_even() * longest {
            md5_lanes::digests(messages, digests);
        } else {
            for (digest, message) in digests.iter_mut().zip(messages) {
                *digest = md5(message);
            }
        }
    }
    digests
}

/// MD5 of texts that begin alike: their common beginning is digested once.
#[derive(Clone, Debug)]
pub struct SharedDigest(Md5);

impl SharedDigest {
    /// Of texts that begin with `head`.
    pub fn of(head: &[u8]) -> SharedDigest {
        SharedDigest(Md5::new_with_prefix(head))
    }

    /// MD5 of the text that goes on with these parts.
    pub fn with(&self, parts: &[&[u8]]) -> [u8; 16] {
        let mut digest = self.0.clone();
        parts.iter().for_each(|part| digest.update(part));
        digest.finalize().into()
    }
}

/// SHA-256 of `bytes` as 64 lower-case hexadecimal digits: what content-based deduplication takes
/// for the MessageDeduplicationId.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex_text(digest(&SHA256, bytes).as_ref())
}

/// `bytes` as lower-case hexadecimal digits.
pub fn hex_text(bytes: &[u8]) -> String {
    bytes.iter().flat_map(|byte| hex_digits(*byte)).map(char::from).collect()
}

/// 16 bytes as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8; 16]) -> [u8; 32] {
    let mut out = [0; 32];
    for (pair, byte) in out.as_chunks_mut().0.iter_mut().zip(bytes) {
        *pair = hex_digits(*byte);
    }
    out
}

/// A byte as two lower-case hexadecimal digits. Computed instead of looked up: the compiler turns a
/// loop of this into vector instructions.
#[inline]
pub fn hex_digits(byte: u8) -> [u8; 2] {
    let digit = |nibble: u8| nibble + if nibble < 10 { b'0' } else { b'a' - 10 };
    [digit(byte >> 4), digit(byte & 15)]
}

/// MD5OfMessageAttributes and MD5OfMessageSystemAttributes: attributes are added in ascending
/// byte order of their names (developer guide, "Calculating the MD5 message digest for message
/// attributes").
#[derive(Default)]
pub struct AttributeDigest(Md5);

impl AttributeDigest {
    /// Adds one attribute. `data_type` is the full type, custom label included; `value` is the
    /// text of String and Number types, the raw bytes of Binary types.
    pub fn add(&mut self, name: &str, data_type: &str, value: &[u8]) {
        let transport = if data_type.starts_with("Binary") { 2 } else { 1 };
        self.put(name.as_bytes());
        self.put(data_type.as_bytes());
        self.0.update([transport]);
        self.put(value);
    }

    /// The digest of all that was added.
    pub fn finish(self) -> [u8; 16] {
        self.0.finalize().into()
    }

    fn put(&mut self, bytes: &[u8]) {
        self.0.update((bytes.len() as u32).to_be_bytes());
        self.0.update(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(digest: [u8; 16]) -> String {
        String::from_utf8(hex(&digest).to_vec()).unwrap()
    }

    fn attributes(list: &[(&str, &str, &[u8])]) -> String {
        let mut digest = AttributeDigest::default();
        list.iter().for_each(|(name, data_type, value)| digest.add(name, data_type, value));
        text(digest.finish())
    }

    #[test]
    fn body_digest_is_the_md5_of_its_bytes() {
        assert_eq!(text(md5("hé".as_bytes())), "33fcd01258e6ba07ef405dc9e721f3a7");
        assert_eq!(text(md5(b"Test")), "0cbc6611f5540bd0809a388dc95a615b");
    }

    #[test]
    fn texts_that_begin_alike_share_a_part_of_their_digest() {
        let bytes = [7; 200];
        for head in [0, 1, 63, 64, 65, 128, 200] {
            let (head, rest) = bytes.split_at(head);
            let (middle, end) = rest.split_at(rest.len() / 2);
            let shared = SharedDigest::of(head);
            assert_eq!(shared.with(&[middle, end]), md5(&bytes));
            assert_eq!(shared.with(&[]), md5(head));
        }
    }

    #[test]
    fn digests_side_by_side_are_the_same() {
        let bytes: Vec<u8> = (0..2000u32).map(|i| (i * 31 % 251) as u8).collect();
        let lengths = [0, 1, 55, 56, 57, 63, 64, 65, 119, 120, 127, 128, 200, 1000, 1024, 1999];
        for count in 1..=40 {
            let length = |i: usize| lengths[(i * 7 + count) % lengths.len()];
            let messages: Vec<&[u8]> =
                (0..count).map(|i| &bytes[i % 5..][..length(i).min(1990)]).collect();
            let expected: Vec<_> = messages.iter().map(|message| md5(message)).collect();
            assert_eq!(md5_of_each(&messages), expected, "{count}");
            let mut forced = vec![[0; 16]; count.min(LANES)];
            md5_lanes::digests(&messages[..count.min(LANES)], &mut forced);
            assert_eq!(forced, expected[..count.min(LANES)], "{count}");
        }
    }

    #[test]
    fn attribute_digests_match_recorded_ones() {
        assert_eq!(attributes(&[("k", "String", b"x")]), "a45daa70926828a2f0a1db3418e6feb4");
        assert_eq!(
            attributes(&[("attr1", "Number", b"99.12")]),
            "d302007e9aa062660afc85fd0a482472"
        );
        assert_eq!(
            attributes(&[
                ("General", "String", b"Kenobi"),
                ("Hello", "String", b"There"),
                ("Help.Me", "String", b"Me")
            ]),
            "4c360f3fdafd970e05fae2f149d997f5"
        );
        assert_eq!(
            attributes(&[(
                "attr1",
                "Binary",
                b"traceparent\x1e00-774062d6c37081a5a0b9b5b88e30627c-2d2482211f6489da-01"
            )]),
            "8cbe4db156db8a94db8b801b7addb984"
        );
        assert_eq!(
            attributes(&[(
                "AWSTraceHeader",
                "String",
                b"Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"
            )]),
            "5ae4d5d7636402d80f4eb6d213245a88"
        );
        assert_eq!(attributes(&[("a", "String.custom", b"v")]), "0e72954688717b3edb33ccee06593222");
    }

    #[test]
    fn content_deduplication_id_is_the_sha256_of_the_body() {
        assert_eq!(
            sha256_hex(b"Test"),
            "532eaabd9574880dbf76b9b8cc00832c20a6ec113d682299550d7a6e0f345e25"
        );
    }
}
