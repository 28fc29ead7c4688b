//! `ceiling`: the leanest server that still answers like a queue.
//!
//! It checks nothing, hashes nothing and keeps only the ids that bodies begin with, in memory, on
//! one thread. Its rate is what loopback, HTTP and the generator allow: others are quoted as a
//! share of it. JSON protocol only; answers have the length that Millrace's have.

use std::{
    cell::{Cell, RefCell},
    collections::{HashMap, VecDeque},
    io::Write,
    net::SocketAddr,
    path::PathBuf,
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result};
use clap::Args;
use memchr::{memchr, memmem};
use millrace_process::listen_address;
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpListener,
    sync::Notify,
    task::{JoinSet, LocalSet},
    time::timeout,
};
use tokio_rustls::TlsAcceptor;

use crate::{
    load::{ID_BYTES, put},
    output,
};

const MESSAGE_ID: &str = "5e0b2a53-8f2c-4d8e-9a55-0c2f3d1e6b7a";
const MD5: &str = "0123456789abcdef0123456789abcdef";
/// As long as Millrace's: 54 characters.
const HANDLE: &str = "AAAAAAABAAAAAAAAAAEAAAAAAAABAAAAavS15suSPx5fYtCKFxNoKA";
const BODY_KEY: &[u8] = b"\"MessageBody\":\"";
const BUFFER_BYTES: usize = 32 << 10;

#[derive(Args, Debug)]
pub(crate) struct Flags {
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9324", value_parser = listen_address)]
    listen: SocketAddr,
    /// Close each connection after so many answers, and say so in the last; 0 means never
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    close_after: u64,
    /// Certificate chain (PEM); turns TLS on
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Private key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
}

#[derive(Default)]
struct Queue {
    ids: RefCell<VecDeque<[u8; ID_BYTES]>>,
    /// What follows the id in the bodies last sent.
    filler: RefCell<Vec<u8>>,
    arrived: Notify,
}

#[derive(Default)]
struct Queues {
    by_name: RefCell<HashMap<Vec<u8>, Rc<Queue>>>,
    address: Cell<Option<SocketAddr>>,
}

/// Serves until the process ends; prints the address first.
pub(crate) fn serve(flags: &Flags) -> Result<()> {
    let (listen, close_after) = (flags.listen, flags.close_after);
    let runtime = crate::runtime::current_thread()?;
    LocalSet::new().block_on(&runtime, async {
        let listener =
            TcpListener::bind(listen).await.with_context(|| format!("listening on {listen}"))?;
        let address = listener.local_addr().context("local address")?;
        let acceptor = acceptor(flags)?;
        let scheme = if acceptor.is_some() { "https" } else { "http" };
        // Who started it reads the address from there.
        output::print(&format!("ceiling serves at {scheme}://{address}\n"))?;
        let queues = Rc::new(Queues::default());
        queues.address.set(Some(address));
        let mut connections = JoinSet::new();
        loop {
            let (socket, _) = listener.accept().await.context("accepting")?;
            while connections.try_join_next().is_some() {}
            let (acceptor, queues) = (acceptor.clone(), Rc::clone(&queues));
            connections.spawn_local(async move {
                if socket.set_nodelay(true).is_err() {
                    return;
                }
                match acceptor {
                    None => converse(socket, queues, close_after).await,
                    Some(acceptor) => {
                        // A client that cannot shake hands is gone.
                        let Ok(socket) = acceptor.accept(socket).await else { return };
                        converse(socket, queues, close_after).await;
                    }
                }
            });
        }
    })
}

fn acceptor(flags: &Flags) -> Result<Option<TlsAcceptor>> {
    let (Some(certificate), Some(key)) = (&flags.tls_cert, &flags.tls_key) else { return Ok(None) };
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .with_context(|| format!("reading {}", certificate.display()))?;
    let key = PrivateKeyDer::from_pem_file(key).context("reading the key")?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .context("TLS versions")?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .context("certificate and key")?;
    Ok(Some(TlsAcceptor::from(Arc::new(config))))
}

