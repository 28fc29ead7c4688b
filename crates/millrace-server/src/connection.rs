//! One connection from accept to close: TLS, and which protocol it speaks.

use std::{
    convert::Infallible,
    future::poll_fn,
    io,
    net::{IpAddr, SocketAddr},
    ops::Deref,
    sync::Arc,
    task::{Context as Task, Poll},
    time::Duration,
};

use millrace_wire::{Judgement, Request, Response, Service, Tenant};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use crate::{
    Closed, Drain, Limits, Timeouts,
    budget::{Budget, Held, NoRoom},
    clock::Deadline,
    connection_memory::{ConnectionMemory, Share},
    counters::Cell,
    http1::{End, Http1, Wire},
    http2,
    policy::Policy,
    tls,
    worker::{Destination, Left, Worker},
};

/// A call that waits longer may be a long poll, not just for the disk.
pub(crate) const LONG_WAIT: Duration = Duration::from_millis(2);

/// The answer to plain HTTP where TLS is spoken.
const SPEAKS_TLS: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 55\r\n\
    Content-Type: text/plain\r\nConnection: close\r\n\r\n\
    this port speaks TLS: the URL must begin with https://\n";

/// What all connections share.
pub(crate) struct Shared<S> {
    pub(crate) service: Arc<S>,
    pub(crate) policy: Policy,
    pub(crate) limits: Limits,
    pub(crate) memory: Arc<ConnectionMemory>,
    pub(crate) bodies: Budget,
    pub(crate) answers: Budget,
    pub(crate) timeouts: Timeouts,
    pub(crate) drain: Drain,
    pub(crate) tls: Option<TlsAcceptor>,
}

/// What belongs to one connection. Reads through to [`Shared`].
pub(crate) struct Context<S> {
    pub(crate) shared: Arc<Shared<S>>,
    pub(crate) worker: Arc<Worker>,
    pub(crate) deadline: Deadline,
    pub(crate) peer: IpAddr,
    /// What it holds of the memory of all connections.
    pub(crate) share: Arc<Share>,
    /// With TLS the handshake says which protocol is spoken, and no other worker can go on with it:
    /// its state is not in bytes and socket alone.
    pub(crate) is_tls: bool,
    /// Whether a request of it was answered.
    pub(crate) has_asked: bool,
}

impl<S: Service> Context<S> {
    pub(crate) fn new(
        shared: Arc<Shared<S>>,
        worker: Arc<Worker>,
        peer: SocketAddr,
        share: Arc<Share>,
    ) -> Context<S> {
        let deadline = worker.clock.deadline();
        share.set_alarm(deadline.alarm());
        Context {
            deadline,
            share,
            is_tls: shared.tls.is_some(),
            has_asked: false,
            peer: peer.ip().to_canonical(),
            shared,
            worker,
        }
    }

    /// The call of a request waits, so the service has let its caller in: it would have refused a
    /// stranger by now.
    pub(crate) fn let_in_waiting(&self, request: &Request<'_>) {
        if self.share.is_stranger() {
            let head = Request { body: &[], ..*request };
            self.share.let_in(match self.service.judge(&head) {
                Judgement::Claimed(tenant) => tenant,
                Judgement::Admitted | Judgement::Refused(_) => Tenant::EVERYBODY,
            });
        }
    }
}

impl<S> Context<S> {
    pub(crate) fn cell(&self) -> &Cell {
        self.worker.cell()
    }

    /// Waits until others need what the connection holds.
    async fn cut_off(&self) -> Closed {
        poll_fn(|task| match self.until_deadline::<Infallible>(task, Closed::SlowRequest) {
            Poll::Ready(Err(closed)) => Poll::Ready(closed),
            _ => Poll::Pending,
        })
        .await
    }

    /// How long a head may take.
    pub(crate) fn head_timeout(&self) -> Duration {
        self.usual_or_strange(self.timeouts.head)
    }

    /// How long a body may pause.
    pub(crate) fn body_timeout(&self) -> Duration {
        self.usual_or_strange(self.timeouts.body)
    }

    fn usual_or_strange(&self, usual: Duration) -> Duration {
        if self.share.is_stranger() { usual.min(self.timeouts.strange) } else { usual }
    }

