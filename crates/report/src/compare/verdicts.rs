//! Significance of differences: each side against the first, metric by metric.

use tacho_core::json::Value;
use tacho_decide::compare::{Effect, Scale, Terms, Verdict, compare, shared_keys};
use tacho_record::{ResultKind, StoredRun};

use super::{CompareSpec, forest::change_in, side::Side};
use crate::compare::settings::{Settings, named, only, other_requests, value, varying};
use crate::{Error, plots::bare, style::short, tables::markdown::Table};

/// The effects between two sides at one setting.
#[derive(Debug, Clone)]
pub struct Verdicts {
    pub title: String,
    pub effects: Vec<Effect>,
    /// Whether a side has a single run, which does not show the run-to-run variation.
    pub single: bool,
    /// The settings that differ between the sides, as text; empty if none do.
    pub differs: String,
    /// Under a fixed request rate: the delivered part of it. Throughput is then determined by the load and has no
    /// verdict.
    pub delivered: Option<String>,
}

impl Verdicts {
    pub fn table(&self, spec: &CompareSpec) -> Table {
        let interval = format!("{}% CI", spec.confidence.percent());
        let headings =
            ["metric", "baseline", "candidate", "change", &interval, "verdict", "basis"].map(str::to_owned).to_vec();
        let rows = self.effects.iter().map(|effect| {
            let verdict = effect.verdict(spec.margin).text();
            let cells = [amount(effect, effect.change), bounds(effect), verdict.to_owned(), effect.basis_text()];
            let number = |value: f64| if value.is_nan() { Value::from("none") } else { Value::Float(value) };
            let first = Value::from(effect.key.as_str());
            [first, number(effect.base), number(effect.new)].into_iter().chain(cells.map(Value::from)).collect()
        });
        Table { headings, rows: rows.collect() }
    }

    /// One sentence: which side is better, in which metric, by how much, at which confidence.
    pub fn sentence(&self, spec: &CompareSpec) -> String {
        let of = |verdict: Verdict| -> Vec<&Effect> {
            self.effects.iter().filter(|effect| effect.verdict(spec.margin) == verdict).collect()
        };
        let (better, worse) = (of(Verdict::Better), of(Verdict::Worse));
        let (equal, open) = (of(Verdict::Equal).len(), of(Verdict::Inconclusive).len());
        let mut parts = Vec::new();
        if better.is_empty() && worse.is_empty() && equal > 0 && open > 0 {
            parts.push("inconclusive on the whole".to_owned());
        }
        for (verdict, effects) in [("better", &better), ("worse", &worse)] {
            parts.extend(max(effects).map(|effect| {
                let (name, times) = (bare(&effect.key), times(effect));
                match effects.len() {
                    1 => format!("{verdict} in {name}: {times}"),
                    count => format!("{verdict} in {count} metrics, most in {name}: {times}"),
                }
            }));
        }
        let margin = spec.margin * 100.0;
        parts.extend((equal > 0).then(|| format!("{equal} equal within {margin}%")));
        parts.extend(self.delivered.clone());
        parts.extend((open > 0).then(|| format!("{open} inconclusive")));
        format!("{}: {} ({}% confidence intervals).", self.title, parts.join("; "), spec.confidence.percent())
    }
}

/// A change as a factor with its interval: `1.12× slower (1.06–1.19)`.
pub(super) fn times(effect: &Effect) -> String {
    if effect.scale != Scale::Relative {
        return format!("{} ({})", amount(effect, effect.change), bounds(effect));
    }
    factor(effect.change, effect.interval, effect.key.ends_with("_ms"))
}

