//! The bodies of requests.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error, IgnoredAny, MapAccess, Visitor, value::MapAccessDeserializer};
use serde::{Deserialize, Deserializer};

use super::object::object;
use super::value::{Flag, Headers, List, Number};
use crate::sqs::Text;

/// Messages of one post. IronMQ documents no bound; this one is of memory.
const POSTED_MAX: usize = 10_000;
/// Ids of one request that are read; 100 are allowed.
const IDS_MAX: usize = 1_000;
/// Subscribers and alerts of one request that are read.
const ENTRIES_MAX: usize = 1_000;

object! {
    /// A message to be posted. What older clients say besides has no effect in version 3.
    pub struct Posted {
        body: Text<'a>,
        delay: Number,
        /// Version 1: seconds of a reservation.
        timeout: Number,
        /// Version 1: seconds until the message expires.
        expires_in: Number,
        push_headers: Headers<'a>,
    }
}

object! {
    /// The body of a post.
    pub struct PostedMessages {
        messages: List<Posted<'a>, POSTED_MAX>,
    }
}

object! {
    /// The body of a reserve; in version 1 the same are parameters.
    pub struct Reserve {
        n: Number,
        timeout: Number,
        wait: Number,
        delete: Flag,
    }
}

object! {
    /// The body of touch, release and delete: the reservation, and its new times.
    pub struct Holding {
        reservation_id: Text<'a>,
        subscriber_name: Text<'a>,
        timeout: Number,
        delay: Number,
    }
}

object! {
    /// An entry of [`Ids`] that is an object.
    struct ClaimedObject {
        id: Text<'a>,
        reservation_id: Text<'a>,
        subscriber_name: Text<'a>,
    }
}

/// The body of a delete of several messages.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ids<'a> {
    /// `None`, that is no such key, means all messages; `null` is an empty list.
    pub ids: Option<Vec<Claimed<'a>>>,
    /// Something else was said: the request is not the one that means all messages.
    pub has_others: bool,
}

object! {
    /// A queue's settings. In version 1 all are at the top level.
    pub struct QueueRequest {
        message_timeout: Number,
        message_expiration: Number,
        r#type: Text<'a>,
        push: PushRequest<'a>,
        dead_letter: DeadLetterRequest<'a>,
        alerts: List<Alert<'a>, ENTRIES_MAX>,
        push_type: Text<'a>,
        subscribers: List<Subscriber<'a>, ENTRIES_MAX>,
        retries: Number,
        retries_delay: Number,
        error_queue: Text<'a>,
    }
}

object! {
    /// The body of version 3 about a queue.
    pub struct QueueWrapped {
        queue: QueueRequest<'a>,
    }
}

object! {
    /// Settings of a push queue.
    pub struct PushRequest {
        subscribers: List<Subscriber<'a>, ENTRIES_MAX>,
        retries: Number,
        retries_delay: Number,
        error_queue: Text<'a>,
    }
}

object! {
    /// An endpoint of a push queue.
    pub struct Subscriber {
        name: Text<'a>,
        url: Text<'a>,
        headers: Headers<'a>,
    }
}

object! {
    /// The queue of messages that were reserved too often.
    pub struct DeadLetterRequest {
        queue_name: Text<'a>,
        max_reservations: Number,
    }
}

object! {
    /// A message about a queue's size.
    pub struct Alert {
        id: Text<'a>,
        r#type: Text<'a>,
        direction: Text<'a>,
        trigger: Number,
        queue: Text<'a>,
        snooze: Number,
    }
}

object! {
    /// The body of requests about alerts.
    pub struct AlertsRequest {
        alerts: List<Alert<'a>, ENTRIES_MAX>,
    }
}

object! {
    /// The body of requests about subscribers.
    pub struct SubscribersRequest {
        subscribers: List<Subscriber<'a>, ENTRIES_MAX>,
    }
}

/// A message to be deleted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Claimed<'a> {
    pub id: Text<'a>,
    /// Empty if the message is not reserved.
    pub reservation_id: Text<'a>,
    pub subscriber_name: Text<'a>,
}

/// Reads a body. An empty one, or `null`, sets nothing.
///
/// # Errors
///
/// With a text for the client, if it is not JSON, not an object, or a value is of a wrong type.
pub fn read<'a, T: Default + Deserialize<'a>>(body: &'a [u8]) -> Result<T, String> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(T::default());
    }
    // What is skipped has to be text, too: whatever cannot be read must not count as absent.
    let body = str::from_utf8(body).map_err(|_| "Invalid JSON: the body must be UTF-8")?;
    let read: Result<Option<T>, _> = serde_json::from_str(body);
    read.map(Option::unwrap_or_default).map_err(|error| match error.is_data() {
        true => format!("Invalid request: {error}"),
        false => format!("Invalid JSON: {error}"),
    })
}

