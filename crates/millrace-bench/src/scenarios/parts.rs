//! What a scenario measures one after the other, where a later part may fail: that takes nothing
//! from those before it.

use anyhow::Result;

use super::Findings;
use crate::progress::Progress;

/// What was measured, and why it is not all, if it is not. After an early end that is known anyway.
#[derive(Debug)]
pub(super) struct Parts<T> {
    pub(super) all: Vec<T>,
    failure: Option<String>,
}

impl<T> Parts<T> {
    pub(super) fn new() -> Parts<T> {
        Parts { all: Vec::new(), failure: None }
    }

    /// Measures each until one fails or the run is to end early.
    ///
    /// # Errors
    ///
    /// If the first fails: then there is nothing to report.
    pub(super) fn measure<P>(
        progress: &Progress,
        plan: impl IntoIterator<Item = P>,
        mut measure: impl FnMut(P) -> Result<T>,
    ) -> Result<Parts<T>> {
        let mut parts = Parts::new();
        for part in plan {
            if !parts.add(progress, measure(part))? {
                break;
            }
        }
        Ok(parts)
    }

    /// Whether there is any use in the next one.
    ///
    /// # Errors
    ///
    /// If the first has failed.
    pub(super) fn add(&mut self, progress: &Progress, outcome: Result<T>) -> Result<bool> {
        let is_ended = progress.go_on().is_err();
        match outcome {
            Ok(part) => self.all.push(part),
            Err(error) if self.all.is_empty() => return Err(error),
            Err(error) => {
                self.failure = (!is_ended).then(|| format!("{error:#}"));
                return Ok(false);
            }
        }
        Ok(!is_ended)
    }
}

impl Findings {
    /// Tells what of its parts failed, and makes the run fail.
    pub(super) fn note_failure<T>(&mut self, parts: &Parts<T>) {
        let Some(failure) = &parts.failure else { return };
        self.warnings.push(format!("A later part failed, figures are of those before: {failure}"));
        self.violations.push(failure.clone());
    }
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    /// What was measured of a plan, whose parts fail if they are odd, and why the run failed.
    fn measured(progress: &Progress, plan: &[u64]) -> Result<(Vec<u64>, Vec<String>)> {
        let parts = Parts::measure(progress, plan, |part| match part % 2 {
            0 => Ok(*part),
            _ => bail!("{part} is odd"),
        })?;
        let mut findings = Findings::default();
        findings.note_failure(&parts);
        assert_eq!(findings.warnings.len(), findings.violations.len());
        Ok((parts.all, findings.violations))
    }

    #[test]
    fn what_was_measured_before_a_failure_stays() {
        let progress = Progress::default();

        let all = measured(&progress, &[2, 4]).unwrap();
        let some = measured(&progress, &[2, 3, 4]).unwrap();

        assert_eq!(all, (vec![2, 4], Vec::new()));
        assert_eq!(some, (vec![2], vec!["3 is odd".to_owned()]));
        assert!(measured(&progress, &[3, 4]).unwrap_err().to_string().contains("3 is odd"));
    }

    #[test]
    fn an_early_end_is_no_failure_of_a_part() {
        let progress = Progress::default();
        let mut parts = Parts::new();
        assert!(parts.add(&progress, Ok(2)).unwrap());

        progress.live().end_early();

        assert!(!parts.add(&progress, progress.go_on().map(|()| 4)).unwrap());
        assert_eq!((parts.all, parts.failure), (vec![2], None));
    }
}
