//! A comparison as one page: verdicts and forest plot first, then distributions and tables.

use std::fmt::Write;

use tacho_core::json::Value;

use super::forest::forest_svg;
use super::join::{Comparison, Group, named};
use super::metric_table::{Curve, MetricTable};
use super::{CompareSpec, Side, Verdicts};
use crate::html::{Figures, distributions, escape, page};
use crate::plots::{AxisSpec, Color, Grid, Marker, Panel, ScaleKind, Series, Stroke, category};
use crate::tables::markdown::{Table, plain};

impl Comparison {
    /// The page: the verdicts in one sentence each, what was measured as distributions on each other, then tables.
    pub fn html(&self, sides: &[Side], verdicts: &[Verdicts], spec: &CompareSpec) -> String {
        let mut figures = Figures::default();
        let mut body = String::new();
        for verdict in verdicts {
            put(&mut body, &format!("<p class=\"lead\">{}</p>\n", escape(&verdict.sentence(spec))));
        }
        for verdict in verdicts {
            put(&mut body, &format!("<h2>{}</h2>\n", escape(&verdict.title)));
            if !verdict.differs.is_empty() {
                put(&mut body, &format!("<p>Settings that differ: {}</p>\n", escape(&verdict.differs)));
            }
            put(
                &mut body,
                "<p class=\"note\">Change of the candidate against the baseline with its confidence interval; dashed: margin.</p>\n",
            );
            put(&mut body, &format!("<div class=\"wide\">{}</div>", forest_svg(&verdict.rows(spec), &verdict.title)));
            let table = verdict.table(spec);
            let table = html_table(&table, |row, at| verdict_class(&table, row, at));
            put(&mut body, &format!("<details><summary>Table</summary>{table}</details>\n"));
        }
        let named: Vec<_> = sides.iter().zip(short_labels(sides)).map(|(side, label)| (label, side.runs())).collect();
        put(&mut body, &distributions(&named, &mut figures));
        // One load level is in the verdicts already.
        let levels = |group: &&Group| verdicts.is_empty() || group.metrics.iter().any(|one| one.table.rows.len() > 1);
        for group in self.groups.iter().filter(levels) {
            put(&mut body, &self.section(group, spec, &mut figures));
        }
        page(&format!("Comparison: {}", self.labels.join(", ")), &body, figures)
    }

    /// The page of one group alone.
    pub fn group_html(&self, group: &Group, spec: &CompareSpec) -> String {
        let mut figures = Figures::default();
        let body = self.section(group, spec, &mut figures);
        page(&format!("Comparison: {}", self.labels.join(", ")), &body, figures)
    }

    fn section(&self, group: &Group, spec: &CompareSpec, figures: &mut Figures) -> String {
        let mut body = format!("<h2>{}</h2>\n", escape(&group.heading()));
        if self.labels.len() > 1 {
            put(
                &mut body,
                "<p class=\"note\">A ratio above 1 is better than the first side, whatever the number.</p>\n",
            );
        }
        for metric in &group.metrics {
            let title = escape(named(&metric.metric));
            if metric.table.rows.is_empty() {
                put(&mut body, &format!("<p>{title}: missing for this group</p>\n"));
                continue;
            }
            put(&mut body, &format!("<h3>{title}</h3>\n<div class=\"grid\">\n"));
            put(&mut body, &html_table(&metric.table, |row, at| self.value_class(metric, spec, row, at)));
            // A single level is a row of the table, not a curve.
            if spec.plots && metric.curves.iter().any(|curve| curve.points.len() > 1) {
                put(&mut body, &figures.panel(&self.chart(metric, spec), &group.heading()));
            }
            body.push_str("</div>\n");
        }
        if spec.limits_set {
            body.push_str("<h3>Valid Max Concurrency Summary</h3>\n");
            put(&mut body, &html_table(&group.summary, |_, at| if at == 3 { "good" } else { "" }));
        }
        body
    }

    fn limit(metric: &MetricTable, spec: &CompareSpec) -> Option<(f64, f64)> {
        match metric.metric.as_str() {
            _ if !spec.limits_set => None,
            name if name.contains("TTFT") => Some(spec.ttft),
            "P99" | "Median" => Some(spec.tpot),
            _ => None,
        }
    }