    /// `late` if the deadline has passed, `NoMemory` if others need what the connection holds; else
    /// the task is woken when either happens, or when we drain.
    pub(crate) fn until_deadline<T>(
        &self,
        task: &mut Task<'_>,
        late: Closed,
    ) -> Poll<Result<T, Closed>> {
        if self.deadline.has_passed() {
            return Poll::Ready(Err(late));
        }
        self.deadline.register(task.waker());
        // After: it may happen at any time.
        if self.share.is_cut() {
            return Poll::Ready(Err(Closed::NoMemory));
        }
        Poll::Pending
    }
}

impl<S> Deref for Context<S> {
    type Target = Shared<S>;

    fn deref(&self) -> &Shared<S> {
        &self.shared
    }
}

/// The room that the answer takes until it is taken. If there is none, what it handed out is taken
/// back, and it becomes a 503.
pub(crate) fn hold_answer(
    room: Result<Option<Held>, NoRoom>,
    response: &mut Response,
) -> Option<Held> {
    room.unwrap_or_else(|NoRoom| {
        if let Some(unsent) = response.unsent.take() {
            unsent.take_back();
        }
        let request_id = std::mem::take(&mut response.request_id);
        *response = Response { request_id, ..no_room() };
        None
    })
}

/// That answers which were not taken hold all the memory there is for them.
pub(crate) fn no_room() -> Response {
    Response::new(503, "text/plain", "too many large answers at a time\n")
}

/// Serves a connection with TLS until it ends.
pub(crate) async fn serve_tls<S: Service>(
    mut stream: TcpStream,
    acceptor: TlsAcceptor,
    context: Context<S>,
) -> Closed {
    let handshake = Box::pin(async move {
        if begins_as_http(&stream).await? {
            say_that_tls_is_spoken(&mut stream).await?;
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the client speaks plain HTTP"));
        }
        acceptor.accept(stream).await
    });
    let handshake = tokio::time::timeout(context.timeouts.handshake, handshake);
    let done = tokio::select! {
        done = handshake => done,
        // No request is cut off: none has begun.
        () = context.drain.started() => return Closed::Drain,
        closed = context.cut_off() => return closed,
    };
    let stream = match done {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            tracing::debug!(peer = %context.peer, %error, "TLS handshake failed");
            return Closed::Handshake;
        }
        Err(_) => return Closed::SlowRequest,
    };
    if speaks_http2(&stream) {
        return Box::pin(http2::serve(stream, Vec::new(), context)).await;
    }
    let mut stream = Wire::new(stream);
    let unread = match first_bytes(&mut stream, &context).await {
        Ok(unread) => unread,
        Err(closed @ (Closed::Idle | Closed::Drain)) => {
            // TLS clients take an end without its goodbye for an attack.
            stream.shutdown(&context).await;
            return closed;
        }
        Err(closed) => return closed,
    };
    // Within TLS no first bytes are looked at, and nothing moves.
    match Box::pin(Http1::new(stream.io, unread, context).run()).await {
        End::Closed(closed) => closed,
        End::Http2 | End::Moves => Closed::BadRequest,
    }
}

/// The first bytes of a connection. Until they come it has no task of the size that requests need.
async fn first_bytes<T, S>(wire: &mut Wire<T>, context: &Context<S>) -> Result<Vec<u8>, Closed>
where
    T: AsyncRead + AsyncWrite + Unpin,
    S: Service,
{
    context.deadline.set_after(context.timeouts.first);
    let mut first = Vec::new();
    let take = |bytes: &[u8]| first.extend_from_slice(bytes);
    wire.read(context, Some(Closed::Drain), Closed::Idle, take).await?;
    Ok(first)
}

/// Serves a connection without TLS until it ends or leaves its worker. Of one that comes from
/// another worker, `unread` was read; HTTP/2, which cannot leave later, does so at once if it comes
/// from none.
pub(crate) async fn serve<S: Service>(
    stream: TcpStream,
    unread: Option<Vec<u8>>,
    mut context: Context<S>,
) -> Left {
    let has_arrived = unread.is_none();
    // Only after an answer does a connection go to another worker.
    context.has_asked = !has_arrived;
    let mut wire = Wire::new(stream);
    let unread = match unread {
        Some(unread) => unread,
        None => match first_bytes(&mut wire, &context).await {
            Ok(unread) => unread,
            Err(closed) => return Left::Closed(closed),
        },
    };
    Box::pin(serve_from(wire.io, unread, context, has_arrived)).await
}

