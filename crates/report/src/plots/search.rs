//! The chart of an SLO search: each metric against load, the SLO, and the estimate where the two cross.

use tacho_core::json::{Dict, Value};
use tacho_decide::search::Criterion;
use tacho_metrics::statistics::mean;

use super::{
    AxisSpec, Chart, Color, Grid, LegendEntry, Marker, Panel, ScaleKind, Series, Stroke, bare, category, key_label,
};
use crate::html::{Head, Tone, escape};
use crate::style::{short, short_tick};
use crate::tables::markdown::Table;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Met,
    /// Within the SLO on average, but the confidence interval crosses it.
    Inconclusive,
    NotMet,
}

impl Outcome {
    const ALL: [Outcome; 3] = [Outcome::Met, Outcome::Inconclusive, Outcome::NotMet];

    fn style(self) -> (&'static str, Color) {
        match self {
            Outcome::Met => ("met", Color::hex(0x00_9E_73)),
            Outcome::Inconclusive => ("met by chance", Color::hex(0xE6_9F_00)),
            Outcome::NotMet => ("not met or not sustained", Color::hex(0xC4_36_1C)),
        }
    }
}

/// A criterion as a label, such as `P99 TTFT ≤ 200 ms`.
fn label(criterion: &Criterion) -> String {
    let sign = if criterion.is_upper() { "≤" } else { "≥" };
    format!("{} {sign} {}{}", bare(&criterion.metric), short_tick(criterion.target()), unit_of(&criterion.metric))
}

/// The figure of an entry of `sla_summary.json`: a panel per criterion, with the confidence intervals of `runs`.
/// `None` without levels.
pub fn chart(entry: &Dict, runs: &[&Dict]) -> Option<Chart> {
    let levels: Vec<&Dict> = entry.get("curve")?.as_list()?.iter().filter_map(Value::as_dict).collect();
    let criteria = entry.get("criteria")?.as_list()?.iter().filter_map(Value::as_str);
    let criteria: Vec<Criterion> = criteria.filter_map(|text| text.parse().ok()).collect();
    let variable = entry.text("variable")?;
    let panels: Vec<Panel> =
        criteria.iter().map(|one| panel(one, &criteria, variable, entry, (&levels, runs))).collect();
    let point = |outcome: Outcome| {
        let (name, color) = outcome.style();
        LegendEntry::Point(color, name.into())
    };
    let seen = |outcome: &Outcome| levels.iter().any(|level| outcome_of(level, &criteria) == *outcome);
    let legend = Outcome::ALL.into_iter().filter(seen).map(point).collect();
    let title = criteria.iter().map(label).collect::<Vec<_>>().join(", ");
    let title = format!("{title} against {}", bare(variable));
    let ribbon = "Ribbon: mean 95% CI of the runs; one that reaches the top of the frame has no upper bound there. ";
    let steady = criteria.iter().any(|one| is_steady(&levels, &one.metric));
    let part = if steady { "Steady part: without the burst in which all start. " } else { ribbon };
    let note = format!("{part}A value far beyond the SLO is drawn at the top, with its number.");
    let table = table(variable, &criteria, &levels);
    (!panels.is_empty()).then_some(Chart { title, note, panels, columns: 1, size: (430.0, 300.0), legend, table })
}

fn table(variable: &str, criteria: &[Criterion], levels: &[&Dict]) -> Table {
    let metrics = || criteria.iter().map(|one| one.metric.as_str());
    let headings = [key_label(variable), "runs".to_owned()].into_iter();
    let headings = headings.chain(metrics().map(|metric| label_of(levels, metric)));
    let headings = headings.chain(["verdict", "client"].map(str::to_owned)).collect();
    let row = |level: &&Dict| {
        let is = |key: &str| level.get(key) == Some(&Value::Bool(true));
        let verdict = match outcome_of(level, criteria) {
            Outcome::Met if is("brief") => "met, brief run",
            Outcome::NotMet if !is("sustained") => "not sustained",
            Outcome::NotMet => "not met",
            other => other.style().0,
        };
        let load = load(level).map_or_else(|| Value::from("unlimited"), |load| Value::from(short_tick(load)));
        let values = metrics().map(|metric| compared(level, metric).map_or(Value::Null, Value::Float));
        let first = [load, level.get("runs").cloned().unwrap_or(Value::Null)];
        let client = if is("client_unreliable") { "not reliable" } else { "ok" };
        first.into_iter().chain(values).chain([Value::from(verdict), Value::from(client)]).collect()
    };
    let mut levels = levels.to_vec();
    let order = |level: &Dict| load(level).unwrap_or(f64::INFINITY);
    levels.sort_by(|a, b| order(a).total_cmp(&order(b)));
    Table { headings, rows: levels.iter().map(row).collect() }
}

