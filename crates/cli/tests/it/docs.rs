//! Runs the commands of README and docs against the simulator, checks links, and compares the reference with the flag
//! tables.
//!
//! Code blocks marked `sh` are run. A block that cannot run states the reason: `sh not-run: needs vLLM`. Examples of the
//! help (`sh parsed: …`) are only parsed, by a test of the command line. All blocks of a document run in order in one directory. Servers that a document only names (`localhost:8000`) are simulators.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::{collections::BTreeSet, fs};

use tacho_metrics::TrustVerdict;

use crate::tacho::{Place, each, stderr, stdout};

/// The model name of the simulators.
const MODEL: &str = "Qwen/Qwen3-8B";

/// Ports that documents name.
const PORTS: [u16; 4] = [8000, 8100, 8200, 9000];

const LOCAL: &str = "127.0.0.1";

/// Files that documents download, and the small files of the same format that stand in for them.
const DOWNLOADS: [(&str, &str); 3] = [
    ("ShareGPT_V3_unfiltered_cleaned_split.json", "sharegpt.json"),
    ("BurstGPT_without_fails_2.csv", "burstgpt.csv"),
    ("conversation_trace.jsonl", "mooncake.jsonl"),
];

/// Fence marker before the reason why a block is not run.
const NOT_RUN: &str = "sh not-run: ";

/// Fence of the examples of a command's help.
const PARSED: &str = "sh parsed: examples of the help";

/// Maximum number of blocks that are not run.
const MAX_NOT_RUN: usize = 30;

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// README and all files below docs and examples, relative to the root.
pub(crate) fn documents() -> Vec<String> {
    let mut found = vec!["README.md".to_owned()];
    let mut directories = vec![root().join("docs"), root().join("examples")];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
            match entry.extension() {
                _ if entry.is_dir() => directories.push(entry),
                Some(ending) if ending == "md" => {
                    found.push(entry.strip_prefix(root()).unwrap().to_str().unwrap().to_owned());
                }
                _ => {}
            }
        }
    }
    found.sort();
    found
}

struct Block {
    line: usize,
    info: String,
    text: String,
}

fn blocks(document: &str) -> Vec<Block> {
    let text = fs::read_to_string(root().join(document)).unwrap();
    let (mut blocks, mut open): (Vec<Block>, Option<Block>) = (Vec::new(), None);
    for (at, line) in text.lines().enumerate() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(info), None) => open = Some(Block { line: at + 1, info: info.to_owned(), text: String::new() }),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some(block)) => block.text += &format!("{line}\n"),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "{document}: a block does not end");
    blocks
}

#[test]
fn every_block_says_what_it_is() {
    let mut skipped = 0;
    for document in documents() {
        for Block { line, info, text } in blocks(&document) {
            let place = format!("{document}:{line}");
            assert!(!info.is_empty(), "{place}: say what it is: sh, {NOT_RUN}..., text, json");
            let not_run = info.strip_prefix(NOT_RUN).is_some_and(|reason| reason.len() > 4);
            let is_shell = info == "sh" || info == PARSED || not_run;
            skipped += usize::from(not_run);
            let commands = text.lines().any(is_command);
            assert!(is_shell || !(info.starts_with("sh") || commands), "{place}: {info:?} is no fence of commands");
        }
    }
    assert!(skipped <= MAX_NOT_RUN, "{skipped} blocks are not run");
}

/// Whether a line runs tacho or vLLM, possibly after a prompt or variables.
fn is_command(line: &str) -> bool {
    let is_before = |word: &&str| *word == "$" || word.contains('=') && !word.starts_with('=');
    let mut args = line.split_whitespace().skip_while(is_before);
    let is_program = matches!(args.next(), Some("tacho" | "vllm"));
    is_program && !args.next().is_some_and(|word| word.starts_with(|c: char| c.is_ascii_digit()))
}

/// Indented code blocks are not run, so none may contain a tacho command.
#[test]
fn commands_stand_in_fences() {
    for document in documents() {
        let text = fs::read_to_string(root().join(&document)).unwrap();
        let indented = text.lines().find(|line| line.starts_with("    tacho "));
        assert_eq!(indented, None, "{document}");
    }
}

/// Processes of one document, stopped when dropped.
struct Servers(Vec<Child>);

