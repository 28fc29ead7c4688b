//! Both versions against a small server that keeps the documented rules over a queue in memory.

use std::time::Duration;

use bytestring::ByteString;
use serde_json::{Value, json};

use super::*;
use crate::error::CallErrorKind;
use crate::message::{Outgoing, ReceiptHandle};
use crate::peer::{Peer, ReceiveRequest, Visibility};
use crate::retry::{RetryOptions, Retrying};
use crate::testing::{FaultServer, MemoryPeer, Reply, Request, ServerFault};
use crate::transport::{Endpoint, TransportOptions};

const TOKEN: &str = "OAuth tok";

/// What IronMQ answers, in the version that the path names.
async fn iron(memory: MemoryPeer, request: Request) -> Reply {
    let reply = |status, body: Value| Reply::json(status, body.to_string());
    if request.header("authorization") != Some(TOKEN) {
        return reply(401, json!({ "msg": "Not authorized" }));
    }
    let input: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
    let is_v3 = path.starts_with("/3/projects/p/queues/");
    let (_, path) = path.split_once("/queues/").unwrap();
    let (queue, path) = path.split_once('/').unwrap();
    assert!(queue == "a%20b" || queue == "missing", "{queue}");
    if queue == "missing" {
        return reply(404, json!({ "msg": "Queue not found" }));
    }
    let parts: Vec<&str> = path.split('/').collect();
    match (request.method.as_str(), parts.as_slice()) {
        ("POST", ["messages"]) if request.body.len() > 256 << 10 => {
            reply(400, json!({ "msg": "Too large" }))
        }
        ("POST", ["messages"]) => {
            let bodies = input["messages"].as_array().unwrap().iter();
            let messages: Vec<_> =
                bodies.map(|message| Outgoing::new(message["body"].as_str().unwrap())).collect();
            let sent = memory.send(&messages).await.unwrap().into_iter();
            let ids: Vec<_> = sent.map(|sent| sent.unwrap().message_id.to_string()).collect();
            reply(if is_v3 { 201 } else { 200 }, json!({ "ids": ids }))
        }
        ("POST", ["reservations"]) if is_v3 => {
            let number = |name: &str| input[name].as_u64();
            reply(200, reserve(&memory, number("n"), number("wait"), number("timeout"), true).await)
        }
        ("GET", ["messages"]) if !is_v3 => {
            let pairs: Vec<_> = query.split('&').filter_map(|pair| pair.split_once('=')).collect();
            let number = |name: &str| {
                let found = pairs.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| value.parse().unwrap())
            };
            let timeout = number("timeout");
            reply(200, reserve(&memory, number("n"), number("wait"), timeout, false).await)
        }
        ("DELETE", ["messages"]) => {
            let ids = input["ids"].as_array().unwrap();
            let handles: Vec<_> = ids.iter().map(|entry| handle_of(entry, is_v3)).collect();
            if is_v3 && handles.iter().any(|handle| handle.token == "stale") {
                return reply(403, json!({ "msg": "Reservation timed out" }));
            }
            memory.delete(&handles).await.unwrap();
            reply(200, json!({ "msg": "Deleted" }))
        }
        ("DELETE", ["messages", id]) => {
            let outcome = memory.delete(&[handle(id, &input, is_v3)]).await.unwrap().remove(0);
            match outcome {
                Ok(()) => reply(200, json!({ "msg": "Deleted" })),
                Err(_) => reply(403, json!({ "msg": "Reservation timed out" })),
            }
        }
        ("POST", ["messages", id, what @ ("touch" | "release")]) => {
            let asked = if *what == "touch" { "timeout" } else { "delay" };
            let seconds = input[asked].as_u64().unwrap_or(60);
            let timeout = Duration::from_secs(seconds);
            let change = Visibility { handle: handle(id, &input, is_v3), timeout };
            match memory.change_visibility(&[change]).await.unwrap().remove(0) {
                Ok(_) if *what == "touch" && is_v3 => {
                    reply(200, json!({ "reservation_id": format!("{id}-1"), "msg": "Touched" }))
                }
                Ok(_) => reply(200, json!({ "msg": "Done" })),
                Err(_) => reply(403, json!({ "msg": "Reservation timed out" })),
            }
        }
        _ => reply(405, json!({ "msg": request.target })),
    }
}

async fn reserve(
    memory: &MemoryPeer,
    n: Option<u64>,
    wait: Option<u64>,
    timeout: Option<u64>,
    is_v3: bool,
) -> Value {
    let request = ReceiveRequest {
        max: n.unwrap_or(1) as u32,
        wait: Duration::from_secs(wait.unwrap_or(0)),
        visibility: timeout.map(Duration::from_secs),
        ..ReceiveRequest::default()
    };
    let deliveries = memory.receive(request).await.unwrap();
    let messages: Vec<_> = deliveries
        .iter()
        .map(|delivery| {
            let mut message = json!({
                "id": delivery.message_id().to_string(),
                "body": delivery.body.to_string(),
                "reserved_count": delivery.receive_count(),
            });
            if is_v3 {
                message["reservation_id"] = delivery.handle.token.to_string().into();
            }
            message
        })
        .collect();
    json!({ "messages": messages })
}

