//! The pages' shell: what is there before any script runs, and the data that scripts begin with.

use millrace_core::QueueKey;
use serde_json::{Value, json};

use crate::assets;
use crate::html::{escape, json_block, segment};
use crate::session::Session;

/// A page as a path names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Page {
    Overview,
    Queues,
    Queue(QueueKey, &'static Tab),
    Topics,
    /// A topic of SNS.
    Topic {
        region: String,
        account: String,
        name: String,
    },
    Domains,
    /// A domain of SimpleDB.
    Domain {
        region: String,
        account: String,
        name: String,
    },
    Metrics,
    Alarms,
    Server,
    Login,
    /// Where there is no other.
    Missing,
}

/// A tab of a queue's page.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Tab {
    /// Last segment of the path; empty for the first.
    pub path: &'static str,
    pub title: &'static str,
}

pub(crate) const TABS: [Tab; 7] = [
    Tab { path: "", title: "Overview" },
    Tab { path: "browse", title: "Browse" },
    Tab { path: "poll", title: "Poll" },
    Tab { path: "send", title: "Send" },
    Tab { path: "dead-letters", title: "Dead letters" },
    Tab { path: "configuration", title: "Configuration" },
    Tab { path: "tags", title: "Tags and policy" },
];

/// What every page says besides its own.
pub(crate) struct Frame<'a> {
    pub session: Option<&'a Session>,
    pub theme: Theme,
    pub endpoint: &'a str,
    pub region: &'a str,
    pub account: &'a str,
    pub durability: &'a str,
    /// Alarms of the viewer's that are in alarm.
    pub in_alarm: u64,
}

/// Which colours a browser asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Theme {
    /// As the system has it.
    Auto,
    Light,
    Dark,
}

impl Theme {
    pub(crate) fn of(cookie: Option<&str>) -> Theme {
        match cookie {
            Some("light") => Theme::Light,
            Some("dark") => Theme::Dark,
            _ => Theme::Auto,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Theme::Auto => "auto",
            Theme::Light => "light",
            Theme::Dark => "dark",
        }
    }
}

impl Page {
    /// The page at a path, with or without a slash at its end: people type both.
    pub(crate) fn at(path: &str) -> Page {
        let parts: Vec<String> = path
            .trim_matches('/')
            .split('/')
            .map(|part| percent_encoding::percent_decode_str(part).decode_utf8_lossy().into_owned())
            .collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        match *parts {
            [""] => Page::Overview,
            ["queues"] => Page::Queues,
            ["topics"] => Page::Topics,
            ["topics", region, account, name] => Page::Topic {
                region: region.to_owned(),
                account: account.to_owned(),
                name: name.to_owned(),
            },
            ["domains"] => Page::Domains,
            ["domains", region, account, name] => Page::Domain {
                region: region.to_owned(),
                account: account.to_owned(),
                name: name.to_owned(),
            },
            ["metrics"] => Page::Metrics,
            ["alarms"] => Page::Alarms,
            ["server"] => Page::Server,
            ["login"] => Page::Login,
            ["queues", region, account, name] => Page::queue(region, account, name, ""),
            ["queues", region, account, name, tab] => Page::queue(region, account, name, tab),
            _ => Page::Missing,
        }
    }

    fn queue(region: &str, account: &str, name: &str, tab: &str) -> Page {
        let Some(tab) = TABS.iter().find(|known| known.path == tab) else { return Page::Missing };
        Page::Queue(QueueKey::new(region, account, name), tab)
    }

