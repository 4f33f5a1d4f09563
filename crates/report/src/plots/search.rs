//! The picture of a search for the largest load: what was measured at each level, and where it broke.

use tacho_core::json::{Dict, Value};

use super::{
    AxisSpec, Color, Grid, LegendEntry, Panel, Rect, ScaleKind, Scene, Series, Stroke, category, draw_legend,
    legend_width,
};

/// Draws an entry of `sla_summary.json`: a panel per criterion. Nothing without levels.
pub fn figure(entry: &Dict) -> Option<Scene> {
    let levels: Vec<&Dict> = entry.get("curve")?.as_list()?.iter().filter_map(Value::as_dict).collect();
    let criteria: Vec<&str> = entry.get("criteria")?.as_list()?.iter().filter_map(Value::as_str).collect();
    let variable = entry.get("variable").and_then(Value::as_str)?;
    let panels: Vec<Panel> = criteria.iter().filter_map(|criterion| panel(criterion, variable, &levels)).collect();
    let entries = [
        LegendEntry::Point(category(2), "met".into()),
        LegendEntry::Point(Color::hex(0xD6_27_28), "not met or not sustained".into()),
    ];
    let mut scene = Scene::new(430.0 + legend_width(&entries), 300.0 * panels.len() as f64);
    for (at, panel) in panels.iter().enumerate() {
        panel.draw(&mut scene, Rect { x: 66.0, y: 28.0 + 300.0 * at as f64, width: 340.0, height: 225.0 });
    }
    draw_legend(&mut scene, (416.0, 28.0), &entries);
    (!panels.is_empty()).then_some(scene)
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
    let dots = |points: Vec<(f64, f64)>, fill: Color| {
        let points: Vec<(f64, f64)> = points.into_iter().map(|(x, y)| (x, y.min(top))).collect();
        let hints = points.iter().map(|(x, y)| format!("{x}: {y:.2}")).collect();
        Series::Points { points, fill, hints }
    };
    let stroke = Stroke::dashed(Color::hex(0xD6_27_28), 1.2, &[5.0, 3.0]);
    Some(Panel {
        title: vec![format!("{metric} vs {variable}")],
        x: AxisSpec::over(variable, ScaleKind::Linear, all().map(|(load, _)| load)),
        y: AxisSpec::linear(metric, 0.0, top * 1.08),
        grid: Grid::Both,
        series: vec![
            Series::Level { y: limit, stroke, name: criterion.to_owned() },
            dots(of(true), category(2)),
            dots(of(false), Color::hex(0xD6_27_28)),
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
        let text = r#"{"variable": "request_rate", "criteria": ["p99_ttft_ms<=200.00"], "curve": [
            {"level": 65536, "met": false, "p99_ttft_ms": 9000.0}, {"level": 10, "met": true, "p99_ttft_ms": 50.0},
            {"level": 20, "met": false, "p99_ttft_ms": 5000.0}]}"#;
        let entry = parse(text).unwrap();
        let page = svg(&figure(entry.as_dict().unwrap()).unwrap());
        assert!(page.contains("p99_ttft_ms vs request_rate") && !page.contains("65536"), "{page}");
        assert!(figure(&Dict::new()).is_none());
    }
}