fn handle_of(entry: &Value, is_v3: bool) -> ReceiptHandle {
    let id = if is_v3 { &entry["id"] } else { entry };
    handle(id.as_str().unwrap(), entry, is_v3)
}

/// Version 1 names no reservation; in these tests it is the first.
fn handle(id: &str, input: &Value, is_v3: bool) -> ReceiptHandle {
    let token = match input["reservation_id"].as_str() {
        Some(token) => ByteString::from(token),
        None => ByteString::from(format!("{id}-1")),
    };
    assert_eq!(is_v3, input["reservation_id"].is_string());
    ReceiptHandle { message_id: id.into(), token }
}

struct Rig {
    memory: MemoryPeer,
    server: FaultServer,
    peer: IronPeer,
}

async fn rig(version: IronVersion, queue: &str, token: &str) -> Rig {
    let memory = MemoryPeer::standard();
    let behind = memory.clone();
    let server = FaultServer::start(move |request| iron(behind.clone(), request)).await.unwrap();
    let options = IronOptions {
        version,
        project_id: "p".to_owned(),
        token: token.to_owned(),
        transport: TransportOptions::default(),
    };
    let endpoint = Endpoint::parse(&server.url()).unwrap();
    Rig { memory, server, peer: IronPeer::new(endpoint, queue, &options).unwrap() }
}

fn at_once(max: u32) -> ReceiveRequest {
    ReceiveRequest { max, wait: Duration::ZERO, ..ReceiveRequest::default() }
}

#[tokio::test]
async fn messages_are_posted_reserved_touched_released_and_deleted() {
    for version in [IronVersion::V1, IronVersion::V3] {
        let Rig { memory, peer, server } = rig(version, "a b", "tok").await;
        let messages: Vec<_> = (0..30).map(|n| Outgoing::new(format!("\"{n}\""))).collect();

        let sent = peer.send(&messages).await.unwrap();
        let request = ReceiveRequest { visibility: Some(Duration::from_secs(90)), ..at_once(30) };
        let mut deliveries = peer.receive(request).await.unwrap();
        assert!(sent.iter().all(Result::is_ok));
        assert_eq!((deliveries.len(), &*deliveries[7].body), (30, "\"7\""));
        assert_eq!(deliveries[0].receive_count(), Some(1));

        let first = deliveries.remove(0).handle;
        let touch = Visibility { handle: first.clone(), timeout: Duration::from_secs(45) };
        let renewed = peer.change_visibility(&[touch]).await.unwrap().remove(0).unwrap();
        let release = Visibility { handle: renewed, timeout: Duration::ZERO };
        assert!(peer.change_visibility(&[release]).await.unwrap()[0].is_ok());
        let again = peer.receive(at_once(5)).await.unwrap();
        assert_eq!((again.len(), again[0].receive_count()), (1, Some(2)));

        let handles: Vec<_> = deliveries.into_iter().map(|delivery| delivery.handle).collect();
        let before = server.requests().len();
        assert_eq!(peer.delete(&handles).await.unwrap(), vec![Ok(()); 29]);
        assert_eq!(server.requests().len(), before + 1, "one call deletes all");
        assert_eq!((memory.deleted().len(), memory.bodies().len()), (29, 1));
    }
}

#[tokio::test]
async fn a_message_given_back_for_later_is_released_with_a_delay() {
    for version in [IronVersion::V1, IronVersion::V3] {
        let Rig { memory, peer, server } = rig(version, "a b", "tok").await;
        memory.put(["a"]);
        let handle = peer.receive(at_once(1)).await.unwrap().remove(0).handle;
        let later = Visibility { handle, timeout: Duration::from_millis(89_500) };

        assert!(peer.release(&[later]).await.unwrap()[0].is_ok());

        let request = server.requests().pop().unwrap();
        assert!(request.target.ends_with("/release"), "{}", request.target);
        let asked: Value = serde_json::from_slice(&request.body).unwrap();
        assert_eq!(asked["delay"], 90);
        assert_eq!(peer.receive(at_once(1)).await.unwrap(), []);
    }
}

#[tokio::test]
async fn a_refused_batch_delete_is_repeated_one_by_one() {
    let Rig { memory, peer, server: _server } = rig(IronVersion::V3, "a b", "tok").await;
    memory.put(["a", "b", "c"]);
    let deliveries = peer.receive(at_once(3)).await.unwrap();
    let mut handles: Vec<_> = deliveries.into_iter().map(|delivery| delivery.handle).collect();
    handles[1].token = "stale".into();

    let outcomes = peer.delete(&handles).await.unwrap();

    assert_eq!((outcomes[0].clone(), outcomes[2].clone()), (Ok(()), Ok(())));
    let error = outcomes[1].clone().unwrap_err();
    assert_eq!((error.is_retryable(), error.message.as_str()), (false, "Reservation timed out"));
    assert_eq!(memory.bodies(), ["b"]);
}

