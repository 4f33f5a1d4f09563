//! Notes of a tuning.

use std::path::PathBuf;

use super::note::notes;

notes! {
    /// Notes of a tuning.
    TuneNote, layout;
    FewPrompts { prompts: u64 } => {
        let beyond = (prompts / 100).max(1);
        format!("the 99th percentile of {prompts} prompts rests on {beyond} of them: use 1000 or more")
    };
    /// `who` is `Server` or `Benchmark`.
    Would { who: &'static str, command: Vec<String> } => format!("{who} command: {}", layout.command(command));
    Place { directory: PathBuf } => format!("Results will be saved in: {}", directory.display());
    Candidate { at: usize, of: u64, title: String } => format!("[{at}/{of}] {title}");
    /// A line of the result file.
    Measured { line: String } => line.as_str();
    Failed { title: String, failure: String, log: PathBuf } => format!("{title}: {failure}; see {}", log.display());
    TryingShare { share: String } => format!("trying gpu_memory_utilization {share}");
    UsingShare { share: String } => format!("using gpu_memory_utilization {share}");
    ShareFailed { share: String, failure: String } => format!("gpu_memory_utilization {share}: {failure}");
    /// Each criterion's metric, its mean, its condition, and whether it is met.
    Level { rate: String, throughput: f64, criteria: Vec<(String, f64, String, bool)>, runs: usize } =>
        level(rate, *throughput, criteria, *runs);
    LevelFailures { rate: String, failed: i64 } =>
        format!("request_rate {rate}: {failed} requests failed; the latencies are those of the others");
    NoneMeets => "no settings meet the limit";
    Best { sentence: String } => format!("best: {sentence}");
    AsGood { title: String, throughput: f64 } =>
        format!("no clear difference from {title}: {throughput:.2} requests/s");
    Profiling { title: String } => format!("profiling {title}");
    ProfileFailed { failure: String } => format!("the profiled run failed: {failure}");
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
