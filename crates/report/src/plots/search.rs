//! The chart of an SLO search: each metric against load, the SLO, and the answer where the two cross.

use tacho_core::json::{Dict, Value};

use super::{
    AxisSpec, Color, Grid, LegendEntry, Marker, Panel, Picture, ScaleKind, Series, Stroke, category, in_words,
};
use crate::style::short;

/// What a load level showed.
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
            Outcome::Inconclusive => ("inconclusive", Color::hex(0xE6_9F_00)),
            Outcome::NotMet => ("not met or not sustained", Color::hex(0xC4_36_1C)),
        }
    }
}

/// A criterion such as `p99_ttft_ms<=200`.
struct Criterion<'a> {
    text: &'a str,
    metric: &'a str,
    limit: f64,
}

impl<'a> Criterion<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let metric = &text[..text.find(['<', '>'])?];
        let limit = text[metric.len()..].trim_start_matches(['<', '>', '=']).parse().ok()?;
        Some(Criterion { text, metric, limit })
    }

    fn holds(&self, value: f64) -> bool {
        if self.text[self.metric.len()..].starts_with('<') { value <= self.limit } else { value >= self.limit }
    }
}

/// The figure of an entry of `sla_summary.json`: a panel per criterion. Nothing without levels.
pub fn picture(entry: &Dict) -> Option<Picture> {
    let levels: Vec<&Dict> = entry.get("curve")?.as_list()?.iter().filter_map(Value::as_dict).collect();
    let criteria = entry.get("criteria")?.as_list()?.iter().filter_map(Value::as_str);
    let criteria: Vec<Criterion<'_>> = criteria.filter_map(Criterion::parse).collect();
    let variable = entry.get("variable").and_then(Value::as_str)?;
    let panels: Vec<Panel> =
        criteria.iter().filter_map(|one| panel(one, &criteria, variable, entry, &levels)).collect();
    let point = |outcome: Outcome| {
        let (name, color) = outcome.style();
        LegendEntry::Point(color, name.into())
    };
    let seen = |outcome: &Outcome| levels.iter().any(|level| outcome_of(level, &criteria) == *outcome);
    let legend = Outcome::ALL.into_iter().filter(seen).map(point).collect();
    let title = headline(entry, variable, &levels);
    let text = |key: &str| entry.get(key).and_then(Value::as_str);
    let reason = text("reason").map_or_else(String::new, |why| format!(": {why}"));
    let verdict = text("verdict").map_or_else(String::new, |word| format!("Verdict: {word}{reason}. "));
    let note = format!("{verdict}A value far beyond the SLO is drawn at the top of the frame, with its number.");
    (!panels.is_empty()).then_some(Picture { title, note, panels, columns: 1, size: (430.0, 300.0), legend })
}

/// The largest load that was measured and met, then the estimate.
fn headline(entry: &Dict, variable: &str, levels: &[&Dict]) -> String {
    let met = levels.iter().filter(|level| level.get("met") == Some(&Value::Bool(true)));
    let most = met.filter_map(|level| number(level, "level")).filter(|level| *level < UNLIMITED).reduce(f64::max);
    let load = in_words(variable);
    let measured = most.map_or_else(
        || format!("No {load} met the SLO"),
        |most| format!("Largest {load} measured and met: {}", crate::style::short_tick(most)),
    );
    let Some(Answer { estimate, low, high }) = Answer::of(entry) else { return measured };
    let range = match high {
        Some(high) => format!("{} – {}", short(low), short(high)),
        None => format!("at least {}", short(low)),
    };
    format!("{measured}; estimate {} (95% CI {range})", short(estimate))
}

/// Where the metric is estimated to cross the SLO.
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

/// The level that stands for no limit lies far off all others.
const UNLIMITED: f64 = 65536.0;

fn number(dict: &Dict, key: &str) -> Option<f64> {
    dict.get(key).and_then(Value::as_f64)
}