/// The head of the page: the estimate, its range, and why the search stopped.
pub fn head(entry: &Dict, runs: &[&Dict]) -> Head {
    let load = entry.text("variable").unwrap_or("load");
    let (unit, max) = (unit_of(load), number(entry, "max_measured"));
    let none = if entry.text("verdict") == Some("unlimited") { "Any" } else { "No" };
    let sentence = max.map_or_else(
        || format!("{none} {} met the SLO.", bare(load)),
        |max| format!("The SLO is met at {}{unit}, the largest load measured and met.", short_tick(max)),
    );
    let criteria = entry.get("criteria").and_then(Value::as_list).unwrap_or_default();
    let slos = criteria.iter().filter_map(|text| Some(label(&text.as_str()?.parse().ok()?)));
    let slos: Vec<String> = slos.collect();
    let tone = match entry.text("verdict") {
        Some("found") => Tone::Good,
        Some("infeasible") => Tone::Bad,
        _ => Tone::Warning,
    };
    let stopped = entry.text("stop_reason").map(|why| format!("The search stopped: {why}."));
    let word = entry.text("verdict").filter(|word| *word != "found" || stopped.is_none());
    let why = entry.text("reason").or_else(|| entry.text("stopped").filter(|_| stopped.is_none()));
    let verdict = word.map(|word| why.map_or_else(|| word.to_owned(), |why| format!("{word}: {why}")));
    let reasons: String =
        verdict.into_iter().chain(stopped).map(|text| format!("<li>{}</li>", escape(&text))).collect();
    // Loads above the answer may well overload the server.
    let variable = entry.text("variable").unwrap_or_default();
    let judged = |run: &&Dict| max.is_some_and(|max| number(run, variable).is_none_or(|level| level <= max));
    let judged: Vec<&Dict> = runs.iter().copied().filter(judged).collect();
    let head = Head::of_results(format!("Largest load within {}", slos.join(" and ")), runs, &judged)
        .verdict_with(tone, &sentence, &reasons, None)
        .card("Measured and met", &max.map_or_else(|| "–".to_owned(), |max| format!("{}{unit}", short_tick(max))), "");
    let head = match Answer::of(entry) {
        Some(Answer { estimate, low, high }) => {
            let high = high.map_or_else(|| "no upper bound".to_owned(), short);
            head.card(
                "Estimate at the SLO",
                &format!("{}{unit}", short(estimate)),
                &format!("95% CI {} – {high}", short(low)),
            )
        }
        None => head,
    };
    consequences(entry, &unit).into_iter().fold(head, |head, (name, value, below)| head.card(name, &value, &below))
}

/// What follows from the answer of `tacho capacity`: headroom, cost and replicas, where they were asked for.
fn consequences(entry: &Dict, unit: &str) -> Vec<(&'static str, String, String)> {
    let mut cards = Vec::new();
    if let Some((load, headroom)) = number(entry, "load").zip(number(entry, "headroom")) {
        let may_hold = number(entry, "ci_high").is_none_or(|high| load <= high);
        let value = match headroom >= 0.0 {
            true => format!("+{:.0}%", 100.0 * headroom),
            false if may_hold => "unknown".to_owned(),
            false => "none".to_owned(),
        };
        cards.push(("Headroom", value, format!("today: {}{unit}", short_tick(load))));
    }
    let achieved = |key: &str| number(entry.get("achieved")?.as_dict()?, key).map(short);
    if let Some(cost) = achieved("cost_per_million_tokens") {
        let output = achieved("cost_per_million_output_tokens");
        let below = output.map_or_else(String::new, |cost| format!("{cost} per million output tokens"));
        cards.push(("Cost per million tokens", cost, below));
    }
    if let Some((target, replicas)) = number(entry, "target").zip(number(entry, "replicas")) {
        let range = entry.get("replicas_range").and_then(Value::as_list).unwrap_or_default();
        let range: Vec<String> = range.iter().filter_map(Value::as_f64).map(short_tick).collect();
        let range = if range.is_empty() { String::new() } else { format!("; {} by the estimate", range.join(" to ")) };
        cards.push(("Replicas", short_tick(replicas), format!("for {}{unit}{range}", short_tick(target))));
    }
    cards
}

