//! Flags of commands that add their results to a history.

use std::path::PathBuf;

use tacho_args::declare::*;
use tacho_args::repr::quoted;

use crate::args::error::ArgumentError;

pub(crate) static HISTORY: Group =
    group("history options", "tacho options", "A local store of results, which tacho history reads.");

pub(crate) const DIRECTORY: Flag = tacho(
    &["--history"],
    Kind::Str,
    "DIR",
    DefaultValue::Unset,
    &HISTORY,
    "Directory of a history, to which the result is added when the run ends. tacho history lists it, finds changes and makes a \
     site of it. TACHO_HISTORY sets it for all commands.",
);
pub(crate) const TAG: Flag = tacho(
    &["--tag"],
    Kind::Str,
    "KEY=VALUE",
    DefaultValue::Unset,
    &HISTORY,
    "Tags of the result in the history, separated by commas, such as commit=1a2b3c4,branch=main. Can be repeated.",
)
.joining();
pub(crate) const TAG_GIT: Flag = switch(
    &["--tag-git"],
    &HISTORY,
    "Tag the result with commit and branch: those that GitHub Actions, GitLab CI, Buildkite or Jenkins name, or else those \
     of the git repository around the current directory.",
);

flags! {
    HistoryArgs {
        FLAGS [
            directory: Option<PathBuf> = DIRECTORY;
            tags: Option<String> = TAG.needs(&["--history"]);
            git: bool = TAG_GIT.needs(&["--history"]);
        ]
    }
}

/// Parses KEY=VALUE,…; a part without `=` belongs to the value before it.
pub(crate) fn pairs(setting: Setting<'_>) -> Result<Pairs, ArgumentError> {
    split(setting.flag, setting.value.as_str())
}

pub(crate) type Pairs = Vec<(String, String)>;

pub(crate) fn split(flag: &str, text: Option<&str>) -> Result<Pairs, ArgumentError> {
    let mut found = Pairs::new();
    for part in text.into_iter().flat_map(|text| text.split(',')) {
        match (part.split_once('='), found.last_mut()) {
            (Some((key, value)), _) if !key.trim().is_empty() => {
                found.push((key.trim().to_owned(), value.trim().to_owned()));
            }
            (None, Some((_, before))) => *before += &format!(",{part}"),
            _ => return Err(ArgumentError::other(format!("{} {}: write KEY=VALUE", flag, quoted(part)))),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_separated_by_commas_which_values_may_contain() {
        let read = |text: &str| split("--tag", Some(text)).ok();
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(read("a=1,b=x=y,z,c="), Some(vec![pair("a", "1"), pair("b", "x=y,z"), pair("c", "")]));
        assert_eq!([read("a"), read("=1"), read("")], [None, None, None]);
    }
}
