//! Commands, flags, and headings named in the text and tables of README and docs exist. `docs` runs the code blocks.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::docs::{documents, root};

/// The flags of each command by its reference page, which another test compares with the tables.
fn commands() -> BTreeMap<String, BTreeSet<String>> {
    let pages = documents().into_iter().filter(|page| page.starts_with(REFERENCE));
    let mut commands = BTreeMap::new();
    for page in pages {
        let (mut names, mut flags) = (Vec::new(), BTreeSet::new());
        for (_, line) in prose(&page) {
            if let Some(command) = line.strip_prefix("# ") {
                names.push(command.to_owned());
            } else if let Some(others) = line.strip_prefix("Also ") {
                names.extend(spans(others).into_iter().map(str::to_owned));
            } else if line.starts_with("| `") || line.starts_with("As in [tacho serve]") {
                flags.extend(dashed(&line.replace('`', " ")));
            }
        }
        commands.extend(names.into_iter().map(|name| (name, flags.clone())));
    }
    commands
}

/// Directory of the generated pages.
const REFERENCE: &str = "docs/reference/commands/";

/// The code spans of a line.
fn spans(line: &str) -> Vec<&str> {
    line.split('`').skip(1).step_by(2).collect()
}

/// The long options of a text, without values.
fn dashed(text: &str) -> Vec<String> {
    let name = |word: &str| {
        let end = word.char_indices().skip(2).find(|(_, c)| !(c.is_ascii_alphanumeric() || "-_".contains(*c)));
        word[..end.map_or(word.len(), |(at, _)| at)].trim_end_matches('-').to_owned()
    };
    let is_option = |word: &&str| word.starts_with("--") && word.chars().nth(2).is_some_and(char::is_alphanumeric);
    // `--multi-turn-…` is the prefix of several options.
    text.split([' ', ',', '(']).filter(is_option).filter(|word| !word.contains('…')).map(name).collect()
}

/// A document's lines outside of code blocks, with their numbers.
fn prose(document: &str) -> Vec<(usize, String)> {
    let text = fs::read_to_string(root().join(document)).unwrap();
    let mut fenced = false;
    let mut lines = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if line.starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            lines.push((at + 1, line.to_owned()));
        }
    }
    lines
}

