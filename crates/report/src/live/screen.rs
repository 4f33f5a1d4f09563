//! The live view of a run on a terminal of any size.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Gauge, Paragraph, Row, Sparkline, Table, Wrap};

use super::monitor::{Percentiles, Point, Snapshot};
use super::reading::{clock, done};

/// From this size on there is room for everything.
const FULL: (u16, u16) = (60, 16);
/// Muted colours of the 256-colour palette: steel blue, sage, sand.
const MUTED: [Color; 3] = [Color::Indexed(67), Color::Indexed(108), Color::Indexed(179)];
/// Points of a moving mean: a rate of one second jumps.
const MEAN_OF: usize = 10;

/// Draws `shown`; a frozen view says so.
pub(super) fn draw(frame: &mut Frame<'_>, shown: &Snapshot, frozen: bool) {
    let area = frame.area();
    if area.width < FULL.0 || area.height < FULL.1 {
        frame.render_widget(Paragraph::new(small(shown)), area);
        return;
    }
    let server = served(shown, usize::from(area.width) * if area.height >= 20 { 2 } else { 1 });
    let [head, numbers, health, middle, lines, foot] = Layout::vertical([
        Constraint::Length(3),
        Constraint::Length(1),
        Constraint::Length(match &server {
            None => 0,
            Some(line) if line.width() > usize::from(area.width) => 2,
            Some(_) => 1,
        }),
        Constraint::Min(6),
        Constraint::Length(if area.height >= 24 { 6 } else { 3 }),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(progress(shown), head);
    frame.render_widget(Paragraph::new(counts(shown, area.width)), numbers);
    if let Some(server) = server {
        frame.render_widget(Paragraph::new(server).wrap(Wrap { trim: false }), health);
    }
    let [left, right] = Layout::horizontal([Constraint::Percentage(55), Constraint::Min(30)]).areas(middle);
    history(frame, left, shown);
    times(frame, right, shown);
    messages(frame, lines, shown);
    let keys = if frozen { " FROZEN · space: resume · q: end the run" } else { " space: freeze · q: end the run" };
    frame.render_widget(Paragraph::new(keys).style(Style::new().add_modifier(Modifier::DIM)), foot);
}

/// What a screen that is too small for charts shows.
fn small(shown: &Snapshot) -> Vec<Line<'static>> {
    let done = done(shown.finished, shown.total, "/");
    vec![Line::raw(format!("{done} {}", clock(shown.elapsed as u64))), counts(shown, 0)]
}

fn share(shown: &Snapshot) -> f64 {
    if shown.total == 0 { 0.0 } else { (shown.finished as f64 / shown.total as f64).clamp(0.0, 1.0) }
}

fn progress(shown: &Snapshot) -> Gauge<'_> {
    let left = shown.left.map_or_else(|| "?".to_owned(), |seconds| clock(seconds as u64));
    let far = done(shown.finished, shown.total, " of ");
    let label = format!("{far} · {} elapsed · {left} left", clock(shown.elapsed as u64));
    let outer =
        shown.outer.iter().map(|(title, finished, total)| format!("{title} {} › ", done(*finished, *total, " of ")));
    let title = outer.chain([shown.title.clone()]).collect::<String>();
    Gauge::default()
        .block(Block::bordered().title(format!(" {title} ")))
        .gauge_style(Style::new().fg(MUTED[0]))
        .ratio(share(shown))
        .label(label)
}

fn counts(shown: &Snapshot, width: u16) -> Line<'static> {
    let recent = &shown.history[shown.history.len().saturating_sub(MEAN_OF)..];
    let mean = |of: fn(&Point) -> f64| recent.iter().map(of).sum::<f64>() / recent.len().max(1) as f64;
    let (requests_per_s, tokens_per_s) = (mean(|point| point.requests_per_s), mean(|point| point.tokens_per_s));
    let failed = Style::new().fg(if shown.failed > 0 { Color::Red } else { Color::Reset });
    let waiting = shown.waiting.map_or_else(String::new, |waiting| format!("{waiting} waiting · "));
    let rates = |requests: String, tokens: String| {
        let plain = format!(" · {} in flight · {waiting}{requests} req/s · {tokens} tok/s", shown.in_flight);
        // Failures come first: they are never cut off.
        Line::from(vec![Span::styled(format!(" {} failed", shown.failed), failed), Span::raw(plain)])
    };
    let whole = rates(format!("{requests_per_s:.1}"), format!("{tokens_per_s:.0}"));
    match whole.width() <= usize::from(width) {
        true => whole,
        false => rates(format!("{requests_per_s:.0}"), thousands(tokens_per_s)),
    }
}

