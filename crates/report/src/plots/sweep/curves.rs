//! The curves of a panel: means over runs with confidence intervals, and the styles that distinguish curves.

use tacho_core::json::{Dict, Value};
use tacho_metrics::{
    interval::{Interval, half_width},
    statistics::mean,
};
use tacho_record::{ResultFields, metric::Known};

use super::data::{natural, python_text};
use crate::plots::{Color, LegendEntry, Marker, Series, Stroke, bare, category, key_label, sequence, value_text};
use crate::{distinct::by_key, inputs};

const DASHES: [&[f64]; 5] = [&[], &[6.0, 3.0], &[2.0, 2.0], &[8.0, 3.0, 2.0, 3.0], &[10.0, 4.0]];

/// The style of each value of the curve variables, the same in all panels.
pub(super) struct CurveStyles {
    keys: Vec<String>,
    /// The values of each variable in order, and whether they are numeric.
    values: Vec<(Vec<String>, bool)>,
}

impl CurveStyles {
    pub(super) fn new(keys: &[String], records: &[Dict]) -> Self {
        // More than three variables do not have one distinguishing style each.
        let keys: Vec<String> = if keys.len() > 3 { vec![keys.join(", ")] } else { keys.to_vec() };
        let mut styles = CurveStyles { values: vec![(Vec::new(), true); keys.len()], keys };
        for record in records {
            let texts = styles.texts(record);
            for (at, text) in texts.into_iter().enumerate() {
                let numeric = record.get(&styles.keys[at]).is_some_and(|value| value.as_f64().is_some());
                let (known, numbers) = &mut styles.values[at];
                *numbers &= numeric;
                if !known.contains(&text) {
                    known.push(text);
                }
            }
        }
        for (known, numbers) in &mut styles.values {
            known.sort_by(|a, b| match (a.parse::<f64>(), b.parse::<f64>()) {
                (Ok(a), Ok(b)) if *numbers => a.total_cmp(&b),
                _ => natural(a).cmp(&natural(b)),
            });
        }
        styles
    }

    /// The values of the curve variables in a record, one text per style dimension.
    fn texts(&self, record: &Dict) -> Vec<String> {
        let text = |key: &str| record.get(key).map_or_else(String::new, python_text);
        self.keys
            .iter()
            .map(|key| match key.contains(", ") && record.get(key).is_none() {
                true => key.split(", ").map(|key| format!("{key}={}", text(key))).collect::<Vec<_>>().join(", "),
                false => text(key),
            })
            .collect()
    }

    fn index_of(&self, at: usize, text: &str) -> usize {
        self.values[at].0.iter().position(|known| known == text).unwrap_or(0)
    }

    fn color(&self, index: usize) -> Color {
        match self.values.first() {
            Some((values, true)) if values.len() > 1 => sequence(index, values.len()),
            _ => category(index),
        }
    }

    fn stroke(&self, texts: &[String]) -> (Stroke, Marker) {
        let index = |at: usize| texts.get(at).map_or(0, |text| self.index_of(at, text));
        let dash = if texts.len() > 1 { DASHES[index(1) % DASHES.len()] } else { &[] };
        // Markers are measurements; the lines between them are not.
        let marker = if texts.len() > 1 { Marker::ALL[index(1) % Marker::ALL.len()] } else { Marker::Disc };
        let width = if texts.len() > 2 { 1.2 + 1.2 * index(2) as f64 } else { 1.8 };
        (Stroke::dashed(self.color(index(0)), width, dash), marker)
    }

