//! The style guide (`docs/contributing/style.md`) as a test: banned phrases with their replacements in documents, messages
//! and doc comments; sentences and paragraphs that are too long to read.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::{Path, PathBuf};

/// Phrases that the project replaced, in lower case, and what to write instead.
const BANNED: &[(&str, &str)] = &[
    ("under way", "in flight"),
    ("not to be told", "inconclusive"),
    ("cannot be told", "inconclusive"),
    ("told apart", "distinguished"),
    ("tells apart", "distinguishes"),
    ("undecided", "inconclusive"),
    ("holds the truth", "covers the true value"),
    ("% sure", "95% confidence interval"),
    ("surely", "significantly, or say at which confidence"),
    ("borne", "sustained"),
    ("pile up", "the queue grows"),
    ("piles up", "the queue grows"),
    ("anew", "again"),
    ("let go", "dispatched"),
    ("lets go", "dispatches"),
    ("fullest", "peak"),
    ("put aside", "spilled"),
    ("so many requests", "this many requests, or N"),
    ("so many sessions", "this many sessions, or N"),
    ("is no number", "is not a number"),
    ("recorded kernels", "CUDA graphs"),
    ("prepares ahead", "asynchronous scheduling"),
    ("prepared ahead", "asynchronous scheduling"),
    ("times as slow", "slowdown factor"),
    ("whoever", "the one who"),
    ("nobody", "no one, or name who"),
    ("somebody", "someone, or name who"),
    ("film", "video"),
    ("folder", "directory"),
    ("who types", "if you type"),
    ("foresee", "simulate"),
    ("swamped", "overloaded"),
    ("beside", "next to, in addition to"),
];

/// Phrases that are replaced in documents: literal translations, and British spellings.
const BANNED_IN_DOCUMENTS: &[(&str, &str)] = &[
    ("in silence", "silently"),
    ("a line more", "one more line"),
    ("its kin", "name them"),
    ("moment", "timestamp, instant, or window"),
    ("made up", "synthetic, generated"),
    ("torn end", "incomplete last batch"),
    ("as at home", "as in the other tool"),
    ("the way there", "proxy"),
    ("a request a", "one request per"),
    ("requests a second", "requests/s"),
    ("a row a", "one row per"),
    ("whole answer", "response without streaming"),
    ("passes over them", "ignores them"),
    ("hands over", "starts, passes"),
    ("written down", "recorded"),
    ("is away", "is unreachable"),
    ("tell most", "are most informative"),
    ("honour", "support; American spelling: honor"),
    ("honoured", "used, supported"),
    ("modelled", "modeled, simulated"),
    ("recognised", "recognized, detected"),
    ("behaviour", "behavior"),
    ("colour", "color"),
    ("neighbour", "neighbor"),
    ("favour", "favor"),
    ("favourable", "favorable"),
    ("analyse", "analyze"),
    ("summarise", "summarize"),
    ("normalise", "normalize"),
    ("optimise", "optimize"),
    ("labelled", "labeled"),
    ("judgement", "judgment"),
    ("catalogue", "catalog"),
    ("optimisation", "optimization"),
    ("centred", "centered"),
    ("whilst", "while"),
];

/// Phrases that are replaced in messages too; in documents they have uses that are plain English.
const BANNED_IN_MESSAGES: &[(&str, &str)] =
    &[("is no", "is not a"), ("there is no", "no X, or X does not exist"), ("of its own", "its own, separate")];

/// Names in code that the project replaced.
const BANNED_NAMES: &[(&str, &str)] = &[
    ("most", "max"),
    ("least", "min"),
    ("room", "memory, or available"),
    ("spoken", "described"),
    ("labelled", "labeled"),
    ("Judgement", "Judgment"),
    ("Refusal", "ArgumentError, or Rejection"),
    ("Preset", "DefaultValue"),
    ("Rarely", "BoxedRareFields"),
    ("Way", "what it selects, such as Execution"),
    ("NAP", "POLL_INTERVAL"),
    ("GLANCE", "POLL_INTERVAL"),
    ("COUSINS", "SIMILAR_FLAGS"),
];

/// Vague names, what to write instead, and how many definitions are left. These numbers only fall.
const FADING_NAMES: &[(&str, &str, usize)] = &[
    ("own", "tacho, declared, local, or the thing", 76),
    ("given", "is_set, or the thing", 53),
    ("words", "args, or the kind of words", 69),
    ("place", "index, position, path or location", 16),
    ("places", "indices, positions or locations", 5),
    ("refused", "rejected, invalid or error", 14),
    ("answer", "response, output or result", 30),
    ("answers", "responses, outputs or results", 23),
];

/// Maximum words of a paragraph; lists and tables count by item.
const MAX_PARAGRAPH: usize = 90;

/// Maximum mean words of a page's sentences.
const MAX_MEAN_SENTENCE: f64 = 18.0;

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

