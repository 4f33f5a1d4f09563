//! The metrics of groups of requests: those of a class, a stage, a replica or an adapter.

use std::borrow::Cow;

use tacho_core::labels::MODEL;
use tacho_core::stage::{STAGE, StageSpan};
use tacho_metrics::{Sample, Samples, Setup, replicas::REPLICA};

use crate::{Measured, RunRecord, metric::Known};

/// Most values of a label that are groups: a label with more is an identifier.
const MAX_GROUPS: usize = 100;

/// The label of a request's class.
const CLASS: &str = "class";

/// The metrics of the requests that share a label.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// The label's key: `class`, `stage`, `replica`, `adapter`.
    pub key: String,
    /// The label's value.
    pub name: String,
    /// Its metrics, by the definitions of a run. Single requests are not kept.
    pub record: Box<RunRecord>,
}

/// All groups of a run: keys and values in the order of their first request. Every request is in one group of each key.
pub(crate) fn of(record: &RunRecord) -> Vec<Group> {
    let mut names: Vec<(String, Vec<String>)> = Vec::new();
    for sample in &record.measured.samples {
        for (key, _) in sample.labels.iter() {
            if names.iter().all(|(known, _)| known != key) {
                names.push((key.to_owned(), Vec::new()));
            }
        }
    }
    if names.is_empty() {
        return Vec::new();
    }
    for sample in &record.measured.samples {
        for (key, values) in names.iter_mut().filter(|(_, values)| values.len() <= MAX_GROUPS) {
            let value = value(record, &sample, key);
            if !values.iter().any(|known| known == value) {
                values.push(value.to_owned());
            }
        }
    }
    names.retain(|(_, values)| values.len() <= MAX_GROUPS);
    let pairs = names.iter().flat_map(|(key, values)| values.iter().map(move |name| (key, name)));
    pairs.map(|(key, name)| group(record, key, name)).collect()
}

/// The value of a request's label; without it, the run's own model, or `none`. The times of a request that was sent again
/// include the attempt at another replica, so it belongs to no replica alone.
fn value<'a>(record: &'a RunRecord, sample: &'a Sample, key: &str) -> &'a str {
    match sample.labels.get(key) {
        Some(_) if key == REPLICA && sample.retries > 0 => "retried",
        Some(value) => value,
        None if key == MODEL => &record.setup.model_id,
        None => "none",
    }
}

fn group(record: &RunRecord, key: &str, name: &str) -> Group {
    let (class, stage) = ((key == CLASS).then_some(name), (key == STAGE).then_some(name));
    Group {
        key: key.to_owned(),
        name: name.to_owned(),
        record: Box::new(part(record, samples(record, key, name), class, stage)),
    }
}

/// The metrics of some requests: those of a class, of a stage, of both, or of another group.
fn part(record: &RunRecord, samples: Samples, class: Option<&str>, stage: Option<&str>) -> RunRecord {
    let span = record.setup.stages.iter().find(|span| stage == Some(&span.name));
    let duration = if stage.is_some() { duration(&samples, span, &record.measured) } else { record.measured.duration };
    let limits = record.setup.metrics.class_goodput.iter().find(|(name, _)| class == Some(name));
    // The rate of the whole run is not the group's: its arrivals are those that were planned for it.
    let mut setup = Setup {
        num_prompts: samples.len() as i64,
        request_rate: f64::INFINITY,
        ramp_up: None,
        self_timed: record.setup.is_paced(),
        max_concurrency: span.and_then(|span| span.limit).map(|limit| limit as u64).or(record.setup.max_concurrency),
        stages: Vec::new(),
        ..record.setup.clone()
    };
    if class.is_some() {
        setup.metrics.goodput = limits.map(|(_, limits)| *limits).or(setup.metrics.goodput);
        setup.metrics.class_goodput.clear();
    }
    let measured = Measured { samples, duration, ..Measured::default() };
    let mut part = RunRecord::compute_whole(setup, measured, record.is_burst());
    part.measured.samples = Samples::default();
    part
}

pub(crate) fn samples(record: &RunRecord, key: &str, name: &str) -> Samples {
    let belongs = |sample: &Sample| value(record, sample, key) == name;
    record.measured.samples.iter().filter(|sample| belongs(sample)).map(Cow::into_owned).collect()
}