impl Drop for Servers {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Replaces the ports by free ones and starts the simulators that the commands expect.
fn prepared(place: &Place, mut text: String) -> (String, Servers) {
    let mut servers = Servers(Vec::new());
    for port in PORTS {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let named =
            |text: &str, port: u16| text.contains(&format!(":{port}")) || text.contains(&format!("--port {port}"));
        if !named(&text, port) {
            continue;
        }
        for before in [":", "--port ", "PORT="] {
            text = text.replace(&format!("{before}{port}"), &format!("{before}{free}"));
        }
        let starts = |program: &str| text.contains(&format!("{program} --port {free}"));
        if !(starts("tacho sim") || starts("serve.sh") || starts("serve.sh offload")) {
            let flags = ["--model", MODEL, "--tokenizer", "gpt2", "--scheduling-policy", "priority"];
            let mut command = place.command(&[&["sim", "--port", &free.to_string()], &flags[..]].concat());
            servers.0.push(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
            text = format!("{}{text}", waiting(LOCAL, &free.to_string()));
        }
    }
    let value = |line: &str, flag: &str| Some(line.split_once(flag)?.1.split(' ').next()?.to_owned());
    let lines = text.lines().map(|line| match line.strip_suffix('&').and_then(|line| value(line, "--port ")) {
        Some(port) => format!("{line}\n{}", waiting(&value(line, "--host ").unwrap_or(LOCAL.to_owned()), &port)),
        None => format!("{line}\n"),
    });
    (lines.collect(), servers)
}

/// A shell line that waits until a server listens.
fn waiting(host: &str, port: &str) -> String {
    format!("until (exec 3<>/dev/tcp/{host}/{port}) 2>/dev/null; do sleep 0.05; done\n")
}

fn run(document: &str) {
    let text: String =
        blocks(document).into_iter().filter(|block| block.info == "sh").map(|block| block.text).collect();
    let output = typed(text);
    let tail =
        |text: &str| text.lines().rev().take(40).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("\n");
    let (out, said) = (tail(&stdout(&output)), tail(&stderr(&output)));
    assert!(output.status.success(), "{document}: {}\n{out}\n{said}", output.status);
}

/// Accepts any verdict (exit code 3) of these commands: it depends on how busy this machine is.
fn with_any_verdict(line: &str) -> String {
    let judges =
        ["tacho gate", "tacho fit", "tacho capacity", "tacho sweep serve_sla", "tacho verify", "tacho reproduce"]
            .iter()
            .any(|command| line.starts_with(command));
    let is_whole = judges && !line.contains("||") && !line.ends_with('\\');
    if is_whole { format!("{line} || [ $? = 3 ]\n") } else { format!("{line}\n") }
}

/// Types the commands, in a directory of their own.
fn typed(text: String) -> Output {
    let place = Place::new();
    fs::create_dir(place.file("bin")).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_tacho"), place.file("bin/tacho")).unwrap();
    std::os::unix::fs::symlink(root().join("examples"), place.file("examples")).unwrap();
    for (name, file) in DOWNLOADS {
        std::os::unix::fs::symlink(root().join("examples/datasets").join(file), place.file(name)).unwrap();
    }
    let (text, servers) = prepared(&place, text);
    let text: String = text.lines().map(with_any_verdict).collect();
    place.write("commands.sh", &format!("trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{text}"));
    let path = format!("{}:{}", place.file("bin").display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("timeout");
    shell.args(["600", "bash", "-eux", "-o", "pipefail", "commands.sh"]).current_dir(place.path());
    shell.env("PATH", path).env("HF_HUB_OFFLINE", "1").env("TACHO_TOKENIZER", "gpt2").env_remove("OPENAI_API_KEY");
    // Searches and fits end sooner than a reader's.
    shell.env("TACHO_BUDGET", "15").env("TACHO_SECONDS", "20");
    // Ports of the two engines behind the example's proxy.
    shell.env("PREFILL_PORT", Place::new().port.to_string()).env("DECODE_PORT", Place::new().port.to_string());
    let output = shell.stdin(Stdio::null()).output().unwrap();
    drop(servers);
    output
}

#[test]
fn a_wrong_command_in_a_document_is_seen() {
    for wrong in ["tacho serve --simm", "tacho srve --sim", "tacho report nosuch.json", "tacho help rats"] {
        let output = typed(format!("tacho help rates\n{wrong}\ntacho help rates\n"));
        assert!(!output.status.success(), "{wrong}: {}", stderr(&output));
    }
}

/// Whether the commands of a document take long: how-to pages and the tutorial run benchmarks of many seconds.
fn is_long(document: &str) -> bool {
    document.starts_with("docs/howto/") || document == "docs/tutorial.md"
}

#[test]
fn the_commands_of_short_documents_run() {
    run_all(10, |document| !is_long(document));
}

/// `TACHO_DOCUMENT=docs/tutorial.md` runs those of one document.
#[test]
#[ignore = "slow: runs of many seconds"]
fn slow_group_the_commands_of_long_documents_run() {
    match std::env::var("TACHO_DOCUMENT") {
        Ok(wanted) => run_all(1, |document| document == wanted),
        Err(_) => run_all(15, is_long),
    }
}

fn run_all(at_least: usize, wanted: impl Fn(&str) -> bool) {
    let mut found = documents();
    found.retain(|document| wanted(document) && blocks(document).iter().any(|block| block.info == "sh"));
    assert!(found.len() >= at_least, "{found:?}");
    each(&found, |document| run(document));
}

/// The link targets of a document: the file and, if given, the heading.
fn links(document: &str) -> Vec<(String, PathBuf, Option<String>)> {
    let text = fs::read_to_string(root().join(document)).unwrap();
    let directory = root().join(document).parent().unwrap().to_owned();
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next()).filter(|to| !to.contains("://"));
    let link = |target: &str| {
        let (path, heading) = target.split_once('#').map_or((target, None), |(path, at)| (path, Some(at.to_owned())));
        let file = if path.is_empty() { root().join(document) } else { directory.join(path) };
        (target.to_owned(), file, heading)
    };
    targets.map(link).collect()
}

/// The anchor of a heading, as in mdBook.
fn slug(heading: &str) -> String {
    let kept = |c: char| match c {
        ' ' => Some('-'),
        _ if c.is_alphanumeric() || c == '-' || c == '_' => Some(c.to_ascii_lowercase()),
        _ => None,
    };
    heading.trim_start_matches('#').trim().chars().filter_map(kept).collect()
}

#[test]
fn links_lead_to_files_and_headings() {
    for document in documents() {
        for (target, file, heading) in links(&document) {
            assert!(file.exists(), "{document}: {target} leads nowhere");
            let page = file.canonicalize().unwrap();
            // Pages cannot link to files outside of the book.
            let inside = page.starts_with(root().join("docs")) || !document.starts_with("docs/");
            assert!(inside, "{document}: {target} leads out of the book");
            if let Some(heading) = heading {
                let text = fs::read_to_string(&page).unwrap();
                let known = text.lines().filter(|line| line.starts_with('#')).any(|line| slug(line) == heading);
                assert!(known, "{document}: {target}: there is no such heading");
            }
        }
    }
}

#[test]
fn the_book_has_every_page_once_and_nothing_that_mdbook_cannot_read() {
    let pages: Vec<PathBuf> =
        links("docs/SUMMARY.md").into_iter().map(|(_, file, _)| file.canonicalize().unwrap()).collect();
    for document in documents().iter().filter(|path| path.starts_with("docs/") && !path.ends_with("SUMMARY.md")) {
        let times = pages.iter().filter(|page| **page == root().join(document)).count();
        assert_eq!(times, 1, "{document} in docs/SUMMARY.md");
    }
    for line in fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap().lines().filter(|line| !line.is_empty()) {
        let chapter = line.trim_start().starts_with("- [") && line.ends_with(".md)");
        assert!(chapter || line.starts_with("# "), "docs/SUMMARY.md: {line}");
    }
    let settings = fs::read_to_string(root().join("docs/book.toml")).unwrap();
    assert!(settings.contains("smart-punctuation = false"), "-- would become a dash that no shell takes");
    for name in settings.split('"').filter(|word| word.ends_with(".css")) {
        assert!(root().join("docs").join(name).is_file(), "{name}");
    }
}

/// The verdicts on the client have one list, and every page that names some names all.
#[test]
fn the_words_of_the_client_verdict_are_those_of_the_code() {
    let read = |document: &str| fs::read_to_string(root().join(document)).unwrap();
    let metrics = read("docs/reference/metrics.md");
    let table = metrics.split("| verdict | meaning |\n|---|---|\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let listed: Vec<String> =
        TrustVerdict::WORDS.iter().map(|(word, meaning)| format!("| `{word}` | {meaning} |")).collect();
    assert_eq!(table.lines().collect::<Vec<_>>(), listed);
    for page in ["docs/reference/glossary.md", "docs/reference/warnings.md", "docs/troubleshooting.md"] {
        let text = read(page);
        // The second half of `client: LATE` or `SATURATED` counts too.
        let names = |word: &str| text.contains(&format!("`{word}`")) || text.contains(&format!("client: {word}`"));
        let missing: Vec<&str> =
            TrustVerdict::WORDS.iter().map(|(word, _)| *word).filter(|word| *word != "ok" && !names(word)).collect();
        assert!(missing.is_empty(), "{page} lacks {missing:?}");
    }
}

/// A row whose number of cells differs from the heading is truncated or shown with a gap.
#[test]
fn tables_are_whole() {
    for document in documents() {
        let text = fs::read_to_string(root().join(&document)).unwrap();
        let cells = |line: &str| line.replace("\\|", "").matches('|').count();
        let mut inside = false;
        // Output in code blocks may leave out rows.
        let outside = |line: &&str| {
            inside ^= line.starts_with("```");
            !inside
        };
        let lines: Vec<&str> = text.lines().filter(outside).collect();
        for block in lines.chunk_by(|one, next| one.starts_with('|') == next.starts_with('|')) {
            if block[0].starts_with('|') {
                assert!(
                    block.len() > 2 && block[1].starts_with("|-") || block[1].starts_with("|:"),
                    "{document}: {}",
                    block[0]
                );
                let odd = block.iter().find(|line| cells(line) != cells(block[0]));
                assert_eq!(odd, None, "{document}: another number of cells than in {}", block[0]);
            }
        }
    }
}

/// `TACHO_ACCEPT=1` writes the generated pages instead of comparing them.
#[test]
fn the_reference_is_that_of_the_tables() {
    let place = Place::new();
    let (kept, made) = (root().join("docs/reference/commands"), place.file("commands"));
    let index = stdout(&place.run(&["man", "--markdown"]));
    stdout(&place.run(&["man", "--markdown", "--dir", made.to_str().unwrap()]));
    let names = |directory: &Path| {
        let entries = fs::read_dir(directory).into_iter().flatten();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect::<BTreeSet<_>>()
    };
    let pages = names(&made).into_iter().map(|name| (kept.join(&name), fs::read_to_string(made.join(&name)).unwrap()));
    let pages: Vec<_> = pages.chain([(root().join("docs/reference.md"), index)]).collect();
    if std::env::var_os("TACHO_ACCEPT").is_some() {
        fs::create_dir_all(&kept).unwrap();
        names(&kept).difference(&names(&made)).for_each(|name| fs::remove_file(kept.join(name)).unwrap());
        pages.iter().for_each(|(path, page)| fs::write(path, page).unwrap());
    }
    assert_eq!(names(&kept), names(&made), "commands with a page: {ACCEPT}");
    for (path, made) in pages {
        let kept = fs::read_to_string(&path).unwrap();
        let differs = made.lines().zip(kept.lines()).find(|(made, kept)| made != kept);
        assert!(made == kept, "{} is out of date: {ACCEPT}\n{differs:?}", path.display());
    }
    crate::vllm_flags::check_page();
}

/// The command that regenerates the pages.
const ACCEPT: &str = "TACHO_ACCEPT=1 cargo test -p tacho-cli --test it the_reference";

/// Differences that were missing in earlier versions of the page.
#[test]
fn the_page_of_differences_names_those_that_scripts_meet() {
    let page = fs::read_to_string(root().join("docs/parity.md")).unwrap();
    for difference in [
        "`--continue-on-error` goes on and exits with 1",
        "`summary.csv` has a column `tacho`",
        "`plot_pareto --dry-run` makes no directory",
        "`--endpoint` may have a query",
        "VLLM_USE_MODELSCOPE",
        "Header names that HTTP does not allow",
    ] {
        assert!(page.contains(difference), "{difference}");
    }
}
