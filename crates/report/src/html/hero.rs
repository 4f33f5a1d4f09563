//! The head of every page: the run, the verdict, and the most important metrics.

use tacho_core::json::Dict;
use tacho_metrics::{Interval, Setup};
use tacho_record::{Provenance, StoredRun, restored};

use super::escape;
use crate::style::{short, short_tick};
use crate::verdict::{Severity, word};
use crate::{console::bounds, tables::markdown::plain};

pub(crate) type Facts = Vec<(&'static str, String)>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Good,
    /// To be interpreted with care.
    Warning,
    Bad,
}

impl Tone {
    /// The verdict on a run with this tone.
    pub(crate) fn word(self) -> &'static str {
        word(match self {
            Tone::Good => None,
            Tone::Warning => Some(Severity::Warning),
            Tone::Bad => Some(Severity::Bad),
        })
    }
}

#[derive(Debug, Clone, Default)]
pub struct Head {
    pub(crate) title: String,
    facts: Facts,
    /// Warnings of the runs behind the page.
    inputs: Vec<String>,
    verdict: String,
    cards: Vec<String>,
    /// Whether the metrics are not to be used: their cards are gray.
    doubtful: bool,
}

impl Head {
    pub fn new(title: impl Into<String>) -> Self {
        Head { title: title.into(), ..Head::default() }
    }

    /// The head of a page about several results, with the facts that they have in common. `judged` are the results that
    /// the page's conclusion rests on: it shows their warnings.
    pub fn of_results(title: impl Into<String>, results: &[&Dict], judged: &[&Dict]) -> Self {
        let runs: Vec<StoredRun> = results.iter().filter_map(|result| StoredRun::from_dict(result).ok()).collect();
        let mut head = Head::new(title).facts(common(&runs.iter().collect::<Vec<_>>()));
        head.facts.push(("runs", runs.len().to_string()));
        head.inputs(crate::inputs::of_results(None, judged.iter().copied()))
    }

    /// Adds warnings of the runs behind the page. They precede the verdict, which is then not good without reserve.
    pub fn inputs(mut self, warnings: Vec<String>) -> Self {
        self.inputs.extend(warnings);
        self
    }

    /// Adds a fact; an empty one is not shown.
    pub fn fact(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.facts.push((name, value.into()));
        self
    }

    pub(crate) fn facts(mut self, facts: Facts) -> Self {
        self.facts.extend(facts);
        self
    }

    /// Sets the verdict, with its reason and a recommended command if there are any.
    pub fn verdict(self, tone: Tone, sentence: &str, reason: Option<&str>, next: Option<&str>) -> Self {
        let items = reason.map_or_else(String::new, |reason| format!("<li>{}</li>", escape(reason)));
        self.verdict_with(tone, sentence, &items, next)
    }

    /// Sets the verdict with reasons that are already list items.
    pub(crate) fn verdict_with(mut self, tone: Tone, sentence: &str, items: &str, next: Option<&str>) -> Self {
        let class = match tone {
            Tone::Good if self.inputs.is_empty() => "",
            Tone::Good | Tone::Warning => " warn",
            Tone::Bad => " bad",
        };
        let items = if items.is_empty() { String::new() } else { format!("<ul>{items}</ul>") };
        let next = next.map_or_else(String::new, |next| format!("<p class=\"next\">Next: {}</p>", escape(next)));
        self.verdict += &format!("<div class=\"verdict{class}\"><b>{}</b>{items}{next}</div>\n", escape(sentence));
        self
    }

    /// Adds a large metric with a line below it.
    pub fn card(self, name: &str, value: &str, below: &str) -> Self {
        self.cards(vec![fact_card(name, value, below)])
    }

    pub(crate) fn cards(mut self, cards: Vec<String>) -> Self {
        self.cards.extend(cards);
        self
    }

    pub(crate) fn doubtful(mut self, doubtful: bool) -> Self {
        self.doubtful = doubtful;
        self
    }

    pub(crate) fn html(&self) -> String {
        let item = |(name, value): &(&str, String)| format!("<span>{name} <b>{}</b></span>", escape(value));
        let facts: String = self.facts.iter().filter(|(_, value)| !value.is_empty()).map(item).collect();
        let facts = if facts.is_empty() { facts } else { format!("<p class=\"what\">{facts}</p>\n") };
        let warnings: String = self.inputs.iter().map(|warning| format!("<li>{}</li>", escape(warning))).collect();
        let warnings = match warnings.is_empty() {
            true => warnings,
            false => format!("<div class=\"verdict bad\"><b>Warnings of the runs</b><ul>{warnings}</ul></div>\n"),
        };
        let cards = self.cards.concat();
        let class = if self.doubtful { "hero doubtful" } else { "hero" };
        let cards = if cards.is_empty() { cards } else { format!("<div class=\"{class}\">{cards}</div>\n") };
        format!("<h1>{}</h1>\n{facts}{warnings}{}{cards}", escape(&self.title), self.verdict)
    }
}

