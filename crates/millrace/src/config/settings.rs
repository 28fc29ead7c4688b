//! Every setting, once: its key, its kind, its default.
//!
//! The key `limits.in_flight` is `in_flight` in the file's section `[limits]`, and the variable
//! `MILLRACE_LIMITS__IN_FLIGHT`.

/// A setting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) key: &'static str,
    pub(crate) kind: Kind,
    /// As the environment would give it.
    pub(crate) default: &'static str,
    pub(crate) is_secret: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    /// Bounds included.
    Number {
        min: i64,
        max: i64,
    },
    /// A duration of whole seconds, or their number; bounds included.
    Seconds {
        min: i64,
        max: i64,
    },
    Truth,
    /// Separated by commas outside the file.
    List,
}

/// No setting counts more than this.
const MANY: i64 = 1_000_000_000;

pub(crate) const SETTINGS: &[Setting] = &[
    list("listen", "127.0.0.1:4566"),
    text("console_listen", "127.0.0.1:4567"),
    list("console_hosts", ""),
    text("data", "millrace-data"),
    text("durability", "fsync"),
    text("public_url", ""),
    text("region", "us-east-1"),
    text("account", "000000000000"),
    truth("test", "false"),
    truth("strict", "false"),
    truth("insecure", "false"),
    text("access_key", ""),
    secret("secret_key"),
    text("tls_cert", ""),
    text("tls_key", ""),
    number("workers", "0", 0, 1024),
    truth("idle_poll", "false"),
    text("log_format", "text"),
    text("log_level", "info"),
    seconds("drain_seconds", "20", 0, 3600),
    list("cors_origins", "auto"),
    number("limits.max_connections", "0", 0, MANY),
    // SQS: 1 MiB of payload, each byte of which JSON may write as six.
    number("limits.max_body_bytes", "8388608", 1 << 20, 1 << 30),
    number("limits.memory_bytes", "0", 0, 1 << 50),
    // SQS: 120,000 messages in flight, developer guide "Message quotas".
    number("limits.in_flight", "120000", 1, MANY),
    // SimpleDB: 250 domains of 10 GB, developer guide "Amazon SimpleDB limits".
    number("limits.domains", "250", 1, 100_000),
    number("limits.domain_bytes", "10737418240", 1, 1 << 50),
    seconds("limits.commit_wait_seconds", "10", 1, 3600),
    truth("limits.recreate_cool_down", "false"),
    truth("limits.purge_cool_down", "false"),
    truth("sns.sign_in_queues", "true"),
    number("push.connections", "512", 4, 65_536),
    number("push.connections_per_endpoint", "16", 1, 1024),
    text("push.private_networks", "auto"),
    list("push.allowed_networks", ""),
    text("push.authorities", ""),
    number("metrics.top_queues", "100", 0, 100_000),
    list("metrics.queues", ""),
    secret("metrics.token"),
    text("traces.endpoint", ""),
    text("traces.service_name", ""),
    text("traces.sampler", ""),
    text("traces.sampler_arg", ""),
];

impl Setting {
    pub(crate) fn named(key: &str) -> Option<&'static Setting> {
        SETTINGS.iter().find(|setting| setting.key == key)
    }

    /// The variable that sets it.
    pub(crate) fn variable(&self) -> String {
        format!("MILLRACE_{}", self.key.replace('.', "__").to_ascii_uppercase())
    }
}

/// The candidate nearest to a misspelt name, if one is near enough to be meant.
pub(crate) fn nearest<'a>(
    name: &str,
    candidates: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    candidates
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= 1 + name.len() / 4)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Levenshtein's.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (index, letter) in left.chars().enumerate() {
        let mut diagonal = index;
        row[0] = index + 1;
        for (column, other) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[right.len()]
}

const fn text(key: &'static str, default: &'static str) -> Setting {
    Setting { key, kind: Kind::Text, default, is_secret: false }
}

const fn secret(key: &'static str) -> Setting {
    Setting { key, kind: Kind::Text, default: "", is_secret: true }
}

const fn truth(key: &'static str, default: &'static str) -> Setting {
    Setting { key, kind: Kind::Truth, default, is_secret: false }
}

const fn list(key: &'static str, default: &'static str) -> Setting {
    Setting { key, kind: Kind::List, default, is_secret: false }
}

const fn seconds(key: &'static str, default: &'static str, min: i64, max: i64) -> Setting {
    Setting { key, kind: Kind::Seconds { min, max }, default, is_secret: false }
}

const fn number(key: &'static str, default: &'static str, min: i64, max: i64) -> Setting {
    Setting { key, kind: Kind::Number { min, max }, default, is_secret: false }
}
