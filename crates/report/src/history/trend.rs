//! Change points of a metric in each series of a history: as text and as JSON.

use tacho_core::dict;
use tacho_core::json::{Dict, Value};
use tacho_decide::trend::{Change, FALSE_ALARMS, FEWEST, changes};
use tacho_record::history::{Entry, Series, better, differences, names};
use tacho_record::metric::Better;

use super::{value_text, words};
use crate::style::{fold, harmless_line};

const EIGHTHS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A metric of a series, and its changes.
pub struct Trend<'e> {
    /// The name of the series.
    pub series: String,
    pub metric: String,
    pub entries: Vec<&'e Entry>,
    values: Vec<f64>,
    /// Entries in which the client may have changed the metric.
    left_out: usize,
    pub changes: Vec<Change>,
}

/// The trends of these metrics in all series; those of which a series has no value are left out.
pub fn trends<'e>(all: &'e [Series<'e>], metrics: &[&str]) -> Vec<Trend<'e>> {
    let mut found = Vec::new();
    for (series, name) in all.iter().zip(names(all)) {
        for metric in metrics {
            let (entries, values, left_out) = series.values(metric);
            if values.len() + left_out > 0 {
                let changes = changes(&values);
                found.push(Trend {
                    series: name.clone(),
                    metric: (*metric).to_owned(),
                    entries,
                    values,
                    left_out,
                    changes,
                });
            }
        }
    }
    found
}

impl Trend<'_> {
    /// Whether a change is for the worse; `None` if the metric has no better direction.
    pub fn is_worse(&self, change: &Change) -> Option<bool> {
        match better(&self.metric) {
            Better::More => Some(change.after < change.before),
            Better::Less => Some(change.after > change.before),
            Better::Neither => None,
        }
    }

    /// Whether the metric got worse with one of the last `count` entries.
    pub fn got_worse(&self, count: usize) -> bool {
        let recent = |change: &&Change| change.at + count >= self.entries.len();
        self.changes.iter().filter(recent).any(|change| self.is_worse(change) == Some(true))
    }

    /// Whether it has too few entries to look for changes.
    pub fn is_short(&self) -> bool {
        self.values.len() < FEWEST
    }

    fn word(&self, change: &Change) -> &'static str {
        self.is_worse(change).map_or("changed", |worse| if worse { "worse" } else { "better" })
    }

    /// The change of the mean with its interval: a percentage, or a difference if a value is not positive.
    pub fn change_text(&self, change: &Change) -> String {
        let text = |value: f64| match change.is_ratio {
            true => format!("{:+.1}%", (value - 1.0) * 100.0),
            false => format!("{}{}", if value < 0.0 { "" } else { "+" }, value_text(&self.metric, value)),
        };
        let whole = if change.is_ratio { change.after / change.before } else { change.after - change.before };
        let (low, high) = change.interval;
        format!("{} (95% CI {} to {}, p = {:.4})", text(whole), text(low), text(high), change.p_value)
    }

    pub fn means(&self, change: &Change) -> String {
        format!("{} → {}", value_text(&self.metric, change.before), value_text(&self.metric, change.after))
    }

    /// What else is different from a change on.
    pub fn also(&self, change: &Change) -> Vec<String> {
        let pairs = differences(self.entries[change.at - 1], self.entries[change.at]);
        pairs.iter().map(|(key, old, new)| format!("{key} {old} → {new}")).collect()
    }

    /// The values as bars from the smallest to the largest, a character per entry; of many, the last ones.
    fn bars(&self, available: usize) -> String {
        let values = &self.values[self.values.len().saturating_sub(available)..];
        let end = |pick: fn(f64, f64) -> f64| values.iter().copied().reduce(pick).unwrap_or_default();
        let (low, high) = (end(f64::min), end(f64::max));
        let eighth = |value: &f64| if high > low { ((value - low) / (high - low) * 7.0).round() as usize } else { 3 };
        let bars: String = values.iter().map(|value| EIGHTHS[eighth(value)]).collect();
        format!("{bars}  {} to {}", value_text(&self.metric, low), value_text(&self.metric, high))
    }

    /// The trend in lines of at most `width` columns.
    pub fn text(&self, width: usize) -> String {
        let count = self.entries.len();
        let mut lines =
            vec![format!("{}, {count} {}", words(&self.metric), if count == 1 { "entry" } else { "entries" })];
        if !self.series.is_empty() {
            lines.extend(fold(&format!("  {}", harmless_line(&self.series)), width, 4));
        }
        if count > 0 {
            lines.push(format!("  {}", self.bars(width.saturating_sub(30))));
        }
        if self.left_out > 0 {
            let line = format!("  left out: {} in which the client may have changed it by over 5%", self.left_out);
            lines.extend(fold(&line, width, 4));
        }
        if self.is_short() {
            lines.push(format!("  too few entries to look for a change: {FEWEST} are needed"));
        } else if self.changes.is_empty() {
            lines.push("  no change".to_owned());
        }
        for change in &self.changes {
            let entry = self.entries[change.at];
            let place = format!("entry {} of {count}, {}", change.at + 1, entry.time);
            let name = harmless_line(&entry.name());
            lines.extend(fold(&format!("  {} from {name} on ({place})", self.word(change)), width, 4));
            let means = format!("    {}: {}", self.means(change), self.change_text(change));
            lines.extend(fold(&means, width, 6));
            let also = self.also(change);
            if !also.is_empty() {
                lines.extend(fold(&harmless_line(&format!("    also different: {}", also.join(", "))), width, 6));
            }
        }
        lines.join("\n") + "\n"
    }

    pub fn json(&self) -> Dict {
        let change = |change: &Change| -> Value {
            dict! {
                "at": change.at as u64, "id": self.entries[change.at].id.as_str(),
                "commit"?: self.entries[change.at].about("commit"), "verdict": self.word(change),
                "before": change.before, "after": change.after, "is_ratio": change.is_ratio,
                "low": change.interval.0, "high": change.interval.1, "p_value": change.p_value,
                "also": self.also(change).into_iter().map(Value::from).collect::<Value>(),
            }
            .into()
        };
        dict! {
            "metric": self.metric.as_str(), "series": self.series.as_str(),
            "ids": self.entries.iter().map(|entry| Value::from(entry.id.as_str())).collect::<Value>(),
            "values": self.values.iter().map(|value| Value::Float(*value)).collect::<Value>(),
            "left_out": self.left_out as u64, "too_few": self.is_short(), "false_alarms": FALSE_ALARMS,
            "changes": self.changes.iter().map(change).collect::<Value>(),
        }
    }
}
