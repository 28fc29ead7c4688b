//! One self-contained page: no script, no request to anywhere, dark and light by the reader's own
//! preference. Charts are SVG drawn here; the report itself is embedded as JSON.

mod axis;
mod chart;

use super::{Report, Section, Shape, Table, Verdict, number::significant};

/// Tables of more columns are set closer.
const USUAL_COLUMNS: usize = 8;

const STYLE: &str = include_str!("page.css");

/// The report as a page.
pub(crate) fn page(report: &Report) -> Result<String, serde_json::Error> {
    let title = escape(&report.title);
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n"
    );
    out += &header(report);
    if report.sections.len() > 1 {
        out += &overview(report);
    }
    for section in &report.sections {
        out += &self::section(section);
    }
    out += &footer(report);
    out += "</main>\n";
    // "</" must not end the element early; in JSON, "<\/" is the same.
    let json = report.json()?.replace("</", "<\\/");
    out += &format!("<script type=\"application/json\" id=\"report\">\n{json}\n</script>\n");
    out += "</body>\n</html>\n";
    Ok(out)
}

/// Text that may hold anything, for an element or an attribute.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            letter => out.push(letter),
        }
    }
    out
}

fn header(report: &Report) -> String {
    let environment = &report.environment;
    let mut out = format!("<header>\n<h1>{}</h1>\n", escape(&report.title));
    out += &format!(
        "<p class=\"where\">{} · {} · {} cores, {} · millrace {}</p>\n",
        escape(&report.started_at),
        escape(&environment.endpoint),
        environment.cores,
        escape(&environment.cpu),
        escape(&environment.version),
    );
    for warning in &report.warnings {
        out += &format!("<p class=\"warning\" role=\"note\">{}</p>\n", escape(warning));
    }
    out + "</header>\n"
}

/// One line for each experiment: what it found, and whether what was expected showed.
fn overview(report: &Report) -> String {
    let mut out = "<section aria-labelledby=\"overview\">\n<h2 id=\"overview\">At a glance</h2>\n\
                   <div class=\"scroll\"><table class=\"overview\">\n<tbody>\n"
        .to_owned();
    for section in &report.sections {
        let finding = section.skipped.as_deref().unwrap_or(&section.finding);
        out += &format!(
            "<tr><td>{}</td><th scope=\"row\"><a href=\"#{}\">{}</a></th><td>{}</td></tr>\n",
            badge(section),
            escape(&section.id),
            escape(&section.title),
            escape(finding),
        );
    }
    out + "</tbody>\n</table></div>\n</section>\n"
}

fn badge(section: &Section) -> String {
    let (missed, noise) = (section.missed_shapes(), section.shapes_of(Verdict::Noise));
    let (class, text) = match (&section.skipped, section.shapes.len(), missed, noise) {
        (Some(_), ..) => ("skipped", "skipped".to_owned()),
        (None, 0, ..) => ("measured", "measured".to_owned()),
        (None, _, 0, 0) => ("holds", "as expected".to_owned()),
        (None, all, 0, noise) => ("noise", format!("{noise} of {all} within the noise")),
        (None, all, missed, _) => ("missed", format!("{missed} of {all} not as expected")),
    };
    format!("<span class=\"badge {class}\">{text}</span>")
}

fn section(section: &Section) -> String {
    let id = escape(&section.id);
    let mut out = format!(
        "<section aria-labelledby=\"{id}\">\n<h2 id=\"{id}\">{}</h2>\n",
        escape(&section.title)
    );
    out += &format!("<p class=\"question\">{}</p>\n", escape(&section.question));
    if let Some(reason) = &section.skipped {
        return out
            + &format!("<p class=\"finding\">Skipped: {}.</p>\n</section>\n", escape(reason));
    }
    if !section.finding.is_empty() {
        out += &format!("<p class=\"finding\">{}</p>\n", escape(&section.finding));
    }
    if !section.shapes.is_empty() {
        out += "<ul class=\"shapes\">\n";
        section.shapes.iter().for_each(|shape| out += &self::shape(shape));
        out += "</ul>\n";
    }
    section.charts.iter().for_each(|chart| out += &chart::figure(chart));
    for table in &section.tables {
        if table.is_long {
            let title = escape(&table.title);
            out += &format!("<details><summary>{title}</summary>\n{}</details>\n", rows(table));
        } else {
            out += &rows(table);
        }
    }
    for note in &section.notes {
        out += &format!("<p class=\"note\">{}</p>\n", escape(note));
    }
    out + "</section>\n"
}

