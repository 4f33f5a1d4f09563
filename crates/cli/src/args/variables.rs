//! `TACHO_…` variables: a flag of the same name, for what is the same in every run.

use super::flag::{Kind, Table};

/// The words that the environment stands for.
pub(crate) fn read(table: &Table) -> Vec<String> {
    words(table, &|name| std::env::var(name).ok())
}

fn words(table: &Table, variable: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let mut words = Vec::new();
    for flag in table.flags.iter().filter(|flag| !matches!(flag.kind, Kind::Help | Kind::Rest)) {
        let name = format!("TACHO_{}", flag.dest().to_uppercase());
        let Some(text) = variable(&name).filter(|text| !text.is_empty()) else { continue };
        let long = flag.long();
        match (flag.kind, is_off(&text)) {
            (Kind::Switch, true) => {}
            (Kind::TriState, true) => {
                words.extend(flag.names.iter().find(|name| name.starts_with("--no-")).map(|name| (*name).to_owned()))
            }
            (Kind::Switch | Kind::TriState, false) => words.push(long.to_owned()),
            (Kind::AnyNumber | Kind::OneOrMore | Kind::Repeated, _) => {
                words.push(long.to_owned());
                words.extend(text.split_whitespace().map(str::to_owned));
            }
            _ => words.push(format!("{long}={text}")),
        }
    }
    words
}

fn is_off(text: &str) -> bool {
    ["0", "false", "no", "off"].contains(&text.to_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::serve::TABLE;

    #[test]
    fn variables_stand_for_flags() {
        let set = [
            ("TACHO_NUM_PROMPTS", "7"),
            ("TACHO_SAVE_RESULT", "1"),
            ("TACHO_PROFILE", "0"),
            ("TACHO_SELF_TIMED", "false"),
            ("TACHO_GOODPUT", "ttft:1 e2el:2"),
            ("TACHO_LABEL", ""),
            ("TACHO_NO_SUCH_FLAG", "1"),
        ];
        let variable = |name: &str| set.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned());
        let words = words(&TABLE, &variable);
        assert_eq!(words, ["--num-prompts=7", "--save-result", "--no-self-timed", "--goodput", "ttft:1", "e2el:2"]);
    }
}
