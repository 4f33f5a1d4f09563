//! Completions, manual pages, and settings from files and variables.

use std::fs;
use std::process::{Command, Output};

use crate::tacho::{Place, stderr, stdout};

/// A directory with the completion script of this shell.
fn with_script(shell: &str) -> Place {
    let place = Place::new();
    let output = place.run(&["completions", shell]);
    assert!(output.status.success(), "{}", stderr(&output));
    place.write("tacho.completion", &stdout(&output));
    place
}

fn shell(place: &Place, args: &[&str]) -> Output {
    let output = Command::new(args[0]).args(&args[1..]).current_dir(place.path()).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    output
}

/// Completions after these words: expected and unexpected ones.
const OFFERED: &[(&[&str], &[&str], &[&str])] = &[
    (&["se"], &["serve"], &["sweep"]),
    (&[""], &["serve", "sweep", "convert", "help", "gate"], &["benchmark_serving.py"]),
    (&["sweep", "serve_"], &["serve_sla", "serve_workload"], &["serve"]),
    (&["bench", "sweep", "plot"], &["plot", "plot_pareto"], &["startup"]),
    (&["convert", ""], &["txt-slices", "sharegpt", "trace"], &["serve"]),
    (&["serve", "--num-p"], &["--num-prompts"], &["--num-warmups"]),
    (&["serve", "--model", "m", "--request-r"], &["--request-rate"], &["--model"]),
    (&["serve", "--dataset-name", "share"], &["sharegpt"], &["random"]),
    (&["serve", "--backend", "openai-c"], &["openai-chat"], &["vllm"]),
    (&["bench", "serve", "--ramp-up-strategy", ""], &["linear", "exponential"], &["--model"]),
    (&["sweep", "serve_sla", "--sla-"], &["--sla-params", "--sla-variable"], &["--workload-var"]),
    (&["serve", "--sim-profile", "h100"], &["h100-8b", "h100-70b-tp4"], &["tiny"]),
    (&["gate", "--max-regression", "p99_tt"], &["p99_ttft_ms"], &["p99_tpot_ms"]),
    (&["check", "--fail-if", "mean_"], &["mean_ttft_ms", "mean_e2el_ms"], &["p99_ttft_ms"]),
    (&["help", "ra"], &["rates"], &["datasets"]),
    (&["help", "sw"], &["sweep", "sweeps"], &["serve"]),
];

fn check(ask: impl Fn(&[&str]) -> String) {
    for (args, wanted, unwanted) in OFFERED {
        let offered = ask(args);
        let offers = |word: &&&str| offered.lines().any(|line| line.split('\t').next() == Some(**word));
        let missing: Vec<_> = wanted.iter().filter(|word| !offers(word)).collect();
        assert!(missing.is_empty(), "{args:?}: no {missing:?} in {offered}");
        let wrong: Vec<_> = unwanted.iter().filter(offers).collect();
        assert!(wrong.is_empty(), "{args:?}: {wrong:?} in {offered}");
    }
}

#[test]
fn bash_completes_commands_flags_and_values() {
    let place = with_script("bash");
    shell(&place, &["bash", "-n", "tacho.completion"]);
    let ask = |args: &[&str]| {
        let typed: String = args.iter().map(|word| format!(" '{word}'")).collect();
        let code = format!(
            "source tacho.completion; COMP_WORDS=(tacho{typed}); COMP_CWORD={}; _tacho; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            args.len()
        );
        stdout(&shell(&place, &["bash", "--norc", "-c", &code]))
    };
    check(ask);
    assert_eq!(ask(&["serve", "--backend", "=", "openai-c"]), "openai-chat\n", "bash cuts a word at its =");
}

