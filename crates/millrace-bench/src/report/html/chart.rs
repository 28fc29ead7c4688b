//! Charts as SVG. Colours are classes of the style sheet, so that both themes share one drawing.

use super::{
    super::{Axis, Bar, Chart, Mark, Scale, Series, Style, number::significant},
    axis::Ruler,
    escape,
};

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 22.0;
const BOTTOM: f64 = 46.0;
const LETTER: f64 = 7.0;
const BAR: f64 = 20.0;
const BAR_STEP: f64 = 30.0;
/// The style sheet has so many colours.
const COLOURS: usize = 6;
/// Longer series have no tooltip for each point: the page would grow too large.
const TOOLTIPS_MAX: usize = 240;

pub(super) fn figure(chart: &Chart) -> String {
    match chart {
        Chart::Lines { title, x, y, series, marks } => {
            let names: Vec<&str> = series.iter().map(|series| series.name.as_str()).collect();
            let style = |index: usize| series.get(index).map_or(Style::Line, |series| series.style);
            frame(title, &legend(&names, style), &lines(title, x, y, series, marks))
        }
        Chart::Bars { title, axis, bars } => {
            let names = series_of(bars);
            let legend =
                if names.len() > 1 { legend(&names, |_| Style::Line) } else { String::new() };
            frame(title, &legend, &self::bars(title, axis, bars))
        }
    }
}

fn frame(title: &str, legend: &str, svg: &str) -> String {
    format!("<figure>\n<figcaption>{}</figcaption>\n{legend}{svg}</figure>\n", escape(title))
}

fn legend(names: &[&str], style: impl Fn(usize) -> Style) -> String {
    let mut out = "<ul class=\"legend\">\n".to_owned();
    for (index, name) in names.iter().enumerate() {
        let dashed = if style(index) == Style::Theory { " theory" } else { "" };
        let colour = index % COLOURS;
        out += &format!("<li><span class=\"key c{colour}{dashed}\"></span>{}</li>\n", escape(name));
    }
    out + "</ul>\n"
}

fn lines(title: &str, x: &Axis, y: &Axis, series: &[Series], marks: &[Mark]) -> String {
    let points = || series.iter().flat_map(|series| &series.points);
    let down = Ruler::new(y, points().map(|(_, y)| *y), (HEIGHT - BOTTOM, TOP)).rounded();
    // Room for the longest label at the left, behind the axis' name, and for half of the last one.
    let widest = down.ticks().iter().map(|(_, label)| width(label)).fold(0.0, f64::max);
    let left = LEFT.max(widest + 36.0);
    let ruler = |right: f64| Ruler::new(x, points().map(|(x, _)| *x), (left, WIDTH - right));
    let last = ruler(RIGHT).ticks().last().map_or(0.0, |(_, label)| width(label) / 2.0);
    let right = RIGHT.max(last + 4.0);
    let across = ruler(right);
    let mut out = open(title, HEIGHT);
    for (at, label) in down.ticks() {
        out += &format!(
            "<line class=\"grid\" x1=\"{left:.1}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>\n",
            WIDTH - right,
            left - 8.0,
            at + 4.0,
        );
    }
    for (at, label) in across.ticks() {
        out += &format!(
            "<text class=\"tick\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>\n",
            HEIGHT - BOTTOM + 18.0,
        );
    }
    for mark in marks {
        let Some(at) = across.at(mark.x) else { continue };
        let is_at_end = at + 5.0 + width(&mark.label) > WIDTH;
        let anchor = if is_at_end { "end" } else { "start" };
        let beside = if anchor == "end" { at - 5.0 } else { at + 5.0 };
        out += &format!(
            "<line class=\"mark\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{:.1}\"/>\
             <text class=\"mark-label\" x=\"{beside:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>\n",
            HEIGHT - BOTTOM,
            TOP - 6.0,
            escape(&mark.label),
        );
    }
    out += &axis_labels(x, y, (left, right));
    for (index, series) in series.iter().enumerate() {
        out += &line(series, index % COLOURS, &across, &down, (x, y));
    }
    out + "</svg>\n"
}

