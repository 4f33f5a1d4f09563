//! A snapshot as a line that fits.

use tacho_core::live::Output;

use super::monitor::Snapshot;
use crate::style::Ink;

impl Snapshot {
    /// `3/10 [00:02<00:05, 1.50 req/s, 120 tok/s, TTFT 35/80 ms, 1 failed]`, as far as it fits into `width`. Parts
    /// that indicate problems are dropped last.
    pub(super) fn line(&self, width: usize, color: bool) -> String {
        let elapsed = clock(self.elapsed as u64);
        let head = match self.total {
            0 => format!("{} [{elapsed}", self.finished),
            total => format!("{}/{total} [{elapsed}<{}", self.finished, self.time_left()),
        };
        let mut parts: Vec<Part> = self.parts();
        let length =
            |parts: &[Part]| head.chars().count() + 1 + parts.iter().map(|part| part.text.len() + 2).sum::<usize>();
        while length(&parts) > width {
            let Some(min) = parts.iter().map(|part| part.weight).min() else { break };
            parts.retain(|part| part.weight > min);
        }
        let shown = parts.iter().map(|part| format!(", {}", Ink::Red.paint(part.alarm && color, &part.text)));
        format!("{head}{}]", shown.collect::<String>())
    }

    /// A line for a log: `benchmark: 3 of 10 (30%), 00:02 elapsed, 00:05 left, …`.
    pub(super) fn heartbeat(&self) -> String {
        let (title, finished, total, elapsed) = (&self.phase, self.finished, self.total, clock(self.elapsed as u64));
        // The total is not always known.
        let line = match (finished * 100).checked_div(total) {
            None => format!("{title}: {finished} done, {elapsed} elapsed"),
            Some(share) => {
                format!("{title}: {finished} of {total} ({share}%), {elapsed} elapsed, {} left", self.time_left())
            }
        };
        self.parts().iter().fold(line, |line, part| line + ", " + &part.text)
    }

    fn time_left(&self) -> String {
        self.left.map_or_else(|| "?".to_owned(), |seconds| clock(seconds as u64))
    }

    fn parts(&self) -> Vec<Part> {
        let rate = |count: u64| if self.elapsed > 0.0 { count as f64 / self.elapsed } else { 0.0 };
        let first = if self.output == Output::Audio { "TTFP" } else { "TTFT" };
        let part = |weight, text: String| Some(Part { weight, alarm: false, text });
        [
            part(4, format!("{:.2} {}", rate(self.finished), self.unit)),
            part(2, format!("{:.0} tok/s", rate(self.tokens)))
                .filter(|_| self.tokens > 0 && self.output == Output::Tokens),
            part(1, format!("{} in flight", self.in_flight)).filter(|_| self.in_flight > 0),
            self.latency[0].and_then(|[p50, _, p99]| part(3, format!("{first} {}/{} ms", short(p50), short(p99)))),
            (self.failed > 0).then(|| Part { weight: 5, alarm: true, text: format!("{} failed", self.failed) }),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// A part of the line; the lowest weights are dropped first.
struct Part {
    weight: u8,
    alarm: bool,
    text: String,
}

fn short(ms: f64) -> String {
    if ms >= 10.0 { format!("{ms:.0}") } else { format!("{ms:.1}") }
}

/// The progress; the total is not always known.
pub(super) fn done(finished: u64, total: u64, of: &str) -> String {
    if total == 0 { finished.to_string() } else { format!("{finished}{of}{total}") }
}

/// `02:03`, or `1:02:03` from an hour on.
pub(super) fn clock(seconds: u64) -> String {
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes:02}:{seconds:02}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading() -> Snapshot {
        Snapshot {
            phase: "Benchmark".into(),
            finished: 4,
            failed: 1,
            tokens: 500,
            in_flight: 2,
            total: 10,
            unit: "req/s",
            elapsed: 2.0,
            left: Some(3.0),
            latency: [Some([35.4, 50.0, 80.2]), None, None, None],
            ..Snapshot::default()
        }
    }

    #[test]
    fn progress_reads_as_a_line() {
        let start = Snapshot { total: 10, unit: "req/s", ..Snapshot::default() };
        assert_eq!(start.line(80, true), "0/10 [00:00<?, 0.00 req/s]");
        let whole = "4/10 [00:02<00:03, 2.00 req/s, 250 tok/s, 2 in flight, TTFT 35/80 ms, 1 failed]";
        assert_eq!(reading().line(100, false), whole);
        assert!(reading().line(100, true).contains("\x1b[1;31m1 failed\x1b[0m"));
        assert_eq!(clock(3723), "1:02:03");
    }

    #[test]
    fn the_line_fits_and_keeps_failures_longest() {
        for width in 20..100 {
            let text = reading().line(width, false);
            assert!(text.chars().count() <= width.max(19), "{width}: {text}");
            assert!(text.contains("1 failed") || width < 31, "{width}: {text}");
        }
        assert_eq!(reading().line(32, false), "4/10 [00:02<00:03, 1 failed]");
    }

    #[test]
    fn a_heartbeat_reads_in_a_log() {
        let line = reading().heartbeat();
        assert_eq!(
            line,
            "Benchmark: 4 of 10 (40%), 00:02 elapsed, 00:03 left, 2.00 req/s, 250 tok/s, 2 in flight, \
             TTFT 35/80 ms, 1 failed"
        );
    }
}
