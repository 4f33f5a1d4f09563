//! Series of entries that may be compared over time: those of the same settings and tags.

use super::Entry;

/// The tag that names the build. Its values are the order of a series, not a difference between series.
const BUILD: &str = "commit";
/// What may change from build to build.
const VARIES: [&str; 2] = ["server", "workload"];

/// Entries of one kind with the same settings and tags, by time.
#[derive(Debug, Clone)]
pub struct Series<'e> {
    /// Kind, settings and tags that all have.
    pub about: Vec<(&'e str, &'e str)>,
    /// The entries.
    pub entries: Vec<&'e Entry>,
}

impl Series<'_> {
    /// The entries that have a metric which the client did not change, with its value; and how many others have it.
    pub fn values(&self, key: &str) -> (Vec<&Entry>, Vec<f64>, usize) {
        let all = self.entries.iter().filter_map(|entry| Some((*entry, entry.metric(key)?)));
        let (doubtful, usable): (Vec<_>, Vec<_>) =
            all.partition(|(entry, _)| entry.doubtful.iter().any(|doubtful| doubtful == key));
        let (entries, values) = usable.into_iter().unzip();
        (entries, values, doubtful.len())
    }
}

/// The series of some entries, in the order of their first entries. Tags in `across` do not separate them.
pub fn series<'e>(entries: impl IntoIterator<Item = &'e Entry>, across: &[String]) -> Vec<Series<'e>> {
    let mut found: Vec<Series<'e>> = Vec::new();
    for entry in entries {
        let is_fixed = |key: &str| !VARIES.contains(&key) && key != BUILD && !across.iter().any(|name| name == key);
        let pairs = entry.settings.iter().chain(&entry.tags);
        let kept = pairs.map(|(key, value)| (key.as_str(), value.as_str())).filter(|(key, _)| is_fixed(key));
        let mut about: Vec<_> = std::iter::once(("kind", entry.kind.name())).chain(kept).collect();
        about.sort_unstable();
        match found.iter_mut().find(|series| series.about == about) {
            Some(series) => series.entries.push(entry),
            None => found.push(Series { about, entries: vec![entry] }),
        }
    }
    found
}

/// The name of each series: what tells it from the others, or all that describes it if it is the only one.
pub fn names(all: &[Series<'_>]) -> Vec<String> {
    let differs = |pair: &(&str, &str)| all.len() == 1 || !all.iter().all(|series| series.about.contains(pair));
    let named = |series: &Series<'_>| {
        let pairs = series.about.iter().filter(|pair| differs(pair));
        pairs.map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
    };
    all.iter().map(named).collect()
}

/// Settings and tags of which two neighbors of a series have different values: name, before, after.
pub fn differences<'e>(before: &'e Entry, after: &'e Entry) -> Vec<(&'e str, &'e str, &'e str)> {
    let pairs = after.settings.iter().chain(&after.tags).filter(|(key, _)| key != BUILD);
    let changed = pairs.filter_map(|(key, new)| Some((key.as_str(), before.about(key)?, new.as_str())));
    changed.filter(|(_, old, new)| old != new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_core::json::parse;

    fn entry(text: &str, tags: &[(&str, &str)]) -> Entry {
        let tags: Vec<_> = tags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Entry::new(parse(text).unwrap().as_dict().unwrap(), "2026-11-03T10:00:00Z", "", &tags).unwrap()
    }

    fn run(rate: f64, server: &str, tags: &[(&str, &str)]) -> Entry {
        let text = format!(
            r#"{{"duration": 1.0, "completed": 1, "request_throughput": 1.0, "request_rate": {rate:?}, "run_number": 0, "max-num-seqs": 8,
                "tacho": {{"provenance": {{"server": {{"engine": "{server}"}}}}}}}}"#
        );
        entry(&text, tags)
    }

    #[test]
    fn entries_of_other_settings_or_tags_are_another_series() {
        let entries = [
            run(1.0, "a", &[("commit", "1"), ("branch", "main"), ("job", "7")]),
            run(1.0, "b", &[("commit", "2"), ("branch", "main"), ("job", "8")]),
            run(2.0, "a", &[("commit", "2"), ("branch", "main"), ("job", "9")]),
        ];
        let count = |across: &[&str]| {
            let across: Vec<String> = across.iter().map(|key| (*key).to_owned()).collect();
            series(&entries, &across).len()
        };
        assert_eq!([count(&[]), count(&["job"]), count(&["job", "request_rate"])], [3, 2, 1]);
        let across = ["job".to_owned()];
        assert_eq!(names(&series(&entries, &across)), ["request_rate=1.0", "request_rate=2.0"]);
        assert_eq!(
            names(&series(&entries[..1], &across)),
            ["branch=main kind=serving max_num_seqs=8 request_rate=1.0"]
        );
        assert_eq!(differences(&entries[0], &entries[1]), [("server", "a", "b"), ("job", "7", "8")]);
    }

    #[test]
    fn answers_and_tests_have_the_settings_of_their_runs() {
        let run = run(1.0, "a", &[]);
        let text = r#"{"criteria": ["p99_ttft_ms<=200"], "variable": "request_rate", "verdict": "found", "max_measured": 12.5,
            "estimate": 13.0, "achieved": {"p99_ttft_ms": 150.0}}"#;
        let mut search = entry(text, &[]);
        search.settings_of(&run);
        assert_eq!((search.metric("capacity"), search.metric("p99_ttft_ms")), (Some(12.5), Some(150.0)));
        assert_eq!((search.about("max_num_seqs"), search.about("request_rate")), (Some("8"), None));
        let vague = entry(&text.replace("found", "inconclusive"), &[]);
        assert_eq!(vague.metric("capacity"), None, "a lower bound is not a capacity");
        let text = r#"{"type": "ab-test", "stopped": "decided", "pairs": 4, "rules": [{"metric": "mean_tpot_ms", "b": 11.0, "change": 0.1}]}"#;
        let mut test = entry(text, &[]);
        test.settings_of(&run);
        assert_eq!((test.metric("mean_tpot_ms"), test.metric("change_mean_tpot_ms")), (Some(11.0), Some(0.1)));
        assert_eq!(test.about("request_rate"), Some("1.0"));
        let better = super::super::better;
        assert_eq!(
            [better("change_mean_tpot_ms"), better("capacity")],
            [crate::metric::Better::Less, crate::metric::Better::More]
        );
        let broken = parse(&text.replace("decided", "interrupted")).unwrap();
        assert!(Entry::new(broken.as_dict().unwrap(), "", "", &[]).is_err());
    }
}
