//! Queue names in URLs. Hosts are never compared: clients keep URLs that they got under another
//! name of the server, and AWS itself has several.

use memchr::{memchr, memchr2, memrchr};
use millrace_core::is_account;

/// The queue that a request's path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathQueue<'a> {
    /// `/queue/{region}/{account}/{name}` only.
    pub region: Option<&'a str>,
    /// Absent in `/queue/{name}`. Not necessarily twelve digits.
    pub account: Option<&'a str>,
    pub name: &'a str,
}

/// What a queue URL says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueUrlParts<'a> {
    /// From `/queue/{region}/…` or from a host such as `sqs.{region}.amazonaws.com`.
    pub region: Option<&'a str>,
    pub account: Option<&'a str>,
    pub name: &'a str,
}

impl PathQueue<'_> {
    /// Whether the path can mean nothing but a queue.
    pub(super) fn is_certain(&self) -> bool {
        self.account.is_none_or(is_account)
    }
}

/// Takes a `QueueUrl` apart by its path: the last two segments are account and name. A bare queue
/// name is enough. None if no name is in it.
pub fn parse_queue_url(url: &str) -> Option<QueueUrlParts<'_>> {
    let (host, path) = match behind_scheme(url) {
        Some(rest) => split(rest, memchr(b'/', rest.as_bytes()))?,
        None => ("", url),
    };
    let end = memchr2(b'?', b'#', path.as_bytes());
    let mut path = split(path, end).map_or(path, |(path, _)| path);
    let name = take_last_segment(&mut path)?;
    let account = take_last_segment(&mut path).filter(|account| *account != "queue");
    let before = (take_last_segment(&mut path), take_last_segment(&mut path));
    let path_region = match (account, before) {
        (Some(_), (Some(region), Some("queue"))) => Some(region),
        _ => None,
    };
    Some(QueueUrlParts { region: path_region.or_else(|| region_of_host(host)), account, name })
}

/// Host and path, if there is a host.
fn behind_scheme(url: &str) -> Option<&str> {
    if let Some(rest) = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://")) {
        return Some(rest);
    }
    // No name has a colon, so one that does not end a scheme is none of ours.
    let (_, rest) = split(url, memchr(b':', url.as_bytes()))?;
    rest.strip_prefix("//")
}

/// What is before and behind an ASCII character at `place`.
pub(super) fn split(text: &str, place: Option<usize>) -> Option<(&str, &str)> {
    let place = place?;
    Some((text.get(..place)?, text.get(place + 1..)?))
}

/// Empty segments are passed over.
fn take_last_segment<'a>(path: &mut &'a str) -> Option<&'a str> {
    while !path.is_empty() {
        let (before, segment) = split(path, memrchr(b'/', path.as_bytes())).unwrap_or(("", path));
        *path = before;
        if !segment.is_empty() {
            return Some(segment);
        }
    }
    None
}

/// Takes a request's path apart: `/{account}/{name}`, `/queue/{name}` and
/// `/queue/{region}/{account}/{name}`. What queue URLs have before that, where `public_url` has a
/// path, is passed over before an account of twelve digits.
pub(super) fn parse_path(path: &str) -> Option<PathQueue<'_>> {
    let mut rest = path;
    let name = take_last_segment(&mut rest)?;
    let account = take_last_segment(&mut rest)?;
    let before = (take_last_segment(&mut rest), take_last_segment(&mut rest));
    match before {
        (None, _) if account == "queue" => Some(PathQueue { region: None, account: None, name }),
        (None, _) => Some(PathQueue { region: None, account: Some(account), name }),
        (region, Some("queue")) => Some(PathQueue { region, account: Some(account), name }),
        _ if is_account(account) => Some(PathQueue { region: None, account: Some(account), name }),
        _ => None,
    }
}

/// The region in `…sqs.{region}.…` and `{region}.queue.…`.
pub(super) fn region_of_host(host: &str) -> Option<&str> {
    // Most other hosts have neither letter.
    memchr2(b'q', b'd', host.as_bytes())?;
    let name = host.split_once(':').map_or(host, |(name, _)| name);
    let mut previous = "";
    let mut is_after_service = false;
    for label in name.split('.') {
        if is_after_service {
            return Some(label).filter(|label| is_region(label));
        }
        if label == "queue" {
            return Some(previous).filter(|label| is_region(label));
        }
        is_after_service = matches!(label, "sqs" | "sdb");
        previous = label;
    }
    None
}

