//! One request: its parts in order, as text and as an object.

use tacho_core::dict;
use tacho_core::json::{Dict, Value};
use tacho_metrics::attribution::{AttributedRequest, Part, Parts};
use tacho_metrics::vocabulary::Phase;

use crate::style::{grouped, short};

/// Width of a bar.
const BAR: usize = 34;

/// One request as an object: its parts in nanoseconds.
pub fn request_json(request: &AttributedRequest) -> Dict {
    let parts = |parts: &Parts| {
        Part::ALL.into_iter().map(|part| (part.name().to_owned(), Value::from(parts[part]))).collect::<Dict>()
    };
    let server: Dict = Phase::ALL
        .into_iter()
        .filter_map(|phase| Some((phase.name().to_owned(), server_ms(request, phase)?.into())))
        .collect();
    dict! {
        "index": request.index,
        "prompt_tokens": request.prompt,
        "cached_tokens"?: request.cached,
        "ttft_ns": request.ttft.total(),
        "ttft": parts(&request.ttft),
        "e2el_ns": request.e2el.total(),
        "e2el": parts(&request.e2el),
        "server_ms"?: (!server.is_empty()).then_some(server),
    }
}

/// The parts of a request in order: phase, part, milliseconds. Those after the first token interleave; each is a sum.
pub(super) fn waterfall(request: &AttributedRequest) -> Vec<(bool, Part, f64)> {
    let before = Part::ALL.into_iter().map(|part| (false, part, request.ttft[part]));
    let after = Part::ALL.into_iter().map(|part| (true, part, request.e2el[part] - request.ttft[part]));
    let all = before.chain(after).map(|(is_decode, part, nanos)| (is_decode, part, nanos as f64 / 1e6));
    all.filter(|(_, _, ms)| ms.abs() >= 0.005).collect()
}

pub fn request_text(request: &AttributedRequest) -> String {
    let (ttft, total) = (request.ttft.total() as f64 / 1e6, request.e2el.total() as f64 / 1e6);
    let cached = request.cached.map_or_else(String::new, |cached| format!(" ({} cached)", grouped(cached as i64)));
    let mut lines = vec![format!(
        "Request {}: {} prompt tokens{cached}, {} output tokens; TTFT {} ms, E2EL {} ms.",
        request.index,
        grouped(request.prompt as i64),
        grouped(request.gaps as i64 + 1),
        short(ttft),
        short(total)
    )];
    let (mut at, mut was_decode) = (0.0, false);
    for (is_decode, part, ms) in waterfall(request) {
        if is_decode && !was_decode {
            lines.push("after the first token (each a sum):".to_owned());
            was_decode = true;
        }
        let column = |ms: f64| ((ms / total.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0) * BAR as f64).round() as usize;
        let from = column(at).min(BAR - 1);
        let long = column(at + ms).saturating_sub(from).max(1);
        let bar = format!("{}{}", " ".repeat(from), "█".repeat(long));
        lines.push(format!("{:<25}{:>11} ms  {bar}", part.label(), short(ms)));
        at += ms;
    }
    let own = |phase: Phase| Some(format!("{} {}", phase.name(), short(server_ms(request, phase)?)));
    let own: Vec<String> = Phase::ALL.into_iter().filter_map(own).collect();
    if !own.is_empty() {
        lines.push(format!("The server's own times, ms: {}.", own.join(", ")));
    }
    lines.join("\n") + "\n"
}

/// A phase of one request as the server measured it.
pub(super) fn server_ms(request: &AttributedRequest, phase: Phase) -> Option<f64> {
    let us = match phase {
        Phase::Queue => request.server.queue,
        Phase::Prefill => request.server.prefill,
        Phase::Decode => request.server.decode,
    };
    us.map(|us| f64::from(us.get()) / 1e3)
}

#[cfg(test)]
mod tests {
    use tacho_core::ServerTimes;
    use tacho_metrics::{Attribution, ServerMetrics};

    use super::super::{evidence, section, tests::run};
    use super::*;

    #[test]
    fn a_waterfall_has_every_part_of_a_request() {
        let run = run(10);
        let text = request_text(&run.requests[7]);
        assert!(
            text.starts_with("Request 7: 100 prompt tokens, 11 output tokens; TTFT 90.0 ms, E2EL 190 ms.\n"),
            "{text}"
        );
        assert!(text.lines().count() == 6 && text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let (queue, decode) = (ServerTimes::micros(71_250.0), ServerTimes::micros(99_500.0));
        let times = ServerTimes { queue, prefill: None, decode };
        // While the engine stalls, a request that waits is in its queue.
        let known = AttributedRequest { server: times, stalled_in_queue: 1_000_000, ..run.requests[7] };
        assert!(request_text(&known).ends_with("The server's own times, ms: queue 71.2, decode 99.5.\n"));
        let with_times = Attribution { requests: vec![known; 3], ..run.clone() };
        let line = evidence(&with_times, &ServerMetrics::default()).concat();
        assert_eq!(
            line,
            "The server's own mean times, ms: queue 71.2 (here 71.0), decode 99.5 (here 100); they differ by at most 0.3% of mean E2EL."
        );
        let html = section(&run);
        assert!(html.contains("Where the time went") && html.contains("The slowest request, 99"));
        assert!(html.contains("Requests sent from 0.00 to 99.0 s; the top is 1,090 ms."), "{html}");
        assert_eq!(html.matches("<polygon").count(), 4);
    }
}
