//! What other tools call things. The page about moving over is the list: what it says in its tables is what you get
//! if you type a flag, a value or a command as at home.

use tacho_args::help::{columns, paragraph};

const PAGE: &str = include_str!("../../../../docs/migrating.md");

/// A row of the page's tables; the first of a table has the commands.
#[derive(Debug, Clone, Copy)]
struct Row {
    /// Where people come from.
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

/// Every piece of code of the left columns, in words.
fn pieces() -> impl Iterator<Item = (Row, Vec<&'static str>)> {
    let words = |code: &'static str| code.split(' ').collect();
    rows().flat_map(move |row| row.theirs.split('`').skip(1).step_by(2).map(move |code| (row, words(code))))
}

/// What does here what a flag does elsewhere, with the word behind it where that decides.
pub(crate) fn flag(name: &str, value: Option<&str>) -> Option<String> {
    let named = || pieces().filter(|(_, words)| words[0] == name);
    let (row, _) =
        named().find(|(_, words)| value.is_some() && words.get(1).copied() == value).or_else(|| named().next())?;
    Some(row.advice(name))
}

/// What does here what a value of a flag does elsewhere.
pub(crate) fn value(name: &str, value: &str) -> Option<String> {
    let (row, _) = pieces().find(|(_, words)| words[..] == [name, value])?;
    Some(row.advice(&format!("{name} {value}")))
}

/// The same for a value whose flag has taken none.
pub(crate) fn stray(value: &str) -> Option<String> {
    let (_, words) = pieces().find(|(_, words)| words[0].starts_with('-') && words.get(1) == Some(&value))?;
    self::value(words[0], value)
}

/// The command that is one elsewhere.
pub(crate) fn command(word: &str) -> Option<String> {
    let called = |words: &[&str]| words.iter().any(|part| *part == word || part.rsplit('.').next() == Some(word));
    let (row, _) = pieces().find(|(_, words)| !words[0].starts_with('-') && called(words))?;
    Some(row.advice(word))
}

/// The tables of the page.
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

/// A row of two columns; a left one that is too long has separate lines.
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

    /// Whether words of a flag's form are flags of `tacho serve`, or belong to another command that is named before.
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