/// The load at which the metric is estimated to cross the SLO.
struct Answer {
    estimate: f64,
    low: f64,
    high: Option<f64>,
}

impl Answer {
    fn of(entry: &Dict) -> Option<Self> {
        let either = |new: &str, old: &str| number(entry, new).or_else(|| number(entry, old));
        let estimate = number(entry, "boundary").or_else(|| number(entry, "estimate"))?;
        Some(Answer { estimate, low: either("ci_low", "boundary_low")?, high: either("ci_high", "boundary_high") })
    }
}

/// The load of a level; `None` if it is unlimited, which some files spell as vLLM's 65536.
fn load(level: &Dict) -> Option<f64> {
    number(level, "level").filter(|load| *load < 65536.0)
}

fn number(dict: &Dict, key: &str) -> Option<f64> {
    dict.get(key).and_then(Value::as_f64)
}

/// The value of a metric that was compared with its SLO: of the steady part, if the search has one.
fn compared(level: &Dict, metric: &str) -> Option<f64> {
    number(level, &format!("steady_{metric}")).or_else(|| number(level, metric))
}

fn is_steady(levels: &[&Dict], metric: &str) -> bool {
    levels.iter().any(|level| number(level, &format!("steady_{metric}")).is_some())
}

fn label_of(levels: &[&Dict], metric: &str) -> String {
    key_label(metric) + if is_steady(levels, metric) { ", steady part" } else { "" }
}

fn outcome_of(level: &Dict, criteria: &[Criterion]) -> Outcome {
    let is = |key: &str| level.get(key) == Some(&Value::Bool(true));
    let within = || criteria.iter().all(|one| compared(level, &one.metric).is_some_and(|value| one.is_met(value)));
    match (is("met"), is("sustained")) {
        (true, _) => Outcome::Met,
        (false, true) if within() => Outcome::Inconclusive,
        _ => Outcome::NotMet,
    }
}

/// The loads, values, outcomes and doubts of a criterion, by load.
fn points(criterion: &Criterion, criteria: &[Criterion], levels: &[&Dict]) -> Vec<(f64, f64, Outcome, &'static str)> {
    let each = |level: &&Dict| {
        let (x, y) = (load(level)?, compared(level, &criterion.metric)?);
        let is = |key: &str| level.get(key) == Some(&Value::Bool(true));
        let outcome = match outcome_of(level, criteria) {
            // Another condition is not met.
            Outcome::NotMet if is("sustained") && criterion.is_met(y) => Outcome::Met,
            other => other,
        };
        Some((x, y, outcome, if is("client_unreliable") { ", client unreliable" } else { "" }))
    };
    let mut all: Vec<_> = levels.iter().filter_map(each).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    all
}