/// From the start of a stage to its end or the last end of its requests, whichever is later; from their first scheduled
/// time to their last end if the stage is not known. A stage with fewer requests than planned ends with the run.
fn duration(samples: &Samples, stage: Option<&StageSpan>, run: &Measured) -> f64 {
    let (first, last) = samples
        .iter()
        .fold((f64::INFINITY, 0.0_f64), |(first, last), sample| (first.min(sample.scheduled), last.max(sample.done)));
    match stage {
        _ if first.is_infinite() => 0.0,
        Some(stage) => {
            let is_complete = (1..=samples.len()).contains(&stage.requests);
            let end = if is_complete { stage.end } else { stage.end.min(run.duration) };
            end.max(last - run.origin) - stage.start
        }
        None => last - first,
    }
}

/// Returns whether a path names a group: by its name, or by its label and name (`class.chat`).
pub(crate) fn is_group(path: &str, key: &str, name: &str) -> bool {
    path == name || path.strip_prefix(key).and_then(|rest| rest.strip_prefix('.')) == Some(name)
}

pub(crate) fn only<T>(mut items: impl Iterator<Item = T>) -> Option<T> {
    items.next().filter(|_| items.next().is_none())
}

/// Splits a metric of a group, such as `chat.p99_ttft_ms`, into the group's path and the metric; the path is `None` for
/// a metric of the whole run, or for an unknown one.
pub fn split(metric: &str) -> (Option<&str>, &str) {
    if Known::find(metric).is_some() {
        return (None, metric);
    }
    let mut parts = metric.match_indices('.').map(|(at, _)| (Some(&metric[..at]), &metric[at + 1..]));
    parts.find(|(_, key)| Known::find(key).is_some()).unwrap_or((None, metric))
}

impl RunRecord {
    /// The group with this name, or with this label and name (`class.chat`); `None` also if the name is ambiguous.
    pub fn group(&self, path: &str) -> Option<&Group> {
        only(self.groups.iter().filter(|group| is_group(path, &group.key, &group.name)))
    }

    /// The requests of a group.
    pub fn group_samples(&self, group: &Group) -> Samples {
        samples(self, &group.key, &group.name)
    }

    /// The groups of a label, in order.
    pub fn groups_by<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a Group> {
        self.groups.iter().filter(move |group| group.key == key)
    }

    /// The requests of each class in each stage; empty without several of both, or where single requests are not known.
    pub fn classes_by_stage(&self) -> Vec<Group> {
        let names = |key| self.groups_by(key).map(|group| group.name.as_str()).collect::<Vec<_>>();
        let (classes, stages) = (names(CLASS), names(STAGE));
        if classes.len() < 2 || stages.len() < 2 || classes.len() * stages.len() > MAX_GROUPS {
            return Vec::new();
        }
        let pairs = stages.iter().flat_map(|stage| classes.iter().map(move |class| (*class, *stage)));
        let group = |(class, stage): (&str, &str)| {
            let belongs = |sample: &Sample| value(self, sample, CLASS) == class && value(self, sample, STAGE) == stage;
            let samples: Samples =
                self.measured.samples.iter().filter(|sample| belongs(sample)).map(Cow::into_owned).collect();
            let (key, name) = ("class and stage".to_owned(), format!("{class}, {stage}"));
            let is_there = !samples.is_empty();
            is_there.then(|| Group { key, name, record: Box::new(part(self, samples, Some(class), Some(stage))) })
        };
        pairs.filter_map(group).collect()
    }

    /// The keys of its groups, in order.
    pub fn group_keys(&self) -> Vec<&str> {
        let mut keys: Vec<&str> = self.groups.iter().map(|group| group.key.as_str()).collect();
        keys.dedup();
        keys
    }
}

#[cfg(test)]
mod tests {
    use tacho_core::Labels;
    use tacho_metrics::GoodputLimits;

    use super::*;

    fn sample(index: usize, ttft: f64, labels: &Labels) -> Sample {
        let scheduled = index as f64;
        let sample = Sample {
            index,
            scheduled,
            dispatched: scheduled,
            sent: scheduled,
            done: scheduled + 2.0,
            ..Sample::default()
        };
        Sample { ttft, latency: 2.0, output_len: 10, prompt_len: 5, ..sample }.labeled(labels.clone())
    }

