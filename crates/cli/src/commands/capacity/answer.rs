//! The answer of `tacho capacity`: its lines, and `capacity.json`.

use std::path::Path;

use tacho_core::dict;
use tacho_core::json::{Dict, Json, Value, dumps_indented};
use tacho_decide::search::{Criterion, SearchAnswer, Verdict};
use tacho_report::{json::write_text, style::short};

use crate::{args::capacity::CapacityFlags, commands::say, exit::saved};

/// The file of the answer.
pub(super) const FILE: &str = "capacity.json";

/// What is searched, and how long at most.
pub(super) fn header(server: &str, flags: &CapacityFlags) -> String {
    let slos: Vec<String> = flags.slos.iter().map(Criterion::described).collect();
    format!(
        "capacity of {server} in {} for {}: up to {} s of load (--budget)",
        flags.by.unit(),
        slos.join(" and "),
        flags.budget
    )
}

/// Prints the answer of a search, and writes it to `capacity.json`.
pub(super) fn show(flags: &CapacityFlags, found: &SearchAnswer, experiment: &Path) -> anyhow::Result<()> {
    let answer = Answer { flags, unit: flags.by.unit(), found };
    let path = experiment.join(FILE);
    let text = dumps_indented(&answer.json().into(), 2) + "\n";
    write_text(&path, &text)?;
    say(&answer.lines())?;
    saved(&path);
    Ok(())
}

struct Answer<'a> {
    flags: &'a CapacityFlags,
    unit: &'static str,
    found: &'a SearchAnswer,
}

impl Answer<'_> {
    /// Today's load, and how far the largest load that met the SLOs is above it.
    fn headroom(&self) -> Option<(f64, f64)> {
        let (load, max) = self.flags.load.zip(self.found.max_measured)?;
        Some((load, max / load - 1.0))
    }

    /// Whether today's load may exceed the capacity or not, by the range of the estimate.
    fn is_in_range(&self, load: f64) -> bool {
        self.found.ci_low.is_some_and(|low| low <= load) && self.found.ci_high.is_none_or(|high| load <= high)
    }

    /// The target load, and the servers that carry it.
    fn replicas(&self) -> Option<(f64, f64)> {
        let (target, max) = self.flags.target.zip(self.found.max_measured)?;
        Some((target, (target / max).ceil()))
    }

    /// The fewest and the most servers that the range of the estimate allows.
    fn replica_range(&self) -> Option<(f64, f64)> {
        let (target, (low, high)) = self.flags.target.zip(self.found.ci_low.zip(self.found.ci_high))?;
        (low > 0.0).then(|| ((target / high).ceil(), (target / low).ceil()))
    }

    /// The answer with what the flags add.
    fn json(&self) -> Dict {
        dict! {
            ..self.found.to_json().as_dict().cloned().unwrap_or_default(),
            "load"?: self.headroom().map(|(load, _)| load),
            "headroom"?: self.headroom().map(|(_, headroom)| headroom),
            "target"?: self.replicas().map(|(target, _)| target),
            "replicas"?: self.replicas().map(|(_, replicas)| replicas as i64),
            "replicas_range"?: self.replica_range().map(|(low, high)| [low as i64, high as i64].into_iter().collect::<Value>()),
        }
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = vec![String::new(), self.headline()];
        let mut row = |name: &str, text: String| lines.push(format!("  {name:<11}{text}"));
        let (unit, found) = (self.unit, self.found);
        if let Some((value, low)) = found.estimate.zip(found.ci_low) {
            let range = match found.ci_high {
                Some(high) => format!("95% range {} to {}", short(low), short(high)),
                None => format!("at least {}", short(low)),
            };
            row("estimate", format!("{} {unit}, {range}", short(value)));
        }
        if let Some(limit) = self.limit() {
            row("limited by", limit);
        }
        if let Some((load, headroom)) = self.headroom() {
            row(
                "headroom",
                match headroom >= 0.0 {
                    true => format!("{:.0}% above today's {load} {unit} (--load)", 100.0 * headroom),
                    false if self.is_in_range(load) => {
                        format!("unknown: today's {load} {unit} (--load) is within the range of the estimate")
                    }
                    false => format!(
                        "none: today's {load} {unit} (--load) is {:.0}% more than the load measured and met",
                        100.0 * (1.0 / (1.0 + headroom) - 1.0)
                    ),
                },
            );
        }
        if let Some(cost) = found.achieved.get("cost_per_million_tokens") {
            let output = found.achieved.get("cost_per_million_output_tokens");
            let output = output.map_or_else(String::new, |cost| format!(", {} per million output tokens", short(cost)));
            row("cost", format!("{} per million tokens at that load{output}", short(cost)));
        }
        if let Some((target, replicas)) = self.replicas() {
            let range = self.replica_range().filter(|(low, high)| low < high);
            let range = range.map_or_else(String::new, |(low, high)| format!("; {low} to {high} by the estimate"));
            let s = if replicas == 1.0 { "" } else { "s" };
            row("replicas", format!("{replicas} such server{s} for {target} {unit} (--target){range}"));
        }
        row("search", found.stop_reason.clone());
        lines
    }

    fn headline(&self) -> String {
        let slos: Vec<String> = self.flags.slos.iter().map(Criterion::described).collect();
        let (slos, unit) = (slos.join(" and "), self.unit);
        match (self.found.verdict, self.found.max_measured) {
            (Verdict::Inconclusive, Some(max)) => format!("Inconclusive: {max} {unit}, measured and met: {slos}"),
            (Verdict::Inconclusive, None) => format!("Inconclusive: no load met {slos} for certain"),
            (Verdict::Unlimited, _) => format!("Any load meets {slos}: all requests of the first run at once did"),
            (_, Some(max)) => format!("Capacity: {max} {unit}, measured and met: {slos}"),
            (_, None) => format!("No load meets {slos}: even an almost idle server misses it"),
        }
    }

    /// What fails above the answer.
    fn limit(&self) -> Option<String> {
        let limit = self.found.limited_by.as_ref()?;
        let slo = self.flags.slos.iter().find(|slo| slo.metric == *limit);
        let slo =
            slo.map_or_else(|| "the server's throughput: above it the backlog grows".to_owned(), Criterion::described);
        Some(slo)
    }
}