fn outcome_of(level: &Dict, criteria: &[Criterion<'_>]) -> Outcome {
    let is = |key: &str| level.get(key) == Some(&Value::Bool(true));
    let within = || criteria.iter().all(|one| number(level, one.metric).is_some_and(|value| one.holds(value)));
    match (is("met"), is("sustained")) {
        (true, _) => Outcome::Met,
        (false, true) if within() => Outcome::Inconclusive,
        _ => Outcome::NotMet,
    }
}

fn panel(
    criterion: &Criterion<'_>,
    criteria: &[Criterion<'_>],
    variable: &str,
    entry: &Dict,
    levels: &[&Dict],
) -> Option<Panel> {
    let Criterion { text, metric, limit } = *criterion;
    let point = |level: &Dict| Some((number(level, "level").filter(|load| *load < UNLIMITED)?, number(level, metric)?));
    let mut all: Vec<(f64, f64, Outcome)> =
        levels.iter().filter_map(|level| point(level).map(|(x, y)| (x, y, outcome_of(level, criteria)))).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    // Values far beyond the SLO would press everything else flat.
    let top = all.iter().map(|one| one.1).fold(0.0, f64::max).min(limit * 4.0).max(limit * 1.2);
    let (x, y) = (in_words(variable), in_words(metric));
    let mut series = vec![
        Series::Level {
            y: limit,
            stroke: Stroke::dashed(Color::hex(0xC4_36_1C), 1.2, &[5.0, 3.0]),
            name: text.to_owned(),
        },
        Series::Line {
            name: String::new(),
            points: all.iter().map(|(load, value, _)| (*load, value.min(top))).collect(),
            stroke: Stroke::solid(Color::GREY.with_alpha(0.6), 1.0),
            marker: Marker::None,
            hints: Vec::new(),
        },
    ];
    for outcome in Outcome::ALL {
        let of = || all.iter().filter(|one| one.2 == outcome);
        let (name, fill) = outcome.style();
        let hints = of().map(|(load, value, _)| format!("{name}\n{x}: {load}\n{y}: {value:.2}")).collect();
        let points = of().map(|(load, value, _)| (*load, value.min(top))).collect();
        series.push(Series::Points { name: name.to_owned(), points, fill, hints });
    }
    let beyond = all.iter().filter(|one| one.1 > top);
    series.extend(
        beyond.map(|(load, value, _)| Series::Note { at: (*load, top), lines: vec![format!("↑ {}", short(*value))] }),
    );
    series.extend(answer(entry, limit));
    Some(Panel {
        title: vec![format!("{y} against {x}")],
        x: AxisSpec::over(x.as_str(), ScaleKind::Linear, all.iter().map(|one| one.0)),
        y: AxisSpec::linear(y.as_str(), 0.0, top * 1.08),
        grid: Grid::Both,
        series,
    })
}

/// The estimate on the line of the SLO, its confidence interval, and the number.
fn answer(entry: &Dict, limit: f64) -> Vec<Series> {
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
    vec![range, point, Series::Note { at, lines: vec![short(estimate)] }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plots::svg;
    use tacho_core::json::parse;

    fn drawn(text: &str) -> String {
        svg(&picture(parse(text).unwrap().as_dict().unwrap()).unwrap().scene())
    }

    const CURVE: &str = r#"{"variable": "request_rate", "criteria": ["p99_ttft_ms<=200.00"], "estimate": 14.2,
        "ci_low": 12.0, "ci_high": 16.0, "curve": [
        {"level": 65536, "met": false, "p99_ttft_ms": 9000.0},
        {"level": 10, "met": true, "sustained": true, "p99_ttft_ms": 50.0},
        {"level": 14, "met": false, "sustained": true, "p99_ttft_ms": 190.0},
        {"level": 20, "met": false, "sustained": true, "p99_ttft_ms": 5000.0}]}"#;

    #[test]
    fn levels_are_drawn_with_the_slo_and_the_answer() {
        let page = drawn(CURVE);
        assert!(page.contains("P99 TTFT (ms) against request rate (requests/s)") && !page.contains("65536"), "{page}");
        assert!(page.contains("14.2") && page.contains("measured and met: 10"), "{page}");
        assert!(page.contains("↑ 5,000"), "a clipped value shows its number: {page}");
        assert!(picture(&Dict::new()).is_none());
    }

    #[test]
    fn the_verdict_and_its_reason_are_on_the_page() {
        let text = CURVE.replacen('{', r#"{"verdict": "inconclusive", "reason": "budget reached", "#, 1);
        let note = picture(parse(&text).unwrap().as_dict().unwrap()).unwrap().note;
        assert!(note.contains("inconclusive: budget reached"), "{note}");
    }

    #[test]
    fn a_level_within_the_slo_by_chance_is_inconclusive_not_failed() {
        let page = drawn(CURVE);
        for (name, color) in Outcome::ALL.map(Outcome::style) {
            assert!(page.contains(name) && page.contains(&color.css()), "{name}: {page}");
        }
    }
}
