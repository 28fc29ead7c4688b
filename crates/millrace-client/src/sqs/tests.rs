//! The whole client against a server with faults: batches over retries over connections.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::*;
use crate::batch::{BatchOptions, Sender, Settler};
use crate::error::{CallErrorKind, EntryError};
use crate::message::Outgoing;
use crate::peer::{Peer, ReceiveRequest, Visibility};
use crate::retry::{RetryOptions, Retrying};
use crate::testing::{
    CloseAfter, Ending, Fault, FaultServer, MemoryPeer, Operation, Reply, ServerFault,
    ServerFaults, sqs_handler,
};
use crate::transport::{Endpoint, Repeat, TransportOptions};

struct Rig {
    memory: MemoryPeer,
    server: FaultServer,
    client: SqsClient,
    peer: SqsPeer,
}

async fn rig() -> Rig {
    rig_with(TransportOptions::default()).await
}

async fn rig_with(transport: TransportOptions) -> Rig {
    let memory = MemoryPeer::standard();
    let server = FaultServer::start(sqs_handler(memory.clone())).await.unwrap();
    let endpoint = Endpoint::parse(&server.url()).unwrap();
    let options = SqsOptions { transport, ..SqsOptions::default() };
    let client = SqsClient::new(endpoint, options).unwrap();
    let peer = SqsPeer::open(client.clone(), "q").await.unwrap();
    Rig { memory, server, client, peer }
}

async fn send_all<P: Peer>(peer: P, count: usize) -> usize {
    let sender = Sender::new(peer, BatchOptions::default());
    let mut sends = JoinSet::new();
    for number in 0..count {
        let sender = sender.clone();
        sends.spawn(async move { sender.send(Outgoing::new(number.to_string())).await });
    }
    sends.join_all().await.iter().filter(|sent| sent.is_ok()).count()
}

fn distinct(memory: &MemoryPeer) -> usize {
    memory.bodies().into_iter().collect::<HashSet<_>>().len()
}

#[tokio::test]
async fn closing_servers_lose_nothing_and_repeat_nothing() {
    for ending in [Ending::Announced, Ending::UnderRequest] {
        let Rig { memory, server, peer, client } = rig().await;
        let close_after = Some(CloseAfter { requests: 3, ending });
        server.set_faults(ServerFaults { close_after, ..ServerFaults::default() });

        assert_eq!(send_all(peer, 500).await, 500);

        assert_eq!((memory.bodies().len(), distinct(&memory)), (500, 500), "{ending:?}");
        assert_eq!(client.transport().ledger().reset, 0);
    }
}

#[tokio::test]
async fn every_kind_of_fault_at_once_loses_nothing() {
    let answer_timeout = Duration::from_secs(1);
    let mut impatient = TransportOptions::default();
    impatient.answer_timeout = answer_timeout;
    let Rig { memory, server, peer, .. } = rig_with(impatient).await;
    let internal = EntryError::new("InternalError", "", false);
    memory.plan(Operation::Send, Fault::FailEntries(vec![0, 4, 9], internal));
    let throttled = Reply::json(400, r#"{"__type":"x#ThrottlingException"}"#);
    for fault in [
        ServerFault::Reply(throttled),
        ServerFault::Reply(Reply::json(503, "<html>")),
        ServerFault::Drop,
        ServerFault::DropAnswer,
        ServerFault::CutAnswer,
        ServerFault::Hang,
    ] {
        server.plan(fault);
    }
    let retrying = Retrying::new(peer, RetryOptions::default());

    assert_eq!(send_all(retrying, 200).await, 200);

    assert_eq!(distinct(&memory), 200);
    // Three answers were lost after the deed; a standard queue may have those batches twice.
    assert!(memory.bodies().len() <= 230, "{}", memory.bodies().len());
}

#[tokio::test]
async fn deletes_survive_lost_answers() {
    let Rig { memory, server, peer, .. } = rig().await;
    memory.put((0..10).map(|number| number.to_string()));
    let retrying = Arc::new(Retrying::new(peer, RetryOptions::default()));
    let deliveries = retrying.receive(ReceiveRequest::default()).await.unwrap();
    server.plan(ServerFault::Reply(Reply::json(500, "{}")));
    let settler = Settler::new(retrying, BatchOptions::default());

    let mut deletes = JoinSet::new();
    for delivery in deliveries {
        let settler = settler.clone();
        deletes.spawn(async move { settler.delete(delivery.handle).await });
    }
    assert!(deletes.join_all().await.iter().all(Result::is_ok));
    assert_eq!(memory.deleted().len(), 10);
}

#[tokio::test]
async fn page_with_status_200_neither_deletes_a_message_nor_gives_it_back() {
    let Rig { memory, server, peer, .. } = rig().await;
    memory.put(["a"]);
    let handle = peer.receive(ReceiveRequest::default()).await.unwrap().remove(0).handle;
    let given_back = [Visibility { handle: handle.clone(), timeout: Duration::ZERO }];
    for _ in 0..2 {
        server.plan(ServerFault::Reply(Reply::json(200, "<html>back soon")));
    }

    let deleted = peer.delete(&[handle]).await.unwrap_err();
    let hidden = peer.change_visibility(&given_back).await.unwrap_err();

    assert_eq!([deleted.kind, hidden.kind], [CallErrorKind::Malformed; 2]);
}

#[tokio::test]
async fn a_send_that_must_not_repeat_is_an_error_when_its_answer_is_lost() {
    let Rig { memory, server, peer, .. } = rig().await;
    let peer = peer.with_repeated_sends(Repeat::Never);
    peer.send(&[Outgoing::new("a")]).await.unwrap();
    server.plan(ServerFault::DropAnswer);

    let error = peer.send(&[Outgoing::new("b")]).await.unwrap_err();

    assert!(error.kind == CallErrorKind::Transport && error.is_ambiguous);
    assert_eq!(memory.bodies(), ["a", "b"]);
}
