//! Where a report was made: machine, load, versions, endpoint. Shown with every result.

use std::fs;

use millrace_core::Url;
use serde::Serialize;

use crate::process;

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Environment {
    pub(crate) version: String,
    pub(crate) kernel: String,
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) load_average_before: Option<f64>,
    pub(crate) load_average_after: Option<f64>,
    pub(crate) endpoint: String,
    /// Whether the endpoint is spoken to over TLS.
    pub(crate) is_tls: bool,
    /// The server's process, if it runs on this machine.
    pub(crate) server_pid: Option<u32>,
    pub(crate) server: Option<String>,
}

impl Environment {
    /// What can be found out before a run.
    pub(crate) fn survey(endpoint: &Url, server_pid: Option<u32>) -> Environment {
        Environment {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            kernel: read("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".to_owned()),
            cpu: cpu().unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            cores: process::cores(),
            load_average_before: process::load_average(),
            load_average_after: None,
            endpoint: endpoint.to_string(),
            is_tls: endpoint.is_tls(),
            server_pid,
            server: server_pid.and_then(|pid| read(&format!("/proc/{pid}/comm"))),
        }
    }

    /// Notes the load that a run leaves behind, and says if others had kept the cores busy
    /// before it began.
    pub(crate) fn close(&mut self) -> Option<String> {
        self.load_average_after = process::load_average();
        let before = self.load_average_before.filter(|load| *load > self.cores as f64)?;
        Some(format!(
            "the load average was {before:.1} on {} cores before it began: rates and latencies \
             are those of a busy machine",
            self.cores
        ))
    }
}

impl std::fmt::Display for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let load = |load: Option<f64>| load.map_or("?".to_owned(), |load| format!("{load:.2}"));
        write!(
            f,
            "{} cores ({}), Linux {}, load average {} before and {} after, millrace {}, {}",
            self.cores,
            self.cpu,
            self.kernel,
            load(self.load_average_before),
            load(self.load_average_after),
            self.version,
            self.endpoint,
        )
    }
}

fn read(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

fn cpu() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("model name"))?;
    Some(line.trim_start_matches(['\t', ' ', ':']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_can_be_surveyed() {
        let mut environment =
            Environment::survey(&Url::parse("https://h").unwrap(), Some(std::process::id()));
        environment.close();

        assert!(environment.cores > 0 && environment.is_tls);
        assert!(environment.server.is_some() && environment.load_average_after.is_some());
    }

    #[test]
    fn a_busy_machine_is_told() {
        let quiet = Environment::survey(&Url::parse("http://h").unwrap(), None);
        let mut busy = Environment { cores: 2, load_average_before: Some(7.5), ..quiet.clone() };
        let mut quiet = Environment { cores: 2, load_average_before: Some(0.5), ..quiet };

        assert!(busy.close().unwrap().contains("7.5 on 2 cores"));
        assert_eq!(quiet.close(), None);
    }
}
