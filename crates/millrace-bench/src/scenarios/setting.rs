//! What every scenario has in common: where it runs, how long, and what becomes of its findings.

use std::{fs, path::PathBuf, time::Duration};

use anyhow::{Context, Result, bail};
use clap::{Args, Command};
use millrace_core::Url;
use millrace_wire::date::format_iso8601;

use super::{
    names,
    values::{distinct, scale},
};
use crate::{
    access::{Access, AccessFlags, Interface, Protocol, default_endpoint, given_url},
    cli::UsageError,
    live::{Interrupts, Watch, WatchFlags},
    load::Endpoint,
    output, process,
    progress::Progress,
    report::{
        Baseline, Environment, Limit, Metric, Recording, Report, SCHEMA, Section, Share, csv,
        interval_log, page, text,
    },
    tls::Trust,
};

/// Flags of every scenario.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Where the server is [environment: MILLRACE_ENDPOINT; default: http://127.0.0.1:4566]
    #[arg(long, value_name = "URL", default_value_t = default_endpoint(), hide_default_value = true)]
    pub(crate) endpoint: String,
    /// What the server speaks
    #[arg(long, value_enum, default_value = "sqs")]
    pub(crate) peer: Interface,
    /// Which protocol of SQS is spoken
    #[arg(long, value_name = "json|query", default_value = "json")]
    protocol: Protocol,
    #[command(flatten)]
    access: AccessFlags,
    #[command(flatten)]
    pub(crate) trust: Trust,
    /// Report CPU and memory of this process [default: what listens at the endpoint's port here]
    #[arg(long, value_name = "PID", value_parser = process::parse_pid)]
    pub(crate) server_pid: Option<u32>,
    /// Shorten or lengthen durations and counts
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = scale)]
    pub(crate) scale: f64,
    /// Print the report as JSON, or write it to a file
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    json: Option<PathBuf>,
    /// Write every table as comma-separated values
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write the report as one page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the latency histograms as an interval log of HdrHistogram (V2, nanoseconds)
    #[arg(long, value_name = "FILE")]
    hdr: Option<PathBuf>,
    #[command(flatten)]
    watch: WatchFlags,
    /// Exit with 1 if a metric breaks a limit, such as 'p99>50ms,lost>0'
    #[arg(long, value_name = "LIMITS", value_delimiter = ',')]
    fail_if: Vec<Limit>,
    /// Compare with an earlier report (JSON)
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Exit with 1 if a metric is so much worse than the baseline's
    #[arg(long, value_name = "SHARE", default_value = "5%", requires = "baseline")]
    max_regression: Share,
}

/// The flags of a scenario: everybody's, and its own plan.
#[derive(Args, Clone, Debug)]
pub(crate) struct Flags<P: Args> {
    #[command(flatten)]
    pub(crate) options: Options,
    #[command(flatten)]
    pub(crate) plan: P,
}

/// Longer than any run, and added to any instant.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// Where a scenario runs.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) url: Url,
    pub(crate) endpoint: Endpoint,
    pub(crate) access: Access,
    pub(crate) trust: Trust,
    pub(crate) server_pid: Option<u32>,
    pub(crate) scale: f64,
    pub(crate) progress: Progress,
}

/// What a scenario found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    pub(crate) title: String,
    pub(crate) metrics: Vec<Metric>,
    pub(crate) sections: Vec<Section>,
    /// Latency histograms.
    pub(crate) recordings: Vec<Recording>,
    pub(crate) warnings: Vec<String>,
    /// What must not happen and did: the run fails, whatever the limits.
    pub(crate) violations: Vec<String>,
    /// Metrics of which any makes the run fail, unless a limit says how many may be.
    pub(crate) faults: Vec<Metric>,
}

impl Findings {
    /// The faults that no limit speaks of.
    fn unlimited_faults(&self, limits: &[Limit]) -> Vec<String> {
        let is_limited = |fault: &Metric| limits.iter().any(|limit| limit.is_on(fault));
        let found = self.faults.iter().filter(|fault| fault.value > 0.0 && !is_limited(fault));
        let text = |Metric { name, value, .. }: &Metric| {
            format!("{name} is {value}, and no --fail-if says how many may be")
        };
        found.map(text).collect()
    }
}

impl Options {
    /// # Errors
    ///
    /// If one of the nodes is named twice, or is to measure a process that it cannot see.
    pub(super) fn check_nodes(&self, nodes: &[String]) -> Result<()> {
        if self.server_pid.is_some() && !nodes.is_empty() {
            bail!(UsageError(
                "--server-pid is of this machine, and what measures are --nodes".to_owned(),
            ));
        }
        distinct("--nodes", nodes)
    }

    fn setting(&self) -> Result<Setting> {
        let access = self.access.access(self.peer, self.protocol)?;
        let url = given_url("--endpoint", &self.endpoint)?;
        Setting::new(url, access, &self.trust, self.server_pid, self.scale)
    }
}

