//! `--card`: one image of a result for a message, a slide or an issue. This module selects the contents, from a
//! record or from a result file; `draw` lays them out.

mod command;
mod draw;

use std::path::Path;

use tacho_metrics::{Interval, Setup, Task, statistics::mean};
use tacho_record::{Estimate, Provenance, RunRecord, StoredRun, metric::Known, restored};

use self::draw::{Card, Curve, Tile};
use crate::console::{bounds, interval_of};
use crate::distinct::{counted, distinct};
use crate::plots::{png, svg};
use crate::series::{FINISHED, LatencyOverTime, OverTime, TOKENS};
use crate::style::{grouped, harmless_line, short};
use crate::verdict::{Severity, Verdict, stored_worst};
use crate::{Error, html::Tone, html::hero::load, html::run::About, json::write_whole};

/// Points per pixel of a card: one, so that it is 1200 by 630 pixels.
const DPI: f64 = 72.0;
/// The real-time factor, which has no unit.
const RTF: &str = "audio_rtf";
/// Least and most steps of a curve.
const STEPS: (f64, f64) = (30.0, 120.0);

/// Writes the card of `record`; `about` has the texts of its file.
pub fn save(record: &RunRecord, about: &About, path: &Path) -> Result<(), Error> {
    write(&of_record(record, about), path)
}

/// Writes one card of several runs with the same settings: means, with confidence intervals over the runs.
pub fn save_runs(records: &[RunRecord], path: &Path) -> Result<(), Error> {
    match records {
        [] => Ok(()),
        [first, others @ ..] => write(&of_runs(first, others), path),
    }
}

/// Writes the card of a result file without single requests.
pub fn save_stored(run: &StoredRun, path: &Path) -> Result<(), Error> {
    write(&of_stored(run), path)
}

/// Rejects a path whose extension is neither `.png` nor `.svg`.
pub fn check(path: &Path) -> Result<(), Error> {
    is_svg(path).map(|_| ())
}

fn is_svg(path: &Path) -> Result<bool, Error> {
    match path.extension().map(|ending| ending.to_ascii_lowercase()).as_deref().and_then(|ending| ending.to_str()) {
        Some("png") => Ok(false),
        Some("svg") => Ok(true),
        _ => Err(Error::CardFormat { path: path.to_owned() }),
    }
}

fn write(card: &Card, path: &Path) -> Result<(), Error> {
    let scene = card.scene();
    let bytes = if is_svg(path)? { svg(&scene).into_bytes() } else { png(&scene, DPI)? };
    write_whole(path, |out| std::io::Write::write_all(out, &bytes))
}

struct Metrics<'a> {
    value: &'a dyn Fn(&str) -> Option<f64>,
    interval: &'a dyn Fn(&str) -> Option<Interval>,
}

impl Metrics<'_> {
    fn value(&self, key: &str) -> Option<f64> {
        (self.value)(key).filter(|value| value.is_finite())
    }

    fn interval(&self, key: &str) -> Option<String> {
        // A tile has no room for more than the bound.
        let text = |interval: Interval| match interval.low > 0.0 && interval.high.is_infinite() {
            true => format!("≥ {}", short(interval.low)),
            false => bounds(interval),
        };
        (self.interval)(key).map(text).filter(|text| text != "–")
    }

    fn throughput(&self, task: &Task) -> Tile {
        let known = |key: &str| self.value(key).is_some();
        let (name, key, unit) = match task {
            Task::Generation => ("Output throughput", "output_throughput", "tok/s"),
            Task::Media if known("audio_throughput") => ("Audio throughput", "audio_throughput", "s/s"),
            Task::Media if known("image_throughput") => ("Image throughput", "image_throughput", "images/s"),
            _ => ("Request throughput", "request_throughput", "req/s"),
        };
        let below = match task {
            Task::Pooling => self.value("total_token_throughput").map(|rate| format!("{} tok/s", short(rate))),
            _ if key == "request_throughput" => None,
            _ => self.value("request_throughput").map(|rate| format!("{} req/s", short(rate))),
        };
        self.tile(name, key, unit, below.unwrap_or_default())
    }

    /// The median of a latency, and its p99 below.
    fn latency(&self, name: &str) -> Tile {
        let (label, suffix) = (name.trim_start_matches("audio_").to_uppercase(), if name == RTF { "" } else { "_ms" });
        let unit = suffix.trim_start_matches('_');
        let key = |what: &str| format!("{what}_{name}{suffix}");
        let p99 = self.value(&key("p99")).map(|p99| {
            let interval = self.interval(&key("p99")).map(|text| format!(" ({text})"));
            format!("p99 {}{}", format!("{} {unit}", short(p99)).trim_end(), interval.unwrap_or_default())
        });
        self.tile(&format!("{label} p50"), &key("median"), unit, p99.unwrap_or_default())
    }

    fn tile(&self, name: &str, key: &str, unit: &'static str, below: String) -> Tile {
        let value = self.value(key);
        Tile {
            name: name.to_owned(),
            unit: if value.is_some() { unit } else { "" },
            value: value.map_or_else(|| "–".to_owned(), short),
            interval: self.interval(key).map_or_else(String::new, |text| format!("95% CI {text}")),
            below,
        }
    }

    /// The throughput, and the latencies that responses of this kind have.
    fn tiles(&self, task: &Task) -> Vec<Tile> {
        let latencies: &[&str] = match task {
            Task::Generation => &["ttft", "tpot", "e2el"],
            Task::Media if self.value("median_audio_ttfp_ms").is_some() => &["audio_ttfp", RTF, "e2el"],
            Task::Media | Task::Pooling => &["e2el"],
        };
        std::iter::once(self.throughput(task)).chain(latencies.iter().map(|name| self.latency(name))).collect()
    }
}

