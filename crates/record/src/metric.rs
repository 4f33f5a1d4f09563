//! The metrics of a result, one row each: its key, its names in vLLM's report and tables, its unit, whether more is
//! better, and how it is read from a record. Console, files, tables, comparisons, gates, plots and the documentation
//! use these rows; a new metric is a row here and the code that computes it.

mod known;
mod timed;

pub use self::known::{Known, decimals, is_fraction, unknown};
pub use self::timed::{TIMES, Timed, Times};

use tacho_metrics::{AcceptanceLength, AudioTotals, GenerationSummary, PoolingSummary, TaskSummary, outputs::ACCURACY};

use crate::{ResultKind, RunRecord, groups::Group};

/// The unit of a metric.
#[expect(missing_docs, reason = "the names say it")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// No unit: a ratio or another count.
    Plain,
    Requests,
    Tokens,
    Percent,
    /// A fraction from 0 to 1; limits can be percentages.
    Fraction,
    Seconds,
    Milliseconds,
    RequestsPerSecond,
    TokensPerSecond,
    /// Texts per second.
    InputsPerSecond,
    /// Seconds of audio per second.
    AudioPerSecond,
    ImagesPerSecond,
}

impl Unit {
    /// Returns whether it is a rate.
    pub fn is_rate(self) -> bool {
        matches!(
            self,
            Unit::RequestsPerSecond
                | Unit::TokensPerSecond
                | Unit::InputsPerSecond
                | Unit::AudioPerSecond
                | Unit::ImagesPerSecond
        )
    }

    /// The suffix after a value; empty for [`Unit::Plain`].
    pub fn text(self) -> &'static str {
        match self {
            Unit::Plain | Unit::Fraction => "",
            Unit::Requests => "requests",
            Unit::Tokens => "tokens",
            Unit::Percent => "%",
            Unit::Seconds => "s",
            Unit::Milliseconds => "ms",
            Unit::RequestsPerSecond => "req/s",
            Unit::TokensPerSecond => "tok/s",
            Unit::InputsPerSecond => "inputs/s",
            Unit::AudioPerSecond => "s of audio/s",
            Unit::ImagesPerSecond => "images/s",
        }
    }
}

/// The direction in which a metric improves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// More is better: rates, successes.
    More,
    /// Less is better: times, failures.
    Less,
    /// Neither: it describes the load.
    Neither,
}

/// A value in the form in which it is written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Amount {
    /// A nonnegative integer.
    Count(u64),
    /// An integer that is negative if a counter was reset.
    Difference(i64),
    /// A floating-point number.
    Real(f64),
    /// Not requested; written as `null`.
    NotRequested,
}

impl Amount {
    /// As a float; `None` if it was not requested.
    pub fn as_f64(self) -> Option<f64> {
        match self {
            Amount::Count(count) => Some(count as f64),
            Amount::Difference(count) => Some(count as f64),
            Amount::Real(metric) => Some(metric),
            Amount::NotRequested => None,
        }
    }
}

/// The part of a result that a metric belongs to; parts are contiguous in files and in the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Totals and throughput.
    Totals,
    /// Peaks, which vLLM writes after its lists.
    Peaks,
    /// Health probes during the run.
    Probes,
    /// Speculative decoding.
    Speculative,
    /// Diffusion decoding.
    Diffusion,
    /// Generated audio, with vLLM-Omni's keys.
    Audio,
    /// Generated images, with vLLM-Omni's keys.
    Images,
    /// tacho's own metrics, under its key.
    Tacho,
    /// Results of an offline engine; only read from files.
    Offline(ResultKind),
}

/// One metric of a result.
pub struct Metric {
    /// Its key in result files.
    pub key: &'static str,
    /// Its label in vLLM's report; empty if it is not there.
    pub line: &'static str,
    /// Its position in vLLM's report within its part.
    pub rank: u8,
    /// Its heading in tables.
    pub heading: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// Whether more is better.
    pub better: Better,
    /// The part of the result.
    pub part: Part,
    /// Its value in a record; `None` if the run does not have it.
    pub read: fn(&RunRecord) -> Option<Amount>,
    /// The flag of `tacho serve` without which no run has it; empty if there is none.
    pub flag: &'static str,
    about: &'static str,
}