/// A large number in few letters.
fn thousands(value: f64) -> String {
    if value >= 1e3 { format!("{:.1}k", value / 1e3) } else { format!("{value:.0}") }
}

/// What the server and the client say of themselves, in words or, where there is no `room` for them, shorter; nothing
/// where neither says anything.
fn served(shown: &Snapshot, room: usize) -> Option<Line<'static>> {
    let whole = worded(shown)?;
    Some(if whole.width() <= room { whole } else { shortened(shown) })
}

fn shortened(shown: &Snapshot) -> Line<'static> {
    let gauge = |(name, value): &(&'static str, f64)| match *name {
        "running" => format!("run {value:.0}"),
        "waiting" => format!("wait {value:.0}"),
        "KV cache %" => format!("KV {value:.0}%"),
        "prefix hits %" => format!("hits {value:.0}%"),
        "preemptions" => format!("pre {value:.0}"),
        other => format!("{other} {value:.0}"),
    };
    let gauges: Vec<String> = shown.server.iter().map(gauge).collect();
    let client = shown.late.map(|late| {
        let (word, colour) = if shown.is_late() { ("LATE", Color::Yellow) } else { ("ok", Color::Green) };
        Span::styled(format!(" client {word} {late:.1} ms"), Style::new().fg(colour))
    });
    let server = (!gauges.is_empty()).then(|| Span::raw(format!(" · {}", gauges.join(" "))));
    Line::from_iter(client.into_iter().chain(server))
}

fn worded(shown: &Snapshot) -> Option<Line<'static>> {
    let number =
        |value: f64| if value >= 100.0 || value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.1}") };
    let server: Vec<String> = shown.server.iter().map(|(name, value)| format!("{name} {}", number(*value))).collect();
    let mut spans = Vec::new();
    if let Some(verdict) = shown.verdict() {
        let colour = if shown.is_late() { Color::Yellow } else { Color::Green };
        spans.push(Span::styled(format!(" {verdict}"), Style::new().fg(colour)));
    }
    if !server.is_empty() {
        spans.push(Span::raw(format!(" · server: {}", server.join(", "))));
    }
    (!spans.is_empty()).then(|| Line::from(spans))
}

fn history(frame: &mut Frame<'_>, area: Rect, shown: &Snapshot) {
    let of = |of: fn(&Point) -> f64| shown.history.iter().map(|point| of(point).round() as u64).collect::<Vec<u64>>();
    let mut all = vec![
        ("output tok/s", of(|point| point.tokens_per_s), MUTED[0]),
        ("in flight", of(|point| point.in_flight as f64), MUTED[2]),
    ];
    // A third of the height is enough for each from here on.
    if area.height >= 15 {
        all.insert(1, ("requests/s", of(|point| point.requests_per_s), MUTED[1]));
    }
    let areas = Layout::vertical(vec![Constraint::Ratio(1, all.len() as u32); all.len()]).split(area);
    for ((name, values, colour), area) in all.into_iter().zip(areas.iter()) {
        spark(frame, *area, name, &values, colour);
    }
}

/// The newest values, as many as there is room for; few ones are made broader.
fn spark(frame: &mut Frame<'_>, area: Rect, name: &str, values: &[u64], colour: Color) {
    let room = usize::from(area.width.saturating_sub(2));
    let values = &values[values.len().saturating_sub(room)..];
    let broad = (room / values.len().max(1)).clamp(1, 4);
    let most = values.iter().max().copied().unwrap_or(0);
    let picture = Sparkline::default()
        .block(Block::bordered().title(format!(" {name} · max {most} ")))
        .data(values.iter().flat_map(|value| std::iter::repeat_n(*value, broad)))
        .style(Style::new().fg(colour));
    frame.render_widget(picture, area);
}

