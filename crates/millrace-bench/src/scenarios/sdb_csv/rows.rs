//! The rows that are written: made-up prices of a share, or a file of comma-separated values.

use std::{
    fs::File,
    io::{BufRead, BufReader},
    path::Path,
};

use anyhow::{Context, Result, bail};
use millrace_client::lines::{LineError, Lines};

use super::Item;

/// SimpleDB: 256 attributes an item, of 1,024 bytes each.
const LINE_BYTES_MAX: usize = 1 << 20;

pub(super) fn read(path: &Path) -> Result<Vec<Item>> {
    let reading = || format!("reading {}", path.display());
    let file = File::open(path).with_context(reading)?;
    parse(BufReader::new(file)).with_context(reading)
}

/// Made-up prices of one share, the same every time: eight attributes a row.
pub(super) fn prices(rows: u64) -> Vec<Item> {
    let mut random = fastrand::Rng::with_seed(1137);
    let mut close = 25.0;
    (0..rows)
        .map(|day| {
            let open: f64 = close + random.f64() - 0.5;
            close = (open + random.f64() * 2.0 - 1.0).max(1.0);
            let (high, low) =
                (open.max(close) + random.f64(), open.min(close) - random.f64() / 2.0);
            // Working days only matter to brokers: 12 months of 28 days.
            let (year, month) = (2005 + day / 336, day / 28 % 12 + 1);
            let date = format!("{year}-{month:02}-{:02}", day % 28 + 1);
            let price = |value: f64| format!("{value:.2}");
            let values = [
                ("Ticker", "MILL".to_owned()),
                ("Date", date.clone()),
                ("Open", price(open)),
                ("High", price(high)),
                ("Low", price(low)),
                ("Close", price(close)),
                ("Volume", random.u64(1_000_000..90_000_000).to_string()),
                ("AdjustedClose", price(close * 4.0)),
            ];
            Item {
                name: format!("{date}_MILL"),
                attributes: values.map(|(name, value)| (name.to_owned(), value)).to_vec(),
            }
        })
        .collect()
}

/// A table without quotes; each row is named by its number and its first value.
fn parse(table: impl BufRead) -> Result<Vec<Item>> {
    let is_blank = |line: &Result<(u64, String), LineError>| {
        line.as_ref().is_ok_and(|(_, text)| text.trim().is_empty())
    };
    let mut lines = Lines::new(table, LINE_BYTES_MAX).filter(|line| !is_blank(line));
    let (_, head) = lines.next().context("the table is empty")??;
    let head = head.strip_prefix('\u{feff}').unwrap_or(&head);
    let names: Vec<&str> = head.split(',').map(str::trim).collect();
    let mut items = Vec::new();
    for (number, line) in lines.enumerate() {
        let (_, line) = line?;
        let values: Vec<&str> = line.split(',').map(str::trim).collect();
        if values.len() != names.len() {
            bail!("row {} has {} values, the first line {}", number + 1, values.len(), names.len());
        }
        let first = values.first().copied().unwrap_or_default();
        let pairs = names.iter().zip(&values);
        items.push(Item {
            name: format!("{:06}_{first}", number + 1),
            attributes: pairs
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
        });
    }
    if items.is_empty() {
        bail!("the table has no rows");
    }
    Ok(items)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_made_up_table_has_the_original_size_and_unique_names() {
        let items = prices(1137);
        let mut names: Vec<_> = items.iter().map(|item| &item.name).collect();
        names.dedup();

        assert_eq!((items.len(), names.len(), items[0].attributes.len()), (1137, 1137, 8));
        assert_eq!(prices(10), items[..10]);
    }

    #[test]
    fn tables_from_files_have_names_in_their_first_line() {
        let parse = |text: &str| parse(text.as_bytes());
        let items = parse("Date,Close\n2005-01-03, 9.20\n\n2005-01-04,9.30\n").unwrap();

        assert_eq!(items[1].name, "000002_2005-01-04");
        assert_eq!(items[0].attributes[1], ("Close".to_owned(), "9.20".to_owned()));
        assert!(parse("Date,Close\n2005-01-03\n").is_err());
        assert!(parse("Date\n").is_err() && parse("").is_err());
        let long = format!("a\n{}", "x".repeat(LINE_BYTES_MAX + 1));
        let error = parse(&long).unwrap_err().to_string();
        assert_eq!(error, "line 2 is longer than 1048576 bytes");
    }
}
