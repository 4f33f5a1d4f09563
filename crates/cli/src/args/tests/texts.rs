//! Help, version, and usage messages.

use tacho_args::flag::{Flag, Kind};
use tacho_args::grammar::Wanted;
use tacho_args::help::{SCREEN, flags_of, help};

use super::*;
use crate::args::{serve as serve_args, shared::tags::WRITES, sim as sim_args, sweep as sweep_args};
use crate::commands::COMMANDS;
use crate::{args::help::topics::TOPICS, args::program::SECTIONS};

#[test]
fn help_explains_every_usable_flag() {
    let sweeps = [&sweep_args::SERVE, &sweep_args::SERVE_WORKLOAD, &sweep_args::SERVE_SLA, &sweep_args::STARTUP];
    for table in [&serve_args::TABLE, &sim_args::TABLE].into_iter().chain(sweeps) {
        let words: Vec<&str> = table.command.split(' ').skip(1).collect();
        let help = |flag: &'static str| printed(&[&words[..], &[flag]].concat());
        let (brief, full) = (help("--help"), help("--help=all"));
        for flag in table.flags.iter().filter(|flag| flag.kind != Kind::Help) {
            let lines =
                |text: &str| text.lines().filter(|line| line.split([' ', ',']).any(|w| w == flag.names[0])).count();
            assert!(brief.contains(&format!("\n  {}", flag.names[0])), "{}", flag.names[0]);
            assert!(lines(&full) > 0, "{}", flag.names[0]);
            assert!(flag.help.len() > 10 && flag.help.ends_with('.'), "{}", flag.names[0]);
        }
    }
}

/// A flag that writes a file must not replace an input.
#[test]
fn flags_that_write_a_file_say_so() {
    let flags = || COMMANDS.iter().flat_map(|command| command.table.flags.iter());
    let writes = ["Write ", "File to write", "File for the results", "File of the profile", "File of the trace"];
    for flag in flags().filter(|flag| flag.metavar == "FILE" && writes.iter().any(|start| flag.help.starts_with(start)))
    {
        assert!(flag.has(WRITES), "{} {}", flag.names[0], flag.help);
    }
    assert!(flags().filter(|flag| flag.has(WRITES)).count() > 30);
}

