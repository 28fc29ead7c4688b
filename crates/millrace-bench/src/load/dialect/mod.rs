//! How requests to one endpoint are written and its answers read: SQS in both its protocols, or
//! IronMQ.
//!
//! Queues go by what the dialect calls them: a URL, raw as it stood in an answer, or a path.
//! Receipt handles are bytes that only the dialect understands.

mod iron;
mod sqs;

use std::ops::Range;

use anyhow::{Result, bail};
use millrace_core::Url;

pub(crate) use iron::Iron;
pub(crate) use sqs::{Sqs, percent};

use crate::{
    access::{Access, Interface},
    cli::UsageError,
};

#[derive(Clone, Debug)]
pub(crate) enum Dialect {
    Sqs(Sqs),
    Iron(Iron),
}

/// A queue that is to be created.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NewQueue<'a> {
    pub(crate) name: &'a str,
    pub(crate) visibility_timeout_s: Option<u32>,
    pub(crate) is_fifo: bool,
}

/// Where the parts of received messages stand in an answer. Kept between answers, for its memory.
#[derive(Debug, Default)]
pub(crate) struct Places {
    /// SQS: receipt handles. IronMQ: message ids.
    handles: Vec<Range<usize>>,
    /// IronMQ version 3 only.
    reservations: Vec<Range<usize>>,
    bodies: Vec<Range<usize>>,
}

impl Dialect {
    pub(crate) fn new(access: &Access, url: &Url) -> Dialect {
        match access {
            Access::Sqs { protocol, keys } => Dialect::Sqs(Sqs {
                protocol: *protocol,
                host: url.authority(),
                path: url.target(),
                keys: keys.clone(),
            }),
            Access::Iron(project) => Dialect::Iron(Iron::new(project, url)),
        }
    }

    /// For what only SQS has.
    pub(crate) fn sqs(&self) -> Result<&Sqs> {
        match self {
            Dialect::Sqs(sqs) => Ok(sqs),
            Dialect::Iron(_) => bail!(UsageError("IronMQ cannot do that, SQS can".to_owned())),
        }
    }

    pub(crate) fn interface(&self) -> Interface {
        match self {
            Dialect::Sqs(_) => Interface::Sqs,
            Dialect::Iron(iron) => iron.interface(),
        }
    }

    /// Whether a request holds the time, so that it cannot be sent again later.
    pub(crate) fn is_signed(&self) -> bool {
        matches!(self, Dialect::Sqs(sqs) if sqs.keys.is_some())
    }

    pub(crate) fn create_queue(&self, queue: &NewQueue<'_>, out: &mut Vec<u8>) {
        match self {
            Dialect::Sqs(sqs) => sqs.create_queue(queue, out),
            Dialect::Iron(iron) => iron.create_queue(queue, out),
        }
    }

    /// What the queue is called from now on, by the answer to its creation.
    pub(crate) fn created(&self, queue: &NewQueue<'_>, answer: &[u8]) -> Result<String> {
        match self {
            Dialect::Sqs(sqs) => sqs.created(queue, answer),
            Dialect::Iron(iron) => Ok(iron.path_of(queue.name)),
        }
    }

    pub(crate) fn delete_queue(&self, queue: &str, out: &mut Vec<u8>) {
        match self {
            Dialect::Sqs(sqs) => sqs.delete_queue(queue, out),
            Dialect::Iron(iron) => iron.delete_queue(queue, out),
        }
    }

    pub(crate) fn receive(&self, queue: &str, max: u64, wait_s: u32, out: &mut Vec<u8>) {
        match self {
            Dialect::Sqs(sqs) => sqs.receive(queue, max, wait_s, out),
            Dialect::Iron(iron) => iron.receive(queue, max, wait_s, out),
        }
    }

    /// Finds the messages in the answer to a receive and says how many there are.
    pub(crate) fn find(&self, answer: &[u8], places: &mut Places) -> usize {
        match self {
            Dialect::Sqs(sqs) => sqs.find(answer, places),
            Dialect::Iron(iron) => iron.find(answer, places),
        }
        places.handles.len().min(places.bodies.len())
    }

    /// Deletes the messages of `handles`, as [`Places::put_handle`] gave them. With `batch` 1 there
    /// is one. `scratch` is for the dialect's own use.
    pub(crate) fn delete<'h>(
        &self,
        queue: &str,
        handles: impl Iterator<Item = &'h [u8]>,
        batch: u64,
        scratch: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) {
        match self {
            Dialect::Sqs(sqs) => sqs.delete(queue, handles, batch, scratch, out),
            Dialect::Iron(iron) => iron.delete(queue, handles, batch, scratch, out),
        }
    }

    /// Which of `count` entries a success names as failed.
    pub(crate) fn failed(&self, what: Sent, answer: &[u8], count: usize) -> Vec<usize> {
        match self {
            Dialect::Sqs(sqs) => sqs.failed(answer, count),
            Dialect::Iron(_) if what == Sent::Messages => iron::failed_posts(answer, count),
            // Whole or not at all.
            Dialect::Iron(_) => Vec::new(),
        }
    }
}

/// What a batch was made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    Messages,
    Deletes,
}

impl Places {
    /// Appends the receipt handle of a message.
    pub(crate) fn put_handle(&self, index: usize, answer: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(part(answer, &self.handles, index));
        if !self.reservations.is_empty() {
            out.push(iron::SEPARATOR);
            out.extend_from_slice(part(answer, &self.reservations, index));
        }
    }

    pub(crate) fn body<'a>(&self, index: usize, answer: &'a [u8]) -> &'a [u8] {
        part(answer, &self.bodies, index)
    }
}

fn part<'a>(answer: &'a [u8], places: &[Range<usize>], index: usize) -> &'a [u8] {
    places.get(index).and_then(|at| answer.get(at.clone())).unwrap_or_default()
}

pub(crate) fn put(out: &mut Vec<u8>, parts: &[&str]) {
    for part in parts {
        out.extend_from_slice(part.as_bytes());
    }
}
