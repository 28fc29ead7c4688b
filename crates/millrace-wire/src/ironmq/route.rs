//! From method and path to endpoints.

use std::borrow::Cow;

use crate::http::Request;
use crate::percent;

/// Clients that cannot send PATCH or DELETE send POST with this header.
const OVERRIDE: &str = "x-http-method-override";

/// The generation of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Objects are not wrapped, and messages have no reservation ids.
    V1,
    V3,
}

/// The purpose of a request: endpoint, project and version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route<'a> {
    pub version: Version,
    pub project: Cow<'a, str>,
    pub endpoint: Endpoint<'a>,
}

/// An endpoint below a project. The queue comes first, then the message, the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint<'a> {
    ListQueues,
    /// Creates a queue or changes it.
    PutQueue(Cow<'a, str>),
    /// Version 3: changes a queue.
    PatchQueue(Cow<'a, str>),
    GetQueue(Cow<'a, str>),
    DeleteQueue(Cow<'a, str>),
    Post(Cow<'a, str>),
    Webhook(Cow<'a, str>),
    Reserve(Cow<'a, str>),
    Peek(Cow<'a, str>),
    /// Several by their ids; version 3: or all, if the body names none.
    DeleteMessages(Cow<'a, str>),
    Clear(Cow<'a, str>),
    GetMessage(Cow<'a, str>, Cow<'a, str>),
    DeleteMessage(Cow<'a, str>, Cow<'a, str>),
    Touch(Cow<'a, str>, Cow<'a, str>),
    Release(Cow<'a, str>, Cow<'a, str>),
    PushStatuses(Cow<'a, str>, Cow<'a, str>),
    /// Version 1: acknowledges what an endpoint took with 202; the last is the subscriber's id.
    DeletePushStatus(Cow<'a, str>, Cow<'a, str>, Cow<'a, str>),
    AddSubscribers(Cow<'a, str>),
    ReplaceSubscribers(Cow<'a, str>),
    RemoveSubscribers(Cow<'a, str>),
    AddAlerts(Cow<'a, str>),
    ReplaceAlerts(Cow<'a, str>),
    DeleteAlerts(Cow<'a, str>),
    /// One, by its id.
    DeleteAlert(Cow<'a, str>, Cow<'a, str>),
}

impl Endpoint<'_> {
    /// Names of the endpoints in figures, by their numbers.
    pub const NAMES: [&'static str; 24] = [
        "ListQueues",
        "PutQueue",
        "PatchQueue",
        "GetQueue",
        "DeleteQueue",
        "PostMessages",
        "PostWebhook",
        "ReserveMessages",
        "PeekMessages",
        "DeleteMessages",
        "ClearMessages",
        "GetMessage",
        "DeleteMessage",
        "TouchMessage",
        "ReleaseMessage",
        "GetPushStatuses",
        "DeletePushStatus",
        "AddSubscribers",
        "ReplaceSubscribers",
        "RemoveSubscribers",
        "AddAlerts",
        "ReplaceAlerts",
        "DeleteAlerts",
        "DeleteAlert",
    ];

    /// The number of the endpoint's name.
    pub fn number(&self) -> usize {
        match self {
            Endpoint::ListQueues => 0,
            Endpoint::PutQueue(..) => 1,
            Endpoint::PatchQueue(..) => 2,
            Endpoint::GetQueue(..) => 3,
            Endpoint::DeleteQueue(..) => 4,
            Endpoint::Post(..) => 5,
            Endpoint::Webhook(..) => 6,
            Endpoint::Reserve(..) => 7,
            Endpoint::Peek(..) => 8,
            Endpoint::DeleteMessages(..) => 9,
            Endpoint::Clear(..) => 10,
            Endpoint::GetMessage(..) => 11,
            Endpoint::DeleteMessage(..) => 12,
            Endpoint::Touch(..) => 13,
            Endpoint::Release(..) => 14,
            Endpoint::PushStatuses(..) => 15,
            Endpoint::DeletePushStatus(..) => 16,
            Endpoint::AddSubscribers(..) => 17,
            Endpoint::ReplaceSubscribers(..) => 18,
            Endpoint::RemoveSubscribers(..) => 19,
            Endpoint::AddAlerts(..) => 20,
            Endpoint::ReplaceAlerts(..) => 21,
            Endpoint::DeleteAlerts(..) => 22,
            Endpoint::DeleteAlert(..) => 23,
        }
    }
}

/// A request that is for nothing of this API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misrouted {
    NoSuchPath,
    /// There is something at the path, but not for this method.
    WrongMethod,
}

/// The route of a request; `None` if its path is not of this API. The path is in its normal form.
pub fn route<'a>(request: &Request<'a>) -> Option<Result<Route<'a>, Misrouted>> {
    let (version, rest) = match request.path.strip_prefix("/3/projects/") {
        Some(rest) => (Version::V3, rest),
        None => (Version::V1, request.path.strip_prefix("/1/projects/")?),
    };
    Some(below(version, rest, method(request)))
}

/// The path of a message: in version 1, which has no reservation ids, of one delivery of it.
pub fn message_path(
    version: Version,
    [project, queue, message]: [&str; 3],
    delivery: &str,
) -> String {
    let (root, last) = match version {
        Version::V1 => ("/1/projects/", Some(delivery)),
        Version::V3 => ("/3/projects/", None),
    };
    let mut path = root.as_bytes().to_vec();
    let parts = [("", project), ("/queues/", queue), ("/messages/", message)];
    for (before, part) in parts.into_iter().chain(last.map(|it| ("/subscribers/", it))) {
        path.extend_from_slice(before.as_bytes());
        percent::encode(&mut path, part.as_bytes());
    }
    String::from_utf8(path).unwrap_or_default()
}

/// The method that is meant.
fn method<'a>(request: &Request<'a>) -> &'a str {
    let meant = request.header(OVERRIDE).filter(|_| request.method == "POST");
    let known = ["DELETE", "PATCH", "PUT"];
    known.into_iter().find(|it| meant == Some(*it)).unwrap_or(request.method)
}

fn below<'a>(version: Version, rest: &'a str, method: &str) -> Result<Route<'a>, Misrouted> {
    let mut segments = Vec::with_capacity(7);
    for segment in rest.split('/') {
        if segments.len() == segments.capacity() {
            return Err(Misrouted::NoSuchPath);
        }
        segments.push(decoded(segment)?);
    }
    let mut segments = segments.into_iter();
    let (project, queues) = (segments.next(), segments.next());
    let project = project.filter(|project| !project.is_empty());
    let (Some(project), Some("queues")) = (project, queues.as_deref()) else {
        return Err(Misrouted::NoSuchPath);
    };
    let endpoint = endpoint(version, method, segments)?;
    Ok(Route { version, project, endpoint })
}

fn endpoint<'a>(
    version: Version,
    method: &str,
    mut segments: impl Iterator<Item = Cow<'a, str>>,
) -> Result<Endpoint<'a>, Misrouted> {
    use Endpoint as E;
    use Version::{V1, V3};
    let Some(queue) = segments.next().filter(|queue| !queue.is_empty()) else {
        return if method == "GET" { Ok(E::ListQueues) } else { Err(Misrouted::WrongMethod) };
    };
    let (what, id, behind, last) =
        (segments.next(), segments.next(), segments.next(), segments.next());
    // An id that a client forgot must not make a delete of one message a delete of all.
    if [what.as_deref(), id.as_deref(), behind.as_deref(), last.as_deref()].contains(&Some("")) {
        return Err(Misrouted::NoSuchPath);
    }
    let endpoint = match (what.as_deref(), id, behind.as_deref(), last) {
        (None, ..) => match (version, method) {
            (_, "GET") => E::GetQueue(queue),
            (_, "DELETE") => E::DeleteQueue(queue),
            (V3, "PUT") | (V1, "POST") => E::PutQueue(queue),
            (V3, "PATCH") => E::PatchQueue(queue),
            _ => return Err(Misrouted::WrongMethod),
        },
        (Some("messages"), None, ..) => match (version, method) {
            (_, "POST") => E::Post(queue),
            (_, "DELETE") => E::DeleteMessages(queue),
            (V3, "GET") => E::Peek(queue),
            (V1, "GET") => E::Reserve(queue),
            _ => return Err(Misrouted::WrongMethod),
        },
        (Some("messages"), Some(id), None, _) => match (version, method, &*id) {
            (V1, "GET", "peek") => E::Peek(queue),
            (V1, "POST", "webhook") => E::Webhook(queue),
            (_, "GET", _) => E::GetMessage(queue, id),
            (_, "DELETE", _) => E::DeleteMessage(queue, id),
            _ => return Err(Misrouted::WrongMethod),
        },
        (Some("messages"), Some(id), Some("touch"), None) => {
            only("POST", method, E::Touch(queue, id))?
        }
        (Some("messages"), Some(id), Some("release"), None) => {
            only("POST", method, E::Release(queue, id))?
        }
        (Some("messages"), Some(id), Some("subscribers"), None) => {
            only("GET", method, E::PushStatuses(queue, id))?
        }
        (Some("messages"), Some(id), Some("subscribers"), Some(subscriber)) if version == V1 => {
            only("DELETE", method, E::DeletePushStatus(queue, id, subscriber))?
        }
        (Some("reservations"), None, ..) if version == V3 => {
            only("POST", method, E::Reserve(queue))?
        }
        (Some("webhook"), None, ..) if version == V3 => only("POST", method, E::Webhook(queue))?,
        (Some("clear"), None, ..) if version == V1 => only("POST", method, E::Clear(queue))?,
        (Some("subscribers"), None, ..) => match (version, method) {
            (_, "POST") => E::AddSubscribers(queue),
            (V3, "PUT") => E::ReplaceSubscribers(queue),
            (_, "DELETE") => E::RemoveSubscribers(queue),
            _ => return Err(Misrouted::WrongMethod),
        },
        (Some("alerts"), None, ..) => match method {
            "POST" => E::AddAlerts(queue),
            "PUT" => E::ReplaceAlerts(queue),
            "DELETE" => E::DeleteAlerts(queue),
            _ => return Err(Misrouted::WrongMethod),
        },
        (Some("alerts"), Some(id), None, _) => only("DELETE", method, E::DeleteAlert(queue, id))?,
        _ => return Err(Misrouted::NoSuchPath),
    };
    Ok(endpoint)
}

fn only<'a>(
    allowed: &str,
    method: &str,
    endpoint: Endpoint<'a>,
) -> Result<Endpoint<'a>, Misrouted> {
    if method == allowed { Ok(endpoint) } else { Err(Misrouted::WrongMethod) }
}

/// A segment of a path: unlike in forms, a plus sign is one.
///
/// # Errors
///
/// If it is not UTF-8.
pub fn decoded(segment: &str) -> Result<Cow<'_, str>, Misrouted> {
    if !segment.contains('%') {
        return Ok(Cow::Borrowed(segment));
    }
    let kept = segment.replace('+', "%2B");
    let bytes = percent::decode(kept.as_bytes()).into_owned();
    String::from_utf8(bytes).map(Cow::Owned).map_err(|_| Misrouted::NoSuchPath)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Header;

    fn routed<'a>(method: &'a str, path: &'a str) -> Option<Result<Route<'a>, Misrouted>> {
        route(&Request { method, path, ..Request::post(&[], b"") })
    }

    fn found<'a>(method: &'a str, path: &'a str) -> Endpoint<'a> {
        routed(method, path).unwrap().unwrap().endpoint
    }

    #[test]
    fn get_of_messages_peeks_in_one_version_and_reserves_in_the_other() {
        let q = || Cow::Borrowed("q");
        assert_eq!(found("GET", "/3/projects/p/queues/q/messages"), Endpoint::Peek(q()));
        assert_eq!(found("GET", "/1/projects/p/queues/q/messages"), Endpoint::Reserve(q()));
        assert_eq!(found("GET", "/1/projects/p/queues/q/messages/peek"), Endpoint::Peek(q()));
        assert_eq!(
            found("GET", "/3/projects/p/queues/q/messages/peek"),
            Endpoint::GetMessage(q(), "peek".into())
        );
        assert_eq!(found("POST", "/3/projects/p/queues/q/reservations"), Endpoint::Reserve(q()));
        let no_such = routed("POST", "/1/projects/p/queues/q/reservations");
        assert_eq!(no_such, Some(Err(Misrouted::NoSuchPath)));
    }

    #[test]
    fn names_are_decoded_and_a_slash_in_one_must_be_encoded() {
        let queue = |path| found("GET", path);
        assert_eq!(queue("/3/projects/p/queues/a%20b%2Fc"), Endpoint::GetQueue("a b/c".into()));
        assert_eq!(queue("/3/projects/p/queues/a+b"), Endpoint::GetQueue("a+b".into()));
        assert_eq!(queue("/3/projects/p/queues/a+b%21"), Endpoint::GetQueue("a+b!".into()));
        assert_eq!(queue("/3/projects/p/queues/"), Endpoint::ListQueues);
        for path in ["/3/projects/p/queues/a/b", "/3/projects/p", "/3/projects//queues"] {
            assert_eq!(routed("GET", path), Some(Err(Misrouted::NoSuchPath)), "{path}");
        }
        for path in ["queues/q/messages/", "queues/q/", "queues/q/messages/1/"] {
            let path = format!("/3/projects/p/{path}");
            assert_eq!(routed("DELETE", &path), Some(Err(Misrouted::NoSuchPath)), "{path}");
        }
        let is_not_text = routed("GET", "/3/projects/p/queues/%ff");
        assert_eq!(is_not_text, Some(Err(Misrouted::NoSuchPath)));
        assert_eq!(routed("GET", "/2/projects/p/queues"), None);
        assert_eq!(routed("GET", "/000000000000/queue"), None);
    }

    #[test]
    fn the_path_of_a_message_leads_to_it() {
        let names = ["p", "a b/c", "7"];
        let path = message_path(Version::V3, names, "8");
        assert_eq!(found("DELETE", &path), Endpoint::DeleteMessage("a b/c".into(), "7".into()));
        let path = message_path(Version::V1, names, "8");
        let expected = Endpoint::DeletePushStatus("a b/c".into(), "7".into(), "8".into());
        assert_eq!(found("DELETE", &path), expected);
    }

    #[test]
    fn a_post_may_stand_for_another_method_and_nothing_else_may() {
        let delete = [Header::new("X-HTTP-Method-Override", "DELETE")];
        let path = "/3/projects/p/queues/q/messages";
        let endpoint = |method, headers: &[Header<'_>]| {
            let request = Request { method, path, headers, ..Request::post(&[], b"") };
            let routed = route(&request).unwrap().unwrap().endpoint;
            format!("{routed:?}")
        };

        assert_eq!(endpoint("POST", &delete), r#"DeleteMessages("q")"#);
        assert_eq!(endpoint("GET", &delete), r#"Peek("q")"#);
        let get = [Header::new("X-HTTP-Method-Override", "GET")];
        assert_eq!(endpoint("POST", &get), r#"Post("q")"#);
    }

    #[test]
    fn a_path_says_which_methods_it_has() {
        for (method, path) in [
            ("PUT", "/1/projects/p/queues/q"),
            ("PATCH", "/1/projects/p/queues/q"),
            ("POST", "/3/projects/p/queues/q"),
            ("GET", "/3/projects/p/queues/q/messages/1/touch"),
            ("POST", "/3/projects/p/queues"),
            ("HEAD", "/3/projects/p/queues/q"),
        ] {
            assert_eq!(routed(method, path), Some(Err(Misrouted::WrongMethod)), "{method} {path}");
        }
    }
}
