//! The result of `tacho ab-test`: text, JSON and page.

use tacho_core::dict;
use tacho_core::json::{Dict, Value};
use tacho_decide::compare::{Effect, compare_pairs, shared_keys};
use tacho_decide::gate::{Decision, Judgment};
use tacho_record::{ServerFacts, StoredRun};

use super::{CompareSpec, GateView, Verdicts, forest::forest_svg, gate::word, page::effects};
use crate::html::hero::{Head, Tone, common};
use crate::html::{Figures, distributions, escape, page};
use crate::{inputs, plots::key_label, style::short_tick};

#[derive(Debug)]
pub struct AbTestView<'a> {
    pub gate: GateView<'a>,
    /// The servers: the baseline and the candidate.
    pub servers: [&'a str; 2],
    pub base: &'a [StoredRun],
    pub new: &'a [StoredRun],
    pub seconds: f64,
    /// Why the test ended: one word.
    pub stopped: &'a str,
    pub date: &'a str,
}

impl AbTestView<'_> {
    pub fn json(&self) -> Dict {
        let GateView { failures, decisions, confidence, warnings, differs, .. } = self.gate;
        let count =
            |side: Option<(u64, u64)>| side.map_or(Value::Null, |(failed, all)| [failed, all].into_iter().collect());
        let failed = dict! {
            "a": count(failures.base), "b": count(failures.new), "verdict": name(failures.judgment),
        };
        dict! {
            "type": "ab-test", "version": 1_i64, "date": self.date,
            "a": self.servers[0], "b": self.servers[1],
            "verdict": name(self.gate.overall()), "stopped": self.stopped,
            "pairs": self.base.len() as u64, "seconds": self.seconds, "confidence": confidence.percent(),
            "rules": decisions.iter().map(|decision| Value::Dict(self.rule(decision))).collect::<Value>(),
            "failures": failed,
            "warnings": warnings.iter().map(|text| Value::from(text.as_str())).collect::<Value>(),
            "differs": differs,
        }
    }

    /// A rule with the values of all pairs, in the order of measurement.
    fn rule(&self, decision: &Decision) -> Dict {
        let effect = &decision.effect;
        let number = |value: f64| if value.is_finite() { Value::Float(value) } else { Value::Null };
        let values = |runs: &[StoredRun]| {
            let value = |run: &StoredRun| run.number(&effect.key).or_else(|| Some(run.spread(&effect.key)?.value));
            runs.iter().map(|run| value(run).map_or(Value::Null, number)).collect::<Value>()
        };
        let (low, high) = effect.interval.unwrap_or((f64::NAN, f64::NAN));
        dict! {
            "metric": effect.key.as_str(), "left_out": decision.left_out(self.base.len()) as u64, "limit": decision.rule.limit_text(), "verdict": name(decision.judgment),
            "a": number(effect.base), "b": number(effect.new), "change": number(effect.change),
            "low": number(low), "high": number(high),
            "values_a": values(self.base), "values_b": values(self.new),
        }
    }

    /// The page: the verdict and the rules, then every metric that both sides have.
    pub fn html(&self) -> String {
        let mut figures = Figures::default();
        let [a, b] = self.servers;
        let title = format!("{b} against {a}");
        let runs: Vec<&StoredRun> = self.base.iter().chain(self.new).collect();
        let tone = match self.gate.overall() {
            Judgment::Within => Tone::Good,
            Judgment::Beyond => Tone::Bad,
            Judgment::Inconclusive | Judgment::Scheduled => Tone::Warning,
        };
        let differs = format!("Settings that differ: {}", self.gate.differs);
        let head = Head::new(format!("A/B test: {title}"))
            .facts(common(&runs))
            .fact("pairs", self.base.len().to_string())
            .fact("seconds", short_tick(self.seconds.round()))
            .inputs(self.gate.warnings.to_vec())
            .verdict(
                tone,
                &self.gate.headline(),
                Some(differs.as_str()).filter(|_| !self.gate.differs.is_empty()),
                None,
            );
        let mut rows = self.gate.rows();
        rows.iter_mut().for_each(|row| row.name = key_label(&row.name));
        let notes: String =
            rows.iter().map(|row| format!("<li>{}: {}</li>", escape(&row.name), escape(&row.note))).collect();
        let mut body = format!(
            "<h2>Rules</h2>\n<p class=\"note\">Change of B against A with its confidence sequence; dashed: limit.</p>\n\
             <div class=\"wide\" tabindex=\"0\">{}</div><ul>{notes}</ul>\n",
            forest_svg(&rows, &title)
        );
        let spec = CompareSpec { confidence: self.gate.confidence, ..CompareSpec::usual() };
        body += &effects(&self.all_metrics(title, &spec), &spec);
        let sides = [("A".to_owned(), self.base.to_vec()), ("B".to_owned(), self.new.to_vec())];
        body += &distributions(&sides, &mut figures);
        page(&head, &body, figures)
    }

    fn all_metrics(&self, title: String, spec: &CompareSpec) -> Verdicts {
        let compared = |key: &String| compare_pairs(key, self.base, self.new, spec.confidence).ok();
        let effects: Vec<Effect> = shared_keys(self.base, self.new).iter().filter_map(compared).collect();
        let effects = effects.into_iter().filter(|effect| effect.offered.is_none()).collect();
        Verdicts { title, effects, single: false, differs: String::new(), delivered: None }
    }
}

