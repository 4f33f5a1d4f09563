//! Completion scripts for bash, zsh, fish, and PowerShell, generated from the tables.

use crate::flag::{Flag, Kind};
use crate::{command::Command, help::sentence};

#[derive(Clone, Copy)]
pub struct Completion<'a, P: 'static> {
    pub commands: &'static [Command<P>],
    /// Help topics in addition to commands.
    pub topics: &'a [&'static str],
    /// Returns the possible values of a flag whose row does not list them.
    pub words: &'a dyn Fn(&Flag) -> Option<Words>,
}

pub enum Words {
    /// The flag does not take a value.
    None,
    Listed(Vec<String>),
    Files,
    ListedOrFiles(Vec<String>),
    Any,
}

/// All spellings of commands, the longest first.
fn spellings<P>(commands: &[Command<P>]) -> Vec<(&'static str, &Command<P>)> {
    let mut all: Vec<_> =
        commands.iter().flat_map(|command| command.spellings.iter().map(move |words| (*words, command))).collect();
    all.sort_by_key(|(words, _)| std::cmp::Reverse(words.len()));
    all
}

fn flags<P>(command: &Command<P>) -> impl Iterator<Item = &'static Flag> {
    command.table.flags.iter().filter(|flag| flag.kind.positions().is_none())
}