/// README, changelog, docs and the pages of the examples, without the style guide (which names the phrases) and code
/// blocks.
fn documents() -> Vec<(String, Vec<(usize, String)>)> {
    let named = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"].map(|name| root().join(name));
    let pages = named.into_iter().chain(below(&root().join("docs"), "md")).chain(below(&root().join("examples"), "md"));
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
            let found = BANNED.iter().chain(BANNED_IN_DOCUMENTS).filter(|(phrase, _)| has_word(&line, phrase));
            wrong.extend(found.map(|(phrase, instead)| format!("{page}:{at}: \"{phrase}\": write {instead}")));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Whether a space separates a number, or the end of a placeholder, from its percent sign.
fn has_spaced_percent(text: &str) -> bool {
    text.match_indices(" %").any(|(at, _)| {
        let after = text[at + 2..].chars().next();
        let is_sign = after.is_none_or(|c| c.is_whitespace() || ",.;:)|\"".contains(c));
        is_sign && text[..at].ends_with(|c: char| c.is_ascii_digit() || c == '}')
    })
}

#[test]
fn percent_signs_follow_their_numbers() {
    let lines =
        documents().into_iter().flat_map(|(page, lines)| lines.into_iter().map(move |line| (page.clone(), line)));
    let mut wrong: Vec<String> = lines
        .filter(|(_, (_, line))| has_spaced_percent(line))
        .map(|(page, (at, line))| format!("{page}:{at}: {line}"))
        .collect();
    let crates = ["cli", "core", "decide", "forecast", "metrics", "record", "report", "run", "workload"];
    for path in crates.iter().flat_map(|name| below(&root().join("crates").join(name).join("src"), "rs")) {
        for (at, line) in fs::read_to_string(&path).unwrap().lines().enumerate() {
            // Strings and comments: an operator has no quote on its line. Tests parse both forms.
            let is_text = line.contains('"') && !line.contains("assert") || line.trim_start().starts_with("//");
            if is_text && has_spaced_percent(line) {
                wrong.push(format!("{}:{}: {}", path.display(), at + 1, line.trim()));
            }
        }
    }
    assert!(wrong.is_empty(), "write 95%, without a space: {wrong:#?}");
    assert!(
        has_spaced_percent("a 95 % interval") && has_spaced_percent("{:.0} %") && !has_spaced_percent("a 95% interval")
    );
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

/// The sentences of a page by their number of words: list items and headings end one, tables have none, and labels of
/// up to three words do not count.
fn sentence_lengths(lines: &[(usize, String)]) -> Vec<usize> {
    let (mut lengths, mut words) = (Vec::new(), 0);
    for line in lines.iter().map(|(_, line)| line.trim()).filter(|line| !line.starts_with('|')) {
        if line.is_empty() || line.starts_with(['-', '#', '*', '>']) {
            lengths.push(std::mem::take(&mut words));
        }
        for word in line.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)) {
            words += 1;
            if word.trim_end_matches(['*', ')', '`', '"']).ends_with(['.', '!', '?']) {
                lengths.push(std::mem::take(&mut words));
            }
        }
    }
    lengths.push(words);
    lengths.retain(|length| *length > 3);
    lengths
}

#[test]
fn sentences_are_short() {
    let mean = |lengths: &[usize]| lengths.iter().sum::<usize>() as f64 / lengths.len().max(1) as f64;
    let means = documents().into_iter().map(|(page, lines)| (page, mean(&sentence_lengths(&lines))));
    let wrong: Vec<_> = means.filter(|(_, mean)| *mean > MAX_MEAN_SENTENCE).collect();
    assert!(wrong.is_empty(), "pages above {MAX_MEAN_SENTENCE} words per sentence: {wrong:#?}");
}

/// Text of a source file that people read.
#[derive(Debug, PartialEq, Eq)]
enum SourceText {
    Message(String),
    Comment(String),
}

/// The string literals, without placeholders, and the doc comments of a source file, with their lines.
fn source_texts(source: &str) -> Vec<(usize, SourceText)> {
    let (mut found, mut at) = (Vec::new(), 0);
    let until = |from: usize, end: &str| source[from..].find(end).map_or(source.len(), |length| from + length);
    while at < source.len() {
        let (begin, rest) = (at, &source[at..]);
        let hashes = rest.strip_prefix('r').map(|rest| rest.len() - rest.trim_start_matches('#').len());
        let is_raw = hashes.is_some_and(|count| rest[1 + count..].starts_with('"')) && !ends_with_word(&source[..at]);
        let text = if rest.starts_with("//") {
            at = until(at, "\n");
            let is_doc = rest.starts_with("///") || rest.starts_with("//!");
            is_doc.then(|| SourceText::Comment(source[begin..at].to_owned()))
        } else if let Some(count) = hashes.filter(|_| is_raw) {
            let end = format!("\"{}", "#".repeat(count));
            at = (until(at + count + 2, &end) + end.len()).min(source.len());
            Some(SourceText::Message(message(&source[begin..at])))
        } else if let Some(inside) = rest.strip_prefix('"') {
            at = begin + 1 + quoted(inside);
            Some(SourceText::Message(message(&source[begin..at])))
        } else if rest.starts_with("'\"'") || rest.starts_with("'\\") {
            at = until(at + 2, "'") + 1;
            None
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
            None
        };
        found.extend(text.map(|text| (source[..begin].lines().count().max(1), text)));
    }
    found
}