impl<'de: 'a, 'a> Deserialize<'de> for Ids<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Ids<'a>, D::Error> {
        struct Read<'a>(PhantomData<&'a ()>);

        impl<'de: 'a, 'a> Visitor<'de> for Read<'a> {
            type Value = Ids<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Ids<'a>, A::Error> {
                let mut read = Ids::default();
                while let Some(key) = map.next_key::<Text<'de>>()? {
                    if key.eq_ignore_ascii_case("ids") {
                        let list: Option<List<Claimed<'a>, IDS_MAX>> = map.next_value()?;
                        read.ids = Some(list.unwrap_or_default().0);
                    } else {
                        read.has_others = true;
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(read)
            }
        }

        from.deserialize_map(Read(PhantomData))
    }
}

/// An id alone, or an object.
impl<'de: 'a, 'a> Deserialize<'de> for Claimed<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Claimed<'a>, D::Error> {
        struct Read<'a>(PhantomData<&'a ()>);

        impl<'de: 'a, 'a> Visitor<'de> for Read<'a> {
            type Value = Claimed<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an id or an object with one")
            }

            fn visit_borrowed_str<E: Error>(self, id: &'de str) -> Result<Claimed<'a>, E> {
                Ok(Claimed { id: Text::from(id), ..Claimed::default() })
            }

            fn visit_str<E: Error>(self, id: &str) -> Result<Claimed<'a>, E> {
                Ok(Claimed { id: Text(id.to_owned().into()), ..Claimed::default() })
            }

            fn visit_u64<E: Error>(self, id: u64) -> Result<Claimed<'a>, E> {
                self.visit_str(&id.to_string())
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Claimed<'a>, A::Error> {
                let read = ClaimedObject::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Claimed {
                    id: read.id.ok_or_else(|| A::Error::missing_field("id"))?,
                    reservation_id: read.reservation_id.unwrap_or_default(),
                    subscriber_name: read.subscriber_name.unwrap_or_default(),
                })
            }
        }

        from.deserialize_any(Read(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_in_any_case_and_zero_or_nothing_is_not_set() {
        let body =
            br#"{"Messages":[{"Body":"a","Timeout":0,"DELAY":"7","expires_in":null,"x":[1]}]}"#;
        let read: PostedMessages<'_> = read(body).unwrap();
        let message = &read.messages.unwrap().0[0];

        assert_eq!(message.body.as_ref().map(Text::as_str), Some("a"));
        assert_eq!(message.delay, Some(Number(7)));
        assert_eq!(message.timeout.and_then(Number::set), None);
        assert_eq!(message.expires_in, None);
    }

    #[test]
    fn ids_are_texts_numbers_or_objects_and_none_at_all_is_not_an_empty_list() {
        let ids = |body: &'static str| read::<Ids<'_>>(body.as_bytes()).map(|read| read.ids);
        let given = ids(r#"{"ids":["1",2,{"id":"3","reservation_id":"r"},{"ID":"4"}]}"#);
        let given = given.unwrap().unwrap();

        assert_eq!(given.iter().map(|it| it.id.as_str()).collect::<Vec<_>>(), ["1", "2", "3", "4"]);
        assert_eq!(given[2].reservation_id.as_str(), "r");
        for empty in [r#"{"ids":[]}"#, r#"{"ids":null}"#, r#"{"ids":["1"],"ids":null}"#] {
            assert_eq!(ids(empty).unwrap().map(|ids| ids.len()), Some(0), "{empty}");
        }
        for nothing in ["", " \n", "{}", "null"] {
            assert_eq!(ids(nothing), Ok(None), "{nothing}");
        }
        for broken in ["{", "[]", "1", r#"{"ids":{}}"#, r#"{"ids":[{}]}"#, r#"{"ids":[[]]}"#] {
            assert!(ids(broken).is_err(), "{broken}");
        }
        assert!(read::<Ids<'_>>(b"{\"skipped\":\"\xff\"}").is_err());
    }

    #[test]
    fn a_queue_of_type_push_has_its_type() {
        let body = br#"{"queue":{"type":"unicast","push":{"retries":3}}}"#;
        let queue = read::<QueueWrapped<'_>>(body).unwrap().queue.unwrap();

        assert_eq!(queue.r#type, Some(Text::from("unicast")));
        assert_eq!(queue.push.unwrap().retries, Some(Number(3)));
    }

    #[test]
    fn lists_are_bounded() {
        let body = |ids: usize| format!(r#"{{"ids":[{}]}}"#, vec!["1"; ids].join(","));

        assert!(read::<Ids<'_>>(body(IDS_MAX).as_bytes()).is_ok());
        assert!(read::<Ids<'_>>(body(IDS_MAX + 1).as_bytes()).is_err());
    }

    #[test]
    fn numbers_are_whole() {
        let n = |body: &'static str| read::<Reserve<'_>>(body.as_bytes()).map(|read| read.n);

        assert_eq!(n(r#"{"n":3.0}"#), Ok(Some(Number(3))));
        assert_eq!(n(r#"{"n":""}"#), Ok(Some(Number(0))));
        assert_eq!(n(r#"{"n":99999999999999999999}"#), Ok(Some(Number(i64::MAX))));
        for wrong in [r#"{"n":1.5}"#, r#"{"n":"x"}"#, r#"{"n":[]}"#, r#"{"n":true}"#] {
            assert!(n(wrong).is_err(), "{wrong}");
        }
    }
}
