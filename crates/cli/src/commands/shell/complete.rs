//! Completion scripts for bash, zsh, fish and PowerShell, made from the tables.

use tacho_engine::Profile;

use crate::args::error::metric_names;
use crate::args::machinery::command::Command;
use crate::args::machinery::flag::{Flag, Kind};
use crate::args::machinery::help::sentence;
use crate::args::topics::TOPICS;

/// The words of a command line after which a command's flags can stand, the longest first.
fn spellings(commands: &[Command]) -> Vec<(&'static str, &Command)> {
    let mut all: Vec<_> =
        commands.iter().flat_map(|command| command.spellings.iter().map(move |words| (*words, command))).collect();
    all.sort_by_key(|(words, _)| std::cmp::Reverse(words.len()));
    all
}

fn flags(command: &Command) -> impl Iterator<Item = &'static Flag> {
    command.table.flags.iter().filter(|flag| flag.kind.places().is_none())
}

/// Words that may come before a command is complete, each with what can follow.
fn beginnings(commands: &[Command]) -> Vec<(String, Vec<&'static str>)> {
    let mut all: Vec<(String, Vec<&'static str>)> = Vec::new();
    for spelling in commands.iter().flat_map(|command| command.spellings) {
        let words: Vec<&'static str> = spelling.split(' ').collect();
        for at in 0..words.len() {
            let before = words[..at].join(" ");
            let entry = match all.iter().position(|(known, _)| *known == before) {
                Some(known) => &mut all[known].1,
                None => {
                    all.push((before, Vec::new()));
                    &mut all.last_mut().expect("just pushed").1
                }
            };
            if !entry.contains(&words[at]) {
                entry.push(words[at]);
            }
        }
    }
    let mut helped: Vec<&'static str> = TOPICS.iter().map(|topic| topic.name).collect();
    if let Some((_, first)) = all.iter_mut().find(|(before, _)| before.is_empty()) {
        helped.extend(first.iter().filter(|word| !helped.contains(word)).copied().collect::<Vec<_>>());
        first.push("help");
    }
    all.push(("help".to_owned(), helped));
    all
}

/// What a flag's value can be.
enum Values {
    None,
    Words(Vec<String>),
    Files,
    /// One of these, or a file.
    WordsOrFiles(Vec<String>),
    Any,
}

fn values(flag: &Flag) -> Values {
    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    match (flag.kind, flag.long()) {
        (Kind::Switch | Kind::TriState | Kind::Help, _) => Values::None,
        (Kind::Choice(choices), _) => Values::Words(owned(choices)),
        (_, "--sim-profile" | "--profile") => Values::WordsOrFiles(owned(&Profile::names())),
        (_, "--max-regression" | "--fail-if" | "--until" | "--metrics") => Values::Words(metric_names()),
        _ if ["FILE", "DIR", "PATH"].contains(&flag.metavar) => Values::Files,
        _ => Values::Any,
    }
}

/// The script for bash.
pub(super) fn bash(commands: &'static [Command]) -> String {
    let mut out = String::from(
        "# bash completion of tacho; made by: tacho completions bash\n\
         _tacho() {\n    local cur=\"${COMP_WORDS[COMP_CWORD]}\" prev=\"${COMP_WORDS[COMP_CWORD-1]}\"\n    \
         local line=\"${COMP_WORDS[*]:1:COMP_CWORD-1}\"\n    COMPREPLY=()\n    \
         # --flag=value comes as three words.\n    \
         if [[ \"$cur\" == \"=\" ]]; then cur=\"\"\n    \
         elif [[ \"$prev\" == \"=\" ]]; then prev=\"${COMP_WORDS[COMP_CWORD-2]}\"; fi\n    \
         case \"$line\" in\n",
    );
    for (spelling, command) in spellings(commands) {
        out += &format!("    \"{spelling}\"|\"{spelling} \"*)\n        case \"$prev\" in\n");
        for flag in flags(command) {
            let reply = match values(flag) {
                Values::Words(words) => format!("compgen -W \"{}\" -- \"$cur\"", words.join(" ")),
                Values::Files => "compgen -f -- \"$cur\"".to_owned(),
                Values::WordsOrFiles(words) => format!("compgen -f -W \"{}\" -- \"$cur\"", words.join(" ")),
                Values::None | Values::Any => continue,
            };
            out += &format!("        {}) COMPREPLY=($({reply})); return ;;\n", flag.names.join("|"));
        }
        let names: Vec<&str> = flags(command).flat_map(|flag| flag.names).copied().collect();
        out += &format!(
            "        esac\n        if [[ \"$cur\" == -* ]]; then COMPREPLY=($(compgen -W \"{}\" -- \"$cur\"))\n        else COMPREPLY=($(compgen -f -- \"$cur\")); fi ;;\n",
            names.join(" ")
        );
    }
    for (before, after) in beginnings(commands) {
        out += &format!("    \"{before}\") COMPREPLY=($(compgen -W \"{}\" -- \"$cur\")) ;;\n", after.join(" "));
    }
    out + "    esac\n}\ncomplete -o filenames -o bashdefault -F _tacho tacho\n"
}

/// The script for zsh.
pub(super) fn zsh(commands: &'static [Command]) -> String {
    let mut out = String::from(
        "#compdef tacho\n# zsh completion of tacho; made by: tacho completions zsh\n_tacho() {\n    \
         local line=\"${(j: :)words[2,CURRENT-1]}\"\n    case \"$line\" in\n",
    );
    for (spelling, command) in spellings(commands) {
        let count = spelling.split(' ').count();
        out += &format!(
            "    ('{spelling}'|'{spelling} '*)\n        words=(tacho \"${{(@)words[{},-1]}}\"); (( CURRENT -= {count} ))\n        _arguments -S",
            count + 2
        );
        for flag in flags(command) {
            for name in flag.names {
                let about = zsh_text(sentence(flag));
                let value = match values(flag) {
                    Values::None => String::new(),
                    Values::Words(words) => format!(":{}:({})", flag.metavar, words.join(" ")),
                    Values::Files => format!(":{}:_files", flag.metavar),
                    Values::WordsOrFiles(words) => {
                        format!(":{0}:_alternative 'w:{0}:({1})' 'f:file:_files'", flag.metavar, words.join(" "))
                            .replace('\'', "'\\''")
                    }
                    Values::Any => format!(":{}: ", zsh_text(flag.metavar)),
                };
                out += &format!(" \\\n            '{name}[{about}]{value}'");
            }
        }
        out += " \\\n            '*:file:_files' ;;\n";
    }
    for (before, after) in beginnings(commands) {
        out += &format!("    ('{before}') compadd -- {} ;;\n", after.join(" "));
    }
    out + "    esac\n}\n_tacho \"$@\"\n"
}

/// What `_arguments` takes for text.
fn zsh_text(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '\'' => out.push_str("'\\''"),
            '[' | ']' | ':' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}

/// The script for fish.
pub(super) fn fish(commands: &'static [Command]) -> String {
    let mut out = String::from(
        "# fish completion of tacho; made by: tacho completions fish\n\
         function __tacho_at\n    set -l line (commandline -opc)\n    test \"$line[2..-1]\" = \"$argv\"\nend\n\
         function __tacho_in\n    set -l line (commandline -opc)\n    set -l last (math 1 + (count $argv))\n    \
         test (count $line) -ge $last; and test \"$line[2..$last]\" = \"$argv\"\nend\n\
         complete -c tacho -f\n",
    );
    for (before, after) in beginnings(commands) {
        let at = if before.is_empty() { "__tacho_at".to_owned() } else { format!("__tacho_at {before}") };
        out += &format!("complete -c tacho -n '{at}' -a '{}'\n", after.join(" "));
    }
    for (spelling, command) in spellings(commands) {
        for flag in flags(command) {
            for name in flag.names {
                let option = match name.strip_prefix("--") {
                    Some(long) => format!("-l {long}"),
                    None if name.len() == 2 => format!("-s {}", &name[1..]),
                    None => format!("-o {}", name.trim_start_matches('-')),
                };
                let value = match values(flag) {
                    Values::None => String::new(),
                    Values::Words(words) => format!(" -x -a '{}'", words.join(" ")),
                    Values::Files => " -r -F".to_owned(),
                    Values::WordsOrFiles(words) => format!(" -r -F -a '{}'", words.join(" ")),
                    Values::Any => " -x".to_owned(),
                };
                let about = sentence(flag).replace('\\', "\\\\").replace('\'', "\\'");
                out += &format!("complete -c tacho -n '__tacho_in {spelling}' {option}{value} -d '{about}'\n");
            }
        }
    }
    out
}

/// The script for PowerShell.
pub(super) fn powershell(commands: &'static [Command]) -> String {
    let quoted = |words: &[String]| words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(",");
    let mut out = String::from(
        "# PowerShell completion of tacho; made by: tacho completions powershell\n\
         Register-ArgumentCompleter -Native -CommandName tacho -ScriptBlock {\n    \
         param($word, $ast, $cursor)\n    \
         $before = @($ast.CommandElements | Where-Object { $_.Extent.EndOffset -lt $cursor } | ForEach-Object { \"$_\" })\n    \
         $line = ($before | Select-Object -Skip 1) -join ' '\n    $previous = $before[-1]\n    \
         $offered = switch -Wildcard ($line) {\n",
    );
    for (before, after) in beginnings(commands) {
        let after: Vec<String> = after.into_iter().map(str::to_owned).collect();
        out += &format!("        '{before}' {{ {}; break }}\n", quoted(&after));
    }
    for (spelling, command) in spellings(commands) {
        out += &format!("        '{spelling}*' {{\n            switch ($previous) {{\n");
        for flag in flags(command) {
            let (Values::Words(words) | Values::WordsOrFiles(words)) = values(flag) else { continue };
            for name in flag.names {
                out += &format!("                '{name}' {{ {}; break }}\n", quoted(&words));
            }
        }
        let names: Vec<String> = flags(command).flat_map(|flag| flag.names).map(|name| (*name).to_owned()).collect();
        out += &format!(
            "                default {{ {} }}\n            }}\n            break\n        }}\n",
            quoted(&names)
        );
    }
    out + "    }\n    $offered | Where-Object { $_ -like \"$word*\" } | ForEach-Object { \
           [System.Management.Automation.CompletionResult]::new($_) }\n}\n"
}
