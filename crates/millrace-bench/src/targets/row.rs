//! One measurement beside its goal, and when it may be judged by it.

use super::{bench::Scale, comparison::Comparison};

#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    pub(crate) target: &'static str,
    pub(crate) what: String,
    pub(crate) measured: String,
    pub(crate) ratio: Option<f64>,
    pub(crate) cpu_us: Option<f64>,
    /// What an fdatasync of 1 KB took beside it, the median.
    pub(crate) sync_us: Option<f64>,
    /// How much of a core the generator took, which has one thread.
    pub(crate) generator: Option<f64>,
    /// Empty: there is none.
    pub(crate) goal: String,
    /// `None`: there is no goal, or it was not measured as the goal wants it.
    pub(crate) is_met: Option<bool>,
    /// Why it is not judged, where it has a goal and is not.
    pub(crate) unjudged: String,
    /// What went wrong while it was measured.
    pub(crate) faults: Vec<String>,
}

/// A generator that takes more of its core holds the server back.
const GENERATOR_MAX: f64 = 0.95;
/// On so few the generator's core is one that the server would use, and that is part of the goals.
const CORES_SHARED: usize = 2;

impl Row {
    /// The columns that a comparison fills.
    pub(crate) fn of(found: &Comparison) -> Row {
        Row {
            ratio: Some(found.ratio()),
            cpu_us: Some(found.cpu_us()),
            sync_us: Some(found.sync_us()),
            generator: Some(found.generator()),
            ..Row::default()
        }
    }

    /// The row, not judged if figures of this scale or with such a generator say nothing about the
    /// goal.
    pub(crate) fn considered(self, scale: Scale, cores: usize) -> Row {
        let unjudged = match self.generator {
            _ if scale == Scale::Quick => "quick".to_owned(),
            Some(share) if share > GENERATOR_MAX && cores > CORES_SHARED => {
                format!("the generator took {share:.2} of a core")
            }
            _ => return self,
        };
        Row { is_met: None, unjudged, ..self }
    }

    /// The row with more that went wrong: no figure makes up for a fault.
    pub(crate) fn failed(mut self, faults: Vec<String>) -> Row {
        self.faults.extend(faults);
        if !self.faults.is_empty() {
            self.is_met = Some(false);
        }
        self
    }

    /// Why a row that has a goal is not judged by it.
    pub(crate) fn why_unjudged(&self) -> Option<&str> {
        (self.is_met.is_none() && !self.goal.is_empty()).then_some(self.unjudged.as_str())
    }

    /// What the last column says.
    pub(crate) fn verdict(&self) -> String {
        match (self.faults.first(), self.is_met) {
            (Some(first), _) => format!("failed: {first}"),
            (None, Some(true)) => "met".to_owned(),
            (None, Some(false)) => "missed".to_owned(),
            (None, None) => {
                self.why_unjudged().map(|why| format!("not judged: {why}")).unwrap_or_default()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn met() -> Row {
        Row { goal: "≥ 0.5".to_owned(), is_met: Some(true), ..Row::default() }
    }

    #[test]
    fn a_row_whose_runs_failed_is_not_met() {
        assert_eq!(met().failed(Vec::new()).verdict(), "met");

        let failed = met().failed(vec!["1 messages lost".to_owned()]);

        assert_eq!(
            (failed.is_met, failed.verdict().as_str()),
            (Some(false), "failed: 1 messages lost")
        );
    }

    #[test]
    fn quick_figures_are_not_judged_but_their_faults_are() {
        let quick = met().considered(Scale::Quick, 2);
        assert_eq!((quick.is_met, quick.verdict().as_str()), (None, "not judged: quick"));

        assert_eq!(quick.failed(vec!["lost".to_owned()]).is_met, Some(false));
    }

    #[test]
    fn what_a_busy_generator_held_back_is_not_judged_where_it_has_a_core_to_itself() {
        let busy = |share| Row { generator: Some(share), ..met() };
        let is_met = |share, cores| busy(share).considered(Scale::Usual, cores).is_met;

        assert_eq!(
            [is_met(0.97, 2), is_met(0.9, 8), is_met(0.97, 8)],
            [Some(true), Some(true), None]
        );
        let verdict = busy(0.97).considered(Scale::Full, 8).verdict();
        assert_eq!(verdict, "not judged: the generator took 0.97 of a core");
    }

    #[test]
    fn a_row_without_a_goal_says_nothing() {
        let row = Row::default().considered(Scale::Quick, 2);

        assert_eq!((row.why_unjudged(), row.verdict().as_str()), (None, ""));
    }
}
