//! Chunked bodies, decoded as they come in.

use super::{
    buffer::ReadBuffer,
    head::{BARE_LF, Refusal},
};

/// A chunk's size with its extensions, which are ignored.
const MAX_CHUNK_LINE_BYTES: usize = 4 * 1024;

/// One chunked body being decoded.
///
/// ```text
/// Size ──size > 0──► Data ──all of it──► DataEnd ──CRLF──► Size
///   └────size = 0──► Trailers ──empty line──► Done
/// ```
#[derive(Debug)]
pub(crate) struct Chunked {
    pub(crate) body: Vec<u8>,
    max_bytes: usize,
    max_trailer_bytes: usize,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Size,
    Data { left: usize },
    DataEnd,
    Trailers,
    Done,
}

impl Chunked {
    pub(crate) fn new(max_bytes: usize, max_trailer_bytes: usize) -> Chunked {
        Chunked { body: Vec::new(), max_bytes, max_trailer_bytes, state: State::Size }
    }

    /// Takes what it can from the bytes after the head. Whether the body is complete.
    pub(crate) fn decode(
        &mut self,
        buffer: &mut ReadBuffer,
        head_bytes: usize,
    ) -> Result<bool, Refusal> {
        let mut used = 0;
        let bytes = &buffer.unread()[head_bytes..];
        while self.state != State::Done {
            match self.step(&bytes[used..])? {
                Some(taken) => used += taken,
                None => break,
            }
        }
        buffer.cut(head_bytes..head_bytes + used);
        Ok(self.state == State::Done)
    }

    /// Takes one piece from the front of `bytes`; `None` means that more bytes are needed.
    fn step(&mut self, bytes: &[u8]) -> Result<Option<usize>, Refusal> {
        match self.state {
            State::Size => self.size(bytes),
            State::Data { left } => {
                let taken = left.min(bytes.len());
                self.body.extend_from_slice(&bytes[..taken]);
                self.state = match left - taken {
                    0 => State::DataEnd,
                    left => State::Data { left },
                };
                Ok((taken > 0).then_some(taken))
            }
            State::DataEnd => match bytes {
                [b'\r', b'\n', ..] => {
                    self.state = State::Size;
                    Ok(Some(2))
                }
                [] | [b'\r'] => Ok(None),
                _ => Err(Refusal::Malformed("chunk does not end where it says")),
            },
            State::Trailers => self.trailers(bytes),
            State::Done => Ok(None),
        }
    }

    fn size(&mut self, bytes: &[u8]) -> Result<Option<usize>, Refusal> {
        const BAD: Refusal = Refusal::Malformed("malformed chunk size");
        // httparse takes an empty size for 0, which would end the body early.
        if bytes.first().is_some_and(|byte| !byte.is_ascii_hexdigit()) {
            return Err(BAD);
        }
        // Nor does it mind a bare LF in an extension, where others see the line's end.
        let line_end = bytes.iter().position(|byte| *byte == b'\n');
        if line_end.is_some_and(|at| at == 0 || bytes[at - 1] != b'\r') {
            return Err(BAD);
        }
        match httparse::parse_chunk_size(bytes) {
            Ok(httparse::Status::Complete((taken, size))) => {
                let size = usize::try_from(size).map_err(|_| BAD)?;
                if size > self.max_bytes - self.body.len() {
                    return Err(Refusal::BodyTooLarge);
                }
                self.state = match size {
                    0 => State::Trailers,
                    left => State::Data { left },
                };
                Ok(Some(taken))
            }
            Ok(httparse::Status::Partial) if bytes.len() > MAX_CHUNK_LINE_BYTES => Err(BAD),
            Ok(httparse::Status::Partial) => Ok(None),
            Err(_) => Err(BAD),
        }
    }

    fn trailers(&mut self, bytes: &[u8]) -> Result<Option<usize>, Refusal> {
        let mut slots = [httparse::EMPTY_HEADER; 32];
        match httparse::parse_headers(bytes, &mut slots) {
            Ok(httparse::Status::Complete((taken, _))) => {
                let mut lines = bytes[..taken].split_inclusive(|byte| *byte == b'\n');
                if lines.any(|line| !line.ends_with(b"\r\n")) {
                    return Err(BARE_LF);
                }
                self.state = State::Done;
                Ok(Some(taken))
            }
            Ok(httparse::Status::Partial) if bytes.len() > self.max_trailer_bytes => {
                Err(Refusal::HeadTooLarge)
            }
            Ok(httparse::Status::Partial) => Ok(None),
            Err(_) => Err(Refusal::Malformed("malformed trailers")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(pieces: &[&[u8]], max_bytes: usize) -> Result<Option<Vec<u8>>, Refusal> {
        let mut buffer = ReadBuffer::default();
        let mut chunked = Chunked::new(max_bytes, 1024);
        for piece in pieces {
            buffer.append(piece);
            if chunked.decode(&mut buffer, 0)? {
                return Ok(Some(chunked.body));
            }
        }
        Ok(None)
    }

    #[test]
    fn body_is_the_same_however_it_is_cut() {
        let whole = b"4;x=y\r\nWiki\r\n6\r\npedia \r\nE\r\nin \r\n\r\nchunks.\r\n0\r\nA: b\r\n\r\n";

        for at in 0..whole.len() {
            let body = decode(&[&whole[..at], &whole[at..]], 100).unwrap().unwrap();

            assert_eq!(body, b"Wikipedia in \r\n\r\nchunks.", "{at}");
        }
    }

    #[test]
    fn malformed_chunks_are_refused() {
        for bytes in [
            &b"x\r\n"[..],
            b"4\r\nWikiX",
            b"\r\n",
            b"-1\r\n",
            b"2;\nx\r\n",
            b"0\r\n\n",
            b"0\r\nA: b\n\r\n",
            b"0\r\nA: b\r\n\n",
            b"11111111111111111\r\n",
        ] {
            assert!(matches!(decode(&[bytes], 100), Err(Refusal::Malformed(_))), "{bytes:?}");
        }
    }

    #[test]
    fn body_over_the_limit_is_refused_before_it_is_read() {
        assert_eq!(decode(&[b"5\r\n"], 4), Err(Refusal::BodyTooLarge));
        assert_eq!(decode(&[b"3\r\nabc\r\n2\r\n"], 4), Err(Refusal::BodyTooLarge));
    }

    #[test]
    fn lines_without_end_are_refused_once_they_are_too_long() {
        let size = |bytes: usize| [&b"1;"[..], &vec![b'x'; bytes - 2]].concat();
        assert_eq!(decode(&[&size(MAX_CHUNK_LINE_BYTES)], 100), Ok(None));
        let refused = decode(&[&size(MAX_CHUNK_LINE_BYTES + 1)], 100);
        assert!(matches!(refused, Err(Refusal::Malformed(_))), "{refused:?}");

        let trailers = |bytes: usize| [&b"0\r\nA: "[..], &vec![b'x'; bytes - 3]].concat();
        assert_eq!(decode(&[&trailers(1024)], 100), Ok(None));
        assert_eq!(decode(&[&trailers(1025)], 100), Err(Refusal::HeadTooLarge));
    }
}
