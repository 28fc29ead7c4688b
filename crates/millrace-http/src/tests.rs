//! The rules of connections, against a server that breaks them.

mod addresses;
mod descriptors;
mod early;
mod idle;
mod streamed;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::*;
use crate::testing::{CloseAfter, Ending, FaultServer, Reply, Request, ServerFault, ServerFaults};

async fn echo(request: Request) -> Reply {
    Reply::json(200, request.body)
}

async fn server() -> FaultServer {
    FaultServer::start(echo).await.unwrap()
}

fn transport(server: &FaultServer, options: &TransportOptions) -> Transport {
    Transport::new(Endpoint::parse(&server.url()).unwrap(), options).unwrap()
}

fn call(lane: Lane, repeat: Repeat) -> Call {
    Call {
        lane,
        head: Head::new("POST", "/", "h").unwrap(),
        body: Bytes::from_static(b"hello"),
        wait: Duration::ZERO,
        repeat,
    }
}

async fn ask(transport: &Transport) -> Result<Answer, TransportError> {
    transport.call(call(Lane::Quick, Repeat::Safe)).await
}

fn closing(requests: u64, ending: Ending) -> ServerFaults {
    let close_after = Some(CloseAfter { requests, ending });
    ServerFaults { close_after, ..ServerFaults::default() }
}

/// The longest wait for what is sure to come; it matters only to a test that fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `condition`; what it waits for happens in the background on real sockets.
async fn eventually(condition: impl Fn() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.unwrap();
}

