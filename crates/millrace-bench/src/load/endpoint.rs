//! An endpoint, and the few calls around a run that nobody measures. They block.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream, ToSocketAddrs},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use rustls::{ClientConfig, ClientConnection, StreamOwned, pki_types::ServerName};

use super::{
    request::{Dialect, Keys, Protocol},
    response,
};
use crate::tls::Trust;

const TIMEOUT: Duration = Duration::from_secs(60);

/// Where requests go and how they are written.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
    pub(crate) dialect: Dialect,
    pub(crate) tls: Option<Tls>,
}

/// What a connection needs besides the address, if it is TLS.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) name: ServerName<'static>,
}

impl Endpoint {
    /// Parses `http://HOST[:PORT][/PATH]`, or the same with `https`.
    pub(crate) fn new(
        url: &str,
        protocol: Protocol,
        keys: Option<Keys>,
        trust: &Trust,
    ) -> Result<Endpoint> {
        let (rest, port) = match (url.strip_prefix("http://"), url.strip_prefix("https://")) {
            (Some(rest), _) => (rest, 80),
            (_, Some(rest)) => (rest, 443),
            _ => bail!("endpoint {url} does not begin with http:// or https://"),
        };
        let (host, path) = rest
            .split_once('/')
            .map_or((rest, "/".to_owned()), |(host, path)| (host, format!("/{path}")));
        let name = host_name(host);
        let has_port =
            host.len() > name.len() && host.ends_with(|last: char| last.is_ascii_digit());
        let with_port = if has_port { host.to_owned() } else { format!("{host}:{port}") };
        let address = with_port.to_socket_addrs().with_context(|| format!("resolving {host}"))?;
        let address = address.into_iter().next().with_context(|| format!("{host} is unknown"))?;
        let tls = match port {
            443 => {
                let name = name.trim_start_matches('[').trim_end_matches(']').to_owned();
                let name = ServerName::try_from(name).with_context(|| format!("host {host}"))?;
                Some(Tls { config: trust.config()?, name })
            }
            _ => None,
        };
        let dialect = Dialect { protocol, host: host.to_owned(), path, keys };
        Ok(Endpoint { address, dialect, tls })
    }

    /// Creates a queue and returns its URL, raw as it stood in the answer.
    pub(crate) fn create_queue(&self, name: &str, attributes: &[(&str, &str)]) -> Result<String> {
        let body = self.dialect.create_queue(name, attributes);
        let answer = self.call("CreateQueue", &body)?;
        let mut found = Vec::new();
        response::find_values(&answer, "QueueUrl", self.dialect.protocol, &mut found);
        let url = found.into_iter().next().and_then(|at| answer.get(at));
        let url = url.with_context(|| format!("creating {name} gave no queue URL"))?;
        Ok(String::from_utf8_lossy(url).into_owned())
    }

    pub(crate) fn delete_queue(&self, queue_url: &str) -> Result<()> {
        let mut body = self.dialect.open("DeleteQueue", queue_url);
        if self.dialect.protocol == Protocol::Json {
            body.push(b'}');
        }
        self.call("DeleteQueue", &body).map(drop)
    }

    /// One call over a connection of its own.
    pub(crate) fn call(&self, action: &str, body: &[u8]) -> Result<Vec<u8>> {
        let mut socket = TcpStream::connect(self.address).context("connecting")?;
        socket.set_read_timeout(Some(TIMEOUT)).context("setting a timeout")?;
        let Some(tls) = &self.tls else { return self.call_over(&mut socket, action, body) };
        let session = ClientConnection::new(Arc::clone(&tls.config), tls.name.clone());
        let session = session.context("starting TLS")?;
        self.call_over(&mut StreamOwned::new(session, socket), action, body)
    }

    /// One call over an open connection.
    pub(crate) fn call_over(
        &self,
        socket: &mut (impl Read + Write),
        action: &str,
        body: &[u8],
    ) -> Result<Vec<u8>> {
        let mut buffer = Vec::new();
        self.dialect.write(action, body, &mut buffer);
        socket.write_all(&buffer).with_context(|| format!("sending {action}"))?;
        buffer.clear();
        let mut chunk = [0; 16 << 10];
        let answer = loop {
            let count = socket.read(&mut chunk).with_context(|| format!("answer to {action}"))?;
            if count == 0 {
                bail!("the server closed the connection instead of answering {action}");
            }
            buffer.extend_from_slice(chunk.get(..count).unwrap_or_default());
            if let Some(answer) = response::parse(&mut buffer)? {
                break answer;
            }
        };
        let body = buffer.get(answer.body).unwrap_or_default();
        if answer.status != 200 {
            bail!("{action}: {} {}", answer.status, String::from_utf8_lossy(body));
        }
        Ok(body.to_vec())
    }
}

/// A host without its port; an IPv6 address stays in its brackets.
fn host_name(host: &str) -> &str {
    let end = host.rfind(']').unwrap_or(0);
    let colon = host.get(end..).and_then(|rest| rest.find(':')).map(|at| end + at);
    colon.and_then(|at| host.get(..at)).unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(url: &str) -> Result<Endpoint> {
        Endpoint::new(url, Protocol::Json, None, &Trust::anyone())
    }

    #[test]
    fn endpoints_name_host_and_path() {
        let plain = endpoint("http://127.0.0.1:9324").unwrap();
        let dialect = &plain.dialect;
        assert_eq!((dialect.host.as_str(), dialect.path.as_str()), ("127.0.0.1:9324", "/"));
        assert!(plain.tls.is_none());

        let plain = endpoint("http://127.0.0.1/sqs/").unwrap();
        assert_eq!((plain.address.port(), plain.dialect.path.as_str()), (80, "/sqs/"));

        let tls = endpoint("https://[::1]").unwrap();
        assert_eq!((tls.address.port(), tls.tls.is_some()), (443, true));
        assert_eq!(endpoint("https://127.0.0.1:8443").unwrap().address.port(), 8443);

        assert!(endpoint("ftp://127.0.0.1").is_err());
        assert!(endpoint("127.0.0.1:9324").is_err());
    }
}
