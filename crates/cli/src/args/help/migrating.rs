//! Names in other tools. The migration page is the single source: its tables provide the hints for flags, values, and
//! commands of other tools.

use tacho_args::help::{columns, paragraph};

const PAGE: &str = include_str!("../../../../../docs/migrating.md");

/// A row of the page's tables; the first row of a table has the commands.
#[derive(Debug, Clone, Copy)]
struct Row {
    tool: &'static str,
    theirs: &'static str,
    ours: &'static str,
}

fn rows() -> impl Iterator<Item = Row> {
    let mut tool = "";
    PAGE.lines().filter_map(move |line| {
        tool = line.strip_prefix("## From ").unwrap_or(tool);
        let (theirs, ours) = line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | ")?;
        Some(Row { tool, theirs, ours })
    })
}

fn plain(text: &str) -> String {
    text.replace('`', "")
}

impl Row {
    fn advice(&self, typed: &str) -> String {
        format!("{typed} is known from {}; here: {}", plain(self.tool), plain(self.ours))
    }
}

/// Every code span of the left columns, split into words.
fn pieces() -> impl Iterator<Item = (Row, Vec<&'static str>)> {
    let words = |code: &'static str| code.split(' ').collect();
    rows().flat_map(move |row| row.theirs.split('`').skip(1).step_by(2).map(move |code| (row, words(code))))
}

/// Returns tacho's equivalent of another tool's flag, considering the value if the page names one.
pub(crate) fn flag(name: &str, value: Option<&str>) -> Option<String> {
    let named = || pieces().filter(|(_, words)| words[0] == name);
    let (row, _) =
        named().find(|(_, words)| value.is_some() && words.get(1).copied() == value).or_else(|| named().next())?;
    Some(row.advice(name))
}

/// Returns tacho's equivalent of a value of a flag.
pub(crate) fn value(name: &str, value: &str) -> Option<String> {
    let (row, _) = pieces().find(|(_, words)| words[..] == [name, value])?;
    Some(row.advice(&format!("{name} {value}")))
}

/// Like `value`, if the preceding flag does not take a value.
pub(crate) fn stray(value: &str) -> Option<String> {
    let (_, words) = pieces().find(|(_, words)| words[0].starts_with('-') && words.get(1) == Some(&value))?;
    self::value(words[0], value)
}

/// Returns tacho's equivalent of another tool's command.
pub(crate) fn command(word: &str) -> Option<String> {
    let called = |words: &[&str]| words.iter().any(|part| *part == word || part.rsplit('.').next() == Some(word));
    let (row, _) = pieces().find(|(_, words)| !words[0].starts_with('-') && called(words))?;
    Some(row.advice(word))
}

pub(crate) fn listing(width: usize) -> String {
    let mut out = String::new();
    let mut before = "";
    for Row { tool, theirs, ours } in rows() {
        if tool != before {
            out += &format!("\n{}\n", paragraph(&format!("from {}:", plain(tool)), width));
            before = tool;
        }
        out += &entry(&plain(theirs), &plain(ours), width);
    }
    out
}

/// A row of two columns; an entry that is too wide for the left column gets a separate line.
fn entry(theirs: &str, ours: &str, width: usize) -> String {
    if theirs.chars().count() + 2 <= width {
        return columns(theirs, ours, width * 2 / 5, width);
    }
    let above = paragraph(theirs, width - 2).replace('\n', "\n  ");
    format!("  {above}\n{}", columns("", ours, width * 2 / 5, width))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_args::flag::Table;

    const SERVE: &Table = &crate::args::serve::TABLE;

    /// Returns the flags in `text` that `tacho serve` does not have; code spans that name another command are
    /// skipped.
    fn unknown_flags(text: &str) -> Vec<String> {
        let code = text.split('`').skip(1).step_by(2).filter(|code| !code.starts_with("tacho "));
        let words = code.flat_map(|code| code.split(' ')).filter(|word| word.starts_with("--"));
        words.filter(|word| SERVE.find(word).is_none()).map(str::to_owned).collect()
    }

    #[test]
    fn what_the_page_offers_is_there() {
        for row in rows() {
            assert!(unknown_flags(row.ours).is_empty(), "{row:?}");
        }
    }

    #[test]
    fn every_flag_that_the_page_translates_is_answered() {
        let mut seen = 0;
        for (row, words) in pieces().filter(|(_, words)| words[0].starts_with('-') && SERVE.find(words[0]).is_none()) {
            let advice = flag(words[0], words.get(1).copied()).unwrap();
            assert!(advice.contains(&plain(row.ours)), "{words:?}: {advice}");
            seen += 1;
        }
        assert!(seen > 60, "{seen}");
    }

    #[test]
    fn commands_and_values_are_known_too() {
        for word in ["profile", "benchmark", "bench_serving", "sglang.bench_serving"] {
            assert!(command(word).unwrap().contains("tacho serve"), "{word}");
        }
        assert_eq!(command("serve-it"), None);
        assert!(value("--endpoint-type", "chat").unwrap().ends_with("here: --backend openai-chat"));
        assert!(stray("concurrent").unwrap().ends_with("here: --max-concurrency N"));
        assert_eq!((value("--endpoint-type", "nope"), stray("nope"), flag("--nope", None)), (None, None, None));
    }

    #[test]
    fn tables_are_read_whole() {
        let lines = PAGE.lines().filter(|line| line.starts_with('|') && !line.starts_with("|--")).count();
        assert_eq!(rows().count(), lines);
    }
}
