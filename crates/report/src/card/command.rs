//! The command of a run, reduced to the flags that affect its result.

use tacho_core::command::{quoted, split};

/// Flags for files and display, and whether a value follows.
const NOT_NEEDED: [(&str, bool); 16] = [
    ("--card", true),
    ("--report", true),
    ("--save-result", false),
    ("--save-detailed", false),
    ("--append-result", false),
    ("--result-dir", true),
    ("--result-filename", true),
    ("--save-requests", true),
    ("--summary-json", true),
    ("--plot-timeline", false),
    ("--plot-dataset-stats", false),
    ("--log", true),
    ("--live", false),
    ("--disable-tqdm", false),
    ("--quiet", false),
    ("--no-charts", false),
];
/// The words of a shell command, quoted, without the program's path and the flags for output.
pub(super) fn to_repeat(command: &str) -> Vec<String> {
    let mut args = split(command).unwrap_or_default().into_iter();
    let name = |path: String| path.rsplit('/').next().unwrap_or("tacho").to_owned();
    let mut kept: Vec<String> = args.next().map(name).into_iter().collect();
    while let Some(word) = args.next() {
        let (flag, has_value) = word.split_once('=').map_or((word.as_str(), false), |(flag, _)| (flag, true));
        match NOT_NEEDED.iter().find(|(known, _)| *known == flag) {
            Some((_, true)) if !has_value => drop(args.next()),
            Some(_) => {}
            None => kept.push(word),
        }
    }
    quoted(&kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_repeats_the_run_stays() {
        let command = "/usr/local/bin/tacho serve --model m --save-result --result-dir 'my results' --card=a.png \
                       --extra-body '{\"a\": \"it'\\''s\"}' --card b.png --seed 7";
        let kept = to_repeat(command);
        let expected = ["tacho", "serve", "--model", "m", "--extra-body", "'{\"a\": \"it'\\''s\"}'", "--seed", "7"];
        assert_eq!(kept, expected);
        assert_eq!(to_repeat(""), Vec::<String>::new());
    }
}