fn line(
    series: &Series,
    colour: usize,
    across: &Ruler,
    down: &Ruler,
    axes: (&Axis, &Axis),
) -> String {
    let places =
        series.points.iter().filter_map(|(x, y)| Some((across.at(*x)?, down.at(*y)?, x, y)));
    let places: Vec<_> = places.collect();
    let path: Vec<String> = places.iter().map(|(x, y, ..)| format!("{x:.1},{y:.1}")).collect();
    let theory = if series.style == Style::Theory { " theory" } else { "" };
    let mut out =
        format!("<polyline class=\"line c{colour}{theory}\" points=\"{}\"/>\n", path.join(" "));
    if series.style == Style::Theory || places.len() > TOOLTIPS_MAX {
        return out;
    }
    // Points show when they are pointed at; of a line of one there is nothing else.
    let is_shown = series.style == Style::Dots || places.len() == 1;
    let class = if is_shown { "dot" } else { "point" };
    for (at_x, at_y, x, y) in places {
        out += &format!(
            "<circle class=\"{class} c{colour}\" cx=\"{at_x:.1}\" cy=\"{at_y:.1}\" r=\"4\">\
             <title>{}: {} at {} {}</title></circle>\n",
            escape(&series.name),
            with_unit(*y, axes.1),
            escape(&axes.0.label),
            x_label(*x, axes.0),
        );
    }
    out
}

fn bars(title: &str, axis: &Axis, bars: &[Bar]) -> String {
    let labels = bars.iter().map(|bar| width(&bar.label)).fold(0.0, f64::max);
    let left = (labels + 14.0).clamp(60.0, WIDTH * 0.45);
    // Room for the figures behind the bars.
    let texts = bars.iter().map(|bar| width(&bar.text)).fold(0.0, f64::max);
    let right = (texts + 14.0).clamp(40.0, WIDTH * 0.35);
    let height = TOP + bars.len() as f64 * BAR_STEP + BOTTOM;
    let across =
        Ruler::new(axis, bars.iter().map(|bar| bar.value), (left, WIDTH - right)).rounded();
    let names = series_of(bars);
    let mut out = open(title, height);
    let bottom = height - BOTTOM;
    for (at, label) in across.ticks() {
        out += &format!(
            "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{:.1}\" y2=\"{bottom:.1}\"/>\
             <text class=\"tick\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>\n",
            TOP - 6.0,
            bottom + 18.0,
        );
    }
    for (index, bar) in bars.iter().enumerate() {
        let top = TOP + index as f64 * BAR_STEP;
        let colour = names.iter().position(|name| *name == bar.series).unwrap_or(0) % COLOURS;
        let end = across.at(bar.value).unwrap_or(left).max(left + 1.0);
        out += &format!(
            "<text class=\"name\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
             <rect class=\"bar c{colour}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{BAR}\" rx=\"2\"/>\
             <text class=\"value\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\n",
            left - 8.0,
            top + 14.5,
            escape(&shortened(&bar.label, left - 10.0)),
            end - left,
            end + 7.0,
            top + 14.5,
            escape(&bar.text),
        );
    }
    let middle = (left + WIDTH - right) / 2.0;
    out += &format!(
        "<text class=\"axis\" x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n",
        height - 8.0,
        escape(&axis.label)
    );
    out + "</svg>\n"
}

/// Pixels that a text takes in this size: about seven a letter.
fn width(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER
}

/// The text, or its beginning if it takes more than that.
fn shortened(text: &str, pixels: f64) -> String {
    if width(text) <= pixels {
        return text.to_owned();
    }
    let letters = (pixels / LETTER) as usize;
    let begin: String = text.chars().take(letters.saturating_sub(1)).collect();
    format!("{begin}…")
}

fn open(title: &str, height: f64) -> String {
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">\n",
        escape(title)
    )
}

