//! The picture of a search for the largest load: what was measured at each level, and where it broke.

use tacho_core::json::{Dict, Value};

use super::{AxisSpec, Color, Grid, LegendEntry, Panel, Picture, ScaleKind, Series, Stroke, category, in_words};

const MET: &str = "met";
const NOT: &str = "not met or not sustained";

/// The picture of an entry of `sla_summary.json`: a panel per criterion. Nothing without levels.
pub fn picture(entry: &Dict) -> Option<Picture> {
    let levels: Vec<&Dict> = entry.get("curve")?.as_list()?.iter().filter_map(Value::as_dict).collect();
    let criteria: Vec<&str> = entry.get("criteria")?.as_list()?.iter().filter_map(Value::as_str).collect();
    let variable = entry.get("variable").and_then(Value::as_str)?;
    let panels: Vec<Panel> = criteria.iter().filter_map(|criterion| panel(criterion, variable, &levels)).collect();
    let legend =
        vec![LegendEntry::Point(category(2), MET.into()), LegendEntry::Point(Color::hex(0xD6_27_28), NOT.into())];
    let title = format!("Search for the largest {}", in_words(variable));
    let note = format!(
        "{} Values beyond four times the limit are drawn at four times the limit.",
        verdict(entry, in_words(variable).as_str())
    );
    (!panels.is_empty()).then_some(Picture { title, note, panels, columns: 1, size: (430.0, 300.0), legend })
}

/// What the search found, as the console and the exit code have it.
fn verdict(entry: &Dict, variable: &str) -> String {
    let number = |key: &str| entry.get(key).and_then(Value::as_f64);
    let word = entry.get("verdict").and_then(Value::as_str).unwrap_or("unknown");
    let measured = number("max_measured").map(|load| format!(", largest {variable} measured within the SLO: {load}"));
    let estimate = number("estimate").zip(number("ci_low")).map(|(value, low)| match number("ci_high") {
        Some(high) => format!(", estimate {value:.1} (95% CI {low:.1}–{high:.1})"),
        None => format!(", estimate at least {low:.1}"),
    });
    let reason = entry.get("reason").and_then(Value::as_str).map(|why| format!(": {why}"));
    let parts = [reason, measured, estimate].into_iter().flatten().collect::<String>();
    format!("Verdict: {word}{parts}.")
}

fn panel(criterion: &str, variable: &str, levels: &[&Dict]) -> Option<Panel> {
    let metric = &criterion[..criterion.find(['<', '>'])?];
    let limit: f64 = criterion[metric.len()..].trim_start_matches(['<', '>', '=']).parse().ok()?;
    let number = |level: &Dict, key: &str| level.get(key).and_then(Value::as_f64);
    // The level that stands for no limit lies far off all others.
    const UNLIMITED: f64 = 65536.0;
    let point = |level: &Dict| Some((number(level, "level").filter(|load| *load < UNLIMITED)?, number(level, metric)?));
    let met = |level: &Dict| level.get("met") == Some(&Value::Bool(true));
    let of = |wanted: bool| -> Vec<(f64, f64)> {
        levels.iter().filter(|level| met(level) == wanted).filter_map(|level| point(level)).collect()
    };
    let all = || levels.iter().filter_map(|level| point(level));
    // What broke may be far beyond the limit, which would press everything else flat.
    let top = all().map(|(_, value)| value).fold(0.0, f64::max).min(limit * 4.0).max(limit * 1.2);
    let (x, y) = (in_words(variable), in_words(metric));
    let dots = |name: &str, points: Vec<(f64, f64)>, fill: Color| {
        let hints = points.iter().map(|(load, value)| format!("{x}: {load}\n{y}: {value:.2}")).collect();
        let points: Vec<(f64, f64)> = points.into_iter().map(|(load, value)| (load, value.min(top))).collect();
        Series::Points { name: name.to_owned(), points, fill, hints }
    };
    let stroke = Stroke::dashed(Color::hex(0xD6_27_28), 1.2, &[5.0, 3.0]);
    Some(Panel {
        title: vec![format!("{y} against {x}")],
        x: AxisSpec::over(x.as_str(), ScaleKind::Linear, all().map(|(load, _)| load)),
        y: AxisSpec::linear(y.as_str(), 0.0, top * 1.08),
        grid: Grid::Both,
        series: vec![
            Series::Level { y: limit, stroke, name: criterion.to_owned() },
            dots(MET, of(true), category(2)),
            dots(NOT, of(false), Color::hex(0xD6_27_28)),
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plots::svg;
    use tacho_core::json::parse;

    #[test]
    fn levels_are_drawn_with_the_limit() {
        let text = r#"{"variable": "request_rate", "verdict": "inconclusive", "max_measured": 10, "criteria": ["p99_ttft_ms<=200.00"], "curve": [
            {"level": 65536, "met": false, "p99_ttft_ms": 9000.0}, {"level": 10, "met": true, "p99_ttft_ms": 50.0},
            {"level": 20, "met": false, "p99_ttft_ms": 5000.0}]}"#;
        let entry = parse(text).unwrap();
        let page = svg(&picture(entry.as_dict().unwrap()).unwrap().scene());
        assert!(page.contains("P99 TTFT (ms) against request rate (requests/s)") && !page.contains("65536"), "{page}");
        let note = picture(entry.as_dict().unwrap()).unwrap().note;
        assert!(note.contains("inconclusive") && note.contains("10"), "{note}");
        assert!(picture(&Dict::new()).is_none());
    }
}
