//! `--baseline FILE --max-regression 5%`: this run against an earlier report.

use std::{collections::HashMap, fs, path::Path};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::{Better, Metric, Report, SCHEMA, number::significant};

/// The metrics of an earlier report.
#[derive(Clone, Debug)]
pub(crate) struct Baseline {
    values: HashMap<String, f64>,
    scenario: String,
    scale: f64,
}

/// A share such as `5%` or `0.05`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Share(pub(crate) f64);

impl std::str::FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Share, String> {
        let (digits, factor) = match text.trim().strip_suffix('%') {
            Some(digits) => (digits, 0.01),
            None => (text.trim(), 1.0),
        };
        match digits.trim().parse::<f64>() {
            Ok(value) if value.is_finite() && value >= 0.0 => Ok(Share(value * factor)),
            _ => Err(format!("{text} is not a share such as 5%")),
        }
    }
}

impl Baseline {
    /// Reads the JSON form of a report.
    pub(crate) fn read(path: &Path) -> Result<Baseline> {
        let text =
            fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        Baseline::parse(&text).with_context(|| format!("{} is no baseline", path.display()))
    }

    /// # Errors
    ///
    /// If a run of this scenario at this scale cannot be compared with it.
    pub(crate) fn check(&self, scenario: &str, scale: f64) -> Result<()> {
        if self.scenario != scenario {
            bail!("the baseline is of {}, this run of {scenario}", self.scenario);
        }
        if self.scale != scale {
            bail!("the baseline is of --scale {}, this run of {scale}", self.scale);
        }
        Ok(())
    }

    /// What is worse than `worst` allows, as text. Metrics that only one of them has are not
    /// compared, but nothing in common is an error.
    pub(crate) fn regressions(&self, report: &Report, worst: Share) -> Result<Vec<String>> {
        let pairs: Vec<(&Metric, f64)> = report
            .metrics
            .iter()
            .filter_map(|metric| Some((metric, *self.values.get(&metric.name)?)))
            .collect();
        if pairs.is_empty() {
            bail!("the baseline has no metric in common with this run");
        }
        let worse = pairs.into_iter().filter(|(metric, before)| regressed(metric, *before, worst));
        Ok(worse
            .map(|(metric, before)| {
                let (now, before) = (significant(metric.value), significant(before));
                format!("{} was {before} and is {now}", metric.name)
            })
            .collect())
    }

    fn parse(text: &str) -> Result<Baseline> {
        let json: Value = serde_json::from_str(text).context("not JSON")?;
        if json["schema"] != SCHEMA {
            bail!("its schema is {}, wanted {SCHEMA}", json["schema"]);
        }
        let metrics = json["metrics"].as_array().into_iter().flatten();
        let values = metrics
            .filter_map(|metric| {
                Some((metric["name"].as_str()?.to_owned(), metric["value"].as_f64()?))
            })
            .collect();
        let scenario = json["scenario"].as_str().unwrap_or_default().to_owned();
        let scale = json["scale"].as_f64().unwrap_or(1.0);
        Ok(Baseline { values, scenario, scale })
    }
}

fn regressed(metric: &Metric, before: f64, worst: Share) -> bool {
    match metric.better {
        Better::Higher => metric.value < before * (1.0 - worst.0),
        Better::Lower => metric.value > before * (1.0 + worst.0),
        Better::Neither => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::example;

    fn compared(change: impl Fn(&mut Report)) -> Vec<String> {
        let before = Baseline::parse(&example::report().json().unwrap()).unwrap();
        let mut now = example::report();
        change(&mut now);
        before.regressions(&now, Share(0.05)).unwrap()
    }

    #[test]
    fn a_lower_rate_and_a_longer_latency_are_regressions() {
        assert_eq!(compared(|now| now.metrics[0].value *= 0.96), [""; 0]);
        assert_eq!(compared(|now| now.metrics[0].value *= 0.94).len(), 1);
        assert_eq!(compared(|now| now.metrics[1].value *= 1.06).len(), 1);
        assert_eq!(compared(|now| now.metrics[1].value *= 0.5), [""; 0]);
    }

    #[test]
    fn the_first_fault_is_a_regression() {
        let found = compared(|now| now.metrics[2].value = 1.0);

        assert_eq!(found, ["pc.lost was 0 and is 1.00"]);
    }

    #[test]
    fn other_scenarios_scales_and_schemas_are_refused() {
        let before = Baseline::parse(&example::report().json().unwrap()).unwrap();

        assert!(before.check("pc", 1.0).is_ok() && before.check("drain", 1.0).is_err());
        let error = before.check("pc", 2.0).unwrap_err();
        assert!(error.to_string().contains("this run of 2"), "{error}");
        assert!(Baseline::parse(r#"{"schema":"millrace-bench-report/0"}"#).is_err());
        assert!(Baseline::parse("nothing").is_err());
    }

    #[test]
    fn shares_are_percent_or_fractions() {
        assert_eq!("5%".parse::<Share>().unwrap().0, 0.05);
        assert_eq!("0.25".parse::<Share>().unwrap().0, 0.25);
        assert!("-1%".parse::<Share>().is_err() && "much".parse::<Share>().is_err());
    }
}
