//! The settings of a run: everything in its result that was not measured. Runs are repeats of each other only if all
//! settings are equal; those that differ distinguish them.

use std::collections::BTreeSet;

use tacho_record::{StoredRun, metric::Known};

use crate::{distinct::distinct, tables::markdown::plain};

pub(crate) type Settings = Vec<(String, String)>;

/// Keys that are neither metrics of the table nor settings: time, repetition, and other measurements.
const MEASURED: [&str; 7] = [
    "date",
    "run_number",
    "tacho",
    "rps_change_events",
    "spec_decode_per_position_acceptance_rates",
    "steady_state",
    "percentiles",
];

pub fn settings(run: &StoredRun) -> Settings {
    let is_set = |key: &str| !MEASURED.contains(&key) && !key.starts_with("measured_") && Known::find(key).is_none();
    let lists = |key: &str| key.ends_with("_times") || key == "latencies";
    let fields = run.fields.iter().filter(|(key, _)| is_set(key) && !lists(key));
    fields.map(|(key, value)| (key.to_owned(), plain(value))).collect()
}

/// The keys that do not have the same value in all of `sets`, in order of appearance.
pub(crate) fn varying<'a>(sets: impl Iterator<Item = &'a Settings> + Clone) -> Vec<String> {
    let keys = distinct(sets.clone().flatten().map(|(key, _)| key));
    let varies = |key: &&String| {
        let first = sets.clone().next().map(|set| value(set, key));
        sets.clone().any(|set| Some(value(set, key)) != first)
    };
    keys.into_iter().filter(varies).cloned().collect()
}

pub(crate) fn value<'a>(set: &'a Settings, key: &str) -> Option<&'a str> {
    set.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
}

/// What is known to differ between the requests of two sides; `None` if they are the same, or if a side does not say.
pub(crate) fn other_requests(base: &[StoredRun], new: &[StoredRun]) -> Option<&'static str> {
    if base.iter().chain(new).any(StoredRun::has_other_workload_version) {
        return Some("workload digests of another version of tacho: whether the requests are the same is unknown");
    }
    let digests = |runs: &[StoredRun]| {
        let found = runs.iter().map(|run| run.workload().map(str::to_owned));
        found.collect::<Option<BTreeSet<String>>>()
    };
    let differ = digests(base).zip(digests(new)).is_some_and(|(base, new)| base != new);
    differ.then_some("requests or their times (workload digests)")
}

/// The entries of `set` under `keys`, as text.
pub(crate) fn named(set: &Settings, keys: &[String]) -> String {
    let parts = keys.iter().filter_map(|key| Some(format!("{key} {}", value(set, key)?)));
    parts.collect::<Vec<_>>().join(", ")
}

pub(crate) fn only(set: &Settings, keys: &[String]) -> Settings {
    set.iter().filter(|(key, _)| keys.contains(key)).cloned().collect()
}

/// The settings that distinguish runs that should be repeats of each other; `None` if they are.
pub fn varied(runs: &[StoredRun]) -> Option<String> {
    let sets: Vec<Settings> = runs.iter().map(settings).collect();
    let keys = varying(sets.iter());
    let values = |key: &String| {
        let values = distinct(sets.iter().map(|set| value(set, key).unwrap_or("nothing")));
        format!("{key} is {}", values.join(" and "))
    };
    (!keys.is_empty()).then(|| keys.iter().map(values).collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_core::json::parse;

    fn run(text: &str) -> StoredRun {
        StoredRun::from_dict(parse(text).unwrap().as_dict().unwrap()).unwrap()
    }

    #[test]
    fn runs_are_repeats_only_if_all_that_was_set_is_equal() {
        let (a, b) = (
            r#"{"date": "1", "max_num_seqs": 16, "request_rate": "inf", "p99_ttft_ms": 3.0, "run_number": 0}"#,
            r#"{"date": "2", "max_num_seqs": 16, "request_rate": "inf", "p99_ttft_ms": 4.0, "run_number": 1}"#,
        );
        assert_eq!(varied(&[run(a), run(b)]), None);
        let other = run(&b.replace("16", "64"));
        assert_eq!(varied(&[run(a), other]).as_deref(), Some("max_num_seqs is 16 and 64"));
        assert_eq!(
            varied(&[run(a), run("{}")]).as_deref(),
            Some("max_num_seqs is 16 and nothing; request_rate is inf and nothing")
        );
    }
}
