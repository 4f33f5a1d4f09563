//! Import cycles between the files of a crate: a file in a cycle cannot be understood without the others. A name that
//! a module re-exports counts as an import of the file that defines it; a module and the files of its directory are apart.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::{fs, path::Path};

/// The largest allowed import cycle, in files.
const MAX_CYCLE: usize = 7;

/// A crate's modules by path, with their lines before the tests.
type Modules = BTreeMap<Vec<String>, String>;

fn modules(source: &Path) -> Modules {
    let (mut found, mut directories) = (Modules::new(), vec![source.to_owned()]);
    while let Some(directory) = directories.pop() {
        for path in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                directories.push(path);
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

/// The paths in `use` lines, one for each name in braces.
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
    if parts.len() == before.len() && group.is_none() {
        // After the last comma of a list.
        return;
    }
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

/// The names that each module re-exports, with their paths.
type ReExports = BTreeMap<Vec<String>, BTreeMap<String, Vec<String>>>;

fn re_exports(modules: &Modules) -> ReExports {
    let of = |at: &Vec<String>, text: &str| {
        let named = imports(text).into_iter().filter(|path| path.len() > 1);
        let named = named.filter_map(|path| Some((path.last()?.clone(), absolute(modules, at, &path)?)));
        (at.clone(), named.collect())
    };
    modules.iter().map(|(at, text)| of(at, text)).collect()
}

/// A path relative to the crate's root; `None` for other crates.
fn absolute(modules: &Modules, at: &[String], path: &[String]) -> Option<Vec<String>> {
    let mut place = match path.first()?.as_str() {
        "crate" => Vec::new(),
        "self" => at.to_vec(),
        "super" => at.split_last()?.1.to_vec(),
        first => {
            let child = [at, &[first.to_owned()]].concat();
            modules.contains_key(&child).then_some(child)?
        }
    };
    for part in &path[1..] {
        if part == "super" {
            place.pop();
        } else {
            place.push(part.clone());
        }
    }
    Some(place)
}

/// The module that defines the item of an absolute path, through all re-exports.
fn defining(modules: &Modules, names: &ReExports, path: &[String], depth: usize) -> Option<Vec<String>> {
    let known = (0..=path.len()).rev().find(|len| modules.contains_key(&path[..*len]))?;
    let (module, rest) = path.split_at(known);
    let passed_on = rest.first().and_then(|name| names.get(module)?.get(name));
    match passed_on.filter(|_| depth < 8) {
        Some(further) => defining(modules, names, further, depth + 1),
        None => Some(module.to_vec()),
    }
}

/// The import cycles: sets of modules that all reach each other, largest first.
fn cycles(modules: &Modules) -> Vec<Vec<String>> {
    let names = re_exports(modules);
    let arrows: BTreeMap<&Vec<String>, BTreeSet<Vec<String>>> = modules
        .iter()
        .map(|(at, text)| {
            let named = imports(text).into_iter().filter_map(|path| absolute(modules, at, &path));
            let named = named.filter_map(|path| defining(modules, &names, &path, 0));
            (at, named.filter(|other| other != at).collect())
        })
        .collect();
    let reached: BTreeMap<&Vec<String>, BTreeSet<&Vec<String>>> =
        arrows.keys().map(|&start| (start, reachable(&arrows, start))).collect();
    let mut found = BTreeSet::new();
    for (start, all) in reached.iter().filter(|(start, all)| all.contains(**start)) {
        let cycle: BTreeSet<String> =
            all.iter().filter(|other| reached[**other].contains(*start)).map(|other| other.join("::")).collect();
        found.insert(cycle.into_iter().collect::<Vec<_>>());
    }
    let mut found: Vec<_> = found.into_iter().collect();
    found.sort_by_key(|cycle| std::cmp::Reverse(cycle.len()));
    found
}

/// All modules that `start` imports, directly or not.
fn reachable<'a>(
    arrows: &'a BTreeMap<&Vec<String>, BTreeSet<Vec<String>>>,
    start: &'a Vec<String>,
) -> BTreeSet<&'a Vec<String>> {
    let (mut seen, mut open) = (BTreeSet::new(), vec![start]);
    while let Some(at) = open.pop() {
        open.extend(arrows.get(at).into_iter().flatten().filter(|next| seen.insert(*next)));
    }
    seen
}

#[test]
fn import_cycles_do_not_grow() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut wrong = Vec::new();
    for path in fs::read_dir(crates).unwrap().map(|entry| entry.unwrap().path()) {
        let (name, source) = (path.file_name().unwrap().to_string_lossy().into_owned(), path.join("src"));
        if !source.is_dir() {
            continue;
        }
        let found = cycles(&modules(&source));
        let largest = found.first().map_or(0, Vec::len);
        println!("{name}: {:?}", found.iter().map(Vec::len).collect::<Vec<_>>());
        if largest > MAX_CYCLE {
            wrong.push(format!("{name}: {largest} files: {}", found[0].join(", ")));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn cycles_are_found() {
    let file = |name: &str, text: &str| (vec![name.to_owned()], text.to_owned());
    let root = |text: &str| (Vec::new(), text.to_owned());
    let closed = [
        root("mod a;\nmod b;\n"),
        file("a", "use crate::b::B;\n"),
        file("b", "//! B.\n\nuse std::fs;\nuse super::a::{self, A};\n"),
    ];
    assert_eq!(cycles(&closed.into()), [["a", "b"]]);
    // Single names of one crate in one statement.
    let single = [
        root("mod a;\nmod b;\nmod c;\n"),
        file("a", "use std::{fs, io::Read};\nuse crate::{\n    c::C, b::B,\n};\n"),
        file("b", "use super::{C, a::A};\n"),
        file("c", ""),
    ];
    assert_eq!(cycles(&single.into()), [["a", "b"]]);
    let open = [root("mod a;\nmod b;\n"), file("a", "use crate::b::B;\n"), file("b", "use std::fs;\n")];
    assert!(cycles(&open.into()).is_empty());
    // Through a name that the root re-exports.
    let passed_on = [
        root("mod a;\nmod b;\npub use a::A;\npub use b::{B, C};\n"),
        file("a", "use crate::C;\n"),
        file("b", "use crate::A;\n"),
    ];
    assert_eq!(cycles(&passed_on.into()), [["a", "b"]]);
}
