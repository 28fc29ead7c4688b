//! Answers that come before the server has taken the whole request.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

#[tokio::test]
async fn answer_counts_that_comes_before_the_server_has_taken_the_whole_request() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    // It takes the head, or some of it, and keeps the connection.
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.read_u8().await.unwrap();
        let refusal = b"HTTP/1.1 413 Too Large\r\nContent-Length: 9\r\n\r\ntoo large";
        stream.write_all(refusal).await.unwrap();
        stream
    });
    let transport =
        Transport::new(Endpoint::parse(&url).unwrap(), &TransportOptions::default()).unwrap();
    // More than the system keeps of what nobody reads.
    let body = Bytes::from(vec![b'x'; 64 << 20]);

    let asked = transport.call(Call { body, ..call(Lane::Quick, Repeat::Safe) });
    let answer = tokio::time::timeout(PATIENCE, asked).await.unwrap().unwrap();

    assert_eq!((answer.status, &*answer.body), (413, &b"too large"[..]));
    drop(server.await.unwrap());
}