    fn record() -> RunRecord {
        let chat = Labels::default().with("class", "chat").with(STAGE, "calm");
        let batch = Labels::default().with("class", "batch").with(STAGE, "peak");
        let label = |index: usize| if index % 4 == 3 { &batch } else { &chat };
        let samples = (0..8).map(|index| sample(index, if index % 4 == 3 { 1.0 } else { 0.1 }, label(index))).collect();
        let setup = Setup { request_rate: 1.0, ..Setup::example() };
        RunRecord::compute(setup, Measured { samples, duration: 20.0, ..Measured::default() })
    }

    #[test]
    fn each_group_has_the_metrics_of_its_requests() {
        let record = record();
        assert_eq!(record.group_keys(), ["class", STAGE]);
        let found: Vec<(&str, u64, f64, f64)> = record
            .groups
            .iter()
            .map(|group| {
                let summary = &group.record.summary;
                let ttft = summary.generation().map_or(f64::NAN, |generation| generation.ttft.mean_ms);
                (group.name.as_str(), summary.completed, summary.request_throughput, ttft)
            })
            .collect();
        // A class runs as long as the run; a stage from its first scheduled request to its last end.
        let expected = [
            ("chat", 6, 0.3, 100.0),
            ("batch", 2, 0.1, 1000.0),
            ("calm", 6, 6.0 / 8.0, 100.0),
            ("peak", 2, 2.0 / 6.0, 1000.0),
        ];
        for (found, expected) in found.iter().zip(expected) {
            assert_eq!((found.0, found.1), (expected.0, expected.1));
            assert!((found.2 - expected.2).abs() < 1e-9 && (found.3 - expected.3).abs() < 1e-9, "{found:?}");
        }
        assert_eq!(found.len(), expected.len());
    }

    /// Each class is in both stages, and slower in the second.
    #[test]
    fn classes_are_crossed_with_stages() {
        let at = |index: usize| {
            let (class, stage) = (["chat", "batch"][index % 2], ["calm", "peak"][index / 4]);
            let ttft = [0.1, 1.0][index % 2] * [1.0, 3.0][index / 4];
            sample(index, ttft, &Labels::default().with("class", class).with(STAGE, stage))
        };
        let samples = (0..8).map(at).collect();
        let setup = Setup { request_rate: 1.0, ..Setup::example() };
        let record = RunRecord::compute(setup, Measured { samples, duration: 20.0, ..Measured::default() });
        let ttft = |group: &Group| group.record.summary.generation().unwrap().ttft.mean_ms.round();
        let found: Vec<(String, u64, f64)> = record
            .classes_by_stage()
            .iter()
            .map(|group| (group.name.clone(), group.record.summary.completed, ttft(group)))
            .collect();
        let wanted = [("chat, calm", 100.0), ("batch, calm", 1000.0), ("chat, peak", 300.0), ("batch, peak", 3000.0)];
        assert_eq!(found, wanted.map(|(name, ttft)| (name.to_owned(), 2, ttft)));
    }

    #[test]
    fn requests_are_held_to_the_limits_of_their_class_in_every_group() {
        let within = |ttft_ms| GoodputLimits { ttft_ms: Some(ttft_ms), ..GoodputLimits::default() };
        let mut run = record();
        run.setup.metrics.goodput = Some(within(2000.0));
        run.setup.metrics.class_goodput = vec![("chat".to_owned(), within(50.0))];
        let record = RunRecord::compute(run.setup, run.measured);
        let goodput = |name: &str| record.group(name).unwrap().record.summary.generation().unwrap().request_goodput;
        assert_eq!(["chat", "batch", "calm", "peak"].map(goodput), [Some(0.0), Some(0.1), Some(0.0), Some(2.0 / 6.0)]);
    }

