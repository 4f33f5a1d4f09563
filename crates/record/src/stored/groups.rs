//! The groups of a stored result.

use tacho_core::Labels;
use tacho_core::json::{Dict, Value};

use super::{Requests, StoredRun, list};
use crate::Error;
use crate::groups::{is_group, only};

/// Keys of tacho's part that describe every group of a run.
const OF_THE_RUN: [&str; 8] =
    ["version", "strict_parity", "interrupted", "start", "workload", "provenance", "client", "sessions"];

impl StoredRun {
    /// The names of its groups, as `KEY.NAME`.
    pub fn group_names(&self) -> Vec<String> {
        let keys = self.view().own("groups").and_then(Value::as_dict).into_iter().flat_map(Dict::iter);
        let names = keys.filter_map(|(key, groups)| Some((key, groups.as_dict()?)));
        names.flat_map(|(key, groups)| groups.iter().map(move |(name, _)| format!("{key}.{name}"))).collect()
    }

    /// The metrics and requests of a group, by its name or as `KEY.NAME`; `None` if the run has no such group, or several
    /// of that name.
    pub fn group(&self, path: &str) -> Option<StoredRun> {
        let own = self.fields.get("tacho")?.as_dict()?;
        let keys = own.get("groups")?.as_dict()?.iter().filter_map(|(key, groups)| Some((key, groups.as_dict()?)));
        let groups = keys.flat_map(|(key, groups)| groups.iter().map(move |(name, group)| (key, name, group)));
        let (key, name, group) = only(groups.filter(|(key, name, _)| is_group(path, key, name)))?;
        // Metrics of the whole run are not the group's.
        let run = OF_THE_RUN.iter().filter_map(|key| Some((key, own.get(key)?)));
        let of_group = ["outcomes", "intervals"].iter().filter_map(|key| Some((key, group.get(key)?)));
        let part: Dict = run.chain(of_group).map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
        let mut fields = self.fields.clone();
        group.as_dict()?.iter().for_each(|(key, value)| fields.set(key, value.clone()));
        fields.set("tacho", part);
        Some(StoredRun { fields, requests: self.requests.only(key, name) })
    }
}

impl Requests {
    /// Those with a label.
    fn only(&self, key: &str, name: &str) -> Requests {
        let places: Vec<usize> = (0..self.labels.len()).filter(|&at| self.labels[at].get(key) == Some(name)).collect();
        Requests {
            starts: chosen(&self.starts, &places),
            ttfts: chosen(&self.ttfts, &places),
            itls: chosen(&self.itls, &places),
            latencies: chosen(&self.latencies, &places),
            input_lens: chosen(&self.input_lens, &places),
            output_lens: chosen(&self.output_lens, &places),
            queue_times: chosen(&self.queue_times, &places),
            delays: chosen(&self.delays, &places),
            paced: self.paced,
            sessions: chosen(&self.sessions, &places),
            labels: chosen(&self.labels, &places),
        }
    }
}

fn chosen<T: Clone>(values: &[T], places: &[usize]) -> Vec<T> {
    places.iter().filter_map(|&at| values.get(at).cloned()).collect()
}

/// The labels of each request; empty if the file lacks them.
pub(crate) fn stored_labels(own: Option<&Dict>, count: usize) -> Result<Vec<Labels>, Error> {
    let read = |value: &Value| value.as_dict()?.iter().map(|(key, value)| Some((key, value.as_str()?))).collect();
    let labels = own.map_or(Ok(Vec::new()), |own| list(own, "labels", read, "a list of objects of texts"))?;
    match labels.len() {
        found if found > 0 && found != count => {
            Err(Error::Length { key: "tacho.labels".to_owned(), found, expected: count })
        }
        _ => Ok(labels),
    }
}