fn factor(change: f64, interval: Option<(f64, f64)>, is_latency: bool) -> String {
    let is_less = change < 0.0;
    let factor = |change: f64| if is_less { 1.0 / (1.0 + change) } else { 1.0 + change };
    let word = match (is_latency, is_less) {
        (true, true) => "faster",
        (true, false) => "slower",
        (false, true) => "lower",
        (false, false) => "higher",
    };
    let bounds =
        interval.map(|(low, high)| if is_less { (factor(high), factor(low)) } else { (factor(low), factor(high)) });
    // A narrow interval has the digits that tell its ends apart.
    let digits = bounds.map_or(2, |(from, to)| if (0.0..0.02).contains(&(to - from)) { 3 } else { 2 });
    let shown = |factor: f64| match factor {
        factor if factor.is_nan() || factor < 0.0 || factor.is_infinite() => "∞".to_owned(),
        large if large > LARGEST_FACTOR => format!("over {}", short(LARGEST_FACTOR)),
        large if large >= 10.0 => short(large),
        factor => format!("{factor:.digits$}"),
    };
    let interval = bounds.map_or_else(String::new, |(from, to)| format!(" ({}–{})", shown(from), shown(to)));
    format!("{}× {word}{interval}", shown(factor(change)))
}

/// The effect shown in place of the others: the largest significant one, by its nearer bound.
fn max<'a>(effects: &[&'a Effect]) -> Option<&'a Effect> {
    let sure = |effect: &Effect| effect.interval.map_or(0.0, |(low, high)| low.abs().min(high.abs()));
    effects.iter().copied().max_by(|a, b| sure(a).total_cmp(&sure(b)))
}

/// Factors above this are reported as being above it: the baseline is almost zero.
const LARGEST_FACTOR: f64 = 10_000.0;

/// Changes beyond this fraction are reported as being beyond it.
const BEYOND: f64 = 100.0;

fn percent(share: f64) -> String {
    match share {
        share if share.is_nan() => String::new(),
        share if share.is_infinite() => "no upper bound".into(),
        // A baseline near zero bounds no usable ratio.
        share if share > BEYOND => format!("over +{:.0}%", BEYOND * 100.0),
        share if share >= 9.995 => format!("+{}%", short(share * 100.0)),
        share if share >= 0.995 => format!("{:+.0}%", share * 100.0),
        share => format!("{:+.2}%", share * 100.0),
    }
}

fn amount(effect: &Effect, change: f64) -> String {
    if effect.scale == Scale::Relative { percent(change) } else { change_in(effect.scale, change) }
}

fn bounds(effect: &Effect) -> String {
    let shown = |change| amount(effect, change);
    effect.interval.map_or_else(String::new, |(low, high)| format!("{} … {}", shown(low), shown(high)))
}

/// Compares every side with the first where both have runs with the same settings. Two sides with one setting each
/// are compared even if the settings differ: the difference is then the subject of the comparison.
pub fn verdicts(sides: &[Side], spec: &CompareSpec) -> Result<Vec<Verdicts>, Error> {
    let Some((base, others)) = sides.split_first() else { return Ok(Vec::new()) };
    let kinds = base.kinds();
    let mut all = Vec::new();
    for new in others {
        for (before, after, position) in pairs(&grouped(base), &grouped(new)) {
            let title = format!("{} against {}{position}", new.label, base.label);
            let failed = |problem| Error::Key { label: title.clone(), problem };
            let keys = spec.keys.clone().unwrap_or_else(|| shared_keys(&before.runs, &after.runs));
            let terms = Terms { confidence: spec.confidence, noise: spec.noise };
            let effects = keys.iter().map(|key| compare(key, &before.runs, &after.runs, terms));
            // Requested metrics need not exist for every kind.
            let mut effects: Vec<Effect> = match kinds.len() {
                1 => effects.collect::<Result<_, _>>().map_err(failed)?,
                _ => effects.filter_map(Result::ok).collect(),
            };
            // Throughput under a fixed request rate has no verdict.
            let scheduled = effects.iter().any(|effect| effect.offered.is_some());
            effects.retain(|effect| effect.offered.is_none());
            let delivered = scheduled.then(|| delivered(&before.runs, &after.runs)).flatten();
            if !effects.is_empty() || delivered.is_some() {
                let single = before.runs.len() == 1 || after.runs.len() == 1;
                let differs = difference((&before.settings, &before.runs), (&after.settings, &after.runs));
                all.push(Verdicts { effects, title, single, differs, delivered });
            }
        }
    }
    Ok(all)
}

