//! What a run looks like on a full screen. Draws what it is given; reads no clock and no keys.

use std::time::Duration;

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Style, Stylize},
    text::Line,
    widgets::{Block, LineGauge, Paragraph, Row, Sparkline, Table},
};

use super::{Event, Standing, View};
use crate::{
    latency::Percentiles,
    report::{microseconds, thousands},
};

/// Draws the whole screen.
pub(super) fn draw(frame: &mut Frame<'_>, view: &View, elapsed: Duration, is_ending: bool) {
    let rows = [
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(4),
        Constraint::Length(view.all.named().count() as u16 + 3),
        Constraint::Length(7),
        Constraint::Length(1),
    ];
    let [title, progress, rates, latencies, counts, keys] =
        Layout::vertical(rows).areas(frame.area());
    let heading = format!("millrace bench: {}", view.run);
    frame.render_widget(Line::from(heading).bold(), title);
    draw_progress(frame, progress, view, elapsed);
    draw_rates(frame, rates, view);
    draw_latencies(frame, latencies, view);
    draw_counts(frame, counts, view);
    let notes = view.notes.back().map(|note| format!("   {note}")).unwrap_or_default();
    let text = match is_ending {
        true => "ending; q or Ctrl-C again leaves at once".to_owned(),
        false => format!("q or Ctrl-C ends the run early{notes}"),
    };
    frame.render_widget(Line::from(text).dim(), keys);
}

fn draw_progress(frame: &mut Frame<'_>, area: Rect, view: &View, elapsed: Duration) {
    let mut label = format!("{:>3.0} %  {:.0} s", view.share * 100.0, elapsed.as_secs_f64());
    if !view.message.is_empty() {
        label += &format!("  {}", view.message);
    }
    let bar = LineGauge::default().ratio(view.share).label(label);
    let bar = bar.filled_symbol("━").unfilled_symbol("─");
    frame.render_widget(bar.filled_style(Style::new().green()), area);
}

fn draw_rates(frame: &mut Frame<'_>, area: Rect, view: &View) {
    let all: Vec<u64> = view.messages().collect();
    let number = |value: Option<u64>| thousands(value.unwrap_or(0) as f64);
    let title = format!(
        " {}/s: {} now, {} at most ",
        view.shown().name(),
        number(all.last().copied()),
        number(all.iter().copied().max())
    );
    let block = Block::bordered().title(title);
    // The latest are at the right; what does not fit is the oldest.
    let width = usize::from(block.inner(area).width);
    let last = all.get(all.len().saturating_sub(width)..).unwrap_or_default();
    let bars = Sparkline::default().block(block).data(last);
    frame.render_widget(bars.style(Style::new().cyan()), area);
}

fn draw_latencies(frame: &mut Frame<'_>, area: Rect, view: &View) {
    let row = |(name, all): (&'static str, Percentiles)| {
        let last = view.last.named().find(|(other, _)| *other == name);
        let last = last.map(|(_, found)| found).unwrap_or_default();
        let shown =
            |found: Percentiles| [found.p50_us, found.p99_us, found.max_us].map(microseconds);
        let numbers = [thousands(last.count as f64)].into_iter().chain(shown(last));
        let operation = Line::from(name.replace('_', " "));
        Row::new([operation].into_iter().chain(numbers.chain(shown(all)).map(right)))
    };
    let widths = [14, 9, 9, 9, 9, 9, 9, 9].map(Constraint::Length);
    let head = ["number", "p50", "p99", "max", "all: p50", "p99", "max"];
    let head = head.map(|name| right(name.to_owned()));
    let head = Row::new([Line::from("operation")].into_iter().chain(head));
    let table = Table::new(view.all.named().map(row), widths)
        .header(head.bold())
        .block(Block::bordered().title(" latency of the last second, and of all so far "))
        .column_spacing(0);
    frame.render_widget(table, area);
}

fn right(text: String) -> Line<'static> {
    Line::from(text).right_aligned()
}

fn draw_counts(frame: &mut Frame<'_>, area: Rect, view: &View) {
    let total = |event| thousands(view.total(event) as f64);
    let rate = |event| thousands(view.rate(event) as f64);
    let Standing { waiting, duplicated, foreign, out_of_order } = view.standing;
    let failed = Line::from(format!(
        "requests     {} under way, {} answered, {} failed",
        view.in_flight,
        total(Event::Requests),
        total(Event::Failed)
    ));
    let verdict = Line::from(format!(
        "verify       {} waiting, {duplicated} duplicated, {foreign} foreign, {out_of_order} out of order",
        thousands(waiting as f64)
    ));
    let is_bad = |line: Line<'static>, bad: bool| if bad { line.red() } else { line };
    let lines = vec![
        Line::from(format!(
            "messages     {} sent, {} received, {} deleted",
            total(Event::Sent),
            total(Event::Received),
            total(Event::Deleted)
        )),
        Line::from(format!(
            "last second  {} sent, {} received, {} deleted",
            rate(Event::Sent),
            rate(Event::Received),
            rate(Event::Deleted)
        )),
        is_bad(failed, view.total(Event::Failed) > 0),
        Line::from(format!(
            "connections  {} opened, {} times reused, {} closed by the server",
            total(Event::Opened),
            total(Event::Reused),
            total(Event::Closed)
        )),
        is_bad(verdict, duplicated + foreign + out_of_order > 0),
    ];
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(" counts ")), area);
}

#[cfg(test)]
mod tests {
    use ratatui::{Terminal, backend::TestBackend};

    use super::*;
    use crate::{latency::Verb, live::Live};

    fn screen(live: &Live, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let view = live.view();
        let elapsed = Duration::from_secs(12);
        terminal.draw(|frame| draw(frame, &view, elapsed, live.is_ending())).unwrap();
        terminal.backend().to_string()
    }

    fn measured() -> Live {
        let live = Live::default();
        live.watch_closely();
        live.begin("pc 10");
        live.at(0.41, "");
        for sent in [100, 2000, 1000] {
            live.add(Event::Sent, sent);
            live.add(Event::Requests, sent);
            live.roll();
        }
        (1..=100).for_each(|ms| live.record(Verb::Send, Duration::from_millis(ms)));
        live.add(Event::Sent, 1500);
        live.add(Event::Opened, 4);
        live.add(Event::Closed, 3);
        live.stands(Standing { waiting: 12_345, duplicated: 2, ..Standing::default() });
        live.roll();
        live
    }

    #[test]
    fn the_screen_shows_rates_latencies_connections_and_the_verdict() {
        let text = screen(&measured(), 80, 24);

        for part in [
            "millrace bench: pc 10",
            " 41 %  12 s",
            "sent/s: 1,500 now, 2,000 at most",
            "50.0 ms",
            "99.0 ms",
            "100 ms",
            "4,600 sent, 0 received",
            "last second  1,500 sent",
            "0 under way, 3,100 answered, 0 failed",
            "4 opened, 0 times reused, 3 closed by the server",
            "12,345 waiting, 2 duplicated",
            "q or Ctrl-C ends the run early",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert!(text.contains('█') && text.contains(|part| "▁▂▃▄▅▆▇".contains(part)), "{text}");
    }

    #[test]
    fn a_small_terminal_and_an_empty_run_are_no_trouble() {
        for (width, height) in [(80, 24), (20, 5), (1, 1), (200, 60)] {
            screen(&Live::default(), width, height);
            screen(&measured(), width, height);
        }
    }

    #[test]
    fn a_run_that_is_to_end_says_so() {
        let live = measured();
        live.end_early();

        assert!(screen(&live, 80, 24).contains("ending"));
    }
}
