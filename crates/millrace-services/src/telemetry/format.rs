//! The two text formats that scrapers read: OpenMetrics for those that ask for it, as Prometheus
//! does, and the older one of Prometheus for all others.
//!
//! They differ in what a counter is called before its samples, in units and in the end:
//!
//! ```text
//! # HELP sent Messages          # HELP sent_total Messages
//! # TYPE sent counter           # TYPE sent_total counter
//! # UNIT age_seconds seconds
//! sent_total 7                  sent_total 7
//! # EOF
//! ```

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    OpenMetrics,
    Text,
}

impl Format {
    /// What the header `Accept` asks for: of the two that has the higher quality, if it is not
    /// zero.
    pub(super) fn wanted(accept: Option<&str>) -> Format {
        let accept = accept.unwrap_or_default();
        let open = quality(accept, "application/openmetrics-text").unwrap_or_default();
        let text = ["text/plain", "text/*", "*/*"].into_iter().find_map(|of| quality(accept, of));
        if open > 0.0 && open >= text.unwrap_or_default() {
            return Format::OpenMetrics;
        }
        Format::Text
    }

    pub(super) fn content_type(self) -> &'static str {
        match self {
            Format::OpenMetrics => OPEN_METRICS,
            Format::Text => TEXT,
        }
    }

    /// A whole answer from families in the OpenMetrics format, without the end.
    pub(super) fn render(self, mut families: String) -> String {
        match self {
            Format::OpenMetrics => {
                families.push_str("# EOF\n");
                families
            }
            Format::Text => as_text(&families),
        }
    }
}

/// The highest quality that the header `Accept` gives a media type, if it names that; without `q`
/// it is 1.
fn quality(accept: &str, media_type: &str) -> Option<f64> {
    let qualities = accept.split(',').filter_map(|range| {
        let mut parts = range.split(';').map(str::trim);
        let is_named = parts.next()?.eq_ignore_ascii_case(media_type);
        let q = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
        is_named.then(|| q.and_then(|q| q.parse().ok()).unwrap_or(1.0))
    });
    qualities.reduce(f64::max)
}

fn as_text(families: &str) -> String {
    let mut text = String::with_capacity(families.len() + families.len() / 16);
    let mut help = None;
    for line in families.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ');
        } else if let Some((name, kind)) =
            line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            let suffix = if kind == "counter" { "_total" } else { "" };
            if let Some((_, help)) = help.take().filter(|(of, _)| *of == name) {
                text.extend(["# HELP ", name, suffix, " ", help, "\n"]);
            }
            text.extend(["# TYPE ", name, suffix, " ", kind, "\n"]);
        } else if !line.starts_with("# UNIT ") {
            text.extend([line, "\n"]);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openmetrics_is_for_those_who_ask_for_it() {
        // Prometheus 2.42's header.
        let prometheus = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;\
                          version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";

        assert_eq!(Format::wanted(Some(prometheus)), Format::OpenMetrics);
        assert_eq!(Format::wanted(Some("text/plain; version=0.0.4")), Format::Text);
        assert_eq!(Format::wanted(Some("*/*")), Format::Text);
        assert_eq!(Format::wanted(None), Format::Text);
    }

    #[test]
    fn the_format_of_higher_quality_is_answered() {
        for (accept, expected) in [
            ("application/openmetrics-text;q=0,text/plain", Format::Text),
            ("application/openmetrics-text; q=0.0", Format::Text),
            ("text/plain;version=0.0.4;q=0.9, application/openmetrics-text;q=0.1", Format::Text),
            ("application/openmetrics-text;q=0.1,*/*", Format::Text),
            ("application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.2", Format::OpenMetrics),
            ("text/plain;q=0.3,*/*;q=0.9,Application/OpenMetrics-Text;Q=0.6", Format::OpenMetrics),
            ("application/openmetrics-text;q=nonsense", Format::OpenMetrics),
        ] {
            assert_eq!(Format::wanted(Some(accept)), expected, "{accept}");
        }
    }

    #[test]
    fn counters_are_named_as_their_samples_in_the_older_format() {
        let families = "# HELP sent Messages sent\n# TYPE sent counter\nsent_total{queue=\"# UNIT\"} 7\n\
                        # HELP age_seconds Age\n# TYPE age_seconds gauge\n\
                        # UNIT age_seconds seconds\nage_seconds 1.5\n";

        assert_eq!(
            Format::Text.render(families.to_owned()),
            "# HELP sent_total Messages sent\n# TYPE sent_total counter\n\
             sent_total{queue=\"# UNIT\"} 7\n\
             # HELP age_seconds Age\n# TYPE age_seconds gauge\nage_seconds 1.5\n"
        );
        assert_eq!(Format::OpenMetrics.render("a 1\n".to_owned()), "a 1\n# EOF\n");
    }
}
