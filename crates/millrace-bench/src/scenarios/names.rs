//! What metrics of a scenario may be called, by the ends of their names: a limit on anything else
//! is refused before a run of an hour, not after it. The fronts depend on flags.

use anyhow::{Result, bail};

use crate::{cli::UsageError, report::Limit};

const NAMES: [(&str, &[&str]); 10] = [
    (
        "pc",
        &[
            "rate",
            "requests_per_message",
            "dollars_per_million",
            "send.p50",
            "send.p99",
            "end_to_end.p50",
            "end_to_end.p99",
            "client_cpu",
            "server_cpu",
            "lost",
            "duplicated",
            "reordered",
            "failed",
            "messages",
        ],
    ),
    (
        "position",
        &["first_p75", "median_p75", "highest_p75", "period", "connections", "closed_by_server"],
    ),
    ("ab", &["a.p50", "a.p99", "b.p50", "b.p99", "low", "estimate", "high"]),
    ("drain", &["rate", "time", "client_cpu", "server_cpu", "connections", "closed_by_server"]),
    (
        "poll",
        &["time", "rate", "busy_handlers", "peak_handlers", "duplicates", "requests_per_message"],
    ),
    ("sdb-csv", &["time", "rate", "puts", "p50", "p99", "syncs_per_put", "gain"]),
    (
        "fanout",
        &["publishes", "deliveries", "p50", "p99", "server_cpu", "share", "lost", "duplicated"],
    ),
    ("sweep", &["rate", "send.p99", "serial", "agreeing"]),
    (
        "rate",
        &[
            "achieved",
            "p50",
            "p90",
            "p99",
            "p99.9",
            "max",
            "service_p99",
            "end_to_end_p99",
            "received",
            "unsent",
            "failed",
            "lost",
        ],
    ),
    (
        "http",
        &[
            "achieved",
            "p50",
            "p90",
            "p99",
            "p99.9",
            "max",
            "service_p99",
            "unsent",
            "refused",
            "failed",
        ],
    ),
];
/// Every report has it.
const SHAPES: &str = "shapes_missed";

/// # Errors
///
/// If a limit is on what the scenario cannot have. A suite may have what any scenario has.
pub(super) fn check<'a>(scenario: &str, limits: impl IntoIterator<Item = &'a Limit>) -> Result<()> {
    let is_suite = scenario.starts_with("suite");
    let own = NAMES.iter().filter(|(name, _)| is_suite || *name == scenario);
    let ends: Vec<&str> = own.flat_map(|(_, ends)| *ends).copied().chain([SHAPES]).collect();
    for limit in limits {
        if !ends.iter().any(|end| limit.may_be_on(end)) {
            bail!(UsageError(format!("{limit}: {scenario} has no metric that is called so")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_known(scenario: &str, name: &str) -> bool {
        check(scenario, [&format!("{name}>1").parse().unwrap()]).is_ok()
    }

    #[test]
    fn a_limit_may_name_a_metric_in_full_or_by_its_end() {
        for name in ["pc.single.send.p99", "send.p99", "p99", "lost", "shapes_missed"] {
            assert!(is_known("pc", name), "{name}");
        }
        assert!(is_known("rate", "rate.100.p99.9") && is_known("suite field", "gain"));
    }

    #[test]
    fn a_limit_on_what_no_scenario_has_is_refused() {
        for name in ["p42", "99", "pc.p99.more", "gain", "single"] {
            assert!(!is_known("pc", name), "{name}");
        }
    }
}