#[test]
fn commands_in_sentences_are_there_with_their_flags() {
    let commands = commands();
    let mut wrong = Vec::new();
    for document in documents().iter().filter(|document| !document.starts_with(REFERENCE)) {
        for (at, line) in prose(document) {
            for span in spans(&line).into_iter().filter(|span| span.starts_with("tacho ")) {
                let known = commands.iter().filter(|(name, _)| span.starts_with(name.as_str()));
                let Some((name, flags)) = known.max_by_key(|(name, _)| name.len()) else {
                    let first = span.split(' ').nth(1).unwrap_or_default();
                    let begins = commands.keys().any(|name| name.starts_with(&format!("tacho {first} ")));
                    let is_other = ["help", "<command>"].contains(&first) || first.starts_with('-') || is_script(first);
                    wrong.extend((!begins && !is_other).then(|| format!("{document}:{at}: {span}")));
                    continue;
                };
                let unknown = dashed(span).into_iter().find(|flag| !flags.contains(flag) && flag != "--help");
                wrong.extend(unknown.map(|flag| format!("{document}:{at}: {name} has no {flag}")));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The names of vLLM's scripts are not in the reference.
fn is_script(word: &str) -> bool {
    [".py", ".sh"].iter().any(|ending| word.ends_with(ending))
}

/// The last column of the migration tables has tacho's flags.
#[test]
fn flags_that_one_moves_over_to_are_there() {
    let commands = commands();
    let all: BTreeSet<&String> = commands.values().flatten().collect();
    let rows: Vec<(usize, String)> =
        prose("docs/migrating.md").into_iter().filter(|(_, line)| line.starts_with("| ")).collect();
    assert!(rows.len() > 60, "{}", rows.len());
    for (at, row) in rows {
        let last = row.trim_end_matches(['|', ' ']).rsplit(" | ").next().unwrap().to_owned();
        for span in spans(&last).into_iter().filter(|span| span.starts_with("--")) {
            for flag in dashed(span) {
                assert!(all.contains(&flag), "docs/migrating.md:{at}: {flag}");
            }
        }
    }
}

/// The anchor of a heading, as in mdBook and GitHub.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    kept.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn links_into_pages_lead_to_headings() {
    for document in documents() {
        let directory = root().join(&document).parent().unwrap().to_owned();
        for (at, line) in prose(&document) {
            for target in line.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
                let Some((path, wanted)) = target.split_once('#').filter(|_| !target.contains("://")) else { continue };
                let file = if path.is_empty() { root().join(&document) } else { directory.join(path) };
                let text =
                    fs::read_to_string(&file).unwrap_or_else(|error| panic!("{document}:{at}: {target}: {error}"));
                let headings = text.lines().filter_map(|line| line.strip_prefix('#'));
                let mut anchors = headings.map(|line| anchor(line.trim_start_matches('#')));
                assert!(anchors.any(|known| known == wanted), "{document}:{at}: {target} leads to no heading");
            }
        }
    }
}

/// mdBook's format of the summary: part titles and items with one link each, without duplicates.
#[test]
fn the_list_of_pages_is_one_that_mdbook_reads() {
    let text = fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    let mut pages = BTreeSet::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        let item = line.trim_start().strip_prefix("- [").and_then(|rest| rest.strip_suffix(".md)")?.split_once("]("));
        match item {
            Some((title, page)) => assert!(!title.is_empty() && pages.insert(page.to_owned()), "{line}"),
            None => assert!(line.starts_with("# "), "{line}"),
        }
    }
    assert!(text.starts_with("# Summary\n") && pages.len() > 15);
    let book = fs::read_to_string(root().join("docs/book.toml")).unwrap();
    assert!(book.contains("[book]") && book.contains("src = \".\""), "{book}");
    let cargo = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let repository = cargo.lines().find_map(|line| line.strip_prefix("repository = \"")?.strip_suffix('"')).unwrap();
    assert!(book.contains(&format!("edit-url-template = \"{repository}/")), "the edit link leads to {repository}");
}

/// Names in the source that have the form of a variable and are something else: metrics of DCGM, tokens of grammars, words
/// of help, what the build sets, and what tests read.
const NOT_VARIABLES: [&str; 14] = [
    "CARGO_PKG_VERSION",
    "ESCAPED_STRING",
    "EXPERIMENT_DIR",
    "GCS_PATH",
    "MARKET_NAME",
    "RENDEZVOUS_TOKEN",
    "RENDEZVOUS_TOKEN_FILE",
    "SIGNED_INT",
    "SIGNED_NUMBER",
    "TACHO_COMMIT",
    "TACHO_REQUESTS",
    "TACHO_ROUNDS",
    "TACHO_SEED",
    "WARNING_NO_RESULT_FILE",
];

/// Single-word variables, which only their use distinguishes from other names in capitals.
const ONE_WORD: [&str; 9] = ["BASE", "COLUMNS", "HOME", "MODEL", "PATH", "RANK", "SYSTEM", "TERM", "TP"];

/// Names in the source, without tests, that look like environment variables.
fn variables_in_source() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut directories = vec![root().join("crates")];
    while let Some(directory) = directories.pop() {
        for path in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
            let shown = path.to_string_lossy().into_owned();
            if path.is_dir() {
                directories.push(path);
            } else if shown.ends_with(".rs")
                && shown.contains("/src/")
                && !shown.contains("/tests")
                && !shown.contains("testkit")
            {
                let text = fs::read_to_string(&path).unwrap();
                let source = text.split("#[cfg(test)]").next().unwrap();
                // A help text names the variable of its flag in brackets.
                let bracketed =
                    source.split(" [").skip(1).filter_map(|rest| rest.split_once(']')).map(|(name, _)| name);
                let names = source.split('"').chain(bracketed).filter(|text| is_variable(text));
                found.extend(names.map(str::to_owned));
            }
        }
    }
    found
}

fn is_variable(text: &str) -> bool {
    let capitals = text.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
    let several = text.split('_').filter(|word| !word.is_empty()).count() > 1 && text.starts_with(char::is_alphabetic);
    let other = NOT_VARIABLES.contains(&text)
        || ["DCGM_", "AUDIO_"].iter().any(|prefix| text.starts_with(prefix))
        || text.ends_with('_');
    capitals && (several && !other || ONE_WORD.contains(&text))
}

#[test]
fn the_page_of_variables_has_those_of_the_source() {
    let named: BTreeSet<String> = prose("docs/reference/environment.md")
        .iter()
        .flat_map(|(_, line)| spans(line).into_iter().map(str::to_owned).collect::<Vec<_>>())
        .filter(|span| is_variable(span))
        .collect();
    // The logging library reads this one.
    let read: BTreeSet<String> = variables_in_source().into_iter().chain(["RUST_LOG".to_owned()]).collect();
    assert_eq!(read.difference(&named).collect::<Vec<_>>(), [""; 0], "docs/reference/environment.md lacks");
    assert_eq!(
        named.difference(&read).collect::<Vec<_>>(),
        [""; 0],
        "docs/reference/environment.md has, and no code reads"
    );
}