    /// What the scripts call it.
    fn id(&self) -> &'static str {
        match self {
            Page::Overview => "overview",
            Page::Queues => "queues",
            Page::Queue(..) => "queue",
            Page::Topics => "topics",
            Page::Topic { .. } => "topic",
            Page::Domains => "domains",
            Page::Domain { .. } => "domain",
            Page::Metrics => "metrics",
            Page::Alarms => "alarms",
            Page::Server => "server",
            Page::Login => "login",
            Page::Missing => "missing",
        }
    }

    /// Whether its figures move.
    fn is_live(&self) -> bool {
        matches!(self, Page::Overview | Page::Queues | Page::Queue(..) | Page::Server)
    }

    fn title(&self) -> String {
        match self {
            Page::Overview => "Overview".to_owned(),
            Page::Queues => "Queues".to_owned(),
            Page::Queue(key, tab) if tab.path.is_empty() => key.name.clone(),
            Page::Queue(key, tab) => format!("{} of {}", tab.title, key.name),
            Page::Topics => "Topics".to_owned(),
            Page::Domains => "Domains".to_owned(),
            Page::Topic { name, .. } | Page::Domain { name, .. } => name.clone(),
            Page::Metrics => "Metrics".to_owned(),
            Page::Alarms => "Alarms".to_owned(),
            Page::Server => "Server".to_owned(),
            Page::Login => "Log in".to_owned(),
            Page::Missing => "There is no such page".to_owned(),
        }
    }

    /// The whole document. `snapshot` is what the scripts show first.
    pub(crate) fn render(&self, frame: &Frame<'_>, snapshot: Option<Value>) -> String {
        let base = format!("/assets/{}", assets::version());
        // Strangers who are to log in learn nothing of the server.
        let known = frame.session.map(|_| frame);
        let title = escape(&self.title());
        let data = json!({
            "page": self.id(),
            "queue": self.queue_data(),
            "topic": self.topic_data(),
            "domain": self.domain_data(),
            "tab": if let Page::Queue(_, tab) = self { tab.path } else { "" },
            "token": frame.session.map(|session| session.token.as_str()),
            "endpoint": known.map(|frame| frame.endpoint),
            "region": known.map(|frame| frame.region),
            "account": known.map(|frame| frame.account),
            "is_authenticated": frame.session.is_some_and(|s| s.viewer.access_key.is_some()),
            "snapshot": snapshot,
        });
        let data = json_block(&data.to_string());
        let header = if *self == Page::Login { String::new() } else { self.header(frame) };
        let heading = self.heading();
        let footer = known.map_or("Millrace".to_owned(), |frame| {
            let durability = escape(frame.durability);
            format!("Millrace {} · durability {durability}", env!("CARGO_PKG_VERSION"))
        });
        let hint = known.map_or(String::new(), |frame| {
            let endpoint = escape(frame.endpoint);
            format!(
                " The AWS CLI does\nnot: <code>aws --endpoint-url {endpoint} sqs list-queues</code>"
            )
        });
        format!(
            r##"<!doctype html>
<html lang="en" data-theme="{theme}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title} · Millrace</title>
<link rel="icon" href="{base}/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="{base}/base.css">
<link rel="stylesheet" href="{base}/parts.css">
<script type="module" src="{base}/main.js"></script>
<script type="application/json" id="data">{data}</script>
</head>
<body class="page-{id}">
<a class="skip" href="#main">Skip to content</a>
{header}
<main id="main" tabindex="-1">
{heading}
<div id="root"><noscript><p class="notice">The console's figures and forms need JavaScript.{hint}</p></noscript></div>
</main>
<footer class="foot">{footer}</footer>
</body>
</html>
"##,
            theme = frame.theme.name(),
            id = self.id(),
        )
    }

    fn queue_data(&self) -> Value {
        match self {
            Page::Queue(QueueKey { region, account, name }, _) => {
                json!({ "region": region, "account": account, "name": name })
            }
            _ => Value::Null,
        }
    }

    fn topic_data(&self) -> Value {
        match self {
            Page::Topic { region, account, name } => {
                json!({ "region": region, "account": account, "name": name })
            }
            _ => Value::Null,
        }
    }

    fn domain_data(&self) -> Value {
        match self {
            Page::Domain { region, account, name } => {
                json!({ "region": region, "account": account, "name": name })
            }
            _ => Value::Null,
        }
    }

    fn header(&self, frame: &Frame<'_>) -> String {
        let link = |path: &str, title: &str, is_current: bool| {
            let current = if is_current { r#" aria-current="page""# } else { "" };
            format!(r#"<a href="{path}"{current}>{title}</a>"#)
        };
        let is_queues = matches!(self, Page::Queues | Page::Queue(..));
        let (state, pause) = match self.is_live() {
            true => (r#" data-state="reconnecting">Connecting"#, ""),
            false => (">", " hidden"),
        };
        // How many are in alarm is beside the name, and moves with the figures.
        let hidden = if frame.in_alarm == 0 { " hidden" } else { "" };
        let alarms = format!(
            r#"Alarms<span class="badge alarm" id="in-alarm"{hidden}><span>{}</span><span class="visually-hidden"> in alarm</span></span>"#,
            frame.in_alarm
        );
        let links = [
            link("/", "Overview", *self == Page::Overview),
            link("/queues", "Queues", is_queues),
            link("/topics", "Topics", matches!(self, Page::Topics | Page::Topic { .. })),
            link("/domains", "Domains", matches!(self, Page::Domains | Page::Domain { .. })),
            link("/metrics", "Metrics", *self == Page::Metrics),
            link("/alarms", &alarms, *self == Page::Alarms),
            link("/server", "Server", *self == Page::Server),
        ]
        .concat();
        let name = frame.session.map(|session| session.viewer.name.as_str()).unwrap_or_default();
        let account = match name {
            "" => String::new(),
            name => format!(
                r#"<span class="who">{}</span><button type="button" class="plain" id="logout">Log out</button>"#,
                escape(name)
            ),
        };
        format!(
            r##"<header class="top">
<a class="brand" href="/"><svg viewBox="0 0 24 24" width="22" height="22" aria-hidden="true" focusable="false"><path d="M2 7.5c3.3 0 3.3 3 6.7 3s3.3-3 6.6-3 3.3 3 6.7 3" class="mark-a"/><path d="M2 13.5c3.3 0 3.3 3 6.7 3s3.3-3 6.6-3 3.3 3 6.7 3" class="mark-b"/></svg>Millrace</a>
<nav aria-label="Main">{links}</nav>
<div class="tools"><span id="live" role="status"{state}</span><button type="button" class="plain" id="pause"{pause}>Pause</button><button type="button" class="plain icon-button" id="theme" aria-label="Colours: as the system">◐</button><button type="button" class="plain icon-button" id="help" aria-label="Keyboard shortcuts">?</button>{account}</div>
</header>"##
        )
    }

    fn heading(&self) -> String {
        let all = match self {
            Page::Topic { name, .. } => Some(("/topics", "Topics", name)),
            Page::Domain { name, .. } => Some(("/domains", "Domains", name)),
            _ => None,
        };
        if let Some((path, title, name)) = all {
            return format!(
                r#"<div class="heading"><p class="crumb"><a href="{path}">{title}</a></p><h1>{}</h1><div id="facts"></div></div>"#,
                escape(name)
            );
        }
        let Page::Queue(QueueKey { region, account, name }, tab) = self else {
            return format!(r#"<div class="heading"><h1>{}</h1></div>"#, escape(&self.title()));
        };
        let base = format!("/queues/{}/{}/{}", segment(region), segment(account), segment(name));
        let tabs: String = TABS
            .iter()
            .map(|known| {
                let slash = if known.path.is_empty() { "" } else { "/" };
                let current = if known == *tab { r#" aria-current="page""# } else { "" };
                format!(r#"<a href="{base}{slash}{}"{current}>{}</a>"#, known.path, known.title)
            })
            .collect();
        format!(
            r#"<div class="heading"><p class="crumb"><a href="/queues">Queues</a></p><h1>{}</h1><div id="facts"></div></div>
<nav class="tabs" aria-label="Queue">{tabs}</nav>"#,
            escape(name)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame() -> Frame<'static> {
        Frame {
            session: None,
            theme: Theme::Auto,
            endpoint: "http://127.0.0.1:4566",
            region: "us-east-1",
            account: "000000000000",
            durability: "fsync",
            in_alarm: 0,
        }
    }

    const PATHS: [&str; 12] = [
        "/",
        "/queues",
        "/queues/r/a/q",
        "/topics",
        "/topics/r/a/t",
        "/domains",
        "/domains/r/a/d",
        "/metrics",
        "/alarms",
        "/server",
        "/login",
        "/x",
    ];

    #[test]
    fn paths_name_pages() {
        assert_eq!(Page::at("/"), Page::Overview);
        assert_eq!(Page::at("/queues"), Page::Queues);
        assert_eq!(Page::at("/queues/"), Page::Queues);
        let page = Page::at("/queues/eu-west-1/000000000000/orders.fifo/dead-letters");
        let Page::Queue(key, tab) = page else { panic!("{page:?}") };
        assert_eq!(key, QueueKey::new("eu-west-1", "000000000000", "orders.fifo"));
        assert_eq!(tab.title, "Dead letters");
        assert_eq!(Page::at("/queues/r/a/q/nonsense"), Page::Missing);
        assert_eq!(Page::at("/domains/"), Page::Domains);
        let page = Page::at("/domains/eu-west-1/000000000000/cars");
        assert_eq!((page.id(), page.title().as_str()), ("domain", "cars"));
        assert_eq!(Page::at("/domains/r/a"), Page::Missing);
        assert_eq!(Page::at("/topics/"), Page::Topics);
        let page = Page::at("/topics/eu-west-1/000000000000/prices.fifo");
        assert_eq!((page.id(), page.title().as_str()), ("topic", "prices.fifo"));
        assert_eq!(Page::at("/topics/r/a/t/x"), Page::Missing);
        assert_eq!(Page::at("/nonsense"), Page::Missing);
    }

    #[test]
    fn what_a_path_says_is_never_markup() {
        for kind in ["queues", "topics", "domains"] {
            let page = Page::at(&format!("/{kind}/r/a/%3Cscript%3Ealert(1)%3C%2Fscript%3E"));

            let html = page.render(&frame(), Some(json!({ "x": "</script><script>alert(2)" })));

            assert!(!html.contains("<script>alert"), "{html}");
            assert!(html.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
        }
    }

    #[test]
    fn pages_have_no_inline_style_or_script() {
        for path in PATHS {
            let html = Page::at(path).render(&frame(), None);
            assert!(!html.contains("style=") && !html.contains("<style"), "{path}");
            for script in html.split("<script ").skip(1) {
                let is_file = script.starts_with(r#"type="module" src="/assets/"#);
                assert!(is_file || script.starts_with(r#"type="application/json""#), "{path}");
            }
        }
    }
}
