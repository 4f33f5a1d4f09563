//! The section of the page of a run.

use tacho_metrics::attribution::{AttributedRequest, Attribution, Breakdown, Explained, Part};

use super::{COLUMNS, MIN_SHARE, heading, sentences, waterfall};
use crate::{html::escape, style::short};

fn color(part: Part) -> &'static str {
    match part {
        Part::DispatchDelay | Part::SlotWait | Part::Connection => "--soft",
        Part::FrontEnd => "--c5",
        Part::Queue => "--c3",
        Part::OwnPrefill => "--c0",
        Part::OtherPrefills => "--c1",
        Part::OwnDecode => "--c2",
        Part::BatchGrowth => "--c7",
        Part::Preemption => "--c4",
        Part::Stall => "--c6",
        Part::Streaming | Part::Unexplained => "--line",
    }
}

/// The section of the page: the sentences, a stacked bar per latency, and the slowest request as a waterfall.
pub(crate) fn section(found: &Attribution) -> String {
    let lead: String = sentences(found).iter().map(|line| format!("<p>{}</p>\n", escape(line))).collect();
    let bars: String = COLUMNS.into_iter().filter_map(|what| Some(stacked(what, &found.breakdown(what)?))).collect();
    let slowest = found.requests.iter().max_by_key(|request| request.e2el.total());
    let slowest = slowest.map_or_else(String::new, waterfall_html);
    let legend = Part::ALL
        .into_iter()
        .filter(|part| is_drawn(found, *part))
        .map(|part| format!("<span><i style=\"background:var({})\"></i>{}</span>", color(part), escape(part.label())));
    format!(
        "<section><h2>Where the time went</h2>\n{lead}<div class=\"legend\">{}</div>\n\
         <table class=\"cells\" style=\"width:100%\">{bars}</table>\n{slowest}\
         <p class=\"note\">Inferred from the arrival times of all tokens; see tacho explain for uncertainties.</p></section>\n",
        legend.collect::<String>()
    )
}

fn is_drawn(found: &Attribution, part: Part) -> bool {
    COLUMNS.into_iter().filter_map(|what| found.breakdown(what)).any(|one| one.share(part) >= MIN_SHARE)
}

fn stacked(what: Explained, found: &Breakdown) -> String {
    let piece = |part: Part| {
        let (ms, share) = (found.parts[part as usize], found.share(part) * 100.0);
        let text = if share >= 8.0 { format!("{share:.0}%") } else { String::new() };
        (share >= 0.1).then(|| {
            format!(
                "<span title=\"{}: {} ms, {share:.1}%\" style=\"flex:{share:.3};background:var({});\
                 color:var(--paper);overflow:hidden;text-align:center\">{text}</span>",
                part.label(),
                short(ms),
                color(part)
            )
        })
    };
    let pieces: String = Part::ALL.into_iter().filter_map(piece).collect();
    format!(
        "<tr><th>{}</th><td class=\"n\">{}\u{a0}ms</td><td style=\"width:75%\"><div style=\"display:flex\">{pieces}</div></td></tr>\n",
        heading(what),
        short(found.total())
    )
}

fn waterfall_html(request: &AttributedRequest) -> String {
    let total = (request.e2el.total() as f64 / 1e6).max(f64::MIN_POSITIVE);
    let mut at = 0.0;
    let mut rows = String::new();
    for (is_decode, part, ms) in waterfall(request) {
        let from = (at / total * 100.0).clamp(0.0, 100.0);
        // Parts exceed the total by what is unexplained.
        let long = (ms / total * 100.0).clamp(0.0, 100.0 - from);
        rows += &format!(
            "<tr><th>{}{}</th><td class=\"n\">{}\u{a0}ms</td><td style=\"width:75%\"><div style=\"margin-left:{from:.2}%;\
             width:{long:.2}%;min-width:2px;height:12px;background:var({})\"></div></td></tr>\n",
            escape(part.label()),
            if is_decode { ", decoding" } else { "" },
            short(ms),
            color(part)
        );
        at += ms;
    }
    format!(
        "<h3>The slowest request, {}</h3>\n<table class=\"cells\" style=\"width:100%\">{rows}</table>\n",
        request.index
    )
}
