//! The one spelling of a path that signatures are over. A signature for one spelling is good for all,
//! so whoever acts on a path has to read them all as the same.

use std::borrow::Cow;

/// The path without empty and dot segments (RFC 3986, 5.2.4), still percent-encoded; borrowed if
/// there are none. Begins with `/`.
pub fn normal(path: &str) -> Cow<'_, str> {
    let mut pairs = path.as_bytes().windows(2);
    if path.starts_with('/') && !pairs.any(|pair| matches!(pair, b"//" | b"/.")) {
        return Cow::Borrowed(path);
    }
    let mut segments = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            _ => segments.push(segment),
        }
    }
    let mut normal = String::with_capacity(path.len() + 1);
    for segment in &segments {
        normal.push('/');
        normal.push_str(segment);
    }
    if segments.is_empty() || path.ends_with('/') {
        normal.push('/');
    }
    Cow::Owned(normal)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn paths_lose_empty_and_dot_segments() {
        for (path, expected) in [
            ("", "/"),
            ("/", "/"),
            ("a", "/a"),
            ("*", "/*"),
            ("/a/b", "/a/b"),
            ("/a/b/", "/a/b/"),
            ("//a//b//", "/a/b/"),
            ("/a/./b/../c", "/a/c"),
            ("/a/..", "/"),
            ("/../..", "/"),
            ("/a/b/..", "/a"),
            ("/.a/..b", "/.a/..b"),
            ("/%2e%2e/a", "/%2e%2e/a"),
        ] {
            assert_eq!(normal(path), expected, "{path}");
        }
        assert!(matches!(normal("/000000000000/q.fifo"), Cow::Borrowed(_)));
    }

    proptest! {
        #[test]
        fn a_normal_path_stays_as_it_is(path in "[/.ab]{0,12}") {
            let once = normal(&path).into_owned();

            prop_assert!(once.starts_with('/'), "{once}");
            prop_assert_eq!(&normal(&once), &once);
        }
    }
}