#[tokio::test]
async fn errors_are_told_apart() {
    let missing = rig(IronVersion::V3, "missing", "tok").await;
    let foreign = rig(IronVersion::V1, "a b", "other").await;
    let busy = rig(IronVersion::V3, "a b", "tok").await;
    busy.server.plan(ServerFault::Reply(Reply::json(503, "<html>")));

    let error = missing.peer.receive(at_once(1)).await.unwrap_err();
    assert_eq!(error.kind, CallErrorKind::NoSuchQueue);
    let error = foreign.peer.receive(at_once(1)).await.unwrap_err();
    assert_eq!(error.kind, CallErrorKind::Auth);
    let error = busy.peer.send(&[Outgoing::new("a")]).await.unwrap_err();
    assert!(error.kind == CallErrorKind::Server && error.is_retryable());
}

#[tokio::test]
async fn an_answer_without_all_ids_is_no_success() {
    let Rig { peer, server, .. } = rig(IronVersion::V3, "a b", "tok").await;
    server.plan(ServerFault::Reply(Reply::json(201, r#"{"ids":["1"]}"#)));

    let error = peer.send(&[Outgoing::new("a"), Outgoing::new("b")]).await.unwrap_err();

    assert!(error.kind == CallErrorKind::Malformed && error.is_ambiguous);
}

#[tokio::test]
async fn a_batch_is_divided_where_its_request_would_be_too_large() {
    let Rig { memory, peer, server } = rig(IronVersion::V3, "a b", "tok").await;
    // The bodies are within the limit; what stands around them and before quotes is too much.
    let bodies: Vec<ByteString> =
        (0..100).map(|n| format!("{n:02}{:\"<2600}", "").into()).collect();
    let messages: Vec<_> = bodies.iter().cloned().map(Outgoing::new).collect();
    let size: usize = messages.iter().map(Outgoing::size_bytes).sum();
    assert!(size < peer.capabilities().max_batch_bytes);

    let error = peer.send(&messages).await.unwrap_err();
    assert_eq!((error.kind, error.is_ambiguous), (CallErrorKind::BatchTooLarge, false));
    assert_eq!(server.requests().len(), 0);

    let peer = Retrying::new(peer, RetryOptions::default());
    assert!(peer.send(&messages).await.unwrap().iter().all(Result::is_ok));
    assert_eq!(memory.bodies(), bodies);

    // Nothing can be divided here: the server decides.
    let large = Outgoing::new("x".repeat(300_000));
    assert_eq!(peer.send(&[large]).await.unwrap_err().message, "Too large");
}

#[tokio::test]
async fn a_touch_of_version_1_is_not_sure_to_extend_by_what_is_asked_for() {
    let of = async |version| rig(version, "q", "tok").await.peer.capabilities().sure_extension;

    assert_eq!(of(IronVersion::V1).await, Some(Duration::from_secs(30)));
    assert_eq!(of(IronVersion::V3).await, None);
}

#[tokio::test]
async fn long_polls_wait_at_the_server() {
    let Rig { memory, peer, server } = rig(IronVersion::V3, "a b", "tok").await;
    let poll = tokio::spawn(async move { peer.receive(ReceiveRequest::default()).await });
    while server.requests().is_empty() {
        tokio::task::yield_now().await;
    }
    memory.put(["late"]);

    assert_eq!(poll.await.unwrap().unwrap()[0].body, "late");
}

#[tokio::test]
async fn page_of_a_proxy_says_nothing_about_a_message() {
    let Rig { peer, server, .. } = rig(IronVersion::V3, "q", "tok").await;
    let page = |status| ServerFault::Reply(Reply::json(status, "<html>default backend"));
    let handle = ReceiptHandle { message_id: "1".into(), token: "1-1".into() };
    let given_back = [Visibility { handle: handle.clone(), timeout: Duration::ZERO }];

    server.plan(page(404));
    let error = peer.delete(std::slice::from_ref(&handle)).await.unwrap_err();
    assert_eq!((error.kind, error.is_ambiguous), (CallErrorKind::Malformed, true));
    assert_eq!(error.message, "<html>default backend");

    for _ in 0..3 {
        server.plan(page(200));
    }
    let one = peer.delete(std::slice::from_ref(&handle)).await.unwrap_err();
    let two = peer.delete(&[handle.clone(), handle]).await.unwrap_err();
    let released = peer.release(&given_back).await.unwrap_err();
    assert_eq!([one, two, released].map(|error| error.kind), [CallErrorKind::Malformed; 3]);
}
