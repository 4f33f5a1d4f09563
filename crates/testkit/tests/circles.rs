//! Files of a crate do not import each other in a circle: whoever reads one of them would have to read all. A module and
//! the folder it stands in are one room, and what a crate's root passes on is the crate's vocabulary: neither counts.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A crate's modules by their paths, and the lines each has before its tests.
type Modules = BTreeMap<Vec<String>, String>;

fn modules(source: &Path) -> Modules {
    let (mut found, mut folders) = (Modules::new(), vec![source.to_owned()]);
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                let text = text.split("#[cfg(test)]\nmod").next().unwrap().to_owned();
                found.insert(module(path.strip_prefix(source).unwrap()), text);
            }
        }
    }
    found.retain(|name, _| !name.iter().any(|part| part == "tests"));
    found
}

fn module(file: &Path) -> Vec<String> {
    let mut parts: Vec<String> =
        file.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if matches!(parts.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        parts.pop();
    }
    parts
}

/// The paths that `use` lines name, one for each name in braces.
fn imports(text: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for statement in text.split(';') {
        let statement = statement.trim_start_matches(|c: char| c.is_whitespace() || c == '}');
        let Some(line) = statement.lines().position(|line| line.starts_with("use ") || line.starts_with("pub")) else {
            continue;
        };
        let lines: String = statement.lines().skip(line).map(str::trim).collect::<Vec<_>>().join(" ");
        let Some((before, path)) = lines.split_once("use ") else { continue };
        if before.contains(['(', ')', '{']) && !before.starts_with("pub(") {
            continue;
        }
        spread(path, &[], &mut found);
    }
    found
}

fn spread(path: &str, before: &[String], found: &mut Vec<Vec<String>>) {
    let (head, group) = path.split_once('{').map_or((path, None), |(head, group)| (head, Some(group)));
    let mut parts = before.to_vec();
    parts.extend(head.split("::").map(|part| part.split(" as ").next().unwrap().trim().to_owned()));
    parts.retain(|part| !part.is_empty());
    let Some(group) = group else { return found.push(parts) };
    let (mut depth, mut start) = (0, 0);
    let group = group.rsplit_once('}').map_or(group, |(inside, _)| inside);
    for (at, c) in group.char_indices().chain([(group.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                spread(&group[start..at], &parts, found);
                start = at + 1;
            }
            _ => {}
        }
    }
}

/// The module that `path`, written in `at`, names or names something of.
fn target(modules: &Modules, at: &[String], path: &[String]) -> Option<Vec<String>> {
    let mut place = match path.first()?.as_str() {
        "crate" => Vec::new(),
        "self" => at.to_vec(),
        "super" => at.split_last()?.1.to_vec(),
        _ => return None,
    };
    for part in &path[1..] {
        place.push(part.clone());
        if part == "super" {
            place.truncate(place.len().saturating_sub(2));
        } else if !modules.contains_key(&place) {
            place.pop();
            break;
        }
    }
    Some(place)
}

/// The modules that import each other in circles, or stand between two of them.
fn circles(modules: &Modules) -> Vec<Vec<String>> {
    let room = |a: &[String], b: &[String]| a.starts_with(b) || b.starts_with(a);
    let arrows: BTreeMap<&Vec<String>, BTreeSet<Vec<String>>> = modules
        .iter()
        .map(|(at, text)| {
            let named = imports(text).into_iter().filter_map(|path| target(modules, at, &path));
            (at, named.filter(|other| !room(at, other)).collect())
        })
        .collect();
    // What is left when all that lead nowhere, and all that nobody leads to, are taken away again and again, goes in circles.
    let mut left: BTreeSet<&Vec<String>> = arrows.keys().copied().collect();
    loop {
        let entered: BTreeSet<_> = left.iter().flat_map(|at| &arrows[*at]).collect();
        let turns = |at: &&Vec<String>| entered.contains(at) && arrows[*at].iter().any(|to| left.contains(to));
        let turning: BTreeSet<_> = left.iter().copied().filter(turns).collect();
        if turning.len() == left.len() {
            return turning.into_iter().cloned().collect();
        }
        left = turning;
    }
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let sources: Vec<PathBuf> = fs::read_dir(crates).unwrap().map(|entry| entry.unwrap().path().join("src")).collect();
    for source in sources.into_iter().filter(|source| source.is_dir()) {
        let found = circles(&modules(&source));
        assert!(found.is_empty(), "{}: {found:?}", source.display());
    }
}

#[test]
fn a_circle_is_seen() {
    let file = |name: &str, text: &str| (vec![name.to_owned()], text.to_owned());
    let two = Modules::from([(Vec::new(), "mod a;\nmod b;\n".to_owned()), file("a", "use crate::b::B;\n")]);
    let closed = file("b", "//! B.\n\nuse std::fs;\nuse super::a::{self, A};\n");
    assert_eq!(circles(&two.clone().into_iter().chain([closed]).collect()).len(), 2);
    assert!(circles(&two.into_iter().chain([file("b", "use std::fs;\n")]).collect()).is_empty());
}