fn times(frame: &mut Frame<'_>, area: Rect, shown: &Snapshot) {
    let row = |name: &'static str, values: Option<Percentiles>| {
        let cell = |value: f64| if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.1}") };
        let cells = values.map_or_else(|| ["–"; 3].map(str::to_owned), |values| values.map(cell));
        Row::new([name.to_owned()].into_iter().chain(cells).collect::<Vec<_>>())
    };
    let mut rows = vec![row("TTFT", shown.ttft), row("ITL", shown.itl), row("E2EL", shown.e2el)];
    rows.extend(
        shown
            .failures
            .iter()
            .map(|(kind, count)| Row::new([(*kind).to_owned(), count.to_string()]).style(Style::new().fg(Color::Red))),
    );
    let widths = [Constraint::Min(9), Constraint::Length(6), Constraint::Length(6), Constraint::Length(6)];
    let table = Table::new(rows, widths)
        .header(Row::new(["", "p50", "p90", "p99"]).style(Style::new().add_modifier(Modifier::BOLD)))
        .block(Block::bordered().title(" latency, ms "));
    frame.render_widget(table, area);
}

fn messages(frame: &mut Frame<'_>, area: Rect, shown: &Snapshot) {
    let room = usize::from(area.height.saturating_sub(2));
    let lines: Vec<Line<'_>> =
        shown.lines.iter().skip(shown.lines.len().saturating_sub(room)).map(|line| Line::raw(line.as_str())).collect();
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(" messages ")), area);
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn shown() -> Snapshot {
        Snapshot {
            title: "Benchmark".into(),
            finished: 30,
            total: 100,
            failed: 2,
            in_flight: 7,
            elapsed: 63.0,
            left: Some(147.0),
            ttft: Some([12.3, 45.6, 789.0]),
            failures: [("timed_out", 2)].into(),
            history: (0..900)
                .map(|at| Point {
                    time: f64::from(at),
                    tokens_per_s: f64::from(at % 50),
                    in_flight: 3,
                    ..Point::default()
                })
                .collect(),
            lines: vec!["Starting main benchmark run...".into()],
            waiting: Some(11),
            server: vec![
                ("running", 8.0),
                ("waiting", 0.0),
                ("KV cache %", 12.34),
                ("prefix hits %", 89.6),
                ("preemptions", 3.0),
            ],
            late: Some(0.2),
            outer: vec![("sweep", 3, 12)],
            ..Snapshot::default()
        }
    }

    fn text(width: u16, height: u16, shown: &Snapshot) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, shown, false)).unwrap();
        let buffer = terminal.backend().buffer();
        let row = |y| (0..width).map(|x| buffer[(x, y)].symbol().to_owned()).collect::<String>();
        (0..height).map(row).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn everything_is_there_from_sixty_by_sixteen() {
        for (width, height) in [(60, 16), (80, 24), (220, 70)] {
            let text = text(width, height, &shown());
            for part in [
                "30 of 100",
                "sweep 3 of 12 › Benchmark",
                "11 waiting",
                if width < 80 { "client ok 0.2 ms · run 8 wait 0 KV 12% hits 90% pre 3" } else { "client keeps up" },
                "01:03 elapsed",
                "02:27 left",
                "7 in flight",
                "2 failed",
                "789",
                "timed_out",
                "q: end",
            ] {
                assert!(text.contains(part), "{part} at {width}x{height}:\n{text}");
            }
        }
    }

    #[test]
    fn any_size_is_drawn() {
        for (width, height) in [(1, 1), (5, 2), (59, 16), (60, 15), (300, 3), (3, 300)] {
            text(width, height, &shown());
            text(width, height, &Snapshot::default());
        }
        assert!(text(40, 5, &shown()).contains("30/100 01:03"));
    }
}
