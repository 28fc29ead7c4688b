//! Entry point for fuzzing: any bytes go in, and however they are cut the same comes out.

use super::{
    body::Chunked,
    buffer::ReadBuffer,
    head::{self, BodyLength, Framing, Headers},
};

/// Bounds on heads and trailers depend on how far a client has come; no input reaches them.
const MAX_INPUT_BYTES: usize = 1024;

/// The first byte says how many bytes come at a time, the rest is a request.
pub fn http1(input: &[u8]) {
    let Some((first, bytes)) = input.split_first() else { return };
    if bytes.len() > MAX_INPUT_BYTES {
        return;
    }
    let at_a_time = usize::from(*first).max(1);
    let Some(framing) = framing(bytes) else { return };
    check_head(bytes, framing.head_bytes, at_a_time);
    if framing.body == BodyLength::Chunked {
        let body = bytes.get(framing.head_bytes..).unwrap_or_default();
        let Some(whole) = chunked(body, bytes.len().max(1)) else { return };
        assert_eq!(Some(whole), chunked(body, at_a_time), "the body depends on how it came");
    }
}

fn framing(bytes: &[u8]) -> Option<Framing> {
    let parsed = head::parse(bytes, &mut Headers::new());
    parsed.ok().flatten().map(|head| head.framing)
}

/// What a server finds that looks again only when a head may have ended.
fn check_head(bytes: &[u8], head_bytes: usize, at_a_time: usize) {
    let mut seen = 0;
    while seen < bytes.len() {
        let come = bytes.len().min(seen + at_a_time);
        let so_far = bytes.get(..come).unwrap_or_default();
        if head::may_end(so_far, seen)
            && let Some(framing) = framing(so_far)
        {
            assert_eq!(framing.head_bytes, head_bytes, "the head depends on how it came");
            assert!(head_bytes > seen, "the end of the head was overlooked");
            return;
        }
        seen = come;
    }
    panic!("the head was not found");
}

/// The body; None: refused, or not complete.
fn chunked(bytes: &[u8], at_a_time: usize) -> Option<Vec<u8>> {
    let mut buffer = ReadBuffer::default();
    let mut chunked = Chunked::new(MAX_INPUT_BYTES, MAX_INPUT_BYTES);
    for piece in bytes.chunks(at_a_time) {
        buffer.append(piece);
        if chunked.decode(&mut buffer, 0).ok()? {
            return Some(chunked.body);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    fn nearly_good() -> impl Strategy<Value = Vec<u8>> {
        let piece = proptest::sample::select(
            &[
                "POST / HTTP/1.1\r\n",
                "GET /?a=b HTTP/1.0\r\n",
                "Host: h\r\n",
                "Host: h\n",
                "Transfer-Encoding: chunked\r\n",
                "Content-Length: 3\r\n",
                "\r\n",
                "\n",
                "4\r\nWiki\r\n",
                "0\r\n",
                "A: b\r\n",
                "3;x=y\r\n",
                "\r",
            ][..],
        );
        (any::<u8>(), proptest::collection::vec(piece, 0..12)).prop_map(|(first, pieces)| {
            let mut input = vec![first];
            input.extend(pieces.concat().into_bytes());
            input
        })
    }

    proptest! {
        #[test]
        fn however_a_request_is_cut_it_is_the_same(input in nearly_good()) {
            super::http1(&input);
        }

        #[test]
        fn random_bytes_never_panic(input: Vec<u8>) {
            super::http1(&input);
        }
    }
}