async fn serve_from<S: Service>(
    stream: TcpStream,
    unread: Vec<u8>,
    context: Context<S>,
    has_arrived: bool,
) -> Left {
    let mut http1 = Http1::new(stream, unread, context);
    let end = http1.run().await;
    if let End::Closed(closed) = end {
        return Left::Closed(closed);
    }
    let (stream, unread, context) = http1.into_parts();
    match end {
        End::Http2 if !has_arrived => {
            // Boxed, so that it does not enlarge every HTTP/1 connection's task.
            Left::Closed(Box::pin(http2::serve(stream, unread, context)).await)
        }
        End::Http2 => Left::For(Destination::Fewest, stream, unread),
        End::Closed(_) | End::Moves => Left::For(Destination::AsLoadsWant, stream, unread),
    }
}

/// Looks at the first byte of a connection that should begin with a handshake: methods of HTTP begin
/// with a capital letter, and nothing of TLS does.
async fn begins_as_http(stream: &TcpStream) -> io::Result<bool> {
    let mut first = [0];
    Ok(stream.peek(&mut first).await? == 1 && first[0].is_ascii_uppercase())
}

/// Answers a client that speaks plain HTTP, and takes what it sends until it closes: if we closed
/// first, it could get a reset instead of the answer. The time of a handshake bounds both.
async fn say_that_tls_is_spoken(stream: &mut TcpStream) -> io::Result<()> {
    stream.write_all(SPEAKS_TLS).await?;
    stream.shutdown().await?;
    let mut taken = [0; 4096];
    while stream.read(&mut taken).await? > 0 {}
    Ok(())
}

fn speaks_http2(stream: &TlsStream<TcpStream>) -> bool {
    stream.get_ref().1.alpn_protocol() == Some(tls::H2)
}

#[cfg(test)]
pub(crate) mod tests {
    use millrace_wire::Request;
    use tokio::{net::TcpListener, time::timeout};

    use super::*;
    use crate::{Cors, Counters, Hooks, idle_poll::IdlePolling};

    pub(crate) struct Nobody;

    impl Service for Nobody {
        async fn call(&self, _request: Request<'_>) -> Response {
            Response::default()
        }
    }

    /// Half a head, or half a body, is late at once and nothing else ever.
    fn timeouts() -> Timeouts {
        let never = Duration::from_secs(3600);
        let none = Duration::ZERO;
        Timeouts { head: none, body: none, idle: never, write: never, ..Timeouts::default() }
    }

    pub(crate) fn context(timeouts: Timeouts) -> Context<Nobody> {
        let drain = Drain::new();
        let shared = Shared {
            service: Arc::new(Nobody),
            policy: Policy {
                cors: Cors::Off,
                refuses_other_pages: false,
                hooks: Hooks::default(),
                drain: drain.clone(),
            },
            limits: Limits::default(),
            memory: ConnectionMemory::new(usize::MAX / 8, usize::MAX),
            bodies: Budget::new(usize::MAX, &timeouts),
            answers: Budget::new(usize::MAX, &timeouts),
            timeouts,
            drain,
            tls: None,
        };
        let counters = Arc::new(Counters::new(1));
        let idle_polling = Arc::new(IdlePolling::new(false, Arc::clone(&counters)));
        let worker = Arc::new(Worker::new(0, counters, idle_polling));
        let share = shared.memory.admit(1).unwrap();
        Context::new(Arc::new(shared), worker, ([127, 0, 0, 1], 1).into(), share)
    }

    #[tokio::test]
    async fn a_request_that_came_half_read_from_another_worker_has_a_deadline() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let halves = [
            "PRI * HT",
            "GET / HTTP/1.1\r\nHo",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\na",
        ];
        for half in halves {
            let _client = TcpStream::connect(address).await.unwrap();
            let (stream, _) = listener.accept().await.unwrap();

            let served = serve(stream, Some(half.into()), context(timeouts()));
            let left = timeout(Duration::from_secs(20), served).await.expect(half);

            assert!(matches!(left, Left::Closed(Closed::SlowRequest)), "{half}");
        }
    }
}