/// The delivered part of a fixed request rate on both sides; `None` if they have no common rate.
pub fn delivered(base: &[StoredRun], new: &[StoredRun]) -> Option<String> {
    let rate = |runs: &[StoredRun]| runs.first().and_then(StoredRun::offered_rate);
    let wanted = rate(base).filter(|wanted| rate(new) == Some(*wanted))?;
    let sent = |runs: &[StoredRun]| {
        let of = |run: &StoredRun| run.fields.get("tacho")?.get("delivered_request_rate")?.as_f64();
        let known: Option<Vec<f64>> =
            runs.iter().map(|run| of(run).or_else(|| run.number("request_throughput"))).collect();
        known.map_or_else(|| "–".to_owned(), |known| short(known.iter().sum::<f64>() / known.len().max(1) as f64))
    };
    Some(format!("delivered {} of {} req/s (baseline {})", sent(new), short(wanted), sent(base)))
}

/// The runs of a side that are repeats of each other.
struct Setting {
    kind: ResultKind,
    settings: Settings,
    runs: Vec<StoredRun>,
}

fn grouped(side: &Side) -> Vec<Setting> {
    let runs = side.rows.iter().filter_map(|row| Some(((row.kind(), row.settings()), row.run.clone()?)));
    let groups = crate::distinct::by_key(runs).into_iter();
    let mut groups: Vec<Setting> = groups.map(|((kind, settings), runs)| Setting { kind, settings, runs }).collect();
    let level = |group: &Setting| {
        let run = group.runs.first();
        ["max_concurrency", "request_rate"].map(|key| run.and_then(|run| run.number(key)).unwrap_or(0.0))
    };
    groups.sort_by(|a, b| level(a).partial_cmp(&level(b)).unwrap_or(std::cmp::Ordering::Equal));
    groups
}

/// Matching settings of both sides, with a text for each pair. A setting with one value per side is the subject of
/// the comparison; all others must be equal.
fn pairs<'a>(base: &'a [Setting], new: &'a [Setting]) -> Vec<(&'a Setting, &'a Setting, String)> {
    if let ([one], [other]) = (base, new)
        && one.kind == other.kind
    {
        return vec![(one, other, String::new())];
    }
    let sets = |groups: &'a [Setting]| groups.iter().map(|group| &group.settings);
    let mut keys = varying(sets(base));
    let further = varying(sets(new)).into_iter().filter(|key| !keys.contains(key)).collect::<Vec<_>>();
    keys.extend(further);
    let mut found = Vec::new();
    for before in base {
        let wanted = only(&before.settings, &keys);
        let same = |after: &&Setting| after.kind == before.kind && only(&after.settings, &keys) == wanted;
        if let Some(after) = new.iter().find(same) {
            let position = match (before.kind, named(&before.settings, &keys)) {
                (ResultKind::Serving, position) => format!(" at {position}"),
                (kind, position) if position.is_empty() => format!(", {}", kind.name()),
                (kind, position) => format!(", {} of {position}", kind.name()),
            };
            found.push((before, after, position));
        }
    }
    found
}

pub fn difference((base, runs): (&Settings, &[StoredRun]), (new, new_runs): (&Settings, &[StoredRun])) -> String {
    let text =
        |set: &Settings, key: &str| value(set, key).filter(|value| !value.is_empty()).unwrap_or("none").to_owned();
    let keys = varying([base, new].into_iter());
    // A setting that another tool does not state need not differ.
    let is_other_tool = value(base, "tool") != value(new, "tool");
    let is_stated = |key: &&String| key.as_str() == "tool" || value(base, key).is_some() && value(new, key).is_some();
    let parts = keys
        .iter()
        .filter(|key| !is_other_tool || is_stated(key))
        .map(|key| format!("{key} {} → {}", text(base, key), text(new, key)));
    parts.chain(other_requests(runs, new_runs).map(str::to_owned)).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_have_the_digits_of_their_interval() {
        assert_eq!(factor(0.04, Some((0.03, 0.06)), true), "1.04× slower (1.03–1.06)");
        assert_eq!(factor(0.04, Some((0.0392, 0.0411)), true), "1.040× slower (1.039–1.041)");
        assert_eq!(factor(-0.5, Some((-0.6, -0.4)), false), "2.00× lower (1.67–2.50)");
        assert_eq!(factor(173.2, Some((59.0, 1e5)), true), "174× slower (60.0–over 10,000)");
        assert_eq!(factor(-0.5, None, true), "2.00× faster");
    }
}