async fn converse(
    mut socket: impl AsyncRead + AsyncWrite + Unpin,
    queues: Rc<Queues>,
    close_after: u64,
) {
    let (mut input, mut output) = (Vec::with_capacity(BUFFER_BYTES), Vec::new());
    let mut answers = 0;
    loop {
        input.reserve(BUFFER_BYTES);
        if !socket.read_buf(&mut input).await.is_ok_and(|count| count > 0) {
            return;
        }
        while let Some((head, end)) = whole_request(&input) {
            let (head, body) = input[..end].split_at(head);
            answers += 1;
            let is_last = answers == close_after;
            queues.answer(head, body, is_last, &mut output).await;
            input.drain(..end);
            if socket.write_all(&output).await.is_err() || socket.flush().await.is_err() {
                return;
            }
            if is_last {
                let _ = socket.shutdown().await;
                return;
            }
        }
    }
}

/// Where head and body of the first request end, once it is all there.
fn whole_request(input: &[u8]) -> Option<(usize, usize)> {
    let head = memmem::find(input, b"\r\n\r\n")? + 4;
    let length = memmem::find(&input[..head], b"Content-Length: ").map_or(0, |at| {
        let digits = input[at + 16..].iter().take_while(|byte| byte.is_ascii_digit());
        digits.fold(0, |length, digit| length * 10 + usize::from(digit - b'0'))
    });
    (input.len() >= head + length).then_some((head, head + length))
}

impl Queues {
    async fn answer(&self, head: &[u8], body: &[u8], is_last: bool, output: &mut Vec<u8>) {
        let action = memmem::find(head, b"AmazonSQS.").map_or(&b""[..], |at| &head[at + 10..]);
        let action = &action[..memchr(b'\r', action).unwrap_or(0)];
        let mut answer = Vec::with_capacity(256);
        match action {
            b"SendMessage" => {
                self.queue(body).send(body);
                put(
                    &mut answer,
                    &["{\"MessageId\":\"", MESSAGE_ID, "\",\"MD5OfMessageBody\":\"", MD5, "\"}"],
                );
            }
            b"SendMessageBatch" => {
                let count = self.queue(body).send(body);
                successes(count, SENT, &mut answer);
            }
            b"ReceiveMessage" => self.queue(body).receive(body, &mut answer).await,
            b"DeleteMessageBatch" => {
                successes(memmem::find_iter(body, b"\"ReceiptHandle\"").count(), "", &mut answer);
            }
            b"CreateQueue" | b"GetQueueUrl" => self.create(body, &mut answer),
            b"DeleteQueue" => {
                self.by_name.borrow_mut().remove(queue_name(body));
                answer.extend_from_slice(b"{}");
            }
            _ => answer.extend_from_slice(b"{}"),
        }
        output.clear();
        // Writing to a vector cannot fail.
        let _ = write!(
            output,
            "HTTP/1.1 200 OK\r\nContent-Type: application/x-amz-json-1.0\r\n\
             Date: Thu, 01 Jan 1970 00:00:00 GMT\r\nx-amzn-RequestId: {MESSAGE_ID}\r\n\
             {}Content-Length: {}\r\n\r\n",
            if is_last { "Connection: close\r\n" } else { "" },
            answer.len()
        );
        output.extend_from_slice(&answer);
    }

    fn create(&self, body: &[u8], answer: &mut Vec<u8>) {
        let name = text_of(body, b"\"QueueName\":\"");
        if let Some(address) = self.address.get() {
            let name = String::from_utf8_lossy(name);
            let _ = write!(answer, "{{\"QueueUrl\":\"http://{address}/000000000000/{name}\"}}");
        }
    }

    fn queue(&self, body: &[u8]) -> Rc<Queue> {
        let name = queue_name(body);
        let mut queues = self.by_name.borrow_mut();
        if let Some(queue) = queues.get(name) {
            return Rc::clone(queue);
        }
        Rc::clone(queues.entry(name.to_vec()).or_default())
    }
}

