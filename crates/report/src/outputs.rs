//! Checked and graded outputs: lines on a terminal, the objects of the result file, a section of the page.

use tacho_core::OutputCheck;
use tacho_decide::outputs::{Dependence, FALSE_ALARMS, MARGIN, Question, questions};
use tacho_metrics::{Interval, Sample, ScoreStatistics, Share};
use tacho_record::RunRecord;

use crate::html::escape;
use crate::style::{harmless, short, short_tick};

/// Most differing outputs that the page shows.
const EXAMPLES: usize = 10;

fn percent(value: f64) -> String {
    format!("{:.1}%", value * 100.0)
}

fn points(question: &Question) -> String {
    let Interval { low, high } = question.interval;
    format!("{:+.1} points ({:+.1} … {:+.1})", question.effect * 100.0, low * 100.0, high * 100.0)
}

/// A p-value, which a permutation test does not know below a thousandth.
fn p_value(question: &Question) -> String {
    if question.p_value < 0.001 { "p < 0.001".to_owned() } else { format!("p = {:.3}", question.p_value) }
}

fn share(share: &Share) -> String {
    format!("{} ({} … {})", percent(share.value), percent(share.interval.low), percent(share.interval.high))
}

/// The comparison with the references in a line; `None` without one.
pub(crate) fn fact(record: &RunRecord) -> Option<(&'static str, String)> {
    let found = record.open_loop.outputs.as_ref()?;
    let mut parts = vec![format!("{} of {} differ from their references", found.differing.count, found.differing.of)];
    parts.push(share(&found.differing));
    parts.extend(found.alone.map(|alone| format!("sent alone {} of {}", alone.count, alone.of)));
    parts.extend((found.swapped > 0).then(|| format!("{} belong to other requests", found.swapped)));
    parts.extend(found.flaws.iter().map(|(flaw, count)| format!("{count} {}", flaw.replace('_', " "))));
    parts.extend(
        found.first_difference.map(|at| format!("first difference after {} characters (median)", short_tick(at))),
    );
    parts.extend(found.first_token.map(|at| format!("first different token after {} (median)", short_tick(at))));
    parts.extend(found.kl.map(|(mean, max)| format!("KL divergence mean {}, max {} nats", short(mean), short(max))));
    Some(("outputs", parts.join(" · ")))
}

pub(crate) fn dependence(record: &RunRecord) -> Option<(&'static str, String)> {
    record.open_loop.outputs.as_ref()?;
    let questions = questions(record);
    let with = |wanted: Dependence| questions.iter().filter(move |question| question.answer == wanted);
    let mut parts: Vec<String> = with(Dependence::Found)
        .map(|question| {
            let Question { factor, groups: (more, less), .. } = question;
            format!("{factor}, {more} against {less}: {}, {}", points(question), p_value(question))
        })
        .collect();
    let mut list = |wanted, text: &str| {
        let names: Vec<&str> = with(wanted).map(|question| question.factor.as_str()).collect();
        parts.extend((!names.is_empty()).then(|| format!("{text} {}", names.join(", "))));
    };
    list(Dependence::Excluded, "not on");
    list(Dependence::Inconclusive, "inconclusive:");
    (!parts.is_empty()).then(|| ("depends on", parts.join(" · ")))
}

pub(crate) fn scores(record: &RunRecord) -> Option<(&'static str, String)> {
    let one = |score: &ScoreStatistics| {
        let Share { value, of, interval: Interval { low, high }, .. } = score.mean;
        format!("{} {value:.3} ({low:.3} … {high:.3}) of {of}", score.name)
    };
    let all: Vec<String> = record.open_loop.scores.iter().map(one).collect();
    (!all.is_empty()).then(|| ("scores", all.join(" · ")))
}

/// The section of the page; empty without a check.
pub(crate) fn section(record: &RunRecord) -> String {
    let Some(found) = &record.open_loop.outputs else { return String::new() };
    let row = |question: &Question| {
        let (more, less) = &question.groups;
        format!(
            "<tr><th>{}</th><td>{}</td><td class=\"n\">{}</td><td>{} – {}</td><td class=\"n\">{}</td></tr>\n",
            escape(&question.factor),
            question.answer.name(),
            points(question),
            escape(more),
            escape(less),
            p_value(question)
        )
    };
    let rows: String = questions(record).iter().map(row).collect();
    let summary = fact(record).map_or_else(String::new, |(_, text)| escape(&text));
    let differing = record.measured.samples.iter().filter(|sample| sample.check.as_ref().is_some_and(|c| c.differs()));
    let examples: String = differing.filter_map(|sample| example(&sample)).take(EXAMPLES).collect();
    let examples = match (examples.is_empty(), found.differing.count > 0.0) {
        (true, true) => {
            "<p class=\"note\">Texts are kept with --save-detailed; the page then shows examples.</p>".to_owned()
        }
        (true, false) => String::new(),
        _ => format!(
            "<div class=\"wide\" tabindex=\"0\"><table class=\"cells texts\"><tr><th>request</th><th>reference</th><th>output under load</th></tr>\n\
             {examples}</table></div>"
        ),
    };
    format!(
        "<section><h2>Output check</h2>\n<p>{summary}</p>\n<div class=\"wide\" tabindex=\"0\"><table class=\"cells\"><tr><td></td>\
         <th>depends</th><th>difference</th><th>between</th><th>p-value</th></tr>\n{rows}</table></div>{examples}\
         <p class=\"note\">All questions together raise a false alarm in at most {} of runs. “no” means that the difference is below {} percentage points.</p></section>\n",
        format_args!("{}%", short_tick(FALSE_ALARMS * 100.0)),
        short_tick(MARGIN * 100.0)
    )
}

/// The reference and the output around the first difference.
fn example(sample: &Sample) -> Option<String> {
    let check = sample.check.as_ref().filter(|check| !check.expected.is_empty())?;
    let at = check.first_difference? as usize;
    let output = OutputCheck::excerpt(&String::from_utf8_lossy(&sample.text), at);
    let cell = |text: &str| format!("<td>{}</td>", escape(&harmless(text)));
    let whose = check.belongs_to.map_or_else(String::new, |owner| format!(", the reference of request {owner}"));
    Some(format!("<tr><th>{}{whose}</th>{}{}</tr>\n", sample.index, cell(&check.expected), cell(&output)))
}