fn panel(
    criterion: &Criterion,
    criteria: &[Criterion],
    variable: &str,
    entry: &Dict,
    (levels, runs): (&[&Dict], &[&Dict]),
) -> Panel {
    let (metric, limit) = (criterion.metric.as_str(), criterion.target());
    let all = points(criterion, criteria, levels);
    // Values far beyond the SLO would compress everything else.
    let top = all.iter().map(|one| one.1).fold(0.0, f64::max).min(limit * 2.5).max(limit * 1.2);
    let (x, y) = (key_label(variable), label_of(levels, metric));
    // So would a first load far above the answer.
    let is_wide = all.first().zip(all.last()).is_some_and(|(first, last)| first.0 > 0.0 && last.0 > 8.0 * first.0);
    let scale = if is_wide { ScaleKind::Log } else { ScaleKind::Linear };
    // Results have intervals of whole runs only.
    let bounds = all.iter().filter(|_| !is_steady(levels, metric)).filter_map(|(load, ..)| {
        let (low, high) = interval(runs, variable, metric, *load)?;
        Some((*load, low.min(top), high.min(top)))
    });
    let mut series = vec![
        Series::Band { name: String::new(), edges: bounds.collect(), fill: category(0).with_alpha(0.18) },
        Series::Level {
            y: limit,
            stroke: Stroke::dashed(Color::hex(0xC4_36_1C), 1.2, &[5.0, 3.0]),
            name: format!("SLO {}", label(criterion)),
        },
        Series::Line {
            name: String::new(),
            points: all.iter().map(|(load, value, ..)| (*load, value.min(top))).collect(),
            stroke: Stroke::solid(Color::GRAY.with_alpha(0.6), 1.0),
            marker: Marker::None,
            hints: Vec::new(),
        },
    ];
    for outcome in Outcome::ALL {
        let of = || all.iter().filter(|one| one.2 == outcome);
        let (name, fill) = outcome.style();
        let hints =
            of().map(|(load, value, _, doubt)| format!("{name}{doubt}\n{x}: {load}\n{y}: {value:.2}")).collect();
        let points = of().map(|(load, value, ..)| (*load, value.min(top))).collect();
        series.push(Series::Points { name: name.to_owned(), points, fill, hints });
    }
    let beyond = |(load, value, ..): &(f64, f64, Outcome, &str)| {
        (*value > top).then(|| Series::Note { at: (*load, top), lines: vec![format!("↑ {}", short(*value))] })
    };
    series.extend(all.iter().filter_map(beyond));
    series.extend(answer(entry, limit, unit_of(variable)));
    Panel {
        title: if criteria.len() > 1 { vec![format!("{y} against {x}")] } else { Vec::new() },
        x: AxisSpec::over(x.as_str(), scale, all.iter().map(|one| one.0)),
        y: AxisSpec::linear(y.as_str(), 0.0, top * 1.08),
        grid: Grid::Both,
        series,
    }
}

/// The confidence interval of a metric at a load: the means of the bounds of its runs. `None` if no run has one.
fn interval(runs: &[&Dict], variable: &str, metric: &str, load: f64) -> Option<(f64, f64)> {
    let at = runs.iter().filter(|run| number(run, variable) == Some(load));
    let bounds = at.filter_map(|run| {
        let bounds = run.get("tacho")?.get("intervals")?.get(metric)?.as_list()?;
        Some((bounds.first()?.as_f64()?, bounds.get(1).and_then(Value::as_f64).unwrap_or(f64::INFINITY)))
    });
    let (lows, highs): (Vec<f64>, Vec<f64>) = bounds.unzip();
    (!lows.is_empty()).then(|| (mean(&lows), mean(&highs)))
}

fn unit_of(variable: &str) -> String {
    key_label(variable)
        .split_once(" (")
        .map_or_else(String::new, |(_, unit)| format!(" {}", unit.trim_end_matches(')')))
}

