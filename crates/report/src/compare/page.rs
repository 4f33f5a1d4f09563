//! A comparison as one page: verdicts and forest plot first, then distributions and tables.

use tacho_core::json::Value;
use tacho_decide::compare::{Effect, Verdict};
use tacho_record::StoredRun;

use super::forest::{change_in, forest_svg, printed_change, printed_in};
use super::join::{Comparison, Group, named};
use super::metric_table::{Curve, MetricTable};
use super::repeats::{are_repeats, head_and_table};
use super::{CompareSpec, Side, Verdicts, names::short_names, settings::settings, verdicts::times, warnings};
use crate::html::hero::{Head, Tone, common};
use crate::html::{Figures, distributions, escape, facts_table, html_table, page};
use crate::inputs::of_results;
use crate::plots::{AxisSpec, Color, Grid, Marker, Panel, ScaleKind, Series, Stroke, category, key_label};
use crate::tables::markdown::Table;

impl Comparison {
    /// The page: verdicts with their forest plots, then distributions on the same axes, then tables of load levels.
    pub fn html(&self, sides: &[Side], verdicts: &[Verdicts], spec: &CompareSpec) -> String {
        let mut figures = Figures::default();
        let mut body = String::new();
        let names = short_names(sides);
        let runs: Vec<StoredRun> = sides.iter().flat_map(Side::runs).collect();
        let repeated = verdicts.is_empty() && are_repeats(sides, true);
        let inputs = if repeated { of_results(None, runs.iter().map(|run| &run.fields)) } else { warnings(sides) };
        let head = Head::new(self.title(&names)).facts(common(&runs.iter().collect::<Vec<_>>())).inputs(inputs);
        let head = if repeated {
            let (head, table) = head_and_table(head, sides, &names);
            body += &format!("<h2>Every run</h2>\n{}", html_table(&table, |_, _| ""));
            head
        } else {
            // Cards of several pairs would not say which pair they are about.
            let shown = if verdicts.len() == 1 { 3 } else { 0 };
            verdicts.iter().fold(head, |head, verdict| stated(head, verdict, spec, shown))
        };
        for verdict in verdicts {
            body += &effects(verdict, spec);
        }
        let named: Vec<_> = sides.iter().zip(names).map(|(side, label)| (label, side.runs())).collect();
        body += &distributions(&named, &mut figures);
        if let Some(run) = runs.first().filter(|_| repeated) {
            let command = run.provenance().command.map_or_else(String::new, |command| {
                format!("<h3>Command</h3><pre class=\"command\">{}</pre>", escape(&command))
            });
            body += &format!("<h2>Settings</h2>{}{command}\n", facts_table(settings(run)));
        }
        // A single load level is already in the verdicts.
        let several = |group: &&Group| group.metrics.iter().any(|one| one.table.rows.len() > 1);
        let levels = |group: &&Group| !repeated && (verdicts.is_empty() || several(group));
        for group in self.groups.iter().filter(levels) {
            body += &self.section(group, spec, &mut figures);
        }
        page(&head, &body, figures)
    }

    pub fn group_html(&self, group: &Group, spec: &CompareSpec) -> String {
        let mut figures = Figures::default();
        let body = self.section(group, spec, &mut figures);
        page(&Head::new(self.title(&self.labels)), &body, figures)
    }

    fn title(&self, names: &[String]) -> String {
        match names {
            [base, new] => format!("{new} against {base}"),
            _ => format!("{} results: {}", names.len(), names.join(", ")),
        }
    }