    /// The curves of `records`: means of repeats with confidence intervals, ordered by the load variable.
    pub(super) fn series(&self, records: &[&Dict], by: &Points<'_>, error_bars: bool) -> Vec<Series> {
        let mut names: Vec<Vec<String>> = records.iter().map(|record| self.texts(record)).collect();
        names.sort_by_key(|texts| {
            texts.iter().enumerate().map(|(at, text)| self.index_of(at, text)).collect::<Vec<_>>()
        });
        names.dedup();
        let mut bands = Vec::new();
        let mut lines = Vec::new();
        let mut warned: Vec<(String, Mean)> = Vec::new();
        for texts in names {
            let of_curve: Vec<&Dict> = records.iter().copied().filter(|record| self.texts(record) == texts).collect();
            let means = by.of(&of_curve);
            let (stroke, marker) = self.stroke(&texts);
            let values = self.keys.iter().zip(&texts).map(|(key, text)| format!("{} {text}", bare(key)));
            let name = values.collect::<Vec<_>>().join(", ");
            if error_bars && means.iter().any(|mean| mean.runs > 1) {
                let points = by.repeats(&of_curve);
                bands.push(Series::Points {
                    name: name.clone(),
                    points,
                    fill: stroke.color.with_alpha(0.5),
                    hints: Vec::new(),
                });
            }
            if error_bars && means.iter().any(|mean| mean.interval.is_some()) {
                let ends = |mean: &Mean| mean.interval.unwrap_or(Interval { low: mean.y, high: mean.y });
                // Times and rates are never negative.
                let edge = |mean: &Mean| (mean.x, ends(mean).low.max(mean.y.min(0.0)), ends(mean).high);
                let edges = means.iter().map(edge).collect();
                bands.push(Series::Band { name: name.clone(), edges, fill: stroke.color.with_alpha(0.2) });
            }
            let hints = means.iter().map(|mean| by.hint(&name, mean)).collect();
            let points = means.iter().map(|mean| (mean.x, mean.y)).collect();
            lines.push(Series::Line { name: name.clone(), points, stroke, marker, hints });
            warned.extend(means.into_iter().filter(|mean| mean.is_warned).map(|mean| (name.clone(), mean)));
        }
        bands.extend(lines);
        if !warned.is_empty() {
            let hint = |(name, mean): &(String, Mean)| format!("{WARNED}\n{}", by.hint(name, mean));
            let hints = warned.iter().map(hint).collect();
            let points = warned.iter().map(|(_, mean)| (mean.x, mean.y)).collect();
            bands.push(Series::Points { name: WARNED.to_owned(), points, fill: warned_color(), hints });
        }
        bands
    }

    pub(super) fn legend(&self) -> Vec<LegendEntry> {
        let mut entries = Vec::new();
        for (at, (values, _)) in self.values.iter().enumerate() {
            entries.push(LegendEntry::Heading(bare(&self.keys[at])));
            for (index, value) in values.iter().enumerate() {
                let (stroke, marker) = match at {
                    0 => (Stroke::solid(self.color(index), 1.8), Marker::None),
                    1 => {
                        let dash = DASHES[index % DASHES.len()];
                        (Stroke::dashed(Color::INK, 1.5, dash), Marker::ALL[index % Marker::ALL.len()])
                    }
                    _ => (Stroke::solid(Color::INK, 1.2 + 1.2 * index as f64), Marker::None),
                };
                entries.push(LegendEntry::Line(stroke, marker, value.clone()));
            }
        }
        entries
    }
}

/// A finite number of a result or of tacho's part of it.
pub(super) fn number(record: &Dict, key: &str) -> Option<f64> {
    let found = record.get(key).map_or_else(|| ResultFields(record).number(key), Value::as_f64);
    found.filter(|number| number.is_finite())
}

pub(super) fn warned_color() -> Color {
    Color::hex(0xC4_36_1C)
}

pub(super) struct Points<'a> {
    pub(super) x: &'a str,
    pub(super) y: &'a str,
    pub(super) swept: &'a [String],
    pub(super) along: Option<&'a str>,
}

/// With one degree of freedom Student's t interval is useless: an interval needs three runs.
const MIN_REPEATS: usize = 3;

#[derive(Debug, PartialEq)]
pub(super) struct Mean {
    x: f64,
    y: f64,
    /// The confidence interval of `y`; `None` for too few runs.
    interval: Option<Interval>,
    /// Its position along the curve, as text.
    along: String,
    runs: usize,
    /// Whether one of its runs has a severe warning.
    is_warned: bool,
}

/// Name of the points of such runs.
pub(super) const WARNED: &str = "with severe warnings";

