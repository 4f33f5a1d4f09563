//! Names of vLLM's scripts as commands: accepted with or without extension and directory, and not listed in the help.

use std::path::Path;

const SCRIPTS: &[(&str, &[&str])] = &[
    ("benchmark_serving", &["serve"]),
    ("benchmark_throughput", &["throughput"]),
    ("benchmark_latency", &["latency"]),
    ("benchmark_serving_multi_turn", &["multi-turn"]),
    ("convert_sharegpt_to_openai", &["convert", "sharegpt"]),
    ("benchmark_serving_structured_output", &["structured-output"]),
    ("benchmark_prefix_caching", &["prefix-caching"]),
    ("benchmark_long_document_qa_throughput", &["long-doc-qa"]),
    ("benchmark_prioritization", &["prioritization"]),
    ("auto_tune", &["auto-tune"]),
    ("batch_auto_tune", &["auto-tune"]),
    ("compare-json-results", &["compare"]),
    ("convert-results-json-to-markdown", &["report"]),
    ("run-performance-benchmarks", &["suite"]),
];

/// Replaces the first word by the command if it is a script.
pub(crate) fn understood(args: &[String]) -> Vec<String> {
    let args = args.to_vec();
    let Some(command) = args.first().and_then(|first| command(first)) else { return args };
    command.iter().map(|word| (*word).to_owned()).chain(args.into_iter().skip(1)).collect()
}

pub(crate) fn command(script: &str) -> Option<&'static [&'static str]> {
    let name = Path::new(script).file_name()?.to_str()?;
    let name = [".py", ".sh"].iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name);
    SCRIPTS.iter().find(|(known, _)| *known == name).map(|(_, command)| *command)
}

pub(crate) fn standing_for(command: &str) -> impl Iterator<Item = &'static str> {
    let first = |args: &[&str]| args.join(" ");
    SCRIPTS
        .iter()
        .filter(move |(_, args)| command == first(args) || first(args).starts_with(&format!("{command} ")))
        .map(|(script, _)| *script)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> String {
        understood(&line.split(' ').map(str::to_owned).collect::<Vec<_>>()).join(" ")
    }

    #[test]
    fn scripts_are_commands_by_any_of_their_names() {
        assert_eq!(read("benchmark_serving.py --port 1"), "serve --port 1");
        assert_eq!(read("benchmarks/convert_sharegpt_to_openai.py a b"), "convert sharegpt a b");
        assert_eq!(read("auto_tune.sh"), "auto-tune");
        assert_eq!(read("serve benchmark_serving.py"), "serve benchmark_serving.py");
        assert!(understood(&[]).is_empty());
        assert_eq!(standing_for("auto-tune").collect::<Vec<_>>(), ["auto_tune", "batch_auto_tune"]);
        assert_eq!(standing_for("serve").collect::<Vec<_>>(), ["benchmark_serving"]);
    }

    #[test]
    fn every_script_stands_for_a_command_that_there_is() {
        for (script, args) in SCRIPTS {
            let args: Vec<String> = args.iter().map(|word| (*word).to_owned()).collect();
            assert!(tacho_args::command::find(crate::commands::COMMANDS, &args).is_some(), "{script}");
        }
    }
}