/// Facts about a run's provenance for the head of its page.
pub(crate) fn origin(provenance: &Provenance) -> Facts {
    let version = |tacho: &String| tacho.split(' ').next().unwrap_or_default().to_owned();
    let facts = [
        ("server", provenance.server.name()),
        ("dataset", provenance.dataset.clone()),
        ("seed", provenance.seed.map(|seed| seed.to_string())),
        ("tacho", provenance.tacho.as_ref().map(version)),
    ];
    facts.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

pub(crate) fn load(setup: &Setup) -> String {
    if !setup.stages.is_empty() {
        let names: Vec<String> = setup.stages.iter().map(|stage| format!("{} {}", stage.name, stage.load)).collect();
        return if names.len() <= 4 { names.join(" · ") } else { format!("{} stages", names.len()) };
    }
    let limit = setup.max_concurrency.map(|limit| format!("at most {limit} in flight"));
    let rate = match (&setup.ramp_up, setup.self_timed, setup.request_rate) {
        (Some(ramp), ..) => Some(format!("{} – {} req/s, {}", ramp.start_rps, ramp.end_rps, ramp.strategy)),
        (None, true, _) => Some("recorded times".to_owned()),
        (None, false, rate) if rate.is_finite() => Some(format!("{} req/s", short_tick(rate))),
        _ => None,
    };
    let parts: Vec<String> = rate.into_iter().chain(limit).collect();
    if parts.is_empty() { "all at once".to_owned() } else { parts.join(", ") }
}

pub(crate) fn common(runs: &[&StoredRun]) -> Facts {
    let of = |run: &&StoredRun| {
        let text = |key: &str| run.fields.get(key).map(plain).unwrap_or_default();
        let load = load(&restored::setup(&run.fields));
        vec![("model", text("model_id")), ("load", load)].into_iter().chain(origin(&run.provenance())).collect()
    };
    let all: Vec<Facts> = runs.iter().map(of).collect();
    let Some((first, others)) = all.split_first() else { return Facts::new() };
    first.iter().filter(|fact| others.iter().all(|facts| facts.contains(fact))).cloned().collect()
}

pub(crate) fn card(name: &str, value: f64, unit: &str, interval: Option<Interval>) -> String {
    let interval = interval.map_or_else(String::new, |interval| format!("95% CI {}", bounds(interval)));
    let text = if value.fract() == 0.0 { short_tick(value) } else { short(value) };
    fact_card(name, &format!("{text}{unit}"), &interval)
}

pub(crate) fn fact_card(name: &str, value: &str, below: &str) -> String {
    let below = if below.is_empty() { String::new() } else { format!("<small>{}</small>", escape(below)) };
    format!("<div class=\"card\"><span>{}</span><b>{}</b>{below}</div>", escape(name), escape(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_core::json::parse;

    #[test]
    fn several_runs_show_what_they_have_in_common() {
        let run = |text: &str| parse(text).unwrap().as_dict().unwrap().clone();
        let one = run(r#"{"model_id": "m", "request_rate": 10.0, "max_concurrency": null, "duration": 1.0}"#);
        let other = run(r#"{"model_id": "m", "request_rate": 20.0, "max_concurrency": null, "duration": 1.0}"#);
        let html = Head::of_results("t <b>", &[&one, &other], &[]).html();
        assert!(html.contains("model <b>m</b>") && html.contains("runs <b>2</b>"), "{html}");
        assert!(!html.contains("req/s") && !html.contains("<b>t"), "{html}");
        assert!(Head::of_results("t", &[&one], &[&one]).html().contains("10 req/s"));
    }

    #[test]
    fn a_good_verdict_on_bad_inputs_is_not_green() {
        let text = r#"{"tacho": {"caveats": [{"kind": "client_unreliable", "text": "client: <b>LATE"}]}}"#;
        let result = parse(text).unwrap().as_dict().unwrap().clone();
        let html = |judged: &[&Dict]| {
            Head::of_results("t", &[&result], judged).verdict(Tone::Good, "It holds.", None, None).html()
        };
        assert!(html(&[]).contains(r#"<div class="verdict"><b>It holds"#), "{}", html(&[]));
        let doubted = html(&[&result]);
        assert!(doubted.contains("warning[client_unreliable]: client: &lt;b&gt;LATE"), "{doubted}");
        assert!(doubted.contains(r#"<div class="verdict warn"><b>It holds"#), "{doubted}");
    }
}