fn of_record(record: &RunRecord, about: &About) -> Card {
    let (summary, measured) = (&record.summary, &record.measured);
    let estimate = |key: &str| Estimate::from_samples(key, &measured.samples, measured.duration);
    let any = summary.completed > 0;
    let value = |key: &str| {
        let read = Known::find(key).and_then(|known| known.read(record));
        read.or_else(|| estimate(key).map(|one| one.value)).filter(|_| any)
    };
    let interval = |key: &str| interval_of(record, key).filter(|_| any);
    let output = summary.generation().map(|generation| generation.total_output);
    let origin = Origin {
        setup: &record.setup,
        provenance: &record.provenance,
        gpus: measured.telemetry.gpus.clone(),
        lengths: lengths(summary.completed, Some(summary.total_input), output),
        counts: (summary.completed + summary.failed, summary.failed, measured.duration),
    };
    let metrics = Metrics { value: &value, interval: &interval };
    origin.card(verdict(record, about), metrics.tiles(&record.setup.task), curves(record))
}

fn of_runs(first: &RunRecord, others: &[RunRecord]) -> Card {
    let runs: Vec<&RunRecord> = std::iter::once(first).chain(others).collect();
    let answered = runs.iter().filter(|run| run.summary.completed > 0);
    let of_run = |run: &RunRecord, key: &str| {
        let read = Known::find(key).and_then(|known| known.read(run));
        read.or_else(|| Some(Estimate::from_samples(key, &run.measured.samples, run.measured.duration)?.value))
    };
    let values = |key: &str| answered.clone().map(|run| of_run(run, key)).collect::<Option<Vec<f64>>>();
    let value = |key: &str| values(key).filter(|values| !values.is_empty()).map(|values| mean(&values));
    let interval = |key: &str| Interval::of_mean(&values(key)?);
    let sum = |of: fn(&RunRecord) -> u64| runs.iter().map(|run| of(run)).sum::<u64>();
    let (completed, failed) = (sum(|run| run.summary.completed), sum(|run| run.summary.failed));
    let outputs = runs.iter().map(|run| Some(run.summary.generation()?.total_output)).sum::<Option<u64>>();
    let origin = Origin {
        setup: &first.setup,
        provenance: &first.provenance,
        gpus: first.measured.telemetry.gpus.clone(),
        lengths: lengths(completed, Some(sum(|run| run.summary.total_input)), outputs),
        counts: (completed + failed, failed, runs.iter().map(|run| run.measured.duration).sum()),
    };
    let verdicts = runs.iter().map(|run| verdict(run, &About::default()));
    let rank = |tone: &Tone| [Tone::Bad, Tone::Warning].iter().position(|one| one == tone).unwrap_or(2);
    let (tone, text) = verdicts.min_by_key(|(tone, _)| rank(tone)).expect("there is a first run");
    let text = format!("{} runs, means and their intervals; {text}", runs.len());
    let metrics = Metrics { value: &value, interval: &interval };
    origin.card((tone, text), metrics.tiles(&first.setup.task), Vec::new())
}