impl Metric {
    const fn about(self, about: &'static str) -> Metric {
        Metric { about, ..self }
    }

    const fn with(self, flag: &'static str) -> Metric {
        Metric { flag, ..self }
    }

    /// What it is, as a sentence: by default its label and unit.
    pub fn description(&self) -> String {
        let label = self.line.split(" (").next().unwrap_or_default().trim_end_matches(':');
        let name = if label.is_empty() { self.heading } else { label };
        let text = match self.unit {
            _ if !self.about.is_empty() => self.about.trim_end_matches('.').to_owned(),
            Unit::Plain => name.to_owned(),
            unit => format!("{name}, {}", unit.text()),
        };
        if self.flag.is_empty() { text + "." } else { format!("{text}, with {}.", self.flag) }
    }
}

use Better::{Less, More, Neither};
use Part::{Audio, Diffusion, Images, Offline, Peaks, Probes, Speculative, Tacho, Totals};
use Unit::{
    AudioPerSecond, Fraction, ImagesPerSecond, InputsPerSecond, Milliseconds, Percent, Plain, Requests,
    RequestsPerSecond, Seconds, Tokens, TokensPerSecond,
};

/// All metrics except statistics of latencies, in the order of result files.
#[rustfmt::skip]
pub static METRICS: &[Metric] = &[
    row("duration", "Benchmark duration (s):", 2, "Duration (s)", Seconds, Less, Totals, |r| real(r.measured.duration)),
    row("completed", "Successful requests:", 0, "# of req.", Requests, More, Totals, |r| count(r.summary.completed)),
    row("failed", "Failed requests:", 1, "Failed", Requests, Less, Totals, |r| count(r.summary.failed)),
    row("total_input_tokens", "Total input tokens:", 3, "Input tokens", Tokens, Neither, Totals,
        |r| count(r.summary.total_input)),
    row("total_output_tokens", "Total generated tokens:", 4, "Output tokens", Tokens, Neither, Totals,
        |r| generation(r).and_then(|g| count(g.total_output))),
    row("total_input_sequences", "", 0, "Input sequences", Plain, Neither, Totals,
        |r| pooling(r).and_then(|p| count(p.total_input_sequences))),
    row("request_throughput", "Request throughput (req/s):", 5, "Tput (req/s)", RequestsPerSecond, More, Totals,
        |r| real(r.summary.request_throughput)),
    row("request_goodput", "Request goodput (req/s):", 7, "Goodput (req/s)", RequestsPerSecond, More, Totals,
        |r| goodput(r).map(|goodput| goodput.map_or(Amount::NotRequested, Amount::Real)))
        .with("--goodput"),
    row("output_throughput", "Output token throughput (tok/s):", 8, "Output Tput (tok/s)", TokensPerSecond, More, Totals,
        |r| generation(r).and_then(|g| real(g.output_throughput))),
    row("input_sequence_throughput", "Input throughput (inputs/s):", 6, "Input Tput (inputs/s)", InputsPerSecond, More,
        Totals, |r| pooling(r).and_then(|p| real(p.input_sequence_throughput))),
    row("total_token_throughput", "Total token throughput (tok/s):", 12, "Total Token Tput (tok/s)", TokensPerSecond,
        More, Totals, |r| real(token_rate(r)?)),
    row("max_output_tokens_per_s", "Peak output token throughput (tok/s):", 9, "Peak Output Tput (tok/s)",
        TokensPerSecond, More, Peaks, |r| generation(r).and_then(|g| real(g.max_output_tokens_per_s))),
    row("max_concurrent_requests", "Peak concurrent requests:", 10, "Peak concurrency", Requests, Neither, Peaks,
        |r| count(generation(r).map(|g| g.max_concurrent_requests).or(r.summary.media().map(|m| m.max_concurrent_requests))?)),
    row("rtfx", "RTFx (Inverse Real-Time Factor):", 11, "RTFx", Plain, More, Peaks,
        |r| generation(r).and_then(|g| real(g.rtfx))),
    row("probe_completed", "Probe requests completed:", 0, "Probes", Requests, Neither, Probes,
        |r| r.answered_probes().and_then(|p| count(p.completed)))
        .with("--probe-request-rate"),
    row("probe_failed", "Probe requests failed:", 1, "Failed probes", Requests, Less, Probes,
        |r| r.answered_probes().and_then(|p| count(p.failed)))
        .with("--probe-request-rate"),
    row("probe_median_e2el_ms", "Median probe E2EL (ms):", 2, "Median probe E2EL (ms)", Milliseconds, Less, Probes,
        |r| r.answered_probes().and_then(|p| real(p.median_ms)))
        .with("--probe-request-rate"),
    row("probe_p99_e2el_ms", "P99 probe E2EL (ms):", 3, "P99 probe E2EL (ms)", Milliseconds, Less, Probes,
        |r| r.answered_probes().and_then(|p| real(p.p99_ms)))
        .with("--probe-request-rate"),
    row("probe_max_e2el_ms", "Max probe E2EL (ms):", 4, "Max probe E2EL (ms)", Milliseconds, Less, Probes,
        |r| r.answered_probes().and_then(|p| real(p.max_ms)))
        .with("--probe-request-rate"),
    row("spec_decode_acceptance_rate", "Acceptance rate (%):", 0, "Acceptance (%)", Percent, More, Speculative,
        |r| r.measured.speculative.as_ref().and_then(|s| real(s.acceptance_rate))),
    row("spec_decode_acceptance_length", "Acceptance length:", 1, "Acceptance length", Plain, More, Speculative,
        |r| r.measured.speculative.as_ref().and_then(|s| real(s.acceptance_length))),
    row("spec_decode_num_drafts", "Drafts:", 2, "Drafts", Plain, Neither, Speculative,
        |r| r.measured.speculative.as_ref().and_then(|s| difference(s.drafts))),
    row("spec_decode_draft_tokens", "Draft tokens:", 3, "Draft tokens", Tokens, Neither, Speculative,
        |r| r.measured.speculative.as_ref().and_then(|s| difference(s.draft_tokens))),
    row("spec_decode_accepted_tokens", "Accepted tokens:", 4, "Accepted tokens", Tokens, Neither, Speculative,
        |r| r.measured.speculative.as_ref().and_then(|s| difference(s.accepted_tokens))),
    row("diffusion_committed_throughput", "Committed throughput (tok/s):", 0, "Committed Tput (tok/s)", TokensPerSecond,
        More, Diffusion, |r| r.measured.diffusion.and_then(|d| real(d.committed_throughput))),
    row("diffusion_steps_per_canvas", "Denoising steps per canvas:", 1, "Steps per canvas", Plain, Less, Diffusion,
        |r| r.measured.diffusion.and_then(|d| real(d.steps_per_canvas))),
    row("diffusion_committed_per_step", "Committed per denoising step:", 2, "Committed per step", Plain, More, Diffusion,
        |r| r.measured.diffusion.and_then(|d| real(d.committed_per_step))),
    row("diffusion_committed_tokens", "Committed tokens:", 3, "Committed tokens", Tokens, Neither, Diffusion,
        |r| r.measured.diffusion.and_then(|d| difference(d.committed_tokens))),
    row("diffusion_denoising_steps", "Denoising steps:", 4, "Denoising steps", Plain, Neither, Diffusion,
        |r| r.measured.diffusion.and_then(|d| difference(d.denoising_steps))),
    row("diffusion_canvas_positions", "Canvas positions evaluated:", 5, "Canvas positions", Plain, Neither, Diffusion,
        |r| r.measured.diffusion.and_then(|d| difference(d.canvas_positions))),
    row("total_audio_duration_s", "Total audio duration generated(s):", 0, "Audio (s)", Seconds, Neither, Audio,
        |r| audio(r).and_then(|a| real(a.duration))),
    row("total_audio_frames", "Total audio frames generated:", 1, "Audio frames", Plain, Neither, Audio,
        |r| audio(r).and_then(|a| count(a.frames))),
    row("audio_throughput", "Audio throughput(audio duration/s):", 2, "Audio Tput (s/s)", AudioPerSecond, More, Audio,
        |r| audio(r).and_then(|a| real(a.throughput))),
    row("audio_continuity_ok_rate", "Streaming continuity OK rate:", 3, "Continuity OK", Plain, More, Audio,
        |r| audio(r).and_then(|a| real(a.continuous))),
    row("total_images", "Total images generated:", 0, "Images", Plain, Neither, Images,
        |r| r.summary.media().and_then(|m| count(m.images?))),
    row("image_throughput", "Image throughput (img/s):", 1, "Image Tput (img/s)", ImagesPerSecond, More, Images,
        |r| r.summary.media().and_then(|m| m.images.and_then(|_| real(m.image_throughput)))),
    row("audio_underruns", "", 0, "Audio underruns", Plain, Less, Tacho, |r| audio(r).and_then(|a| count(a.underruns)))
        .about("Gaps in the playback of generated audio, of all requests."),
    row("row_command_missed", "", 0, "Rows missed by the command", Plain, Less, Tacho, |r| r.measured.missed_rows.and_then(count))
        .about("Rows that the command did not get.").with("--on-row-command"),
    row("fluidity_index", "", 0, "Fluidity index", Plain, More, Tacho, |r| r.open_loop.fluidity.and_then(|f| real(f.index)))
        .about("Mean fraction of tokens that arrive by their deadlines, those of ttft and tpot.").with("--goodput"),
    row("fluid_goodput", "", 0, "Fluid goodput (req/s)", RequestsPerSecond, More, Tacho,
        |r| r.open_loop.fluidity.and_then(|f| real(f.goodput)))
        .about("Requests per second that meet --goodput and get nine tenths of their tokens in time.").with("--goodput"),
    row("class_fairness", "", 0, "Fairness between classes", Plain, More, Tacho, |r| class_fairness(r).and_then(real))
        .about("Jain's fairness index of the classes' speeds, 1 / mean normalized TPOT: 1 if all are equally fast.").with("--class"),
    row("draft_acceptance_rate", "", 0, "Draft acceptance (%)", Percent, More, Tacho,
        |r| r.open_loop.acceptance.and_then(|a| real(a.rate * 100.0)))
        .about("Accepted draft tokens in percent, where the server reports them per request."),
    row("mean_acceptance_length", "", 0, "Mean acceptance length", Plain, More, Tacho,
        |r| acceptance_length(r).and_then(|l| real(l.mean)))
        .about("Mean over requests of the tokens per verification step."),
    row("median_acceptance_length", "", 0, "Median acceptance length", Plain, More, Tacho,
        |r| acceptance_length(r).and_then(|l| real(l.median)))
        .about("Its median over requests."),
    row("p10_acceptance_length", "", 0, "P10 acceptance length", Plain, More, Tacho,
        |r| acceptance_length(r).and_then(|l| real(l.p10)))
        .about("A tenth of the requests are below it."),
    row("output_divergence", "", 0, "Output divergence", Fraction, Less, Tacho,
        |r| r.open_loop.outputs.as_ref().and_then(|o| real(o.differing.value)))
        .about("Fraction of the checked outputs that differ from their references.").with("--check-outputs"),
    row("output_divergence_alone", "", 0, "Output divergence alone", Fraction, Less, Tacho,
        |r| r.open_loop.outputs.as_ref().and_then(|o| real(o.alone?.value)))
        .about("The same of requests that are sent alone, before the run.").with("--check-outputs"),
    row("mean_kl_divergence", "", 0, "Mean KL divergence (nats)", Plain, Less, Tacho,
        |r| r.open_loop.outputs.as_ref().and_then(|o| real(o.kl?.0)))
        .about("Mean Kullback-Leibler divergence of the token distributions (--logprobs) from those of the references, in nats.").with("--check-outputs"),
    row("max_kl_divergence", "", 0, "Max KL divergence (nats)", Plain, Less, Tacho,
        |r| r.open_loop.outputs.as_ref().and_then(|o| real(o.kl?.1)))
        .about("Its maximum over all tokens with an equal prefix.").with("--check-outputs"),
    row("swapped_outputs", "", 0, "Swapped outputs", Requests, Less, Tacho,
        |r| r.open_loop.outputs.as_ref().and_then(|o| count(o.swapped)))
        .about("Outputs that equal the reference of another request.").with("--check-outputs"),
    row("accuracy", "", 0, "Accuracy", Fraction, More, Tacho, |r| score(r, ACCURACY))
        .about("Fraction of correct answers.").with("--grade"),
    row("jobs_per_hour", "", 0, "Jobs per hour", Plain, More, Tacho, |r| jobs_per_hour(r).and_then(real))
        .about("Finished sessions per hour.").with("--sessions"),
    row("jobs_per_hour_per_user", "", 0, "Jobs per hour per user", Plain, More, Tacho,
        |r| Some(r.sessions.as_ref()?.wall_ms?.mean).filter(|mean| *mean > 0.0).and_then(|mean| real(3.6e6 / mean)))
        .about("Sessions that one user finishes in an hour: an hour divided by the mean session time.").with("--sessions"),
    row("jobs_per_hour_per_gpu", "", 0, "Jobs per hour per GPU", Plain, More, Tacho,
        |r| jobs_per_hour(r).and_then(|jobs| per_gpu(r, jobs)))
        .about("Finished sessions per hour and GPU.").with("--gpus"),
    row("output_throughput_per_gpu", "", 0, "Output Tput per GPU (tok/s)", TokensPerSecond, More, Tacho,
        |r| generation(r).and_then(|g| per_gpu(r, g.output_throughput)))
        .about("Output tokens per second and GPU.").with("--gpus"),
    row("cost_per_request", "", 0, "Cost per request", Plain, Less, Tacho, |r| cost(r, r.summary.request_throughput))
        .about("Price of the machines per successful request.").with("--gpu-hour-price"),
    row("cost_per_million_output_tokens", "", 0, "Cost per 1M output tokens", Plain, Less, Tacho,
        |r| generation(r).and_then(|g| cost(r, g.output_throughput / 1e6)))
        .about("Price of the machines per million output tokens.").with("--gpu-hour-price"),
    row("cost_per_million_tokens", "", 0, "Cost per 1M tokens", Plain, Less, Tacho,
        |r| cost(r, token_rate(r)? / 1e6))
        .about("Price of the machines per million prompt and output tokens.").with("--gpu-hour-price"),
    row("avg_latency", "", 0, "Mean latency (ms)", Seconds, Less, Offline(ResultKind::Latency), |_| None),
    row("num_requests", "", 0, "# of req.", Requests, Neither, Offline(ResultKind::Throughput), |_| None),
    row("total_num_tokens", "", 0, "Total # of tokens", Tokens, Neither, Offline(ResultKind::Throughput), |_| None),
    row("elapsed_time", "", 0, "Elapsed time (s)", Seconds, Less, Offline(ResultKind::Throughput), |_| None),
    row("requests_per_second", "", 0, "Tput (req/s)", RequestsPerSecond, More, Offline(ResultKind::Throughput), |_| None),
    row("tokens_per_second", "", 0, "Tput (tok/s)", TokensPerSecond, More, Offline(ResultKind::Throughput), |_| None),
    row("avg_cold_startup_time", "", 0, "Mean cold startup (s)", Seconds, Less, Offline(ResultKind::Startup), |_| None),
    row("avg_cold_compilation_time", "", 0, "Mean cold compilation (s)", Seconds, Less, Offline(ResultKind::Startup),
        |_| None),
    row("avg_warm_startup_time", "", 0, "Mean warm startup (s)", Seconds, Less, Offline(ResultKind::Startup), |_| None),
    row("avg_warm_compilation_time", "", 0, "Mean warm compilation (s)", Seconds, Less, Offline(ResultKind::Startup),
        |_| None),
];