impl Points<'_> {
    /// If `x` was measured, the runs of one setting form one point; if it was set, all runs at that `x` do.
    fn of(&self, records: &[&Dict]) -> Vec<Mean> {
        let measured = Known::find(self.x).is_some() && !self.swept.is_empty();
        let key = |record: &Dict| match measured {
            true => self.swept.iter().map(|key| record.get(key).map_or_else(String::new, python_text)).collect(),
            false => vec![number(record, self.x).map_or_else(String::new, |x| format!("{x:?}"))],
        };
        let placed = records.iter().copied().filter(|record| self.point(record).is_some());
        let groups = by_key(placed.map(|record| (key(record), record)));
        let along = |record: &Dict| self.along.filter(|_| measured).and_then(|key| order(record, key));
        let mut means: Vec<(Option<f64>, Mean)> =
            groups.iter().map(|(_, members)| (along(members[0]), self.mean(members))).collect();
        means.sort_by(|(a, one), (b, other)| match (a, b) {
            (Some(a), Some(b)) => a.total_cmp(b),
            _ => one.x.total_cmp(&other.x),
        });
        means.into_iter().map(|(_, mean)| mean).collect()
    }

    /// The single runs if there are repeats: at the set x, or at each measured one.
    fn repeats(&self, records: &[&Dict]) -> Vec<(f64, f64)> {
        records.iter().filter_map(|record| self.point(record)).collect()
    }

    fn point(&self, record: &Dict) -> Option<(f64, f64)> {
        Some((number(record, self.x)?, number(record, self.y)?))
    }

    fn mean(&self, members: &[&Dict]) -> Mean {
        let (xs, ys): (Vec<f64>, Vec<f64>) = members.iter().filter_map(|record| self.point(record)).unzip();
        let along = self.along.filter(|key| *key != self.x);
        let text = along.and_then(|key| Some(format!("{}: {}", bare(key), value_text(members[0].get(key)?))));
        let y = mean(&ys);
        let of_runs = half_width(&ys).filter(|half| ys.len() >= MIN_REPEATS && *half > 0.0);
        // One run has an interval of its own for what it found in outputs.
        let is_of_outputs = ys.len() == 1 && Known::find(self.y).is_some_and(Known::is_of_outputs);
        let of_outputs = || ResultFields(members[0]).interval(self.y).filter(|_| is_of_outputs);
        Mean {
            x: mean(&xs),
            y,
            interval: of_runs.map(|half| Interval { low: y - half, high: y + half }).or_else(of_outputs),
            along: text.unwrap_or_default(),
            runs: members.len(),
            is_warned: !inputs::of_results(None, members.iter().copied()).is_empty(),
        }
    }

    fn hint(&self, name: &str, mean: &Mean) -> String {
        let spread = mean.interval.map_or_else(String::new, |ends| format!(" ({:.4} … {:.4})", ends.low, ends.high));
        let mut lines = vec![name.to_owned(), mean.along.clone()];
        lines.push(format!("{}: {:.4}", key_label(self.x), mean.x));
        lines.push(format!("{}: {:.4}{spread}", key_label(self.y), mean.y));
        lines.extend((mean.runs > 1).then(|| format!("mean of: {} runs", mean.runs)));
        lines.retain(|line| !line.is_empty());
        lines.join("\n")
    }
}

/// A number for sorting, infinity included.
fn order(record: &Dict, key: &str) -> Option<f64> {
    record.get(key).and_then(Value::as_f64).filter(|number| !number.is_nan())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_core::json::parse;

    fn records(text: &str) -> Vec<Dict> {
        parse(text).unwrap().as_list().unwrap().iter().map(|item| item.as_dict().unwrap().clone()).collect()
    }

    #[test]
    fn runs_at_one_set_x_are_their_mean_with_its_interval() {
        let records = records(
            r#"[{"n": 2, "y": 5}, {"n": 1, "y": 1}, {"n": 1, "y": 3}, {"n": 3, "y": 1}, {"n": 3, "y": 2}, {"n": 3, "y": 3}]"#,
        );
        let by = Points { x: "n", y: "y", swept: &[], along: None };
        let means = by.of(&records.iter().collect::<Vec<_>>());
        let of = |at: usize| (means[at].x, means[at].y, means[at].interval, means[at].runs);
        assert_eq!((of(0), of(1)), ((1.0, 2.0, None, 2), (2.0, 5.0, None, 1)), "two runs have no interval");
        // Two degrees of freedom: 4.303 times the standard error of the mean, 1/√3.
        let half = means[2].interval.unwrap().high - 2.0;
        assert!((half - 4.303 / 3f64.sqrt()).abs() < 0.01, "{means:?}");
    }

    #[test]
    fn accuracy_has_the_interval_of_its_run() {
        let records = records(r#"[{"n": 1, "tacho": {"accuracy": 0.9, "intervals": {"accuracy": [0.8, 0.95]}}}]"#);
        let means = Points { x: "n", y: "accuracy", swept: &[], along: None }.of(&[&records[0]]);
        assert_eq!((means[0].y, means[0].interval), (0.9, Some(Interval { low: 0.8, high: 0.95 })));
    }

    #[test]
    fn repeats_of_a_measured_x_are_one_point_and_go_along_the_load() {
        let records = records(
            r#"[{"max_concurrency": 8, "request_throughput": 3.0, "y": 9}, {"max_concurrency": 1, "request_throughput": 1.0, "y": 1},
                {"max_concurrency": 4, "request_throughput": 4.0, "y": 5}, {"max_concurrency": 4, "request_throughput": 6.0, "y": 7}]"#,
        );
        let swept = ["max_concurrency".to_owned()];
        let by = Points { x: "request_throughput", y: "y", swept: &swept, along: Some("max_concurrency") };
        let positions: Vec<(f64, f64)> =
            by.of(&records.iter().collect::<Vec<_>>()).iter().map(|mean| (mean.x, mean.y)).collect();
        assert_eq!(positions, [(1.0, 1.0), (5.0, 6.0), (3.0, 9.0)]);
    }
}
