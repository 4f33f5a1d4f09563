//! `TACHO_…` environment variables: defaults of the flags with the same names.

use super::flag::{Flag, Kind, Table};
use super::{entry::Entry, near::nearest};
use crate::error::ConfigError;

const BEGINNING: &str = "TACHO_";

pub fn read(table: &Table) -> Result<Vec<Entry>, ConfigError> {
    entries(table, &|name| std::env::var(name).ok())
}

fn entries(table: &Table, variable: &dyn Fn(&str) -> Option<String>) -> Result<Vec<Entry>, ConfigError> {
    let mut entries = Vec::new();
    for flag in flags(table) {
        let location = name(flag);
        let Some(text) = variable(&location).filter(|text| !text.is_empty()) else { continue };
        entries.push(Entry { args: args(flag, &location, &text)?, location });
    }
    Ok(entries)
}

fn flags(table: &Table) -> impl Iterator<Item = &'static Flag> {
    table.flags.iter().filter(|flag| !matches!(flag.kind, Kind::Help | Kind::Rest(_)))
}

fn name(flag: &Flag) -> String {
    format!("{BEGINNING}{}", flag.dest().to_uppercase())
}

fn args(flag: &Flag, location: &str, text: &str) -> Result<Vec<String>, ConfigError> {
    let long = flag.long().to_owned();
    let off = || flag.names.iter().filter(|name| name.starts_with("--no-")).map(|name| (*name).to_owned());
    Ok(match flag.kind {
        Kind::Switch | Kind::TriState => match truth(text) {
            Some(true) => vec![long],
            Some(false) if flag.kind == Kind::Switch => Vec::new(),
            Some(false) => off().take(1).collect(),
            None => return Err(ConfigError::NoTruth { name: location.to_owned(), value: text.to_owned() }),
        },
        Kind::AnyNumber | Kind::OneOrMore | Kind::Repeated => {
            std::iter::once(long).chain(text.split_whitespace().map(str::to_owned)).collect()
        }
        _ => vec![format!("{long}={text}")],
    })
}

fn truth(text: &str) -> Option<bool> {
    match text.to_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Some(true),
        "0" | "false" | "no" | "off" => Some(false),
        _ => None,
    }
}

/// Returns a line for each unused variable whose name resembles that of a flag. Those in `elsewhere` are used, but
/// not by a flag.
pub fn mistaken(tables: impl Iterator<Item = &'static Table>, elsewhere: &[&str]) -> Vec<String> {
    let set = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    unread(tables, elsewhere, set)
}

fn unread(
    tables: impl Iterator<Item = &'static Table>,
    elsewhere: &[&str],
    set: impl Iterator<Item = String>,
) -> Vec<String> {
    let known: Vec<String> = tables.flat_map(flags).map(|flag| flag.dest().to_uppercase()).collect();
    let is_known = |rest: &str| elsewhere.contains(&rest) || known.iter().any(|known| known == rest);
    let line = |name: String| {
        let rest = name.strip_prefix(BEGINNING).filter(|rest| !is_known(rest))?;
        let meant = nearest(rest, known.iter().map(String::as_str))?;
        Some(format!("warning: no command reads {name}: did you mean {BEGINNING}{meant}?"))
    };
    set.filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flag::{DefaultValue, Group, HELP, group, switch, tacho};

    static GROUP: Group = group("options", "options", "All.");

    static TABLE: Table = Table {
        flags: &[
            HELP,
            tacho(&["--num-prompts"], Kind::Int, "N", DefaultValue::Int(1), &GROUP, "Requests."),
            switch(&["--save-result"], &GROUP, "Save."),
            switch(&["--profile"], &GROUP, "Profile."),
            tacho(&["--self-timed", "--no-self-timed"], Kind::TriState, "", DefaultValue::Unset, &GROUP, "Times."),
            tacho(&["--goodput"], Kind::AnyNumber, "SLO", DefaultValue::Unset, &GROUP, "Goals."),
            tacho(&["--label"], Kind::Str, "NAME", DefaultValue::Unset, &GROUP, "Label."),
        ],
        ..Table::PLAIN
    };

    #[test]
    fn a_switch_is_on_or_off_and_nothing_else() {
        let error = entries(&TABLE, &|name| (name == "TACHO_SAVE_RESULT").then(|| "maybe".to_owned())).unwrap_err();
        assert!(error.to_string().starts_with("TACHO_SAVE_RESULT=\"maybe\" is neither on nor off"), "{error}");
    }

    #[test]
    fn what_is_read_elsewhere_is_not_a_mistake() {
        let set = ["TACHO_LABELS", "TACHO_NUM_PROMTS", "TACHO_LABEL", "OTHER_LABELS"].map(str::to_owned);
        let lines = unread(std::iter::once(&TABLE), &["LABELS"], set.into_iter());
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("TACHO_NUM_PROMPTS"), "{lines:?}");
    }

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
        let args: Vec<String> =
            entries(&TABLE, &variable).unwrap().into_iter().flat_map(|entries| entries.args).collect();
        assert_eq!(args, ["--num-prompts=7", "--save-result", "--no-self-timed", "--goodput", "ttft:1", "e2el:2"]);
    }
}