/// The metrics of a part, in the order of result files.
pub fn part(part: Part) -> impl Iterator<Item = &'static Metric> {
    METRICS.iter().filter(move |metric| metric.part == part)
}

/// The metrics of some parts that vLLM's report shows, in its order.
pub fn lines(parts: &[Part]) -> Vec<&'static Metric> {
    let mut lines: Vec<&Metric> =
        METRICS.iter().filter(|metric| !metric.line.is_empty() && parts.contains(&metric.part)).collect();
    lines.sort_by_key(|metric| metric.rank);
    lines
}

#[expect(clippy::too_many_arguments, reason = "a row of a table has as many cells as the table has columns")]
const fn row(
    key: &'static str,
    line: &'static str,
    rank: u8,
    heading: &'static str,
    unit: Unit,
    better: Better,
    part: Part,
    read: fn(&RunRecord) -> Option<Amount>,
) -> Metric {
    Metric { key, line, rank, heading, unit, better, part, read, flag: "", about: "" }
}

/// Jain's index of the speeds of the classes, 1 / mean normalized TPOT: 1 if all are served equally fast.
fn class_fairness(record: &RunRecord) -> Option<f64> {
    let speed =
        |group: &Group| Some(1.0 / group.record.open_loop.ntpot.as_ref()?.mean_ms).filter(|speed| speed.is_finite());
    let speeds: Vec<f64> = record.groups_by("class").map(speed).collect::<Option<_>>()?;
    let (sum, squares) = (speeds.iter().sum::<f64>(), speeds.iter().map(|speed| speed * speed).sum::<f64>());
    (speeds.len() > 1).then(|| sum * sum / (speeds.len() as f64 * squares))
}