    fn section(&self, group: &Group, spec: &CompareSpec, figures: &mut Figures) -> String {
        let mut body = format!("<h2>{}</h2>\n", escape(&group.heading()));
        if self.labels.len() > 1 {
            body += "<p class=\"note\">A ratio above 1 is better than the first side, whatever the number.</p>\n";
        }
        for metric in &group.metrics {
            let title = escape(named(&metric.metric));
            if metric.table.rows.is_empty() {
                body += &format!("<p>{title}: missing for this group</p>\n");
                continue;
            }
            body += &format!("<h3>{title}</h3>\n<div class=\"grid\">\n");
            body += &html_table(&metric.table, |row, at| self.value_class(metric, spec, row, at));
            // A single level is a row of the table, not a curve.
            if spec.plots && metric.curves.iter().any(|curve| curve.points.len() > 1) {
                body += &figures.panel(&self.chart(metric, spec), &group.heading());
            }
            body.push_str("</div>\n");
        }
        if spec.limits_set {
            body.push_str("<h3>Valid Max Concurrency Summary</h3>\n");
            body += &html_table(&group.summary, |_, at| if at == 3 { "good" } else { "" });
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
        let Some(value) = metric.table.rows[row][at].as_f64() else { return "" };
        match Self::limit(metric, spec).filter(|_| self.labels.contains(heading)) {
            _ if heading.starts_with("Ratio 1 vs ") => match value {
                ratio if ratio >= 1.0 + spec.margin => "good",
                ratio if ratio <= 1.0 - spec.margin => "bad",
                _ => "",
            },
            Some((limit, _)) if value <= limit => "good",
            Some((limit, slack)) if value <= limit * (1.0 + slack / 100.0) => "close",
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

/// Levels that double from one to the next would be crowded at the left end of a linear axis.
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

/// The head with a verdict: its sentence, and the change of the first `shown` metrics.
fn stated(head: Head, verdicts: &Verdicts, spec: &CompareSpec, shown: usize) -> Head {
    let verdict = |effect: &Effect| effect.verdict(spec.margin);
    let any = |wanted: Verdict| verdicts.effects.iter().any(|effect| verdict(effect) == wanted);
    let tone = match () {
        () if any(Verdict::Worse) => Tone::Bad,
        () if any(Verdict::Inconclusive) => Tone::Warning,
        () => Tone::Good,
    };
    let differs = Some(verdicts.differs.as_str()).filter(|text| !text.is_empty());
    let differs = differs.map(|text| format!("Settings that differ: {text}"));
    let head = head.verdict(tone, &verdicts.sentence(spec), differs.as_deref(), None);
    let known = HEADLINES.iter().filter_map(|key| verdicts.effects.iter().find(|effect| effect.key == *key));
    known.take(shown).fold(head, |head, effect| {
        let values = format!("{} → {}", printed_in(effect.scale, effect.base), printed_in(effect.scale, effect.new));
        let shown = change_in(effect.scale, printed_change(effect.scale, (effect.base, effect.new), effect.change));
        match verdict(effect) {
            Verdict::Better | Verdict::Worse => {
                let (factor, interval) = split_interval(times(effect), spec);
                head.card(&key_label(&effect.key), &factor, &format!("{values}, {}{interval}", verdict(effect).text()))
            }
            other => head.card(&key_label(&effect.key), other.text(), &format!("{values}, {shown}")),
        }
    })
}

/// A factor, and its interval as a further part of a sentence.
fn split_interval(times: String, spec: &CompareSpec) -> (String, String) {
    match times.split_once(" (") {
        Some((factor, interval)) => {
            let interval = format!(", {}% CI {}", spec.confidence.percent(), interval.trim_end_matches(')'));
            (factor.to_owned(), interval)
        }
        None => (times, String::new()),
    }
}

/// Metrics of the head, the first three that were compared.
const HEADLINES: [&str; 8] = [
    "output_throughput",
    "audio_throughput",
    "image_throughput",
    "p99_ttft_ms",
    "p99_tpot_ms",
    "p99_itl_ms",
    "p99_audio_ttfp_ms",
    "p99_e2el_ms",
];

/// A pair of sides: forest plot and table.
pub(super) fn effects(verdicts: &Verdicts, spec: &CompareSpec) -> String {
    let mut rows = verdicts.rows(spec);
    rows.iter_mut().for_each(|row| row.name = key_label(&row.name));
    let table = verdicts.table(spec);
    format!(
        "<h2>{}</h2>\n<p class=\"note\">Change of the candidate against the baseline with its confidence interval; \
         dashed: margin. An arrow marks an end beyond the axis.</p>\n<div class=\"wide\" tabindex=\"0\">{}</div>\
         <details><summary>Table with intervals and methods</summary>{}</details>\n",
        escape(&verdicts.title),
        forest_svg(&rows, &verdicts.title),
        html_table(&table, |row, at| verdict_class(&table, row, at))
    )
}
