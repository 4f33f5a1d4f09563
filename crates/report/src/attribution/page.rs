//! The section of the page of a run.

use tacho_metrics::attribution::{AttributedRequest, Attribution, Breakdown, Explained, Part};

use super::{COLUMNS, MIN_SHARE, heading, request::waterfall, sentences};
use crate::{html::escape, style::short};

/// Points of the area over time, and fewest requests of one.
const WINDOWS: usize = 40;
const MIN_WINDOW: usize = 5;

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
         <table class=\"cells\" style=\"width:100%\">{bars}</table>\n{}{slowest}\
         <p class=\"note\">Inferred from the arrival times of all tokens; see tacho explain for uncertainties.</p></section>\n",
        legend.collect::<String>(),
        over_time(found)
    )
}

/// Mean E2EL of the requests sent in each part of the run, stacked by part: windows of equally many requests.
fn over_time(found: &Attribution) -> String {
    let mut all: Vec<&AttributedRequest> = found.requests.iter().collect();
    all.sort_by(|one, other| one.sent.total_cmp(&other.sent));
    let windows: Vec<&[&AttributedRequest]> = all.chunks(all.len().div_ceil(WINDOWS).max(MIN_WINDOW)).collect();
    let (Some(first), Some(last), true) = (all.first(), all.last(), windows.len() > 2) else { return String::new() };
    let mean = |window: &[&AttributedRequest], of: &dyn Fn(&AttributedRequest) -> f64| {
        window.iter().map(|request| of(request)).sum::<f64>() / window.len() as f64
    };
    let ms = |request: &AttributedRequest, part: Part| request.e2el[part].max(0) as f64 / 1e6;
    let total = |request: &AttributedRequest| Part::ALL.into_iter().map(|part| ms(request, part)).sum::<f64>();
    let max = windows.iter().map(|window| mean(window, &total)).fold(f64::MIN_POSITIVE, f64::max);
    let span = (last.sent - first.sent).max(f64::MIN_POSITIVE);
    let x = |window: &[&AttributedRequest]| (mean(window, &|request| request.sent) - first.sent) / span * 600.0;
    let (mut below, mut areas) = (vec![0.0; windows.len()], String::new());
    for part in Part::ALL.into_iter().filter(|part| is_drawn(found, *part)) {
        let point = |at: usize, ms: f64| format!("{:.1},{:.1} ", x(windows[at]), 160.0 - ms / max * 160.0);
        let back: String = (0..windows.len()).rev().map(|at| point(at, below[at])).collect();
        let above = |at: usize| below[at] + mean(windows[at], &|request| ms(request, part));
        below = (0..windows.len()).map(above).collect();
        let there: String = (0..windows.len()).map(|at| point(at, below[at])).collect();
        let (color, label) = (color(part), part.label());
        areas += &format!("<polygon points=\"{there}{back}\" fill=\"var({color})\"><title>{label}</title></polygon>");
    }
    format!(
        "<h3>Mean E2EL over time</h3>\n<svg viewBox=\"0 0 600 160\" style=\"width:100%\" role=\"img\" \
         aria-label=\"Mean E2EL over time by part\">{areas}</svg>\n\
         <p class=\"note\">Requests sent from {} to {} s; the top is {} ms.</p>\n",
        short(first.sent),
        short(last.sent),
        short(max)
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
