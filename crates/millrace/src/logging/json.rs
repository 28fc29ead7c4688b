//! Lines of the log in JSON, which leaves some control characters as they are: people read them too,
//! on terminals that obey.

use std::fmt::Write as _;
use std::io::{self, Write};

/// Passes lines of JSON on, one a call, with DEL and what follows ASCII's (U+0080 to U+009F) spelled
/// out. JSON has them in strings only.
pub(super) struct SpelledOut<W>(pub(super) W);

impl<W: Write> Write for SpelledOut<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let controls = str::from_utf8(line).ok().filter(|text| text.contains(is_left));
        let Some(text) = controls else { return self.0.write(line) };
        let mut out = String::with_capacity(line.len() + 16);
        for character in text.chars() {
            match character {
                _ if is_left(character) => {
                    let _ = write!(out, "\\u{:04x}", u32::from(character));
                }
                _ => out.push(character),
            }
        }
        self.0.write_all(out.as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn is_left(character: char) -> bool {
    matches!(character, '\x7f'..='\u{9f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_the_same_and_steer_no_terminal() {
        let said = "\u{9b}2J \x7f é \x1b[2J €";
        let line = format!("{}\n", serde_json::json!({ "message": said }));
        let mut out = SpelledOut(Vec::new());

        out.write_all(line.as_bytes()).unwrap();

        let text = str::from_utf8(&out.0).unwrap();
        assert_eq!(text, "{\"message\":\"\\u009b2J \\u007f é \\u001b[2J €\"}\n");
        let read: serde_json::Value = serde_json::from_str(text).unwrap();
        assert_eq!(read["message"], said);
    }
}
