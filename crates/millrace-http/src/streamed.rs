//! Answers that are taken while they come, however long they are.

use std::time::Duration;

use bytes::{Bytes, BytesMut};

use super::connection::Connection;
use super::http1::AnswerReader;
use super::{Answer, Head, Transport, TransportError};

/// What came of a request whose answer may be long.
#[derive(Debug)]
pub enum Streamed {
    /// A body in chunks, of an answer with status 200.
    Body(StreamedBody),
    /// Any other answer.
    Whole(Answer),
}

/// A body that is taken piece by piece. The server waits for a reader that is slow. Dropped, the
/// connection is closed.
pub struct StreamedBody {
    connection: Connection,
    reader: AnswerReader,
    /// Between two pieces.
    limit: Duration,
    is_ended: bool,
}

impl Transport {
    /// Sends a request over a connection of its own, which is not kept.
    ///
    /// Cancel safety: the server may still do what was asked; the connection is closed.
    ///
    /// # Errors
    ///
    /// If the answer did not begin in time.
    pub async fn call_streamed(&self, head: Head, body: Bytes) -> Result<Streamed, TransportError> {
        let limit = self.answer_timeout;
        let mut connection = self.pool.open_apart().await?;
        let head = head.finish(body.len());
        let mut reader = AnswerReader::default();
        let begun = tokio::time::timeout(limit, async {
            connection.send(&head, &body).await.map_err(TransportError::NoAnswer)?;
            loop {
                let input = connection.read_some().await.map_err(TransportError::NoAnswer)?;
                if let Some(is_chunked) = reader.begin(input)? {
                    return match is_chunked && reader.status() == Some(200) {
                        true => Ok(None),
                        false => whole(&mut connection, &mut reader).await.map(Some),
                    };
                }
            }
        });
        match begun.await {
            Err(_) => Err(TransportError::AnswerTimeout { limit }),
            Ok(Err(error)) => Err(error),
            Ok(Ok(Some(answer))) => Ok(Streamed::Whole(answer)),
            Ok(Ok(None)) => {
                Ok(Streamed::Body(StreamedBody { connection, reader, limit, is_ended: false }))
            }
        }
    }
}

impl StreamedBody {
    /// The next piece; `None` at the end.
    ///
    /// Cancel safety: nothing is lost.
    ///
    /// # Errors
    ///
    /// If the connection ends before the body, or nothing comes for too long.
    pub async fn next(&mut self) -> Result<Option<Bytes>, TransportError> {
        loop {
            let bytes = self.take()?;
            if !bytes.is_empty() || self.is_ended {
                return Ok(Some(bytes).filter(|bytes| !bytes.is_empty()));
            }
            let read = tokio::time::timeout(self.limit, self.connection.read_some());
            match read.await {
                Ok(read) => drop(read.map_err(TransportError::BrokenAnswer)?),
                Err(_) => return Err(TransportError::AnswerTimeout { limit: self.limit }),
            }
        }
    }

    fn take(&mut self) -> Result<Bytes, TransportError> {
        if self.is_ended {
            return Ok(Bytes::new());
        }
        let (bytes, is_last) = self.reader.take_chunks(self.connection.input())?;
        self.is_ended = is_last;
        Ok(bytes)
    }
}

impl std::fmt::Debug for StreamedBody {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("StreamedBody").field("is_ended", &self.is_ended).finish()
    }
}

/// The rest of an answer whose head is there.
async fn whole(
    connection: &mut Connection,
    reader: &mut AnswerReader,
) -> Result<Answer, TransportError> {
    loop {
        let input: &mut BytesMut = connection.input();
        if let Some(answer) = reader.advance(input)? {
            return Ok(answer);
        }
        if let Err(end) = connection.read_some().await {
            let is_orderly = end.get_ref().is_none();
            let ended = is_orderly.then(|| reader.end(connection.input())).flatten();
            return ended.ok_or(TransportError::BrokenAnswer(end));
        }
    }
}
