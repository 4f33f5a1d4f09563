//! The page of flags that `vllm bench` does not have: those of the command pages without those of vLLM's parsers.

use std::{collections::BTreeSet, fs};

use tacho_testkit::golden_json;

use crate::docs::root;

const PAGE: &str = "docs/reference/tacho-flags.md";

/// Commands of `vllm bench` other than serve, by the names of their pages.
const OTHERS: [&str; 9] = [
    "throughput",
    "latency",
    "startup",
    "mm-processor",
    "sweep-serve",
    "sweep-serve_workload",
    "sweep-startup",
    "sweep-plot",
    "sweep-plot_pareto",
];

fn page_of(command: &str) -> String {
    fs::read_to_string(root().join(format!("docs/reference/commands/{command}.md"))).unwrap()
}

fn flags_of_vllm(command: &str) -> BTreeSet<String> {
    let golden = golden_json(&format!("cli/{command}.json"));
    let options = golden["options"].as_array().unwrap().iter();
    let names = options.flat_map(|option| option["strings"].as_array().unwrap());
    names.map(|name| name.as_str().unwrap().to_owned()).collect()
}

/// The first name of a flag in a table row or a list, without its value.
fn name(cell: &str) -> &str {
    cell.split([' ', ',']).next().unwrap()
}

/// The rows of serve's own flags, by group, with the first sentence of each.
fn own_flags_of_serve() -> String {
    let (page, theirs) = (page_of("serve"), flags_of_vllm("serve"));
    let mut out = String::new();
    for group in page.split("\n## ").skip(1) {
        let cells = group.lines().filter_map(|line| line.strip_prefix("| `")?.strip_suffix(" |")?.split_once("` | "));
        let own = cells.filter(|(flag, _)| !theirs.contains(name(flag)));
        let rows: String = own
            .map(|(flag, meaning)| {
                format!("| `{flag}` | {}. |\n", meaning.split(". ").next().unwrap().trim_end_matches('.'))
            })
            .collect();
        if !rows.is_empty() {
            let title = group.lines().next().unwrap().trim_end_matches(" options");
            out += &format!("\n### {title}\n\n| flag | meaning |\n|---|---|\n{rows}");
        }
    }
    out
}

/// A row per other command with the names of its own flags. Engine flags belong to vLLM's engine.
fn own_flags_of_others() -> String {
    let mut out = "\n## Flags of other commands\n\n| command | flags |\n|---|---|\n".to_owned();
    for command in OTHERS {
        let (page, theirs) = (page_of(command), flags_of_vllm(command));
        let groups = page.split("\n## ").skip(1).filter(|group| !group.starts_with("engine"));
        let listed = groups.flat_map(|group| group.split('`').skip(1).step_by(2));
        let own: BTreeSet<&str> = listed.filter(|cell| cell.starts_with("--")).map(name).collect();
        let names: Vec<String> =
            own.into_iter().filter(|flag| !theirs.contains(*flag)).map(|flag| format!("`{flag}`")).collect();
        let title = command.replace('-', " ").replace("mm processor", "mm-processor");
        out += &format!("| [`{title}`](commands/{command}.md) | {} |\n", names.join(", "));
    }
    out
}

/// Compares the page with the command pages, or writes it with `TACHO_ACCEPT=1`. The test of the command pages calls it.
pub(crate) fn check_page() {
    let path = root().join(PAGE);
    let kept = fs::read_to_string(&path).unwrap();
    let head = "\n## Flags of `tacho serve`\n";
    let text = kept.split(head).next().unwrap();
    for file in fs::read_dir(root().join("docs/reference/commands")).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        assert!(name == "serve.md" || kept.contains(&format!("(commands/{name})")), "{PAGE} lacks {name}");
    }
    let made = format!("{text}{head}{}{}", own_flags_of_serve(), own_flags_of_others());
    if std::env::var_os("TACHO_ACCEPT").is_some() {
        fs::write(&path, &made).unwrap();
    } else {
        let differs = made.lines().zip(kept.lines()).find(|(made, kept)| made != kept);
        assert!(made == kept, "{PAGE} is out of date: run with TACHO_ACCEPT=1\n{differs:?}");
    }
}
