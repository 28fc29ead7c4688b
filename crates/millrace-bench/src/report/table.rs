//! Aligned tables of text, and the whole report as a terminal shows it.

use serde::Serialize;

use super::{Report, Verdict};

#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Table {
    pub(crate) title: String,
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Vec<String>>,
    /// A long one (a row for every second or position): in JSON, CSV and the page, not in a
    /// terminal.
    pub(crate) is_long: bool,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Column {
    pub(crate) name: String,
    /// Numbers stand right.
    pub(crate) is_number: bool,
}

impl Table {
    /// Columns whose names begin with `#` hold numbers.
    pub(crate) fn new(title: &str, columns: &[&str]) -> Table {
        let columns = columns.iter().map(|name| Column {
            name: name.trim_start_matches('#').to_owned(),
            is_number: name.starts_with('#'),
        });
        Table { title: title.to_owned(), columns: columns.collect(), ..Table::default() }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }
}

/// Lines of cells as lines of text; the cells of each column are equally wide.
pub(crate) fn aligned(lines: &[Vec<String>], is_right: &[bool]) -> Vec<Vec<String>> {
    let mut widths = Vec::new();
    for line in lines {
        widths.resize(widths.len().max(line.len()), 0);
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = cell.chars().count().max(*width);
        }
    }
    let pad = |line: &Vec<String>| {
        let cells = line.iter().zip(&widths).enumerate();
        cells
            .map(|(column, (cell, width))| match is_right.get(column) {
                Some(true) => format!("{cell:>width$}"),
                _ => format!("{cell:<width$}"),
            })
            .collect()
    };
    lines.iter().map(pad).collect()
}

/// The report for a terminal.
pub(crate) fn text(report: &Report) -> String {
    let mut out = format!("{}\n", report.title);
    for section in &report.sections {
        out += &format!("\n== {} ==\n", section.title);
        if let Some(reason) = &section.skipped {
            out += &format!("skipped: {reason}\n");
            continue;
        }
        for table in section.tables.iter().filter(|table| !table.is_long) {
            out += "\n";
            out += &lines(table);
        }
        if !section.finding.is_empty() {
            out += &format!("\n{}\n", section.finding);
        }
        for shape in &section.shapes {
            let verdict = match shape.verdict() {
                Verdict::Holds => "holds",
                Verdict::Noise => "noise",
                Verdict::Missed => "MISSED",
            };
            out += &format!("{verdict:<6}  {}: {}\n", shape.expected, shape.measured);
        }
        for note in &section.notes {
            out += &format!("note: {note}\n");
        }
    }
    let environment = &report.environment;
    out += &format!("\n{environment}\n");
    for warning in &report.warnings {
        out += &format!("warning: {warning}\n");
    }
    out
}

fn lines(table: &Table) -> String {
    let head: Vec<String> = table.columns.iter().map(|column| column.name.clone()).collect();
    let is_right: Vec<bool> = table.columns.iter().map(|column| column.is_number).collect();
    let all: Vec<Vec<String>> = std::iter::once(head).chain(table.rows.iter().cloned()).collect();
    let lines = aligned(&all, &is_right).into_iter();
    let lines: Vec<String> =
        lines.map(|cells| cells.join("  ").trim_end().to_owned() + "\n").collect();
    let title = if table.title.is_empty() { String::new() } else { format!("{}\n", table.title) };
    title + &lines.concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::example;

    #[test]
    fn numbers_stand_right_and_words_left() {
        let mut table = Table::new("", &["what", "#rate"]);
        table.row(["a".to_owned(), "7".to_owned()]);
        table.row(["longer".to_owned(), "1,000".to_owned()]);

        assert_eq!(lines(&table), "what     rate\na           7\nlonger  1,000\n");
    }

    #[test]
    fn a_miss_within_the_noise_is_none() {
        let mut report = example::report();
        report.sections[0].shapes.iter_mut().for_each(|shape| shape.judge(0.1));

        let shown = text(&report);

        assert!(shown.contains("noise   two are 2 × one: 1.1"), "{shown}");
    }

    #[test]
    fn a_terminal_sees_findings_shapes_and_warnings() {
        let shown = text(&example::report());

        assert!(shown.contains("== Batches =="), "{shown}");
        assert!(shown.contains("holds   batch is 3.5 × single: 6.1"), "{shown}");
        assert!(shown.contains("MISSED  two are 2 × one: 1.1"), "{shown}");
        assert!(shown.contains("skipped: no SimpleDB here"), "{shown}");
        assert!(shown.contains("warning: busy"), "{shown}");
        assert!(!shown.contains("second by second"), "{shown}");
    }
}
