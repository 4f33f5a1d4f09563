//! The answer of `tacho capacity`: its lines, and `capacity.json`.

use std::io::Write;
use std::path::Path;

use anyhow::Context;
use tacho_core::json::{Dict, Value, dumps_indented};
use tacho_decide::search::Criterion;
use tacho_record::ResultFields;
use tacho_report::json::write_whole;
use tacho_report::style::short;

use crate::args::capacity::CapacityFlags;
use crate::commands::say;
use crate::exit::saved;

/// What is searched, and how long at most.
pub(super) fn header(place: &str, flags: &CapacityFlags) -> String {
    let slos: Vec<String> = flags.slos.iter().map(Criterion::spoken).collect();
    format!(
        "capacity of {place} in {} for {}: up to {} s of load (--budget)",
        flags.by.unit(),
        slos.join(" and "),
        flags.budget
    )
}

/// Prints the answer of the only search of an experiment, and writes it to `capacity.json`.
pub(super) fn show(flags: &CapacityFlags, experiment: &Path) -> anyhow::Result<()> {
    let entries = tacho_report::results::read(&experiment.join("sla_summary.json"))?;
    let mut entry = entries.into_iter().next().context("the search has no answer")?;
    let answer = Answer { flags, unit: flags.by.unit(), entry: &entry };
    let (lines, derived) = (answer.lines(), answer.derived());
    entry.update(&derived);
    let path = experiment.join("capacity.json");
    let text = dumps_indented(&Value::Dict(entry), 2) + "\n";
    write_whole(&path, |out| out.write_all(text.as_bytes()))?;
    say(&lines)?;
    saved(&path);
    Ok(())
}

struct Answer<'a> {
    flags: &'a CapacityFlags,
    unit: &'static str,
    /// The entry of `sla_summary.json`.
    entry: &'a Dict,
}

impl Answer<'_> {
    fn number(&self, key: &str) -> Option<f64> {
        ResultFields(self.entry).number(key)
    }

    fn text(&self, key: &str) -> &str {
        self.entry.get(key).and_then(Value::as_str).unwrap_or_default()
    }

    /// The largest load that was measured and met the SLOs.
    fn measured(&self) -> Option<f64> {
        self.number("max_measured")
    }

    fn cost(&self, key: &str) -> Option<f64> {
        self.entry.get("achieved")?.get(key)?.as_f64()
    }

    /// Servers that carry the target load.
    fn replicas(&self) -> Option<f64> {
        Some((self.flags.target? / self.measured()?).ceil())
    }

    /// What the flags add to the entry.
    fn derived(&self) -> Dict {
        let mut derived = Dict::new();
        if let Some((load, most)) = self.flags.load.zip(self.measured()) {
            derived.set("load", load);
            derived.set("headroom", most / load - 1.0);
        }
        if let Some((target, replicas)) = self.flags.target.zip(self.replicas()) {
            derived.set("target", target);
            derived.set("replicas", replicas as i64);
        }
        derived
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = vec![String::new(), self.headline()];
        let mut row = |name: &str, text: String| lines.push(format!("  {name:<11}{text}"));
        let unit = self.unit;
        if let Some((value, low)) = self.number("estimate").zip(self.number("ci_low")) {
            let range = match self.number("ci_high") {
                Some(high) => format!("95% range {} to {}", short(low), short(high)),
                None => format!("at least {}", short(low)),
            };
            row("estimate", format!("{} {unit}, {range}", short(value)));
        }
        if let Some(limit) = self.limit() {
            row("limited by", limit);
        }
        if let Some((load, most)) = self.flags.load.zip(self.measured()) {
            let percent = (100.0 * (most / load - 1.0)).abs();
            row(
                "headroom",
                match most >= load {
                    true => format!("{percent:.0}% above today's {load} {unit} (--load)"),
                    false => format!(
                        "none: today's {load} {unit} (--load) is {percent:.0}% less than measured",
                        percent = 100.0 * (load / most - 1.0)
                    ),
                },
            );
        }
        if let Some(cost) = self.cost("cost_per_million_tokens") {
            let output = self.cost("cost_per_million_output_tokens");
            let output = output.map_or_else(String::new, |cost| format!(", {} per million output tokens", short(cost)));
            row("cost", format!("{} per million tokens at that load{output}", short(cost)));
        }
        if let Some((target, replicas)) = self.flags.target.zip(self.replicas()) {
            row("replicas", format!("{replicas} such servers for {target} {unit} (--target)"));
        }
        row("search", self.text("stop_reason").to_owned());
        lines
    }

    fn headline(&self) -> String {
        let slos: Vec<String> = self.flags.slos.iter().map(Criterion::spoken).collect();
        let (slos, unit) = (slos.join(" and "), self.unit);
        match (self.text("verdict"), self.measured()) {
            ("inconclusive", Some(most)) => format!("Inconclusive: {most} {unit} was measured and met {slos}"),
            ("inconclusive", None) => format!("Inconclusive: no load met {slos} for certain"),
            ("unlimited", _) => format!("Any load meets {slos}: all requests of the first run at once did"),
            (_, Some(most)) => format!("Capacity: {most} {unit}, measured and met: {slos}"),
            (_, None) => format!("No load meets {slos}: even an almost idle server misses it"),
        }
    }

    /// What fails above the answer.
    fn limit(&self) -> Option<String> {
        let limit = self.entry.get("limited_by")?.as_str()?;
        let slo = self.flags.slos.iter().find(|slo| slo.metric == limit);
        let slo =
            slo.map_or_else(|| "the server's throughput: above it the backlog grows".to_owned(), Criterion::spoken);
        Some(slo)
    }
}
