//! The page of a result file that has metrics and, of its requests, only latencies.

use tacho_record::StoredRun;
use tacho_record::metric::{Known, METRICS, Part};

use crate::html::hero::{Head, Tone, card, common};
use crate::html::{Figures, distributions, escape, facts_table, page as whole_page};
use crate::verdict::{Severity, stored_worst, word};
use crate::{compare::settings::settings, plots::key_label};

pub fn page(title: &str, run: &StoredRun) -> String {
    let mut figures = Figures::default();
    let worst = stored_worst(run);
    let tone = if worst == Some(Severity::Bad) { Tone::Bad } else { Tone::Warning };
    let items: String = warnings(run).iter().map(|text| format!("<li>{}</li>", escape(text))).collect();
    let next = "tacho report LOG --html, or save with --save-detailed: the full report needs the run's requests";
    let only = "This result holds metrics and latencies only.";
    let sentence = worst.map_or_else(|| only.to_owned(), |_| format!("{}: see the warnings. {only}", word(worst)));
    let head = Head::new(title).facts(common(&[run])).verdict_with(tone, &sentence, &items, Some(next));
    let mut body = format!("<div class=\"cards\">{}</div>\n", cards(run));
    body += &distributions(&[(title.to_owned(), vec![run.clone()])], &mut figures);
    body += &format!("<h2>Settings</h2>{}\n", facts_table(settings(run)));
    whole_page(&head, &body, figures)
}

/// The client's self-assessment and the caveats in the file.
fn warnings(run: &StoredRun) -> Vec<String> {
    let Some(tacho) = run.fields.get("tacho") else { return Vec::new() };
    let verdict = tacho.get("client").and_then(|client| client.text("verdict"));
    let mut texts: Vec<String> = run.view().caveats().into_iter().flatten().map(|caveat| caveat.text).collect();
    // A bad verdict is a caveat too.
    if let Some(verdict) = verdict.filter(|verdict| !texts.iter().any(|text| text == verdict)) {
        texts.insert(0, verdict.to_owned());
    }
    texts
}

/// All metrics in the file. An empty sample is not a zero.
fn cards(run: &StoredRun) -> String {
    if run.is_empty() {
        return card("Successful requests", 0.0, "", None);
    }
    let is_total = |part: Part| matches!(part, Part::Totals | Part::Audio | Part::Images);
    let totals = METRICS.iter().filter(|metric| is_total(metric.part)).map(|metric| metric.key);
    let times = run.fields.iter().map(|(key, _)| key).filter(|key| matches!(Known::find(key), Some(Known::Timed(_))));
    let wanted = totals.chain(times.filter(|key| !key.starts_with("std_")));
    let one = |key: &str| {
        Some(card(&key_label(key), run.number(key).filter(|value| value.is_finite())?, "", run.interval(key)))
    };
    wanted.filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_core::json::parse;

    #[test]
    fn images_per_second_have_a_card() {
        let text = r#"{"model_id": "m", "duration": 2.0, "completed": 3, "total_images": 6, "image_throughput": 3.25}"#;
        let run = StoredRun::from_dict(parse(text).unwrap().as_dict().unwrap()).unwrap();
        let page = page("t", &run);
        assert!(page.contains("3.25") && !page.contains("Output token throughput"), "{page}");
    }
}
