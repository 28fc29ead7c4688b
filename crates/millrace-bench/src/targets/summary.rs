//! What stands below the table: how many goals are met, and which were not judged.

use super::row::Row;

/// In quick runs nothing is judged: naming every row would say no more than the table.
const NAMED_MAX: usize = 12;

/// Counts of verdicts, and the rows that have a goal and were not judged by it.
pub(crate) fn verdicts(rows: &[Row]) -> String {
    let judged = rows.iter().filter(|row| row.faults.is_empty());
    let count = |wanted| judged.clone().filter(|row| row.is_met == Some(wanted)).count();
    let failed = rows.len() - judged.clone().count();
    let mut text = format!("{} met, {} missed", count(true), count(false));
    if failed > 0 {
        text += &format!(", {failed} failed");
    }
    let unjudged: Vec<String> = rows
        .iter()
        .filter_map(|row| Some(format!("{} ({})", row.what, row.why_unjudged()?)))
        .collect();
    match unjudged.len() {
        0 => text + ".",
        some if some > NAMED_MAX => text + &format!(", {some} not judged."),
        some => text + &format!(", {some} not judged: {}.", unjudged.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(what: &str, is_met: Option<bool>) -> Row {
        let (goal, unjudged) = ("some".to_owned(), "only with --full".to_owned());
        Row { what: what.to_owned(), goal, is_met, unjudged, ..Row::default() }
    }

    #[test]
    fn what_was_not_judged_is_named() {
        let no_goal = Row { goal: String::new(), ..row("c", None) };
        let rows = [row("a", Some(true)), row("b", None), no_goal, row("d", Some(false))];

        assert_eq!(verdicts(&rows), "1 met, 1 missed, 1 not judged: b (only with --full).");
        assert_eq!(verdicts(&rows[..1]), "1 met, 0 missed.");
    }

    #[test]
    fn a_failed_row_is_no_missed_one() {
        let failed = row("a", Some(true)).failed(vec!["1 messages lost".to_owned()]);

        assert_eq!(verdicts(&[failed]), "0 met, 0 missed, 1 failed.");
    }
}