fn of_stored(run: &StoredRun) -> Card {
    let setup = restored::setup(&run.fields);
    let any = !run.is_empty();
    let spread = |key: &str| run.spread(key).map(|spread| Estimate::of(&spread));
    let value = |key: &str| run.number(key).or_else(|| spread(key).map(|one| one.value)).filter(|_| any);
    // One burst is one observation.
    let burst = !setup.is_paced() && setup.max_concurrency.is_none_or(|limit| limit as i64 >= setup.num_prompts.max(1));
    let stable = run.offered_rate().is_none() || run.kept_up();
    let computed = |key: &str| spread(key).filter(|one| !one.is_vague && stable).map(|one| one.interval);
    let known = |key: &str| run.interval(key).or_else(|| computed(key));
    let interval = |key: &str| known(key).filter(|_| any && !burst);
    let count = |key: &str| run.number(key).map(|count| count as u64);
    let (failed, all) = run.failures().unwrap_or((0, count("completed").unwrap_or(0)));
    let telemetry = run.fields.get("tacho").and_then(|tacho| tacho.get("telemetry")?.get("gpus")?.as_list());
    let gpus = telemetry.unwrap_or_default().iter().filter_map(|name| name.as_str().map(str::to_owned)).collect();
    let completed = count("completed").unwrap_or(0);
    let origin = Origin {
        setup: &setup,
        provenance: &run.provenance(),
        gpus,
        lengths: lengths(completed, count("total_input_tokens"), count("total_output_tokens")),
        counts: (all, failed, run.number("duration").unwrap_or(0.0)),
    };
    let metrics = Metrics { value: &value, interval: &interval };
    // A file does not name its task.
    let task = if any && metrics.value("output_throughput").is_none() { Task::Media } else { setup.task };
    origin.card(stored_verdict(run), metrics.tiles(&task), Vec::new())
}

/// The provenance of a result for a card.
struct Origin<'a> {
    setup: &'a Setup,
    provenance: &'a Provenance,
    gpus: Vec<String>,
    lengths: Option<String>,
    /// All requests, failed requests, and the duration in seconds.
    counts: (u64, u64, f64),
}

impl Origin<'_> {
    fn card(&self, (tone, verdict): (Tone, String), tiles: Vec<Tile>, curves: Vec<Curve>) -> Card {
        let (setup, provenance) = (self.setup, self.provenance);
        let title = setup.label.as_deref().filter(|label| !label.is_empty()).unwrap_or(&setup.model_id);
        let model = (title != setup.model_id).then(|| setup.model_id.clone());
        let server = provenance.server.name().unwrap_or_else(|| setup.backend.clone());
        let workload = [Some(load(setup)), provenance.dataset.clone(), self.lengths.clone()];
        Card {
            title: if title.is_empty() { "–".to_owned() } else { harmless_line(title) },
            server: joined([model, Some(server), self.hardware()]),
            load: joined(workload),
            tone,
            verdict: harmless_line(&format!("{}: {verdict}", tone.word())),
            tiles,
            curves,
            command: provenance.command.as_deref().map(command::to_repeat).unwrap_or_default(),
            foot: self.foot(),
        }
    }

    /// The GPUs, or the client's processors if no GPU was found.
    fn hardware(&self) -> Option<String> {
        let server = &self.provenance.server;
        let gpus = server.gpus.clone().unwrap_or_else(|| counted(&self.gpus));
        if !gpus.is_empty() {
            let driver = server.driver.as_ref().map(|driver| format!(", driver {driver}")).unwrap_or_default();
            return Some(gpus + &driver);
        }
        let host = self.provenance.host.as_ref().filter(|host| !host.cpu.is_empty())?;
        Some(format!("client on {}× {}", host.cpus, host.cpu))
    }

    fn foot(&self) -> String {
        let (all, failed, duration) = self.counts;
        let failures = if failed > 0 { format!(", {} failed", grouped(failed as i64)) } else { String::new() };
        let requests = format!("{} requests in {} s{failures}", grouped(all as i64), short(duration));
        let tacho = self.provenance.tacho.as_ref();
        let version = tacho.map(|text| format!("tacho {}", text.split(' ').next().unwrap_or_default()));
        let seed = self.provenance.seed.map(|seed| format!("seed {seed}"));
        let metadata = self.setup.metadata.iter().map(|(key, value)| format!("{key}={value}"));
        let metadata = metadata.collect::<Vec<_>>().join(" · ");
        joined([version, seed, Some(requests), date(&self.setup.started), Some(metadata)])
    }
}