#[test]
fn help_finds_sections_and_names() {
    let section = printed(&["serve", "--help=Random Dataset Options"]);
    assert!(section.starts_with("random dataset options: ") && section.contains("--random-prefix-len TOKENS"));
    let options = printed(&["serve", "--help=options"]);
    assert!(options.contains("--lora-assignment {random,round-robin}") && !options.contains("--top-k"));
    let backends = options.split_once("--backend NAME\n").unwrap().1;
    let explained = backends.split("\n  --").next().unwrap();
    let words: Vec<&str> = explained.split([' ', ',', ':', ';', '\n']).map(|word| word.trim_end_matches('.')).collect();
    let missing: Vec<_> = serve_args::BACKENDS.iter().filter(|name| !words.contains(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let found = printed(&["serve", "--help=max_con"]);
    assert!(
        found.starts_with("Arguments matching 'max_con':\n") && found.contains("\n  --max-concurrency N\n"),
        "{found}"
    );
    let none = printed(&["bench", "serve", "--help=nope"]);
    assert_eq!(
        none,
        "No group or arguments matching 'nope'.\n\
         Use '--help' to see available groups or '--help=all' to see all available parameters.\n"
    );
}

#[test]
fn the_program_lists_its_commands() {
    for words in [&[][..], &["-h"], &["--help"], &["help"]] {
        let text = printed(words);
        assert!(text.contains("\n  serve  ") && text.contains("sim"), "{text}");
    }
    let version = printed(&["--version"]);
    assert!(version.starts_with(&format!("tacho {}", env!("CARGO_PKG_VERSION"))), "{version}");
    assert!(version.contains("\nfeatures: ") && version.contains("vllm bench 0.32.0"), "{version}");
}

#[test]
fn words_that_only_begin_a_command_list_what_follows_them() {
    for (words, own, foreign) in [
        (&["sweep", "--help"][..], "tacho sweep serve_sla", "tacho sim"),
        (&["help", "sweep"], "tacho sweep plot_pareto", "tacho sim"),
        (&["bench", "-h"], "tacho bench sweep startup", "tacho sim"),
        (&["bench", "sweep", "-h"], "tacho bench sweep plot", "tacho bench latency"),
        (&["convert", "--help"], "tacho convert txt-slices", "tacho sim"),
    ] {
        let text = printed(words);
        assert!(text.contains(&format!("\n  {own} ")) && !text.contains(&format!("\n  {foreign} ")), "{text}");
    }
}

#[test]
fn help_of_a_command_is_that_of_its_flag() {
    for command in COMMANDS {
        for spelling in command.spellings {
            let words: Vec<&str> = spelling.split(' ').collect();
            let text = printed(&[&["help"], &words[..]].concat());
            assert!(text.starts_with(&format!("usage: {}", command.table.command)), "{text}");
            assert_eq!(text, printed(&[&words[..], &["--help"]].concat()));
            let begun = printed(&[&words[..words.len() - 1], &["--help"]].concat());
            assert!(
                begun.contains(spelling)
                    || words[0] == "bench" && words.len() == 2
                    || words[0].starts_with("benchmark_"),
                "{begun}"
            );
        }
    }
}

#[test]
fn an_unknown_command_is_answered_with_the_way_to_all_commands() {
    let error = parse_args(&["nope"]).unwrap_err();
    let report = error.report() + &crate::args::help::suggest::advice(COMMANDS, &error);
    assert!(report.ends_with("invalid choice: 'nope'\nhint: tacho -h lists them"), "{report}");
}

#[cfg(unix)]
#[test]
fn words_must_be_unicode() {
    use std::os::unix::ffi::OsStringExt;
    let error = parse([std::ffi::OsString::from_vec(vec![0xff])]).unwrap_err();
    assert!(error.to_string().contains("UTF-8"), "{error}");
}

#[test]
fn short_help_fits_a_screen_and_names_flags_that_exist() {
    for table in COMMANDS.iter().map(|command| command.table) {
        assert!(table.basics.split_whitespace().all(|name| table.find(name).is_some()), "{}", table.command);
        let text = help(table, &Wanted::Basics, 80);
        assert!(text.lines().count() <= SCREEN, "{text}");
        assert_eq!(text.matches('(').count(), text.matches(')').count(), "cut within parentheses: {text}");
    }
    let short = crate::args::program::top_basics(COMMANDS, 80);
    assert!(short.lines().count() <= SCREEN, "{short}");
    assert!(short.contains("\n  sweep  ") && !short.contains("sweep serve"), "a family has one row: {short}");
    assert_eq!(printed(&[]), printed(&["-h"]));
    let serve = printed(&["serve", "-h"]);
    assert!(serve.find("--sim").unwrap() < serve.find("--num-prompts").unwrap() || serve.contains("\n  --sim "));
}

#[test]
fn help_shows_important_flags_first_and_hides_what_is_refused() {
    let server = printed(&["serve", "--help=server"]);
    assert!(server.find("--base-url").unwrap() < server.find("--api-key").unwrap());
    let load = printed(&["serve", "--help=load options"]);
    assert!(load.find("--request-rate").unwrap() < load.find("--burstiness").unwrap());
    let gate = printed(&["gate", "--help=all"]);
    assert!(gate.find("BASE NEW\n").unwrap() < gate.find("--max-regression").unwrap());
    let predict = printed(&["predict", "--help"]);
    assert!(predict.contains("--sim-profile") && !predict.contains("--live") && !predict.contains("--timeout"));
}

#[test]
fn no_section_of_any_help_has_more_than_a_dozen_options() {
    let mut large = Vec::new();
    for command in COMMANDS {
        for group in command.table.groups {
            let flags = flags_of(command.table, |known| known == *group);
            if flags.len() > 12 {
                large.push(format!("{}: {} has {}", command.table.command, group.title, flags.len()));
            }
        }
    }
    assert!(large.is_empty(), "{large:#?}");
}

#[test]
fn every_command_is_in_a_section_of_at_most_a_dozen() {
    for command in COMMANDS {
        assert!(SECTIONS.contains(&command.section), "{}", command.spellings[0]);
    }
    for title in SECTIONS {
        let count = COMMANDS.iter().filter(|command| command.section == title).count();
        assert!((1..=12).contains(&count), "{title}: {count}");
    }
}

#[test]
fn no_command_has_two_options_of_one_name() {
    for command in COMMANDS {
        let mut names: Vec<&str> = command.table.flags.iter().flat_map(|flag| flag.names).copied().collect();
        names.sort_unstable();
        let twice: Vec<_> = names.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
        assert!(twice.is_empty(), "{}: {twice:?}", command.table.command);
    }
}

#[test]
fn every_option_is_in_a_section_that_the_help_shows() {
    let mut hidden = Vec::new();
    for command in COMMANDS {
        let unknown = |flag: &&Flag| {
            !flag.is_passed_on() && flag.kind != Kind::Help && !command.table.groups.contains(&flag.group)
        };
        let flags = command.table.flags.iter().filter(unknown);
        hidden.extend(flags.map(|flag| format!("{} {}", command.table.command, flag.long())));
    }
    assert!(hidden.is_empty(), "{hidden:#?}");
}

/// Every help text at this width, with the arguments that print it.
fn help_texts(width: usize) -> Vec<(String, String)> {
    let mut texts = vec![("tacho".to_owned(), crate::args::program::top_help(COMMANDS, width))];
    for family in ["sweep", "bench", "bench sweep", "convert"] {
        texts.push((family.to_owned(), crate::args::program::family_help(COMMANDS, family, width)));
    }
    for topic in TOPICS {
        texts.push((format!("help {}", topic.name), crate::args::help::topics::text(topic, width)));
    }
    for command in COMMANDS {
        let titles = command.table.groups.iter().map(|group| Some(group.title));
        let wanted = [None, Some("all"), Some("len"), Some("nosuch")].into_iter().chain(titles).map(Wanted::of);
        for wanted in wanted.chain([Wanted::Basics]) {
            texts.push((format!("{} {wanted:?}", command.table.command), help(command.table, &wanted, width)));
        }
    }
    texts
}

#[test]
fn help_fits_terminals_of_every_width_and_cuts_no_word() {
    let words = |text: &str| -> Vec<String> {
        text.split_whitespace().filter(|word| *word != "\\").map(str::to_owned).collect()
    };
    let wide = help_texts(1000);
    for width in [60, 80, 120, 200] {
        for ((asked, text), (_, whole)) in help_texts(width).iter().zip(&wide) {
            for line in text.lines() {
                assert!(line.chars().count() <= width, "{asked} at {width}: {line}");
            }
            // The short help has the sections that fit.
            if asked.ends_with("Basics") {
                continue;
            }
            // The width decides whether choices are listed, so only whole words are compared.
            let known = words(whole);
            let cut: Vec<_> = words(text).into_iter().filter(|word| !known.contains(word)).collect();
            let spelled = |word: &String| {
                let is_value = word.chars().all(|c| c.is_ascii_uppercase());
                is_value || word.starts_with('{') || whole.contains(word.trim_end_matches(['.', ',']))
            };
            assert!(cut.iter().all(spelled), "{asked} at {width}: {cut:?}");
        }
    }
}

#[test]
fn no_default_in_any_help_is_empty() {
    for (asked, text) in help_texts(120) {
        for nothing in ["[]", "[{}]", "(default: )", "(default: None)", "[None]", "(default: [])"] {
            let shown = text.lines().any(|line| line.trim_end().ends_with(nothing));
            assert!(!shown, "{asked}: {nothing}");
        }
    }
}

#[test]
fn help_on_datasets_lists_all_their_flags() {
    let text = printed(&["serve", "--help=dataset"]);
    for flag in ["--dataset-path", "--random-input-len", "--sharegpt-output-len", "--hf-split", "--gsp-num-groups"] {
        assert!(text.contains(&format!("\n  {flag} ")), "{flag}: {text}");
    }
    assert!(!text.contains("--request-rate RPS"), "{text}");
}

#[test]
fn every_topic_that_examples_name_is_there() {
    let text = printed(&["--help"]);
    for topic in TOPICS {
        assert!(text.contains(&format!("tacho help {} ", topic.name)), "{}", topic.name);
    }
}

/// The words of a command line: single quotes are the only quotes in examples.
fn args_of(line: &str) -> Vec<String> {
    let line = line.split([';', '|']).next().unwrap_or_default();
    let mut words = vec![String::new()];
    for (at, part) in line.split('\'').enumerate() {
        let mut pieces = if at % 2 == 1 { vec![part] } else { part.split(' ').collect() }.into_iter();
        *words.last_mut().expect("never empty") += pieces.next().unwrap_or_default();
        words.extend(pieces.map(str::to_owned));
    }
    words.retain(|word| !word.is_empty());
    words.into_iter().skip(1).take_while(|word| !word.starts_with('>')).collect()
}

/// Files that examples name do not exist here; everything else must be right.
#[test]
fn the_examples_of_the_help_are_valid() {
    let tables = crate::commands::COMMANDS.iter().map(|command| command.table);
    let mut count = 0;
    for (line, _) in tables.flat_map(|table| table.examples) {
        let words = args_of(line);
        let result = parse_args(&words.iter().map(String::as_str).collect::<Vec<_>>());
        let error = result.err().map(|error| format!("{error:?}")).filter(|error| !error.contains("No such file"));
        assert_eq!(error, None, "{line}");
        count += 1;
    }
    assert!(count > 50, "{count} examples");
}