#[test]
#[ignore = "needs zsh"]
fn zsh_reads_the_script_and_completes() {
    let place = with_script("zsh");
    shell(&place, &["zsh", "-n", "tacho.completion"]);
    // The completion system requires a terminal; this captures the candidates where they are passed to it.
    let ask = |args: &[&str]| {
        let typed: String = args.iter().map(|word| format!(" '{word}'")).collect();
        let code = format!(
            "autoload -Uz compinit; compinit -u -d dump 2>/dev/null; local last=${{@[-1]}}; \
             compadd() {{ [[ $1 == -- ]] && shift && print -l -- ${{(M)@:#$last*}} }}; \
             _arguments() {{ local before=${{words[CURRENT-1]}}; for spec; do \
             if [[ $spec == ${{before}}\\[*:\\(* ]]; then print -l -- ${{(M)${{=${{${{spec##*\\(}}%%\\)*}}}}:#$last*}}; return; fi; done; \
             for spec; do [[ $spec == -S || $spec == \\** ]] || print -r -- ${{spec%%\\[*}}; done | grep -- \"^$last\"; true }}; \
             words=(tacho{typed}); CURRENT=$#words; source ./tacho.completion"
        );
        stdout(&shell(&place, &["zsh", "-f", "-c", &format!("f() {{ {code} }}; f{typed}")]))
    };
    check(ask);
}

/// Types lines and a tab into zsh in a terminal, and prints the completions.
const ZSH: &str = r#"
import os, pty, select, sys, time
pid, fd = pty.fork()
if pid == 0:
    os.environ['TERM'] = 'xterm'
    os.execvp('zsh', ['zsh', '-f'])
def read(seconds):
    seen, end = b'', time.time() + seconds
    while time.time() < end:
        if select.select([fd], [], [], 0.1)[0]:
            seen += os.read(fd, 65536)
    return seen
read(2)
os.write(fd, b'fpath=($PWD $fpath); autoload -Uz compinit; compinit -u -D\n')
read(3)
for line in sys.argv[1:]:
    os.write(fd, line.encode() + b'\t')
    print(read(4))
    os.write(fd, b'\x03')
    read(1)
os.kill(pid, 9)
"#;

#[test]
#[ignore = "needs zsh and python3"]
fn zsh_in_a_terminal_completes_words_of_every_kind() {
    let place = with_script("zsh");
    fs::copy(place.file("tacho.completion"), place.file("_tacho")).unwrap();
    let lines = [
        ("tacho swe", "sweep"),
        ("tacho serve --num-p", "--num-prompts"),
        ("tacho serve --sim-profile a1", "a100-8b"),
        ("tacho gate --max-regression p99_tt", "p99_ttft_ms"),
    ];
    let mut args = vec!["python3", "-c", ZSH];
    args.extend(lines.map(|(line, _)| line));
    let output = stdout(&shell(&place, &args));
    for (line, (typed, completed)) in output.lines().zip(lines) {
        assert!(line.contains(completed) && !line.contains("_arguments:"), "{typed}: {line}");
    }
    assert_eq!(output.lines().count(), lines.len());
}

#[test]
#[ignore = "needs fish"]
fn fish_reads_the_script_and_completes() {
    let place = with_script("fish");
    shell(&place, &["fish", "--no-execute", "tacho.completion"]);
    check(|args| {
        let code = format!("source tacho.completion; complete --do-complete 'tacho {}'", args.join(" "));
        stdout(&shell(&place, &["fish", "--no-config", "-c", &code]))
    });
}

#[test]
fn the_script_for_powershell_has_the_same_words() {
    let script = stdout(&Place::new().run(&["completions", "powershell"]));
    for part in [
        "Register-ArgumentCompleter -Native -CommandName tacho",
        "'serve*' {",
        "'sweep' { 'serve',",
        "'--ramp-up-strategy' { 'linear','exponential'; break }",
        "'--max-regression' { 'mean_ttft_ms',",
    ] {
        assert!(script.contains(part), "{part}");
    }
    assert_eq!(script.matches('{').count(), script.matches('}').count());
}