/// Incomplete commands, each with the words that can follow.
fn beginnings<P>(completion: &Completion<'_, P>) -> Vec<(String, Vec<&'static str>)> {
    let mut all: Vec<(String, Vec<&'static str>)> = Vec::new();
    for spelling in completion.commands.iter().flat_map(|command| command.spellings) {
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
    let mut helped: Vec<&'static str> = completion.topics.to_vec();
    if let Some((_, first)) = all.iter_mut().find(|(before, _)| before.is_empty()) {
        helped.extend(first.iter().filter(|word| !helped.contains(word)).copied().collect::<Vec<_>>());
        first.push("help");
    }
    all.push(("help".to_owned(), helped));
    all
}

impl<P> Completion<'_, P> {
    fn values(&self, flag: &Flag) -> Words {
        match flag.kind {
            Kind::Switch | Kind::TriState | Kind::Help => Words::None,
            Kind::Choice(choices) => Words::Listed(choices.iter().map(|word| (*word).to_owned()).collect()),
            Kind::ChoiceOrFile(choices, _) => {
                Words::ListedOrFiles(choices.iter().map(|word| (*word).to_owned()).collect())
            }
            _ => (self.words)(flag).unwrap_or(match flag.metavar {
                "FILE" | "DIR" | "PATH" => Words::Files,
                _ => Words::Any,
            }),
        }
    }
}

pub fn bash<P>(completion: &Completion<'_, P>) -> String {
    let mut out = String::from(
        "# bash completion of tacho; made by: tacho completions bash\n\
         _tacho() {\n    local cur=\"${COMP_WORDS[COMP_CWORD]}\" prev=\"${COMP_WORDS[COMP_CWORD-1]}\"\n    \
         local line=\"${COMP_WORDS[*]:1:COMP_CWORD-1}\"\n    COMPREPLY=()\n    \
         # --flag=value comes as three words.\n    \
         if [[ \"$cur\" == \"=\" ]]; then cur=\"\"\n    \
         elif [[ \"$prev\" == \"=\" ]]; then prev=\"${COMP_WORDS[COMP_CWORD-2]}\"; fi\n    \
         case \"$line\" in\n",
    );
    for (spelling, command) in spellings(completion.commands) {
        out += &format!("    \"{spelling}\"|\"{spelling} \"*)\n        case \"$prev\" in\n");
        for flag in flags(command) {
            let reply = match completion.values(flag) {
                Words::Listed(words) => format!("compgen -W \"{}\" -- \"$cur\"", words.join(" ")),
                Words::Files => "compgen -f -- \"$cur\"".to_owned(),
                Words::ListedOrFiles(words) => format!("compgen -f -W \"{}\" -- \"$cur\"", words.join(" ")),
                Words::None | Words::Any => continue,
            };
            out += &format!("        {}) COMPREPLY=($({reply})); return ;;\n", flag.names.join("|"));
        }
        let names: Vec<&str> = flags(command).flat_map(|flag| flag.names).copied().collect();
        out += &format!(
            "        esac\n        if [[ \"$cur\" == -* ]]; then COMPREPLY=($(compgen -W \"{}\" -- \"$cur\"))\n        else COMPREPLY=($(compgen -f -- \"$cur\")); fi ;;\n",
            names.join(" ")
        );
    }
    for (before, after) in beginnings(completion) {
        out += &format!("    \"{before}\") COMPREPLY=($(compgen -W \"{}\" -- \"$cur\")) ;;\n", after.join(" "));
    }
    out + "    esac\n}\ncomplete -o filenames -o bashdefault -F _tacho tacho\n"
}

pub fn zsh<P>(completion: &Completion<'_, P>) -> String {
    let mut out = String::from(
        "#compdef tacho\n# zsh completion of tacho; made by: tacho completions zsh\n_tacho() {\n    \
         local line=\"${(j: :)words[2,CURRENT-1]}\"\n    case \"$line\" in\n",
    );
    for (spelling, command) in spellings(completion.commands) {
        let count = spelling.split(' ').count();
        out += &format!(
            "    ('{spelling}'|'{spelling} '*)\n        words=(tacho \"${{(@)words[{},-1]}}\"); (( CURRENT -= {count} ))\n        _arguments -S",
            count + 2
        );
        for flag in flags(command) {
            for name in flag.names {
                let (about, metavar) = (zsh_text(sentence(flag)), zsh_text(flag.metavar));
                let value = match completion.values(flag) {
                    Words::None => String::new(),
                    Words::Listed(words) => format!(":{metavar}:({})", words.join(" ")),
                    Words::Files => format!(":{metavar}:_files"),
                    // The space makes `_arguments` call the function directly, without adding options.
                    Words::ListedOrFiles(words) => {
                        let both = format!("_alternative 'w:value:({})' 'f:file:_files'", words.join(" "));
                        format!(":{metavar}: {}", zsh_text(&both))
                    }
                    Words::Any => format!(":{metavar}: "),
                };
                out += &format!(" \\\n            '{name}[{about}]{value}'");
            }
        }
        out += " \\\n            '*:file:_files' ;;\n";
    }
    for (before, after) in beginnings(completion) {
        out += &format!("    ('{before}') compadd -- {} ;;\n", after.join(" "));
    }
    out + "    esac\n}\n_tacho \"$@\"\n"
}

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

pub fn fish<P>(completion: &Completion<'_, P>) -> String {
    let mut out = String::from(
        "# fish completion of tacho; made by: tacho completions fish\n\
         function __tacho_at\n    set -l line (commandline -opc)\n    test \"$line[2..-1]\" = \"$argv\"\nend\n\
         function __tacho_in\n    set -l line (commandline -opc)\n    set -l last (math 1 + (count $argv))\n    \
         test (count $line) -ge $last; and test \"$line[2..$last]\" = \"$argv\"\nend\n\
         complete -c tacho -f\n",
    );
    for (before, after) in beginnings(completion) {
        let at = if before.is_empty() { "__tacho_at".to_owned() } else { format!("__tacho_at {before}") };
        out += &format!("complete -c tacho -n '{at}' -a '{}'\n", after.join(" "));
    }
    for (spelling, command) in spellings(completion.commands) {
        for flag in flags(command) {
            for name in flag.names {
                let option = match name.strip_prefix("--") {
                    Some(long) => format!("-l {long}"),
                    None if name.len() == 2 => format!("-s {}", &name[1..]),
                    None => format!("-o {}", name.trim_start_matches('-')),
                };
                let value = match completion.values(flag) {
                    Words::None => String::new(),
                    Words::Listed(words) => format!(" -x -a '{}'", words.join(" ")),
                    Words::Files => " -r -F".to_owned(),
                    Words::ListedOrFiles(words) => format!(" -r -F -a '{}'", words.join(" ")),
                    Words::Any => " -x".to_owned(),
                };
                let about = sentence(flag).replace('\\', "\\\\").replace('\'', "\\'");
                out += &format!("complete -c tacho -n '__tacho_in {spelling}' {option}{value} -d '{about}'\n");
            }
        }
    }
    out
}

pub fn powershell<P>(completion: &Completion<'_, P>) -> String {
    let quoted = |words: &[String]| words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(",");
    let mut out = String::from(
        "# PowerShell completion of tacho; made by: tacho completions powershell\n\
         Register-ArgumentCompleter -Native -CommandName tacho -ScriptBlock {\n    \
         param($word, $ast, $cursor)\n    \
         $before = @($ast.CommandElements | Where-Object { $_.Extent.EndOffset -lt $cursor } | ForEach-Object { \"$_\" })\n    \
         $line = ($before | Select-Object -Skip 1) -join ' '\n    $previous = $before[-1]\n    \
         $offered = switch -Wildcard ($line) {\n",
    );
    for (before, after) in beginnings(completion) {
        let after: Vec<String> = after.into_iter().map(str::to_owned).collect();
        out += &format!("        '{before}' {{ {}; break }}\n", quoted(&after));
    }
    for (spelling, command) in spellings(completion.commands) {
        out += &format!("        '{spelling}*' {{\n            switch ($previous) {{\n");
        for flag in flags(command) {
            let (Words::Listed(words) | Words::ListedOrFiles(words)) = completion.values(flag) else { continue };
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
