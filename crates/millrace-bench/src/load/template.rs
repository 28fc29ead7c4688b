//! A send, built once and patched in place: the same bytes every time but for the ids in it.

use super::{
    dialect::{Dialect, Iron, Sqs},
    ledger::{ID_BYTES, Id},
};
use crate::access::Protocol;

/// A whole send request, ready but for the ids in it.
pub(crate) struct SendTemplate {
    /// Of SQS, whose requests may have to be signed anew.
    action: &'static str,
    request: Vec<u8>,
    body_at: usize,
    /// Where the ids of entry 0, 1, … stand: body and, on FIFO queues, deduplication id.
    id_places: Vec<Vec<usize>>,
    group_places: Vec<usize>,
}

/// What the messages of a send look like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Entries of a request; one means SendMessage.
    pub(crate) batch: u64,
    pub(crate) size_bytes: usize,
    pub(crate) grouping: Grouping,
}

impl Default for Shape {
    /// Single messages of 1 KB.
    fn default() -> Shape {
        Shape { batch: 1, size_bytes: 1024, grouping: Grouping::None }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grouping {
    None,
    /// A standard queue whose messages name groups.
    Fair,
    /// Group and deduplication id.
    Fifo,
}

impl Grouping {
    /// Of a queue whose messages are of so many groups; on a FIFO queue all are of some.
    pub(crate) fn new(is_fifo: bool, groups: u32) -> Grouping {
        match (is_fifo, groups) {
            (true, _) => Grouping::Fifo,
            (false, 0) => Grouping::None,
            (false, _) => Grouping::Fair,
        }
    }
}

impl SendTemplate {
    pub(crate) fn new(dialect: &Dialect, queue: &str, shape: Shape) -> SendTemplate {
        match dialect {
            Dialect::Sqs(sqs) => SendTemplate::sqs(sqs, queue, shape),
            Dialect::Iron(iron) => SendTemplate::iron(iron, queue, shape),
        }
    }

    fn sqs(dialect: &Sqs, queue_url: &str, shape: Shape) -> SendTemplate {
        let action = if shape.batch == 1 { "SendMessage" } else { "SendMessageBatch" };
        let text = text(shape);
        let (mut id_places, mut group_places) = (Vec::new(), Vec::new());
        let mut body = dialect.open(action, queue_url);
        for index in 0..shape.batch as usize {
            dialect.open_entry(action, shape.batch, index, &mut body);
            let mut put = |name: &str, value: &[u8]| {
                dialect.member(shape.batch, index, name, value, &mut body);
                body.len() - value.len() - usize::from(dialect.protocol == Protocol::Json)
            };
            let mut places = vec![put("MessageBody", &text)];
            if shape.grouping == Grouping::Fifo {
                places.push(put("MessageDeduplicationId", &[b'0'; ID_BYTES]));
            }
            if shape.grouping != Grouping::None {
                group_places.push(put("MessageGroupId", &[b'0'; 8]));
            }
            id_places.push(places);
            dialect.close_entry(shape.batch, &mut body);
        }
        dialect.close(shape.batch, &mut body);
        let mut request = Vec::new();
        Sqs { keys: None, ..dialect.clone() }.write(action, &body, &mut request);
        let body_at = request.len() - body.len();
        id_places.iter_mut().flatten().chain(&mut group_places).for_each(|place| *place += body_at);
        SendTemplate { action, request, body_at, id_places, group_places }
    }

    fn iron(iron: &Iron, queue: &str, shape: Shape) -> SendTemplate {
        let text = text(shape);
        let (mut id_places, mut body) = (Vec::new(), b"{\"messages\":[".to_vec());
        for index in 0..shape.batch {
            body.extend_from_slice(if index > 0 { b",{\"body\":\"" } else { b"{\"body\":\"" });
            id_places.push(vec![body.len()]);
            body.extend_from_slice(&text);
            body.extend_from_slice(b"\"}");
        }
        body.extend_from_slice(b"]}");
        let mut request = Vec::new();
        iron.post(queue, &body, &mut request);
        let body_at = request.len() - body.len();
        id_places.iter_mut().flatten().for_each(|place| *place += body_at);
        SendTemplate { action: "", request, body_at, id_places, group_places: Vec::new() }
    }

    /// Puts an id and its group into entry `index`.
    pub(crate) fn patch(&mut self, index: usize, id: Id) {
        let digits = id.digits();
        for place in self.id_places.get(index).into_iter().flatten() {
            self.request[*place..*place + ID_BYTES].copy_from_slice(&digits);
        }
        if let Some(place) = self.group_places.get(index) {
            self.request[*place..*place + 8].copy_from_slice(&digits[12..20]);
        }
    }

    /// The request as it goes out: itself, or a signed copy in `scratch`.
    pub(crate) fn bytes<'a>(&'a self, dialect: &Dialect, scratch: &'a mut Vec<u8>) -> &'a [u8] {
        match dialect {
            Dialect::Sqs(sqs) if sqs.keys.is_some() => {
                sqs.write(self.action, self.body(), scratch);
                scratch
            }
            _ => &self.request,
        }
    }

    fn body(&self) -> &[u8] {
        &self.request[self.body_at..]
    }
}

/// What bodies look like, so that an altered one is seen.
pub(crate) struct Bodies {
    sizes_bytes: Vec<usize>,
    /// What follows the id in the longest; shorter ones end sooner.
    filler: Vec<u8>,
}

impl Bodies {
    /// Of all sizes that are sent.
    pub(crate) fn new(sizes_bytes: Vec<usize>) -> Bodies {
        let longest = sizes_bytes.iter().copied().max().unwrap_or_default();
        Bodies { sizes_bytes, filler: filler(longest) }
    }

    /// Whether a body is as it was sent, whatever its id.
    pub(crate) fn are_like(&self, body: &[u8]) -> bool {
        let rest = body.get(ID_BYTES..);
        let is_filled = rest.is_some_and(|rest| self.filler.starts_with(rest));
        is_filled && self.sizes_bytes.contains(&body.len())
    }
}

/// A body, its id still to come.
fn text(shape: Shape) -> Vec<u8> {
    let mut text = vec![b'0'; ID_BYTES];
    text.extend(filler(shape.size_bytes));
    text
}

/// What follows the id in a body of `size_bytes`. It needs no escaping in either protocol.
fn filler(size_bytes: usize) -> Vec<u8> {
    let text = b"Through-the-millrace-runs-the-water-that-turns-the-wheel-";
    text.iter().copied().cycle().take(size_bytes.saturating_sub(ID_BYTES)).collect()
}

#[cfg(test)]
mod tests {
    use millrace_core::Url;

    use super::*;

    use crate::access::{Access, Project};

    const ID: Id = Id { run: 1, producer: 2, group: 3, sequence: 4 };

    fn sent(protocol: Protocol, grouping: Grouping, batch: u64) -> String {
        sent_to(&Access::Sqs { protocol, keys: None }, grouping, batch)
    }

    fn sent_to(access: &Access, grouping: Grouping, batch: u64) -> String {
        let shape = Shape { batch, size_bytes: 40, grouping };
        let dialect = Dialect::new(access, &Url::parse("http://h").unwrap());
        let mut template = SendTemplate::new(&dialect, "http://h/1/q", shape);
        (0..batch).for_each(|index| {
            template.patch(index as usize, Id { sequence: ID.sequence + index, ..ID });
        });
        String::from_utf8(template.body().to_vec()).unwrap()
    }

    #[test]
    fn a_patched_json_send_holds_id_and_filler() {
        let body: serde_json::Value =
            serde_json::from_str(&sent(Protocol::Json, Grouping::None, 1)).unwrap();

        assert_eq!(body["QueueUrl"], "http://h/1/q");
        assert_eq!(body["MessageBody"], "00000001000200000003000000000004Through-");
        assert!(body["MessageGroupId"].is_null());
    }

    #[test]
    fn a_patched_fifo_batch_holds_every_id_twice() {
        let body: serde_json::Value =
            serde_json::from_str(&sent(Protocol::Json, Grouping::Fifo, 3)).unwrap();

        for (index, entry) in body["Entries"].as_array().unwrap().iter().enumerate() {
            let id = entry["MessageDeduplicationId"].as_str().unwrap();
            assert_eq!(Id::parse(id.as_bytes()).unwrap().sequence, 4 + index as u64);
            assert!(entry["MessageBody"].as_str().unwrap().starts_with(id));
            assert_eq!(
                (&entry["MessageGroupId"], &entry["Id"]),
                (&"00000003".into(), &index.to_string().into())
            );
        }
    }

    #[test]
    fn query_sends_number_their_entries() {
        let body = sent(Protocol::Query, Grouping::Fair, 2);

        assert!(
            body.starts_with("Action=SendMessageBatch&Version=2012-11-05&QueueUrl=http%3A%2F%2F")
        );
        assert!(body.contains("&SendMessageBatchRequestEntry.2.Id=1&"));
        assert!(body.ends_with("&SendMessageBatchRequestEntry.2.MessageGroupId=00000003"));
    }

    #[test]
    fn bodies_have_one_of_their_sizes_and_nothing_else_in_them() {
        let bodies = Bodies::new(vec![40, 36]);
        let whole = text(Shape { batch: 1, size_bytes: 40, grouping: Grouping::None });

        assert!(bodies.are_like(&whole) && bodies.are_like(&whole[..36]));
        assert!(!bodies.are_like(&whole[..39]) && !bodies.are_like(&whole[..20]));
        assert!(!bodies.are_like(&[&whole[..39], b"x"].concat()));
        assert!(!bodies.are_like(&[&whole[..], b"-"].concat()));
    }

    #[test]
    fn iron_posts_hold_an_id_each() {
        let version = millrace_client::iron::IronVersion::V3;
        let project = Project { version, id: "p".to_owned(), token: "t".to_owned() };

        let body: serde_json::Value =
            serde_json::from_str(&sent_to(&Access::Iron(project), Grouping::None, 2)).unwrap();

        assert_eq!(body["messages"][0]["body"], "00000001000200000003000000000004Through-");
        assert_eq!(body["messages"][1]["body"], "00000001000200000003000000000005Through-");
    }
}