/// The estimate on the line of the SLO, its confidence interval, and its value.
fn answer(entry: &Dict, limit: f64, unit: String) -> Vec<Series> {
    let Some(Answer { estimate, low, high }) = Answer::of(entry) else { return Vec::new() };
    let at = (estimate, limit);
    let range = Series::Line {
        name: "estimate".into(),
        points: vec![(low, limit), (high.unwrap_or(estimate), limit)],
        stroke: Stroke::solid(category(0), 3.0),
        marker: Marker::None,
        hints: Vec::new(),
    };
    let hints = vec![format!("estimate {}", short(estimate))];
    let point = Series::Points { name: "estimate".into(), points: vec![at], fill: category(0), hints };
    vec![range, point, Series::Note { at, lines: vec![format!("≈ {}{unit}", short(estimate))] }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plots::svg;
    use tacho_core::json::parse;

    fn drawn(text: &str) -> String {
        let run = parse(r#"{"request_rate": 14, "tacho": {"intervals": {"p99_ttft_ms": [150.0, 260.0]}}}"#).unwrap();
        svg(&chart(parse(text).unwrap().as_dict().unwrap(), &[run.as_dict().unwrap()]).unwrap().scene())
    }

    const CURVE: &str = r#"{"variable": "request_rate", "criteria": ["p99_ttft_ms<=200.00"], "estimate": 14.2,
        "max_measured": 10, "ci_low": 12.0, "ci_high": 16.0, "curve": [
        {"level": "inf", "met": false, "p99_ttft_ms": 9000.0},
        {"level": 10, "met": true, "sustained": true, "p99_ttft_ms": 50.0},
        {"level": 14, "met": false, "sustained": true, "p99_ttft_ms": 190.0},
        {"level": 20, "met": false, "sustained": true, "p99_ttft_ms": 5000.0}]}"#;

    #[test]
    fn levels_are_drawn_with_the_slo_and_the_answer() {
        let page = drawn(CURVE);
        assert!(page.contains("P99 TTFT ≤ 200 ms against request rate") && !page.contains("65536"), "{page}");
        assert!(page.contains("≈ 14.2 requests/s") && page.contains("SLO P99 TTFT ≤ 200 ms"), "{page}");
        assert!(page.contains("↑ 5,000"), "a clipped value shows its number: {page}");
        assert!(chart(&Dict::new(), &[]).is_none());
        let run = parse(r#"{"request_rate": 14, "tacho": {"intervals": {"p99_ttft_ms": [150.0, null]}}}"#).unwrap();
        let found = interval(&[run.as_dict().unwrap()], "request_rate", "p99_ttft_ms", 14.0);
        assert_eq!(found, Some((150.0, f64::INFINITY)));
    }

    #[test]
    fn the_verdict_and_its_reason_are_on_the_page() {
        let text = CURVE.replacen('{', r#"{"verdict": "inconclusive", "reason": "budget reached", "#, 1);
        let html = head(parse(&text).unwrap().as_dict().unwrap(), &[]).html();
        assert!(html.contains("inconclusive: budget reached") && html.contains("<b>10 requests/s</b>"), "{html}");
        let text = CURVE.replacen('{', r#"{"verdict": "found", "stop_reason": "precision reached", "#, 1);
        let html = head(parse(&text).unwrap().as_dict().unwrap(), &[]).html();
        assert!(
            html.contains("<li>The search stopped: precision reached.</li>") && !html.contains("<li>found"),
            "{html}"
        );
    }

    #[test]
    fn every_level_is_in_the_table() {
        let found = chart(parse(CURVE).unwrap().as_dict().unwrap(), &[]).unwrap().table;
        let cells: Vec<String> =
            found.rows.iter().map(|row| format!("{} {}", row[0].as_str().unwrap(), row[3].as_str().unwrap())).collect();
        assert_eq!(cells, ["10 met", "14 met by chance", "20 not met", "unlimited not sustained"]);
    }

    #[test]
    fn the_steady_part_is_named_wherever_it_is_shown() {
        let text = CURVE.replace(r#""p99_ttft_ms": 50.0"#, r#""p99_ttft_ms": 688.6, "steady_p99_ttft_ms": 23.6"#);
        let entry = parse(&text).unwrap();
        let found = chart(entry.as_dict().unwrap(), &[]).unwrap();
        assert_eq!(found.table.headings[2], "P99 TTFT (ms), steady part");
        assert_eq!(found.table.rows[0][2], Value::Float(23.6));
        let page = drawn(&text);
        assert!(page.contains("P99 TTFT (ms), steady part") && !page.contains("Ribbon"), "{page}");
    }

    #[test]
    fn a_level_within_the_slo_by_chance_is_inconclusive_not_failed() {
        let page = drawn(CURVE);
        for (name, color) in Outcome::ALL.map(Outcome::style) {
            assert!(page.contains(name) && page.contains(&color.css()), "{name}: {page}");
        }
    }
}