/// Whether a label looks like `us-east-1`: words and at last a number, with dashes between.
fn is_region(label: &str) -> bool {
    let Some((words, number)) = label.rsplit_once('-') else { return false };
    let is_word = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase());
    words.contains('-')
        && words.split('-').all(is_word)
        && !number.is_empty()
        && number.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(url: &str) -> Option<(Option<&str>, Option<&str>, &str)> {
        parse_queue_url(url).map(|parts| (parts.region, parts.account, parts.name))
    }

    #[test]
    fn queue_urls_are_read_by_path() {
        let account = Some("000000000000");
        let cases = [
            ("http://localhost:9324/000000000000/q1", (None, account, "q1")),
            (
                "https://sqs.eu-west-1.amazonaws.com/000000000000/q1",
                (Some("eu-west-1"), account, "q1"),
            ),
            ("https://queue.amazonaws.com/000000000000/q1/", (None, account, "q1")),
            (
                "https://us-east-2.queue.amazonaws.com/000000000000/q1",
                (Some("us-east-2"), account, "q1"),
            ),
            (
                "http://sqs.us-gov-west-1.localhost.localstack.cloud:4566/000000000000/q.fifo",
                (Some("us-gov-west-1"), account, "q.fifo"),
            ),
            (
                "http://localhost:4566/queue/us-east-1/000000000000/q1",
                (Some("us-east-1"), account, "q1"),
            ),
            ("http://localhost:9324/queue/q1", (None, None, "q1")),
            ("http://proxy/sqs/000000000000/q1?x=/y", (None, account, "q1")),
            ("http://sqs.localhost/q1", (None, None, "q1")),
            ("HTTPS://h/000000000000/q1#/x", (None, account, "q1")),
            ("HTTPS://sqs.eu-west-1.h:9324/000000000000/q1", (Some("eu-west-1"), account, "q1")),
            ("//000000000000//q1//", (None, account, "q1")),
            ("/000000000000/q1", (None, account, "q1")),
            ("q1", (None, None, "q1")),
        ];
        for (url, expected) in cases {
            assert_eq!(parts(url), Some(expected), "{url}");
        }
        for url in ["", "/", "http://localhost", "http://localhost/", "http://localhost/?a"] {
            assert_eq!(parts(url), None, "{url}");
        }
    }

    #[test]
    fn hosts_name_regions_by_words_and_a_number() {
        for label in ["us-east-1", "us-gov-west-1", "ap-southeast-12"] {
            assert_eq!(region_of_host(&format!("sqs.{label}.h")), Some(label));
            assert_eq!(region_of_host(&format!("sqs.{label}:9324")), Some(label));
            assert_eq!(region_of_host(&format!("{label}.queue.h:80")), Some(label));
        }
        for label in
            ["us-1", "us--1", "-east-1", "us-east-", "us-east-1a", "us-East-1", "u2-east-1"]
        {
            assert_eq!(region_of_host(&format!("sqs.{label}.h")), None, "{label}");
            assert_eq!(region_of_host(&format!("{label}.queue.h")), None, "{label}");
        }
    }

    #[test]
    fn paths_name_queues_in_three_styles() {
        let queue = |region, account, name| Some(PathQueue { region, account, name });

        assert_eq!(parse_path("/"), None);
        assert_eq!(parse_path("/q1"), None);
        assert_eq!(parse_path("/123456789012/q1"), queue(None, Some("123456789012"), "q1"));
        assert_eq!(parse_path("/queue/q1"), queue(None, None, "q1"));
        assert_eq!(
            parse_path("/queue/us-east-1/123456789012/q1"),
            queue(Some("us-east-1"), Some("123456789012"), "q1")
        );
        assert_eq!(parse_path("/3/projects/p/queues/q"), None);
        assert_eq!(parse_path("/queue/us-east-1/123456789012/q1/x"), None);
        for path in ["/sqs/123456789012/q1", "/a/b/c/123456789012/q1/", "//a//123456789012//q1"] {
            assert_eq!(parse_path(path), queue(None, Some("123456789012"), "q1"), "{path}");
        }
        assert_eq!(
            parse_path("/a/queue/us-east-1/123456789012/q1"),
            queue(Some("us-east-1"), Some("123456789012"), "q1")
        );
        assert_eq!(parse_path("/sqs/queue/q1"), None);
        for (path, is_certain) in [
            ("/123456789012/q", true),
            ("/queue/q", true),
            ("/12345678901/q", false),
            ("/1234567890123/q", false),
            ("/12345678901a/q", false),
        ] {
            assert_eq!(
                parse_path(path).map(|queue| queue.is_certain()),
                Some(is_certain),
                "{path}"
            );
        }
    }
}
