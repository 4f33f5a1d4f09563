//! Sentences about a tuning.

use tacho_core::event::TuneNote;

/// `shown` writes a command.
pub(super) fn of(note: &TuneNote, shown: &dyn Fn(&[String]) -> String) -> String {
    match note {
        TuneNote::FewPrompts { prompts } => {
            let beyond = (prompts / 100).max(1);
            format!("the 99th percentile of {prompts} prompts rests on {beyond} of them: use 1000 or more")
        }
        TuneNote::Would { who, command } => format!("{who} command: {}", shown(command)),
        TuneNote::Place { directory } => format!("Results will be saved in: {}", directory.display()),
        TuneNote::Candidate { at, of, title } => format!("[{at}/{of}] {title}"),
        TuneNote::Measured { line } => line.clone(),
        TuneNote::Failed { title, failure, log } => format!("{title}: {failure}; see {}", log.display()),
        TuneNote::TryingShare { share } => format!("trying gpu_memory_utilization {share}"),
        TuneNote::UsingShare { share } => format!("using gpu_memory_utilization {share}"),
        TuneNote::ShareFailed { share, failure } => format!("gpu_memory_utilization {share}: {failure}"),
        TuneNote::Level { rate, throughput, criteria, runs } => level(rate, *throughput, criteria, *runs),
        TuneNote::LevelFailures { rate, failed } => {
            format!("request_rate {rate}: {failed} requests failed; the latencies are those of the others")
        }
        TuneNote::NoneMeets => "no settings meet the limit".into(),
        TuneNote::Best { sentence } => format!("best: {sentence}"),
        TuneNote::AsGood { title, throughput } => {
            format!("no clear difference from {title}: {throughput:.2} requests/s")
        }
        TuneNote::Profiling { title } => format!("profiling {title}"),
        TuneNote::ProfileFailed { failure } => format!("the profiled run failed: {failure}"),
    }
}

fn level(rate: &str, throughput: f64, criteria: &[(String, f64, String, bool)], runs: usize) -> String {
    let verdicts: Vec<String> = criteria
        .iter()
        .map(|(metric, value, condition, met)| {
            let verdict = if *met { "PASSED" } else { "FAILED" };
            format!("{metric} = {value:.2}{condition} | {verdict}")
        })
        .collect();
    let times = if runs == 1 { String::new() } else { format!(" (mean of {runs} runs)") };
    format!("  request_rate {rate}: {throughput:.2} req/s, {}{times}", verdicts.join(", "))
}