    fn value_class(&self, metric: &MetricTable, spec: &CompareSpec, row: usize, at: usize) -> &'static str {
        let heading = &metric.table.headings[at];
        if heading.starts_with("Ratio 1 vs ") {
            return match metric.table.rows[row][at].as_f64() {
                Some(ratio) if ratio >= 1.0 + spec.margin => "good",
                Some(ratio) if ratio <= 1.0 - spec.margin => "bad",
                _ => "",
            };
        }
        let value = metric.table.rows[row][at].as_f64();
        match (Self::limit(metric, spec), value) {
            (Some((limit, _)), Some(value)) if self.labels.contains(heading) && value <= limit => "good",
            (Some((limit, slack)), Some(value))
                if self.labels.contains(heading) && value <= limit * (1.0 + slack / 100.0) =>
            {
                "close"
            }
            _ => "",
        }
    }

    fn chart(&self, metric: &MetricTable, spec: &CompareSpec) -> Panel {
        let all = || metric.curves.iter().flat_map(|curve| &curve.points);
        let mut series = Vec::new();
        for (at, Curve { name, points, .. }) in metric.curves.iter().enumerate() {
            let stroke = Stroke::solid(category(at), 1.8);
            let (x, y) = (&self.x, named(&metric.metric));
            let hints = points.iter().map(|(level, value)| format!("{name}\n{x}: {level}\n{y}: {value:.2}")).collect();
            let (name, points) = (name.clone(), points.clone());
            series.push(Series::Line { name, points, stroke, marker: Marker::Disc, hints });
        }
        if let Some((limit, _)) = Self::limit(metric, spec) {
            let (name, code) = if metric.metric.contains("TTFT") { ("TTFT", 0xD6_27_28) } else { ("TPOT", 0x1F_77_B4) };
            let stroke = Stroke::dashed(Color::hex(code), 1.2, &[5.0, 3.0]);
            series.push(Series::Level { y: limit, stroke, name: format!("{name} limit: {limit:?} ms") });
        }
        let top = all().map(|point| point.1).fold(0.0, f64::max);
        Panel {
            title: vec![format!("{} against {}", named(&metric.metric), self.x)],
            x: AxisSpec::over(self.x.as_str(), level_scale(all().map(|point| point.0)), all().map(|point| point.0)),
            y: AxisSpec::linear(named(&metric.metric), 0.0, top * 1.08),
            grid: Grid::Both,
            series,
        }
    }
}

/// Levels that were doubled again and again would crowd at the left end of a linear axis.
fn level_scale(levels: impl Iterator<Item = f64>) -> ScaleKind {
    let (low, high) = levels.fold((f64::INFINITY, 0.0_f64), |(low, high), level| (low.min(level), high.max(level)));
    if low > 0.0 && high.is_finite() && high / low >= 20.0 { ScaleKind::Log } else { ScaleKind::Linear }
}

fn verdict_class(table: &Table, row: usize, at: usize) -> &'static str {
    match (at, &table.rows[row][at]) {
        (5, Value::Str(text)) if text == "better" => "good",
        (5, Value::Str(text)) if text == "worse" => "bad",
        _ => "",
    }
}

fn html_table(table: &Table, class: impl Fn(usize, usize) -> &'static str) -> String {
    let mut out = String::from("<div class=\"wide\"><table class=\"cells\"><thead><tr>");
    for heading in &table.headings {
        put(&mut out, &format!("<th>{}</th>", escape(heading)));
    }
    out.push_str("</tr></thead><tbody>\n");
    for (row, cells) in table.rows.iter().enumerate() {
        out.push_str("<tr>");
        for (at, value) in cells.iter().enumerate() {
            let text = match value {
                Value::Float(number) if number.is_finite() => format!("{number:.2}"),
                other => escape(&plain(other)),
            };
            let number = if value.as_f64().is_some() { "n " } else { "" };
            put(&mut out, &format!("<td class=\"{number}{}\">{text}</td>", class(row, at)));
        }
        out.push_str("</tr>\n");
    }
    out + "</tbody></table></div>\n"
}

/// Names of sides without the path and ending that all of them share.
fn short_labels(sides: &[Side]) -> Vec<String> {
    let labels: Vec<&str> = sides.iter().map(|side| side.label.as_str()).collect();
    let first = labels.first().copied().unwrap_or_default();
    let cut = |ends: &dyn Fn(&str, usize) -> bool| {
        let places = first.char_indices().map(|(at, _)| at).chain([first.len()]);
        places.take_while(|at| labels.iter().all(|label| ends(label, *at))).last().unwrap_or(0)
    };
    let shared = cut(&|label, at| label.get(..at) == first.get(..at));
    let start = first[..shared].rfind(['/', '-', '_']).map_or(0, |at| at + 1);
    let short = |label: &&str| {
        label.get(start..).filter(|rest| !rest.is_empty()).unwrap_or(label).trim_end_matches(".json").to_owned()
    };
    if labels.len() < 2 { labels.into_iter().map(str::to_owned).collect() } else { labels.iter().map(short).collect() }
}

fn put(out: &mut String, text: &str) {
    out.write_str(text).expect("writing to a string does not fail");
}