#[test]
fn there_is_a_manual_page_for_every_command() {
    let place = Place::new();
    let output = place.run(&["man", "--dir", "man1"]);
    assert!(output.status.success() && stdout(&output).contains("pages are in man1"), "{}", stderr(&output));
    let reference = stdout(&place.run(&["man", "--markdown"]));
    let rows = reference.lines().filter_map(|line| line.strip_prefix("| ["));
    let commands: Vec<&str> = rows.filter_map(|row| row.split(']').next()).collect();
    assert!(commands.len() > 30, "{commands:?}");
    for command in commands {
        let page = fs::read_to_string(place.file(&format!("man1/{}.1", command.replace(' ', "-")))).unwrap();
        assert!(page.starts_with(".TH ") && page.contains(".SH SYNOPSIS\n"), "{command}");
        assert_eq!(stdout(&place.run(&[&["man"], &command.split(' ').skip(1).collect::<Vec<_>>()[..]].concat())), page);
        let requests = page.lines().filter(|line| line.starts_with(['.', '\'']));
        let known = [".TH", ".SH", ".TP", ".B", ".BR"];
        for line in requests {
            assert!(known.contains(&line.split(' ').next().unwrap()), "{command}: {line} would be a request of roff's");
        }
    }
    let serve = fs::read_to_string(place.file("man1/tacho-serve.1")).unwrap();
    assert!(serve.contains(".TP\n.B \\-\\-num\\-prompts N\n"), "{serve}");
    let refused = place.run(&["man", "nosuch"]);
    assert!(!refused.status.success() && stderr(&refused).contains("nosuch"));
}

/// The number of prompts of a run, with settings from several sources.
fn prompts(place: &Place, variable: Option<&str>, args: &[&str]) -> String {
    let mut command = place.command(&[&["serve", "--sim", "--dry-run", "--strict-parity"], args].concat());
    if let Some(number) = variable {
        command.env("TACHO_NUM_PROMPTS", number);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    text.split("num_prompts=").nth(1).unwrap().split([',', ')']).next().unwrap().to_owned()
}

#[test]
fn flags_win_over_variables_and_these_over_the_file() {
    let place = Place::new();
    place.write("run.yaml", "num-prompts: 3\nrandom-input-len: 8\nrandom-output-len: 2\nsave-result: true\n");
    let file = ["--config", "run.yaml"];
    assert_eq!(prompts(&place, None, &["--num-prompts", "2", "--random-input-len", "8"]), "2");
    assert_eq!(prompts(&place, None, &file), "3");
    assert_eq!(prompts(&place, Some("4"), &file), "4");
    assert_eq!(prompts(&place, Some("4"), &[&file[..], &["--num-prompts", "5"]].concat()), "5");
}

#[test]
fn a_wrong_setting_is_named_with_where_it_is() {
    let place = Place::new();
    place.write("run.yaml", "num-promts: 3\n");
    let output = place.run(&["serve", "--sim", "--config", "run.yaml"]);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(2));
    assert!(text.contains("run.yaml") && text.contains("did you mean --num-prompts?"), "{text}");
    let output = place.command(&["serve", "--sim"]).env("TACHO_NUM_PROMPTS", "many").output().unwrap();
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(2));
    assert!(text.contains("TACHO_NUM_PROMPTS") && text.contains("many"), "{text}");
}

#[test]
fn what_init_writes_is_read_as_it_is_and_after_every_line_is_switched_on() {
    let place = Place::new();
    let output = place.run(&["init"]);
    assert!(
        output.status.success() && stdout(&output).contains("tacho serve --config run.yaml"),
        "{}",
        stderr(&output)
    );
    let again = place.run(&["init"]);
    assert!(!again.status.success() && stderr(&again).contains("run.yaml is there already"), "{}", stderr(&again));
    assert_eq!(prompts(&place, None, &["--config", "run.yaml", "--num-prompts", "6"]), "6");
    let text = fs::read_to_string(place.file("run.yaml")).unwrap();
    place.write("one.yaml", &text.replace("# num-prompts: 1000 ", "num-prompts: 7 "));
    assert_eq!(prompts(&place, None, &["--config", "one.yaml"]), "7");
}
