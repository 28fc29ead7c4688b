//! Idle connections that are of no use any more, and those that are.

use super::*;
use crate::pool::{SILENT_AFTER, SWEEP_EVERY};

/// A server with a request that it never answers, and a transport with two idle connections to it,
/// each of which has served a request.
async fn two_idle(options: &TransportOptions) -> (FaultServer, Transport) {
    let both = Arc::new(tokio::sync::Barrier::new(2));
    let server = FaultServer::start(move |request: Request| {
        let both = Arc::clone(&both);
        async move {
            match request.target.as_str() {
                "/both" => {
                    both.wait().await;
                }
                "/never" => std::future::pending().await,
                _ => {}
            }
            Reply::json(200, "")
        }
    });
    let server = server.await.unwrap();
    let transport = transport(&server, options);
    let (first, second) =
        tokio::join!(ask_patiently(&transport, "/both"), ask_patiently(&transport, "/both"));
    first.and(second).unwrap();
    assert_eq!(server.connections(), 2);
    (server, transport)
}

async fn ask_for(transport: &Transport, target: &str) -> Result<Answer, TransportError> {
    let head = Head::new("POST", target, "h").unwrap();
    transport.call(Call { head, ..call(Lane::Quick, Repeat::Safe) }).await
}

/// However short the time is that the transport gives others for an answer.
async fn ask_patiently(transport: &Transport, target: &str) -> Result<Answer, TransportError> {
    let head = Head::new("POST", target, "h").unwrap();
    transport.call(Call { head, wait: PATIENCE, ..call(Lane::Quick, Repeat::Safe) }).await
}

/// As after a fail-over that no end of a connection told of.
#[tokio::test]
async fn silence_on_a_kept_connection_ends_the_idle_ones_too() {
    let answer_timeout = 2 * SILENT_AFTER;
    let options = TransportOptions { answer_timeout, ..TransportOptions::default() };
    let (server, transport) = two_idle(&options).await;

    let error = ask_for(&transport, "/never").await.unwrap_err();
    assert!(matches!(error, TransportError::AnswerTimeout { .. }), "{error}");
    ask_patiently(&transport, "/").await.unwrap();

    assert_eq!(transport.ledger().silent, 1);
    assert_eq!(server.requests().last().unwrap().connection, 3);
}

#[tokio::test]
async fn a_caller_that_gives_up_on_silence_ends_the_idle_ones_too() {
    let (server, transport) = two_idle(&TransportOptions::default()).await;

    let silent = ask_for(&transport, "/never");
    assert!(tokio::time::timeout(2 * SILENT_AFTER, silent).await.is_err());
    ask_for(&transport, "/").await.unwrap();

    assert_eq!(transport.ledger().silent, 1);
    assert_eq!(server.requests().last().unwrap().connection, 3);
}

#[tokio::test]
async fn connections_that_answered_since_outlive_the_silence_of_another() {
    let (server, transport) = two_idle(&TransportOptions::default()).await;

    let answered = async {
        eventually(|| server.requests().len() == 3).await;
        ask_for(&transport, "/").await.unwrap();
    };
    {
        let mut silent = std::pin::pin!(ask_for(&transport, "/never"));
        tokio::select! {
            _ = &mut silent => unreachable!("nobody answers it"),
            () = answered => {}
        }
        // Given up after the other's answer, however late that came.
        assert!(tokio::time::timeout(2 * SILENT_AFTER, silent).await.is_err());
    }
    ask_for(&transport, "/").await.unwrap();

    assert_eq!(transport.ledger().silent, 0);
    assert_eq!(server.connections(), 2);
}

/// Callers that change their minds quickly know nothing about connections.
#[tokio::test]
async fn a_call_dropped_at_once_ends_no_other_connection() {
    let (server, transport) = two_idle(&TransportOptions::default()).await;

    tokio::select! {
        biased;
        _ = ask_for(&transport, "/never") => unreachable!(),
        () = std::future::ready(()) => {}
    }
    ask_for(&transport, "/").await.unwrap();

    assert_eq!(transport.ledger().silent, 0);
    assert_eq!(server.connections(), 2);
}

/// The connection used last is always taken first: nobody would come to the one below it.
#[tokio::test]
async fn an_idle_connection_that_was_closed_is_noticed_below_one_in_use() {
    let release = Arc::new(tokio::sync::Notify::new());
    let released = Arc::clone(&release);
    let server = FaultServer::start(move |request: Request| {
        let released = Arc::clone(&released);
        async move {
            if request.target == "/slow" {
                released.notified().await;
            }
            Reply::json(200, "")
        }
    });
    let server = server.await.unwrap();
    let transport = transport(&server, &TransportOptions::default());

    let slow = async { ask_for(&transport, "/slow").await.unwrap() };
    let closed = async {
        eventually(|| server.requests().len() == 1).await;
        server.set_faults(closing(1, Ending::Silent));
        ask_for(&transport, "/").await.unwrap();
        eventually(|| server.ended() == 1).await;
        tokio::time::pause();
        tokio::time::advance(SWEEP_EVERY).await;
        tokio::time::resume();
        release.notify_one();
    };
    tokio::join!(slow, closed);

    let ledger = transport.ledger();
    assert_eq!((ledger.opened, ledger.closed_while_idle), (2, 1));
}