fn shape(shape: &Shape) -> String {
    let (class, sign, word) = match shape.verdict() {
        Verdict::Holds => ("holds", "✓", "holds"),
        Verdict::Noise => {
            ("noise", "≈", "not shown, and within the noise of a run as short as this")
        }
        Verdict::Missed => ("missed", "✗", "missed"),
    };
    format!(
        "<li class=\"{class}\"><span class=\"sign\" role=\"img\" aria-label=\"{word}\" title=\"{word}\">{sign}</span> \
         {}: <b>{}</b></li>\n",
        escape(&shape.expected),
        escape(&shape.measured)
    )
}

fn rows(table: &Table) -> String {
    let class = |column: usize| match table.columns.get(column) {
        Some(column) if column.is_number => " class=\"number\"",
        _ => "",
    };
    let wide = if table.columns.len() > USUAL_COLUMNS { " class=\"wide\"" } else { "" };
    let label = if table.title.is_empty() { "Figures" } else { &table.title };
    let mut out = format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"{}\"><table{wide}>\n",
        escape(label)
    );
    if !table.title.is_empty() && !table.is_long {
        out += &format!("<caption>{}</caption>\n", escape(&table.title));
    }
    out += "<thead><tr>";
    for (index, column) in table.columns.iter().enumerate() {
        out += &format!("<th scope=\"col\"{}>{}</th>", class(index), escape(&column.name));
    }
    out += "</tr></thead>\n<tbody>\n";
    for row in &table.rows {
        out += "<tr>";
        for (index, cell) in row.iter().enumerate() {
            // Where a row is read as a stack, each cell says which column it is of.
            let column = table.columns.get(index).map_or("", |column| &column.name);
            let (class, column) = (class(index), escape(column));
            out += &format!("<td{class} data-label=\"{column}\">{}</td>", escape(cell));
        }
        out += "</tr>\n";
    }
    out + "</tbody>\n</table></div>\n"
}

fn footer(report: &Report) -> String {
    let mut out = "<footer>\n<h2>How it was measured</h2>\n".to_owned();
    out += &format!("<p>{}.</p>\n", escape(&report.environment.to_string()));
    out += &format!("<p>Command: <code>{}</code></p>\n", escape(&report.command));
    out += "<p>Warm-up is left out. Latencies come from histograms of three significant digits. \
            CPU is what the processes used by the kernel's own account.</p>\n";
    out += "<details><summary>All metrics</summary>\n<div class=\"scroll\"><table>\n\
            <thead><tr><th scope=\"col\">metric</th><th scope=\"col\" class=\"number\">value</th>\
            <th scope=\"col\">unit</th></tr></thead>\n<tbody>\n";
    for metric in &report.metrics {
        out += &format!(
            "<tr><td><code>{}</code></td><td class=\"number\">{}</td><td>{}</td></tr>\n",
            escape(&metric.name),
            significant(metric.value),
            metric.unit.name()
        );
    }
    out + "</tbody>\n</table></div>\n</details>\n</footer>\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::example;

    #[test]
    fn the_page_is_whole_and_needs_nothing_from_elsewhere() {
        let page = page(&example::report()).unwrap();

        for tag in ["main", "section", "table", "svg", "details", "ul", "figure"] {
            let (opened, closed) = (format!("<{tag}"), format!("</{tag}>"));
            let opened = page.matches(&opened).count();
            assert!(opened > 0 && opened == page.matches(&closed).count(), "{tag}");
        }
        assert!(!page.contains("src=") && !page.contains("http-equiv"), "{page}");
        assert!(!page.contains("NaN") && !page.contains("inf\""), "{page}");
        assert_eq!(page.matches("<script").count(), 1);
    }

    #[test]
    fn text_from_outside_is_never_markup() {
        let mut report = example::report();
        report.title = "</title><b>&".to_owned();
        report.command = "--x '</script><i>'".to_owned();

        let page = page(&report).unwrap();

        assert!(page.contains("<title>&lt;/title&gt;&lt;b&gt;&amp;</title>"));
        assert!(!page.contains("</script><i>"));
        assert!(page.contains("single &lt;one&gt;"));
    }

    #[test]
    fn each_experiment_has_its_verdict_at_a_glance() {
        let mut report = example::report();
        let red = page(&report).unwrap();
        assert!(red.contains("1 of 2 not as expected") && red.contains("badge skipped"));

        report.sections[0].shapes.iter_mut().for_each(|shape| shape.judge(0.1));

        let page = page(&report).unwrap();
        assert!(page.contains("1 of 2 within the noise") && !page.contains("class=\"missed\""));
    }
}