fn acceptance_length(record: &RunRecord) -> Option<AcceptanceLength> {
    record.open_loop.acceptance?.length
}

/// Finished sessions per hour.
fn jobs_per_hour(record: &RunRecord) -> Option<f64> {
    let finished = record.sessions.as_ref()?.ends.finished;
    (record.measured.duration > 0.0).then(|| finished as f64 * 3600.0 / record.measured.duration)
}

/// The key of a score: that of `--grade` is a metric of its own.
pub fn score_key(name: &str) -> String {
    if name == ACCURACY { name.to_owned() } else { format!("{}{name}", known::SCORE) }
}

fn score(record: &RunRecord, name: &str) -> Option<Amount> {
    real(record.open_loop.scores.iter().find(|score| score.name == name)?.mean.value)
}

fn per_gpu(record: &RunRecord, rate: f64) -> Option<Amount> {
    real(rate / record.setup.metrics.gpus? as f64)
}

/// The price of one unit at a rate of units per second; unknown without a price or a unit.
fn cost(record: &RunRecord, rate: f64) -> Option<Amount> {
    let price = record.setup.metrics.price_per_hour.filter(|_| rate > 0.0)?;
    real(price / 3600.0 / rate)
}

fn real(metric: f64) -> Option<Amount> {
    Some(Amount::Real(metric))
}

fn count(count: u64) -> Option<Amount> {
    Some(Amount::Count(count))
}

fn difference(count: i64) -> Option<Amount> {
    Some(Amount::Difference(count))
}

fn generation(record: &RunRecord) -> Option<&GenerationSummary> {
    record.summary.generation()
}

/// Tokens per second; `None` where the output has no tokens.
fn token_rate(record: &RunRecord) -> Option<f64> {
    record.summary.media().is_none().then_some(record.summary.total_token_throughput)
}

/// The goodput of tasks that have one; the inner value is `None` if it was not requested.
fn goodput(record: &RunRecord) -> Option<Option<f64>> {
    let media = || record.summary.media().map(|media| media.request_goodput);
    generation(record).map(|generation| generation.request_goodput).or_else(media)
}

fn audio(record: &RunRecord) -> Option<AudioTotals> {
    record.summary.media()?.audio.as_ref()?.totals
}

fn pooling(record: &RunRecord) -> Option<&PoolingSummary> {
    match &record.summary.task {
        TaskSummary::Pooling(pooling) => Some(pooling),
        TaskSummary::Generation(_) | TaskSummary::Media(_) => None,
    }
}
