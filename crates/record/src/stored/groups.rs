//! The groups of a stored result.

use tacho_core::json::{Dict, Value};

use super::{Requests, StoredRun};
use crate::groups::{is_group, only};

/// Keys of tacho's part that describe every group of a run.
const OF_THE_RUN: [&str; 8] =
    ["version", "strict_parity", "interrupted", "start", "workload", "provenance", "client", "sessions"];

impl StoredRun {
    /// The names of its groups, as `KEY.NAME`.
    pub fn group_names(&self) -> Vec<String> {
        let keys = self.view().tacho("groups").and_then(Value::as_dict).into_iter().flat_map(Dict::iter);
        let names = keys.filter_map(|(key, groups)| Some((key, groups.as_dict()?)));
        names.flat_map(|(key, groups)| groups.iter().map(move |(name, _)| format!("{key}.{name}"))).collect()
    }

    /// The metrics and requests of a group, by its name or as `KEY.NAME`; `None` if the run has no such group, or several
    /// of that name.
    pub fn group(&self, path: &str) -> Option<StoredRun> {
        let tacho = self.fields.get("tacho")?.as_dict()?;
        let keys = tacho.get("groups")?.as_dict()?.iter().filter_map(|(key, groups)| Some((key, groups.as_dict()?)));
        let groups = keys.flat_map(|(key, groups)| groups.iter().map(move |(name, group)| (key, name, group)));
        let (key, name, group) = only(groups.filter(|(key, name, _)| is_group(path, key, name)))?;
        // Metrics of the whole run are not the group's.
        let run = OF_THE_RUN.iter().filter_map(|key| Some((key, tacho.get(key)?)));
        let of_group = ["outcomes", "intervals", "scores"].iter().filter_map(|key| Some((key, group.get(key)?)));
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
        let rows = self.rows.iter().filter(|row| row.labels.get(key) == Some(name)).cloned().collect();
        Requests { rows, paced: self.paced }
    }
}
