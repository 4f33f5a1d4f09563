//! The curves of a panel: means over runs with their spread, and what tells curves apart.

use tacho_core::json::{Dict, Value};

use super::data::{natural, python_text};
use crate::plots::{Color, LegendEntry, Marker, Series, Stroke, category, sequence};

/// Dashes that can be told apart.
const DASHES: [&[f64]; 5] = [&[], &[6.0, 3.0], &[2.0, 2.0], &[8.0, 3.0, 2.0, 3.0], &[10.0, 4.0]];

/// What each value of the curve variables looks like, the same in all panels.
pub(super) struct Looks {
    keys: Vec<String>,
    /// The values of each variable in order, and whether they are numbers.
    values: Vec<(Vec<String>, bool)>,
}

impl Looks {
    pub(super) fn new(keys: &[String], records: &[Dict]) -> Self {
        // More than three variables cannot be told apart each by its own means.
        let keys: Vec<String> = if keys.len() > 3 { vec![keys.join(", ")] } else { keys.to_vec() };
        let mut looks = Looks { values: vec![(Vec::new(), true); keys.len()], keys };
        for record in records {
            let texts = looks.texts(record);
            for (at, text) in texts.into_iter().enumerate() {
                let numeric = record.get(&looks.keys[at]).is_some_and(|value| value.as_f64().is_some());
                let (known, numbers) = &mut looks.values[at];
                *numbers &= numeric;
                if !known.contains(&text) {
                    known.push(text);
                }
            }
        }
        for (known, numbers) in &mut looks.values {
            known.sort_by(|a, b| match (a.parse::<f64>(), b.parse::<f64>()) {
                (Ok(a), Ok(b)) if *numbers => a.total_cmp(&b),
                _ => natural(a).cmp(&natural(b)),
            });
        }
        looks
    }

    /// The values of the curve variables in a record, one text per means of telling apart.
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

    fn place(&self, at: usize, text: &str) -> usize {
        self.values[at].0.iter().position(|known| known == text).unwrap_or(0)
    }

    fn color(&self, place: usize) -> Color {
        match self.values.first() {
            Some((values, true)) if values.len() > 1 => sequence(place, values.len()),
            _ => category(place),
        }
    }

    fn stroke(&self, texts: &[String]) -> (Stroke, Marker) {
        let place = |at: usize| texts.get(at).map_or(0, |text| self.place(at, text));
        let dash = if texts.len() > 1 { DASHES[place(1) % DASHES.len()] } else { &[] };
        // What was measured is a mark; what lies between marks is only a line.
        let marker = if texts.len() > 1 { Marker::ALL[place(1) % Marker::ALL.len()] } else { Marker::Disc };
        let width = if texts.len() > 2 { 1.2 + 1.2 * place(2) as f64 } else { 1.8 };
        (Stroke::dashed(self.color(place(0)), width, dash), marker)
    }

    /// The curves of `records`.
    pub(super) fn series(&self, records: &[&Dict], x: &str, y: &str, error_bars: bool) -> Vec<Series> {
        let mut names: Vec<Vec<String>> = records.iter().map(|record| self.texts(record)).collect();
        names.sort_by_key(|texts| texts.iter().enumerate().map(|(at, text)| self.place(at, text)).collect::<Vec<_>>());
        names.dedup();
        let mut bands = Vec::new();
        let mut lines = Vec::new();
        for texts in names {
            let of_curve = records.iter().filter(|record| self.texts(record) == texts);
            let points = of_curve.filter_map(|record| Some((number(record, x)?, number(record, y)?))).collect();
            let means = averaged(points);
            let (stroke, marker) = self.stroke(&texts);
            if error_bars && means.iter().any(|mean| mean.spread > 0.0) {
                let edges = means.iter().map(|mean| (mean.x, mean.y - mean.spread, mean.y + mean.spread)).collect();
                bands.push(Series::Band { edges, fill: stroke.color.with_alpha(0.2) });
            }
            let label = self.keys.iter().zip(&texts).map(|(key, text)| format!("{key}={text}, ")).collect::<String>();
            let hints = means.iter().map(|mean| format!("{label}{x}={:.4}, {y}={:.4}", mean.x, mean.y)).collect();
            let points = means.iter().map(|mean| (mean.x, mean.y)).collect();
            lines.push(Series::Line { points, stroke, marker, hints });
        }
        bands.extend(lines);
        bands
    }

    /// What each look stands for.
    pub(super) fn legend(&self) -> Vec<LegendEntry> {
        let mut entries = Vec::new();
        for (at, (values, _)) in self.values.iter().enumerate() {
            entries.push(LegendEntry::Heading(self.keys[at].clone()));
            for (place, value) in values.iter().enumerate() {
                let (stroke, marker) = match at {
                    0 => (Stroke::solid(self.color(place), 1.8), Marker::None),
                    1 => {
                        let dash = DASHES[place % DASHES.len()];
                        (Stroke::dashed(Color::INK, 1.5, dash), Marker::ALL[place % Marker::ALL.len()])
                    }
                    _ => (Stroke::solid(Color::INK, 1.2 + 1.2 * place as f64), Marker::None),
                };
                entries.push(LegendEntry::Line(stroke, marker, value.clone()));
            }
        }
        entries
    }
}

/// A finite number of a record.
pub(super) fn number(record: &Dict, key: &str) -> Option<f64> {
    record.get(key).and_then(Value::as_f64).filter(|number| number.is_finite())
}

/// The mean of the points with one x.
#[derive(Debug, PartialEq)]
struct Mean {
    x: f64,
    y: f64,
    /// One sample standard deviation; 0 for a single point.
    spread: f64,
}

fn averaged(mut points: Vec<(f64, f64)>) -> Vec<Mean> {
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let same = points.chunk_by(|a, b| a.0 == b.0);
    same.map(|group| {
        let count = group.len() as f64;
        let mean = group.iter().map(|point| point.1).sum::<f64>() / count;
        let squares: f64 = group.iter().map(|point| (point.1 - mean).powi(2)).sum();
        let spread = if group.len() > 1 { (squares / (count - 1.0)).sqrt() } else { 0.0 };
        Mean { x: group[0].0, y: mean, spread }
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_x_are_averaged_with_the_sample_deviation() {
        let means = averaged(vec![(2.0, 5.0), (1.0, 1.0), (1.0, 3.0)]);
        assert_eq!(means[0], Mean { x: 1.0, y: 2.0, spread: 2f64.sqrt() });
        assert_eq!(means[1], Mean { x: 2.0, y: 5.0, spread: 0.0 });
    }
}
