//! Finds the files of a split in a dataset's directory, by the dataset card or by file names.

use std::path::{Path, PathBuf};

use super::card::{Configuration, configurations};
use super::saved;
use crate::Error;

/// Splits and their names in file and directory names.
const SPLITS: [(&str, &[&str]); 3] = [
    ("train", &["train", "training"]),
    ("validation", &["validation", "valid", "dev", "val"]),
    ("test", &["test", "testing", "eval", "evaluation"]),
];

/// The kinds of files that contain rows.
const KINDS: [(&str, &[&str]); 4] = [
    ("json", &["json", "jsonl", "ndjson"]),
    ("csv", &["csv", "tsv"]),
    ("arrow", &["arrow"]),
    ("parquet", &["parquet"]),
];

pub(crate) struct Wanted<'w> {
    /// The configuration, if named.
    pub(crate) subset: Option<&'w str>,
    pub(crate) split: &'w str,
}

/// The files of a split, sorted as in the library.
pub(crate) fn data_files(directory: &Path, wanted: &Wanted<'_>) -> Result<Vec<PathBuf>, Error> {
    if directory.is_file() {
        return Ok(vec![directory.to_path_buf()]);
    }
    if let Some(files) = saved::files(directory, wanted.split)? {
        return Ok(files);
    }
    let mut names = Vec::new();
    collect(directory, "", &mut names)?;
    let card = std::fs::read_to_string(directory.join("README.md")).unwrap_or_default();
    let chosen = choose(directory, &card, &names, wanted)?;
    Ok(chosen.into_iter().map(|name| directory.join(name)).collect())
}

/// Selects the files of a split from all names in a dataset. A subset of the names gives the same result as long as it
/// contains these files, so a partial download is read like the whole.
pub(crate) fn choose(position: &Path, card: &str, names: &[String], wanted: &Wanted<'_>) -> Result<Vec<String>, Error> {
    let mut names: Vec<String> = names.iter().filter(|name| !is_hidden(name)).cloned().collect();
    names.sort();
    let configurations: Vec<Configuration> =
        configurations(card).into_iter().filter(|found| !found.splits.is_empty()).collect();
    let chosen = if configurations.is_empty() {
        by_name(&names, wanted, position)?
    } else {
        by_card(&names, &configurations, wanted, position)?
    };
    let chosen = most_common_kind(chosen);
    if chosen.is_empty() {
        return Err(no_data_files(position, wanted.split));
    }
    Ok(chosen)
}

fn is_hidden(name: &str) -> bool {
    name.split('/').any(|part| part.starts_with(['.', '_']))
}

/// All files below a directory, with relative names.
fn collect(directory: &Path, prefix: &str, names: &mut Vec<String>) -> Result<(), Error> {
    let failed = |source| Error::Read { path: directory.to_path_buf(), source };
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if path.is_dir() {
            collect(&path, &format!("{prefix}{name}/"), names)?;
        } else {
            names.push(format!("{prefix}{name}"));
        }
    }
    Ok(())
}

fn by_card(
    names: &[String],
    configurations: &[Configuration],
    wanted: &Wanted<'_>,
    directory: &Path,
) -> Result<Vec<String>, Error> {
    let known = || configurations.iter().map(|found| found.name.clone()).collect::<Vec<_>>();
    let found = match wanted.subset {
        Some(subset) => configurations.iter().find(|found| found.name == subset),
        None if configurations.len() == 1 => configurations.first(),
        None => configurations.iter().find(|found| found.default),
    };
    let found = found.ok_or_else(|| no_subset(directory, wanted.subset, &known()))?;
    let patterns = found.splits.iter().filter(|(split, _)| split == wanted.split).flat_map(|(_, patterns)| patterns);
    // Files are in the order of the patterns, sorted within each.
    let files = patterns.flat_map(|pattern| names.iter().filter(|name| matches(pattern, name)));
    Ok(files.cloned().collect())
}

pub(super) fn no_data_files(path: &Path, split: &str) -> Error {
    data!("{} has no data files of the split {split:?}: pass --hf-split with one that it has", path.display())
}

fn no_subset(path: &Path, subset: Option<&str>, known: &[String]) -> Error {
    let remedy = match known {
        [] => "it has none by name, so leave out --hf-subset".to_owned(),
        known => format!("pass --hf-subset with one of {}", known.join(", ")),
    };
    usage!("{} has no configuration {}: {remedy}", path.display(), subset.unwrap_or("by default"))
}

/// The words of a name, split at anything but letters.
fn words(name: &str) -> impl Iterator<Item = &str> {
    name.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| !word.is_empty())
}

