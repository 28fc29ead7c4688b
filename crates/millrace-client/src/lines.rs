//! Lines of a file or of standard input, each of bounded length: a line without an end takes no
//! more memory than the limit.

use std::io::{self, BufRead, Read};

/// Lines with their numbers, from 1 on, without their line ends. Ends after the first error.
#[derive(Debug)]
pub struct Lines<R> {
    input: R,
    limit_bytes: usize,
    number: u64,
    is_over: bool,
}

/// A line that cannot be taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LineError {
    #[error("line {number} is longer than {limit_bytes} bytes")]
    TooLong { number: u64, limit_bytes: usize },
    #[error("line {number} is not UTF-8")]
    NotUtf8 { number: u64 },
    #[error("reading line {number}: {error}")]
    Unreadable { number: u64, error: io::Error },
}

impl<R: BufRead> Lines<R> {
    /// Lines of `input`, of at most `limit_bytes` each.
    pub fn new(input: R, limit_bytes: usize) -> Lines<R> {
        Lines { input, limit_bytes, number: 0, is_over: false }
    }

    fn read(&mut self) -> Result<Option<String>, LineError> {
        let (number, limit_bytes) = (self.number, self.limit_bytes);
        let mut line = Vec::new();
        // Two more for the line end.
        let most = u64::try_from(limit_bytes).unwrap_or(u64::MAX).saturating_add(2);
        let read = (&mut self.input).take(most).read_until(b'\n', &mut line);
        read.map_err(|error| LineError::Unreadable { number, error })?;
        if line.is_empty() {
            return Ok(None);
        }
        if line.last() == Some(&b'\n') {
            line.pop();
            if line.last() == Some(&b'\r') {
                line.pop();
            }
        }
        if line.len() > limit_bytes {
            return Err(LineError::TooLong { number, limit_bytes });
        }
        String::from_utf8(line).map(Some).map_err(|_| LineError::NotUtf8 { number })
    }
}

impl<R: BufRead> Iterator for Lines<R> {
    type Item = Result<(u64, String), LineError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        self.number += 1;
        let line = self.read().transpose();
        self.is_over = !matches!(line, Some(Ok(_)));
        line.map(|line| line.map(|line| (self.number, line)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[u8], limit_bytes: usize) -> Vec<Result<(u64, String), String>> {
        let lines = Lines::new(text, limit_bytes);
        lines.map(|line| line.map_err(|error| error.to_string())).collect()
    }

    #[test]
    fn lines_are_numbered_and_lose_their_ends() {
        let found = lines(b"abc\r\n\nd\re", 3);

        let expected = [(1, "abc"), (2, ""), (3, "d\re")];
        assert_eq!(found, expected.map(|(number, line)| Ok((number, line.to_owned()))));
        assert_eq!(lines(b"", 3), []);
    }

    #[test]
    fn a_line_that_is_too_long_ends_them_whether_or_not_it_has_an_end() {
        for text in [&b"a\nabcd\nb\n"[..], b"a\nabcd\r\nb", b"a\nabcd", b"a\nabcdefgh"] {
            let found = lines(text, 3);
            let error = Err("line 2 is longer than 3 bytes".to_owned());
            assert_eq!(found, [Ok((1, "a".to_owned())), error]);
        }
    }

    #[test]
    fn no_more_than_the_limit_is_read_of_a_line_without_an_end() {
        let mut endless = io::BufReader::new(io::repeat(b'a'));

        let error = Lines::new(&mut endless, 1 << 20).next().unwrap().unwrap_err();

        assert_eq!(error.to_string(), "line 1 is longer than 1048576 bytes");
    }

    #[test]
    fn what_is_not_utf_8_is_named_by_its_line() {
        let found = lines(b"a\n\xff\nb", 3);

        assert_eq!(found, [Ok((1, "a".to_owned())), Err("line 2 is not UTF-8".to_owned())]);
    }
}