#[tokio::test]
async fn one_connection_serves_one_request_after_the_other() {
    let server = server().await;
    let transport = transport(&server, &TransportOptions::default());

    for _ in 0..5 {
        assert_eq!(&*ask(&transport).await.unwrap().body, b"hello");
    }

    let ledger = transport.ledger();
    assert_eq!((ledger.opened, ledger.reused, ledger.requests), (1, 4, 5));
    assert!(ledger.handshake_us > 0);
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn naive_transports_open_a_connection_for_each_request() {
    let server = server().await;
    let transport = transport(&server, &TransportOptions::naive());

    for _ in 0..3 {
        ask(&transport).await.unwrap();
    }

    assert_eq!((transport.ledger().opened, transport.ledger().reused), (3, 0));
}

#[tokio::test]
async fn long_polls_never_hold_up_the_quick_lane() {
    let server = FaultServer::start(|request: Request| async move {
        if request.target == "/poll" {
            std::future::pending::<()>().await;
        }
        Reply::json(200, "")
    })
    .await
    .unwrap();
    let options = TransportOptions { lane_connections: 2, ..TransportOptions::default() };
    let transport = Arc::new(transport(&server, &options));
    let mut polls = tokio::task::JoinSet::new();
    for _ in 0..5 {
        let transport = Arc::clone(&transport);
        let head = Head::new("POST", "/poll", "h").unwrap();
        let poll = Call { head, ..call(Lane::Hold, Repeat::Safe) };
        polls.spawn(async move { transport.call(poll).await.is_ok() });
    }
    eventually(|| server.requests().len() == 2).await;

    let quick = async {
        for _ in 0..10 {
            ask(&transport).await.unwrap();
        }
    };
    // Far sooner than any poll gives up.
    tokio::time::timeout(Duration::from_secs(5), quick).await.unwrap();
    assert_eq!(server.requests().len(), 2 + 10, "the other polls wait for a connection");
}

#[tokio::test]
async fn announced_ends_are_obeyed_and_counted() {
    let server = server().await;
    server.set_faults(closing(3, Ending::Announced));
    let options = TransportOptions { spares: Spares::Never, ..TransportOptions::default() };
    let transport = transport(&server, &options);

    for _ in 0..9 {
        ask(&transport).await.unwrap();
    }

    let ledger = transport.ledger();
    assert_eq!((ledger.opened, ledger.closed_by_header, ledger.stale_on_use), (3, 3, 0));
}

#[tokio::test]
async fn a_connection_that_died_under_a_request_costs_one_request_and_no_error() {
    let server = server().await;
    server.set_faults(closing(4, Ending::UnderRequest));
    let options = TransportOptions { spares: Spares::Never, ..TransportOptions::default() };
    let transport = transport(&server, &options);

    for _ in 0..12 {
        ask(&transport).await.unwrap();
    }

    let ledger = transport.ledger();
    assert_eq!((ledger.opened, ledger.stale_on_use, ledger.reset), (3, 2, 0));
    assert_eq!(server.requests().len(), 14);
}

#[tokio::test]
async fn what_must_not_be_repeated_is_not() {
    let server = server().await;
    let transport = transport(&server, &TransportOptions::default());
    ask(&transport).await.unwrap();
    server.plan(ServerFault::DropAnswer);

    let error = transport.call(call(Lane::Quick, Repeat::Never)).await.unwrap_err();

    assert!(matches!(error, TransportError::NoAnswer(_)), "{error}");
    assert!(error.is_ambiguous());
    assert_eq!(server.requests().len(), 2);
}

/// What a server died of is not given to the next one.
#[tokio::test]
async fn what_may_have_begun_is_not_repeated_if_that_is_asked() {
    let slow = |request: Request| async move {
        if &*request.body == b"slow" {
            tokio::time::sleep(STALE_WITHIN * 2).await;
        }
        Reply::json(200, request.body)
    };
    let server = FaultServer::start(slow).await.unwrap();
    let transport = transport(&server, &TransportOptions::default());
    let call = |body| Call { body: Bytes::from(body), ..call(Lane::Quick, Repeat::IfStale) };
    transport.call(call("first")).await.unwrap();
    server.plan(ServerFault::DropAnswer);
    transport.call(call("stale")).await.unwrap();
    assert_eq!(server.requests().len(), 3);
    server.plan(ServerFault::DropAnswer);

    let error = transport.call(call("slow")).await.unwrap_err();

    assert!(matches!(error, TransportError::NoAnswer(_)), "{error}");
    assert_eq!(server.requests().len(), 4);
}

#[tokio::test]
async fn fresh_connections_and_broken_answers_are_not_repeated() {
    let server = server().await;
    let transport = transport(&server, &TransportOptions::default());
    server.plan(ServerFault::Drop);
    assert!(matches!(ask(&transport).await, Err(TransportError::NoAnswer(_))));
    ask(&transport).await.unwrap();
    server.plan(ServerFault::CutAnswer);
    assert!(matches!(ask(&transport).await, Err(TransportError::BrokenAnswer(_))));

    assert_eq!(server.requests().len(), 3);
    assert_eq!(transport.ledger().reset, 2);
}

#[tokio::test]
async fn the_second_failure_in_a_row_is_an_error() {
    let server = server().await;
    let transport = transport(&server, &TransportOptions::default());
    ask(&transport).await.unwrap();
    server.plan(ServerFault::Drop);
    server.plan(ServerFault::Drop);

    assert!(matches!(ask(&transport).await, Err(TransportError::NoAnswer(_))));
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn an_idle_connection_that_was_closed_is_noticed_before_use() {
    let server = server().await;
    server.set_faults(closing(1, Ending::Silent));
    let transport = transport(&server, &TransportOptions::default());

    ask(&transport).await.unwrap();
    eventually(|| server.ended() == 1).await;
    // The runtime looks at its sockets before it goes on here.
    tokio::task::yield_now().await;
    ask(&transport).await.unwrap();

    let ledger = transport.ledger();
    assert_eq!((ledger.closed_while_idle, ledger.stale_on_use, ledger.opened), (1, 0, 2));
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn bytes_behind_an_answer_are_never_taken_for_the_next() {
    let server = server().await;
    let transport = transport(&server, &TransportOptions::default());
    // An answer that can have no body, with one that looks like a success.
    let stray = "HTTP/1.1 200 x\r\ncontent-length: 5\r\n\r\nstray";
    server.plan(ServerFault::Reply(Reply::json(204, stray)));

    assert_eq!(ask(&transport).await.unwrap().status, 204);
    assert_eq!(&*ask(&transport).await.unwrap().body, b"hello");

    let ledger = transport.ledger();
    assert_eq!((ledger.opened, ledger.closed_while_idle), (2, 1));
}

#[tokio::test]
async fn a_limit_of_requests_is_learned_and_spares_are_opened_in_time() {
    for ending in [Ending::Announced, Ending::UnderRequest] {
        let server = server().await;
        server.set_faults(closing(10, ending));
        let transport = transport(&server, &TransportOptions::default());
        for _ in 0..21 {
            ask(&transport).await.unwrap();
        }
        assert_eq!(transport.learned_lifetime(), Some(10), "{ending:?}");
        let before = transport.ledger();

        let mut due = before.spares;
        for served in 2..52 {
            ask(&transport).await.unwrap();
            if served % 10 == 8 {
                due += 1;
                eventually(|| transport.ledger().spares == due).await;
            }
        }

        let after = transport.ledger();
        assert_eq!(after.spares - before.spares, 5, "{ending:?}");
        assert_eq!(after.opened - before.opened, 5, "every new connection was a spare");
        assert_eq!(after.stale_on_use, before.stale_on_use, "{ending:?}");
    }
}

#[tokio::test]
async fn our_own_limit_closes_connections() {
    let server = server().await;
    let options = TransportOptions { requests_max: Some(3), ..TransportOptions::default() };
    let transport = transport(&server, &options);

    for _ in 0..9 {
        ask(&transport).await.unwrap();
    }

    let positions = server.requests().into_iter().map(|request| request.position).max();
    assert_eq!(positions, Some(3));
    assert_eq!(transport.ledger().retired, 3);
}

#[tokio::test]
async fn what_takes_too_long_ends_with_an_error() {
    let server = server().await;
    server.plan(ServerFault::Hang);
    let options = TransportOptions {
        answer_timeout: Duration::from_millis(500),
        lane_connections: 1,
        ..TransportOptions::default()
    };
    let transport = transport(&server, &options);

    let error = ask(&transport).await.unwrap_err();
    assert!(matches!(error, TransportError::AnswerTimeout { .. }), "{error}");
    assert!(error.is_ambiguous());
    transport.call(Call { wait: PATIENCE, ..call(Lane::Quick, Repeat::Safe) }).await.unwrap();
}

#[tokio::test]
async fn nobody_listening_is_no_ambiguity() {
    let server = server().await;
    let transport = transport(&server, &TransportOptions::default());
    drop(server);
    tokio::task::yield_now().await;

    let error = ask(&transport).await.unwrap_err();
    assert!(matches!(error, TransportError::Connect(_)), "{error}");
    assert!(!error.is_ambiguous());
    assert_eq!(transport.ledger().connect_failed, 1);
}

#[tokio::test]
async fn a_request_that_cannot_be_repeated_stays_ambiguous() {
    let server = FaultServer::start(|request: Request| async move {
        if request.position == 2 {
            std::future::pending::<()>().await;
        }
        Reply::json(200, "")
    })
    .await
    .unwrap();
    let transport = Arc::new(transport(&server, &TransportOptions::default()));
    ask(&transport).await.unwrap();
    let asking = tokio::spawn({
        let transport = Arc::clone(&transport);
        async move { ask(&transport).await }
    });
    eventually(|| server.requests().len() == 2).await;

    drop(server);
    let error = asking.await.unwrap().unwrap_err();

    assert!(matches!(error, TransportError::NotRepeated(_)), "{error}");
    assert!(error.is_ambiguous());
    assert_eq!(transport.ledger().connect_failed, 1);
}

#[tokio::test]
async fn a_large_body_goes_both_ways() {
    let server = server().await;
    let transport = transport(&server, &TransportOptions::default());
    let body = Bytes::from(vec![b'x'; 3 << 20]);

    let large = Call { body: body.clone(), ..call(Lane::Quick, Repeat::Safe) };
    let Answer { body: answered, .. } = transport.call(large).await.unwrap();
    assert_eq!(answered, body);
    // What the connection reads next is put elsewhere, so that a small answer keeps no large one.
    assert!(answered.is_unique());
}

mod tls {
    use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

    use super::*;

    struct Secured {
        server: FaultServer,
        authority: Vec<u8>,
    }

    async fn secured() -> Secured {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let server = FaultServer::start_tls(Arc::new(config), echo).await.unwrap();
        Secured { server, authority: made.cert.pem().into_bytes() }
    }

    fn options(tls: TlsOptions) -> TransportOptions {
        TransportOptions { tls, spares: Spares::Never, ..TransportOptions::default() }
    }

    #[tokio::test]
    async fn a_server_must_prove_who_it_is() {
        let Secured { server, authority } = secured().await;
        let trusting = TlsOptions { extra_authorities: authority, ..TlsOptions::default() };
        let trusting = transport(&server, &options(trusting));
        let unchecked = TlsOptions { identity: ServerIdentity::Unchecked, ..TlsOptions::default() };
        let unchecked = transport(&server, &options(unchecked));

        assert_eq!(&*ask(&trusting).await.unwrap().body, b"hello");
        assert_eq!(&*ask(&trusting).await.unwrap().body, b"hello");
        assert_eq!(&*ask(&unchecked).await.unwrap().body, b"hello");
        assert_eq!(trusting.ledger().opened, 1);
        let endpoint = Endpoint::parse(&server.url()).unwrap();
        // Without authorities of its own a machine knows none that signed this certificate.
        let refused = match Transport::new(endpoint, &options(TlsOptions::default())) {
            Ok(strict) => ask(&strict).await.is_err(),
            Err(error) => matches!(error, TransportError::Tls(_)),
        };
        assert!(refused);
    }

    #[tokio::test]
    async fn a_server_proves_its_name_also_by_way_of_another_address() {
        let Secured { server, authority } = secured().await;
        let tls = TlsOptions { extra_authorities: authority, ..TlsOptions::default() };
        let port = Endpoint::parse(&server.url()).unwrap().port;
        let connect_to = Some(([127, 0, 0, 1], port).into());
        let options = TransportOptions { connect_to, ..options(tls) };
        let elsewhere = Endpoint::parse("https://localhost:1").unwrap();

        let transport = Transport::new(elsewhere, &options).unwrap();

        assert_eq!(&*ask(&transport).await.unwrap().body, b"hello");
    }

    #[tokio::test]
    async fn silent_ends_over_tls_are_stale_too() {
        for ending in [Ending::Silent, Ending::UnderRequest] {
            let Secured { server, authority } = secured().await;
            server.set_faults(closing(2, ending));
            let tls = TlsOptions { extra_authorities: authority, ..TlsOptions::default() };
            let transport = transport(&server, &options(tls));

            for _ in 0..6 {
                ask(&transport).await.unwrap();
            }

            let ledger = transport.ledger();
            let ended = ledger.closed_while_idle + ledger.stale_on_use;
            assert_eq!((ended, ledger.opened, ledger.reset), (2, 3, 0), "{ending:?}");
        }
    }
}