fn by_name(names: &[String], wanted: &Wanted<'_>, directory: &Path) -> Result<Vec<String>, Error> {
    let below = |name: &str| wanted.subset.is_none_or(|subset| name.starts_with(&format!("{subset}/")));
    let rows: Vec<&String> = names.iter().filter(|name| kind_of(name).is_some() && below(name)).collect();
    if let (Some(subset), true) = (wanted.subset, rows.is_empty()) {
        let mut known: Vec<String> = names.iter().filter_map(|name| Some(name.split_once('/')?.0.to_owned())).collect();
        known.dedup();
        return Err(no_subset(directory, Some(subset), &known));
    }
    let file = |name: &str| name.rsplit('/').next().unwrap_or_default().to_owned();
    let directories = |name: &str| name.rsplit_once('/').map_or("", |(directories, _)| directories).to_owned();
    let split_of = |part: &str| {
        SPLITS.iter().find(|(_, keywords)| words(part).any(|word| keywords.contains(&word))).map(|(split, _)| *split)
    };
    for part in [&file as &dyn Fn(&str) -> String, &directories] {
        if rows.iter().any(|name| split_of(&part(name)).is_some()) {
            let wanted = |name: &&&String| split_of(&part(name)) == Some(wanted.split);
            return Ok(rows.iter().filter(wanted).map(|name| (*name).clone()).collect());
        }
    }
    Ok(if wanted.split == "train" { rows.into_iter().cloned().collect() } else { Vec::new() })
}

/// The kind of a file by its extension, ignoring that of a compression.
pub(crate) fn kind_of(name: &str) -> Option<&'static str> {
    let extension = unpacked(name).rsplit_once('.')?.1;
    KINDS.iter().find(|(_, endings)| endings.contains(&extension)).map(|(kind, _)| *kind)
}

/// A file name without the extension of a compression.
pub(crate) fn unpacked(name: &str) -> &str {
    name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(name)
}

fn most_common_kind(names: Vec<String>) -> Vec<String> {
    let count = |kind: &str| names.iter().filter(|name| kind_of(name) == Some(kind)).count();
    let max = KINDS.iter().map(|(kind, _)| *kind).max_by_key(|kind| count(kind)).unwrap_or_default();
    names.into_iter().filter(|name| kind_of(name) == Some(max)).collect()
}

/// Whether a name matches a pattern: `*` within a directory, `**` across directories, `?`, and `[…]` sets.
fn matches(pattern: &str, name: &str) -> bool {
    let mut chars = pattern.chars();
    match chars.next() {
        None => name.is_empty(),
        Some('*') => {
            let (rest, across) = match chars.as_str().strip_prefix('*') {
                Some(rest) => (rest.strip_prefix('/').unwrap_or(rest), true),
                None => (chars.as_str(), false),
            };
            let ends = name.char_indices().map(|(at, _)| at).chain([name.len()]);
            ends.take_while(|&at| across || !name[..at].contains('/')).any(|at| matches(rest, &name[at..]))
        }
        Some('?') => name.chars().next().is_some_and(|c| c != '/' && matches(chars.as_str(), &name[c.len_utf8()..])),
        Some('[') => {
            let Some((set, rest)) = chars.as_str().split_once(']') else { return false };
            name.chars().next().is_some_and(|c| in_set(set, c) && matches(rest, &name[c.len_utf8()..]))
        }
        Some(c) => name.strip_prefix(c).is_some_and(|name| matches(chars.as_str(), name)),
    }
}

fn in_set(set: &str, c: char) -> bool {
    let set: Vec<char> = set.chars().collect();
    set.windows(3).any(|range| range[1] == '-' && (range[0]..=range[2]).contains(&c)) || set.contains(&c) && c != '-'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_paths() {
        assert!(matches("main/test-*", "main/test-00000-of-00001.parquet"));
        assert!(!matches("*.csv", "a/b.csv") && matches("**/*.csv", "a/b.csv") && matches("**/b.csv", "b.csv"));
        assert!(matches("x-[0-9]?.json", "x-7a.json") && !matches("x-[0-9].json", "x-a.json"));
    }

    #[test]
    fn splits_are_found_by_words_in_names() {
        let names: Vec<String> = ["data/train-0.parquet", "data/val_1.parquet", "notes.txt"].map(str::to_owned).into();
        let directory = Path::new("d");
        let files = |split| by_name(&names, &Wanted { subset: None, split }, directory).unwrap();
        assert_eq!(files("train"), ["data/train-0.parquet"]);
        assert_eq!(files("validation"), ["data/val_1.parquet"]);
        let names: Vec<String> = ["b.jsonl".to_owned(), "a.jsonl".to_owned()].into();
        let files = |subset, split| by_name(&names, &Wanted { subset, split }, directory);
        assert_eq!(files(None, "train").unwrap().len(), 2);
        assert!(files(None, "test").unwrap().is_empty());
        assert!(files(Some("main"), "train").unwrap_err().to_string().contains("has no configuration main"));
    }
}