impl Setting {
    pub(crate) fn new(
        url: Url,
        access: Access,
        trust: &Trust,
        server_pid: Option<u32>,
        scale: f64,
    ) -> Result<Setting> {
        let endpoint = Endpoint::new(&url, &access, trust)?;
        let is_here = endpoint.address.ip().is_loopback();
        let found = || is_here.then(|| process::listening_on(endpoint.address.port())).flatten();
        Ok(Setting {
            url,
            server_pid: server_pid.or_else(found),
            endpoint,
            access,
            trust: trust.clone(),
            scale,
            progress: Progress::on_terminal(),
        })
    }

    /// The same run at another endpoint.
    pub(crate) fn elsewhere(
        &self,
        url: Url,
        access: Access,
        trust: &Trust,
        server_pid: Option<u32>,
    ) -> Result<Setting> {
        let setting = Setting::new(url, access, trust, server_pid, self.scale)?;
        Ok(Setting { progress: self.progress.clone(), ..setting })
    }

    /// A duration by scale, `least` at least.
    pub(crate) fn lasting(&self, duration: Duration, least: Duration) -> Duration {
        let scaled = Duration::try_from_secs_f64(duration.as_secs_f64() * self.scale);
        scaled.unwrap_or(LONGEST).min(LONGEST).max(least)
    }

    /// A number by scale. Scaling makes it no smaller than `least`; what was asked for may be.
    pub(crate) fn count(&self, count: u64, least: u64) -> u64 {
        ((count as f64 * self.scale).round() as u64).max(least.min(count))
    }
}

/// A plan as it is without any flag.
pub(super) fn defaults<P: Args>() -> Result<P> {
    let command = P::augment_args(Command::new("defaults").no_binary_name(true));
    let matches = command.try_get_matches_from(std::iter::empty::<&str>());
    P::from_arg_matches(&matches.context("a plan needs a flag")?).context("default values")
}

/// Runs a scenario and shows what it found.
pub(crate) fn conduct(
    scenario: &'static str,
    options: &Options,
    run: impl FnOnce(&Setting) -> Result<Findings>,
) -> Result<()> {
    // Before a run of an hour, not after it.
    names::check(scenario, &options.fail_if)?;
    let baseline = options.baseline.as_deref().map(Baseline::read).transpose()?;
    baseline.iter().try_for_each(|baseline| baseline.check(scenario, options.scale))?;
    let setting = options.setting()?;
    process::raise_open_files();
    let mut environment = Environment::survey(&setting.url, setting.server_pid);
    let started_at = process::now_s();
    let _interrupts = Interrupts::start(setting.progress.live())?;
    let watch = Watch::start(&options.watch, &setting.progress, &options.trust)?;
    let findings = run(&setting);
    drop(watch);
    setting.progress.end();
    // A signal from here on is too late for the run, and no reason to call it incomplete.
    let ended = setting.progress.go_on().err();
    let findings = findings.map_err(|error| setting.progress.with_left(error))?;
    let faults = findings.unlimited_faults(&options.fail_if);
    let mut warnings = findings.warnings;
    if ended.is_some() {
        warnings.push("The run was ended early: figures are of what was measured.".to_owned());
    }
    let mut metrics = findings.metrics;
    warnings.extend(environment.close());
    let mut sections = findings.sections;
    let shapes = sections.iter_mut().flat_map(|section| &mut section.shapes);
    shapes.for_each(|shape| shape.judge(options.scale));
    let missed = sections.iter().map(Section::missed_shapes).sum::<usize>();
    metrics.push(Metric::faults("shapes_missed", missed as u64));
    let report = Report {
        schema: SCHEMA,
        scenario,
        title: findings.title,
        started_at: format_iso8601(started_at),
        command: command_line(std::env::args()),
        scale: options.scale,
        environment,
        warnings,
        metrics,
        sections,
    };
    let mut broken = findings.violations;
    broken.extend(publish(&report, &findings.recordings, options));
    broken.extend(faults);
    broken.extend(setting.progress.left());
    broken.extend(ended.map(|ended| ended.to_string()));
    broken.extend(options.fail_if.iter().flat_map(|limit| limit.broken_by(&report.metrics)));
    if let Some(baseline) = baseline {
        broken.extend(baseline.regressions(&report, options.max_regression)?);
    }
    if broken.is_empty() { Ok(()) } else { bail!("{}", broken.join("; ")) }
}