fn ends_with_word(before: &str) -> bool {
    before.ends_with(|c: char| c.is_alphanumeric() || c == '_')
}

/// The length of a string literal after its opening quote.
fn quoted(rest: &str) -> usize {
    let mut escaped = false;
    let closing = |c: char| {
        let closes = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        closes
    };
    rest.find(closing).map_or(rest.len(), |at| at + 1)
}

/// A literal as it is displayed: lines joined, `{value}` omitted.
fn message(literal: &str) -> String {
    let joined = literal.replace("\\\n", " ").split_whitespace().collect::<Vec<_>>().join(" ");
    let parts = joined.split('{').enumerate();
    parts.map(|(at, part)| if at == 0 { part } else { part.split_once('}').map_or(part, |(_, rest)| rest) }).collect()
}

/// The source of the program, without tests.
fn sources() -> Vec<(String, String)> {
    let crates = below(&root().join("crates"), "rs").into_iter();
    let shown = crates.map(|path| (path.strip_prefix(root()).unwrap().display().to_string(), path));
    let kept =
        shown.filter(|(name, _)| name.contains("/src/") && !name.contains("/tests") && !name.contains("testkit"));
    let text = |path: PathBuf| fs::read_to_string(path).unwrap().split("#[cfg(test)]").next().unwrap().to_owned();
    kept.map(|(name, path)| (name, text(path))).collect()
}

#[test]
fn messages_and_doc_comments_use_the_terms_of_the_field() {
    let mut wrong = Vec::new();
    for (file, source) in sources() {
        for (line, text) in source_texts(&source) {
            let (text, further) = match text {
                // Names in code (keys, formats) are not sentences.
                SourceText::Message(text) if text.contains(' ') => (text, BANNED_IN_MESSAGES),
                SourceText::Message(_) => continue,
                SourceText::Comment(text) => (text, &[][..]),
            };
            let found = BANNED.iter().chain(further).filter(|(phrase, _)| has_word(&text, phrase));
            wrong
                .extend(found.map(|(phrase, instead)| format!("{file}:{line}: \"{phrase}\": write {instead}: {text}")));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Whether a line defines the name: an item, a variable, a parameter or a field.
fn defines(line: &str, name: &str) -> bool {
    let items = ["fn", "struct", "enum", "trait", "type", "const", "static", "let", "let mut"];
    let forms = items.iter().map(|item| format!("{item} {name}")).chain([format!("{name}: ")]);
    let joins = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    forms.into_iter().any(|form| {
        let after = |at: usize| line[at + form.len()..].chars().next().filter(|_| !form.ends_with(' '));
        line.match_indices(&form).any(|(at, _)| !joins(line[..at].chars().next_back()) && !joins(after(at)))
    })
}

#[test]
fn names_use_the_terms_of_the_field() {
    assert!(defines("    let mut most = 1;", "most") && defines("fn room(work: Work)", "room"));
    assert!(defines("    way: Way,", "way") && !defines("    let most_of = 1; at_least: 2", "most"));
    let mut wrong = Vec::new();
    for (file, source) in sources() {
        for (at, line) in source.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//")) {
            let found = BANNED_NAMES.iter().filter(|(name, _)| line.contains(name) && defines(line, name));
            wrong.extend(found.map(|(name, instead)| format!("{file}:{}: `{name}`: write {instead}", at + 1)));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn vague_names_get_fewer() {
    let sources = sources();
    let lines = || sources.iter().flat_map(|(_, source)| source.lines());
    for (name, instead, left) in FADING_NAMES {
        let found = lines().filter(|line| !line.trim_start().starts_with("//") && defines(line, name)).count();
        assert!(found <= *left, "{found} definitions are named `{name}`, {left} are known: write {instead}");
    }
}

#[test]
fn messages_and_doc_comments_are_read_from_the_source() {
    let source = "/// A folder.\nlet x = \"is no\\\n  {name} \\\"film\\\"\"; // film\nlet y: &'a str = r#\"so \"many\"#; let c = '\"'; \"z\"";
    let said = source_texts(source).into_iter().map(|(_, said)| said).collect::<Vec<_>>();
    let message = |text: &str| SourceText::Message(text.to_owned());
    let comment = SourceText::Comment("/// A folder.".to_owned());
    assert_eq!(said, [comment, message("\"is no  \\\"film\\\"\""), message("r#\"so \"many\"#"), message("\"z\"")]);
}

#[test]
fn sentences_are_counted_by_their_words() {
    let page =
        "# A title of five words\n\nOne two three four. Five six seven eight nine.\n- an item of the list\n| a | b |";
    let lines: Vec<_> = page.lines().map(|line| (0, line.to_owned())).collect();
    assert_eq!(sentence_lengths(&lines), [5, 4, 5, 5]);
}

#[test]
fn the_phrases_are_found() {
    assert!(has_word("Requests under way now", "under way") && has_word("two folders", "folder"));
    assert!(!has_word("microfilming", "film") && !has_word("folderless", "folder"));
}