    #[test]
    fn every_request_is_in_a_group() {
        let large = Labels::default().with(MODEL, "large").with("adapter", "a");
        let labels = |index: usize| if index % 4 == 3 { large.clone() } else { Labels::NONE };
        let samples = (0..8).map(|index| sample(index, 0.1, &labels(index))).collect();
        let setup = Setup { model_id: "small".into(), ..Setup::example() };
        let record = RunRecord::compute(setup, Measured { samples, duration: 20.0, ..Measured::default() });
        let found: Vec<(&str, &str, u64)> = record
            .groups
            .iter()
            .map(|group| (group.key.as_str(), group.name.as_str(), group.record.summary.completed))
            .collect();
        let expected = [(MODEL, "small", 6), (MODEL, "large", 2), ("adapter", "none", 6), ("adapter", "a", 2)];
        assert_eq!(found, expected);
        assert_eq!(record.group_samples(record.group("small").unwrap()).len(), 6);
    }

    #[test]
    fn a_replica_is_not_charged_with_the_delay_of_another() {
        let labels = Labels::default().with(REPLICA, "b:1");
        // The third request waited ten seconds for a dead replica first.
        let sent = |index: usize| Sample {
            retries: u32::from(index == 2),
            ..sample(index, if index == 2 { 10.0 } else { 0.1 }, &labels)
        };
        let measured = Measured { samples: (0..4).map(sent).collect(), duration: 20.0, ..Measured::default() };
        let record = RunRecord::compute(Setup::example(), measured);
        let ttft = |name: &str| record.group(name).unwrap().record.summary.generation().unwrap().ttft.mean_ms.round();
        assert_eq!((ttft("b:1"), ttft("retried")), (100.0, 10_000.0));
    }

    #[test]
    fn a_stage_completes_no_more_than_it_is_offered() {
        let stage = |name: &str, start, end, requests| StageSpan {
            name: name.to_owned(),
            start,
            end,
            requests,
            ..StageSpan::default()
        };
        let stages = vec![stage("fast", 0.0, 10.0, 4), stage("cut", 10.0, 60.0, 20)];
        let labels = |index: usize| Labels::default().with(STAGE, if index < 4 { "fast" } else { "cut" });
        // Four requests at 0 to 3 s, each of 2 s; four more from 10 s on; the run is interrupted after 20 s.
        let samples = (0..8).map(|index| sample(if index < 4 { index } else { index + 6 }, 0.1, &labels(index)));
        let measured = Measured { samples: samples.collect(), duration: 20.0, ..Measured::default() };
        let record = RunRecord::compute(Setup { stages, ..Setup::example() }, measured);
        let rate = |name: &str| record.group(name).unwrap().record.summary.request_throughput;
        assert_eq!([rate("fast"), rate("cut")], [0.4, 0.4]);
        // The last stage is as long as planned although its last response ends before.
        let last = RunRecord::compute(
            Setup { stages: vec![stage("last", 0.0, 16.0, 8)], ..Setup::example() },
            Measured {
                samples: (0..8).map(|index| sample(index, 0.1, &Labels::default().with(STAGE, "last"))).collect(),
                duration: 9.0,
                ..Measured::default()
            },
        );
        assert_eq!(last.groups[0].record.summary.request_throughput, 0.5);
    }

    #[test]
    fn metrics_of_groups_have_a_path() {
        assert_eq!(split("p99_ttft_ms"), (None, "p99_ttft_ms"));
        assert_eq!(split("p99.9_ttft_ms"), (None, "p99.9_ttft_ms"));
        assert_eq!(split("chat.p99.9_ttft_ms"), (Some("chat"), "p99.9_ttft_ms"));
        assert_eq!(split("replica.http://10.0.0.1:80.failed"), (Some("replica.http://10.0.0.1:80"), "failed"));
        assert_eq!(split("chat.p99_tfft_ms"), (None, "chat.p99_tfft_ms"));
        assert!(is_group("chat", "class", "chat") && is_group("class.chat", "class", "chat"));
        assert!(!is_group("class.cha", "class", "chat") && !is_group("stage.chat", "class", "chat"));
    }

    #[test]
    fn identifiers_are_no_groups() {
        let labeled = |index: usize| Labels::default().with("request", &index.to_string());
        let samples = (0..=MAX_GROUPS).map(|index| sample(index, 0.1, &labeled(index))).collect();
        let record = RunRecord::compute(Setup::example(), Measured { samples, duration: 1.0, ..Measured::default() });
        assert!(record.groups.is_empty());
    }
}
