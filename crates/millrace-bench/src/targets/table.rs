//! The table of targets: aligned text, Markdown or JSON.

use serde_json::{Value, json};

use super::row::Row;
use crate::report::aligned;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    Markdown,
    Json,
}

const COLUMNS: usize = 9;
const HEAD: [&str; COLUMNS] =
    ["target", "what", "measured", "of ceiling", "CPU µs", "sync µs", "generator", "goal", ""];
/// The columns that hold numbers.
const RIGHT: [bool; COLUMNS] = [false, false, true, true, true, true, true, false, false];

pub(crate) fn print(rows: &[Row], format: Format) -> String {
    if format == Format::Json {
        let rows: Vec<Value> = rows.iter().map(json).collect();
        return format!("{:#}\n", Value::from(rows));
    }
    let mut lines = vec![HEAD.map(str::to_owned)];
    lines.extend(rows.iter().map(cells));
    let lines: Vec<Vec<String>> = lines.iter().map(|line| line.to_vec()).collect();
    let mut out = String::new();
    for (index, cells) in aligned(&lines, &RIGHT).iter().enumerate() {
        match format {
            Format::Text | Format::Json => out += cells.join("  ").trim_end(),
            Format::Markdown => out += &format!("| {} |", cells.join(" | ")),
        }
        out.push('\n');
        if index == 0 && format == Format::Markdown {
            let rules = cells.iter().zip(RIGHT).map(|(cell, is_right)| {
                let end = if is_right { ":" } else { "-" };
                format!("{}{end}", "-".repeat(cell.chars().count() + 1))
            });
            out += &format!("|{}|\n", rules.collect::<Vec<_>>().join("|"));
        }
    }
    out
}

fn json(row: &Row) -> Value {
    json!({
        "target": row.target, "what": row.what, "measured": row.measured,
        "of_ceiling": row.ratio, "cpu_us": row.cpu_us, "sync_us": row.sync_us,
        "generator": row.generator,
        "goal": row.goal, "is_met": row.is_met, "unjudged": row.why_unjudged(), "faults": row.faults,
    })
}

fn cells(row: &Row) -> [String; COLUMNS] {
    [
        row.target.to_owned(),
        row.what.clone(),
        row.measured.clone(),
        row.ratio.map(|ratio| format!("{ratio:.2}")).unwrap_or_default(),
        row.cpu_us.map(|cpu| format!("{cpu:.1}")).unwrap_or_default(),
        row.sync_us.map(|sync| format!("{sync:.0}")).unwrap_or_default(),
        row.generator.map(|share| format!("{share:.2}")).unwrap_or_default(),
        row.goal.clone(),
        row.verdict(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Row> {
        let row = Row {
            target: "2",
            what: "send".to_owned(),
            measured: "9,000/s".to_owned(),
            ratio: Some(0.512),
            cpu_us: None,
            sync_us: Some(90.2),
            generator: Some(0.87),
            goal: "≥ 0.5".to_owned(),
            is_met: Some(true),
            ..Row::default()
        };
        vec![row.clone(), Row { what: "send in tens".to_owned(), is_met: Some(false), ..row }]
    }

    #[test]
    fn columns_are_aligned() {
        let text = print(&rows(), Format::Text);

        let starts: Vec<_> = text.lines().skip(1).map(|line| line.find('≥').unwrap()).collect();
        assert_eq!(starts[0], starts[1]);
        assert!(text.lines().nth(1).unwrap().ends_with("met"));
        assert!(text.lines().nth(2).unwrap().ends_with("missed"));
    }

    #[test]
    fn markdown_has_a_rule_below_its_head() {
        let text = print(&rows(), Format::Markdown);
        let lines: Vec<_> = text.lines().collect();

        assert!(lines[0].starts_with("| target |") && lines[1].starts_with("|--"));
        assert!(lines.iter().all(|line| line.matches('|').count() == COLUMNS + 1));
        assert!(lines[2].contains("|  0.51 |") || lines[2].contains(" 0.51 |"));
    }

    #[test]
    fn json_keeps_numbers() {
        let rows: Value = serde_json::from_str(&print(&rows(), Format::Json)).unwrap();

        assert_eq!((&rows[0]["of_ceiling"], &rows[1]["is_met"]), (&0.512.into(), &false.into()));
    }
}
