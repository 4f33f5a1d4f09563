//! The style guide (`docs/contributing/style.md`) as a test: banned phrases with their replacements, and paragraphs that are
//! too long to read.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::{Path, PathBuf};

/// Phrases that the project replaced, in lower case, and what to write instead.
const BANNED: &[(&str, &str)] = &[
    ("under way", "in flight"),
    ("not to be told", "inconclusive"),
    ("cannot be told", "inconclusive"),
    ("told apart", "distinguished"),
    ("undecided", "inconclusive"),
    ("holds the truth", "covers the true value"),
    ("% sure", "95% confidence interval"),
    ("surely", "significantly, or say at which confidence"),
    ("borne", "sustained"),
    ("pile up", "the queue grows"),
    ("anew", "again"),
    ("let go", "dispatched"),
    ("fullest", "peak"),
    ("put aside", "spilled"),
    ("so many requests", "this many requests, or N"),
    ("is no number", "is not a number"),
    ("recorded kernels", "CUDA graphs"),
    ("prepares ahead", "asynchronous scheduling"),
    ("prepared ahead", "asynchronous scheduling"),
    ("times as slow", "slowdown factor"),
    ("whoever", "the one who"),
    ("film", "video"),
    ("folder", "directory"),
    ("who types", "if you type"),
    ("foresee", "simulate"),
];

/// Words a paragraph may have; lists and tables count by item.
const MAX_PARAGRAPH: usize = 90;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn below(directory: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            found.extend(below(&path, ending));
        } else if path.extension().is_some_and(|extension| extension == ending) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// README, changelog and docs, without the generated reference, the style guide (which names the phrases) and code blocks.
fn documents() -> Vec<(String, Vec<(usize, String)>)> {
    let named = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"].map(|name| root().join(name));
    let pages = named.into_iter().chain(below(&root().join("docs"), "md"));
    let kept = pages.filter(|page| !page.ends_with("docs/contributing/style.md"));
    kept.map(|page| {
        let mut inside = false;
        let text = fs::read_to_string(&page).unwrap();
        let prose = text.lines().enumerate().map(|(at, line)| {
            let fence = line.trim_start().starts_with("```");
            inside ^= fence;
            (at + 1, if fence || inside { String::new() } else { line.to_owned() })
        });
        (page.strip_prefix(root()).unwrap().display().to_string(), prose.collect())
    })
    .collect()
}

fn has_word(line: &str, phrase: &str) -> bool {
    let line = line.to_lowercase();
    line.match_indices(phrase).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + phrase.len()..].chars().next();
        let joins = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        !(joins(before) || joins(after) && after != Some('s'))
    })
}

#[test]
fn documents_use_the_terms_of_the_field() {
    let mut wrong = Vec::new();
    for (page, lines) in documents() {
        for (at, line) in lines {
            let found = BANNED.iter().filter(|(phrase, _)| has_word(&line, phrase));
            wrong.extend(found.map(|(phrase, instead)| format!("{page}:{at}: \"{phrase}\": write {instead}")));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn paragraphs_are_short() {
    let mut wrong = Vec::new();
    for (page, lines) in documents() {
        let is_item = |line: &str| line.trim_start().starts_with(['-', '|', '#', '*', '>']);
        let mut words = 0;
        for (at, line) in lines {
            words = match line.trim().is_empty() || is_item(&line) {
                true => 0,
                false => words,
            } + if line.starts_with('|') { 0 } else { line.split_whitespace().count() };
            if words > MAX_PARAGRAPH {
                wrong.push(format!("{page}:{at}: a paragraph of more than {MAX_PARAGRAPH} words"));
                words = 0;
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_phrases_are_found() {
    assert!(has_word("Requests under way now", "under way") && has_word("two folders", "folder"));
    assert!(!has_word("microfilming", "film") && !has_word("folderless", "folder"));
}
