//! Reads JSON as SDKs write it: objects with known members, each once, plain names.
//!
//! `None` means only that this is none of that. Whether it is JSON, and what is wrong with it, is
//! for the decoder that reads everything.

use std::borrow::Cow;

use memchr::{memchr, memchr2};
use millrace_core::text::{self, json};
use serde::Deserialize;

use super::has_bare_control;
use crate::sqs::value::{Blob, Text};

/// An integer of so many digits fits.
const DIGITS_MAX: usize = 18;

/// SQS: ten entries at most in a good batch.
const ENTRIES_MAX: usize = 10;

/// Room that an escaped text begins with.
const FIRST_BYTES: usize = 2048;

/// Bytes of text among which escapes are not looked for one by one.
const CHUNK_BYTES: usize = 32;

/// What each byte means in a string, first where no backslash is before it, then where one is. 0
/// for nothing, for the closing quote and for the long form; a backslash means nothing yet.
const MEANINGS: [[u8; 256]; 2] = {
    let mut plain = [0; 256];
    let mut byte = 0x20;
    while byte < 256 {
        plain[byte] = byte as u8;
        byte += 1;
    }
    plain[b'"' as usize] = 0;
    [plain, json::UNESCAPES]
};

/// Something whose members a scanner can read.
pub(super) trait Members<'a>: Default {
    /// Reads the value of the member `name`.
    fn read(&mut self, name: &[u8], scanner: &mut Scanner<'a>) -> Option<()>;
}

/// Bytes and how far they have been read.
pub(super) struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Scanner<'a> {
    /// The object that `bytes` are.
    pub(super) fn read_all<T: Members<'a>>(bytes: &'a [u8]) -> Option<T> {
        let mut scanner = Scanner { bytes, at: 0 };
        let mut read = T::default();
        scanner.object(&mut read)?;
        scanner.peek().is_none().then_some(read)
    }

    fn object<T: Members<'a>>(&mut self, read: &mut T) -> Option<()> {
        self.take(b'{')?;
        if self.take(b'}').is_some() {
            return Some(());
        }
        loop {
            self.take(b'"')?;
            let rest = self.rest();
            // A backslash in it makes it a name that nobody knows.
            let name = rest.get(..memchr(b'"', rest)?)?;
            self.at += name.len() + 1;
            self.take(b':')?;
            read.read(name, self)?;
            if self.take(b',').is_none() {
                return self.take(b'}');
            }
        }
    }

    /// A list of objects, as many as a batch may have.
    pub(super) fn entries<T: Members<'a>>(&mut self) -> Option<Vec<T>> {
        self.take(b'[')?;
        let mut entries = Vec::with_capacity(ENTRIES_MAX);
        while entries.len() < ENTRIES_MAX {
            entries.push(T::default());
            self.object(entries.last_mut()?)?;
            if self.take(b',').is_none() {
                return self.take(b']').map(|()| entries);
            }
        }
        None
    }

    pub(super) fn text(&mut self) -> Option<Text<'a>> {
        Some(Text(match self.string()? {
            Cow::Borrowed(bytes) => Cow::Borrowed(str::from_utf8(bytes).ok()?),
            Cow::Owned(bytes) => Cow::Owned(String::from_utf8(bytes).ok()?),
        }))
    }

    pub(super) fn blob(&mut self) -> Option<Blob<'a>> {
        self.string().map(Blob)
    }

    /// What follows is left to the object: nothing that goes on with a number ends a member.
    pub(super) fn integer(&mut self) -> Option<i64> {
        let is_negative = self.take(b'-').is_some();
        let digits = self.rest().iter().take_while(|byte| byte.is_ascii_digit());
        let (mut number, mut count) = (0, 0);
        for digit in digits.take(DIGITS_MAX) {
            number = number * 10 + i64::from(digit - b'0');
            count += 1;
        }
        // JSON knows no leading zeros.
        let is_plain = match self.rest().first()? {
            b'0' => count == 1,
            _ => count > 0,
        };
        self.at += count;
        is_plain.then_some(if is_negative { -number } else { number })
    }

    /// Any value but null, by the decoder that reads everything.
    pub(super) fn other<T: Deserialize<'a>>(&mut self) -> Option<T> {
        let rest = self.rest();
        let mut values = serde_json::Deserializer::from_slice(rest).into_iter();
        let value = values.next()?.ok()?;
        let raw = rest.get(..values.byte_offset())?;
        self.at += raw.len();
        (!has_bare_control(raw)).then_some(value)
    }

    fn string(&mut self) -> Option<Cow<'a, [u8]>> {
        self.take(b'"')?;
        let rest = self.rest();
        let clean = clean(rest)?;
        if *rest.get(clean.len())? == b'"' {
            self.at += clean.len() + 1;
            return Some(Cow::Borrowed(clean));
        }
        let (text, raw_bytes) = unescape(rest)?;
        self.at += raw_bytes;
        Some(Cow::Owned(text))
    }

    fn take(&mut self, expected: u8) -> Option<()> {
        (self.peek()? == expected).then(|| self.at += 1)
    }

    /// The next byte that is no white space.
    fn peek(&mut self) -> Option<u8> {
        loop {
            match *self.bytes.get(self.at)? {
                b' ' | b'\n' | b'\r' | b'\t' => self.at += 1,
                byte => return Some(byte),
            }
        }
    }

    fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }
}

/// What comes before the next quote or backslash, if it may stand in a string.
fn clean(rest: &[u8]) -> Option<&[u8]> {
    let clean = rest.get(..memchr2(b'"', b'\\', rest)?)?;
    (!text::has_control(clean)).then_some(clean)
}