/// Shows the report in every form that was asked for, and returns why some could not be: a disk
/// that is full takes nothing from the others. Prints last: what is written counts, whatever
/// becomes of who reads.
fn publish(report: &Report, recordings: &[Recording], options: &Options) -> Vec<String> {
    let json = || Ok(report.json()? + "\n");
    let is_json_printed = options.json.as_ref().is_some_and(|path| path.as_os_str() == "-");
    let json_file = options.json.as_ref().filter(|_| !is_json_printed);
    let mut outcomes = vec![
        write(json_file, json),
        write(options.csv.as_ref(), || Ok(csv(report))),
        write(options.html.as_ref(), || Ok(page(report)?)),
        write(options.hdr.as_ref(), || interval_log(recordings)),
    ];
    outcomes.push(if is_json_printed {
        report.warnings.iter().for_each(|warning| output::tell(&format!("warning: {warning}")));
        json().and_then(|json| output::print(&json))
    } else {
        output::print(&text(report))
    });
    let failures = outcomes.into_iter().filter_map(Result::err);
    failures.map(|error| format!("{error:#}")).collect()
}

fn write(path: Option<&PathBuf>, content: impl FnOnce() -> Result<String>) -> Result<()> {
    let Some(path) = path else { return Ok(()) };
    let written = content().and_then(|content| Ok(fs::write(path, content)?));
    written.with_context(|| format!("writing {}", path.display()))
}

/// Flags whose values are nobody's business.
const SECRETS: [&str; 4] = ["--sign", "--iron-token", "--header", "--push"];

/// The command for the record: without directories of this machine, and without secrets.
fn command_line(arguments: impl Iterator<Item = String>) -> String {
    let mut shown = vec!["millrace-bench".to_owned()];
    let mut is_secret = false;
    for argument in arguments.skip(1) {
        shown.push(match argument.split_once('=') {
            _ if is_secret && argument != "env" => "…".to_owned(),
            Some((flag, _)) if SECRETS.contains(&flag) => format!("{flag}=…"),
            _ if argument.contains("://") => shown_url(&argument),
            _ if argument.contains([' ', '>', '<', '*']) => format!("'{argument}'"),
            _ => argument.clone(),
        });
        is_secret = SECRETS.contains(&argument.as_str());
    }
    shown.join(" ")
}

/// An argument that is a URL, or a flag and one, without what may be secret in it.
fn shown_url(argument: &str) -> String {
    let (flag, text) = match argument.split_once('=') {
        Some((flag, text)) if flag.starts_with('-') => (format!("{flag}="), text),
        _ => (String::new(), argument),
    };
    Url::parse(text).map_or_else(|_| format!("{flag}…"), |url| format!("{flag}{url}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_tolerated_only_where_a_limit_speaks_of_them() {
        let faults = vec![Metric::faults("rate.1.failed", 0), Metric::faults("rate.2.failed", 7)];
        let findings = Findings { faults, ..Findings::default() };
        let found = |limits: &[&str]| {
            let limits: Vec<Limit> = limits.iter().map(|limit| limit.parse().unwrap()).collect();
            findings.unlimited_faults(&limits)
        };

        assert_eq!(found(&[]), ["rate.2.failed is 7, and no --fail-if says how many may be"]);
        assert_eq!(found(&["p99>1s", "rate.1.failed>9"]).len(), 1);
        assert!(found(&["failed>9"]).is_empty());
    }

    #[test]
    fn the_recorded_command_holds_no_secret_and_no_directory() {
        let shown = |arguments: &[&str]| {
            command_line(arguments.iter().map(|argument| (*argument).to_owned()))
        };

        assert_eq!(
            shown(&["/home/me/millrace-bench", "pc", "--sign", "a:b", "--fail-if", "p99>1s"]),
            "millrace-bench pc --sign … --fail-if 'p99>1s'"
        );
        assert_eq!(shown(&["m", "--sign=a:b"]), "millrace-bench --sign=…");
        for url in ["http://h/a?key=secret", "http://h/a#secret"] {
            assert_eq!(shown(&["m", "--versus", url]), "millrace-bench --versus http://h/a");
            assert_eq!(
                shown(&["m", &format!("--endpoint={url}")]),
                "millrace-bench --endpoint=http://h/a"
            );
        }
        assert_eq!(shown(&["m", "--endpoint=http://u:p@h"]), "millrace-bench --endpoint=…");
        assert_eq!(shown(&["m", "--iron-token", "t"]), "millrace-bench --iron-token …");
        assert_eq!(shown(&["m", "--sign", "env"]), "millrace-bench --sign env");
    }

    #[test]
    fn scale_shortens_durations_and_counts_to_a_least() {
        let trust = Trust::default();
        let url = Url::parse("http://192.0.2.1:1").unwrap();
        let setting = Setting::new(url, Access::open(), &trust, None, 0.05).unwrap();

        let minutes = Duration::from_secs(1200);
        assert_eq!(setting.lasting(minutes, Duration::ZERO), Duration::from_secs(60));
        assert_eq!((setting.count(2000, 1), setting.count(20, 5)), (100, 5));
        assert_eq!(setting.lasting(Duration::MAX, Duration::ZERO), LONGEST);
        assert!(scale("1000").is_ok() && scale("1e30").is_err() && scale("0").is_err());
        assert_eq!(setting.server_pid, None);
    }
}
