//! The fields of a line of the log as text. Some quote what others say, such as a server in its
//! refusal: nobody makes two lines of one, or steers the terminal of who reads them.

use std::fmt;

use tracing_subscriber::{
    field::RecordFields,
    fmt::{
        FormatFields,
        format::{DefaultFields, Writer},
    },
};

/// As usual, with control characters spelled out.
#[derive(Debug, Default)]
pub(super) struct OneLine(DefaultFields);

impl<'w> FormatFields<'w> for OneLine {
    fn format_fields<R: RecordFields>(&self, mut out: Writer<'w>, fields: R) -> fmt::Result {
        let mut text = String::new();
        self.0.format_fields(Writer::new(&mut text), fields)?;
        for character in text.chars() {
            match character.is_control() {
                true => write!(out, "{}", character.escape_default())?,
                false => out.write_char(character)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::{fmt, layer::SubscriberExt};

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_event_is_one_line_whatever_its_fields_say() {
        let lines = Lines::default();
        let writer = lines.clone();
        let layer = fmt::layer().fmt_fields(OneLine::default()).with_ansi(false);
        let layer = layer.without_time().with_writer(move || writer.clone());
        let said = "no\nERROR forged \x1b[2J\u{9b}2J\x7f é";

        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            tracing::warn!(error = %said, text = said, number = 1, "refused");
        });

        let written = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        let (line, rest) = written.split_once('\n').unwrap();
        assert_eq!(rest, "");
        assert!(!line.contains(|c: char| c.is_control()), "{line:?}");
        let shown = r#"refused error=no\nERROR forged \u{1b}[2J\u{9b}2J\u{7f} é text="no\nERROR"#;
        assert!(line.contains(shown) && line.ends_with(" number=1"), "{line}");
    }
}