/// The text up to the closing quote, and how far that reaches. Escapes come many together, as in
/// JSON within JSON, and then at unpredictable places: there in blocks or byte by byte, without
/// branches but for the rare long form, elsewhere in strides.
fn unescape(bytes: &[u8]) -> Option<(Vec<u8>, usize)> {
    unescape_by(bytes, json::unescape_blocks)
}

/// As [`unescape`], with what is to be tried in blocks first: nothing is, where the processor cannot.
#[inline(always)]
fn unescape_by(
    bytes: &[u8],
    unescape_blocks: impl Fn(&mut Vec<u8>, &[u8]) -> usize,
) -> Option<(Vec<u8>, usize)> {
    let mut rest = bytes;
    let mut text = Vec::with_capacity(rest.len().min(FIRST_BYTES));
    loop {
        let clean = clean(rest)?;
        text.extend_from_slice(clean);
        rest = rest.get(clean.len()..)?;
        rest = rest.get(unescape_blocks(&mut text, rest)..)?;
        loop {
            let chunk = Chunk::read(rest);
            text.extend_from_slice(chunk.text.get(..chunk.filled)?);
            rest = rest.get(chunk.read..)?;
            match chunk.end {
                End::Quote => return Some((text, bytes.len() - rest.len())),
                End::Other => {
                    let character = long_escape(&mut rest)?;
                    text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                    // Where all is written so, looking ahead each time would be in vain.
                    if !rest.starts_with(b"\\u") {
                        break;
                    }
                }
                End::Full if chunk.filled == CHUNK_BYTES => break,
                End::Full => {}
            }
        }
    }
}

/// Some bytes of a string, without their short escapes.
struct Chunk {
    text: [u8; CHUNK_BYTES],
    filled: usize,
    /// How many bytes these were.
    read: usize,
    end: End,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Full,
    /// The closing quote, read.
    Quote,
    /// Before something that is no short escape, or that may not be.
    Other,
}

impl Chunk {
    fn read(rest: &[u8]) -> Chunk {
        let mut chunk = Chunk { text: [0; CHUNK_BYTES], filled: 0, read: 0, end: End::Other };
        let mut is_escaped = false;
        for byte in rest.iter().take(CHUNK_BYTES) {
            let meaning = MEANINGS[usize::from(is_escaped)][usize::from(*byte)];
            if meaning == 0 {
                let is_quote = !is_escaped && *byte == b'"';
                chunk.end = if is_quote { End::Quote } else { End::Other };
                chunk.read += usize::from(is_quote);
                chunk.read -= usize::from(is_escaped);
                return chunk;
            }
            is_escaped = !is_escaped & (*byte == b'\\');
            chunk.text[chunk.filled % CHUNK_BYTES] = meaning;
            chunk.filled += usize::from(!is_escaped);
            chunk.read += 1;
        }
        if rest.len() >= CHUNK_BYTES {
            chunk.end = End::Full;
            chunk.read -= usize::from(is_escaped);
        }
        chunk
    }
}

/// A character of four digits, or of two times four.
fn long_escape(rest: &mut &[u8]) -> Option<char> {
    let unit = code_unit(rest)?;
    if !(0xd800..0xe000).contains(&unit) {
        return char::from_u32(u32::from(unit));
    }
    let low = code_unit(rest)?;
    char::decode_utf16([unit, low]).next()?.ok()
}

fn code_unit(rest: &mut &[u8]) -> Option<u16> {
    let (digits, behind) = rest.strip_prefix(b"\\u")?.split_first_chunk()?;
    *rest = behind;
    json::code_unit(digits)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// With what this machine does in blocks, and as where nothing is: `None` if they disagree.
    fn unescape_both(bytes: &[u8]) -> Option<Option<(Vec<u8>, usize)>> {
        let by_blocks = unescape(bytes);
        (by_blocks == unescape_by(bytes, |_, _| 0)).then_some(by_blocks)
    }

    /// The content of a string: escapes of all kinds, thick and thin.
    fn content() -> impl Strategy<Value = String> {
        const PIECES: [&str; 9] =
            ["a", "bc", "é", "\\\\", "\\\"", "\\n", "\\/", "\\u0001", "\\ud83d\\ude00"];
        let piece = prop::sample::select(&PIECES[..]).prop_map(str::to_owned);
        let piece = prop_oneof![9 => piece, 1 => "[a-z ]{30,70}"];
        prop::collection::vec(piece, 0..100).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn escapes_are_read_the_same_on_every_processor(content in content(), behind in content()) {
            let text = serde_json::from_str::<String>(&format!("\"{content}\"")).unwrap();
            let read = (text.into_bytes(), content.len() + 1);

            let bytes = format!("{content}\"{behind}");
            prop_assert_eq!(unescape_both(bytes.as_bytes()), Some(Some(read)));
        }

        #[test]
        fn strings_without_end_are_not_read_on_any_processor(content in content(), cut in 0..3_usize) {
            let bytes = content.as_bytes();
            let bytes = &bytes[..bytes.len().saturating_sub(cut)];

            prop_assert_eq!(unescape_both(bytes), Some(None));
        }
    }

    /// Wherever chunks begin and end.
    #[test]
    fn what_may_not_be_in_a_string_is_not_read_on_any_processor() {
        for wrong in ["\n", "\\x", "\\u00g0", "\\ud83d", "\\ud83da", "\\ude00"] {
            for before in 0..80 {
                for filler in ["a", "\\\\", "\\n"] {
                    let bytes = format!("{}{wrong}\\n\"", filler.repeat(before));
                    assert_eq!(unescape_both(bytes.as_bytes()), Some(None), "{bytes}");
                }
            }
        }
    }
}
