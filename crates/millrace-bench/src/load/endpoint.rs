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
    dialect::{Dialect, NewQueue},
    response,
};
use crate::{access::Access, progress::Progress, tls::Trust};

const TIMEOUT: Duration = Duration::from_secs(60);

/// A queue that is gone at the latest when this is dropped.
pub(crate) struct OwnQueue {
    endpoint: Endpoint,
    /// As the endpoint calls it.
    pub(crate) name: String,
    is_deleted: bool,
}

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
    pub(crate) fn new(url: &str, access: &Access, trust: &Trust) -> Result<Endpoint> {
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
        Ok(Endpoint { address, dialect: Dialect::new(access, host, &path), tls })
    }

    /// Creates a queue and returns what it is called from now on.
    pub(crate) fn create_queue(&self, queue: &NewQueue<'_>) -> Result<String> {
        let mut request = Vec::new();
        self.dialect.create_queue(queue, &mut request);
        let answer = self.call(&request).context("creating a queue")?;
        self.dialect.created(queue, &answer)
    }

    pub(crate) fn delete_queue(&self, queue: &str) -> Result<()> {
        let mut request = Vec::new();
        self.dialect.delete_queue(queue, &mut request);
        self.call(&request).map(drop).context("deleting the queue")
    }

    /// A queue with the attributes that all have, created over an open connection.
    pub(crate) fn create_queue_over(
        &self,
        socket: &mut (impl Read + Write),
        name: &str,
    ) -> Result<String> {
        let queue = NewQueue { name, ..NewQueue::default() };
        let mut request = Vec::new();
        self.dialect.create_queue(&queue, &mut request);
        let answer = call_over(socket, &request).context("creating a queue")?;
        self.dialect.created(&queue, &answer)
    }

    /// Any action of SQS.
    pub(crate) fn call_sqs(&self, action: &str, body: &[u8]) -> Result<Vec<u8>> {
        let mut request = Vec::new();
        self.dialect.sqs()?.write(action, body, &mut request);
        self.call(&request).with_context(|| action.to_owned())
    }

    /// One call over a connection of its own.
    fn call(&self, request: &[u8]) -> Result<Vec<u8>> {
        let mut socket = TcpStream::connect(self.address).context("connecting")?;
        socket.set_read_timeout(Some(TIMEOUT)).context("setting a timeout")?;
        let Some(tls) = &self.tls else { return call_over(&mut socket, request) };
        let session = ClientConnection::new(Arc::clone(&tls.config), tls.name.clone());
        let session = session.context("starting TLS")?;
        call_over(&mut StreamOwned::new(session, socket), request)
    }
}

impl OwnQueue {
    pub(crate) fn new(endpoint: &Endpoint, name: String) -> OwnQueue {
        OwnQueue { endpoint: endpoint.clone(), name, is_deleted: false }
    }

    /// Deletes it. What was measured there counts even if that fails.
    pub(crate) fn delete(mut self, progress: &Progress) {
        self.is_deleted = true;
        if let Err(error) = self.endpoint.delete_queue(&self.name) {
            progress.leave(format!("the queue {} is left: {error:#}", self.name));
        }
    }
}

impl Drop for OwnQueue {
    fn drop(&mut self) {
        if !self.is_deleted {
            // Something else has failed, and that is what is reported.
            let _ = self.endpoint.delete_queue(&self.name);
        }
    }
}

/// One call over an open connection.
fn call_over(socket: &mut (impl Read + Write), request: &[u8]) -> Result<Vec<u8>> {
    socket.write_all(request).context("sending")?;
    let (mut buffer, mut chunk) = (Vec::new(), [0; 16 << 10]);
    let answer = loop {
        let count = socket.read(&mut chunk).context("waiting for the answer")?;
        if count == 0 {
            bail!("the server closed the connection instead of answering");
        }
        buffer.extend_from_slice(chunk.get(..count).unwrap_or_default());
        if let Some(answer) = response::parse(&mut buffer)? {
            break answer;
        }
    };
    let body = buffer.get(answer.body).unwrap_or_default();
    if !response::is_success(answer.status) {
        bail!("status {}: {}", answer.status, String::from_utf8_lossy(body));
    }
    Ok(body.to_vec())
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
        Endpoint::new(url, &Access::open(), &Trust::anyone())
    }

    #[test]
    fn endpoints_name_host_and_path() {
        let plain = endpoint("http://127.0.0.1:9324").unwrap();
        let sqs = plain.dialect.sqs().unwrap();
        assert_eq!((sqs.host.as_str(), sqs.path.as_str()), ("127.0.0.1:9324", "/"));
        assert!(plain.tls.is_none());

        let plain = endpoint("http://127.0.0.1/sqs/").unwrap();
        let sqs = plain.dialect.sqs().unwrap();
        assert_eq!((plain.address.port(), sqs.path.as_str()), (80, "/sqs/"));

        let tls = endpoint("https://[::1]").unwrap();
        assert_eq!((tls.address.port(), tls.tls.is_some()), (443, true));
        assert_eq!(endpoint("https://127.0.0.1:8443").unwrap().address.port(), 8443);

        assert!(endpoint("ftp://127.0.0.1").is_err());
        assert!(endpoint("127.0.0.1:9324").is_err());
    }
}
