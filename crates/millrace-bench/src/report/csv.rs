//! Comma-separated values: every table of a report, one after the other (RFC 4180).

use super::Report;

/// Each line begins with the section's id and the table's title, so that one file holds them all.
pub(crate) fn csv(report: &Report) -> String {
    let mut out = String::new();
    for section in &report.sections {
        for table in &section.tables {
            let head = ["section".to_owned(), "table".to_owned()].into_iter();
            line(head.chain(table.columns.iter().map(|column| column.name.clone())), &mut out);
            for row in &table.rows {
                let front = [section.id.clone(), table.title.clone()].into_iter();
                line(front.chain(row.iter().cloned()), &mut out);
            }
        }
    }
    out
}

fn line(cells: impl Iterator<Item = String>, out: &mut String) {
    let cells: Vec<String> = cells.map(quoted).collect();
    *out += &cells.join(",");
    *out += "\r\n";
}

fn quoted(cell: String) -> String {
    if cell.contains([',', '"', '\r', '\n']) {
        return format!("\"{}\"", cell.replace('"', "\"\""));
    }
    cell
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::example;

    #[test]
    fn every_table_is_there_with_its_section() {
        let text = csv(&example::report());
        let lines: Vec<_> = text.split("\r\n").collect();

        assert_eq!(lines[0], "section,table,mode,messages/s");
        assert_eq!(lines[1], "batches,,single,\"1,000\"");
        assert!(text.contains("\r\nbatches,second by second,1,500\r\n"), "{text}");
    }

    #[test]
    fn quotes_are_doubled() {
        assert_eq!(quoted("a \"b\"".to_owned()), "\"a \"\"b\"\"\"");
    }
}
