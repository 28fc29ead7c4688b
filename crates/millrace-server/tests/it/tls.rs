use std::{
    fs, io,
    sync::Arc,
    time::{Duration, Instant},
};

use hyper::http::Method;
use millrace_server::{BindError, Closed, Server, TlsFiles};
use rustls::{
    CipherSuite, ClientConfig, DEFAULT_VERSIONS, HandshakeKind, RootCertStore,
    SupportedProtocolVersion,
    pki_types::{CertificateDer, ServerName},
    version::{TLS12, TLS13},
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::{
    http2::{ask, request},
    support::{PATIENCE, Running, options, start_where},
};

struct Secured {
    server: Running,
    certificate: CertificateDer<'static>,
    files: TlsFiles,
    _directory: TempDir,
}

fn start() -> Secured {
    let directory = TempDir::new().unwrap();
    let files = TlsFiles {
        certificate: directory.path().join("cert.pem"),
        key: directory.path().join("key.pem"),
    };
    let certificate = write_certificate(&files);
    let server = start_where(|options| {
        options.timeouts.certificates = Duration::from_millis(10);
        options.tls = Some(files.clone());
    });
    Secured { server, certificate, files, _directory: directory }
}

fn write_certificate(files: &TlsFiles) -> CertificateDer<'static> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    fs::write(&files.certificate, made.cert.pem()).unwrap();
    fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
    made.cert.der().clone()
}

impl Secured {
    fn client(&self, protocols: &[&[u8]]) -> TlsConnector {
        self.client_of(DEFAULT_VERSIONS, protocols)
    }

    fn client_of(
        &self,
        versions: &[&'static SupportedProtocolVersion],
        protocols: &[&[u8]],
    ) -> TlsConnector {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        TlsConnector::from(Arc::new(config))
    }

    async fn connect(&self, client: &TlsConnector) -> TlsStream<TcpStream> {
        self.try_to_connect(client).await.unwrap()
    }

    async fn try_to_connect(&self, client: &TlsConnector) -> io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(self.server.address).await.unwrap();
        client.connect(ServerName::try_from("localhost").unwrap(), stream).await
    }
}

async fn get_and_close(stream: &mut TlsStream<TcpStream>) -> String {
    let request = b"GET /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut answer = String::new();
    // Ends with TLS's own goodbye; without it this is an error.
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn http_1_1_over_tls() {
    let secured = start();
    let client = secured.client(&[b"http/1.1"]);
    let mut stream = secured.connect(&client).await;

    let answer = get_and_close(&mut stream).await;

    assert!(answer.contains("X-Tls: true\r\n"), "{answer}");
    assert!(answer.ends_with("GET /echo \n"));
    assert_eq!(secured.server.wait_until_closed().closed_for(Closed::Requested), 1);
}

#[tokio::test]
async fn http_2_is_chosen_by_alpn() {
    let secured = start();
    let client = secured.client(&[b"h2", b"http/1.1"]);
    let stream = secured.connect(&client).await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(async { connection.await.unwrap_or(()) });
    let mut client = client.ready().await.unwrap();

    let answer = ask(&mut client, request(Method::POST, "/echo"), b"hi").await;

    assert_eq!(answer.body, b"POST /echo \nhi");
    assert_eq!(answer.headers["x-tls"], "true");
}

#[tokio::test]
async fn plain_http_is_answered_with_the_scheme_to_use() {
    let secured = start();
    for request in ["GET / HTTP/1.1\r\nHost: a\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
        let mut client = TcpStream::connect(secured.server.address).await.unwrap();
        client.write_all(request.as_bytes()).await.unwrap();

        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();

        assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{answer}");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
        assert!(body.contains("https://"), "{body}");
    }
    let totals = secured.server.wait_until_closed();
    assert_eq!(totals.closed_for(Closed::Handshake), 2);
}

#[tokio::test]
async fn a_drain_does_not_wait_for_clients_that_have_said_nothing() {
    let secured = start();
    let client = secured.client(&[b"h2"]);
    let _silent = secured.connect(&client).await;
    let mut without_handshake = TcpStream::connect(secured.server.address).await.unwrap();
    secured.server.wait_until(|totals| totals.open == 2);
    let counters = secured.server.counters.clone();

    let drained = secured.server.stop();

    assert_eq!((drained.cut_off, counters.totals().closed_for(Closed::Drain)), (0, 2));
    assert_eq!(without_handshake.read(&mut [0; 1]).await.unwrap(), 0);
}

#[tokio::test]
async fn sessions_are_resumed() {
    let secured = start();
    let client = secured.client(&[]);

    let mut first = secured.connect(&client).await;
    get_and_close(&mut first).await;
    let mut second = secured.connect(&client).await;
    get_and_close(&mut second).await;

    assert_eq!(first.get_ref().1.handshake_kind(), Some(HandshakeKind::Full));
    assert_eq!(second.get_ref().1.handshake_kind(), Some(HandshakeKind::Resumed));
}

#[tokio::test]
async fn keys_have_128_bits() {
    for (version, suite) in [
        (&TLS13, CipherSuite::TLS13_AES_128_GCM_SHA256),
        (&TLS12, CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
    ] {
        let secured = start();
        let client = secured.client_of(&[version], &[]);

        let stream = secured.connect(&client).await;

        assert_eq!(stream.get_ref().1.negotiated_cipher_suite().unwrap().suite(), suite);
    }
}

#[tokio::test]
async fn a_renewed_certificate_is_taken_while_connections_go_on() {
    let mut secured = start();
    let mut open = secured.connect(&secured.client(&[])).await;

    secured.certificate = write_certificate(&secured.files);
    let client = secured.client(&[]);
    let until = Instant::now() + PATIENCE;
    let mut renewed = loop {
        match secured.try_to_connect(&client).await {
            Ok(stream) => break stream,
            Err(_) if Instant::now() < until => {}
            Err(error) => panic!("{error}"),
        }
    };

    assert!(get_and_close(&mut renewed).await.ends_with("GET /echo \n"));
    assert!(get_and_close(&mut open).await.ends_with("GET /echo \n"));
}

#[tokio::test]
async fn what_is_neither_tls_nor_http_gets_no_answer_of_http() {
    let secured = start();
    let mut stream = TcpStream::connect(secured.server.address).await.unwrap();

    stream.write_all(b"hello, is this the queue server?\r\n").await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;

    assert!(!answer.starts_with(b"HTTP/"));
    assert_eq!(secured.server.wait_until_closed().closed_for(Closed::Handshake), 1);
}

#[test]
fn missing_and_unfit_files_are_named() {
    let directory = TempDir::new().unwrap();
    let empty = directory.path().join("empty.pem");
    let certificate = directory.path().join("cert.pem");
    fs::write(&empty, "").unwrap();
    let mut options = options();

    options.tls = Some(TlsFiles { certificate: "/nowhere/cert.pem".into(), key: empty.clone() });
    let missing = Server::bind(options.clone()).unwrap_err();
    options.tls = Some(TlsFiles { certificate: empty.clone(), key: empty.clone() });
    let without = Server::bind(options.clone()).unwrap_err();
    let made = rcgen::generate_simple_self_signed(Vec::new()).unwrap();
    fs::write(&certificate, made.cert.pem()).unwrap();
    options.tls = Some(TlsFiles { certificate, key: empty });
    let keyless = Server::bind(options).unwrap_err();

    assert!(missing.to_string().contains("/nowhere/cert.pem"));
    assert!(matches!(without, BindError::Tls(_)));
    assert!(without.to_string().contains("holds no certificate"));
    assert!(keyless.to_string().contains("empty.pem holds no private key"), "{keyless}");
}
