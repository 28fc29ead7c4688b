//! An endpoint, and the few calls around a run that nobody measures. They block.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream, ToSocketAddrs},
    time::Duration,
};

use anyhow::{Context, Result, bail};

use super::{
    request::{Dialect, Keys, Protocol},
    response,
};

const TIMEOUT: Duration = Duration::from_secs(60);

/// Where requests go and how they are written.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
    pub(crate) dialect: Dialect,
}

impl Endpoint {
    /// Parses `http://HOST:PORT[/PATH]`. TLS is not spoken.
    pub(crate) fn new(url: &str, protocol: Protocol, keys: Option<Keys>) -> Result<Endpoint> {
        let Some(rest) = url.strip_prefix("http://") else {
            bail!("endpoint {url} does not begin with http://");
        };
        let (host, path) = rest
            .split_once('/')
            .map_or((rest, "/".to_owned()), |(host, path)| (host, format!("/{path}")));
        let with_port = if host.contains(':') { host.to_owned() } else { format!("{host}:80") };
        let address = with_port.to_socket_addrs().with_context(|| format!("resolving {host}"))?;
        let address = address.into_iter().next().with_context(|| format!("{host} is unknown"))?;
        let dialect = Dialect { protocol, host: host.to_owned(), path, keys };
        Ok(Endpoint { address, dialect })
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
        self.call_over(&mut socket, action, body)
    }

    /// One call over an open connection.
    pub(crate) fn call_over(
        &self,
        socket: &mut TcpStream,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_name_host_and_path() {
        let endpoint = Endpoint::new("http://127.0.0.1:9324", Protocol::Json, None).unwrap();
        assert_eq!(
            (endpoint.dialect.host.as_str(), endpoint.dialect.path.as_str()),
            ("127.0.0.1:9324", "/")
        );

        let endpoint = Endpoint::new("http://127.0.0.1/sqs/", Protocol::Json, None).unwrap();
        assert_eq!((endpoint.address.port(), endpoint.dialect.path.as_str()), (80, "/sqs/"));

        assert!(Endpoint::new("https://127.0.0.1", Protocol::Json, None).is_err());
    }
}
