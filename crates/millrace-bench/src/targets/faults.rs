//! What goes wrong while something is measured, and which rows that speaks against.
//!
//! A fault is held against every row that is added after it and before the next measurement begins:
//! one run may be behind several rows. Nothing that was noted is ever forgotten by [`Faults::all`].

/// Longer ones are cut: an answer of the server may be in them.
const LENGTH_MAX: usize = 200;

#[derive(Debug, Default)]
pub(crate) struct Faults {
    all: Vec<String>,
    /// Of the measurements behind the next row.
    fresh: Vec<String>,
    /// A row has told of the fresh ones, and another may.
    are_told: bool,
}

impl Faults {
    /// Something is measured from here on.
    pub(crate) fn begin(&mut self) {
        if std::mem::take(&mut self.are_told) {
            self.fresh.clear();
        }
    }

    pub(crate) fn note(&mut self, fault: &str) {
        // A cell of a table holds it.
        let line: String =
            fault.chars().map(|char| if matches!(char, '\n' | '|') { ' ' } else { char }).collect();
        let line: String = line.chars().take(LENGTH_MAX).collect();
        self.all.push(line.clone());
        self.fresh.push(line);
    }

    /// Those of the measurements behind a row.
    pub(crate) fn of_row(&mut self) -> Vec<String> {
        self.are_told = true;
        self.fresh.clone()
    }

    /// The same, for a row that is added after others were measured.
    pub(crate) fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.fresh)
    }

    pub(crate) fn all(&self) -> &[String] {
        &self.all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_one_measurement_share_its_faults_and_the_next_has_none_of_them() {
        let mut faults = Faults::default();

        faults.begin();
        faults.note("1 lost");
        faults.begin();
        assert_eq!([faults.of_row(), faults.of_row()], [["1 lost"], ["1 lost"]]);

        faults.begin();
        assert!(faults.of_row().is_empty());
        assert_eq!(faults.all(), ["1 lost"]);
    }

    #[test]
    fn what_is_taken_for_a_later_row_is_not_the_next_rows() {
        let mut faults = Faults::default();
        faults.note("1 lost");

        assert_eq!(faults.take(), ["1 lost"]);

        assert!(faults.of_row().is_empty());
        assert_eq!(faults.all().len(), 1);
    }

    #[test]
    fn faults_fit_a_cell() {
        let mut faults = Faults::default();

        faults.note(&format!("a\nb|c{}", "x".repeat(1000)));

        assert!(faults.all()[0].starts_with("a b cx") && faults.all()[0].len() == LENGTH_MAX);
    }
}