impl Queue {
    fn send(&self, body: &[u8]) -> usize {
        let mut ids = self.ids.borrow_mut();
        let before = ids.len();
        for at in memmem::find_iter(body, BODY_KEY) {
            let text = body.get(at + BODY_KEY.len()..).unwrap_or_default();
            let Some(id) = text.first_chunk() else { continue };
            ids.push_back(*id);
            if self.filler.borrow().is_empty() {
                let end = memchr(b'"', text).unwrap_or(ID_BYTES).max(ID_BYTES);
                *self.filler.borrow_mut() = text[ID_BYTES..end].to_vec();
            }
            self.arrived.notify_one();
        }
        ids.len() - before
    }

    async fn receive(&self, body: &[u8], answer: &mut Vec<u8>) {
        let max = number_of(body, b"\"MaxNumberOfMessages\":").unwrap_or(1) as usize;
        let wait = Duration::from_secs(number_of(body, b"\"WaitTimeSeconds\":").unwrap_or(0));
        if self.ids.borrow().is_empty() && !wait.is_zero() {
            let arrived = async {
                while self.ids.borrow().is_empty() {
                    self.arrived.notified().await;
                }
            };
            // Nothing came: the answer says so.
            let _ = timeout(wait, arrived).await;
        }
        let mut ids = self.ids.borrow_mut();
        let count = max.min(ids.len());
        if count == 0 {
            answer.extend_from_slice(b"{}");
            return;
        }
        answer.extend_from_slice(b"{\"Messages\":[");
        for (index, id) in ids.drain(..count).enumerate() {
            put(answer, &[if index > 0 { "," } else { "" }, "{\"MessageId\":\"", MESSAGE_ID]);
            put(answer, &["\",\"ReceiptHandle\":\"", HANDLE, "\",\"MD5OfBody\":\"", MD5]);
            put(answer, &["\",\"Body\":\""]);
            answer.extend_from_slice(&id);
            answer.extend_from_slice(&self.filler.borrow());
            answer.extend_from_slice(b"\"}");
        }
        answer.extend_from_slice(b"]}");
    }
}

const SENT: &str = ",\"MessageId\":\"5e0b2a53-8f2c-4d8e-9a55-0c2f3d1e6b7a\",\
    \"MD5OfMessageBody\":\"0123456789abcdef0123456789abcdef\"";

fn successes(count: usize, rest: &str, answer: &mut Vec<u8>) {
    answer.extend_from_slice(b"{\"Successful\":[");
    for index in 0..count {
        let comma = if index > 0 { "," } else { "" };
        let _ = write!(answer, "{comma}{{\"Id\":\"{index}\"{rest}}}");
    }
    answer.extend_from_slice(b"]}");
}

/// The last part of the queue's URL, which requests begin with.
fn queue_name(body: &[u8]) -> &[u8] {
    let url = text_of(body, b"\"QueueUrl\":\"");
    url.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

fn text_of<'b>(body: &'b [u8], key: &[u8]) -> &'b [u8] {
    let value = memmem::find(body, key).map_or(&b""[..], |at| &body[at + key.len()..]);
    &value[..memchr(b'"', value).unwrap_or(value.len())]
}

fn number_of(body: &[u8], key: &[u8]) -> Option<u64> {
    let value = &body[memmem::find(body, key)? + key.len()..];
    let digits = value.iter().take_while(|byte| byte.is_ascii_digit());
    Some(digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_end_where_their_length_says() {
        let request = b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}POST";

        assert_eq!(whole_request(request), Some((38, 40)));
        assert_eq!(whole_request(&request[..39]), None);
        assert_eq!(whole_request(&request[..20]), None);
    }

    #[test]
    fn the_queue_is_named_by_the_end_of_its_url() {
        let body = br#"{"QueueUrl":"http://h/000000000000/jobs","MaxNumberOfMessages":10}"#;

        assert_eq!(queue_name(body), b"jobs");
        assert_eq!(number_of(body, b"\"MaxNumberOfMessages\":"), Some(10));
        assert_eq!(queue_name(b"{}"), b"");
    }
}