/// The day of `2026-01-02T…` or `20260102-…`.
fn date(started: &str) -> Option<String> {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    match (started.get(..10), started.get(..8)) {
        (Some(day), _) if day.split('-').count() == 3 && day.split('-').all(digits) => Some(day.to_owned()),
        (_, Some(day)) if digits(day) => Some(format!("{}-{}-{}", &day[..4], &day[4..6], &day[6..])),
        _ => None,
    }
}

fn joined<const N: usize>(parts: [Option<String>; N]) -> String {
    let known: Vec<String> = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
    harmless_line(&known.join(" · "))
}

fn lengths(completed: u64, input: Option<u64>, output: Option<u64>) -> Option<String> {
    let mean = |tokens: u64| grouped((tokens as f64 / completed as f64).round() as i64);
    let input = input.filter(|_| completed > 0)?;
    Some(match output.filter(|tokens| *tokens > 0) {
        Some(output) => format!("{} prompt and {} output tokens (mean)", mean(input), mean(output)),
        None => format!("{} prompt tokens (mean)", mean(input)),
    })
}

/// The most severe finding, and the number of others.
fn verdict(record: &RunRecord, about: &About) -> (Tone, String) {
    if record.summary.completed == 0 {
        return (Tone::Bad, "no request succeeded".to_owned());
    }
    let verdict = Verdict::of(record);
    let tone = if verdict.worst() == Some(Severity::Bad) { Tone::Bad } else { Tone::Warning };
    let grave = verdict.findings.iter().filter(|finding| finding.severity != Severity::Note);
    let texts = grave.map(|finding| finding.text.as_str()).chain(about.warnings.iter().map(String::as_str));
    match summed(&distinct(texts)) {
        Some(text) => (tone, text),
        None if record.trust.is_none() && about.client.is_none() => {
            (Tone::Warning, "no warnings, but how well the client kept up is not known".to_owned())
        }
        None => (Tone::Good, "no warnings".to_owned()),
    }
}

/// The verdict in the file; empty if the file lacks tacho's part.
fn stored_verdict(run: &StoredRun) -> (Tone, String) {
    if run.is_empty() {
        return (Tone::Bad, "no request succeeded".to_owned());
    }
    let Some(caveats) = run.view().caveats() else {
        return (Tone::Warning, "this result does not say whether it can be trusted".to_owned());
    };
    let texts: Vec<&str> = caveats.iter().map(|caveat| caveat.text.as_str()).collect();
    let tone = if stored_worst(run) == Some(Severity::Bad) { Tone::Bad } else { Tone::Warning };
    summed(&texts).map_or_else(|| (Tone::Good, "no warnings".to_owned()), |text| (tone, text))
}

fn summed(texts: &[&str]) -> Option<String> {
    match texts {
        [] => None,
        [one] => Some((*one).to_owned()),
        [first, more @ ..] => Some(format!("(1 of {}) {first}", more.len() + 1)),
    }
}

/// Throughput and a latency over time; empty for a run of few requests.
fn curves(record: &RunRecord) -> Vec<Curve> {
    let samples = &record.measured.samples;
    let Some(over) = OverTime::of(samples, STEPS).filter(|_| record.summary.completed > 1) else { return Vec::new() };
    let (name, row) = match record.setup.task {
        Task::Generation => ("Output tok/s", TOKENS),
        _ => ("Requests/s", FINISHED),
    };
    let latencies = LatencyOverTime::of(samples, &over);
    let curve = |name: String, values: &[f64]| Curve { name, values: values.to_vec(), end: over.end };
    let shown = if record.setup.task == Task::Generation { &["ttft", "e2el"][..] } else { &["e2el"] };
    let latency = latencies.known().find(|(name, ..)| shown.contains(name));
    let latency = latency.map(|(name, median, _)| curve(format!("{} p50, ms", name.to_uppercase()), median));
    std::iter::once(curve(name.to_owned(), over.row(row))).chain(latency).collect()
}

#[cfg(test)]
mod tests;
