//! A gate on a terminal: the verdict, then a forest plot with the limit of each rule.

use tacho_decide::compare::{Confidence, Scale};
use tacho_decide::gate::{Decision, Failures, Judgment, Limit, Remedy};
use tacho_record::metric::Better;

use super::forest::{ForestRow, change_in, forest};
use super::terminal::{SEVERAL, SINGLE};
use crate::style::{Ink, fold, harmless_line, short_tick};

#[derive(Debug)]
pub struct GateView<'a> {
    pub failures: &'a Failures,
    pub decisions: &'a [Decision],
    pub confidence: Confidence,
    /// Warnings of the runs on both sides.
    pub warnings: &'a [String],
    /// Settings that differ between the sides; empty if none do.
    pub differs: &'a str,
    /// The delivered part of a fixed request rate, on both sides.
    pub delivered: Option<&'a str>,
    /// How the values came about, below the plot.
    pub note: Option<&'a str>,
}

impl GateView<'_> {
    pub fn text(&self, width: usize, color: bool) -> String {
        let mut lines: Vec<String> = fold(&self.headline(), width, 2);
        lines.iter_mut().for_each(|line| *line = word(self.overall()).1.paint(color, line));
        lines.extend(self.failure_line().into_iter().flat_map(|line| fold(&line, width, 2)));
        lines.extend(self.warnings.iter().flat_map(|warning| fold(warning, width, 2)));
        if !self.differs.is_empty() {
            lines.extend(fold(&format!("Settings that differ: {}", harmless_line(self.differs)), width, 2));
        }
        if !self.decisions.is_empty() {
            lines.push(String::new());
            lines.extend(forest(&self.rows(), width, color));
        }
        if let Some(note) = self.note.filter(|_| !self.decisions.is_empty()) {
            lines.push(String::new());
            lines.extend(fold(note, width, 2));
        }
        lines.join("\n") + "\n"
    }

    /// The note for single runs per side, or for several.
    pub fn note_of(decisions: &[Decision], single: bool) -> Option<&'static str> {
        let has_interval = decisions.iter().any(|decision| decision.effect.interval.is_some());
        if single { Some(SINGLE).filter(|_| has_interval) } else { Some(SEVERAL) }
    }

    pub(super) fn overall(&self) -> Judgment {
        Judgment::overall(self.failures, self.decisions)
    }

    pub(super) fn rows(&self) -> Vec<ForestRow> {
        self.decisions.iter().map(|decision| self.row(decision)).collect()
    }

    /// The verdict and the metrics it comes from.
    pub fn headline(&self) -> String {
        let overall = self.overall();
        let named = |wanted: Judgment| {
            let failed = (self.failures.judgment == wanted && wanted == Judgment::Beyond).then_some("failed requests");
            let keys = self.decisions.iter().filter(|decision| decision.judgment == wanted);
            let names = failed.into_iter().chain(keys.map(|decision| decision.effect.key.as_str()));
            names.collect::<Vec<_>>().join(", ")
        };
        let mut line = match overall {
            Judgment::Within => format!("ok {}", named(Judgment::Within)),
            Judgment::Inconclusive if named(overall).is_empty() => {
                "inconclusive: the request rate determines every metric of the rules".to_owned()
            }
            _ => format!("{} {}", word(overall).0, named(overall)),
        };
        let open = named(Judgment::Inconclusive);
        if overall == Judgment::Beyond && !open.is_empty() {
            line += &format!("; inconclusive {open}");
        }
        harmless_line(line.trim_end())
    }

    /// The line about failed requests; `None` if nothing failed or the files lack the counts.
    fn failure_line(&self) -> Option<String> {
        let failures = self.failures;
        let counted = |side: Option<(u64, u64)>| {
            side.map_or("unknown".to_owned(), |(failed, all)| {
                format!("{failed} of {all} ({}%)", short_tick(failed as f64 * 100.0 / all.max(1) as f64))
            })
        };
        let any = [failures.base, failures.new].into_iter().flatten().any(|(failed, _)| failed > 0);
        let limit = match failures.max {
            Some(max) => format!("limit {}%", short_tick(max * 100.0)),
            None if failures.judgment == Judgment::Beyond => "a significant increase".to_owned(),
            None => "no significant increase".to_owned(),
        };
        let (base, new) = (counted(failures.base), counted(failures.new));
        (any || failures.max.is_some()).then(|| format!("failed requests: {base} -> {new}, {limit}"))
    }

    fn row(&self, decision: &Decision) -> ForestRow {
        let effect = &decision.effect;
        let sign = if effect.better == Better::More { -1.0 } else { 1.0 };
        let scheduled = decision.judgment == Judgment::Scheduled;
        ForestRow {
            verdict: word(decision.judgment),
            name: harmless_line(&effect.key),
            values: (effect.base, effect.new),
            change: if scheduled { f64::NAN } else { effect.change },
            interval: effect.interval.filter(|_| !scheduled),
            scale: effect.scale,
            limits: vec![sign * decision.rule.allowance(effect)],
            note: self.note(decision),
        }
    }

    /// The limit with its unit, the interval, and what would decide an inconclusive rule.
    fn note(&self, decision: &Decision) -> String {
        let effect = &decision.effect;
        let sign = if effect.better == Better::More { '-' } else { '+' };
        let limit = decision.rule.limit_text();
        let mut parts = vec![match decision.rule.limit {
            Limit::Insignificant => limit,
            _ => format!("limit {sign}{limit}"),
        }];
        if decision.judgment == Judgment::Scheduled {
            parts.extend(self.delivered.map(str::to_owned));
            parts.push("set by the request rate, no verdict".to_owned());
            return parts.join("; ");
        }
        let shown = |change| change_in(effect.scale, change);
        let interval = effect.interval.map(|(low, high)| (shown(low), shown(high)));
        parts.extend(interval.map(|(low, high)| format!("{}% CI {low} … {high}", self.confidence.percent())));
        parts.push(effect.basis.text());
        parts.extend(decision.alone.then(|| "beyond it alone, but not with the other rules (Holm)".to_owned()));
        let is_best = effect.is_of_the_same() || effect.scale != Scale::Relative;
        parts.extend(decision.remedy.map(|remedy| advice(remedy, is_best)));
        parts.join("; ")
    }
}

pub(super) fn word(judgment: Judgment) -> (&'static str, Ink) {
    match judgment {
        Judgment::Within => ("ok", Ink::Green),
        Judgment::Beyond => ("REGRESSED", Ink::Red),
        Judgment::Inconclusive => ("inconclusive", Ink::Yellow),
        Judgment::Scheduled => ("–", Ink::Dim),
    }
}

/// What would decide; `is_best` if other runs would not be more precise than more of these.
fn advice(remedy: Remedy, is_best: bool) -> String {
    let more = match remedy {
        Remedy::Requests(more) => format!("about {more} more requests a side would decide"),
        Remedy::Runs(1) => "about 1 more run a side would decide".into(),
        Remedy::Runs(more) => format!("about {more} more runs a side would decide"),
        Remedy::Pairs(more) => format!("about {more} more pair{} would decide", if more == 1 { "" } else { "s" }),
        Remedy::TooClose => "too close to the limit to be decided by measuring more".into(),
        Remedy::Spread => {
            return "one value per side has no variance: save runs with --save-detailed, pass three or more runs per side, or \
                    set their standard deviation with --assume-noise 3%"
                .into();
        }
        Remedy::Answers => return "there is nothing to compare".into(),
    };
    let paired = if is_best { "" } else { "; most precise: both sides with the same seed, 4 runs each" };
    more + paired
}