fn name(judgment: Judgment) -> &'static str {
    match judgment {
        Judgment::Beyond => "regressed",
        Judgment::Scheduled => "set by schedule",
        other => word(other).0,
    }
}

/// Warnings of both sides, and prefix caches that helped one side more.
pub fn side_warnings(base: &[StoredRun], new: &[StoredRun]) -> Vec<String> {
    let of = |side: &str, runs: &[StoredRun]| inputs::of_results(Some(side), runs.iter().map(|run| &run.fields));
    let caches =
        inputs::cache_difference(("A", base.iter().map(|run| &run.fields)), ("B", new.iter().map(|run| &run.fields)));
    [of("A", base), of("B", new)].concat().into_iter().chain(caches).collect()
}

/// Versions and settings in which the servers differ, as far as they state them; empty if they do not.
pub fn server_difference(base: &[StoredRun], new: &[StoredRun]) -> String {
    let facts = |runs: &[StoredRun]| runs.last().map(|run| run.provenance().server).unwrap_or_default();
    let (a, b): (ServerFacts, ServerFacts) = (facts(base), facts(new));
    let mut parts = Vec::new();
    if let Some((a, b)) = a.name().zip(b.name()).filter(|(a, b)| a != b) {
        parts.push(format!("server {a} -> {b}"));
    }
    for (key, value) in &a.settings {
        let other = b.settings.iter().find(|(name, _)| name == key);
        parts.extend(other.filter(|(_, other)| other != value).map(|(_, other)| format!("{key} {value} -> {other}")));
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(version: &str, hits: f64, setting: &str) -> StoredRun {
        let server = dict! { "engine": "vLLM", "version": version, "settings": dict! { "dtype": setting } };
        let own = dict! {
            "server_metrics": dict! { "prefix_cache_hit_rate": hits },
            "provenance": dict! { "server": server },
        };
        StoredRun::from_dict(&dict! { "duration": 1.0, "completed": 9_u64, "failed": 0_u64, "tacho": own }).unwrap()
    }

    #[test]
    fn sides_that_differ_beyond_their_speed_are_named() {
        let (a, b) = ([run("1", 0.1, "x"), run("1", 0.2, "x")], [run("2", 0.6, "y"), run("2", 0.7, "y")]);
        assert_eq!(server_difference(&a, &b), "server vLLM 1 -> vLLM 2, dtype x -> y");
        assert_eq!(side_warnings(&a, &b), ["warning[inputs_differ]: prefix cache hit rate 15% in A, 65% in B"]);
        assert!(server_difference(&a, &a).is_empty() && side_warnings(&a, &a).is_empty());
    }
}
