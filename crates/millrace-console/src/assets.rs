//! Styles, modules and icons, compiled into the binary and served under a path that names their
//! content, so that browsers keep them for ever and a new release is loaded at once.

use std::sync::OnceLock;

use millrace_core::sha256_hex;
use millrace_wire::Response;

/// One file.
struct Asset {
    name: &'static str,
    content_type: &'static str,
    content: &'static str,
}

macro_rules! assets {
    ($($name:literal: $content_type:expr),* $(,)?) => {
        &[$(Asset {
            name: $name,
            content_type: $content_type,
            content: include_str!(concat!("../assets/", $name)),
        }),*]
    };
}

const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

const ICON: &str = include_str!("../assets/icon.svg");

const ASSETS: &[Asset] = assets! {
    "base.css": CSS,
    "parts.css": CSS,
    "icon.svg": SVG,
    "main.js": JS,
    "actions.js": JS,
    "chart.js": JS,
    "cli.js": JS,
    "cloudwatch.js": JS,
    "dialog.js": JS,
    "dom.js": JS,
    "domain.js": JS,
    "domain_item.js": JS,
    "domains.js": JS,
    "form.js": JS,
    "format.js": JS,
    "iron_mq.js": JS,
    "json.js": JS,
    "keyboard.js": JS,
    "live.js": JS,
    "message.js": JS,
    "message_actions.js": JS,
    "message_attributes.js": JS,
    "message_list.js": JS,
    "alarms.js": JS,
    "login.js": JS,
    "metrics.js": JS,
    "missing.js": JS,
    "overview.js": JS,
    "places.js": JS,
    "queue.js": JS,
    "queue_browse.js": JS,
    "queue_configuration.js": JS,
    "queue_dead_letters.js": JS,
    "queue_overview.js": JS,
    "queue_poll.js": JS,
    "queue_send.js": JS,
    "queue_tags.js": JS,
    "queue_picker.js": JS,
    "queues.js": JS,
    "server.js": JS,
    "session.js": JS,
    "simpledb.js": JS,
    "sns.js": JS,
    "subscribe.js": JS,
    "subscription.js": JS,
    "subscriptions.js": JS,
    "filter_policy.js": JS,
    "table.js": JS,
    "topic.js": JS,
    "topic_attributes.js": JS,
    "topic_publish.js": JS,
    "topics.js": JS,
    "typed.js": JS,
    "xml.js": JS,
};

/// What all files together are known by: it changes when one of them does.
pub(crate) fn version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| {
        let all: String = ASSETS.iter().flat_map(|asset| [asset.name, asset.content]).collect();
        let mut digest = sha256_hex(all.as_bytes());
        digest.truncate(16);
        digest
    })
}

/// The file at `version/name`, if it is one of this build's.
pub(crate) fn answer(path: &str) -> Option<Response> {
    let name = path.strip_prefix(version())?.strip_prefix('/')?;
    let asset = ASSETS.iter().find(|asset| asset.name == name)?;
    let mut response = Response::new(200, asset.content_type, asset.content);
    response.headers.push(("Cache-Control", "public, max-age=31536000, immutable".to_owned()));
    Some(response)
}

/// The icon, where browsers look for it that were not told by a page.
pub(crate) fn icon() -> Response {
    let mut response = Response::new(200, SVG, ICON);
    response.headers.push(("Cache-Control", "public, max-age=86400".to_owned()));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_under_the_present_version_only() {
        let style = answer(&format!("{}/base.css", version())).unwrap();

        assert_eq!((style.status, style.content_type), (200, CSS));
        assert!(answer("0123456789abcdef/base.css").is_none());
        assert!(answer(&format!("{}/../Cargo.toml", version())).is_none());
    }

    #[test]
    fn every_module_that_is_imported_is_there() {
        for asset in ASSETS.iter().filter(|asset| asset.content_type == JS) {
            for (_, rest) in asset
                .content
                .match_indices("from \"./")
                .map(|(at, found)| (at, &asset.content[at + found.len()..]))
            {
                let name = rest.split('"').next().unwrap_or_default();
                assert!(ASSETS.iter().any(|a| a.name == name), "{} imports {name}", asset.name);
            }
        }
    }

    #[test]
    fn no_file_asks_for_what_the_content_policy_forbids() {
        for asset in ASSETS {
            for forbidden in
                ["innerHTML", "outerHTML", "insertAdjacentHTML", "eval(", "http://", "https://"]
            {
                let is_namespace =
                    |at: usize| asset.content[at..].starts_with("http://www.w3.org/");
                let mut found = asset.content.match_indices(forbidden);
                assert!(found.all(|(at, _)| is_namespace(at)), "{}: {forbidden}", asset.name);
            }
        }
    }
}
