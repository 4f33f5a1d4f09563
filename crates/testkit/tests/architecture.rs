//! Checks the dependencies between crates, as shown in `docs/design/architecture.md`, and that none is unused. Reads
//! the manifests and sources directly, so that no tool has to be installed.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The crates of the workspace that each crate may use. A new crate or dependency needs a line here and in the diagram.
const MAY_USE: &[(&str, &[&str])] = &[
    ("core", &[]),
    ("args", &["core"]),
    ("pyrand", &[]),
    ("text", &["core"]),
    ("workload", &["core", "pyrand", "text"]),
    ("loadgen", &["core", "pyrand"]),
    ("client", &["core", "loadgen"]),
    ("metrics", &["core", "pyrand"]),
    ("record", &["core", "metrics", "rowlog"]),
    ("decide", &["core", "metrics", "pyrand", "record"]),
    ("rowlog", &["core"]),
    ("fleet", &["core", "rowlog"]),
    ("report", &["core", "decide", "metrics", "record", "rowlog"]),
    ("engine", &["core", "pyrand"]),
    ("sim", &["core", "engine", "pyrand", "text"]),
    ("forecast", &["core", "decide", "engine", "loadgen", "metrics", "record", "text", "workload"]),
    (
        "run",
        &["client", "core", "decide", "fleet", "loadgen", "metrics", "pyrand", "record", "rowlog", "text", "workload"],
    ),
    (
        "cli",
        &[
            "args", "client", "core", "decide", "engine", "fleet", "forecast", "loadgen", "metrics", "record",
            "report", "rowlog", "run", "sim", "text", "workload",
        ],
    ),
    ("testkit", &[]),
];

/// Crates that open sockets.
const SOCKETS: &[&str] = &["client", "fleet", "report", "sim", "testkit", "workload"];

/// Heavy or sensitive dependencies, and the crates that may use them.
const FENCED: &[(&str, &[&str])] = &[
    ("anyhow", &["cli"]),
    ("arrow-ipc", &["rowlog", "workload"]),
    ("hyper", &["sim"]),
    ("indicatif", &["report"]),
    ("parquet", &["rowlog", "workload"]),
    ("signal-hook", &["cli"]),
    ("tiny-skia", &["report"]),
    ("tokenizers", &["text"]),
    // HTTP/2 reads and writes through its traits.
    ("tokio", &["client", "sim"]),
    ("ureq", &["workload"]),
];

/// Dependencies that no crate may use: draws come from `pyrand`, flags from tables that `args` reads.
const FORBIDDEN: &[&str] = &["clap", "fastrand", "rand", "reqwest"];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn names() -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(crates())
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().join("Cargo.toml").exists())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// The names in a section of a manifest: `dependencies` or `dev-dependencies`.
fn section(name: &str, section: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(crates().join(name).join("Cargo.toml")).unwrap();
    let mut found = BTreeSet::new();
    let mut inside = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            inside = line == format!("[{section}]");
        } else if let (true, Some((key, _))) = (inside, line.split_once('=')) {
            found.insert(key.trim().trim_end_matches(".workspace").to_owned());
        }
    }
    found
}

/// All sources below a directory of a crate.
fn sources(name: &str, directory: &str) -> Vec<(PathBuf, String)> {
    let mut open = vec![crates().join(name).join(directory)];
    let mut found = Vec::new();
    while let Some(path) = open.pop() {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path, text));
            }
        }
    }
    found
}

#[test]
fn crates_use_only_what_they_may() {
    let rules: BTreeMap<&str, &[&str]> = MAY_USE.iter().copied().collect();
    let mut wrong = Vec::new();
    for name in names() {
        let Some(allowed) = rules.get(name.as_str()) else {
            wrong.push(format!("{name} is not in the picture"));
            continue;
        };
        let used = section(&name, "dependencies");
        let ours = used.iter().filter_map(|dependency| dependency.strip_prefix("tacho-"));
        wrong.extend(ours.filter(|other| !allowed.contains(other)).map(|other| format!("{name} may not use {other}")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_picture_has_no_circle() {
    let mut left: BTreeMap<&str, BTreeSet<&str>> =
        MAY_USE.iter().map(|(name, uses)| (*name, uses.iter().copied().collect())).collect();
    while let Some(free) = left.iter().find(|(_, uses)| uses.is_empty()).map(|(name, _)| *name) {
        left.remove(free);
        for uses in left.values_mut() {
            uses.remove(free);
        }
    }
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn heavy_crates_stay_behind_their_fences() {
    let mut wrong = Vec::new();
    for name in names() {
        let used = section(&name, "dependencies");
        for (fenced, holders) in FENCED {
            if used.contains(*fenced) && !holders.contains(&name.as_str()) {
                wrong.push(format!("{name} uses {fenced}, which is for {holders:?}"));
            }
        }
        let nobodys = FORBIDDEN.iter().filter(|nobody| used.contains(**nobody));
        wrong.extend(nobodys.map(|nobody| format!("{name} uses {nobody}")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn sockets_are_opened_where_they_belong() {
    let opens = ["TcpStream::connect", "TcpListener::bind", "UdpSocket::bind", "UnixStream::connect"];
    let mut wrong = Vec::new();
    for name in names().into_iter().filter(|name| !SOCKETS.contains(&name.as_str())) {
        // Fuzz targets are test modules that attack servers over sockets.
        for (path, text) in sources(&name, "src").into_iter().filter(|(path, _)| !path.ends_with("fuzz.rs")) {
            wrong.extend(opens.iter().filter(|open| text.contains(**open)).map(|open| (path.clone(), *open)));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn nothing_is_depended_on_in_vain() {
    let mut unused = Vec::new();
    for name in names() {
        let src: String = sources(&name, "src").into_iter().map(|(_, text)| text).collect();
        let tests: String =
            ["tests", "benches"].iter().flat_map(|directory| sources(&name, directory)).map(|(_, text)| text).collect();
        let of_src = section(&name, "dependencies").into_iter().filter(|one| !mentions(&src, one));
        unused.extend(of_src.map(|one| format!("{name}: {one}")));
        let for_tests = section(&name, "dev-dependencies").into_iter();
        let for_tests = for_tests.filter(|one| !mentions(&src, one) && !mentions(&tests, one));
        unused.extend(for_tests.map(|one| format!("{name}, for tests: {one}")));
    }
    assert!(unused.is_empty(), "{unused:#?}");
}

/// Whether a source mentions a crate: in a path, as a whole `use`, or as a macro.
fn mentions(source: &str, dependency: &str) -> bool {
    let name = dependency.replace('-', "_");
    [format!("{name}::"), format!("use {name};"), format!("{name}!")].iter().any(|form| source.contains(form))
}

/// A note that code must recognize is a variant of its own: none is told by its text.
#[test]
fn no_code_filters_notes_by_their_text() {
    let mut wrong = Vec::new();
    for name in names().into_iter().filter(|name| name != "core") {
        let read = sources(&name, "src").into_iter().filter(|(_, text)| text.contains("Note::Text("));
        wrong.extend(read.map(|(path, _)| path));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
