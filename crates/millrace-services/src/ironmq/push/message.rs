//! A message of a push queue: what it has beside its body, as attributes.

use millrace_broker::{Attribute, Content};
use millrace_core::QueueId;

use super::super::ids::message_id;
use super::super::post::{PUSH_HEADER, check_header};
use millrace_broker::SlotSeq;

/// In hidden queues: the id under which the message was posted.
const ID: &str = "IronMQ.Id";
/// Push queues that the message has gone through, by their ids.
const PATH: &str = "IronMQ.Path";
/// Push queues that a message goes through at most.
pub(super) const PATH_MAX: usize = 8;

/// The id of a message of a push queue; `at` is where it is now.
pub(super) fn id(content: &Content, (queue, at): (QueueId, SlotSeq), is_hidden: bool) -> String {
    match attribute(content, ID).filter(|_| is_hidden) {
        Some(id) => id.to_owned(),
        None => message_id(queue, at),
    }
}

/// Push headers of a message. SQS may have sent it with others than IronMQ would let pass.
pub(super) fn headers(content: &Content) -> impl Iterator<Item = (&str, &str)> {
    content.attributes().filter_map(|[name, _, value]| {
        let name = str::from_utf8(name).ok()?.strip_prefix(PUSH_HEADER)?;
        let value = str::from_utf8(value).ok()?;
        check_header(name, value).ok().map(|()| (name, value))
    })
}

/// The push queues that a message has gone through, each by its [`step`].
pub(super) fn path(content: &Content) -> Vec<&str> {
    let path = attribute(content, PATH).filter(|path| !path.is_empty());
    path.map(|path| path.split(' ').collect()).unwrap_or_default()
}

/// A queue as paths name it.
pub(super) fn step(queue: QueueId) -> String {
    format!("{:x}", queue.0)
}

/// The attributes for a subscriber's hidden queue: those that the message has, and its id.
pub(super) fn with_id<'a>(content: &'a Content, id: &'a str) -> Vec<Attribute<'a>> {
    let own = Attribute { name: ID, data_type: "String", value: id.as_bytes() };
    sorted(others(content, ID).chain([own]))
}

/// The attributes for the next queue; `path` has this step, too.
pub(super) fn with_path<'a>(content: &'a Content, path: &'a str) -> Vec<Attribute<'a>> {
    let own = Attribute { name: PATH, data_type: "String", value: path.as_bytes() };
    sorted(others(content, PATH).filter(|it| it.name != ID).chain([own]))
}

/// The attributes of a message about a message.
pub(super) fn only_path(path: &str) -> Vec<Attribute<'_>> {
    vec![Attribute { name: PATH, data_type: "String", value: path.as_bytes() }]
}

fn others<'a>(content: &'a Content, but: &'a str) -> impl Iterator<Item = Attribute<'a>> {
    content.attributes().filter_map(move |[name, data_type, value]| {
        let name = str::from_utf8(name).ok().filter(|name| *name != but)?;
        Some(Attribute { name, data_type: str::from_utf8(data_type).ok()?, value })
    })
}

fn sorted<'a>(attributes: impl Iterator<Item = Attribute<'a>>) -> Vec<Attribute<'a>> {
    let mut sorted: Vec<_> = attributes.collect();
    sorted.sort_unstable_by_key(|attribute| attribute.name);
    sorted
}

fn attribute<'a>(content: &'a Content, name: &str) -> Option<&'a str> {
    let [_, _, value] = content.attributes().find(|[it, ..]| *it == name.as_bytes())?;
    str::from_utf8(value).ok()
}

#[cfg(test)]
mod tests {
    use millrace_broker::NewContent;
    use millrace_engine::ContentVersion;

    use super::*;

    fn stored(attributes: Vec<Attribute<'_>>) -> Content {
        let mut stored = Vec::new();
        NewContent { body: b"x", attributes, ..NewContent::default() }.encode(&mut stored);
        Content::decode(ContentVersion::Plain, stored.into()).unwrap()
    }

    #[test]
    fn a_message_keeps_its_id_on_its_way_to_subscribers_and_not_beyond() {
        let text = |name, value: &'static str| Attribute {
            name,
            data_type: "String",
            value: value.as_bytes(),
        };
        let header = "IronMQ.PushHeader.A";
        let refused = "IronMQ.PushHeader.User-Agent";
        let posted =
            stored(vec![text("IronMQ.Id", "forged"), text(header, "1"), text(refused, "x")]);
        let place = (QueueId(1), SlotSeq { slot: 2, seq: 3 });
        let own = id(&posted, place, false);
        assert_eq!(own, message_id(place.0, place.1));
        assert_eq!(headers(&posted).collect::<Vec<_>>(), [("A", "1")]);

        let hidden = stored(with_id(&posted, &own));
        assert_eq!(id(&hidden, (QueueId(9), place.1), true), own);
        assert!(path(&hidden).is_empty());
        let next = stored(with_path(&hidden, "1a"));
        assert_eq!((attribute(&next, ID), path(&next)), (None, vec!["1a"]));
        assert_eq!(headers(&next).collect::<Vec<_>>(), [("A", "1")]);
        assert_eq!(path(&stored(with_path(&next, "1a 2b"))), ["1a", "2b"]);
    }
}
