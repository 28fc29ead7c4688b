//! Output: lines that may lose their reader, aligned tables, questions.

use std::io::{self, BufRead, IsTerminal, Read, Write};

use anyhow::Result;

use crate::config::UsageError;
use millrace_process::visible;

/// Prints a line of data, to a terminal without what would steer it.
pub(super) fn line(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    let shown = if out.is_terminal() { visible(text) } else { text.into() };
    out.write_all(shown.as_bytes())?;
    out.write_all(b"\n")?;
    Ok(())
}

/// Returns whether an error says that nobody reads the output any more.
pub(super) fn is_closed(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<io::Error>();
    io.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// A table of aligned columns: the first to the left, what looks like numbers to the right.
pub(super) fn table(heads: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain(heads.get(column).map(|head| head.len())).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let is_numeric: Vec<bool> = (0..heads.len())
        .map(|column| {
            let mut cells = rows.iter().filter_map(|row| row.get(column));
            column > 0
                && cells.all(|cell| {
                    cell.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '+')
                })
        })
        .collect();
    let heads: Vec<String> = heads.iter().map(|head| (*head).to_owned()).collect();
    let mut out = String::new();
    for row in std::iter::once(&heads).chain(rows) {
        let mut text = String::new();
        for ((cell, width), is_numeric) in row.iter().zip(&widths).zip(&is_numeric) {
            let width = *width;
            match is_numeric {
                true => text += &format!("{cell:>width$}  "),
                false => text += &format!("{cell:<width$}  "),
            }
        }
        out += text.trim_end();
        out.push('\n');
    }
    out
}

/// More than any answer that means yes.
const ANSWER_BYTES: u64 = 64;

/// Asks before something that cannot be undone. Without a terminal there is nobody to ask.
pub(super) fn confirm(question: &str) -> Result<bool> {
    if !io::stdin().is_terminal() {
        return Err(
            UsageError(format!("{question} Give --yes to do it without being asked.")).into()
        );
    }
    eprint!("{} [y/N] ", visible(question));
    let mut answer = String::new();
    io::stdin().lock().take(ANSWER_BYTES).read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// `1 message`, `1,234 messages`.
pub(super) fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", thousands(number), if number == 1 { "" } else { "s" })
}

/// `1,234,567`.
pub(super) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `4 days`, `1 hour 30 min`, `45 s`: the two largest units.
pub(super) fn seconds(total: u64) -> String {
    let units = [(86_400, " days"), (3_600, " h"), (60, " min"), (1, " s")];
    let mut left = total;
    let mut parts = Vec::new();
    for (length, name) in units {
        let count = left / length;
        left %= length;
        if count > 0 {
            let name = if name == " days" && count == 1 { " day" } else { name };
            parts.push(format!("{count}{name}"));
        }
    }
    parts.truncate(2);
    if parts.is_empty() { "0 s".to_owned() } else { parts.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_numbers_stand_to_the_right() {
        let rows = vec![
            vec!["a".to_owned(), "1,000".to_owned(), "fifo".to_owned()],
            vec!["long-name".to_owned(), "7".to_owned(), "standard".to_owned()],
        ];

        let expected =
            "NAME       READY  TYPE\na          1,000  fifo\nlong-name      7  standard\n";
        assert_eq!(table(&["NAME", "READY", "TYPE"], &rows), expected);
    }

    #[test]
    fn durations_show_their_two_largest_units() {
        let shown = [0, 45, 90, 5_400, 345_600, 100_000].map(seconds);
        assert_eq!(shown, ["0 s", "45 s", "1 min 30 s", "1 h 30 min", "4 days", "1 day 3 h"]);
        assert_eq!(counted(1, "message"), "1 message");
        assert_eq!(counted(1_234, "message"), "1,234 messages");
        assert_eq!([0, 999, 1_234_567].map(thousands), ["0", "999", "1,234,567"]);
    }
}
