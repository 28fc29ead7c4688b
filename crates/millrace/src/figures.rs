//! The server's own figures for Prometheus and the console: connections, bytes, its certificate, and
//! the room on its disk.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use millrace_console::ProcessFigures;
use millrace_server::{Closed, Counters};
use millrace_services::Series;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

#[derive(Clone, Debug)]
pub(crate) struct ServerFigures {
    /// What all connections have done.
    pub(crate) counters: Arc<Counters>,
    /// Where the data is, if it is on a disk.
    pub(crate) data: Option<PathBuf>,
}

impl Collector for ServerFigures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let encoder = &mut encoder;
        let totals = self.counters.totals();
        Series::new("millrace_connections", "Connections that are open")
            .gauge(encoder, totals.open)?;
        Series::new(
            "millrace_idle_polling",
            "Whether cores without work poll, as they do under load",
        )
        .gauge(encoder, u64::from(totals.is_polling))?;
        Series::new("millrace_connections_opened", "Connections accepted")
            .counter(encoder, totals.opened)?;
        Series::new("millrace_http_requests", "HTTP requests answered, health included")
            .counter(encoder, totals.requests)?;
        Series::bytes("millrace_http_in", "Requests as received")
            .counter(encoder, totals.bytes_in)?;
        Series::bytes("millrace_http_out", "Responses as sent")
            .counter(encoder, totals.bytes_out)?;
        if let Some(not_after_s) = totals.certificate_not_after_s {
            Series::seconds(
                "millrace_tls_certificate_not_after_timestamp",
                "When the certificate ends, since 1970",
            )
            .gauge(encoder, not_after_s)?;
        }
        let closed = Closed::ALL.map(|why| ([("reason", why.name())], totals.closed_for(why)));
        Series::new("millrace_connections_closed", "Connections that ended, by reason")
            .counters(encoder, closed)?;
        self.encode_disk(encoder)
    }
}

impl ServerFigures {
    /// For the console.
    pub(crate) fn of_process(&self) -> ProcessFigures {
        let totals = self.counters.totals();
        ProcessFigures {
            connections: totals.open,
            connections_opened: totals.opened,
            connections_closed: Closed::ALL
                .map(|why| (why.name(), totals.closed_for(why)))
                .to_vec(),
            requests: totals.requests,
            bytes_in: totals.bytes_in,
            bytes_out: totals.bytes_out,
            disk: self.disk(),
        }
    }

    /// Bytes that are free for the server, and all, on the file system of its data.
    fn disk(&self) -> Option<(u64, u64)> {
        let disk = self.data.as_ref().and_then(|data| rustix::fs::statvfs(data).ok())?;
        let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
        Some((bytes(disk.f_bavail), bytes(disk.f_blocks)))
    }

    fn encode_disk(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Some((available, _)) = self.disk() else { return Ok(()) };
        Series::bytes(
            "millrace_disk_available",
            "Free for the server on the file system of its data",
        )
        .gauge(encoder, available)
    }
}

#[cfg(test)]
mod tests {
    use millrace_server::{Options, Server, TlsFiles};
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    use super::*;

    /// The lines about certificates that a server with these files shows.
    fn certificate_lines(tls: Option<TlsFiles>) -> Vec<String> {
        let listen = vec!["127.0.0.1:0".parse().unwrap()];
        let server = Server::bind(Options { tls, listen, ..Options::default() }).unwrap();
        let mut registry = Registry::default();
        let counters = server.counters();
        registry.register_collector(Box::new(ServerFigures { counters, data: None }));
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let values = text.lines().filter(|line| !line.starts_with('#'));
        values.filter(|line| line.contains("certificate")).map(str::to_owned).collect()
    }

    #[test]
    fn end_of_the_certificate_is_shown_where_there_is_one() {
        let directory = tempfile::TempDir::new().unwrap();
        let path = |name: &str| directory.path().join(name);
        let files = TlsFiles { certificate: path("cert.pem"), key: path("key.pem") };
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::default();
        params.not_after = rcgen::date_time_ymd(2038, 1, 1);
        std::fs::write(&files.certificate, params.self_signed(&key).unwrap().pem()).unwrap();
        std::fs::write(&files.key, key.serialize_pem()).unwrap();

        let shown = certificate_lines(Some(files));

        let name = "millrace_tls_certificate_not_after_timestamp_seconds";
        assert_eq!(shown, [format!("{name} 2145916800")]);
        assert!(certificate_lines(None).is_empty());
    }
}
