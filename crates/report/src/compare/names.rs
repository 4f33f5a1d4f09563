//! Names of the parts of a comparison: sheets, tables, pages.

use super::Side;
use super::join::{Comparison, Group};
use super::settings::{Settings, value, varying};
use crate::{distinct::distinct, plots::bare, tables::workbook::sheet_names};

/// In longer file names the difference is hard to see.
const MAX_NAME: usize = 24;

/// Renames sides with long names after what distinguishes them.
pub fn by_difference(sides: Vec<Side>) -> Vec<Side> {
    let names = short_names(&sides);
    sides.into_iter().zip(names).map(|(side, label)| Side { label, ..side }).collect()
}

/// Names of sides: their own without the common part, or else the settings that differ, or else numbers.
pub(super) fn short_names(sides: &[Side]) -> Vec<String> {
    let own = unshared(sides);
    let fits = |names: &[String], max: usize| {
        distinct(names).len() == names.len() && names.iter().all(|name| !name.is_empty() && name.chars().count() <= max)
    };
    let sets: Vec<Settings> =
        sides.iter().map(|side| side.rows.first().map(|row| row.settings()).unwrap_or_default()).collect();
    let keys = varying(sets.iter());
    let by_settings: Vec<String> = sets
        .iter()
        .map(|set| {
            let parts = keys.iter().filter_map(|key| Some(format!("{} {}", bare(key), value(set, key)?)));
            parts.collect::<Vec<_>>().join(", ")
        })
        .collect();
    let of_run = |side: &Side| side.runs().first().and_then(|run| run.provenance().server.name()).unwrap_or_default();
    let servers: Vec<String> = sides.iter().map(of_run).collect();
    let numbers: Option<Vec<String>> = own.iter().map(|name| Some(format!("run {}", repeat(name)?))).collect();
    let numbers = numbers.unwrap_or_default();
    // The time of a run does not identify it.
    let telling = !own.iter().all(|name| name.trim_start_matches(|c: char| c.is_ascii_digit() || c == '-').is_empty());
    match () {
        () if fits(&numbers, MAX_NAME) && numbers.len() > 1 => numbers,
        () if fits(&own, MAX_NAME) && telling && numbers.is_empty() => own,
        () if fits(&servers, 2 * MAX_NAME) => servers,
        () if fits(&by_settings, 2 * MAX_NAME) => by_settings,
        () => (1..=sides.len()).map(|number| format!("run {number}")).collect(),
    }
}

/// The repetition number in a run's name: 2 for `…-run2`.
fn repeat(name: &str) -> Option<&str> {
    let (before, number) = name.rsplit_once("run")?;
    let plain = before.chars().all(|c| c.is_ascii_digit() || c == '-') && number.chars().all(|c| c.is_ascii_digit());
    (plain && !number.is_empty()).then_some(number)
}

/// Labels without their common path and extension.
fn unshared(sides: &[Side]) -> Vec<String> {
    let labels: Vec<&str> = sides.iter().map(|side| side.label.as_str()).collect();
    let first = labels.first().copied().unwrap_or_default();
    let positions = first.char_indices().map(|(at, _)| at).chain([first.len()]);
    let shared = positions.take_while(|at| labels.iter().all(|label| label.get(..*at) == first.get(..*at))).last();
    let start = first[..shared.unwrap_or(0)].rfind(['/', '-', '_']).map_or(0, |at| at + 1);
    let short = |label: &&str| {
        label.get(start..).filter(|rest| !rest.is_empty()).unwrap_or(label).trim_end_matches(".json").to_owned()
    };
    if labels.len() < 2 { labels.into_iter().map(str::to_owned).collect() } else { labels.iter().map(short).collect() }
}

impl Group {
    fn value(&self, key: &str) -> &str {
        self.about.iter().find(|(name, _)| name == key).map_or("", |(_, value)| value)
    }

    /// The name of its sheet: the model and the lengths.
    fn sheet(&self) -> String {
        let model = self.value("Model").rsplit('/').next().unwrap_or_default();
        let model = if model.is_empty() { "results" } else { model };
        match (self.value("Input Len"), self.value("Output Len")) {
            ("", "") => model.to_owned(),
            (input, output) => format!("{model}_{input}x{output}"),
        }
    }

    /// The end of the name of its own page.
    pub fn page_name(&self) -> String {
        let values: Vec<&str> = self.about.iter().map(|(_, value)| value.as_str()).collect();
        let clean = |c: char| match c {
            ',' => '_',
            '/' => '-',
            c if c.is_control() => '_',
            c => c,
        };
        values.join("_").chars().map(clean).take(150).collect()
    }
}

impl Comparison {
    pub(super) fn sheet_names(&self) -> Vec<String> {
        sheet_names(&self.groups.iter().map(Group::sheet).collect::<Vec<_>>())
    }
}