fn axis_labels(x: &Axis, y: &Axis, (left, right): (f64, f64)) -> String {
    format!(
        "<text class=\"axis\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
         <text class=\"axis\" transform=\"translate(14 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
        (left + WIDTH - right) / 2.0,
        HEIGHT - 8.0,
        escape(&x.label),
        (TOP + HEIGHT - BOTTOM) / 2.0,
        escape(&y.label),
    )
}

/// The names of series in the order they first appear.
fn series_of(bars: &[Bar]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for bar in bars {
        if !names.contains(&bar.series.as_str()) {
            names.push(&bar.series);
        }
    }
    names
}

fn with_unit(value: f64, axis: &Axis) -> String {
    format!("{} {}", significant(value), escape(&axis.label))
}

fn x_label(value: f64, axis: &Axis) -> String {
    if axis.scale == Scale::Nines {
        return format!("{:.3} %", value * 100.0);
    }
    if value.fract() == 0.0 { format!("{value:.0}") } else { significant(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_have_tooltips_and_theory_has_none() {
        let measured = Series::line("p50", vec![(1.0, 2.0), (2.0, 3.0)]);
        let theory = Series { style: Style::Theory, ..measured.clone() };

        let svg = lines("t", &Axis::linear("n"), &Axis::linear("ms"), &[measured, theory], &[]);

        assert_eq!(svg.matches("<circle").count(), 2);
        assert!(svg.contains("<title>p50: 2.00 ms at n 1</title>"), "{svg}");
        assert_eq!(svg.matches("theory").count(), 1);
    }

    /// The left ends of texts that end at a place, and the right ends of those in the middle of one.
    fn edges(svg: &str) -> Vec<f64> {
        let ticks = svg.split("<text class=\"tick\" x=\"").skip(1);
        let edges = ticks.map(|tick| {
            let (x, rest) = tick.split_once('"').unwrap();
            let (x, text) = (x.parse::<f64>().unwrap(), rest.split_once('>').unwrap().1);
            let width = width(text.split('<').next().unwrap());
            if rest.contains("text-anchor=\"end\"") { x - width } else { x + width / 2.0 }
        });
        edges.collect()
    }

    #[test]
    fn no_tick_is_cut_off_at_the_edges() {
        let points = vec![(0.0, 0.001), (1_000_000.0, 98_765_432.0)];
        let (x, y) = (Axis::linear("messages"), Axis::linear("bytes"));

        let svg = lines("t", &x, &y, &[Series::line("s", points)], &[]);

        let edges = edges(&svg);
        assert!(edges.len() > 6 && edges.iter().all(|at| (0.0..=WIDTH).contains(at)), "{edges:?}");
    }

    #[test]
    fn a_label_that_is_too_long_is_shortened_not_cut_off() {
        assert_eq!(shortened("short", 100.0), "short");
        assert_eq!(shortened("rather a long one", 49.0), "rather…");
    }

    #[test]
    fn a_line_of_one_point_is_a_dot() {
        let dots = |points: &[(f64, f64)]| {
            let series = [Series::line("s", points.to_vec())];
            lines("t", &Axis::linear("n"), &Axis::linear("ms"), &series, &[])
                .matches("\"dot ")
                .count()
        };

        assert_eq!((dots(&[(1.0, 2.0)]), dots(&[(1.0, 2.0), (2.0, 3.0)])), (1, 0));
    }

    #[test]
    fn bars_of_one_series_share_a_colour() {
        let bar = |label: &str, series: &str| Bar {
            label: label.to_owned(),
            value: 1.0,
            text: "1".to_owned(),
            series: series.to_owned(),
        };

        let svg = bars("t", &Axis::linear("x"), &[bar("a", "on"), bar("b", "off"), bar("c", "on")]);

        assert_eq!((svg.matches("bar c0").count(), svg.matches("bar c1").count()), (2, 1));
    }

    #[test]
    fn what_a_logarithmic_axis_cannot_show_is_left_out() {
        let series = Series::line("p50", vec![(1.0, 0.0), (2.0, 3.0)]);

        let svg = lines("t", &Axis::linear("n"), &Axis::logarithmic("ms"), &[series], &[]);

        assert_eq!(svg.matches("<circle").count(), 1);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
