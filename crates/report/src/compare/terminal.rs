//! A comparison on a terminal: a sentence and a forest plot per pair of sides.

use tacho_decide::compare::{Effect, Verdict};

use super::forest::{ForestRow, forest};
use super::{CompareSpec, Verdicts};
use crate::style::{Ink, fold, harmless_line};

/// The limitation of a single run per side.
pub(super) const SINGLE: &str =
    "One run per side shows what varies within a run, not from run to run: repeat with --num-runs 4.";

/// How the values of several runs are averaged: a change is the ratio of two of them.
pub(super) const SEVERAL: &str = "Values are geometric means of the runs of a side.";

/// The verdicts for a terminal of this width, below the warnings of the runs.
pub fn terminal(
    verdicts: &[Verdicts],
    warnings: &[String],
    spec: &CompareSpec,
    (width, color): (usize, bool),
) -> String {
    let mut lines: Vec<String> = warnings.iter().flat_map(|warning| fold(warning, width, 2)).collect();
    for verdict in verdicts {
        lines.extend(fold(&harmless_line(&verdict.sentence(spec)), width, 2));
        if !verdict.differs.is_empty() {
            lines.extend(fold(&format!("Settings that differ: {}", harmless_line(&verdict.differs)), width, 2));
        }
        lines.push(String::new());
        if !verdict.effects.is_empty() {
            lines.extend(forest(&verdict.rows(spec), width, color));
            lines.push(String::new());
        }
    }
    if verdicts.iter().any(|verdict| verdict.single) {
        lines.extend(fold(SINGLE, width, 2));
    }
    if verdicts.iter().any(|verdict| !verdict.single) {
        lines.extend(fold(SEVERAL, width, 2));
    }
    lines.join("\n") + "\n"
}

impl Verdicts {
    /// The lines of a forest plot; the margin is drawn on both sides.
    pub(super) fn rows(&self, spec: &CompareSpec) -> Vec<ForestRow> {
        let row = |effect: &Effect| {
            let verdict = effect.verdict(spec.margin);
            let ink = match verdict {
                Verdict::Better => Ink::Green,
                Verdict::Worse => Ink::Red,
                Verdict::Equal | Verdict::Scheduled => Ink::Dim,
                Verdict::Inconclusive => Ink::Yellow,
            };
            ForestRow {
                verdict: (verdict.text(), ink),
                name: harmless_line(&effect.key),
                values: (effect.base, effect.new),
                change: effect.change,
                scale: effect.scale,
                interval: effect.interval,
                limits: vec![-spec.margin, spec.margin],
                note: String::new(),
            }
        };
        self.effects.iter().map(row).collect()
    }
}
